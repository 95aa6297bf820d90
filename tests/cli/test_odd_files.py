"""Files that are somewhere else, that hold nothing, or that the disk has no room for: a line that names them."""

import functools
import http.server
import os
import resource
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from processes import ROOT

import cmfast
from cmfast import cli
from cmfast._files import output

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def served(tmp_path):
    """Serve a folder of this machine; return its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    np.save(folder / "M.npy", np.array([[5, 1], [2, 4]]))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_matrices_of_a_url_are_resampled(served, tmp_path, capsys):
    pytest.importorskip("aiohttp")
    out, local = tmp_path / "out.npy", tmp_path / "local.npy"
    argv = ["--resamples", "5", "--seed", "3", "--quiet"]
    assert cli.main(["resample", f"{served}/M.npy", "-o", str(out), *argv]) == 0
    assert cli.main(["resample", str(tmp_path / "served" / "M.npy"), "-o", str(local), *argv]) == 0
    assert out.read_bytes() == local.read_bytes()
    assert cli.main(["resample", f"{served}/none.npy", "-o", str(tmp_path / "no.npy"), *argv]) == 2
    assert f"{served}/none.npy" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("source", ["s3://bucket/M.npy", "http://127.0.0.1:9/M.npy", "nothing://x/M.npy"])
@pytest.mark.parametrize("command", ["resample", "normalize"])
def test_a_source_that_cannot_be_reached_is_named_in_one_line(source, command, tmp_path, capsys):
    assert cli.main([command, source, "-o", str(tmp_path / "out.npy"), "--quiet"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert source in lines[0]


@pytest.mark.parametrize("command", ["normalize", "resample", "metrics", "confusion"])
def test_blank_tables_are_named_in_one_line(command, tmp_path, capsys):
    argv = ["-o", str(tmp_path / "out.npy")] if command in ("normalize", "resample") else []
    for k, content in enumerate(("", "\n", "\n\n", "  \n", ",\n", "\t\n", "a,b\n", "\ufeff")):
        path = tmp_path / f"blank{k}{'.tsv' if k % 3 == 2 else '.csv'}"
        path.write_text(content)
        assert cli.main([command, str(path), "--quiet", *argv]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith(f"cmfast: {path}: ")


def test_an_error_of_writing_names_what_was_written(tmp_path):
    target = tmp_path / "out.npy"
    with pytest.raises(OSError, match="File too large") as told, output.replace_file(target):
        raise OSError(27, "File too large")
    assert told.value.filename == str(target)
    with pytest.raises(OSError, match="gone") as told, output.replace_file(target):
        raise OSError(2, "gone", "other")
    assert told.value.filename == "other"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_becomes_too_large_is_named(tmp_path):
    M = np.random.default_rng(0).integers(1, 9, (5000, 4, 4))
    np.save(tmp_path / "M.npy", M)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [sys.executable, "-m", "cmfast", "normalize", "M.npy", "--method", "row", "-o", "out.npy", "--quiet"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, preexec_fn=limit, capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert "file too large" in last
    assert "out.npy" in last
    assert not (tmp_path / "out.npy").exists()


def test_nothing_is_a_matrix_of_no_classes():
    for shape in ((0, 0), (3, 0, 0), (0, 0, 0)):
        for logits in (False, True):
            assert cmfast.bi_normalize(np.zeros(shape), logits=logits).shape == shape


def test_tests_of_no_tables_can_be_explained():
    from cmfast import uncertainty

    for test in (uncertainty.bowker, uncertainty.stuart_maxwell):
        assert test(np.zeros((0, 2, 2), int)).explain() == "no groups"


def test_tables_in_the_place_of_margins_are_refused():
    import pandas as pd

    frame = pd.DataFrame(np.ones((2, 3)))
    for call in (
        lambda: cmfast.ipf_nd(np.ones((2, 3)), frame),
        lambda: cmfast.support_nd(np.ones((2, 3)), frame),
        lambda: cmfast.round_to_margins(np.ones((2, 3)), axes=frame),
    ):
        with pytest.raises(TypeError, match=r"(margins|axes) must be .*got (a pandas )?DataFrame"):
            call()


@pytest.mark.torch
def test_tensors_without_data_are_refused():
    import torch

    from cmfast import nn

    M, y = torch.zeros((2, 2), device="meta"), torch.zeros(2, dtype=torch.long, device="meta")
    for call in (
        lambda: cmfast.bi_normalize(M),
        lambda: cmfast.confusion_matrix(y, y, n_classes=2),
        lambda: cmfast.ConfusionCounts(n_classes=2).update(y, y),
        lambda: nn.soft_confusion_matrix(M, y),
        lambda: nn.MetricLoss("mcc", from_logits=True)(M, y),
    ):
        with pytest.raises(TypeError, match="is on meta; cmfast works on cpu and cuda tensors"):
            call()
    with pytest.raises(TypeError, match="groups must be a sequence of 2 names, got Tensor: Cannot copy out of meta"):
        cmfast.metrics.collapse(np.eye(2), y)


def test_labels_of_a_list_beside_an_array():
    assert cmfast.confusion_matrix(np.float64(3).astype(int)[None], [3]).tolist() == [[1]]
