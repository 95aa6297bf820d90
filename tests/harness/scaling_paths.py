"""Every path that `ipf` scales tables by, as functions of tables and margins to scaled tables and statuses."""

import numpy as np
import scipy.sparse

import cmfast


def _dense(**options):
    def scale(M, u, v):
        result = cmfast.ipf(M, u, v, on_failure="ignore", **options)
        return result.matrix, result.status

    return scale


def _logits(**options):
    def scale(M, u, v):
        return _dense(logits=True, **options)(np.log(M), u, v)

    return scale


def _sparse(**options):
    def scale(M, u, v):
        """Scale one by one, each as a sparse matrix."""
        found = [
            cmfast.ipf(scipy.sparse.csr_array(one), *lines, on_failure="ignore", **options)
            for one, *lines in zip(M, u, v, strict=True)
        ]
        return np.stack([one.matrix.toarray() for one in found]), np.array([one.status for one in found])

    return scale


AUTO = _dense()
PATHS = {"newton": _dense(solver="newton"), "sparse": _sparse(), "logits": _logits()}
SWEEPS = {
    "sinkhorn": _dense(solver="sinkhorn"),
    "sinkhorn, sparse": _sparse(solver="sinkhorn"),
    "sinkhorn, logits": _logits(solver="sinkhorn"),
}
