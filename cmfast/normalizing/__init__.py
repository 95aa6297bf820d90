"""Normalised confusion matrices, the weights of samples that give them, and estimates for other distributions."""

from cmfast.normalizing._estimates import TargetEstimate, estimate_for_target
from cmfast.normalizing._functions import bi_normalize, importance_weights, normalize

__all__ = ["TargetEstimate", "bi_normalize", "estimate_for_target", "importance_weights", "normalize"]
