"""Faults of a cluster of processes while commands run on it: the bytes of a run without it, or a message that says why.

The scheduler and two workers are processes of Dask's own commands, and so is the command that uses them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from processes import ROOT

distributed = pytest.importorskip("distributed")

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PARTS = 24
WAITED = 180  # seconds after which a process that should have ended has failed
LABELS = ("--true", "y", "--pred", "p")


class Cluster:
    """A scheduler and its workers, which are processes."""

    def __init__(self, env, protocol="tcp", port=0, n_workers=2):
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
        file = Path(f"scheduler-{time.monotonic_ns()}.json")
        given = ("--host", "127.0.0.1", "--port", str(port), "--protocol", protocol, "--scheduler-file", str(file))
        self.scheduler = self._start("dask_scheduler", *given, "--no-dashboard")
        wait_until(lambda: file.exists() and file.read_text())
        self.address = json.loads(file.read_text())["address"]
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")
        self.workers = [self._start("dask_worker", self.address, *options) for _ in range(n_workers)]

    def _start(self, name, *argv):
        command = [sys.executable, "-m", f"distributed.cli.{name}", *argv]
        return subprocess.Popen(command, env=self.env, stderr=subprocess.DEVNULL)

    def command(self, out, *argv):
        """Start ``cmfast confusion`` of all parts on this cluster."""
        given = [sys.executable, "-m", "cmfast", "confusion", "parts", *LABELS, "-o", out, "--scheduler", self.address]
        return subprocess.Popen([*given, *argv], env=self.env, stderr=subprocess.PIPE, text=True)

    def kill(self):
        """End all processes."""
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that starts a cluster in a folder with many parts; all are ended after the test."""
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    rng = np.random.default_rng(5)
    for k in range(PARTS):
        rows = rng.integers(0, 4, (40_000, 2))
        Path(f"parts/{k:02}.csv").write_text("y,p\n" + "\n".join(f"{a},{b}" for a, b in rows.tolist()) + "\n")
    clusters = []

    def begin(env=None, **options):
        clusters.append(Cluster(env or {}, **options))
        return clusters[-1]

    yield begin
    for cluster in clusters:
        cluster.kill()


@pytest.fixture
def want(start):
    """Return the bytes of a run without a scheduler."""
    command = [sys.executable, "-m", "cmfast", "confusion", "parts", *LABELS, "-o", "want.json"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    return Path("want.json").read_bytes()


def wait_until(is_reached):
    until = time.monotonic() + WAITED
    while not is_reached():
        assert time.monotonic() < until
        time.sleep(0.002)


def count_states(out):
    return len(list(Path(f"{out}.parts").glob("*.npz")))


def end(process):
    """Return the exit status and messages of a command that ends."""
    _, err = process.communicate(timeout=WAITED)
    return process.returncode, err


@contextmanager
def connected(cluster):
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(len(cluster.workers), timeout=WAITED)
        yield client


def test_two_commands_at_once(start, want):
    cluster = start()
    commands = [cluster.command(f"{k}.json") for k in range(2)]
    assert [end(each) for each in commands] == [(0, ""), (0, "")]
    assert [Path(f"{k}.json").read_bytes() for k in range(2)] == [want, want]


def test_a_paused_worker_takes_no_tasks(start, want):
    def pause(dask_worker):
        dask_worker.status = distributed.core.Status.paused

    def look(dask_worker):
        return dask_worker.status.name, dask_worker.state.transition_counter

    cluster = start()
    with connected(cluster) as client:
        paused, other = client.scheduler_info()["workers"]
        client.run(pause, workers=[paused])
        assert end(cluster.command("out.json")) == (0, "")
        found = client.run(look)
    assert found[paused] == ("paused", 0)  # no task has changed its state there
    assert found[other][0] == "running"
    assert found[other][1] >= PARTS
    assert Path("out.json").read_bytes() == want


def test_a_worker_that_is_stopped_for_seconds(start, want):
    cluster = start()
    with connected(cluster):
        command = cluster.command("out.json")
        wait_until(lambda: count_states("out.json") >= 2)
        cluster.workers[0].send_signal(signal.SIGSTOP)
        assert count_states("out.json") < PARTS
        time.sleep(5)
        cluster.workers[0].send_signal(signal.SIGCONT)
        assert end(command) == (0, "")
    assert Path("out.json").read_bytes() == want


def test_a_scheduler_that_is_killed_and_started_anew(start, want):
    cluster = start()
    command = cluster.command("out.json")
    wait_until(lambda: count_states("out.json") >= 2)
    cluster.scheduler.kill()
    status, err = end(command)
    kept = count_states("out.json")
    assert (status, Path("out.json").exists()) == (2, False)
    assert err.startswith("cmfast: --scheduler")
    assert err.count("\n") == 1
    assert 2 <= kept < PARTS
    cluster.kill()

    again = start(port=int(cluster.address.rpartition(":")[2]))
    assert again.address == cluster.address
    said = f"cmfast: labels of {kept} of {PARTS} parts are there already\n"
    assert end(again.command("out.json")) == (0, said)
    assert Path("out.json").read_bytes() == want


def test_connections_with_certificates(start, want):
    if shutil.which("openssl") is None and os.environ.get("CMFAST_REQUIRE_LIBRARIES") != "1":
        pytest.skip("openssl, a program that pip does not install, makes the certificates")
    names = ("-keyout", "key.pem", "-out", "cert.pem", "-days", "1", "-subj", "/CN=localhost")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names], check=True, capture_output=True
    )
    tls = {"CA_FILE": "cert.pem"}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        tls |= {f"{who}__CERT": "cert.pem", f"{who}__KEY": "key.pem"}
    env = {f"DASK_DISTRIBUTED__COMM__TLS__{key}": str(Path(name).resolve()) for key, name in tls.items()}
    cluster = start(env, protocol="tls")
    assert cluster.address.startswith("tls://")
    assert end(cluster.command("out.json")) == (0, "")
    assert Path("out.json").read_bytes() == want
