"""Forty mistakes that somebody could make, each one token or so, in kernels and in the layer above them.

``mutations.py`` plants them one at a time in a copy of the tree and says which tests find them. Faults that are planted
elsewhere, in results and in sources of CUDA: ``planted.py``, ``tests/contract/test_harness.py`` and
``tests/contract/test_fuzz.py``.
"""

from dataclasses import dataclass

CONFORMANCE = "tests/contract/test_conformance.py"
Stages = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Mutation:
    """One planted fault.

    Attributes
    ----------
    file : str
        Path relative to the top of the tree.
    old, new : str
        A line that occurs exactly once in the file, and its replacement.
    kind : str
        The kind of fault, in a few words.
    effect : str
        A call that shows it, and its result.
    topic : str
        Folder of the tests of this topic.
    stages : tuple of tuples of str
        What pytest is given for ``--run targeted``, one run after the other until one fails.
    same_code : bool
        Whether no machine code depends on the text, although the file is one of the kernels.
    """

    name: str
    file: str
    old: str
    new: str
    kind: str
    effect: str
    topic: str
    stages: Stages
    same_code: bool = False


def conforms(*ops: str, how: str = "-numpy]") -> tuple[str, ...]:
    """Return the arguments that select the cases of some ops, with arrays as `how`."""
    return CONFORMANCE, "-k", f"({' or '.join(f'[{op}-' for op in ops)}) and {how}"


def determinism(*ops: str) -> tuple[str, ...]:
    """Return the arguments that select the tests of threads, pieces and batches of some ops."""
    return "tests/contract/test_determinism.py", "-k", " or ".join(f"[{op}]" for op in ops)


CPU, CUDA, SHARED = "kernels/cpu", "kernels/cuda", "kernels/shared"

MUTATIONS = (
    Mutation(
        "counting-weight-ignored",
        f"{CPU}/counting.py",
        "table = np.bincount(cell, weight, self.rows * cells)",
        "table = np.bincount(cell, None, self.rows * cells)",
        "a weight ignored",
        "confusion_matrix([0, 1], [0, 1], sample_weight=[0.5, 2.0]) counts ones",
        "counting",
        (conforms("confusion_matrix"), ("tests/counting/test_api.py",)),
    ),
    Mutation(
        "counting-last-part-lost",
        f"{CPU}/counting.py",
        "for part in range(parts):",
        "for part in range(parts - 1):",
        "a missing last piece",
        "confusion_matrix of a million labels lacks the last part of them",
        "counting",
        (conforms("confusion_matrix"), ("tests/counting/test_api.py",)),
    ),
    Mutation(
        "comparison-overflow-unchecked",
        f"{CPU}/comparison.py",
        "if not (s < np.inf and t < np.inf):",
        "if not (s < np.inf or t < np.inf):",
        "an unchecked status",
        "overlap(S, T) with NaN in one of them is no longer INVALID",
        "comparison",
        (conforms("overlap", "l1_distance", "kl_divergence"), ("tests/comparison/test_api.py",)),
    ),
    Mutation(
        "comparison-series-sign",
        f"{CPU}/comparison.py",
        "(1 / 4 - d * (1 / 5",
        "(1 / 4 + d * (1 / 5",
        "a wrong sign",
        "kl_divergence(P, Q) of shares that differ by half a percent is off by 5e-8 of itself",
        "comparison",
        (conforms("kl_divergence"), ("tests/comparison/test_api.py",)),
    ),
    Mutation(
        "normalizing-huge-axis",
        f"{CPU}/normalizing.py",
        "return i if lines == ROW else j if lines == COL else 0",
        "return j if lines == ROW else j if lines == COL else 0",
        "a wrong axis",
        'normalize([[1e308, 1e308], [1, 3]], "row") gives 2.5e307 for the second cell',
        "normalizing",
        (("tests/normalizing/test_huge.py",), conforms("normalize")),
    ),
    Mutation(
        "normalizing-float32-sum",
        f"{CPU}/normalizing.py",
        "out[j] += x * unit",
        "out[j] = np.float64(np.float32(out[j] + x * unit))",
        "a float32 accumulator",
        'normalize(M, "col") of float64 and more than 16 rows has seven digits',
        "normalizing",
        (conforms("normalize"), ("tests/normalizing/test_api.py",)),
    ),
    Mutation(
        "scaling-last-lane",
        f"{CPU}/scaling/_tile_results.py",
        "for w in range(min(last + 1 - first, LANES)):",
        "for w in range(min(last - first, LANES)):",
        "a dropped last lane",
        "residual, passes and status of the last of thirteen matrices are never written",
        "scaling",
        (conforms("ipf", "ras"), ("tests/scaling/test_api.py",)),
    ),
    Mutation(
        "scaling-scatter-swapped",
        f"{CPU}/scaling/_tile_results.py",
        "out[b, j * t.R + i] = S[t.P + i * t.C + j, b - first]",
        "out[b, i * t.C + j] = S[t.P + i * t.C + j, b - first]",
        "rows and columns swapped",
        "ipf of three matrices of 3 rows and 5 columns gives the transposed cells",
        "scaling",
        (conforms("ipf"), ("tests/scaling/test_api.py",)),
    ),
    Mutation(
        "scaling-sweep-row",
        f"{CPU}/scaling/_large_sinkhorn.py",
        "r, s = r + M[i + 2, j] * y[j], s + M[i + 3, j] * y[j]",
        "r, s = r + M[i + 2, j] * y[j], s + M[i + 2, j] * y[j]",
        "a wrong index",
        "a sweep over 100 x 100 cells adds the last columns of one row to another",
        "scaling",
        (("tests/scaling/test_large.py",), conforms("ipf", "ras")),
    ),
    Mutation(
        "scaling-totals-upside-down",
        f"{CPU}/scaling/_preprocessing.py",
        "v * (U / V) if status == OK and U != V else v",
        "v * (V / U) if status == OK and U != V else v",
        "a ratio upside down",
        "ipf of a large matrix with totals that differ by 1e-9 does not converge to 1e-10",
        "scaling",
        (("tests/scaling/test_totals.py",), ("tests/scaling/test_large.py",)),
    ),
    Mutation(
        "zeros-first-block",
        f"{CPU}/zeros/_connected_components.py",
        "row_block[i] != col_block[j] and row_block[i] >= 0",
        "row_block[i] != col_block[j] and row_block[i] > 0",
        "> for >=",
        "support([[1, 1], [0, 1]]) finds no dead cell",
        "zeros",
        (conforms("support"), ("tests/zeros/test_api.py",)),
    ),
    Mutation(
        "zeros-int32-capacity",
        f"{CPU}/zeros/_maximum_flow.py",
        "return np.int64(target) if whole else",
        "return np.int64(np.int32(target)) if whole else",
        "int32 for int64",
        "support([[1, 1], [0, 1]], [3 * 2**31, 2**31], [2**32, 2**32]) takes targets for negative ones",
        "zeros",
        (("tests/zeros/test_large_targets.py",), conforms("support")),
    ),
    Mutation(
        "margins-soft-sign",
        f"{CPU}/margins/tables/passes.py",
        "t.goal[k] = t.wanted[k] * math.exp(-t.slack[k] * t.multipliers[k])",
        "t.goal[k] = t.wanted[k] * math.exp(t.slack[k] * t.multipliers[k])",
        "a wrong sign",
        "ipf_nd with importance= moves soft targets the wrong way",
        "margins",
        (("tests/margins/test_importance.py",), conforms("ipf_nd", "ipf_cells")),
    ),
    Mutation(
        "margins-unmeasured",
        f"{CPU}/margins/tables/results.py",
        "for b in range(len(t.totals)):",
        "for b in range(len(t.totals) - 1):",
        "a lost margin",
        "the residual that ipf_cells reports leaves the last margin out",
        "margins",
        (("tests/margins/test_measured.py",), ("tests/margins/test_cells.py",), ("tests/margins/test_api.py",)),
    ),
    Mutation(
        "raking-bounds-ignored",
        f"{CPU}/margins/records/search.py",
        "gone &= (self.q > 0.0) & (p.low == 0.0)",
        "gone &= (self.q > 0.0) & (p.low >= 0.0)",
        "a bound ignored",
        "rake with bounds=(0.5, 2) and a total of zero takes the weight from a record that must keep half of it",
        "margins",
        (("tests/margins/test_zero_totals.py",), ("tests/margins/test_rake.py",)),
    ),
    Mutation(
        "pool-last-tile",
        f"{CPU}/_core/pool.py",
        "for i in range(count)] + [n]",
        "for i in range(count)] + [n // tile * tile]",
        "a missing last piece",
        "the last five of 100,005 scaled matrices are never written",
        "core",
        (("tests/core/test_pool.py",), determinism("ipf")),
        same_code=True,
    ),
    Mutation(
        "balancing-diagonal-twice",
        f"{SHARED}/balancing_cells.py",
        "off = left.rows < left.columns",
        "off = left.rows <= left.columns",
        "<= for <",
        "balance(..., min_count=) counts a pixel on the diagonal twice",
        "balancing",
        (("tests/balancing/test_api.py",), conforms("balance"), ("tests/balancing/test_maps.py",)),
    ),
    Mutation(
        "geometry-truncated",
        f"{CPU}/geometry/_keys.py",
        "cell = cell * extent[d] + (np.int64(np.floor(x)) - low[d])",
        "cell = cell * extent[d] + (np.int64(x) - low[d])",
        "truncation for floor",
        "cell_counts of points below the origin, one of them NaN: -0.5 is in the cell of 0.5",
        "geometry",
        (conforms("cell_counts", "sparse_histogram"), ("tests/geometry/test_keys.py",)),
    ),
    Mutation(
        "geometry-merge-drops",
        f"{CPU}/geometry/_run_length.py",
        "out[k], number[k] = a[i], m[i] + n[j]",
        "out[k], number[k] = a[i], m[i]",
        "merged state that drops counts",
        "a + b of two CellCounts that share a cell has the counts of a there",
        "geometry",
        (conforms("merge_cells"), ("tests/geometry/test_accumulator.py",)),
    ),
    Mutation(
        "geometry-cut-in-a-cell",
        f"{CPU}/geometry/_run_length.py",
        'side="right"',
        'side="left"',
        "a cut in the wrong place",
        "gcm of many points, in several pieces, takes a cell for two",
        "geometry",
        (("tests/geometry/test_parts.py", "tests/geometry/test_accumulator.py"), ("tests/geometry/test_api.py",)),
        same_code=True,
    ),
    Mutation(
        "geometry-sticky-bit",
        f"{CPU}/geometry/_segmented_sums.py",
        "if (b & ((1 << (n - 1)) - 1)) | d | e:",
        "if (b & ((1 << (n - 1)) - 1)) | d:",
        "a rounding without all digits",
        "sparse_histogram of weights 1, 1, 2.0**-52, 2.0**-123 in one cell gives 2, not the next number",
        "geometry",
        (("tests/geometry/test_sums_carry.py",), ("tests/geometry/test_sums.py",)),
    ),
    Mutation(
        "metrics-farthest-band",
        f"{CPU}/metrics/_margins.py",
        "if 0 < away < C - i:",
        "if 0 < away < C - 1 - i:",
        "an edge off by one",
        "kappa_quadratic leaves out the last cell of each row above the diagonal",
        "metrics",
        (conforms("margins", "metrics_of_matrices"), ("tests/metrics/test_api.py",)),
    ),
    Mutation(
        "metrics-tied-scores",
        f"{CPU}/metrics/thresholds.py",
        "if 0 < k < n and out[k] == out[k + 1]:",
        "if 0 < k < n and out[k] < out[k + 1]:",
        "< for ==",
        "metrics.roc_auc([0.5, 0.5], [0, 1]) depends on the order of the samples",
        "metrics",
        (conforms("threshold_matrices", "score_areas"), ("tests/metrics/test_api.py",)),
    ),
    Mutation(
        "uncertainty-half-seed",
        f"{CPU}/uncertainty/_random_numbers.py",
        "stream[5] = np.uint64(seed) >> HALF",
        "stream[5] = np.uint64(0)",
        "a seed ignored",
        "resample(M, rng=) draws the same for two seeds that differ in their upper half",
        "uncertainty",
        (conforms("resample", "metric_draws"), ("tests/uncertainty/test_api.py",)),
    ),
    Mutation(
        "uncertainty-jackknife",
        f"{CPU}/uncertainty/_replicates.py",
        "(3, abs(i - j)), (4, max(i, j)))",
        "(3, abs(i - j)), (4, min(i, j)))",
        "min for max",
        'interval(M, "gerrity", method="bca") has another acceleration',
        "uncertainty",
        (conforms("metric_intervals"), ("tests/uncertainty/test_intervals.py",)),
    ),
    Mutation(
        "conformal-rank",
        f"{SHARED}/conformal.py",
        "return n + 1 - (n + 1) * numerator // denominator",
        "return n - n * numerator // denominator",
        "an edge off by one",
        "threshold(scores, alpha=0.1) of 9 scores is the ninth, not infinite: coverage is not what was asked for",
        "conformal",
        (conforms("threshold"), ("tests/conformal/test_api.py",)),
        same_code=True,
    ),
    Mutation(
        "conformal-bin-edge",
        f"{CPU}/conformal/thresholds.py",
        "while at > 0 and at * width >= s:",
        "while at > 0 and at * width > s:",
        "> for >=",
        "score_histogram counts a score on an edge in the cell above",
        "conformal",
        (conforms("score_histogram"), ("tests/conformal/test_api.py",)),
    ),
    Mutation(
        "conformal-penalty",
        f"{CPU}/conformal/_single_row.py",
        "penalty * max(0, k + 1 - k_reg) > most",
        "penalty * max(0, k - k_reg) > most",
        "an edge off by one",
        'prediction_sets(P, q, method="raps", k_reg=2) charges the third label nothing',
        "conformal",
        (conforms("prediction_sets", "set_coverage"), ("tests/conformal/test_api.py",)),
    ),
    Mutation(
        "cuda-counting-edge",
        f"{CUDA}/counting.cu",
        "return unsign(t) < n_classes && unsign(p) < n_classes;",
        "return unsign(t) < n_classes && unsign(p) <= n_classes;",
        "<= for <",
        "on a GPU the prediction n_classes counts as class 0 of the next row, and nothing is raised",
        "counting",
        (("tests/counting/test_cuda_edges.py",), ("tests/counting/test_cuda.py",)),
    ),
    Mutation(
        "cuda-overflow-unchecked",
        f"{CUDA}/comparison.cu",
        "bad = team_any<W>(bad) || !(s < CM_INF && t < CM_INF);",
        "bad = team_any<W>(bad);",
        "an unchecked status",
        "on a GPU overlap([[1e308, 1e308], [0, 0]], T) is zero, not INVALID",
        "comparison",
        (conforms("overlap", "l1_distance", "kl_divergence", how="cuda-host-0"), ("tests/comparison/test_cuda.py",)),
    ),
    Mutation(
        "cuda-last-sample",
        f"{CUDA}/conformal/correlation.cu",
        "i < n && i < 64 * (step + 1); ++i)",
        "i < n && i < 64 * step + 63; ++i)",
        "a dropped last lane",
        "on a GPU ccm leaves out each sixty-fourth sample",
        "conformal",
        (conforms("ccm", how="cuda-host-0"), ("tests/conformal/test_cuda.py",)),
    ),
    Mutation(
        "layer-big-endian",
        "cmfast/_core/adapters/_numpy.py",
        'x = x.astype(x.dtype.newbyteorder("="))',
        'x = x.view(x.dtype.newbyteorder("="))',
        "big-endian numbers read wrongly",
        'overlap(S.astype(">f8"), T) reads the bytes in the wrong order',
        "contract",
        (conforms("overlap", "normalize", how="layouts"),),
    ),
    Mutation(
        "layer-dask-merge",
        "cmfast/_core/adapters/_dask.py",
        "parts[k : k + MERGED_STATES] for k in",
        "parts[k : k + MERGED_STATES - 1] for k in",
        "a missing last piece",
        "confusion_matrix of a Dask array of eight chunks lacks the eighth",
        "core",
        (("tests/core/test_dask_samples.py",), ("tests/core/test_dask_points.py",), ("tests/core/test_dask.py",)),
    ),
    Mutation(
        "layer-groups-not-moved",
        "cmfast/confusion_counts/_state.py",
        "(held.keys is None or held.keys is out.keys)",
        "(held.keys is None or out.keys is not None)",
        "a lost group",
        "the sum of two ConfusionCounts with the same labels and different groups",
        "confusion_counts",
        (("tests/confusion_counts/test_api.py",),),
    ),
    Mutation(
        "layer-limit-does-not-raise",
        "cmfast/_core/failures.py",
        'if limit_is_answer and on_failure == "raise" and all(',
        'if limit_is_answer and on_failure == "raise" and any(',
        "an error not raised",
        'ipf of two matrices, one LIMIT_ONLY, one INFEASIBLE, with on_failure="raise" warns',
        "contract",
        (("tests/contract/test_failures.py",), ("tests/scaling/test_api.py",)),
    ),
    Mutation(
        "layer-warning-lost",
        "cmfast/_core/failures.py",
        "if isinstance(status, np.generic) and not status:",
        "if isinstance(status, np.generic):",
        "a warning lost",
        "overlap of one pair without mass says nothing",
        "contract",
        (conforms("overlap"), ("tests/contract/test_failures.py",)),
    ),
    Mutation(
        "layer-fortran-state",
        "cmfast/_files/archive.py",
        'order="F" if order == "True" else "C"',
        'order="C"',
        "a wrong axis",
        "load of a state that NumPy wrote in Fortran order gives its transposed cells",
        "core",
        (("tests/core/test_states_order.py",), ("tests/core/test_states.py",)),
    ),
    Mutation(
        "layer-broken-pipe",
        "cmfast/cli/_main.py",
        "return 128 + signal.SIGPIPE",
        "return 0",
        "a wrong exit status",
        "cmfast metrics ... | head -1 reports success",
        "cli",
        (("tests/cli/test_output.py",), ("tests/cli/test_screen.py",), ("tests/cli/test_commands.py",)),
    ),
    Mutation(
        "layer-stale-cache",
        f"{CPU}/_core/jit.py",
        "        if entry.is_dir():\n",
        '        if entry.is_dir() and entry.name != "shared":\n',
        "a stale cache key",
        "after an edit of kernels/shared old machine code is used again",
        "core",
        (("tests/core/test_jit.py",),),
        same_code=True,
    ),
    Mutation(
        "layer-wrong-default",
        "cmfast/geometry/_pca.py",
        "USUAL_AXES = 10",
        "USUAL_AXES = 9",
        "a wrong default",
        "pca(X) of points with twelve columns has nine axes",
        "geometry",
        (("tests/core/test_doubtful_inputs.py",),),
    ),
)
