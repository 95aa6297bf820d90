"""Plain English and textbook terms: words that readers had to decode stay away, and terms are where one looks."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from house import files, tree

pytestmark = pytest.mark.house

ROOT = Path(__file__).parents[2]
CODE = [
    path
    for path in files(".py", ".cu", ".cuh")
    if path.parts[0] in ("cmfast", "kernels", "benchmarks") or path.parts[:2] == ("tests", "harness")
]
PAGES = [path for path in files(".md") if path.parts[0] in ("docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES.remove(Path("docs/reproduced.md"))  # the words of kept results, which change when the experiments are run again

# A phrase as a regular expression, and the words to use instead.
PHRASES = {
    r"whoever": "a noun: the caller, the user, the worker",
    r"nobody should": "an imperative, or must not",
    r"of which": "a sentence of its own",
    r"(?:that |where )?there (?:is|are)(?: none)?\b(?= (?:none|nothing)|$)": "if none exists",
    r"where there (?:is|are)": "if ... exists",
    r"what (?:comes (?:out|in)|stands|lies|is asked|was asked|is there|becomes|tells|says)": "the noun that is meant",
    r"say so": "the message or flag that is meant",
    r"by and by": "gradually",
    r"anew": "again",
    r"way (?:forth|back)": "forward pass, backward pass",
    r"run away": "diverge",
    r"(?:roots? of (?:a |the )?(?:matri|equation)|its root\b)": "Cholesky factor",
    r"second derivatives (?:stand|of a table)": "Hessian",
    r"\bgauge": "normalisation of the factors",
    r"\becho(?:es)?\b": "perturbation test",
    r"\bcrews?\b": "thread-block group",
    r"\bboards?\b": "flags in global memory",
    r"\bfaint\b": "negligible",
    r"\bbur(?:y|ied)\b": "fix at zero",
    r"\bdealt?\b": "partition",
    r"\bdoubts?\b": "caveats",
    r"\bbeside\b": "next to, besides, compared with",
    r"\bbehind\b": "after",
    r"\broom for\b": "workspace, buffer, capacity",
    r"\bplaces? of\b": "index, position",
    r"lines? of (?:a|the|one) (?:matrix|margin|table)": "row or column, marginal",
    r"numbers? (?:that|which) none|numbers? (?:that|which) (?:is|are) none": "NaN or infinite values",
    r"(?:is|are|as|not) right\b": "is accurate, is correct",
    r"(?:gone|goes) (?:on|through)": "continues",
    r"at once": "in one call, simultaneously, immediately",
    r"whatever": "any",
    r"be (?:it|these|this)\b": "whether",
}
PARTICIPLES = [
    "asked",
    "found",
    "judged",
    "told",
    "said",
    "dealt",
    "drawn",
    "written",
    "given",
    "taken",
    "held",
    "kept",
    "sent",
    "moved",
    "placed",
    "chosen",
    "counted",
    "checked",
    "merged",
    "joined",
    "rounded",
    "numbered",
    "named",
    "called",
    "stored",
    "adopted",
    "awaited",
    "swept",
    "opened",
    "stepped",
    "solved",
    "reported",
    "wanted",
    "parted",
    "turned",
    "added",
    "changed",
    "changing",
    "reached",
    "refused",
    "labelled",
    "averaged",
    "computed",
    "scaled",
    "proved",
    "gone",
    "put",
    "read",
    "summed",
    "unpacked",
    "packed",
    "folded",
    "flattened",
    "grouped",
    "ordered",
    "warped",
    "painted",
    "collapsed",
    "weighted",
    "swapped",
    "converted",
]
PREPOSITIONS = [
    "of",
    "by",
    "within",
    "between",
    "along",
    "beside",
    "behind",
    "among",
    "with",
    "from",
    "to",
    "at",
    "on",
    "in",
    "for",
    "as",
    "per",
]
IS_PARTICIPLE = re.compile(rf"_*(?:\w+_)?(?:{'|'.join(PARTICIPLES)})")
IS_PREPOSITION = re.compile(rf"_*(?:{'|'.join(PREPOSITIONS)})(?:_\w+)?")
# Conversions are named as everywhere in Python: `from_bytes`, `to_json`, `as_floating`.
CONVERSION = re.compile(r"_*(?:from|to|as)_\w+")
# Usual English on pages, where sentences have more room than a first line of a docstring.
USUAL = {"of which", "at once", "whatever", "goes on", "goes through", "is right", "are right", "place of", "places of"}

# What may stay, by file and word, each with its reason.
PHRASES_KEPT = {
    ("cmfast/_warmup.py", "of which"): "a table of functions, of which each line has some",
    ("cmfast/compat/sklearn/_scorers.py", "of which"): "scikit-learn's own condition",
    ("cmfast/compat/sklearn/_targets.py", "of which"): "scikit-learn's own condition",
    ("cmfast/confusion_counts/_counts.py", "are right"): "output of `explain` in an example",
    ("cmfast/margins/_rake.py", "of which"): "the two designs of raking",
    ("docs/rivals.md", "doubt"): "the words of a peer's output",
} | {
    (file, "deal"): "the public method CellCounts.deal"
    for file in (
        "cmfast/geometry/_cell_counts.py",
        "cmfast/geometry/_cell_partition.py",
        "cmfast/geometry/_cells.py",
        "cmfast/geometry/_gcm.py",
        "docs/_templates/sizes.md",
        "docs/dask.md",
        "docs/sizes.md",
    )
}
NAMES_KEPT = {
    ("cmfast/_core/validate.py", "on_failure"): "the name of the option that it checks",
    ("cmfast/confusion_counts/_group_by.py", "by"): "public, as group-by elsewhere",
    ("cmfast/display/_confusion.py", "collapsed"): "public method: returns a new display, as `sorted` does",
    ("cmfast/geometry/_grid.py", "scaled"): "public method: returns a new grid, as `sorted` does",
    ("cmfast/metrics/_parameters.py", "tau_weighted"): "the name of a metric",
    ("kernels/cpu/_core/jit.py", "on_start"): "the name of a callback of Numba's events",
    ("kernels/cpu/_core/jit.py", "on_end"): "the name of a callback of Numba's events",
    ("tests/harness/failing_disk.py", "patch_named"): "patches a function of os by its name",
    ("tests/harness/folded.py", "parametrize_folded"): "parametrize, with the cases of a group folded into one test",
    ("tests/harness/on_cuda_host.py", "on_device"): "returns arrays on the device, as `to_device` in the array API",
}

TERMS = """cholesky; schur; farkas; hessian; line search; minimum degree|minimum-degree; symbolic factorisation;
conjugate gradient; lanczos; jackknife; bca; bootstrap; radix; reduction; workspace; unroll; backward pass;
infeasibility certificate; condition estimate; power iteration"""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a source with their lines, or the lines of a page."""
    source = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".md":
        fenced = False
        for number, line in enumerate(source.splitlines(), 1):
            fenced ^= line.startswith("```")
            if not fenced:
                yield number, line
    elif path.suffix != ".py":
        yield from (
            (number, line.split("//", 1)[1]) for number, line in enumerate(source.splitlines(), 1) if "//" in line
        )
    else:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


def find_phrases(paths: list[Path]) -> Iterator[tuple[str, str, str, str]]:
    """Yield file, place, word and advice of every phrase of the list."""
    sources = [rf"\b(?:{phrase})" if phrase[0] != "\\" else phrase for phrase in PHRASES]
    patterns = [
        (re.compile(source, re.IGNORECASE), advice) for source, advice in zip(sources, PHRASES.values(), strict=True)
    ]
    any_of_them = re.compile("|".join(sources), re.IGNORECASE)
    for path in paths:
        for line, text in texts(path):
            for pattern, advice in patterns if any_of_them.search(text) else ():
                for match in pattern.finditer(text):
                    word = match.group().lower()
                    if path.suffix != ".md" or word not in USUAL:
                        yield str(path), f"{path}:{line}", word, advice


def find_names(paths: list[Path]) -> Iterator[tuple[str, str, str]]:
    """Yield file, place and name of every function that is named by a participle or a preposition."""
    for path in paths:
        for node in ast.walk(tree(path)) if path.suffix == ".py" else ():
            if not isinstance(node, ast.FunctionDef) or any("property" in ast.unparse(d) for d in node.decorator_list):
                continue
            if IS_PARTICIPLE.fullmatch(node.name) or (
                IS_PREPOSITION.fullmatch(node.name) and not CONVERSION.fullmatch(node.name)
            ):
                yield str(path), f"{path}:{node.lineno}", node.name


@cache
def phrases_found():
    return list(find_phrases(CODE + PAGES))


@cache
def names_found():
    return list(find_names(CODE))


def test_no_phrase_of_the_list_is_used():
    found = [one for one in phrases_found() if (one[0], one[2]) not in PHRASES_KEPT]
    assert not found, "\n".join(f"{place}: {word!r}: say {advice}" for _, place, word, advice in found)


def test_functions_are_named_by_verbs():
    found = [one for one in names_found() if (one[0], one[2]) not in NAMES_KEPT]
    assert not found, "\n".join(f"{place}: {name}: use a verb and its object" for _, place, name in found)


def test_exceptions_are_needed_and_have_reasons():
    phrases = {(file, word) for file, _, word, _ in phrases_found()}
    names = {(file, name) for file, _, name in names_found()}
    assert set(PHRASES_KEPT) <= phrases, set(PHRASES_KEPT) - phrases
    assert set(NAMES_KEPT) <= names, set(NAMES_KEPT) - names
    assert all((PHRASES_KEPT | NAMES_KEPT).values())


@pytest.mark.parametrize("term", [term.strip() for term in TERMS.split(";")])
def test_a_textbook_term_is_found_in_the_sources(term):
    paths = [path for path in CODE if path.parts[0] in ("cmfast", "kernels")]
    assert any(re.search(term, (ROOT / path).read_text(encoding="utf-8"), re.IGNORECASE) for path in paths)


def test_each_term_of_the_glossary_is_in_its_file():
    """A word in bold, or its first one, is in the file that the row names."""
    rows = re.findall(r"^\| \*\*(.+?)\*\*.*\| `([^`]+)` \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert len(rows) >= 30
    missing = [(term, file) for term, file in rows if not is_in_file(term, file)]
    assert not missing


def is_in_file(term: str, file: str) -> bool:
    """Return whether a file exists and has the term in any case, or its plural and verb forms."""
    path, stem = ROOT / file, re.sub(r"(isation|s)$", "", term.lower()).replace("-", " ")
    return path.is_file() and stem in " ".join(re.split(r"[\s_-]+", path.read_text(encoding="utf-8").lower()))


def test_the_list_is_seen_in_a_docstring_a_comment_a_name_and_a_page(tmp_path, monkeypatch):
    """A planted fault of each kind is reported."""
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    monkeypatch.setattr("house.ROOT", tmp_path)
    (tmp_path / "a.py").write_text(
        '"""Do whatever."""\n# anew\ndef _merged():\n    """Run away."""\ndef of_cells(): ...\n'
    )
    (tmp_path / "b.cu").write_text("int x;  // a crew of blocks\n")
    (tmp_path / "c.md").write_text("They say so at once.\n```\nThey say so.\n```\n")
    paths = [Path("a.py"), Path("b.cu"), Path("c.md")]
    assert sorted(word for _, _, word, _ in find_phrases(paths)) == ["anew", "crew", "run away", "say so", "whatever"]
    assert [name for *_, name in find_names(paths)] == ["_merged", "of_cells"]
