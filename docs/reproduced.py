"""Write ``reproduced.md`` of what ``cmfast reproduce`` found: ``python docs/reproduced.py [FOLDER ...]``.

Each folder is the output of a full run; its claims replace those of its paper in ``reproduced.json``, and the page is
made of that file. Without a folder only the page is written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from cmfast._pages.parts import summarize_verdicts
from cmfast._reproduce import PAPERS

HERE = Path(__file__).parent
KEPT = HERE / "reproduced.json"
PAGE = HERE / "reproduced.md"
HEAD = """# The papers, reproduced

This library rests on three papers, a notebook and a glossary. Each of their claims was computed again and judged by
rules that were fixed beforehand. {counted}
The last column of the tables has the numbers that decide.

![Bars for each source: claims that hold, hold in part, fail, and are undecided](reproduced.png)

`cmfast reproduce NAME` recomputes every claim of the papers behind this library and reports whether it holds, where it
does not, and the numbers. The command writes a page with pictures, all numbers as JSON, and every picture as a file;
two runs differ only in their times. Claims with random variation are judged by simultaneous 95 % intervals against
margins that were fixed beforehand: a claim holds or fails if the whole interval does, otherwise it is undecided.
`--quick` takes at most a minute, and its page begins with what it cannot decide.

You can run the experiments on normalisation on your own data: on pictures (`--images x.npy --labels y.npy`), or on the
embeddings and predictions of a network that is trained. Without `--quick` 30 repetitions take minutes:

```console
$ cmfast example X.npy y.npy p.npy
X.npy: an embedding of each sample
y.npy: its true class
p.npy: its predicted class
$ cmfast reproduce normalization --embeddings X.npy --labels y.npy \\
    --pred p.npy --quick
This is a quick run: 3 repetitions in place of 30. ...
holds: Bi-normalising twice is bi-normalising once. (Prop. 1)
    largest difference ..., of 200 random matrices of six classes
...
Claims: ... that hold, ... that fail, ... in part, ... undecided.
The page: cmfast-normalization/report.html
```

Made by `python docs/reproduced.py`. Misprints are in [what the sources print](errata.md).
"""


def page(kept: dict[str, Any]) -> str:
    """Return the page."""
    every = [claim["verdict"] for name in PAPERS if name in kept for claim in kept[name]["claims"]]
    parts = [HEAD.format(counted=summarize_verdicts(every))]
    for name in PAPERS:
        if name not in kept:
            continue
        paper = kept[name]
        counted = summarize_verdicts(claim["verdict"] for claim in paper["claims"])
        settings = ", ".join(f"{key} {_said(value)}" for key, value in paper["settings"].items() if key != "quick")
        parts.append(
            f"## {paper['title']}\n\n{paper['source']}. `cmfast reproduce {name}`"
            + (f" ({settings})" if settings else "")
            + f". {counted}\n\n"
            "| claim | where | verdict | found |\n|---|---|---|---|\n" + "\n".join(map(_row, paper["claims"])) + "\n"
        )
    return "\n".join(parts)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_said(each)}" for name, each in value.items())
    return ", ".join(map(_said, value)) if isinstance(value, list) else f"{value}"


def _row(claim: dict[str, Any]) -> str:
    seeds = claim["seeds"]
    drawn = "" if not seeds else f" (seed {seeds[0]})" if len(seeds) == 1 else f" ({len(seeds)} seeds)"
    cells = claim["text"], claim["where"], claim["verdict"], claim["found"] + drawn
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def keep(folder: Path, kept: dict[str, Any]) -> None:
    """Replace the claims of the paper that a folder holds."""
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    wanted = ("text", "where", "verdict", "found", "seeds")
    claims = [{key: claim[key] for key in wanted} for claim in found["claims"]]
    kept[found["reproduction"]] = {key: found[key] for key in ("title", "source", "settings")} | {"claims": claims}


def main(folders: list[str]) -> None:
    """Write both files."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for folder in folders:
        keep(Path(folder), kept)
    kept = {name: kept[name] for name in PAPERS if name in kept}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
