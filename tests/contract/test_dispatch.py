"""Which library an argument belongs to, what is converted, what is refused; and what importing costs."""

import ast
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from checks import assert_same_bits
from optional import polars as pl
from optional import torch
from processes import ROOT, python

import cmfast
from cmfast._core import adapters, dispatch
from cmfast._core.adapters import Adapter, _numpy, adapter
from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.ops import OPS

M = np.array([[4.0, 1.0], [2.0, 3.0]])
WANT = np.array([[0.8, 0.2], [0.4, 0.6]])


@pytest.mark.parametrize(
    "same",
    [
        M.tolist(),
        tuple(map(tuple, M.tolist())),
        [M[0], M[1]],
        [M[0].tolist(), M[1]],
        pd.DataFrame(M, index=["a", "b"], columns=["a", "b"]),
        pl.DataFrame(M),
        M.astype(">f8"),
        np.asfortranarray(M),
        M[::-1][::-1],
        memoryview(M),
    ],
    ids=["lists", "tuples", "list-of-arrays", "mixed-rows", "pandas", "polars", "big-endian", "F", "views", "buffer"],
)
def test_whatever_numpy_takes(same):
    assert_same_bits(cmfast.normalize(same, "row"), WANT)


def test_zero_d_results_are_numpy_scalars():
    assert isinstance(cmfast.overlap(M, M), np.float64)
    assert isinstance(cmfast.ipf(M).status, np.int8)


@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        lambda x: np.array(x, object),
        lambda x: np.array(x, np.dtypes.StringDType()),
        pd.Series,
        lambda x: pd.Series(x, dtype=object),
        lambda x: pd.Series(x, dtype="category"),
        pl.Series,
        pa.array,
    ],
    ids=["list", "U", "object", "StringDType", "pandas", "pandas-object", "pandas-category", "polars", "arrow"],
)
def test_strings_from_everywhere(make):
    y, p = make(["cat", "dog", "dog"]), make(["dog", "dog", "cat"])
    assert cmfast.confusion_matrix(y, p).tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize(
    "make",
    [pd.Series, lambda x: pd.Series(x, dtype="Int64"), pl.Series, pa.array, lambda x: pa.chunked_array([x[:1], x[1:]])],
    ids=["pandas", "pandas-Int64", "polars", "arrow", "arrow-chunked"],
)
def test_integers_from_everywhere(make):
    y, p = make([3, 5, 5]), make([5, 5, 3])
    assert cmfast.confusion_matrix(y, p).tolist() == [[0, 1], [1, 1]]


class Elsewhere:
    """An array on some device that there is no adapter for."""

    def __dlpack_device__(self):
        """Return CUDA, device 0."""
        return 2, 0

    def __array__(self, *_, **__):
        """Do what must not happen."""
        pytest.fail("the data was moved to the host")


class Lazy:
    """A collection of Dask's, for what it says of itself."""

    def __dask_graph__(self):
        """Return a graph."""
        return {}

    def __array__(self, *_, **__):
        """Do what must not happen."""
        pytest.fail("the graph was computed")


def test_arrays_on_a_device_are_not_moved():
    with pytest.raises(TypeError, match=r"A is a .*Elsewhere on a device; .*copy it to the host first"):
        cmfast.overlap(Elsewhere(), M)


class Undecided:
    """An array whose type DLPack does not have; strings of some releases of Arrow say so by an error."""

    def __init__(self, error):
        self.error = error

    def __dlpack_device__(self):
        """Fail."""
        raise self.error

    def __array__(self, *_, **__):
        """Return a matrix."""
        return M


@pytest.mark.parametrize("error", [TypeError("type"), ValueError("null"), BufferError("read-only")])
def test_arrays_that_dlpack_does_not_have(error):
    assert_same_bits(cmfast.normalize(Undecided(error), "row"), WANT)


def test_lazy_arrays_are_not_computed():
    with pytest.raises(TypeError, match=r"A is a lazy .*Lazy; .*call \.compute\(\) first"):
        cmfast.overlap(Lazy(), M)


@pytest.mark.torch
def test_numbers_and_lists_go_with_the_arrays_beside_them():
    tensor = torch.from_numpy(M)
    assert_same_bits(cmfast.overlap(tensor, M.tolist()).numpy(), np.asarray(cmfast.overlap(M, M)))
    assert_same_bits(cmfast.overlap(M.tolist(), tensor).numpy(), np.asarray(cmfast.overlap(M, M)))
    found = cmfast.ipf(tensor, [5, 5], (4.0, 6.0)).matrix
    assert_same_bits(found.numpy(), cmfast.ipf(M, [5, 5], (4.0, 6.0)).matrix)
    assert_same_bits(cmfast.confusion_matrix(torch.tensor([0, 1, 1]), [0, 1, 0]).numpy(), np.array([[1, 0], [1, 1]]))
    sets = cmfast.conformal.prediction_sets(tensor / 5, 0.5, randomised=False)
    assert sets.sizes.tolist() == cmfast.conformal.prediction_sets(M / 5, 0.5, randomised=False).sizes.tolist()


@pytest.mark.torch
@pytest.mark.parametrize("labels", [["a", "b"], [1j, 2], [None, 1]])
def test_lists_of_no_numbers_do_not(labels):
    with pytest.raises((TypeError, ValueError), match=r"^confusion_matrix: (arrays must come from one|y_pred must be)"):
        cmfast.confusion_matrix(torch.tensor([0, 1]), labels)


def test_two_libraries():
    with pytest.raises(TypeError, match="one library, got A from numpy, B from torch"):
        cmfast.overlap(M, torch.from_numpy(M))
    text = "one library, got M from torch, row_sums from numpy, col_sums from a Python list; make arrays of torch "
    text += r"of the others, as by torch\.as_tensor\(row_sums\)$"
    with pytest.raises(TypeError, match=text):
        cmfast.ipf(torch.from_numpy(M), np.ones(2), [1, 1])


def test_two_devices():
    class Fake(Adapter):
        has_devices = True

        def adopt(self, name, x, op):
            return x

        def device(self, x):
            return x.device

    class Array:
        def __init__(self, device):
            self.device = device

    adapters.KNOWN[Array] = Fake()
    try:
        with pytest.raises(TypeError, match="one device, got A on cuda:0, B on cuda:1"):
            cmfast.overlap(Array("cuda:0"), Array("cuda:1"))
    finally:
        del adapters.KNOWN[Array]


@pytest.mark.torch
def test_subclasses_belong_to_their_library():
    class Tensor(torch.Tensor):
        pass

    class Array(np.ndarray):
        pass

    assert adapter(Tensor()) is adapter(torch.empty(0)) is not adapter(M)
    assert adapter(M.view(Array)) is adapter(M) is adapter([])


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_its_kernels(op):
    assert callable(get_kernel(op, "cpu"))
    if "cuda" in OPS[op].targets:
        assert callable(get_kernel(op, "cuda"))
    else:
        with pytest.raises(NotImplementedError, match=f"^{op} has no cuda kernel"):
            get_kernel(op, "cuda")


HEAVY = {
    "numba",
    "scipy",
    "torch",
    "pandas",
    "polars",
    "pyarrow",
    "sklearn",
    "matplotlib",
    "dask",
    "cupy",
    "jax",
    "tqdm",
}


# Topics, and parts of Python and NumPy, that few programs need: half of what an import took.
LATER = {
    "cmfast.geometry",
    "cmfast.margins",
    "cmfast.uncertainty",
    "hashlib",
    "html",
    "numpy.ma",
    "numpy.random",
    "secrets",
    "shutil",
    "socket",
    "zipfile",
}


def loaded(code, among=HEAVY):
    return among.intersection(python("-c", f"{code}\nimport sys\nprint(*sys.modules)", cwd=ROOT).split())


def test_import_loads_nothing_heavy():
    assert loaded("import cmfast", HEAVY | LATER) <= loaded("import numpy", LATER)


def test_checks_load_nothing_heavy():
    assert (
        loaded("import cmfast\ntry: cmfast.overlap([1], [1])\nexcept ValueError: pass\nelse: raise SystemExit(1)")
        == set()
    )


def test_a_call_loads_the_kernels_and_no_other_array_library():
    code = "import cmfast\ncmfast.confusion_matrix([0, 1], [0, 1], n_classes=2)\ncmfast.overlap([[1, 1]], [[1, 1]])"
    assert loaded(code) <= {"numba", "scipy"}


def test_the_oracle_imports_nothing_of_the_house():
    """Or the tests would compare the code with itself."""
    allowed = {*sys.stdlib_module_names, "numpy", "oracle", "scipy"}
    files = sorted((ROOT / "tests" / "oracle").glob("*.py"))
    assert len(files) > 3
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                names = [node.module]
            assert {str(name).partition(".")[0] for name in names} <= allowed, f"{path.name}: {names}"


@pytest.mark.house
@pytest.mark.parametrize("target", ["cmfast", "kernels"])
def test_imports_point_one_way(target):
    """Kernels know nothing of validation, dispatch or adapters."""
    for path in (ROOT / "kernels").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == target:
                below = ("cmfast.kernels", "cmfast._version")  # the version is a constant
                assert node.module.startswith(below), f"{path}: {node.module}"


def test_none_stays_where_it_means_something():
    first, second = dispatch.adopt(optional=("b",), a=M, b=None)
    assert first.tolist() == M.tolist()
    assert second is None
    with pytest.raises(TypeError, match=r"^a must be an array, got None$"):
        dispatch.adopt(optional=("b",), a=None, b=M)


@pytest.mark.parametrize(
    "code", [*sorted(dispatch.NUMBERS, key=str), "longdouble", ">f8", ">i2", "F", "M8[s]", "V3"], ids=str
)
def test_the_short_way_is_that_of_the_adapter(code):
    x = np.zeros((2, 3), code)
    (got,) = dispatch.adopt(x=x)
    want = _numpy.ADAPTER.adopt("x", x, None)
    assert_same_bits(got, want)
    assert got.dtype.isnative
    assert not got.flags.writeable
    assert x.flags.writeable
    assert np.shares_memory(got, x) == np.shares_memory(want, x)


def test_comments_name_modules_that_exist():
    for path in (ROOT / "cmfast").rglob("*.py"):
        if "kernels" in path.relative_to(ROOT).parts:
            continue
        text = path.read_text()
        for name in re.findall(r"\bkernels(?:\.[a-z_]+)+", text):
            parts = name.split(".")[1:]
            found = [ROOT.joinpath("kernels", *parts[:k]) for k in (len(parts), len(parts) - 1)]
            assert any(place.is_dir() or place.with_suffix(".py").exists() for place in found), f"{path}: {name}"
        for name in re.findall(r"``(?:\w+/)*(\w+\.py)``", text):
            assert (path.parent / name).exists(), f"{path}: {name}"
