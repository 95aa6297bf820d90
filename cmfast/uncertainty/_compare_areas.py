"""Compare the areas under the ROC curves of two models on the same samples, by DeLong's test."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.metrics._thresholds import adopt_scores
from cmfast.uncertainty._area_influences import AreaOptions
from cmfast.uncertainty._areas import AREA, compute_areas
from cmfast.uncertainty._comparison import Comparison, summarize_errors


def compare_areas(y_true: Array, y_a: Array, y_b: Array, **options: Any) -> Comparison:
    """Return the comparison of the areas of two rows of scores; options are :class:`AreaOptions`."""
    chosen = AreaOptions(**options)
    method, test = chosen.method or "delta", chosen.test
    validate.choice("method", method, ("delta",))
    validate.choice("test", test, ("interval",))
    confidence_level = validate.confidence_level(chosen.confidence_level)
    num_threads = validate.num_threads(chosen.num_threads)
    sides = []
    for name, side in (("y_a", y_a), ("y_b", y_b)):
        scores, labels, weight = adopt_scores(y_true, side, chosen.sample_weight, chosen.pos_label, None, name=name)
        if len(dispatch.shape_of(scores)) != 1:
            validate.refuse(name, "one row of scores, shape (n,)", f"shape {dispatch.shape_of(scores)}")
        if not adapter(scores).is_on_host(scores):
            validate.refuse(name, "on the CPU", adapter(scores).device(scores), NotImplementedError)
        sides.append(adapter(scores).to_host(scores))
    given = [np.stack(sides), *(None if x is None else np.asarray(adapter(x).to_host(x)) for x in (labels, weight))]
    auc, covariance, _ = compute_areas(given, None, num_threads)
    variance = covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]
    fields: dict[str, Any] = summarize_errors(auc, np.sqrt(np.maximum(variance, 0.0)), confidence_level)
    ranks = [np.unique(side, return_inverse=True)[1] for side in sides]
    return Comparison(
        name=AREA,
        p_error=np.float64(np.nan),
        n_discordant=np.int64(np.count_nonzero(ranks[0] != ranks[1])),
        confidence_level=confidence_level,
        method=method,
        test=test,
        axes={},
        **fields,
    )
