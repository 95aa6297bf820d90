"""The function of docs/howto/coming_from.md that stands for POT's ``ot.batch.solve_batch``, next to POT's."""

import doctest
import warnings

import numpy as np
import pytest
from optional import torch
from processes import ROOT

batch = pytest.importorskip("ot.batch")

pytestmark = pytest.mark.peers
PAGE = (ROOT / "docs" / "howto" / "coming_from.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def solve():
    """Return the function, run from the page."""
    examples = doctest.DocTestParser().get_examples(PAGE[PAGE.index("## POT") :])
    source = next(example.source for example in examples if example.source.startswith("def solve_batch"))
    names = {}
    exec("import cmfast\n" + source, names)
    return names["solve_batch"]


def problems(n, m):
    rng = np.random.default_rng(n)
    cost = rng.random((5, n, m))
    return cost, *(part / part.sum(-1, keepdims=True) for part in (rng.random((5, n)) + 0.5, rng.random((5, m)) + 0.5))


@pytest.mark.parametrize("sizes", [(6, 6), (4, 9)], ids=str)
@pytest.mark.parametrize("reg", [1.0, 0.2])
def test_plans_costs_and_potentials_are_those_of_pot(solve, sizes, reg):
    cost, a, b = problems(*sizes)
    plan, (f, g), value = solve(cost, reg, a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = batch.solve_batch(cost, reg, a, b, max_iter=20_000, tol=1e-13, method="log_sinkhorn")
    np.testing.assert_allclose(plan, want.plan, rtol=1e-8)
    np.testing.assert_allclose(value, want.value_linear, rtol=1e-8)
    np.testing.assert_allclose(np.exp((f[:, :, None] + g[:, None] - cost) / reg), want.plan, rtol=1e-8)


def test_a_start_changes_the_passes_and_not_the_plan(solve):
    cost, a, b = problems(6, 8)
    _, start, _ = solve(cost, 0.1, a, b)
    cold, ends, value = solve(1.05 * cost, 0.1, a, b)
    warm, others, same = solve(1.05 * cost, 0.1, a, b, start=start)
    np.testing.assert_allclose(warm, cold, rtol=1e-7)
    np.testing.assert_allclose(same, value, rtol=1e-7)
    sums = [f[:, :, None] + g[:, None] for f, g in (ends, others)]
    np.testing.assert_allclose(sums[1], sums[0], rtol=1e-7)
    again, _, _ = solve(cost, 0.1, a, b, start=start)
    np.testing.assert_allclose(again, solve(cost, 0.1, a, b)[0], rtol=1e-7)


def test_gradients(solve):
    """The derivative of the dual value with respect to the cost is the plan."""
    cost, a, b = problems(5, 5)
    leaf = torch.tensor(cost, requires_grad=True)
    plan, (f, g), _ = solve(leaf, 0.3, torch.tensor(a), torch.tensor(b))
    dual = (f * torch.tensor(a)).sum() + (g * torch.tensor(b)).sum()
    dual.backward()
    np.testing.assert_allclose(leaf.grad, plan.detach(), rtol=1e-6, atol=1e-9)
