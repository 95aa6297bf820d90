"""The paper of docs/paper: its figures are those of the results, none is typed into the prose, and it builds."""

import copy
import json
import re
from pathlib import Path

import pytest
from optional import Missing, load
from paper import build

PROSE = build.PROSE.read_text(encoding="utf-8")
BODY = PROSE[PROSE.index("#align(center)") : PROSE.index("[References]")]
# What may be written in digits: powers, types, settings of the jobs that name them, and the one matrix in a formula.
WRITTEN = {"float64", "accuracy .99", "accuracy 0.6", "accuracy 0.6,"}


@pytest.fixture(scope="module")
def sources():
    return build.read_sources()


def text_of(sources: build.Sources) -> str:
    return build.fill(PROSE, build.collect_values(sources))


def test_no_figure_is_typed_into_the_prose():
    prose = re.sub(r"\$[^$]*\$", "", BODY)  # formulas
    prose = re.sub(r"\{\{[^{}]*\}\}", "", prose)
    prose = re.sub(r"columns: .*|#v\(.*?\)|inset: .*|(size|stroke|width): [\d.]+\w+|align: .*", "", prose)
    for each in sorted(WRITTEN, key=len, reverse=True):
        prose = prose.replace(each, "")
    assert re.findall(r"\S*\d\S*", prose) == []


def test_a_formula_holds_no_decimal_fraction():
    assert [each for each in re.findall(r"\$[^$]*\$", BODY) if re.search(r"\d\.\d", each)] == []


@pytest.mark.parametrize(
    ("job", "old", "new", "shown"),
    [
        ("gcm", "seconds", 0.0777, "takes 78 ms"),
        ("bi 0.99", "seconds", 0.31, "[310 ms]"),
        ("bi 10 0.99 0", "note", "residual 1e-09, 4.5 passes, 54,321 exact limits", "54,321 have only a limit"),
    ],
)
def test_a_changed_time_changes_the_text(sources, job, old, new, shown):
    before = text_of(sources)
    changed = copy.deepcopy(sources)
    changed.jobs[job][old] = new
    after = text_of(changed)
    assert shown not in re.sub(r"\s+", " ", before)
    assert shown in re.sub(r"\s+", " ", after)


def test_every_rival_that_is_faster_is_listed(sources):
    changed = copy.deepcopy(sources)
    changed.jobs["count"]["rivals"][0]["ratio"] = 0.123
    name = changed.jobs["count"]["rivals"][0]["name"]
    rows = [line for line in text_of(changed).splitlines() if line.strip().startswith("[count (")]
    assert rows == [f"  [count ({changed.jobs['count']['size']})], [{name}], [0.12],"]
    assert not any(line.strip().startswith("[count (") for line in text_of(sources).splitlines())


def test_a_changed_verdict_changes_the_counts_and_the_quotation(sources):
    changed = copy.deepcopy(sources)
    claims = changed.reproduced["glossary"]["claims"]
    claim = next(each for each in claims if each["text"].startswith("Unweighted kappa"))
    before = build.collect_values(sources)
    claim["verdict"], claim["found"] = "holds", "kappa 0.7201"
    after = build.collect_values(changed)
    assert int(after["claims.holds"]) == int(before["claims.holds"]) + 1
    assert int(after["claims.fails"]) == int(before["claims.fails"]) - 1
    assert after["claim.kappa"].endswith("holds: kappa 0.7201.")
    assert before["claims.all"] == after["claims.all"] == str(sum(map(len_of_claims, sources.reproduced.values())))


def len_of_claims(paper: dict) -> int:
    return len(paper["claims"])


def test_verdicts_are_sentences(sources):
    assert set(build.DATA) == set(sources.reproduced["normalization"]["settings"]["data"])
    assert build.quote_verdict("holds") == "holds"
    assert build.quote_verdict("fails where they are proportional") == "fails where they are proportional"
    assert build.quote_verdict(
        "fails where photo at 1, holds where code at 3 and 1; letters at 10, undecided elsewhere"
    ) == (
        "fails for photographs at level 1, and holds for code at levels 3 and 1 and for letters at level 10, "
        "and is undecided elsewhere"
    )
    quoted = " ".join(value for key, value in build.collect_values(sources).items() if key.startswith("claim."))
    names = "|".join(build.DATA)
    assert re.findall(rf"where (?:{names})\b|\b(?:{names}) at \d|of \d+ places", quoted) == []
    assert "the largest +0.154 (+0.131 to +0.176) for code at level 0.1." in quoted


def test_papers_are_counted_as_they_are_cited(sources):
    """Three papers, as many as CITATION.cff has; the other sources are a notebook and a glossary."""
    cited = re.findall(
        r"^    title: \"?(.*?)\"?$", (build.TREE / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE
    )
    papers = [
        each["source"]
        for each in sources.reproduced.values()
        if not re.search(r"\b(notebook|glossary)\b", each["source"])
    ]
    assert all(any(title.lower() in source.lower() for source in papers) for title in cited)
    number = {3: "three", 4: "four", 5: "five"}[len(papers)]
    assert len(cited) == len(papers) == len(sources.reproduced) - 2
    pages = [PROSE, (build.TREE / "docs" / "reproduced.md").read_text(encoding="utf-8")]
    assert all(f"{number} papers, a notebook and a glossary" in page for page in pages)


def test_counts_of_hard_matrices_are_those_of_the_page(sources):
    values = build.collect_values(sources)
    page = (build.TREE / "docs" / "scaling_proof.md").read_text(encoding="utf-8")
    assert f"# {values['hard.matrices']} hard matrices" in page  # the page's own sum
    assert f"Of\n{values['spread.tables']} tables" in page
    assert f"{values['spread.undetermined']} are UNDETERMINED" in page


def test_a_name_without_a_figure_is_an_error():
    with pytest.raises(ValueError, match="no result gives speed of light"):
        build.fill("It is {{speed of light}}.", {})


def test_a_figure_that_no_sentence_uses_is_an_error():
    with pytest.raises(ValueError, match="no sentence uses spare"):
        build.fill("Nothing.", {"spare": "1"})


def test_a_result_that_is_gone_is_an_error(sources):
    changed = copy.deepcopy(sources)
    del changed.jobs["gcm"]
    with pytest.raises(KeyError, match="gcm"):
        build.collect_values(changed)


def test_it_builds_and_other_results_give_another_paper(tmp_path):
    for name in ("matplotlib", "typst"):
        if isinstance(found := load(name), Missing):
            found.skip()
    paper = tmp_path / "paper.pdf"
    build.build(paper)
    assert paper.read_bytes().startswith(b"%PDF")
    before = build_pages(tmp_path / "before")
    assert 6 <= len(before) <= 8
    tree = copy_results(tmp_path / "tree")
    path = tree / "benchmarks" / "results" / "amd-epyc-2-cores-quick-geometry.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    results["jobs"][0]["seconds"] *= 3
    path.write_text(json.dumps(results), encoding="utf-8")
    after = build_pages(tmp_path / "after", tree)
    assert len(after) == len(before)
    assert 1 <= sum(page != other for page, other in zip(before, after, strict=True)) <= 2


def build_pages(folder: Path, tree: Path = build.TREE) -> list[str]:
    """Return the pages of the paper, each as SVG."""
    folder.mkdir()
    build.build(folder / "{p}.svg", tree)
    return [path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())]


def copy_results(tree: Path) -> Path:
    """Copy what the paper is built of into another tree."""
    names = ["docs/reproduced.json", "docs/rivals.md", "docs/scaling_proof.md", "docs/geometry.md"]
    for path in [*map(build.TREE.joinpath, names), *(build.TREE / "benchmarks" / "results").glob("*.json")]:
        target = tree / path.relative_to(build.TREE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return tree
