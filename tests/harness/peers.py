"""Run suites of other libraries with ours in place: every test that passes without has to pass with it.

``python tests/harness/peers.py``: scikit-learn's, out of the installed package.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HARNESS = Path(__file__).resolve().parent
SKLEARN = [f"sklearn/metrics/tests/test_{name}.py" for name in ("classification", "ranking", "common")]


def ran(folder, root, files, *options):
    """Return what the plugin wrote down of one run of `files`, which lie in `root`, and what the run said."""
    out = folder / "outcomes.json"
    out.unlink(missing_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--quiet", "--no-header", "--tb=short", "--disable-warnings"]
    command += [
        "-p",
        "no:cacheprovider",
        "-p",
        "peer_plugin",
        f"--config-file={folder}/pytest.ini",
        f"--rootdir={root}",
    ]
    command += [f"--outcomes={out}", *options, *(f"{root}/{file}" for file in files)]
    environment = {**os.environ, "CMFAST_QUIET": "1", "PYTHONPATH": f"{HARNESS}:{HARNESS.parents[1]}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if not out.exists():
        sys.exit(done.stdout + done.stderr)
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def is_no_worse(peer, root, files):
    """Run the files without and with ours, say what became of them, and return whether nothing is lost with ours."""
    with tempfile.TemporaryDirectory() as scratch:
        before, _ = ran(Path(scratch), root, files)
        after, said = ran(Path(scratch), root, files, "--with-cmfast", peer)
    lost = []
    for file in files:
        states = {name: state for name, state in before["outcomes"].items() if name.split("::")[0].endswith(file)}
        passed = [name for name, state in states.items() if state == "passed"]
        worse = [name for name in passed if after["outcomes"].get(name) != "passed"]
        skipped = list(states.values()).count("skipped")
        say(
            f"{file}: {len(states) - skipped} run and {skipped} skipped, "
            f"{len(passed)} pass without cmfast, {len(passed) - len(worse)} of them with it"
        )
        lost += worse
    counts = after["counts"]
    say(f"calls: {counts}")
    if lost:
        say(said[-20000:], *(f"passes without cmfast only: {name}" for name in lost))
    unsaid = [why for why in counts if why.startswith("neither")]  # left to the peer without an error or a warning
    return not lost and not unsaid and counts.get("ops", 0) > 0


def say(*lines):
    """Print at once."""
    print(*lines, sep="\n", flush=True)


def main():
    """Run what was asked for."""
    import sklearn

    if not is_no_worse("sklearn", Path(sklearn.__file__).parents[1], SKLEARN):
        sys.exit(1)


if __name__ == "__main__":
    main()
