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

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add predictions and targets to all metrics."""
        with self._lock:
            super().update(*args, **kwargs)

    def compute(self) -> dict[str, Any]:
        """Return all metrics by name."""
        with self._lock, share_results():
            found: dict[str, Any] = super().compute()
            return found

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Give each metric a state of its own, to be loaded; the next update finds out again which are the same."""
        with self._lock:
            if self._enable_compute_groups:
                self._compute_groups_create_state_ref(copy=True)
                self._groups = {number: [str(name)] for number, name in enumerate(self.keys(keep_base=True))}
                self._groups_checked = False
            super()._load_from_state_dict(*args, **kwargs)
