"""What type checkers must refuse, marked, and must take: nothing here runs. A line has an error where it says so."""

from typing import assert_type

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
import torch
import xarray as xr
from numpy.typing import NDArray

import cmfast
from cmfast import contingency, metrics

y, p = np.array([0, 1, 1]), np.array([0, 0, 1])
tensor = torch.tensor([0, 1, 1])
M = cmfast.confusion_matrix(y, p)

# Counts are an array of int64, and nothing else.
assert_type(M, NDArray[np.int64])
x: int = cmfast.confusion_matrix(y, p)  # error
text: str = cmfast.confusion_matrix([0, 1], [1, 1])  # error
cmfast.confusion_matrix(y)  # error
cmfast.confusion_matrix(y_true=y, y_pred=p, labels=["a", "b"])
cmfast.confusion_matrix(pd.Series(["a"]), pd.Series(["b"]))
cmfast.confusion_matrix(y, p, sample_weight=[1.0, 2.0, 3.0], normalize="row")
cmfast.confusion_matrix(y, p, normalize="rows")  # error
cmfast.confusion_matrix(y, p, n_clases=3)  # error
assert_type(cmfast.confusion_matrix(y, p, ignore_index=255, sample_axes=None, whole_floats=True), NDArray[np.int64])
few = cmfast.confusion_matrix(y, p, sparse=True)
cells: int = few.nnz
cmfast.normalize(M, "bi", smoothing=0.5, tol=1e-6)
cmfast.normalize(M, "bi", smooth=0.5)  # error
cmfast.importance_weights(M, "bi", solver="fast")  # error
cmfast.confusion_matrix(y, p, sample_axes="all")  # error

# A tensor gives a tensor.
assert_type(cmfast.confusion_matrix(tensor, tensor), torch.Tensor)
assert_type(cmfast.bi_normalize(tensor), torch.Tensor)
assert_type(metrics.f1(tensor), torch.Tensor)
assert_type(metrics.compute(tensor, ["mcc"]), dict[str, torch.Tensor])
array: NDArray[np.int64] = cmfast.confusion_matrix(tensor, tensor)  # error


class OfJax:
    """What tells an array of JAX from others."""

    addressable_shards: tuple[object, ...] = ()

    def block_until_ready(self) -> "OfJax":
        """Return itself."""
        return self


assert_type(cmfast.bi_normalize(OfJax()), OfJax)
assert_type(metrics.compute(OfJax(), ["mcc"]), dict[str, OfJax])

# Names of metrics are known.
one: float = float(metrics.compute(M, "mcc"))
metrics.compute(M, ["mcc", "f1_macro", "fbeta_2"])["mcc"].mean()
metrics.compute(M)["mcc"].mean()
metrics.compute(M, "per_class")["recall"].mean()
metrics.compute(M, metrics.SCALARS)
metrics.compute(M, ["krippendorff_alpha", "fdr_binary", "mcc_ovr_macro"], average_over=[0, 1])["fdr_binary"].mean()
metrics.compute(scipy.sparse.csr_array(M), "mcc").item()
cmfast.ConfusionCounts.from_labels(y, p).compute(["mcc"])["mcc"]
cmfast.ConfusionCounts.from_labels(y, p).compute("typo")  # error
metrics.compute(M, "typo")  # error
metrics.compute(M, ["mcc", "f1_marco"])  # error
metrics.from_labels(y, p, "typo")  # error
metrics.defined(M, "recalls")  # error
name: metrics.MetricName = "kapa"  # error
number: int = metrics.compute(M, "mcc")  # error

# One function per metric takes one matrix.
metrics.f1(M, average="macro", undefined=1).mean()
metrics.f1(y, p)  # error
metrics.f1(M, average="marco")  # error
metrics.mcc(M, undefined="never")  # error
metrics.fbeta(M, beta=2)
metrics.fnr(M, average_over=[0], average="binary", pos_label=0).mean()
metrics.scott_pi(M, average_over=[0])  # error
metrics.mcc(scipy.sparse.csr_array(M)).item()

# Results know what they hold.
assert_type(cmfast.ipf(tensor).row_scale, torch.Tensor)
cmfast.ipf(M, row_sums=[1, 2], col_sums=[1, 2]).matrix.sum()
cmfast.ras(M).matrix.sum()  # error
cmfast.ipf(M=M)  # error
cmfast.ipf(M, solver="fast")  # error
cmfast.support(M).explain(0).upper()
cmfast.ipf(M).explain().upper()
cmfast.pca(M.astype(float), 1).components.sum()
metrics.margins(M).diagonal.sum()
found = metrics.margins(M).digonal  # error
assert_type(metrics.roc(tensor, tensor).fpr, torch.Tensor)
metrics.roc(p, y, sample_weight=[1, 2, 3], pos_label="ill").tpr.sum()
metrics.least_cost(tensor, tensor, [[0, 1], [10, 0]]).threshold.item()
rates = metrics.precision_recall(p, y).fpr  # error
metrics.roc_auc(p, y, pos_label=1.5)  # error
assert_type(metrics.multilabel(tensor, tensor, ["f1_samples"]), dict[str, torch.Tensor])

# An array of xarray gives one, with its dimensions; what is computed of points has others, and is an array of NumPy.
many = xr.DataArray(np.ones((4, 3, 3)), dims=("model", "true", "predicted"))
assert_type(cmfast.bi_normalize(many), xr.DataArray)
assert_type(metrics.mcc(many), xr.DataArray)
assert_type(metrics.compute(many, ["mcc", "recall"]), dict[str, xr.DataArray])
assert_type(cmfast.ipf(many).row_scale, xr.DataArray)
assert_type(metrics.margins(many).total, xr.DataArray)
ids = xr.DataArray([0, 1], dims="sample")
assert_type(cmfast.confusion_matrix(ids, ids), xr.DataArray)
assert_type(metrics.roc_auc(ids, ids), xr.DataArray)
bare: NDArray[np.float64] = cmfast.bi_normalize(many)  # error

# Counts that know their classes know the library of their matrix.
known = cmfast.ConfusionCounts.from_labels(tensor, tensor, groups=["a", "b", "b"])
assert_type(known.matrix, torch.Tensor)
assert_type(known.compute("mcc"), torch.Tensor)
assert_type(known.compute(["mcc"]), dict[str, torch.Tensor])
assert_type(known.normalize("bi", smoothing=0.5), torch.Tensor)
assert_type(known.group("a").matrix, torch.Tensor)
assert_type((known + known).matrix, torch.Tensor)
on_numpy = cmfast.ConfusionCounts.from_labels(["a", "b"], ["a", "a"], groups={"site": ["x", "y"], "day": [1, 2]})
on_numpy.matrix.sum()
wrong: torch.Tensor = on_numpy.matrix  # error
on_numpy.normalize("rows")  # error
on_numpy.normalize("bi", smooth=0.5)  # error
on_numpy.compute("recall_binary", pos_label="a").sum()
on_numpy.compute()["mcc"].sum()
assert_type(on_numpy.table(["mcc"], library="polars"), pl.DataFrame)
assert_type(on_numpy.table(library="pyarrow"), pa.Table)
on_numpy.table("mcc", library="numpy")  # error
on_numpy.table("mc")  # error
metrics.multilabel([[0, 1]], [[1, 1]])["f1_macro"].sum()
metrics.multilabel([[0, 1]], [[1, 1]], "f1").sum()
cmfast.by(pd.DataFrame({"k": ["u"], "y": [0], "p": [0]}), "k", y_true="y", y_pred="p").matrix.sum()
cmfast.ConfusionCounts().update(y, p, groups=5.5j, labels=["a"])  # error
metrics.from_labels(["a"], ["b"], "f1_binary", pos_label="a").sum()
metrics.from_labels(["a"], ["b"], "f1_macro", average_over=["a"], sample_axes=None, whole_floats=True).sum()
metrics.from_labels(["a"], ["b"], "f1_macro", average_over=[[0]])  # error
metrics.from_labels(["a"], ["b"], "f1_binary", pos_label=["a"])  # error
assert_type(contingency.learning_path(tensor).length, torch.Tensor)
contingency.learning_path(M[None]).length.sum()

# Counts of cells know the library of their arrays, and so does what is computed of them.
grid = cmfast.Grid([0.0], [1.0])
points = torch.zeros(3, 1)
counts = cmfast.cell_counts(points, tensor, tensor, grid=grid)
assert_type(counts, cmfast.CellCounts[torch.Tensor])
assert_type(counts.counts, torch.Tensor)
assert_type((counts + counts).labels, torch.Tensor)
assert_type(counts.confusion_matrix(), torch.Tensor)
assert_type(counts.label_histogram("row").values, torch.Tensor)
assert_type(cmfast.gcm(counts, "row"), torch.Tensor)
assert_type(cmfast.min_overlap(counts.label_histogram(), counts.prediction_histogram()), torch.Tensor)
assert_type(cmfast.sparse_histogram(points, grid=grid, weights=tensor).groups, torch.Tensor)
whole = cmfast.geometric_confusion_matrix(points, tensor, tensor, weights="row", grid=grid)
assert_type(whole.matrix, torch.Tensor)
assert_type(whole.cells, cmfast.CellCounts[torch.Tensor])
on_host = cmfast.geometric_confusion_matrix([[0.5], [1.5]], [0, 1], [0, 1], n_components=None)
on_host.matrix.sum()
on_host.cells.predictions.sum()
share: float = on_host.diagnostics.singleton_fraction
cmfast.geometric_confusion_matrix(points, tensor, tensor, grid="scot")  # error
cmfast.gcm(points, "row")  # error
cmfast.gcm(counts, "rows")  # error
cmfast.cell_counts(points, tensor, tensor)  # error
read = cmfast.CellCounts.from_bytes(counts.to_bytes())
read.counts.sum()
both = cmfast.CellCounts.merge([counts, counts])
assert_type(both.counts, torch.Tensor)
missing = counts.weights  # error
tensor_of_arrays: torch.Tensor = on_host.matrix  # error


# A class alone is that of any arrays.
def pooled(parts: list[cmfast.CellCounts]) -> cmfast.results.GcmResult | None:
    return None if cmfast.CellCounts.merge(parts).counts.sum() else whole
