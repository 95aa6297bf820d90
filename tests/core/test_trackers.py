"""The programs of docs/howto/trackers.md, run by Lightning, MLflow and Weights & Biases where these are installed."""

import csv
import doctest
import importlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from optional import torch
from processes import ROOT

pytest.importorskip("pandas")
pytest.importorskip("matplotlib").use("agg")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
PAGE = (ROOT / "docs" / "howto" / "trackers.md").read_text(encoding="utf-8")
NAMES = ["cat", "dog", "fox"]


@pytest.fixture
def shared():
    """Return what the first program of the page defines."""
    torch.manual_seed(0)  # skips the test without torch
    names = {}
    for example in doctest.DocTestParser().get_examples(PAGE):
        exec(example.source, names)
    return names


def load(name):
    """Import a tracker; skip the test where it is not installed, unless `.ci/run engines` has installed it."""
    if os.environ.get("CMFAST_REQUIRE_ENGINES"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed")


def find_program(title):
    """Return the program under a title of the page; at most ten lines of code."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.split(f"## {title}\n")[1].split("\n## ")[0], flags=re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    return program


def find_output(title):
    """Return what the page says that the program under a title prints."""
    (text,) = re.findall(r"```text\n(.*?)```", PAGE.split(f"## {title}\n")[1].split("\n## ")[0], flags=re.DOTALL)
    return text


def count_by_loop(shared, model):
    """Return the matrix of the model on the data, by a loop."""
    M = [[0] * 3 for _ in range(3)]
    for X, y in shared["batches"]:
        for row, label in zip(model(X).tolist(), y.tolist(), strict=True):
            M[label][row.index(max(row))] += 1
    return M


def is_picture(path):
    """Return whether the file is a picture with more than one colour."""
    from matplotlib import image

    return len(np.unique(image.imread(path))) > 9


def test_mlflow(shared, tmp_path, monkeypatch, capsys):
    mlflow = load("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    capsys.readouterr()
    exec(find_program("MLflow"), shared)
    assert capsys.readouterr().out == find_output("MLflow")
    (run,) = mlflow.search_runs(output_format="list")
    M = count_by_loop(shared, shared["model"])
    right = sum(M[k][k] for k in range(3)) / 90
    assert run.data.metrics["accuracy"] == pytest.approx(right, abs=1e-12)
    assert set(run.data.metrics) == {"accuracy", "f1_macro", "mcc"}
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "mcc")
    assert [one.step for one in history] == [0, 1, 2]
    table, picture = (
        mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path=name, dst_path=str(tmp_path / "got"))
        for name in ("confusion.json", "confusion.png")
    )
    found = json.loads(Path(table).read_text(encoding="utf-8"))
    assert found["columns"] == ["true", *NAMES]
    assert found["data"] == [[name, *row] for name, row in zip(NAMES, M, strict=True)]
    assert is_picture(picture)


def test_weights_and_biases(shared, tmp_path, monkeypatch, capsys):
    wandb = load("wandb")
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_DIR", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged = []
    original = wandb.Run.log
    monkeypatch.setattr(wandb.Run, "log", lambda run, data, **more: (logged.append(data), original(run, data, **more)))
    capsys.readouterr()
    exec(find_program("Weights & Biases"), shared)
    assert capsys.readouterr().out == find_output("Weights & Biases")
    M = count_by_loop(shared, shared["model"])
    assert [set(one) for one in logged[:3]] == [{"accuracy", "f1_macro", "mcc"}] * 3
    assert logged[2]["accuracy"] == pytest.approx(sum(M[k][k] for k in range(3)) / 90, abs=1e-12)
    assert logged[3]["table"].columns == ["true", *NAMES]
    assert logged[3]["table"].data == [[name, *row] for name, row in zip(NAMES, M, strict=True)]
    assert list(tmp_path.rglob("*.wandb")), "the run was not written"
    (picture,) = tmp_path.rglob("media/images/*.png")
    assert is_picture(picture)


@pytest.mark.filterwarnings("ignore::UserWarning")  # too few workers
def test_lightning(shared, tmp_path):
    lightning = load("lightning")
    pytest.importorskip("torchmetrics")
    exec(find_program("Lightning"), shared)

    class Trained(lightning.LightningModule):
        """What the page leaves to the reader."""

        def __init__(self):
            super().__init__()
            self.model = torch.nn.Linear(3, 3)

        def forward(self, X):
            """Return the logits."""
            return self.model(X)

        def training_step(self, batch, _):
            """Return the loss."""
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def validation_step(self, batch, _):
            """Do nothing: the callback counts."""

        def configure_optimizers(self):
            """Return plain gradient descent."""
            return torch.optim.SGD(self.parameters(), lr=0.5)

    module, quiet = Trained(), {"enable_progress_bar": False, "enable_model_summary": False}
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", logger=logger, num_sanity_val_steps=0, log_every_n_steps=1,
        enable_checkpointing=False, callbacks=[shared["LogMatrix"]()], **quiet,
    )  # fmt: skip
    data = [torch.utils.data.DataLoader(shared["batches"], batch_size=None) for _ in range(2)]
    trainer.fit(module, *data)
    M = count_by_loop(shared, module.model)
    (written,) = tmp_path.rglob("confusion.csv")
    with written.open(encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["true", *NAMES], *([n, *map(str, r)] for n, r in zip(NAMES, M, strict=True))]
    assert is_picture(written.with_name("confusion.png"))
    with written.with_name("metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert float(rows[-1]["accuracy"]) == pytest.approx(sum(M[k][k] for k in range(3)) / 90, abs=1e-6)
