"""Commands on pages print what the pages show."""

from pathlib import Path

import page_commands
import pytest

ROOT = Path(__file__).parents[2]
TEXTS = {path: path.read_text(encoding="utf-8") for path in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md")}
PAGES = sorted(str(path.relative_to(ROOT)) for path, text in TEXTS.items() if "```console\n" in text)
NEEDS = {"docs/dask.md": "distributed"}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.cluster) if page in NEEDS else page for page in PAGES]
)
def test_commands_print_what_their_page_shows(page, tmp_path, monkeypatch):
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    monkeypatch.chdir(tmp_path)
    for command, got in page_commands.run_commands(TEXTS[ROOT / page]):
        cure = f"to write what is printed run: python docs/page_commands.py {page}"
        assert page_commands.is_printed(command.printed, got), f"$ {command.line}\n{got}\n{cure}"


def test_a_false_output_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "Text.\n\n```console\n$ cmfast example \\\n    t.csv  # a file\n{}\n$ cmfast --version\ncmfast ...\n```\n"
    wants = ["t.csv: 400 samples: true label, predictions of two models, site", "t.csv: 300 samples", ""]
    for want, right in zip(wants, (True, False, False), strict=True):
        first, second = page_commands.run_commands(text.format(want))
        assert first[0].line.split() == ["cmfast", "example", "t.csv", "#", "a", "file"]
        assert (
            page_commands.is_printed(first[0].printed, first[1]),
            page_commands.is_printed(second[0].printed, second[1]),
        ) == (right, True)


def test_a_command_that_fails_or_is_another_program_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line, message in (("cmfast metrics none.csv", "status 2, cmfast: none.csv"), ("ls", "ls: status None")):
        with pytest.raises(RuntimeError, match=message):
            list(page_commands.run_commands(f"```console\n$ {line}\n```\n"))
    with pytest.raises(ValueError, match="begins with no command"):
        page_commands.read_commands("```console\nprinted\n```\n")
