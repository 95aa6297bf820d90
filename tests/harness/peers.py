"""Run suites of other libraries with ours in place: every test that passes without has to pass with it.

So what does not pass with ours is run once more without.

``python tests/harness/peers.py``: scikit-learn's, out of the installed package, and what POT's states of scaling in
logarithms, which its package leaves out (``pot/``). ``python tests/harness/peers.py CHECKOUT``: torchmetrics', out of a
checkout, which is tested itself and not the installed package; or some files of it; or POT's own, out of a checkout.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HARNESS = Path(__file__).resolve().parent
TORCHMETRICS = [
    f"unittests/classification/test_{name}.py"
    for name in (
        "accuracy",
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
POT, POTS_OWN = ["check_sinkhorn_log.py"], ["test_bregman.py", "test_solvers.py"]
# Tests that state what is wrong, and pass without ours only; tests/scaling/test_verdicts.py has the right number.
MISTAKEN = {
    "test_sinkhorn_stabilization": "both of theirs end early with a plan that costs 0; the least cost is 99.3153",
}
SKLEARN = [f"sklearn/metrics/tests/test_{name}.py" for name in ("classification", "ranking", "common")]


def ran(folder, root, peer, files, *options):
    """Return what the plugin wrote down of one run of `files`, which lie in `root`, and what the run said.

    Modules are looked up in `root` and its sibling ``src`` first.
    """
    out = folder / "outcomes.json"
    out.unlink(missing_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--quiet", "--no-header", "--tb=short", "--disable-warnings"]
    command += ["-p", "no:cacheprovider", "-p", "peer_plugin", f"--peer={peer}", f"--outcomes={out}", *options]
    command += [f"--config-file={folder}/pytest.ini", f"--rootdir={root}", *(f"{root}/{file}" for file in files)]
    paths = map(str, (HARNESS, HARNESS.parents[1], root, root.parent / "src"))
    environment = {**os.environ, "CMFAST_QUIET": "1", "PYTHONPATH": os.pathsep.join(paths)}
    environment.setdefault("OMP_NUM_THREADS", "1")  # tensors are small, and other checks run in parallel
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if not out.exists():
        sys.exit(done.stdout + done.stderr)
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def is_no_worse(peer, root, files, *options):
    """Run the files with ours, then the failures without; return whether no test passes only without."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        after, said = ran(folder, root, peer, files, "--with-cmfast", *options)
        short = [name for name, state in after["outcomes"].items() if state != "passed"]
        only = folder / "only.json"
        only.write_text(json.dumps(short), encoding="utf-8")
        plain = (
            ran(folder, root, peer, files, f"--only={only}", *options)[0] if short else {"outcomes": {}, "reasons": {}}
        )
        before = plain["outcomes"]
    lost = [name for name in short if before.get(name) == "passed"]
    mistaken = [name for name in lost if name.rpartition("::")[2] in MISTAKEN]
    lost = [name for name in lost if name not in mistaken]
    for file in files:
        states = {name: state for name, state in after["outcomes"].items() if name.split("::")[0].endswith(file)}
        passed = list(states.values()).count("passed")
        theirs = [before[name] for name in states if name in before]
        skipped = theirs.count("skipped")
        say(
            f"{file}: {len(states) - skipped} run and {skipped} skipped, {passed} pass with cmfast, "
            f"{theirs.count('passed')} without it only, {len(theirs) - skipped - theirs.count('passed')} neither way"
        )
    for reason, times in Counter(plain["reasons"].values()).items():
        say(f"neither way, {times} times: {reason}")
    for name in mistaken:
        say(f"left out, {name}: {MISTAKEN[name.rpartition('::')[2]]}")
    counts = after["counts"]
    say(f"calls: {counts}")
    if lost:
        say(said[-20000:], *(f"passes without cmfast only: {name}" for name in lost))
    unsaid = [why for why in counts if why.startswith("neither")]  # left to the peer without an error or a warning
    return not lost and not unsaid and counts.get("ops", 0) > 0


def say(*lines):
    """Print and flush."""
    print(*lines, sep="\n", flush=True)


def main():
    """Run the requested suites."""
    import sklearn

    if len(sys.argv) > 1 and (Path(sys.argv[1]) / "ot" / "bregman").is_dir():
        good = is_no_worse("pot", Path(sys.argv[1]).resolve() / "test", POTS_OWN)
    elif len(sys.argv) > 1:
        checkout, *names = sys.argv[1:]
        files = [file for file in TORCHMETRICS if not names or any(name in file for name in names)]
        good = is_no_worse("torchmetrics", Path(checkout).resolve() / "tests", files)
    else:
        good = is_no_worse("sklearn", Path(sklearn.__file__).parents[1], SKLEARN)
        good = is_no_worse("pot", HARNESS / "pot", POT) and good
    sys.exit(not good)


if __name__ == "__main__":
    main()
