"""What tests of the command ask of it when it refuses."""

from pathlib import Path


def leftovers() -> list[str]:
    """Return the files that a command has begun and not ended, in the current folder."""
    return [path.name for path in Path().iterdir() if path.name.endswith(".part")]


def assert_refused(result: tuple[int, str, str], text: str) -> None:
    """Assert exit status 2 and one line on stderr that says `text`, and that nothing is left behind."""
    status, out, err = result
    assert status == 2
    assert not out
    assert err.count("\n") == 1, err
    assert err.startswith("cmfast: ")
    assert text in err
    assert not leftovers()
