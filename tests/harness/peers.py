"""Run suites of other libraries with ours in place: every test that passes without has to pass with it.

``python tests/harness/peers.py``: scikit-learn's, out of the installed package. ``python tests/harness/peers.py
CHECKOUT``: torchmetrics', out of a checkout, which is tested itself and not the installed package; or some files of it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HARNESS = Path(__file__).resolve().parent
TORCHMETRICS = [
    f"unittests/classification/test_{name}.py"
    for name in (
        "cohen_kappa",
        "confusion_matrix",
        "f_beta",
        "jaccard",
        "matthews_corrcoef",
        "precision_recall",
        "specificity",
        "stat_scores",
    )
]
SKLEARN = [f"sklearn/metrics/tests/test_{name}.py" for name in ("classification", "ranking", "common")]


def ran(folder, root, files, *options):
    """Return what the plugin wrote down of one run of `files`, which lie in `root`, and what the run said.

    Modules are found in `root` and in the ``src`` beside it first.
    """
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
    paths = map(str, (HARNESS, HARNESS.parents[1], root, root.parent / "src"))
    environment = {**os.environ, "CMFAST_QUIET": "1", "PYTHONPATH": os.pathsep.join(paths)}
    environment["PYTEST_REFERENCE_CACHE"] = f"{folder}/references"  # where torchmetrics' tests write
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

    if len(sys.argv) > 1:
        checkout, *names = sys.argv[1:]
        files = [file for file in TORCHMETRICS if not names or any(name in file for name in names)]
        good = is_no_worse("torchmetrics", Path(checkout).resolve() / "tests", files)
    else:
        good = is_no_worse("sklearn", Path(sklearn.__file__).parents[1], SKLEARN)
    sys.exit(not good)


if __name__ == "__main__":
    main()
