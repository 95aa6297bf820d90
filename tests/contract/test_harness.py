"""The tests are tested: planted faults must fail, each for its own reason, and honest results must pass."""

import re
import warnings

import hypothesis
import numpy as np
import pytest
from backends import BACKENDS
from cases import CASES
from checks import assert_matches, assert_same_bits
from conformance import check, expected
from describe import describe_call, describe_value
from first_line import reword, reword_group
from hypothesis.strategies import integers
from optional import torch
from short_cases import list_cases

import cmfast

BACKEND = {backend.name: backend for backend in BACKENDS}
HONEST = {name: getattr(cmfast, name) for name in ("confusion_matrix", "overlap", "normalize", "ipf")}


def conforms(monkeypatch, op, case_id, function, backend="numpy"):
    """Put `function` in the place of `op`, and run its conformance test on one case."""
    monkeypatch.setattr(cmfast, op, function)
    case = next(case for case in CASES[op] if case.id == case_id)
    check(op, case, BACKEND[backend])


def after(op, change):
    """Return `op` with `change` applied to what it returns."""
    return lambda *args, **options: change(HONEST[op](*args, **options))


def before(op, change):
    """Return `op` with `change` applied to its first array, in place, when it has done its work."""

    def function(first, *args, **options):
        result = HONEST[op](first, *args, **options)
        change(first)
        return result

    return function


def warned(op, *how):
    """Return `op`, silent by itself, with a warning for each (category, stacklevel) of `how`."""

    def function(*args, **options):
        result = HONEST[op](*args, **{**options, "on_failure": "ignore"})
        for category, level in how:
            warnings.warn("planted", category, stacklevel=level)
        return result

    return function


def _write(array, value):
    array[0] = value


def _written(array, index, value):
    array = np.array(array)
    array[index] = value
    return array


@pytest.mark.parametrize("backend", ["numpy", "strided", "torch"])
@pytest.mark.parametrize(
    ("op", "case"),
    [("confusion_matrix", "int64"), ("overlap", "counts"), ("normalize", "row-counts"), ("ipf", "counts")],
)
def test_honest_results_pass(monkeypatch, op, case, backend):
    conforms(monkeypatch, op, case, HONEST[op], backend)


FAILURE, HERE = cmfast.FailureWarning, 2

TOLERANCE = r"got .*, expected .* within rtol 1e-1[123] \(\d+ of \d+ differ\)$"
COUNTS = r"\[\d+, \d+, \d+\]: got \d+, expected \d+ \(\d+ of \d+ differ\)$"
CHANGED = r"argument 1 was changed: \[.*\]: got .*, expected "

FAULTS = {
    "dtype-float32": (
        "overlap",
        "counts",
        after("overlap", lambda out: out.astype(np.float32)),
        "got dtype float32, expected float64",
    ),
    "dtype-int32": (
        "confusion_matrix",
        "rows",
        after("confusion_matrix", lambda M: M.astype("i4")),
        "got dtype int32, expected int64",
    ),
    "dtype-float": (
        "confusion_matrix",
        "rows",
        after("confusion_matrix", lambda M: M.astype(float)),
        "got dtype float64, expected int64",
    ),
    "shape-extra-axis": ("overlap", "counts", after("overlap", lambda out: out[..., None]), "got shape .*, expected "),
    "shape-missing-batch": (
        "confusion_matrix",
        "rows",
        after("confusion_matrix", lambda M: M[0]),
        "got shape .*, expected ",
    ),
    "shape-scalar-for-one": (
        "overlap",
        "broadcast-one",
        after("overlap", lambda out: out[0]),
        "got shape .*, expected ",
    ),
    "library-torch": ("overlap", "counts", after("overlap", torch.from_numpy), "got library torch, expected numpy"),
    "library-list": (
        "confusion_matrix",
        "rows",
        after("confusion_matrix", lambda M: M.tolist()),
        "got library list, expected numpy",
    ),
    "library-python-float": ("overlap", "single", after("overlap", float), "got library float, expected numpy"),
    "one-too-many": (
        "confusion_matrix",
        "rows",
        after("confusion_matrix", lambda M: _written(M, (0, 0, 0), 99)),
        r"\[0, 0, 0\]: got 99, expected ",
    ),
    "beyond-tolerance": (
        "overlap",
        "counts",
        after("overlap", lambda out: out * (1 + 1e-12)),
        TOLERANCE,
    ),
    "float32-inside": (
        "overlap",
        "counts",
        after("overlap", lambda out: out.astype(np.float32).astype(np.float64)),
        TOLERANCE,
    ),
    "axes-swapped": ("confusion_matrix", "rows", after("confusion_matrix", lambda M: M.swapaxes(-1, -2)), COUNTS),
    "batch-reversed": ("overlap", "counts", after("overlap", lambda out: out[::-1]), TOLERANCE),
    "never-written": ("confusion_matrix", "rows", after("confusion_matrix", np.zeros_like), COUNTS),
    "never-written-float": ("overlap", "counts", after("overlap", np.zeros_like), TOLERANCE),
    "input-changed": ("overlap", "counts", before("overlap", lambda S: _write(S, 0)), CHANGED),
    "input-changed-negative-zero": (
        "overlap",
        "minus-zero",
        before("overlap", lambda S: _write(S, S[0] + 0.0)),
        CHANGED,
    ),
    "input-returned": ("normalize", "all-counts", lambda M, *_, **__: M.astype(float), TOLERANCE),
    "neighbour-spoiled": (
        "overlap",
        "bad-first-middle-last",
        lambda *args, **options: warned("overlap", (FAILURE, 3))(*args, **options) * np.nan,
        TOLERANCE,
    ),
    "failure-hidden": (
        "overlap",
        "bad-first-middle-last",
        lambda *args, **options: np.nan_to_num(warned("overlap", (FAILURE, 3))(*args, **options)),
        TOLERANCE,
    ),
    "warning-missing": ("overlap", "no-mass", warned("overlap"), "got 0 failure warnings, expected 1"),
    "warning-extra": ("overlap", "counts", warned("overlap", (FAILURE, HERE)), "got 1 failure warnings .*, expected 0"),
    "warning-twice": (
        "overlap",
        "no-mass",
        warned("overlap", *[(FAILURE, HERE)] * 2),
        "got 2 failure warnings .*, expected 1",
    ),
    "warning-elsewhere": (
        "overlap",
        "no-mass",
        warned("overlap", (FAILURE, 1)),
        "expected one that points at the caller",
    ),
    "warning-of-numpy": (
        "overlap",
        "counts",
        warned("overlap", (RuntimeWarning, HERE)),
        "got RuntimeWarning: planted, expected no such",
    ),
    "part-missing": ("ipf", "counts", after("ipf", lambda result: tuple(result)[:-1]), "got 7 parts, expected 8"),
    "parts-swapped": ("ipf", "counts", after("ipf", lambda r: (r[0], r[2], r[1], *r[3:])), "part 2 "),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_caught(monkeypatch, name):
    op, case, function, reason = FAULTS[name]
    with pytest.raises(AssertionError) as error:
        conforms(monkeypatch, op, case, function)
    first = str(error.value).partition("\n")[0]
    assert re.search(rf"^{op}\(.*\) as numpy: .*{reason}", first), first


def test_warning_that_is_as_it_should_be_passes(monkeypatch):
    """Or the faults above would be caught for a reason that has nothing to do with them."""
    conforms(monkeypatch, "overlap", "no-mass", warned("overlap", (FAILURE, HERE)))


def test_numpy_result_for_a_tensor_is_caught(monkeypatch):
    with pytest.raises(AssertionError, match="got library numpy, expected torch"):
        conforms(monkeypatch, "overlap", "counts", after("overlap", lambda out: out.numpy()), "torch")


@pytest.mark.parametrize("backend", ["numpy", "fortran", "strided", "reversed", "torch"])
def test_changed_input_is_caught_on_every_backend(monkeypatch, backend):
    with pytest.raises(AssertionError):
        conforms(monkeypatch, "overlap", "counts", before("overlap", lambda S: _write(S, 0)), backend)


def test_one_count_is_not_within_tolerance():
    want = np.array([10**15])
    assert_matches("confusion_matrix", want.copy(), want)
    with pytest.raises(AssertionError):
        assert_matches("confusion_matrix", want + 1, want)


@pytest.mark.parametrize(
    "other",
    [np.nextafter([1.0, 0.0], 2), np.array([1.0, -0.0]), np.float32([1, 0]), np.array([[1.0, 0.0]]), [1.0, 0.0]],
    ids=["one-ulp", "minus-zero", "dtype", "shape", "class"],
)
def test_same_bits_means_it(other):
    assert_same_bits(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    with pytest.raises(AssertionError):
        assert_same_bits(np.array([1.0, 0.0]), other)


def test_nan_is_not_a_number_within_tolerance():
    with pytest.raises(AssertionError):
        assert_matches("overlap", np.array([np.nan]), np.array([0.5]))
    with pytest.raises(AssertionError):
        assert_matches("overlap", np.array([0.5]), np.array([np.nan]))
    assert_matches("overlap", np.array([np.nan]), np.array([np.nan]))


def test_the_oracle_of_a_case_is_not_trivial():
    """A result of zeros, or the input itself, must not satisfy every case of an op."""
    for op, cases in CASES.items():
        some = [*list_cases(op), *cases]  # first those that the oracle is asked for in any run
        parts = (np.asarray(getattr(part, "low", part)) for case in some for part in expected(op, case))
        assert any(part.size > 1 and np.any(part != 0) for part in parts), op


def first_line(function, *args, **options):
    """Return the first line of the AssertionError that a call raises, which is what pytest's summary shows."""
    with pytest.raises(AssertionError) as error:
        function(*args, **options)
    reword(error.value)
    return str(error.value).partition("\n")[0]


def test_the_first_line_names_call_part_place_and_both_values(monkeypatch):
    def wrong(*args, **options):
        result = HONEST["ipf"](*args, **options)
        return result._replace(col_scale=_written(result.col_scale, (0, 1), 7.25))

    case = next(case for case in CASES["ipf"] if case.id == "counts")
    monkeypatch.setattr(cmfast, "ipf", wrong)
    line = first_line(check, "ipf", case, BACKEND["strided"])
    want = HONEST["ipf"](*case.args, **case.options).col_scale
    assert re.fullmatch(
        r"ipf\(int64 \(.*\), .*tol=.*\) as strided: part 'col_scale' \[0, 1\]: "
        rf"got 7\.25, expected ([-+.e\d]+) within rtol 1e-11 \(1 of {want.size} differ\)",
        line,
    ), line


def test_the_first_line_says_what_was_raised(monkeypatch):
    def wrong(*args, **options):
        msg = "shape mismatch"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(cmfast, "overlap", wrong)
    line = first_line(check, "overlap", next(iter(CASES["overlap"])), BACKEND["numpy"])
    assert re.fullmatch(r"overlap\(.*\) as numpy: got ZeroDivisionError: shape mismatch, expected a result", line), line


def test_the_first_line_of_bits_begins_with_the_statement():
    got, want = (np.array([1.0, 0.5]), 3), (np.array([1.0, np.nextafter(0.5, 1)]), 3)
    line = first_line(lambda: assert_same_bits(got, want))
    assert line == ("assert_same_bits(got, want): part 1 [1]: got 0.5, expected 0.5000000000000001 (1 of 2 differ)")
    line = first_line(assert_same_bits, np.array([0.0]), np.array([-0.0]), what="f(x)")
    assert line == "f(x): [0]: got 0.0, expected -0.0"
    assert first_line(assert_same_bits, (1,), (1, 2), what="f(x)") == "f(x): got 1 parts, expected 2 parts"


@pytest.mark.parametrize(
    ("assertion", "text"),
    [
        (
            lambda: np.testing.assert_allclose(np.array([1.0, 2.0]), [1.0, 3.0], rtol=1e-9),
            (
                "np.testing.assert_allclose(np.array([1.0, 2.0]), [1.0, 3.0], rtol=1e-9): "
                "[1]: got 2.0, expected 3.0 within rtol 1e-09 (1 of 2 differ)"
            ),
        ),
        (
            lambda: np.testing.assert_array_equal([1, 2], [1, 2, 3]),
            "np.testing.assert_array_equal([1, 2], [1, 2, 3]): got shape (2,), expected (3,)",
        ),
        (
            lambda: np.testing.assert_array_equal(["a", "b"], "a"),
            'np.testing.assert_array_equal(["a", "b"], "a"): [1]: got b, expected a (1 of 2 differ)',
        ),
        (
            lambda: np.testing.assert_allclose(np.nan, 1.0),
            "np.testing.assert_allclose(np.nan, 1.0): got nan, expected 1.0 within rtol 1e-07",
        ),
    ],
    ids=["values", "shapes", "texts", "scalars"],
)
def test_the_first_line_of_numpy_testing(assertion, text):
    assert first_line(assertion) == text


def test_the_first_line_of_a_plain_assert():
    def check_total(values, want):
        assert sum(values) == want

    def check_said(values, want):
        assert sum(values) == want, "the total is wrong"

    assert first_line(check_total, [1, 2], 4) == "sum(values) == want: got 3 == 4"
    assert first_line(check_said, [1, 2], 4) == "the total is wrong"


def test_the_first_line_says_where_long_values_differ():
    def check_list(values, want):
        assert values == want

    line = first_line(check_list, list(range(100)), [*range(70), 7, *range(71, 100)])
    assert re.fullmatch(r"values == want: got \[.*\.\.\..*\] \(At index 70 diff: 70 != 7\)", line), line


def test_the_first_line_says_what_raised_or_warned_nothing():
    def check_error(values):
        with pytest.raises(ValueError, match="many"):
            sum(values)

    def check_warning(values):
        with pytest.warns(RuntimeWarning):
            max(values)

    for check_nothing, what in ((check_error, "RAISE"), (check_warning, "WARN")):
        with pytest.raises(pytest.fail.Exception) as error:
            check_nothing([1, 2])
        reword(error.value)
        line = str(error.value).partition("\n")[0]
        body = "sum(values)" if what == "RAISE" else "max(values)"
        assert line.startswith(f"{body}: DID NOT {what}"), line


def test_the_first_line_has_the_example_that_hypothesis_found():
    @hypothesis.given(integers(0, 9))
    def check_small(k):
        assert k < 3

    line = first_line(check_small)
    assert line == "k < 3: got 3 < 3 in check_small( k=3, )"

    @hypothesis.given(integers(0, 9))
    def check_two(k):
        assert k != 3
        assert k != 4

    with pytest.raises(ExceptionGroup) as error:
        check_two()
    line = str(reword_group(error.value))
    assert re.match(r"AssertionError: k != [34]: got [34] != [34] in check_two\( k=[34], \) \(Hyp", line), line


def test_calls_are_described_on_one_line():
    args = np.ones((3, 2)), None, (np.zeros(2, "i4"),), torch.ones(2, dtype=torch.float32)
    line = describe_call("f", args, {"tol": 1e-9, "names": ["a\nb"] * 50}, "strided")
    assert line.startswith(
        "f(float64 (3, 2), None, (int32 (2,),), torch float32 (2,), tol=1e-09, names=['a\\nb', 'a\\nb', "
    )
    assert line.endswith("...) as strided")
    assert describe_value(10**5000) == "an integer of 16610 bits"
