"""What pages need before their examples run: the files that commands above them write, in an empty folder."""

import page_commands
import pytest

# What holds no examples to check: the gallery, which tests of its own run, and what the site makes of it.
collect_ignore_glob = ["gallery/*", "pictures/*", "reference/*"]


@pytest.fixture(autouse=True)
def _files_of_commands(request, tmp_path, monkeypatch):
    """Run the commands of a page; tests/cli/test_page_commands.py compares what they print."""
    if request.path.suffix == ".md" and page_commands.read_commands(page := request.path.read_text(encoding="utf-8")):
        monkeypatch.chdir(tmp_path)
        for _ in page_commands.run_commands(page):
            pass
