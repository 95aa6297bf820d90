"""What tests of the command ask of it when it refuses."""

from pathlib import Path


def leftovers() -> list[str]:
    """Return the files that a command has begun and not ended, in the current folder."""
    return [path.name for path in Path().iterdir() if path.name.endswith(".part")]


def assert_exits_with_error(result: tuple[int, str, str], text: str) -> None:
    """Assert exit status 2, one line on stderr that contains `text`, and no leftover files."""
    status, out, err = result
    assert status == 2
    assert not out
    assert err.count("\n") == 1, err
    assert err.startswith("cmfast: ")
    assert text in err
    assert not leftovers()
