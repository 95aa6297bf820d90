"""``cmfast reproduce``: recompute the claims of the underlying papers."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cmfast import _reproduce as reproduction
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result


def add_options(parser: Parser) -> None:
    """Add the options of the command, and those of each paper."""
    said = "; ".join(f"{name}: {paper.summary}" for name, paper in reproduction.PAPERS.items())
    parser.add_argument("name", choices=list(reproduction.PAPERS), metavar="NAME", help=said)
    parser.add_argument("--quick", action="store_true", help="at most a minute: fewer repetitions")
    what = "folder for the page, the numbers and the figures, default cmfast-NAME"
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help=what)
    for name, paper in reproduction.PAPERS.items():
        if paper.options:
            group = parser.add_argument_group(f"options of {name}")
            for keyword, about in paper.options.items():
                group.add_argument(f"--{keyword.replace('_', '-')}", dest=keyword, **about)


def run(args: argparse.Namespace) -> Result:
    """Recompute the claims of a paper and write the page."""
    own = {keyword for paper in reproduction.PAPERS.values() for keyword in paper.options}
    given = {keyword for keyword in own if getattr(args, keyword) is not None}
    if strange := sorted(given.difference(reproduction.PAPERS[args.name].options)):
        misuse(f"--{strange[0].replace('_', '-')} is no option of {args.name}")
    if missing := reproduction.list_missing(args.name):
        misuse(f'reproduce {args.name} needs {" and ".join(missing)}: pip install "cmfast[demo,plot]"')
    out = args.output or Path(f"cmfast-{args.name}")
    options = {keyword: getattr(args, keyword) for keyword in sorted(given)}
    numbers = reproduction.run(args.name, out, quick=args.quick, **options)
    return Result(numbers, _lines(numbers, out))


def _lines(numbers: dict[str, Any], out: Path) -> Iterator[str]:
    """Yield the verdict of each claim."""
    from cmfast._pages.parts import summarize_verdicts

    if numbers["quick_limits"]:
        yield from (numbers["quick_limits"], "")
    yield from (numbers["title"], "")
    for claim in numbers["claims"]:
        yield f"{claim['verdict']}: {claim['text']} ({claim['where']})"
        yield f"    {claim['found']}"
    yield from (
        "",
        summarize_verdicts(claim["verdict"] for claim in numbers["claims"]),
        f"The page: {out / 'report.html'}",
    )
