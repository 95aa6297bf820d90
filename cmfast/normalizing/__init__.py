"""Normalised confusion matrices, importance weights of samples, and estimates under target distributions."""

from cmfast.normalizing._normalize import bi_normalize, importance_weights, normalize
from cmfast.normalizing._target_estimate import TargetEstimate, estimate_for_target

__all__ = ["TargetEstimate", "bi_normalize", "estimate_for_target", "importance_weights", "normalize"]
