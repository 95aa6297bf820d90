"""torchmetrics' MetricCollection, whose first updates may come from several threads."""

from typing import Any

import torchmetrics

from cmfast.compat.torchmetrics._counting import Guarded


class MetricCollection(Guarded, torchmetrics.MetricCollection):
    """torchmetrics' class of this name, for several threads.

    Which metrics keep the same counts it finds out in its first update, and lets them share one state from then on. A
    second thread in the middle of that would change what the first one walks over, so each works on the whole alone.
    """

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add predictions and targets to all metrics."""
        with self._lock:
            super().update(*args, **kwargs)

    def compute(self) -> dict[str, Any]:
        """Return all metrics by their names."""
        with self._lock:
            found: dict[str, Any] = super().compute()
            return found
