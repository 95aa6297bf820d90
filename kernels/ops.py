"""Table of all operations, which dispatch, conformance tests, benchmarks and the support table read."""

from dataclasses import dataclass
from typing import Literal

Target = Literal["cpu", "cuda"]
BOTH: frozenset[Target] = frozenset({"cpu", "cuda"})


@dataclass(frozen=True)
class Op:
    """One operation of the table.

    Attributes
    ----------
    module : str
        Module of the op in ``kernels/cpu`` and ``kernels/cuda``: a file, or a folder and a file. The part before the
        dot is the topic, which has the same name in every layer.
    signature : str
        Core axes in NumPy's gufunc notation; leading axes are the batch.
    targets : frozenset of {"cpu", "cuda"}
        Targets with a kernel. A call on another target raises; there is no fallback.
    merge : {None, "sum", "cells"}
        How the results of two parts of the samples combine: not at all (batch axes are independent), by adding
        integer tables, by merging sorted cells.
    rtol : (float, float)
        Relative tolerance against the oracle for float32 and float64 results. Integers are always exact.
    gradient : str or None
        The op of the backward pass, which torch and JAX use on targets with its kernel. None: arrays that require
        gradients are refused.
    """

    module: str
    signature: str
    targets: frozenset[Target] = frozenset({"cpu"})
    merge: Literal["sum", "cells"] | None = None
    rtol: tuple[float, float] = (1e-6, 1e-13)
    gradient: str | None = None

    @property
    def topic(self) -> str:
        """Return the name of the topic, the same in every layer."""
        return self.module.partition(".")[0]


OPS: dict[str, Op] = {
    "confusion_matrix": Op("counting", "(n),(n)->(C,C)", BOTH, merge="sum"),
    "overlap": Op("comparison", "(R,C),(R,C)->()", BOTH, gradient="comparison_gradient"),
    "l1_distance": Op("comparison", "(R,C),(R,C)->()", BOTH, gradient="comparison_gradient"),
    "kl_divergence": Op("comparison", "(R,C),(R,C)->()", BOTH, gradient="comparison_gradient"),
    "comparison_gradient": Op("comparison", "(R,C),(R,C),()->(R,C),(R,C)", BOTH, rtol=(1e-5, 1e-9)),
    "normalize": Op("normalizing", "(R,C)->(R,C)", BOTH, rtol=(1e-6, 1e-12), gradient="normalizing_gradient"),
    "importance_weights": Op(
        "normalizing", "(R,C),(R),(C),()->(R,C)", BOTH, rtol=(1e-6, 1e-12), gradient="normalizing_gradient"
    ),
    "normalizing_gradient": Op("normalizing", "(R,C),(R,C)->(R,C)", BOTH, rtol=(1e-5, 1e-12)),
    # Newton's last step determines the digits of small cells; the test cases use tol=1e-13.
    "ipf": Op(
        "scaling.launch",
        "(R,C),(R),(C),(R),(C)->(R,C),(R),(C),(),(),(),(),()",
        BOTH,
        rtol=(1e-6, 1e-11),
        gradient="scaling_gradient",
    ),
    "ras": Op(
        "scaling.launch",
        "(R,C),(R),(C),(R),(C)->(R),(C),(),(),(),(),()",
        BOTH,
        rtol=(1e-6, 1e-11),
        gradient="scaling_gradient",
    ),
    # A matrix in CSR form: row starts, columns, cells.
    "ipf_sparse": Op(
        "scaling.sparse", "(r),(p),(p),(R),(C),(R),(C)->(p),(R),(C),(),(),(),(),(R),(C)", rtol=(1e-6, 1e-11)
    ),
    "ipf_of_logits": Op(
        "scaling.logits",
        "(R,C),(R),(C)->(R,C),(R),(C),(),(),(),(),()",
        rtol=(1e-6, 1e-11),
        gradient="scaling_gradient",
    ),
    # The gradient at the rounded margins of a result: one more step than the forward pass.
    "scaling_gradient": Op(
        "scaling.gradient", "(R,C),(R,C),(R),(C),(R),(C),(R,C),(),()->(R,C),(R),(C)", BOTH, rtol=(1e-6, 1e-9)
    ),
    # A table, and arrays for each of its margins; the test cases use tol=1e-13.
    "ipf_nd": Op("margins.launch", "(t),(m)->(t),(m),(m),(),(),(),()", BOTH, rtol=(1e-6, 1e-9)),
    # The same for a sparse table: values and indices of the cells, and an array for each margin.
    "ipf_cells": Op("margins.launch", "(n),(d,n),(m)->(n),(m),(m),(),(),(),()", BOTH, rtol=(1e-6, 1e-9)),
    # Status, cells that must be zero, dual certificate per margin, requested and available mass of it.
    "support_nd": Op("margins.support", "(t),(m)->(),(t),(m),(),()", rtol=(1e-6, 1e-9)),
    # Respondents, design weights, and the totals of each margin; the test cases use tol=1e-13.
    "rake": Op("margins.rake", "(n,K),(n),(m)->(n),(m),(m),(m),(),(),(),()", rtol=(1e-6, 1e-9)),
    # Indices and values of pixels, sums, and omitted bins; the test cases use tol=1e-13.
    "balance": Op("balancing.launch", "(p),(p),(p),(n),(n)->(n),(n),(n),(b),(b),(b),(b)", BOTH, rtol=(1e-6, 1e-9)),
    "round_to_margins": Op("margins.rounding", "(t)->(t),(),()"),
    "support": Op("zeros.support", "(R,C),(R),(C)->(),(R,C),(R),(C),(R),(C),(),()", BOTH),
    "column_ranges": Op("geometry.columns", "(n,m)->(m),(m)", BOTH),
    "column_moments": Op("geometry.columns", "(n,m)->(k,m)", BOTH, merge="sum"),
    "column_products": Op("geometry.columns", "(n,m)->(w,k,k)", BOTH, merge="sum"),
    "column_quartiles": Op("geometry.columns", "(n,m)->(k,m)", BOTH),
    "pca": Op("geometry.columns", "(n,m)->(m),(k,m),(k)", BOTH, rtol=(1e-9, 1e-9)),
    "project": Op("geometry.columns", "(n,m),(m),(k,m)->(n,k)", BOTH, rtol=(1e-11, 1e-11)),
    "cell_counts": Op("geometry.counts", "(n,m),(n),(n)->(k),(k)", BOTH, merge="cells"),
    "sparse_histogram": Op("geometry.counts", "(n,m),(n),(n)->(k),(k)", BOTH, merge="cells"),
    "merge_cells": Op("geometry.counts", "(k),(k),(l),(l)->(n),(n)", BOTH, merge="cells"),
    "decode_cells": Op("geometry.counts", "(k)->(k,m),(k)", BOTH),
    "pair_counts": Op("geometry.counts", "(k),(k)->(C,C)", BOTH, merge="sum"),
    "cell_shapes": Op("geometry.counts", "(k),(k)->(s),(s),(t)", BOTH),
    "cell_excess": Op("geometry.matrices", "(k),(k),(D),(W,C,C),(W,C,C)->(W,C,C),(D,W)", BOTH, rtol=(1e-11, 1e-11)),
    "marginal_histogram": Op("geometry.histograms", "(k),(k),(C,C),(C,C)->(n),(n)", BOTH),
    "gcm": Op("geometry.matrices", "(k),(k),(C,C),(W,C,C)->(W,C,C)", BOTH),
    "min_overlap": Op("geometry.histograms", "(k),(k),(l),(l)->(G,H)", BOTH),
    "margins": Op("metrics.values", "(C,C)->(C),(C),(C),(C),(C),()", BOTH),
    "metrics_of_matrices": Op("metrics.values", "(C,C)->*", BOTH, rtol=(1e-6, 1e-12), gradient="metrics_gradient"),
    "metrics_gradient": Op("metrics.gradient", "(C,C),(s),(t,C)->(C,C)", BOTH, rtol=(1e-5, 1e-9)),
    # A difference of two sums over all cells: absolute error 1e-13, so the relative error near zero is larger.
    "weighted_kappa": Op("metrics.values", "(C,C),(C,C)->()", BOTH, rtol=(1e-6, 1e-10)),
    "metrics_of_sums": Op("metrics.values", "(C),(C),(C),(C),(C)->*", BOTH, rtol=(1e-6, 1e-12)),
    "one_vs_rest": Op("metrics.confusions", "(C,C)->(C,2,2)", BOTH),
    "confusion_fractions": Op("metrics.confusions", "(C,C)->(C,C)", BOTH),
    "most_confused": Op("metrics.confusions", "(C,C)->(k),(k),(k)", BOTH),
    # Float weights are summed in another order on each target; integer sums are exact.
    "threshold_matrices": Op("metrics.thresholds", "(n),(n),(n)->(t),(t,2,2)", BOTH, rtol=(1e-6, 1e-12)),
    "score_areas": Op("metrics.thresholds", "(n),(n),(n)->(),()", BOTH, rtol=(1e-12, 1e-12)),
    "least_cost": Op("metrics.thresholds", "(n),(n),(n)->(),(),(2,2)", BOTH, rtol=(1e-6, 1e-12)),
    # Areas of K models, their covariances and standard errors, from scores, labels and weights.
    "auc_covariance": Op("uncertainty.roc_areas", "(K,n),(n),(n)->(K),(K,K),(K)", rtol=(1e-9, 1e-9)),
    # Ratings by raters, or counts by categories; six results for each coefficient.
    "agreement_coefficients": Op("agreement", "(n,m)->*", rtol=(1e-9, 1e-9)),
    # Boxes, scores, labels and crowd flags; the partner of every box, and the IoU of predictions with theirs.
    "match_boxes": Op("detection", "(n,4),(m,4),(m),(n),(m),(n)->(m),(n),(m)", rtol=(1e-13, 1e-13)),
    "resample": Op("uncertainty.resample", "(C,C),(C)->(k,C,C)", BOTH),
    "metric_intervals": Op("uncertainty.intervals", "(C,C)->*", BOTH, rtol=(1e-9, 1e-9)),
    "metric_draws": Op("uncertainty.intervals", "(C,C)->*", BOTH, rtol=(1e-9, 1e-9)),
    "replicate_intervals": Op(
        "uncertainty.intervals", "(k,R,C),(R,C),(R,C)->(R,C),(R,C),(R,C),(R,C)", BOTH, rtol=(1e-9, 1e-9)
    ),
    "cell_errors": Op("uncertainty.cell_errors", "(C,C),(C,C)->(C,C),(C,C),()", BOTH, rtol=(1e-5, 1e-9)),
    "standard_errors": Op("uncertainty.errors", "(C,C)->*", BOTH, rtol=(1e-5, 1e-9)),
    "cluster_cell_errors": Op("uncertainty.cluster_cells", "(k,C,C),(C,C)->(C,C),(C,C),()", BOTH, rtol=(1e-5, 1e-9)),
    "cluster_replicates": Op("uncertainty.cluster_cells", "(k,C,C)->(n,C,C),()", BOTH),
    "cluster_intervals": Op("uncertainty.clusters", "(k,C,C)->*", BOTH, rtol=(1e-9, 1e-9)),
    "cluster_errors": Op("uncertainty.clusters", "(k,C,C)->*", BOTH, rtol=(1e-5, 1e-9)),
    "row_draws": Op("conformal.scores", "(n,C)->(n)", BOTH),
    "scores": Op("conformal.scores", "(n,C),(n),(n)->(n),(n)", BOTH),
    "threshold": Op("conformal.thresholds", "(n),(n)->(A),(g),(n)", BOTH),
    # Scores, their weights and those of new rows; one threshold for each alpha and new row.
    "weighted_threshold": Op("conformal.thresholds", "(n),(n),(m)->(A,m),(m)"),
    # Scores, their classes, and scores of new rows.
    "p_values": Op("conformal.p_values", "(n),(n),(m,C)->(m,C),(C),(n)"),
    "score_histogram": Op("conformal.thresholds", "(n)->(k)", BOTH, merge="sum"),
    "prediction_sets": Op("conformal.sets", "(n,C),(A,g,k),(n),(n)->(A,n,w),(A,n),(n)", BOTH),
    "set_coverage": Op("conformal.sets", "(A,n,w),(n)->(A,s),(A,s),(n)", BOTH, merge="sum"),
    "ccm": Op("conformal.correlation", "(n,w)->(C,C)", BOTH, merge="sum"),
    "coverage_confusion": Op("conformal.correlation", "(A,n,w),(n)->(A,C,C),(A,C),(n)", BOTH, merge="sum"),
    "ccm_ratios": Op("conformal.correlation", "(),(C,C)->(C,C),(C)", BOTH),
    "paired_errors": Op("uncertainty.paired_errors", "(u),(G),(u),(3,k),(k)->*", BOTH, rtol=(1e-5, 1e-9)),
    "carrying_samples": Op("uncertainty.effective_samples", "(C,C)->*", rtol=(1e-5, 1e-9)),
    "paired_replicates": Op("uncertainty.paired", "(u),(G),(s),(s),(u),(3,k),(k)->*", BOTH, rtol=(1e-6, 1e-12)),
    "label_margins": Op("metrics.confusions", "(n),(n),(n),(n)->(C),(C),(C),(C),(C),()", BOTH, merge="sum"),
}
