"""JSON states have a digest: no digit changes without a word, however the text is laid out."""

import json
import random

import numpy as np
import pytest
from callables import STATES

import cmfast


@pytest.mark.parametrize("name", STATES)
def test_a_digit_that_changes_is_found_wherever_it_is(name):
    state = STATES[name](np.asarray)
    text = state.to_json()
    digits = [k for k, c in enumerate(text) if c.isdigit()]
    rng = random.Random(5)
    for k in rng.sample(digits, min(60, len(digits))):
        other = rng.choice([c for c in "0123456789" if c != text[k]])
        changed = text[:k] + other + text[k + 1 :]
        try:
            same = json.loads(changed) == json.loads(text)  # as 1e08 and 1e8
        except ValueError:
            same = False
        if same:
            continue
        with pytest.raises(ValueError, match="or is damaged"):
            type(state).from_json(changed)


@pytest.mark.parametrize("name", STATES)
def test_text_that_is_laid_out_otherwise_is_the_same_and_one_without_a_digest_is_read(name):
    state = STATES[name](np.asarray)
    facts = json.loads(state.to_json())
    assert facts["digest"].startswith("sha256:")
    turned = dict(reversed(facts.items()))
    for text in (json.dumps(turned, indent=3), json.dumps(facts, ensure_ascii=False).encode()):
        assert type(state).from_json(text) == state
    facts.pop("digest")  # by hand, or by a version without
    assert type(state).from_json(json.dumps(facts)) == state
    for wrong in ("", "sha256:", 5, [], "sha256:" + "0" * 64):
        with pytest.raises(ValueError, match="digest"):
            type(state).from_json(json.dumps({**facts, "digest": wrong}))


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [1, 5, 70_000])
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_groups_of_bools_may_be_all_the_same(n, value, whole):
    y = np.arange(n) % 2
    groups = np.full(n, value)
    if not whole:
        groups = {"flag": groups, "site": np.array(["a"] * n)}
    counts = cmfast.ConfusionCounts.from_labels(y, y, groups=groups)
    assert counts.groups == ((value,) if whole else ((value, "a"),))
    assert counts.n_samples == n
    if whole and n > 1:
        groups = groups.copy()
        groups[0] = not value
        assert cmfast.ConfusionCounts.from_labels(y, y, groups=groups).groups == (False, True)


def test_bins_that_are_kept_are_true_in_what_is_given_and_in_the_result():
    rng = np.random.default_rng(0)
    rows, columns = np.triu_indices(12)
    values = rng.integers(1, 50, len(rows))
    keep = np.ones(12, bool)
    keep[[2, 7]] = False
    first = cmfast.balance((rows, columns, values, 12), symmetric="upper", keep=keep, min_nnz=2)
    assert (first.kept == keep).all()
    again = cmfast.balance((rows, columns, values, 12), symmetric="upper", keep=first.kept, min_nnz=2)
    assert np.array_equal(again.weights, first.weights, equal_nan=True)
    with pytest.raises(TypeError):
        cmfast.balance((rows, columns, values, 12), symmetric="upper", mask=~keep)
