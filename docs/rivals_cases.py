"""The tables, records and maps that ``rivals.py`` gives to every tool, with the answer of each, which no tool made.

An answer is planted: a table is made of the seed by factors, and its sums are the targets. Where there is no answer a
case says why, and ``tests/margins/test_rivals.py`` proves it by a linear program. Needs NumPy alone, so that it can be
read wherever a tool runs.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Axes = tuple[int, ...]
PAIRS = ((0, 1), (0, 2), (1, 2))
CHAIN = ((0, 1), (1, 2), (2, 3), (0, 3))
TRIPLES = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
TWO_WAY = ((0,), (1,))


class Case(NamedTuple):
    """What is asked, and what is right.

    ``kind`` is "table" (`seed` is one, `targets` are its margins), "records" (`seed` holds design weights, `codes` the
    category of each record in a row per attribute, or, as `counts`, how much each adds to each of the only target) or
    "map" (`seed` is symmetric; all lines shall have one sum). `answer` is None where none exists, and `why` says so.
    """

    name: str
    kind: str
    about: str
    seed: np.ndarray
    targets: list[tuple[Axes, np.ndarray]]
    answer: np.ndarray | None = None
    why: str = ""
    source: str = ""
    codes: np.ndarray | None = None
    counts: np.ndarray | None = None
    bounds: tuple[float, float] | None = None
    other: np.ndarray | None = None  # any table with these targets, whatever its zeros

    @property
    def two_way(self) -> bool:
        """Whether it is a matrix with sums of rows and of columns."""
        return self.kind == "table" and [axes for axes, _ in self.targets] == [*TWO_WAY] and self.seed.ndim == 2


def over(T: np.ndarray, axes: Axes) -> np.ndarray:
    """Return a table summed over all axes but some, which must be in order."""
    return np.asarray(T.sum(tuple(axis for axis in range(T.ndim) if axis not in axes)))


def along(line: np.ndarray, axes: Axes, ndim: int) -> np.ndarray:
    """Return what belongs to the lines of a margin, to be multiplied with a table."""
    sizes = iter(line.shape)
    return line.reshape([next(sizes) if axis in axes else 1 for axis in range(ndim)])


def margins(T: np.ndarray, ways: Sequence[Axes]) -> list[tuple[Axes, np.ndarray]]:
    """Return margins of a table, added up in long double."""
    return [(axes, over(T.astype(np.longdouble), axes).astype(np.float64)) for axes in ways]


def planted(
    name: str,
    about: str,
    shape: Axes,
    ways: Sequence[Axes],
    *,
    filled: float = 1.0,
    sd: float = 1.0,
    seed: int = 0,
    source: str = "",
) -> Case:
    """Return a table of random cells, some of them zero, and its answer: effects of `sd` on all lines of margins."""
    rng = np.random.default_rng(seed)
    cells, effects = rng.normal(size=shape), [rng.normal(0.0, sd, [shape[axis] for axis in axes]) for axes in ways]
    answer = cells + sum(along(effect, axes, len(shape)) for effect, axes in zip(effects, ways, strict=True))
    there = rng.random(shape) < filled
    answer = np.where(there, np.exp(answer - answer[there].max()), 0.0)
    answer /= answer.sum()
    given = np.where(there, np.exp(cells - cells.max()), 0.0)
    return Case(name, "table", about, given, margins(answer, ways), answer, source=source, other=answer)


def matrix(name: str, about: str, M: np.ndarray, rows: np.ndarray, cols: np.ndarray, **more: object) -> Case:
    """Return a matrix with sums of rows and columns."""
    rows, cols = np.array(rows, np.float64), np.array(cols, np.float64)
    other = np.outer(rows, cols) / cols.sum() if rows.sum() == cols.sum() else None
    return Case(name, "table", about, np.array(M, np.float64), [((0,), rows), ((1,), cols)], other=other, **more)  # type: ignore[arg-type]


def _balanced(A: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """Return a matrix with these sums: sweeps in long double until nothing moves."""
    T = A.astype(np.longdouble)
    for _ in range(200_000):
        before = T
        T = T * (rows / T.sum(1))[:, None]
        T *= cols / T.sum(0)
        if (np.abs(T - before) <= 1e-17 * T).all():
            return T.astype(np.float64)
    raise AssertionError


def _matrices() -> list[Case]:
    ones = np.ones(3)
    plain = np.array([[90.0, 5.0, 5.0], [1.0, 30.0, 9.0], [2.0, 1.0, 7.0]])
    slow = np.array([[90.0, 1e-3], [3.001, 60.0]])
    # [[p, 1 - p], [1 - p, p]] with the products of the diagonals as given.
    odds = np.sqrt(slow[0, 0] * slow[1, 1] / slow[0, 1] / slow[1, 0])
    p = odds / (1 + odds)
    few = [[5, 1, 1], [2, 0, 0], [3, 0, 0]]
    hole = plain.copy()
    hole[1, 1] = np.nan
    empty = [[5, 0, 1], [2, 0, 3], [3, 0, 1]]
    rng = np.random.default_rng(4)
    accurate = 1e-6 * (rng.random((10, 10)) + 0.1) + np.diag(rng.random(10) + 0.5)
    factors = np.exp(rng.normal(size=(2, 10)))
    right = accurate * factors[0][:, None] * factors[1]
    return [
        matrix("plain", "3 x 3 counts to ones", plain, ones, ones, answer=_balanced(plain, ones, ones)),
        matrix(
            "decoupled",
            "2 x 2, the small cells move last",
            slow,
            ones[:2],
            ones[:2],
            answer=np.array([[p, 1 - p], [1 - p, p]]),
            source="EleutherAI/gpt-neox#1370",
        ),
        matrix(
            "tiny off-diagonal",
            "10 x 10, a classifier that errs once in a million",
            accurate,
            right.sum(1),
            right.sum(0),
            answer=right,
        ),
        matrix(
            "no such matrix",
            "two rows live in one column",
            few,
            ones,
            ones,
            why="rows 1 and 2 ask 2 of a column that has 1",
            source="aidenlab/juicer#176",
        ),
        matrix(
            "limit",
            "[[1, 1], [0, 1]] to ones",
            [[1, 1], [0, 1]],
            ones[:2],
            ones[:2],
            answer=np.eye(2),
            source="open2c/cooler#235",
        ),
        matrix("NaN", "a cell is no number", hole, ones, ones, why="a cell is no number"),
        matrix(
            "empty column",
            "that must sum to 1",
            empty,
            ones,
            ones,
            why="the column has no cell",
            source="virgesmith/humanleague#50",
        ),
        matrix(
            "totals",
            "rows add up to 100, columns to 101",
            plain,
            [40, 30, 30],
            [40, 30, 31],
            why="totals differ",
            source="UDST/synthpop#29",
        ),
        matrix(
            "zero target",
            "a row must sum to zero",
            plain,
            [0, 30, 30],
            [20, 20, 20],
            source="InseeFr/icarus#18",
            answer=np.vstack([np.zeros(3), _balanced(plain[1:], np.full(2, 30.0), np.full(3, 20.0))]),
        ),
    ]


def _tables() -> list[Case]:
    # Of three pairs; no cell is left for what two lines of one margin ask.
    no = np.ones((2, 2, 2))
    no[0, 0, 0] = no[1, 1, 1] = 0.0
    asked = np.ones((2, 2, 2))
    asked[0, 0, 0], asked[1, 1, 1] = 3.0, 3.0
    asked[0, 0, 1] = asked[0, 1, 0] = asked[1, 0, 0] = 0.25
    asked[1, 1, 0] = asked[1, 0, 1] = asked[0, 1, 1] = 0.25
    cube = np.ones((2, 2, 2))
    corner = np.zeros((2, 2, 2))  # every other cell, and one more, which every table with these margins has empty
    corner[0, 0, 0] = corner[0, 1, 1] = corner[1, 0, 1] = corner[1, 1, 0] = 1.0
    open_cells = corner.copy()
    open_cells[0, 0, 1] = 1.0
    wrong = [((0, 1), np.full((2, 2), 2.0)), ((1, 2), np.array([[3.0, 1.0], [1.0, 3.5]]))]
    noisy = planted("", "", (6, 6, 6), PAIRS, seed=3)
    rng = np.random.default_rng(3)
    conflicting = [(axes, target * np.exp(rng.normal(0.0, 0.05, target.shape))) for axes, target in noisy.targets]
    return [
        planted("easy", "4 x 4 x 4, all pairs", (4,) * 3, PAIRS),
        planted(
            "shared axis",
            "4 axes of 4, all pairs with the first",
            (4,) * 4,
            ((0, 1), (0, 2), (0, 3)),
            sd=2.0,
            source="Dirguis/ipfn#22",
        ),
        planted("contained", "a margin that another one contains", (5, 4, 6), ((0,), (0, 1), (1, 2)), sd=2.0),
        planted("one-way", "5 axes of 4, spread 2", (4,) * 5, tuple((k,) for k in range(5)), sd=2.0),
        planted("dense", "8 x 8 x 8, spread 4", (8,) * 3, PAIRS, sd=4.0),
        planted("sparse", "12 x 12 x 12, 15 % filled", (12,) * 3, PAIRS, filled=0.15),
        planted("spread 3", "12 x 12 x 12, 25 % filled", (12,) * 3, PAIRS, filled=0.25, sd=3.0),
        planted("tiny cells", "12 x 12 x 12, half filled, spread 6", (12,) * 3, PAIRS, filled=0.5, sd=6.0),
        planted("chain", "4 axes of 6, AB BC CD DA, spread 3", (6,) * 4, CHAIN, sd=3.0),
        planted("triples", "4 axes of 5, all triples, 60 % filled", (5,) * 4, TRIPLES, filled=0.6, sd=2.0),
        planted(
            "sparse and spread",
            "20 x 20 x 20, 15 % filled, spread 3",
            (20,) * 3,
            PAIRS,
            filled=0.15,
            sd=3.0,
            seed=1,
            source="statistikat/surveysd#26",
        ),
        planted("beyond the digits", "12 x 12 x 12, 20 % filled, spread 6", (12,) * 3, PAIRS, filled=0.2, sd=6.0),
        Case(
            "pairs without a table",
            "table",
            "2 x 2 x 2, two cells are zero",
            no,
            margins(asked, PAIRS),
            why="what pairs ask cannot be added up",
            source="statistikat/surveysd#26",
            other=asked,
        ),
        Case(
            "pairs with a limit",
            "table",
            "2 x 2 x 2, one of five cells must vanish",
            open_cells,
            margins(corner, PAIRS),
            corner,
            other=corner,
        ),
        Case(
            "pairs that disagree",
            "table",
            "2 x 2 x 2, two margins on the axis that they share",
            cube,
            wrong,
            why="margins disagree",
        ),
        Case(
            "noisy margins",
            "table",
            "6 x 6 x 6, three margins of three surveys",
            noisy.seed,
            conflicting,
            why="margins disagree",
        ),
    ]


def records(
    name: str,
    about: str,
    sizes: Sequence[int],
    *,
    sd: float = 0.5,
    weighted: bool = False,
    n: int = 2000,
    zero: bool = False,
    source: str = "",
) -> Case:
    """Return records of some attributes, and totals of planted weights."""
    rng = np.random.default_rng(len(sizes))
    codes = np.stack([np.concatenate([np.arange(k), rng.integers(0, k, n - k)]) for k in sizes])
    weights = np.exp(rng.normal(0.0, 0.7, n)) if weighted else np.ones(n)
    w = weights.copy()
    for code, k in zip(codes, sizes, strict=True):
        w *= np.exp(rng.normal(0.0, sd, k))[code]
    if zero:
        w[codes[0] == 0] = 0.0
    w *= n / w.sum()
    targets = [((a,), np.bincount(codes[a], w, k)) for a, k in enumerate(sizes)]
    return Case(name, "records", about, weights, targets, w, codes=codes, source=source)


def _records() -> list[Case]:
    plain = records("attributes", "2,000 records, 3 attributes of 5", (5, 5, 5))
    assert plain.codes is not None
    (age, first), *rest = plain.targets
    more = np.append(first, 7.0)  # a category that nobody is of
    grown = [(age, first * 2001 / 2000), *rest]
    twins = np.stack([plain.codes[0], plain.codes[0], plain.codes[2]])
    shifted = first + np.array([40.0, -40.0, 0.0, 0.0, 0.0])
    codes, ones = plain.codes, np.ones(2000)
    rng = np.random.default_rng(9)
    persons = np.column_stack([np.ones(2000), rng.poisson(1.2, 2000), rng.poisson(0.7, 2000)])
    of_persons = np.exp(persons @ [-0.3, 0.4, -0.5])
    total = [((0,), persons.T @ of_persons)]
    income = np.column_stack([np.ones(2000), rng.normal(size=2000)])
    mean_zero = np.exp(income @ [0.1, 0.0])
    mean_zero *= np.exp(-_tilt(income[:, 1], mean_zero) * income[:, 1])
    wide = [((0,), persons.T @ np.clip(of_persons, 0.6, 2.0))]
    capped = _capped(records("", "", (5, 5, 5), sd=0.7), 2.0)
    high = [((0,), persons.T @ np.ones(2000) * [1.0, 1.9, 1.0])]
    return [
        plain,
        records(
            "design weights",
            "the same, of unequal weights",
            (5, 5, 5, 5),
            weighted=True,
            source="facebookresearch/balance#431",
        ),
        records("spread 2", "4 attributes of 6, effects of 2", (6, 6, 6, 6), sd=2.0, source="InseeFr/icarus#14"),
        records(
            "many attributes",
            "25 of 6: a table of 3e19 cells",
            (6,) * 25,
            sd=0.3,
            source="facebookresearch/balance#369",
        ),
        records("zero total", "a category must have no weight", (4, 4, 4), zero=True, source="InseeFr/icarus#18"),
        Case(
            "nobody there",
            "records",
            "a category that no record is of",
            ones,
            [(age, more), *((a, t * (1 + 7 / 2000)) for a, t in rest)],
            codes=codes,
            why="no record is of the category",
            source="virgesmith/humanleague#50",
        ),
        Case(
            "totals of attributes",
            "records",
            "2,001 by one attribute, 2,000 by another",
            ones,
            grown,
            codes=codes,
            why="totals differ",
            source="UDST/synthpop#29",
        ),
        Case(
            "contradiction",
            "records",
            "one attribute twice, with other totals",
            ones,
            [(age, first), ((1,), shifted), rest[1]],
            codes=twins,
            why="one attribute has two totals",
            source="pewresearch/pewmethods#5",
        ),
        Case(
            "persons",
            "records",
            "households with counts of persons",
            ones,
            total,
            of_persons,
            counts=persons,
            source="ActivitySim/populationsim#193",
        ),
        Case(
            "zero of both signs",
            "records",
            "a column whose total is zero",
            ones,
            [((0,), income.T @ mean_zero * [1.0, 0.0])],
            mean_zero,
            counts=income,
            source="InseeFr/icarus#18",
        ),
        Case(
            "bounds",
            "records",
            "weights within 0.6 and 2",
            ones,
            wide,
            counts=persons,
            bounds=(0.6, 2.0),
            source="samplics-org/svy#85",
        ),
        Case(
            "narrow bounds",
            "records",
            "totals that no weights within 0.8 and 1.25 have",
            ones,
            high,
            counts=persons,
            bounds=(0.8, 1.25),
            why="the bounds forbid the totals",
            source="InseeFr/icarus#10",
        ),
        capped,
        Case(
            "few households",
            "records",
            "a zone of 3 households and 4 totals",
            ones[:3],
            [((0,), np.array([4.0, 1.0, 2.0, 9.0]))],
            counts=np.array([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 2.0], [1.0, 0.0, 0.0, 2.0]]),
            why="three totals leave one choice of weights, with 7 persons in place of 9",
            source="ActivitySim/populationsim#68",
        ),
    ]


def _capped(case: Case, most: float) -> Case:
    """Return categories whose totals are those of weights that are cut at `most` times their mean, one."""
    assert case.answer is not None
    assert case.codes is not None
    w = case.answer
    for _ in range(200):
        w = np.minimum(w * len(w) / w.sum(), most)
    targets = [((a,), np.bincount(code, w)) for a, code in enumerate(case.codes)]
    about = f"by categories, no weight above {most:g} times the mean"
    source = "facebookresearch/balance#69"
    return case._replace(name="trimmed", about=about, targets=targets, answer=None, bounds=(0.0, most), source=source)


def _tilt(x: np.ndarray, w: np.ndarray) -> float:
    """Return t so that x adds up to zero with the weights w exp(-t x)."""
    low, high = -50.0, 50.0
    for _ in range(200):
        t = (low + high) / 2
        low, high = (t, high) if (w * np.exp(-t * x)) @ x > 0 else (low, t)
    return low


def involutions(n: int, kept: Callable[[int, int], bool], number: int, seed: int) -> np.ndarray:
    """Return a symmetric matrix whose lines sum to one: pairs of bins that are `kept`, drawn many times."""
    rng = np.random.default_rng(seed)
    B = np.zeros((n, n))
    for _ in range(number):
        free = list(rng.permutation(n))
        while free:
            i = free.pop()
            j = next((j for j in free if kept(i, j)), i)
            if j != i:
                free.remove(j)
            B[i, j] += 1.0
            if j != i:
                B[j, i] += 1.0
    return B / number


def _maps() -> list[Case]:
    rng = np.random.default_rng(2)

    def biased(
        name: str, about: str, B: np.ndarray, source: str = "", size: float = 100.0, spread: float = 0.5
    ) -> Case:
        x = np.exp(rng.normal(0.0, spread, len(B)))
        return Case(name, "map", about, size * B * x[:, None] * x, [], B, source=source)

    n = 40
    plain = involutions(n, lambda i, j: True, 2000, 1)
    band = involutions(200, lambda i, j: abs(i - j) <= 2, 400, 2)
    even = involutions(n, lambda i, j: (i - j) % 2 == 1, 600, 3)
    for i in range(n):
        even[i, i] = 0.0
    even = _balanced(even, np.ones(n), np.ones(n))
    even = (even + even.T) / 2
    apart = biased("isolated bin", "one bin has no contact", plain)
    lonely = apart.seed.copy()
    lonely[5] = lonely[:, 5] = 0.0
    rest = np.delete(np.delete(lonely, 5, 0), 5, 1)
    partner = np.insert(np.insert(_square(rest), 5, 0.0, 0), 5, 0.0, 1)
    pendant = np.eye(6) + 1.0
    pendant[0] = pendant[:, 0] = 0.0
    pendant[0, 1] = pendant[1, 0] = 3.0
    kept = np.zeros((6, 6))
    kept[0, 1] = kept[1, 0] = 1.0
    kept[2:, 2:] = _square(pendant[2:, 2:])
    uneven = np.zeros((7, 7))
    uneven[:3, 3:] = rng.random((3, 4)) + 0.5
    uneven += uneven.T
    star = np.zeros((5, 5))
    star[0, 1:] = star[1:, 0] = [4.0, 3.0, 2.0, 1.0]
    star[0, 0] = 9.0
    ordinary = biased("map", "40 bins, all contacts", plain)
    return [
        ordinary,
        ordinary._replace(name="counts x 1000", about="the same, sequenced deeper", seed=ordinary.seed * 1000),
        ordinary._replace(name="counts / 1000", about="the same, of fewer reads", seed=ordinary.seed / 1000),
        biased("band", "200 bins, contacts up to two away", band, source="aidenlab/juicer#201"),
        biased("bipartite", "no bin meets one of its own half", even, spread=1.0),
        Case("isolated bin", "map", "one bin has no contact", lonely, [], partner, source="open2c/cooler#235"),
        Case("only one partner", "map", "a bin meets one other, which meets more", pendant, [], kept),
        Case(
            "uneven halves",
            "map",
            "3 bins meet 4 others, and nobody else",
            uneven,
            [],
            why="the halves cannot have the same sum",
            source="aidenlab/juicer#176",
        ),
        Case(
            "star",
            "map",
            "4 bins meet one other bin alone",
            star,
            [],
            why="four lines live in one",
            source="aidenlab/juicer#176",
        ),
    ]


def _square(A: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix balanced to ones."""
    B = _balanced(A, np.ones(len(A)), np.ones(len(A)))
    return (B + B.T) / 2


CASES = {case.name: case for group in (_matrices, _tables, _records, _maps) for case in group()}
