"""``cmfast confusion``: a confusion matrix counted from a table of labels, and its files."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._files.output import FileError, replacing, to_json, write_npz
from cmfast.cli import _screen
from cmfast.cli._counting import count
from cmfast.cli._normalize import normalized
from cmfast.cli._options import (
    Parser,
    column_options,
    given,
    misuse,
    output_options,
    scaling_options,
    table_target,
)
from cmfast.cli._printing import WIDEST, print_json, print_matrix

LABEL_BYTES = 64 << 20  # of the labels in an npz file, where the matrix is no larger


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("input", type=Path, metavar="FILE", help="npy (n, 2), csv, tsv, Parquet, Arrow or Feather")
    column_options(parser)
    parser.add_argument("--normalize", choices=NORMALIZATIONS, help="normalise the matrix")
    scaling_options(parser)
    output_options(parser, "npy, npz, csv or json file; the last three keep the labels")


def run(args: argparse.Namespace) -> int:
    """Count the matrix; 1 if it could not be normalised."""
    if args.smoothing is not None and args.normalize != "bi":
        misuse("--smoothing belongs to --normalize bi")
    target = table_target(args, (".npy", ".npz", ".csv", ".json"), args.input)
    labels, _, (M,) = count(args)
    status = cmfast.Status.CONVERGED
    if args.normalize is not None:
        options = given(args, "smoothing")
        M, code = normalized(M, args.normalize, "warn", num_threads=args.threads, **options)
        status = cmfast.Status(int(code))
    facts = {
        "labels": labels,
        "matrix": M.tolist(),
        "normalize": args.normalize,
        "smoothing": args.smoothing,
        "status": status.name,
    }
    if target is not None:
        _write_confusion(target, labels, M, facts, force=args.force)
    if args.json:
        print_json(facts)
    elif target is not None and len(labels) > WIDEST:
        print(f"{_screen.shown(args.output)}: {len(labels)} x {len(labels)}")
    else:
        print_matrix(M, _screen.names(labels))
    return 0 if status.ok else 1


def _write_confusion(target: Path, labels: list[Any], M: np.ndarray, facts: dict[str, Any], *, force: bool) -> None:
    kind = target.suffix.lower()
    # What cannot be written is found out before the file is begun.
    array = _label_array(target, labels, M.nbytes) if kind == ".npz" else None
    text = _csv_table(target, labels, M) if kind == ".csv" else to_json(facts).encode() if kind == ".json" else b""
    with replacing(target, force=force) as file:
        if kind == ".npy":
            np.save(file, M, allow_pickle=False)
        elif array is not None:
            write_npz(file, {"matrix": M, "labels": array})
        else:
            file.write(text)


def _label_array(target: Path, labels: list[Any], matrix_bytes: int) -> np.ndarray:
    """Return labels as NumPy keeps them in a file: every text as long as the longest, NUL for what is missing."""
    if not isinstance(labels[0], str):
        kind = np.bool_ if isinstance(labels[0], bool) else np.uint64 if labels[-1] >= 1 << 63 else np.int64
        return np.array(labels, kind)
    ended = [label for label in labels if label.endswith("\0")]
    if ended:
        raise FileError(target, f"npz cannot keep the NUL that ends the label {ended[0]!r}; write csv or json")
    longest = max(map(len, labels))
    if 4 * longest * len(labels) > max(matrix_bytes, LABEL_BYTES):
        raise FileError(target, f"npz would give every label room for {longest:,} characters; write csv or json")
    return np.array(labels, np.str_)


def _csv_table(target: Path, labels: list[Any], M: np.ndarray) -> bytes:
    head = ["true \\ predicted", *map(_csv_cell, labels)]
    rows = [[name, *map(str, row)] for name, row in zip(head[1:], M.tolist(), strict=True)]
    try:
        return "".join(",".join(row) + "\n" for row in [head, *rows]).encode()
    except UnicodeEncodeError as error:
        label = error.object[error.start]
        raise FileError(target, f"a label holds {label!r}, which UTF-8 cannot write; write npz or json") from error


def _csv_cell(label: Any) -> str:
    """Return a label as a cell; in quotes where a reader would break it, or shave it, without."""
    text = str(label)
    special = any(c in ',"\r\n' for c in text) or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if special else text
