"""Small files of each kind that are right, from which ``run.py --update`` begins; of everything that readers know."""

import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.mutators import zipped

import cmfast
from cmfast import conformal, uncertainty

Y, P, B = np.array([0, 1, 1, 0, 2, 2]), np.array([0, 1, 0, 0, 2, 1]), np.array([1, 1, 0, 0, 1, 0])
X = np.array([[0.0, 0.5], [1.0, 1.5], [2.0, 0.25], [3.0, 2.5], [0.5, 0.5], [7.0, -3.0]])


def states() -> Iterator[Any]:
    """Yield states of every class, with and without what is optional."""
    Counts = cmfast.ConfusionCounts
    words = np.array(["cat", "dog", "e\u0301l"])
    days = np.array(["2020-01-01", "2021-05-05"], "M8[D]")
    yield Counts()
    yield Counts.from_labels(Y, P)
    yield Counts.from_labels(words[Y], words[P], groups={"site": words[B], "day": days[B]})
    yield Counts.from_labels(Y > 0, P > 0, groups=B + 0.5)
    yield Counts.from_labels(Y, P, sample_weight=np.full(6, 0.25))
    yield Counts.from_labels(Y, P, n_classes=3)
    yield Counts.from_labels(words[Y], words[P], labels=words[::-1])
    yield Counts.from_labels(words.astype("S5" if words.dtype.kind == "S" else "U5")[Y], words[P])
    yield uncertainty.paired_counts(Y, P, Y[::-1])
    yield uncertainty.paired_counts(Y, P, Y[::-1], groups=words[B], clusters=Y)
    yield cmfast.Grid([0.0, 0.5], [0.1, 2.0])
    yield cmfast.pca(X, 1)
    yield cmfast.cell_counts(X, Y, P, grid=cmfast.Grid([0.0, 0.0], [1.0, 1.0]))
    wide = np.column_stack([X * 1e9, X * 1e8, X * 1e9])
    yield cmfast.cell_counts(wide, Y, P, grid=cmfast.Grid([0.0] * 6, [1.0] * 6))
    shares = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    sets = conformal.prediction_sets(shares, np.array([0.7, np.inf]), randomised=False)
    yield conformal.ccm(sets)
    yield conformal.coverage_confusion(sets, np.array([0, 1, 1, 0]))
    yield conformal.score_histogram(np.abs(X[:2]) / 10, bins=4)


def of_command() -> Iterator[bytes]:
    """Yield JSON of ``cmfast confusion``."""
    plain = {"labels": ["a", "b"], "matrix": [[3, 1], [0, 2]], "normalize": None}
    yield json.dumps(plain).encode()
    groups = [{"group": g, "matrix": [[k, 1], [0, 2]]} for k, g in enumerate("xy")]
    yield json.dumps({"by": "site", "groups": groups, "labels": [0, 1], "normalize": None}).encode()
    pairs = [{"group": [g, 1], "matrix": [[1]]} for g in "xy"]
    yield json.dumps({"by": ["site", "n"], "groups": pairs, "labels": [True], "normalize": None}).encode()


TEXTS = (
    "y_true,y_pred,by\n0,1,a\n1,1,b\n2,0,a\n",
    "y_true,y_pred,by\ncat,dog,True\ndog,dog,False\n\"c,t\",cat,TRUE\n",
    "y_true,y_pred,by\n1.0,01,2020\n2,1e0,7.5\n",
    "y_true,y_pred,by\nTrue,1,nan\nFalse,0,x\n",
    "0,1\n1,1\n1,0\n",
    "a,b\nb,a\na,a\n",
    "1,2,3,4\n0,1,2,3\n.5,1e3,inf,nan\n",
    "sex,age,weight\nf,30,1\nm,41,2\nf,1.5,\n",
    "sex,region,of,target,importance\nf,,,10,\nm,,,12,2\n,,age,100,\nf,north,,3,1\nm,north,,3,1\n",
    "sex,area,target\nf,n,10\nf,s,\nm,n,3\nm,s,4\n",
    "bin1_id,bin2_id,count\n0,0,5\n0,1,2\n1,2,3\n",
    "y_true\ty_pred\n0\t1\n1\t1\n",
)  # fmt: skip


def frames() -> Iterator[Any]:
    """Yield Arrow tables."""
    import pyarrow as pa

    words = pa.array(["cat", "dog", "bee", "cat", "dog", "cat"])
    ordered = pa.DictionaryArray.from_arrays(pa.array(P), pa.array(["a", "b", "c"]), ordered=True)
    yield pa.table({"y_true": Y, "y_pred": P.astype("u1"), "by": words})
    yield pa.table({"y_true": words, "y_pred": words.dictionary_encode(), "by": B.astype(bool)})
    yield pa.table({"y_true": ordered, "y_pred": ordered, "by": B + 0.0})
    yield pa.table({"x0": X[:, 0], "x1": X[:, 1].astype("f4"), "y_true": Y, "y_pred": P})
    yield pa.table({"X": X.tolist(), "y_true": Y, "y_pred": P})
    yield pa.table({"M": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]})
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8.0)), 4)
    yield pa.table({"M": fixed})
    yield pa.table({"M": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8).reshape(2, 2, 2))})
    yield pa.table({"sex": ["f", "m", "f"], "age": [30.0, 41.0, 2.5], "weight": pa.array([1, 2, None])})
    yield pa.table(
        {
            "sex": ["f", "m", None],
            "area": pa.array([None, None, None], pa.string()),
            "target": [10.0, 12.0, 3.0],
            "of": [None, None, "age"],
        }
    )
    yield pa.table({"bin1_id": [0, 0, 1], "bin2_id": [0, 1, 2], "count": [5, 2, 3]})
    yield pa.table({"y_true": pa.array([1, None]), "y_pred": pa.array([1, 2]), "by": pa.array(["a", None])})
    yield pa.table({"y_true": pa.array([], pa.int64()), "y_pred": pa.array([], pa.int64())})
    yield pa.table(
        {"y_true": pa.array(["a", "b"], pa.large_string()), "y_pred": pa.array(["a", "a"], pa.string_view())}
    )


def _parquets() -> Iterator[bytes]:
    from pyarrow import parquet

    for k, frame in enumerate(frames()):
        if any(str(kind) == "string_view" for kind in frame.schema.types):
            continue
        file = io.BytesIO()
        parquet.write_table(
            frame, file, compression=("none", "snappy", "zstd")[k % 3], row_group_size=2 if k % 2 else 10
        )
        yield file.getvalue()


def _arrows() -> Iterator[bytes]:
    from pyarrow import feather

    for k, frame in enumerate(frames()):
        file = io.BytesIO()
        feather.write_feather(
            frame, file, compression=("uncompressed", "lz4", "zstd")[k % 3], chunksize=2 if k % 2 else 10
        )
        yield file.getvalue()


def _arrays() -> Iterator[bytes]:
    fields = np.array([(1, 2, 3), (0, 0, 1)], [("y_true", "i4"), ("y_pred", "u8"), ("by", "?")])
    some = (
        Y,
        X,
        X.astype("f4"),
        np.stack([Y, P], 1),
        np.stack([Y, P], 1).astype(str),
        fields,
        Y > 0,
        X[:0],
        Y.astype(">i4"),
    )
    for array in (*some, np.arange(8).reshape(2, 2, 2), np.asfortranarray(np.arange(6.0).reshape(3, 2)), np.array(3)):
        file = io.BytesIO()
        np.save(file, array)
        yield file.getvalue()


def _zarrs() -> Iterator[bytes]:
    import zarr

    some = ((Y, 3), (X, 2), (X, 3), (np.arange(8).reshape(2, 2, 2), 3), (Y > 0, 2))
    with tempfile.TemporaryDirectory() as folder:
        for k, (array, form) in enumerate(some):
            path = Path(folder, f"{k}.zarr")
            zarr.create_array(path, data=array, chunks=(4, *array.shape[1:]), zarr_format=form)
            files = sorted(one for one in path.rglob("*") if one.is_file())
            yield zipped([(one.relative_to(path).as_posix(), one.read_bytes()) for one in files])


def _cools() -> Iterator[bytes]:
    import h5py

    columns = {
        "pixels/bin1_id": [0, 0, 1],
        "pixels/bin2_id": [0, 1, 2],
        "pixels/count": [5, 2, 3],
        "bins/start": [0, 10, 20],
        "indexes/chrom_offset": [0, 3],
    }
    for weighted in (False, True):
        file = io.BytesIO()
        with h5py.File(file, "w", libver="latest") as out:
            for name, values in columns.items():
                out.create_dataset(name, data=np.array(values, np.int32), chunks=None)
            out.create_dataset("chroms/name", data=np.array([b"chr1"]))
            if weighted:
                out.create_dataset("bins/weight", data=np.ones(3))
                out.attrs["storage-mode"] = "symmetric-upper"
        yield file.getvalue()


def _hics() -> Iterator[bytes]:
    import hictkpy
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "map.hic")
        with hictkpy.hic.FileWriter(str(path), {"chr1": 3000}, 1000) as writer:
            writer.add_pixels(pd.DataFrame({"bin1_id": [0, 0, 1], "bin2_id": [0, 1, 2], "count": [5, 2, 3]}))
        yield path.read_bytes()


def _sparse() -> Iterator[bytes]:
    from scipy import sparse

    for form in (sparse.coo_array, sparse.csr_matrix, sparse.csc_array, sparse.dia_array):
        file = io.BytesIO()
        sparse.save_npz(file, form(np.array([[1.0, 2.0], [0.0, 3.0]])), compressed=form is sparse.csr_matrix)
        yield file.getvalue()


PIXELS = (
    "bin1_id,bin2_id,count\n0,0,5\n0,1,2\n1,2,3\n",
    "i;j;value;more\n0;1;2.5;x\n",
    "count\trow\tcol\n1e3\t 7 \t+8\n",
    "bin1,bin2,values\n",
)
SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "state.npz": lambda: (state.to_bytes() for state in states()),
    "state.json": lambda: (state.to_json().encode() for state in states()),
    "counts.json": lambda: (*of_command(), *(state.to_json().encode() for state in states())),  # type: ignore[dict-item,return-value]
    "counts.npz": lambda: (state.to_bytes() for state in states()),
    "table.csv": lambda: (text.encode() for text in TEXTS),
    "table.parquet": _parquets,
    "table.arrow": _arrows,
    "array.npy": _arrays,
    "array.zarr": _zarrs,
    "map.cool": _cools,
    "map.hic": _hics,
    "map.csv": lambda: (text.encode() for text in PIXELS),
    "map.npz": _sparse,
}


def seeds(name: str) -> list[bytes]:
    """Return right inputs of a target."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(SEEDS[name]())
