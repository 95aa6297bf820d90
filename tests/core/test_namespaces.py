"""Arrays of namespaces that follow the array API standard: results are of the namespace, with the bits of NumPy's.

array-api-strict has nothing but what the standard demands, so an expression that relies on more is found here.
"""

import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from callables import ENTRIES, call, tensors
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast._core.adapters import adapter

strict = pytest.importorskip("array_api_strict")

Array = type(strict.ones(1))
M = np.array([[[4.0, 1.0], [2.0, 3.0]], [[1.0, 0.0], [5.0, 2.0]]])
Y, P = np.array([0, 1, 2, 2, 1, 0, 2]), np.array([0, 2, 2, 1, 1, 0, 2])
X = np.random.default_rng(0).normal(size=(40, 3))
NAMES = [name for name, entry in ENTRIES.items() if entry.arrays and "path" not in entry.others]


def made(array):
    """Return an array of the strict namespace, in memory of its own."""
    return strict.asarray(np.array(array))


def arrays_of(found):
    """Yield the arrays in a result of any kind, and in what it holds."""
    if isinstance(found, np.ndarray | np.generic | Array | torch.Tensor):
        yield found
    elif isinstance(found, dict | tuple | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from arrays_of(part)
    elif is_dataclass(found):
        for field in fields(found):
            yield from arrays_of(getattr(found, field.name))
    elif isinstance(found, cmfast.ConfusionCounts):
        yield found.matrix


@pytest.mark.parametrize("name", NAMES)
def test_every_function_takes_and_gives_them(name):
    """Where tensors give tensors; what is on the host beside those is so here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        got, want = (list(arrays_of(call(ENTRIES[name], make))) for make in (made, np.asarray))
        kinds = [isinstance(x, torch.Tensor) for x in arrays_of(call(ENTRIES[name], tensors))]
    assert len(got) == len(want) == len(kinds)
    for one, other, in_kind in zip(got, want, kinds, strict=True):
        assert isinstance(one, Array) == in_kind
        assert_same_bits(np.asarray(one), np.asarray(other))


CALLS = {
    "interval": lambda M: cmfast.uncertainty.interval(M, ["mcc", "recall"], n_resamples=30),
    "normal": lambda M: cmfast.uncertainty.interval(M, ["mcc"], method="normal"),
    "wilson": lambda M: cmfast.uncertainty.interval(M, ["accuracy", "recall"], method="wilson", n=30),
    "of cells": lambda M: cmfast.uncertainty.interval(M, of="row", n_resamples=30),
    "of cells, normal": lambda M: cmfast.uncertainty.interval(M, of="row", method="normal"),
    "of clusters": lambda M: cmfast.uncertainty.interval(M, ["mcc"], method="normal", clusters=True),
    "posterior": lambda M: cmfast.uncertainty.posterior(M, "mcc", n_resamples=9).probability(0.1),
    "limits": lambda M: cmfast.importance_weights(M, "bi"),
    "target": lambda M: cmfast.importance_weights(M, target=M),
    "estimate": lambda M: cmfast.estimate_for_target(M, target=M),
    "averages": lambda M: cmfast.metrics.compute(M, ["recall", "f1_weighted"], average_over=[0]),
    "classes": lambda M: cmfast.metrics.one_vs_rest(M, classes=[1]),
    "path": lambda M: cmfast.contingency.learning_path(M, name="mcc"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning", "ignore::cmfast.FailureWarning")
def test_ways_through_functions_of_matrices(name):
    for given in (M, M.astype(np.int64)):
        got, want = (list(arrays_of(CALLS[name](make(given)))) for make in (made, np.asarray))
        assert got
        for one, other in zip(got, want, strict=True):
            assert isinstance(one, Array)
            assert_same_bits(np.asarray(one), np.asarray(other))


OPTIONS = {
    "found": {},
    "labels": {"labels": [2, 0]},
    "ignored": {"ignore_index": 1},
    "normalized": {"normalize": "bi"},
    "as one": {"sample_axes": None},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("first", "step"), [(0, 1), (3, 1), (-1, 1000)])
def test_labels(options, first, step):
    y, p = (first + step * x for x in (Y, P))
    if "labels" in options:
        options = {"labels": [first + step * label for label in options["labels"]]}
    if "ignore_index" in options:
        options = {"ignore_index": first + step * options["ignore_index"]}
    found = cmfast.confusion_matrix(made(y), made(p), **options)
    assert isinstance(found, Array)
    assert_same_bits(np.asarray(found), cmfast.confusion_matrix(y, p, **options))
    if "normalize" not in options:
        sums = cmfast.metrics.label_margins(made(y), made(p), **options) if "labels" not in options else ()
        values = cmfast.metrics.from_labels(made(y), made(p), ["recall"], **options)
        assert all(isinstance(x, Array) for x in (*sums, *values.values()))
        want = cmfast.metrics.from_labels(y, p, ["recall"], **options)
        assert_same_bits(np.asarray(values["recall"]), want["recall"])


@pytest.mark.parametrize("weights", ["row", ["row", "bi"]])
@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_points(weights):
    y = np.arange(40) % 3
    points = [[make(x) for x in (X, y, y[::-1].copy())] for make in (made, np.asarray)]
    got, want = (cmfast.geometric_confusion_matrix(*some, weights=weights, n_components=2) for some in points)
    assert isinstance(got.matrix, Array)
    assert_same_bits(np.asarray(got.matrix), want.matrix)
    assert got.cells.n_points == 40
    assert_same_bits(np.asarray(got.cells.labels), want.cells.labels)


def test_results_are_on_the_device_of_the_arrays():
    there = strict.asarray(M[:1], device=strict.Device("device1"))
    assert cmfast.normalize(there, "row").device == there.device
    assert cmfast.ipf(there).row_scale.device == there.device
    with pytest.raises(TypeError, match=r"^overlap: arrays must be on one device, got A on .*CPU.*, B on .*device1"):
        cmfast.overlap(made(M), there)


def test_arrays_are_shared_and_results_are_not():
    array = made(M)
    assert np.shares_memory(adapter(array).to_host(array), array._array)
    found = cmfast.normalize(array, "all")
    assert not np.shares_memory(np.asarray(found), array._array)
    found[...] = 0.0  # results can be written to
    assert_same_bits(np.asarray(array), M)


def test_read_only_and_strided_memory():
    host = np.array(M)
    host.flags.writeable = False
    want = cmfast.normalize(M, "row")
    assert_same_bits(np.asarray(cmfast.normalize(strict.asarray(host, copy=False), "row")), want)
    reversed_ = made(M[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    assert_same_bits(np.asarray(cmfast.normalize(reversed_, "row")), want)


def test_results_that_are_read_only_or_strided_are_copied():
    like, host = made(M), np.arange(6.0).reshape(2, 3)
    fixed = host.view()
    fixed.flags.writeable = False
    for given in (fixed, host.T, host[:, ::-1]):
        out = adapter(like).from_host(given, like)
        assert_same_bits(np.asarray(out), np.ascontiguousarray(given))
        assert not np.shares_memory(np.asarray(out), host)
    assert np.shares_memory(np.asarray(adapter(like).from_host(host, like)), host)


class Elsewhere:
    """An array of a namespace, in the memory of a device."""

    device = "gpu:3"
    dtype = "float64"

    def __array_namespace__(self, api_version=None):
        """Return the namespace."""
        return np

    def __dlpack_device__(self):
        """Return CUDA, device 3."""
        return 2, 3

    def __dlpack__(self, **_):
        """Do what must not happen."""
        pytest.fail("the data was asked for")


class Untold(Elsewhere):
    """An array of a namespace whose memory nobody can share, as one without values."""

    def __dlpack_device__(self):
        """Fail, as libraries do of arrays that have yet to be computed."""
        msg = "no values yet"
        raise ValueError(msg)

    def __dlpack__(self, **_):
        """Fail."""
        msg = "no values yet"
        raise ValueError(msg)


class Readable:
    """An array of a namespace without DLPack, which NumPy can read."""

    def __array_namespace__(self, api_version=None):
        """Return some namespace."""
        return np

    def __array__(self, dtype=None, copy=None):
        """Return values, in silence."""
        return np.eye(2, dtype=dtype)


REFUSED = {
    "device": (Elsewhere, r"M is a .*Elsewhere on gpu:3; cmfast has no adapter for it, so copy it to the host first$"),
    "values": (
        Untold,
        r"M must be an array whose memory DLPack shares, got a .*Untold of dtype float64: no values yet",
    ),
    "dlpack": (Readable, r"M must be an array whose memory DLPack shares, .*__dlpack__.*; give numpy.asarray\(M\)$"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_memory_on_the_host_is_refused(name):
    kind, text = REFUSED[name]
    for function in (cmfast.bi_normalize, cmfast.metrics.compute):
        with pytest.raises(TypeError, match=f": {text}"):
            function(kind())


@pytest.mark.parametrize("device", ["no_float64", "no_x64"])
def test_devices_that_cannot_hold_results_are_refused(device):
    known = {str(d): d for d in strict.__array_namespace_info__().devices()}
    one = next((d for name, d in known.items() if device in name), None)
    if one is None:
        pytest.skip("this release has no such device")
    array = strict.ones((2, 2), dtype=strict.float32, device=one)
    missing = "float64" if device == "no_float64" else "int64 and float64"
    with pytest.raises(TypeError, match=rf"^normalize: M must be of a library .* on .*{device}.* without {missing};"):
        cmfast.normalize(array, "row")


def test_namespaces_are_libraries_of_their_own():
    with pytest.raises(TypeError, match="one library, got A from array_api_strict, B from numpy"):
        cmfast.overlap(made(M), M)
    found = cmfast.confusion_matrix(made(Y), P.tolist())
    assert_same_bits(np.from_dlpack(found), cmfast.confusion_matrix(Y, P))
    assert adapter(made(M)) is adapter(made(Y))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_types_that_are_no_real_numbers(dtype):
    with pytest.raises(TypeError, match=f"M must be real numbers of at most 64 bits, got dtype {dtype}"):
        cmfast.normalize(strict.ones((2, 2), dtype=getattr(strict, dtype)), "row")


def test_counts_go_on_in_kind():
    counts = cmfast.ConfusionCounts(n_classes=3)
    for _ in range(2):
        counts.update(made(Y), made(P))
    both = counts + counts
    assert isinstance(both.matrix, Array)
    assert_same_bits(np.asarray(both.matrix), 4 * cmfast.confusion_matrix(Y, P))
    assert (
        cmfast.ConfusionCounts.from_bytes(counts.to_bytes()).matrix.tolist()
        == (2 * cmfast.confusion_matrix(Y, P)).tolist()
    )
