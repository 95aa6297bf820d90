"""``cmfast balance``: weights of the bins of a contact map that give all its rows the same sum."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cmfast
from cmfast._files import contact_maps
from cmfast._files.output import FileError, check_target
from cmfast.cli import _screen
from cmfast.cli._calls import bar, compute, select_options, tick
from cmfast.cli._options import TABLES, add_common, add_output, check_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._values import natural_number, whole_number
from cmfast.cli._writing import Content
from cmfast.kernels.shared.balancing import REASONS


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    what = "map: cool, mcool::resolutions/10000, hic, npz of scipy.sparse, or a table of pixels (csv, Parquet, Arrow)"
    parser.add_argument("input", metavar="FILE[::GROUP]", help=what)
    parser.add_argument("--resolution", type=natural_number, metavar="BP", help="hic: size of a bin")
    parser.add_argument("--cis-only", action="store_true", help="balance each chromosome separately")
    ignored = "number of diagonals to ignore; default 2: the main diagonal and its neighbours"
    parser.add_argument("--ignore-diags", type=whole_number, default=2, metavar="N", help=ignored)
    few = "drop bins with fewer nonzero pixels, default 10"
    parser.add_argument("--min-nnz", type=whole_number, default=10, metavar="N", help=few)
    less = "drop bins with a smaller total count, default 0"
    parser.add_argument("--min-count", type=whole_number, default=0, metavar="N", help=less)
    far = "drop bins more than N median absolute deviations below the median, default 5; 0: drop none"
    parser.add_argument("--mad-max", type=whole_number, default=5, metavar="N", help=far)
    add_common(parser, "--tol", default=1e-9, help="relative error of the row sums, default 1e-9")
    add_common(parser, "--max-iter")
    parser.add_argument("--name", default="weight", help="name of the weights in a cool file, default weight")
    add_common(parser, "--threads")
    add_output(parser, "cool or mcool file (may be FILE) for the map with weights; or csv, Parquet, JSON")


def run(args: argparse.Namespace) -> Result:
    """Balance the map; failed if a part of it gets no weights."""
    source, group = contact_maps.split_group(args.input)
    if (what := contact_maps.check_weight_name(args.name)) is not None:
        misuse(f"--name {args.name!r} {what}")
    args.target = _check_output(args, source, group)
    found = contact_maps.read_map(source, group, args.resolution, tick(args, "read"))
    if args.cis_only and found.offsets is None:
        raise FileError(source, "does not say where chromosomes begin, which --cis-only needs")
    options = select_options(args, "tol", "max_iter", "ignore_diags", "min_nnz", "min_count")
    result = compute(
        cmfast.balance,
        (found.rows, found.columns, found.values, found.n),
        symmetric=False if (found.rows > found.columns).any() else "upper",
        blocks=found.offsets if args.cis_only else None,
        mad_blocks=found.offsets,
        mad_max=args.mad_max or None,
        num_threads=args.threads,
        progress=bar(args, "balance", "chromosomes") if args.cis_only else None,
        **options,
    )
    fine = bool(np.isin(result.status, (cmfast.Status.CONVERGED, cmfast.Status.ZERO_LINE)).all())
    fine = fine and bool((np.atleast_1d(result.status) == cmfast.Status.CONVERGED).any())
    metadata, content = _describe(args, found, result), None
    if args.target is not None and not np.isnan(result.weights).all():
        if args.target.suffix.lower() in TABLES:
            reason = [REASONS[k] for k in result.reason.tolist()]
            columns = [("bin", range(found.n)), ("weight", result.weights.tolist()), ("reason", reason)]
            content = Content(columns=columns, metadata=metadata)
        else:
            _write_map(args, found, result)
    return Result(metadata, _lines(metadata), content, not fine)


def _check_output(args: argparse.Namespace, source: Path, group: str) -> Path | None:
    """Return the resolved path of --output, None without it; raise before computing if writing would fail."""
    if args.output is None:
        return None
    if args.output.suffix.lower() not in contact_maps.COOLS:
        return check_output(args, (*contact_maps.COOLS, *TABLES), source)
    if source.suffix.lower() not in contact_maps.COOLS:
        misuse(f"--output {args.output} needs a map in a cool or mcool file; write {', '.join(TABLES)}")
    same = source.exists() and args.output.exists() and args.output.samefile(source)
    keeps = source.exists() and not args.force and (same or not args.output.exists())
    if keeps and contact_maps.has_weights(source, group, args.name):
        raise FileError(source, f"has bins/{args.name} already, give --force to replace it, or --name")
    return check_target(args.output, force=args.force or same)


def _describe(args: argparse.Namespace, found: contact_maps.PixelMap, result: Any) -> dict[str, Any]:
    """Return the metadata of the balancing: bins, pixels, dropped bins, status per part."""
    columns = (np.atleast_1d(a).tolist() for a in (result.status, result.worst_row, result.n_iter))
    parts: list[dict[str, Any]] = [
        {"status": cmfast.Status(status).name, "worst_row": worst, "passes": passes}
        for status, worst, passes in zip(*columns, strict=True)
    ]
    if args.cis_only and found.chromosomes:
        parts = [{"chromosome": name, **part} for name, part in zip(found.chromosomes, parts, strict=True)]
    return {
        "bins": found.n,
        "pixels": len(found.values),
        "left_out": {name: int((result.reason == k).sum()) for k, name in enumerate(REASONS) if k > 0},
        "parts": parts,
    }


def _write_map(args: argparse.Namespace, found: contact_maps.PixelMap, result: Any) -> None:
    """Write the map with its weights and their attributes as cooler stores them."""
    source, group = contact_maps.split_group(args.input)
    cuts = found.offsets if args.cis_only and found.offsets else [0, found.n]
    known = [np.log(part[~np.isnan(part)]) for part in np.split(result.weights, cuts[1:-1])]
    scale = np.array([np.exp(-2.0 * logs.mean()) if len(logs) else np.nan for logs in known])
    about = {
        "tol": args.tol,
        "min_nnz": args.min_nnz,
        "min_count": args.min_count,
        "mad_max": args.mad_max,
        "cis_only": args.cis_only,
        "ignore_diags": args.ignore_diags,
        "scale": scale if args.cis_only else scale[0],
        "converged": np.asarray(result.status) == cmfast.Status.CONVERGED,
        "var": np.square(result.worst_row),  # an upper bound of the variance of the row sums
        "divisive_weights": False,
    }
    same = args.target.exists() and args.target.samefile(source)
    contact_maps.write_weights(source, group, args.target, args.name, result.weights, about, force=args.force or same)


def _lines(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the printed summary: bins, dropped bins, status per part."""
    out = ", ".join(f"{number:,} by {name}" for name, number in metadata["left_out"].items() if number)
    yield f"{metadata['bins']:,} bins, {metadata['pixels']:,} pixels; bins left out: {out or 'none'}"
    for part in metadata["parts"]:
        name = f"{_screen.shown(part['chromosome'])}: " if "chromosome" in part else ""
        worst = "" if np.isnan(part["worst_row"]) else f", sums to {part['worst_row']:.1e}"
        yield f"{name}{part['status']}{worst}, {part['passes']} passes"
