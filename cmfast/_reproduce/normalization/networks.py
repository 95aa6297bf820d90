"""Networks: the perceptron of the demo, and the two convolutional networks of the paper (with torch)."""

from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from cmfast._reproduce.normalization.data import Common
from cmfast._reproduce.normalization.own import refuse

NETWORKS = ("perceptron", "cnn")
BATCH, LEARNING_RATE, SGD_MOMENTUM, DECAY = 32, 0.01, 0.9, 1e-4
LARGE = 28  # pixels of a side from which the second has the kernels of the paper: smaller pictures would vanish
DROPPED = 0.25
ROWS = 1024  # samples per prediction batch


class Network(Protocol):
    """Interface of a network that trains in rounds and exposes its last layer."""

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Train one epoch."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of every sample."""
        ...

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Return the last layer before the classes."""
        ...


def check_network(name: str) -> None:
    """Raise FileError for an unknown network, and for "cnn" without torch."""
    if name not in NETWORKS:
        refuse(f"--network {name}", f"must be one of {', '.join(NETWORKS)}")
    if name == "cnn" and find_spec("torch") is None:
        refuse("--network cnn", "needs torch: pip install torch")


def accepts_shape(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether a network accepts samples of this shape; convolutions need pictures of at least 4 x 4 pixels."""
    return name != "cnn" or (len(shape) in {2, 3} and min(shape[:2]) >= 4)


def make_network(name: str, shape: tuple[int, ...], n_classes: int, seed: int, settings: Common) -> Network:
    """Return a network for samples of a shape, with initial weights from `seed`."""
    if name == "perceptron":
        return Perceptron(n_classes, seed, settings.hidden)
    return Convolutional(shape, n_classes, seed)


class Perceptron:
    """A network with one hidden layer and initial weights from `seed`."""

    def __init__(self, n_classes: int, seed: int, hidden: int) -> None:
        from sklearn.neural_network import MLPClassifier

        # Typed loosely: scikit-learn's annotations, read off its defaults, know batch_size as a string only.
        options: dict[str, Any] = {"solver": "sgd", "learning_rate_init": LEARNING_RATE, "momentum": SGD_MOMENTUM}
        options |= {"batch_size": BATCH, "alpha": DECAY}
        self._network: Any = MLPClassifier((hidden,), random_state=seed, **options)
        self._classes = np.arange(n_classes)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Train one epoch."""
        self._network.partial_fit(X.reshape(len(X), -1), y, classes=self._classes)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of every sample."""
        found: np.ndarray = self._network.predict(X.reshape(len(X), -1))
        return found

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Return the hidden layer of `X`."""
        network = self._network
        hidden: np.ndarray = np.maximum(X.reshape(len(X), -1) @ network.coefs_[0] + network.intercepts_[0], 0.0)
        return hidden


class Convolutional:
    """The convolutional networks of the paper (appendix D.2): small for grey pictures, large for coloured ones."""

    def __init__(self, shape: tuple[int, ...], n_classes: int, seed: int) -> None:
        import torch  # noqa: TID251  # installed by those who ask for it

        # One thread: so have linear algebra and the bits of a run.
        torch.set_num_threads(1)
        self._torch: Any = torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._random = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            colours = shape[2] if len(shape) == 3 else 1
            layers = _make_large_layers(torch.nn, colours, shape) if colours > 1 else _make_small_layers(torch.nn)
            self._body = torch.nn.Sequential(*layers)
            example = torch.zeros(2, colours, *shape[:2])
            width = self._body(example).shape[1]
            tail = [torch.nn.Dropout(DROPPED)] if colours > 1 else []
            self._head = torch.nn.Sequential(*tail, torch.nn.Linear(width, n_classes))
        self._whole = torch.nn.Sequential(self._body, self._head).to(self._device)
        options: dict[str, Any] = {"lr": LEARNING_RATE, "momentum": SGD_MOMENTUM, "weight_decay": DECAY}
        self._steps = torch.optim.SGD(self._whole.parameters(), **options)

    def _make_tensor(self, X: np.ndarray) -> Any:
        """Return pictures as a tensor (samples, channels, height, width) on the network's device."""
        pictures = X[..., None] if X.ndim == 3 else X
        return self._torch.from_numpy(np.ascontiguousarray(np.moveaxis(pictures, -1, 1))).to(self._device)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Train one epoch."""
        torch = self._torch
        loss, pictures, classes = (
            torch.nn.CrossEntropyLoss(),
            self._make_tensor(X),
            torch.from_numpy(y).to(self._device),
        )
        self._whole.train()
        with torch.random.fork_rng():  # what is dropped comes from the global stream
            torch.manual_seed(int(torch.randint(2**31, (), generator=self._random)))
            order = torch.randperm(len(y)).to(self._device)
            for rows in order.split(BATCH):
                if len(rows) > 1:  # of one sample there is no variance to normalise by
                    self._steps.zero_grad()
                    loss(self._whole(pictures[rows]), classes[rows]).backward()
                    self._steps.step()

    def _evaluate(self, network: Any, X: np.ndarray) -> np.ndarray:
        """Return the output of `network` for all samples, in evaluation mode and in batches."""
        self._whole.eval()
        with self._torch.no_grad():
            parts = [network(part).cpu().numpy() for part in self._make_tensor(X).split(ROWS)]
        return np.concatenate(parts)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of every sample."""
        found: np.ndarray = self._evaluate(self._whole, X).argmax(axis=1)
        return found

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Return the last layer before the classes."""
        return self._evaluate(self._body, X)


def _make_small_layers(nn: Any) -> list[Any]:
    """Return the layers C(8)-R-M-C(16)-R-M-L(64)-R: convolutions of 3 x 3 with padding, ReLU, max pooling, linear."""
    layers: list[Any] = []
    for before, after in ((1, 8), (8, 16)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return [*layers, nn.Flatten(), nn.LazyLinear(64), nn.ReLU()]


def _make_large_layers(nn: Any, colours: int, shape: tuple[int, ...]) -> list[Any]:
    """Return the layers C(64)-R-B-C(64)-R-B-M-D-C(128)-R-B-C(128)-R-B-M-D-L(128)-R; B is batch norm, D dropout.

    Kernels are 5 x 5, or 3 x 3 with padding for small pictures.
    """
    kernel, border = (5, 0) if min(shape[:2]) >= LARGE else (3, 1)
    layers: list[Any] = []
    for before, after in ((colours, 64), (64, 128)):
        for channels in (before, after):
            layers += [nn.Conv2d(channels, after, kernel, padding=border), nn.ReLU(), nn.BatchNorm2d(after)]
        layers += [nn.MaxPool2d(2), nn.Dropout(DROPPED)]
    return [*layers, nn.Flatten(), nn.LazyLinear(128), nn.ReLU()]
