"""``cmfast confusion``: count a confusion matrix from a table of labels."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._core.result_repr import MOST_SHOWN_CLASSES
from cmfast._files.matrices import TRUE_BY_PREDICTED
from cmfast._files.output import FileError
from cmfast.cli import _screen
from cmfast.cli._calls import compute_with_status, select_options
from cmfast.cli._cluster import add_cluster, start_tasks
from cmfast.cli._counting import CountedLabels, count
from cmfast.cli._options import add_common, add_labels, add_output, check_output, find_label_files
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._printing import describe_group, format_matrix, single
from cmfast.cli._result import Result
from cmfast.cli._values import normalization
from cmfast.cli._writing import Columns, Content

LABEL_BYTES = 64 << 20  # largest size of the labels in an npz file, unless the matrix is larger


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_labels(parser, "npy (n, 2), csv, tsv, Parquet, Arrow or Feather file; or a folder, glob or URL of such files")
    what = "normalise the matrix; row is also called true, col pred"
    shown = "{all,row,true,col,pred,bi}"
    parser.add_argument("--normalize", type=normalization, choices=NORMALIZATIONS, metavar=shown, help=what)
    add_common(parser, "--smoothing", "--threads")
    add_output(parser, "npy, npz, csv or json file; all but npy store the labels")
    add_cluster(parser)


def run(args: argparse.Namespace) -> Result:
    """Return the matrix, or one per group, as a Result to print and save; failed if one could not be normalised."""
    args.tasks = start_tasks(args)
    if args.smoothing is not None and args.normalize != "bi":
        misuse("--smoothing belongs to --normalize bi")
    args.target = check_output(args, (".npy", ".npz", ".csv", ".json"), *find_label_files(args))
    counted = count(args, args.by)
    samples = counted.matrices.sum(axis=(1, 2)).tolist()
    counted, statuses = _normalize(args, counted)
    parts = [
        {"matrix": M.tolist(), "status": status.name} for M, status in zip(counted.matrices, statuses, strict=True)
    ]
    metadata: dict[str, Any] = {"labels": counted.labels, "normalize": args.normalize, "smoothing": args.smoothing}
    if args.by is None:
        metadata |= parts[0]
    else:
        heads = [{"group": single(group), "samples": n} for group, n in zip(counted.groups, samples, strict=True)]
        metadata |= {"by": single(args.by), "groups": [head | part for head, part in zip(heads, parts, strict=True)]}
    lines = _lines(counted, samples)
    if args.target is not None and len(counted.labels) > MOST_SHOWN_CLASSES:
        number = "" if args.by is None else f"{len(counted.groups)} matrices "
        lines = iter([f"{_screen.shown(args.output)}: {number}{len(counted.labels)} x {len(counted.labels)}"])
    failed = not all(status.ok for status in statuses)
    return Result(metadata, lines, _content(args.target, counted, metadata), failed)


def _normalize(args: argparse.Namespace, counted: CountedLabels) -> tuple[CountedLabels, list[cmfast.Status]]:
    """Return the matrices, normalised if requested, and their statuses."""
    M = counted.matrices
    if args.normalize is None:
        return counted, [cmfast.Status.CONVERGED] * len(M)
    options = {"num_threads": args.threads, **select_options(args, "smoothing")}
    one_or_all = M[0] if args.by is None else M
    out, codes = compute_with_status(cmfast.normalize, one_or_all, args.normalize, on_failure="warn", **options)
    return counted._replace(matrices=out.reshape(M.shape)), [cmfast.Status(int(code)) for code in np.atleast_1d(codes)]


def _lines(counted: CountedLabels, samples: list[int]) -> Iterator[str]:
    """Yield the printed matrices."""
    names = _screen.names(counted.labels)
    for k, matrix in enumerate(counted.matrices):
        if counted.by is not None:
            yield f"{chr(10) if k else ''}{describe_group(counted.by, counted.groups[k])}: {samples[k]:,} samples"
        yield from format_matrix(matrix, names)


def _content(target: Path | None, counted: CountedLabels, metadata: dict[str, Any]) -> Content | None:
    """Return the content of an output file of this kind."""
    if target is None or target.suffix.lower() == ".json":
        return Content(metadata=metadata)
    if target.suffix.lower() == ".csv":
        return Content(columns=_columns(counted))
    arrays = {"matrix": counted.matrices[0] if counted.by is None else counted.matrices}
    if target.suffix.lower() == ".npz":
        arrays["labels"] = _label_array(target, counted.labels, counted.matrices.nbytes)
        for k, values in enumerate(zip(*counted.groups, strict=True)):
            name = "groups" if len(counted.by or ()) == 1 else f"groups_{k}"
            arrays[name] = _label_array(target, list(values), counted.matrices.nbytes)
    return Content(arrays)


def _columns(counted: CountedLabels) -> Columns:
    """Return a table with a row per true class; for several groups stacked, after the group columns."""
    M, n = counted.matrices, len(counted.labels)
    by = zip(counted.by or (), zip(*counted.groups, strict=True), strict=True)
    groups = [(name, [value for value in values for _ in range(n)]) for name, values in by]
    cells = [(label, M[:, :, k].ravel()) for k, label in enumerate(counted.labels)]
    return [*groups, (TRUE_BY_PREDICTED, counted.labels * len(M)), *cells]


def _label_array(target: Path, labels: list[Any], matrix_bytes: int) -> np.ndarray:
    """Return labels as a NumPy array for npz: texts padded with NUL to the longest."""
    if not isinstance(labels[0], str):
        kind = np.bool_ if isinstance(labels[0], bool) else np.uint64 if max(labels) >= 1 << 63 else np.int64
        return np.array(labels, kind)
    ended = [label for label in labels if label.endswith("\0")]
    if ended:
        raise FileError(target, f"npz cannot keep the NUL that ends the label {ended[0]!r}; write csv or json")
    longest = max(map(len, labels))
    if 4 * longest * len(labels) > max(matrix_bytes, LABEL_BYTES):
        raise FileError(target, f"npz would store {longest:,} characters for every label; write csv or json")
    return np.array(labels, np.str_)
