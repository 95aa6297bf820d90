"""``cmfast confusion``: a confusion matrix counted from a table of labels, and its files."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._files.output import FileError, replacing, to_json, write_block, write_npy_header, write_npz
from cmfast.cli import _screen
from cmfast.cli._cluster import cluster_options, in_parts
from cmfast.cli._counting import count
from cmfast.cli._matrices import normalized
from cmfast.cli._options import (
    Parser,
    given,
    label_options,
    misuse,
    output_options,
    scaling_options,
    sources,
    table_target,
)
from cmfast.cli._printing import WIDEST, described, print_json, print_matrix, single
from cmfast.cli._writing import csv_text

LABEL_BYTES = 64 << 20  # of the labels in an npz file, where the matrix is no larger


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    label_options(parser, "npy (n, 2), csv, tsv, Parquet, Arrow or Feather; a folder, a glob or a URL of such")
    parser.add_argument("--normalize", choices=NORMALIZATIONS, help="normalise the matrix")
    scaling_options(parser)
    output_options(parser, "npy, npz, csv or json file; the last three keep the labels")
    cluster_options(parser)


@in_parts
def run(args: argparse.Namespace) -> int:
    """Count the matrix, or one for each group; 1 if one could not be normalised."""
    if args.smoothing is not None and args.normalize != "bi":
        misuse("--smoothing belongs to --normalize bi")
    target = table_target(args, (".npy", ".npz", ".csv", ".json"), *sources(args))
    labels, groups, counts = count(args)
    samples = counts.sum(axis=(1, 2)).tolist()
    codes, M = np.zeros(len(counts), np.int8), counts
    if args.normalize is not None:
        M, codes = _normalized(counts, args)
    statuses = [cmfast.Status(int(code)) for code in codes]
    found = [{"matrix": one.tolist(), "status": status.name} for one, status in zip(M, statuses, strict=True)]
    facts: dict[str, Any] = {"labels": labels, "normalize": args.normalize, "smoothing": args.smoothing}
    if args.by is None:
        facts |= found[0]
    else:
        heads = [{"group": single(group), "samples": n} for group, n in zip(groups, samples, strict=True)]
        facts |= {"by": single(args.by), "groups": [head | one for head, one in zip(heads, found, strict=True)]}
    table = Table(labels, args.by, groups, M)
    if target is not None:
        _write_confusion(target, table, facts, force=args.force)
    if args.json:
        print_json(facts)
    elif target is not None and len(labels) > WIDEST:
        number = "" if args.by is None else f"{len(groups)} matrices "
        print(f"{_screen.shown(args.output)}: {number}{len(labels)} x {len(labels)}")
    else:
        _print(table, samples)
    return 0 if all(status.ok for status in statuses) else 1


class Table(NamedTuple):
    """A matrix, or one for each group of values of columns, and what its rows and columns are."""

    labels: list[Any]
    by: list[str] | None
    groups: list[tuple[Any, ...]]
    M: np.ndarray

    def array(self) -> np.ndarray:
        """Return the matrix, or all of them."""
        one: np.ndarray = self.M[0]
        return one if self.by is None else self.M


def _normalized(counts: np.ndarray, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Normalise them; one alone is called one in what is said of it."""
    given_M = counts[0] if args.by is None else counts
    M, codes = normalized(given_M, args.normalize, "warn", num_threads=args.threads, **given(args, "smoothing"))
    return M.reshape(counts.shape), np.atleast_1d(codes)


def _print(table: Table, samples: list[int]) -> None:
    names = _screen.names(table.labels)
    for k, matrix in enumerate(table.M):
        if table.by is not None:
            print(f"{chr(10) if k else ''}{described(table.by, table.groups[k])}: {samples[k]:,} samples")
        print_matrix(matrix, names)


def _write_confusion(target: Path, table: Table, facts: dict[str, Any], *, force: bool) -> None:
    kind = target.suffix.lower()
    arrays = {"matrix": table.array()}
    # What cannot be written is found out before the file is begun.
    if kind == ".npz":
        arrays["labels"] = _label_array(target, table.labels, table.M.nbytes)
        if table.by is not None:
            for k, values in enumerate(zip(*table.groups, strict=True)):
                name = "groups" if len(table.by) == 1 else f"groups_{k}"
                arrays[name] = _label_array(target, list(values), table.M.nbytes)
    text = _csv_table(target, table) if kind == ".csv" else to_json(facts).encode() if kind == ".json" else b""
    with replacing(target, force=force) as file:
        if kind == ".npy":
            write_npy_header(file, arrays["matrix"].shape, arrays["matrix"].dtype)
            write_block(file, arrays["matrix"])
        elif kind == ".npz":
            write_npz(file, arrays)
        else:
            file.write(text)


def _label_array(target: Path, labels: list[Any], matrix_bytes: int) -> np.ndarray:
    """Return labels as NumPy keeps them in a file: every text as long as the longest, NUL for what is missing."""
    if not isinstance(labels[0], str):
        kind = np.bool_ if isinstance(labels[0], bool) else np.uint64 if max(labels) >= 1 << 63 else np.int64
        return np.array(labels, kind)
    ended = [label for label in labels if label.endswith("\0")]
    if ended:
        raise FileError(target, f"npz cannot keep the NUL that ends the label {ended[0]!r}; write csv or json")
    longest = max(map(len, labels))
    if 4 * longest * len(labels) > max(matrix_bytes, LABEL_BYTES):
        raise FileError(target, f"npz would give every label room for {longest:,} characters; write csv or json")
    return np.array(labels, np.str_)


def _csv_table(target: Path, table: Table) -> bytes:
    """Return a row per true class; of several matrices each under the other, their group in front."""
    first = table.by or []
    rows = [[*first, "true \\ predicted", *table.labels]]
    for k, matrix in enumerate(table.M.tolist()):
        group = () if table.by is None else table.groups[k]
        rows += [[*group, label, *row] for label, row in zip(table.labels, matrix, strict=True)]
    return csv_text(target, rows)
