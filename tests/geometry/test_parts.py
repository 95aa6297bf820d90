"""Counts dealt to parts of different cells: integers that add up to those of all cells."""

import numpy as np
import pytest
from checks import assert_same_bits, assert_same_fields

import cmfast

pytestmark = pytest.mark.exhaustive

RNG = np.random.default_rng(5)
N = 3000
Y, P = RNG.integers(0, 4, (2, N))
X = RNG.normal(size=(N, 3)) + Y[:, None]
GRIDS = {
    "keys": cmfast.Grid.scott(X),
    "ranks": cmfast.Grid([0.0] * 3, [1e-9] * 3),
    "one": cmfast.Grid([-99.0] * 3, [1e9] * 3),
}
TABLE = 10.0 ** RNG.uniform(-30, 30, (4, 4))  # integers of more than one word


def rows(cells):
    """Return the triples of counts as a dictionary."""
    return dict(
        zip(
            map(tuple, np.column_stack([cells.cells, cells.labels, cells.predictions]).tolist()),
            cells.counts.tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("n_parts", [1, 2, 5, 1000])
@pytest.mark.parametrize("name", GRIDS)
def test_parts_have_different_cells_and_are_the_whole(name, n_parts):
    lost = X.copy()
    lost[7] = np.nan
    cells = cmfast.cell_counts(lost, Y, P, grid=GRIDS[name], n_classes=4, on_failure="ignore")
    parts = cells.deal(n_parts)
    assert len(parts) == n_parts
    owners = {}
    for k, part in enumerate(parts):
        for cell in map(tuple, part.cells.tolist()):
            assert owners.setdefault(cell, k) == k
    assert cmfast.CellCounts.merge(parts) == cells
    assert sum(map(len, parts)) == len(cells)
    assert {key: n for part in parts for key, n in rows(part).items()} == rows(cells)
    assert [part.n_dropped for part in parts] == [1] + [0] * (n_parts - 1)
    if name == "ranks" and n_parts == 5:  # 3000 cells: 600 in a part, give or take 22
        assert all(abs(len(part) - 600) < 110 for part in parts)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("weights", ["bi", ["row", TABLE, "col"]], ids=["bi", "list"])
@pytest.mark.parametrize("n_parts", [1, 5, 1000])
@pytest.mark.parametrize("name", GRIDS)
def test_diagnostics_of_parts_are_those_of_the_whole(name, n_parts, weights):
    lost = X.copy()
    lost[7] = np.nan
    cells = cmfast.cell_counts(lost, Y, P, grid=GRIDS[name], n_classes=4, on_failure="ignore")
    found, want = cmfast.diagnose(cells.deal(n_parts), weights, rng=3), cmfast.diagnose(cells, weights, rng=3)
    assert_same_fields(found, want)


@pytest.mark.parametrize("name", GRIDS)
def test_a_cell_has_one_part_whatever_points_it_is_counted_of(name):
    """Keys depend on the range of the points and on what else is counted, the number of the part does not."""
    options = {"grid": GRIDS[name], "n_classes": 4}
    whole = cmfast.cell_counts(X, Y, P, **options).deal(3)
    some = [
        cmfast.cell_counts(X[a : a + 700], Y[a : a + 700], P[a : a + 700], n_parts=3, **options)
        for a in range(0, N, 700)
    ]
    for k in range(3):
        merged = cmfast.CellCounts.merge(each[k] for each in some)
        assert merged == whole[k]
        assert cmfast.CellCounts.from_bytes(whole[k].to_bytes()) == whole[k]


@pytest.mark.parametrize(
    "weights",
    ["all", "bi", TABLE, ["row", TABLE, "col"], [[[1, 1, 1, 1]] * 4]],
    ids=["all", "bi", "wide", "list", "constant"],
)
@pytest.mark.parametrize("name", GRIDS)
def test_matrices_of_parts_have_the_bits_of_the_whole(name, weights):
    weights = (
        [np.array(w, float) for w in weights]
        if isinstance(weights, list) and not isinstance(weights[0], str)
        else weights
    )
    cells = cmfast.cell_counts(X, Y, P, grid=GRIDS[name], n_classes=4)
    for n_parts in (1, 4, 50):
        assert_same_bits(cmfast.gcm(cells.deal(n_parts), weights), cmfast.gcm(cells, weights))


def test_weights_without_an_answer_are_reported_as_of_the_whole():
    bad = np.ones((4, 4))
    bad[0, 0] = -1
    cells = cmfast.cell_counts(X, np.where(Y == 3, 2, Y), P, grid=GRIDS["keys"], n_classes=4)
    for weights in (bad, "bi", [bad, "row"]):
        with pytest.warns(cmfast.FailureWarning) as wanted:
            want = cmfast.gcm(cells, weights)
        with pytest.warns(cmfast.FailureWarning) as caught:
            found = cmfast.gcm(cells.deal(3), weights)
        assert [str(w.message) for w in caught] == [str(w.message) for w in wanted]
        assert_same_bits(found, want)


def test_no_points_in_parts():
    cells = cmfast.cell_counts(np.empty((0, 3)), Y[:0], P[:0], grid=GRIDS["keys"], n_classes=4)
    assert_same_bits(cmfast.gcm(cells.deal(3), "row"), cmfast.gcm(cells, "row"))


def test_tensors_in_parts():
    torch = pytest.importorskip("torch")
    cells = cmfast.cell_counts(*map(torch.from_numpy, (X, Y, P)), grid=GRIDS["keys"], n_classes=4)
    parts = cells.deal(3)
    assert isinstance(parts[0].counts, torch.Tensor)
    assert_same_bits(
        cmfast.gcm(parts, ["bi", tensor_table(torch)]).numpy(), cmfast.gcm(cells, ["bi", tensor_table(torch)]).numpy()
    )


def tensor_table(torch):
    """Return the table of many words as a tensor."""
    return torch.from_numpy(TABLE)


@pytest.mark.parametrize(
    ("of", "error", "text"),
    [
        (lambda c: c.deal(0), ValueError, r"CellCounts\.deal: n_parts must be"),
        (lambda c: c.deal(2.5), TypeError, r"CellCounts\.deal: n_parts must be"),
        (lambda c: c.deal(2**17), ValueError, r"CellCounts\.deal: n_parts must be"),
        (lambda c: cmfast.gcm([], "row"), ValueError, "gcm: cells must be at least one part, got none"),
        (lambda c: cmfast.gcm([c, 3], "row"), (TypeError, ValueError), r"gcm: cells\[.\] must be"),
        (lambda c: cmfast.gcm([c, c], "row"), ValueError, r"gcm: cells\[0\] must be part 0 of 2, as Cell"),
        (lambda c: cmfast.gcm(c.deal(2)[::-1], "row"), ValueError, r"gcm: cells\[0\] must be part 0 of 2"),
    ],
)  # fmt: skip
def test_what_is_refused(of, error, text):
    cells = cmfast.cell_counts(X, Y, P, grid=GRIDS["keys"], n_classes=4)
    with pytest.raises(error, match=f"^{text}"):
        of(cells)
