"""torchmetrics' MetricCollection, made safe for several threads."""

from typing import Any

import torchmetrics

from cmfast.compat.torchmetrics._counting import LockedMetric
from cmfast.compat.torchmetrics._sums import share_results


class MetricCollection(LockedMetric, torchmetrics.MetricCollection):
    """Thread-safe replacement for `torchmetrics.MetricCollection`.

    The first update finds out which metrics keep the same counts, and lets them share a state. Another thread would
    modify what that update iterates over, so updates and computations are locked. Metrics that share a state also share
    its sums per class.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_load_state_dict_post_hook(split_groups)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add predictions and targets to all metrics."""
        with self._lock:
            super().update(*args, **kwargs)

    def compute(self) -> dict[str, Any]:
        """Return all metrics by name."""
        with self._lock, share_results():
            found: dict[str, Any] = super().compute()
            return found


def split_groups(collection: Any, incompatible_keys: object) -> None:
    """Split compute groups, in place, whose metrics no longer keep the same states after a checkpoint was loaded."""
    del incompatible_keys  # given by torch
    if not collection._groups_checked:
        return
    parts: dict[tuple[Any, ...], list[str]] = {}
    for number, names in collection._groups.items():
        for name in names:
            metric = getattr(collection, name)
            shapes = tuple((state, getattr(getattr(metric, state), "shape", None)) for state in metric._defaults)
            parts.setdefault((number, shapes), []).append(name)
    collection._groups = dict(enumerate(parts.values()))
