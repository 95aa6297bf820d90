// Scaling of tables to margins over any of their axes, as kernels/cpu/margins/launch.py: one team of threads for each
// table, from validation to results.

// The axes that two margins share: sums over them, and the shared marginal of each marginal.
struct Overlaps {
  int number;
  const int* __restrict__ pairs;   // (number, 5): two margins, size of their shared margin, first index in `shared` of
                                   // each
  const int* __restrict__ shared;  // marginal of a margin -> marginal of the margin shared with another
  const int* __restrict__ within;  // earlier margin that has all axes of each, or -1
};

template <int W>
__device__ __forceinline__ int check(const Table<W>& t, const double* cells) {
  bool bad = false;
  double total = 0.0;
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) bad |= !(cells[c] >= 0.0 && cells[c] < CM_INF);
#pragma unroll 1
  for (int k = t.rank; k < t.of.lines; k += W) {
    const double target = t.targets()[k];
    bad |= target < 0.0 || target == CM_INF;
    if (target > 0.0) total += target;
  }
  if (team_any<W>(bad)) return CM_INVALID;
  return team_sum<W>(total) < CM_INF ? CM_CONVERGED : CM_RANGE;
}

// Sum of a margin over one marginal of its shared axes; NaN where a target is unknown.
template <int W>
__device__ __forceinline__ double sum_shared(const Table<W>& t, const int* shared, int b, int k) {
  double sum = 0.0;
#pragma unroll 1
  for (int line = t.of.offsets[b]; line < t.of.offsets[b + 1]; ++line)
    if (shared[line - t.of.offsets[b]] == k) sum += t.targets()[line];
  return sum;
}

// Scale margins so that their sums over shared axes agree; false if they differ too much.
template <int W>
__device__ __forceinline__ bool reconcile(Table<W>& t, const Overlaps& overlaps) {
#pragma unroll 1
  for (int round = 0; round < CM_RECONCILE_ROUNDS; ++round) {
    bool changed = false, off = false;
#pragma unroll 1
    for (int p = 0; p < overlaps.number; ++p) {
      const int* pair = overlaps.pairs + 5 * p;
      const int *one = overlaps.shared + pair[3], *other = overlaps.shared + pair[4];
#pragma unroll 1
      for (int k = t.rank; k < pair[2]; k += W) {
        const double wanted = sum_shared(t, one, pair[0], k), found = sum_shared(t, other, pair[1], k);
        const double gap = fabs(wanted - found), most = fmax(wanted, found);
        off |= gap > CM_TOTALS_RTOL * most;
        t.sums()[k] = gap > CM_MOST_ROUNDED_GAP * most ? wanted / found : 1.0;
        changed |= t.sums()[k] != 1.0;
      }
      t.synchronize();
      const int first = t.of.offsets[pair[1]];
#pragma unroll 1
      for (int line = first + t.rank; line < t.of.offsets[pair[1] + 1]; line += W)
        t.targets()[line] *= t.sums()[other[line - first]];
      t.synchronize();
      if (round == 0 && team_any<W>(off)) return false;
    }
    if (!team_any<W>(changed)) break;
  }
  return true;
}

template <int W>
__device__ __forceinline__ bool has_cells(const Table<W>& t, int line) {
#pragma unroll 1
  for (int at = t.of.starts[line]; at < t.of.starts[line + 1]; ++at)
    if (t.q()[t.of.members[at]] > 0.0) return true;
  return false;
}

// Determine which marginals are unknowns, and sum the targets of every margin. A marginal with a soft target and no
// cell is left out: it misses all of its target.
template <int W>
__device__ __forceinline__ void number_unknowns(Table<W>& t, const Overlaps& overlaps) {
  double least = CM_INF, all_asked = 0.0;
  int unknowns = 0;
#pragma unroll 1
  for (int b = 0; b < t.of.margins; ++b) {
    double total = 0.0;
    bool free = false;
#pragma unroll 1
    for (int line = t.of.offsets[b] + t.rank; line < t.of.offsets[b + 1]; line += W)
      if (t.targets()[line] >= 0.0)
        total += t.targets()[line];
      else
        free = true;
    total = team_sum<W>(total);
    free = team_any<W>(free);
    if (t.of.slack[b] == 0.0) {
      if (free)
        all_asked += total;
      else
        least = fmin(least, total);
    }
    t.synchronize();  // all have read the margins before
    if (t.rank == 0) {
      t.totals()[b] = total;
      t.known()[b] = free ? 0.0 : 1.0;
    }
    t.synchronize();
    const int around = overlaps.within[b];                                 // a margin that has all of its axes
    const bool implied = around >= 0 && t.known()[around] > 0.0 && !free;  // implied unless partly free
    if (b == 0) continue;
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W) {
      const double target = t.targets()[t.of.closed + k];
      const bool asked = target > 0.0 && !implied && (t.of.slack[b] == 0.0 || has_cells(t, t.of.closed + k));
      t.goals()[t.of.closed + k] = t.wanted()[k] = asked ? target : 0.0;
      unknowns += asked;
    }
  }
  // If no total is known, the cells that any target counts sum to at most all targets.
  t.bounded = least == CM_INF;
  t.total = t.bounded ? all_asked : least;
  t.unknowns = team_sum<W>(unknowns);
  t.synchronize();
}

// Load the cells that may be positive: no marginal of theirs has the target zero.
template <int W>
__device__ __forceinline__ void load_cells(Table<W>& t, const double* cells, double smoothing) {
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) {
    const double value = cells[t.of.places[c]] + smoothing;
    bool alive = value > 0.0;
#pragma unroll 1
    for (int b = 0; b < t.of.margins; ++b) alive &= t.targets()[t.code(b, c) + (b ? t.of.closed : 0)] != 0.0;
    t.q()[c] = alive ? value : 0.0;
    t.x()[c] = 0.0;
  }
  t.synchronize();
}

// Whether a marginal with a hard positive target has no cell.
template <int W>
__device__ __forceinline__ bool has_empty_marginal(const Table<W>& t) {
  bool empty = false;
#pragma unroll 1
  for (int b = 0; b < t.of.margins; ++b)
#pragma unroll 1
    for (int line = t.of.offsets[b] + t.rank; line < t.of.offsets[b + 1] && t.of.slack[b] == 0.0; line += W)
      empty |= t.asked(b, line) > 0.0 && !has_cells(t, line);
  return team_any<W>(empty);
}

// Set up a table; return CM_CONVERGED or the status of a failure. Reconciles the targets.
template <int W>
__device__ __forceinline__ int set_up_table(Table<W>& t, const double* cells, const double* targets, double smoothing,
                                            const Overlaps& overlaps) {
  t.synchronize();  // all have read the results of the last table
#pragma unroll 1
  for (int k = t.rank; k < t.of.lines; k += W) t.targets()[k] = targets[k];
#pragma unroll 1
  for (int k = t.rank; k < t.others(); k += W) t.multipliers()[k] = t.step()[k] = 0.0;
  t.synchronize();
  t.passes = t.steps = t.removed = 0;
  t.residual = t.width = t.width_before = CM_INF;
  t.probed = 0.0;
  const int status = check(t, cells);
  if (status != CM_CONVERGED) return status;
  if (!reconcile(t, overlaps)) return CM_TOTALS;
  load_cells(t, cells, smoothing);
  number_unknowns(t, overlaps);
  return has_empty_marginal(t) ? CM_ZERO_LINE : CM_CONVERGED;
}

// Sweep while few more sweeps are predicted; return whether margins and cells are accurate without a Newton step.
template <int W>
__device__ __forceinline__ bool sweep_to_convergence(Table<W>& t) {
  int number = 0;
  double left = 0.0, widest = CM_INF, louder = CM_INF;
  const double enough = fmin(CM_CELLS_TOL * t.tol, CM_MOST_CELL_ERROR);
  // First until the margins are met, then until the last change shows that the cells are accurate as well.
#pragma unroll 1
  for (bool met = false;;) {
    const double before = t.residual, wide = widest;
    if (!met && number >= CM_PLAIN_SWEEPS && !(t.residual > t.tol && left <= CM_PATIENT_SWEEPS)) {
      met = true;
      if (t.residual <= t.tol) louder = t.of.margins * measure_amplification(t);
      sum_cells(t);
    }
    if (met && !(louder * widest > enough && louder < CM_INF)) break;
    widest = sweep(t);
    ++number;
    const bool shrinks = 0.0 < t.residual && t.residual < before && before < CM_INF;
    left = shrinks ? log(t.tol / t.residual) / log(t.residual / before) : CM_INF;
    if (met && !(widest < CM_STANDING * wide)) break;
  }
  t.passes += i64(number) * t.of.margins;
  scale_cells(t);
  sum_cells(t);
  if (!(louder * widest <= enough) || !(t.residual <= t.tol)) return false;
  t.probed = louder * larger(widest, CM_UNIT_ROUNDOFF);
  t.width = widest;
  return true;
}

constexpr int SOLVE = -1;  // status: solve for another Newton step

template <int W>
__device__ __forceinline__ int check_convergence(Table<W>& t) {
  if (!(t.residual < CM_INF)) return CM_RANGE;
  const bool stalled = has_stalled(t.width, t.width_before);
  if (t.residual <= t.tol && (t.width <= t.last_width || stalled)) {
    t.probed = stalled && t.width > t.last_width ? t.width : t.width * t.width;
    return CM_CONVERGED;
  }
  return t.passes >= t.max_iter || t.steps >= CM_NEWTON_STEPS ? CM_MAX_ITER : SOLVE;
}

// Take the Newton step that was solved for; return SOLVE or the final status.
template <int W>
__device__ __forceinline__ int take_step(Table<W>& t) {
  double highest, widest;
  ++t.steps;
  ++t.passes;
  measure_step(t, highest, widest);
  if (!(widest < CM_INF)) return CM_RANGE;
  bool anew = false;
  if (t.steps >= CM_PROOFS_FROM && (widest > CM_CLOSE || t.residual > t.tol)) {
    if (is_certificate(t, t.step_lift(), t.step()) || is_certificate(t, t.lift(), t.multipliers()))
      return CM_INFEASIBLE;
    const int gone = fix_zero_cells(t);
    if (gone < 0) return CM_INFEASIBLE;
    if (gone > 0) {  // restart: remaining cells may have shrunk with the removed ones
      anew = true;
      highest = 0.0;
      widest = CM_INF;
    }
  }
  const double length = damped_step(highest);
  t.width_before = t.width;
  t.width = widest;
#pragma unroll 1
  for (int k = t.rank; k < t.others(); k += W)
    t.multipliers()[k] = anew ? 0.0 : t.multipliers()[k] + length * t.step()[k];
  t.synchronize();
  scale_cells(t);
  sum_cells(t);
  return check_convergence(t);
}

// Set the right-hand side to pseudo-random rounding errors of the targets, determined by `number`.
template <int W>
__device__ __forceinline__ void perturb_targets(Table<W>& t, int number) {
  const double unit = CM_UNIT_ROUNDOFF / (1.0 + t.slack);
  draw_perturbation(t, number + 1);
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b)
    sum_lines(t, b, t.z() - t.of.closed, [&](int c) { return t.step_lift()[t.code(0, c)] * unit * t.x()[c]; });
  t.synchronize();
#pragma unroll 1
  for (int k = t.rank; k < t.others(); k += W)
    t.step()[k] = t.scale()[k] * (t.step()[k] * CM_UNIT_ROUNDOFF * t.sums()[k] - t.z()[k]);
  t.synchronize();
}

// Solve for the perturbation by the Cholesky factor; record the largest change of a log cell.
template <int W>
__device__ __forceinline__ void measure_perturbation(Table<W>& t) {
  substitute(t);
#pragma unroll 1
  for (int k = t.rank; k < t.others(); k += W) t.step()[k] *= t.scale()[k];
  t.synchronize();
}

template <int W>
__device__ __forceinline__ int scale(Table<W>& t, bool pairs) {
  scale_cells(t);
  sum_cells(t);
  t.passes = 1;
  if (t.unknowns == 0)
    t.width = 0.0;
  else if (!t.soft && sweep_to_convergence(t))
    return CM_CONVERGED;
  int status = check_convergence(t), probes = 0;
  const bool probed = t.unknowns > 0;
  // Newton steps, then solutions for perturbed targets with the last factor, which estimate the errors of the cells.
#pragma unroll 1
  for (;;) {
    const bool steps = status == SOLVE;
    if (!steps && (status > CM_MAX_ITER || !probed || probes == CM_CELL_PROBES)) return status;
    if (probes == 0) {
      form_hessian(t, pairs);
      factorize(t);
    }
    if (steps) {
#pragma unroll 1
      for (int k = t.rank; k < t.others(); k += W)
        t.step()[k] = t.scale()[k] * (t.goals()[t.of.closed + k] - t.sums()[k]);
      t.synchronize();
    } else {
      perturb_targets(t, probes++);
    }
    measure_perturbation(t);
    if (steps) {
      status = take_step(t);
    } else {
      double highest, widest;
      measure_step(t, highest, widest);
      t.probed = larger(t.probed, widest);
    }
  }
}

// Compute A'A y for the incidence matrix A of cells by marginals; return the squared norm of A y. Eliminated marginals
// come first.
template <int W>
__device__ __forceinline__ double multiply_gram(Table<W>& t, const double* y, double* out) {
  double square = 0.0;
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) {
    t.z()[c] = t.q()[c] > 0.0 ? sum_multipliers(t, y, y + t.of.closed, c) : 0.0;
    square += t.z()[c] * t.z()[c];
  }
  t.synchronize();
#pragma unroll 1
  for (int b = 0; b < t.of.margins; ++b)
    for_each_marginal(t, b, [&](int line, int at, int stop, int span, bool leads) {
      double sum = 0.0;
#pragma unroll 1
      for (; at < stop; at += span) sum += t.z()[t.of.members[at]];
      sum = span_sum(sum, span);
      if (leads) out[line] = t.asked(b, line) > 0.0 ? sum : 0.0;
    });
  t.synchronize();
  return team_sum<W>(square);
}

template <int W>
__device__ __forceinline__ double compute_squared_norm(const Table<W>& t, const double* r) {
  double sum = 0.0;
#pragma unroll 1
  for (int k = t.rank; k < t.of.lines; k += W) sum += r[k] * r[k];
  return team_sum<W>(sum);
}

// Replace the multipliers by the minimum-norm ones that scale the cells in the same way, by conjugate gradients.
template <int W>
__device__ __forceinline__ void minimize_norm(Table<W>& t) {
  const int n = t.of.lines;
  double *found = t.work(), *r = found + n, *p = r + n, *product = p + n;
#pragma unroll 1
  for (int k = t.rank; k < n; k += W) {
    found[k] = 0.0;
    p[k] = k < t.of.closed ? t.lift()[k] : t.multipliers()[k - t.of.closed];
  }
  t.synchronize();
  multiply_gram(t, p, r);
#pragma unroll 1
  for (int k = t.rank; k < n; k += W) p[k] = r[k];
  t.synchronize();
  double left = compute_squared_norm(t, r);
  const double goal = CM_MOST_LOGARITHM_RESIDUAL * CM_MOST_LOGARITHM_RESIDUAL * left;
#pragma unroll 1
  for (int round = 0; left > goal && round < CM_MOST_ROUNDS; ++round) {
    const double square = multiply_gram(t, p, product);
    if (!(square > 0.0)) break;
    const double length = left / square, before = left;
#pragma unroll 1
    for (int k = t.rank; k < n; k += W) {
      found[k] += length * p[k];
      r[k] -= length * product[k];
    }
    left = compute_squared_norm(t, r);
#pragma unroll 1
    for (int k = t.rank; k < n; k += W) p[k] = p[k] * (left / before) + r[k];
    t.synchronize();
  }
  if (!(left <= goal)) return;
#pragma unroll 1
  for (int k = t.rank; k < n; k += W) (k < t.of.closed ? t.lift()[k] : t.multipliers()[k - t.of.closed]) = found[k];
  t.synchronize();
}

// Normalise log factors: mean zero in every hard, fully known margin but the first, which compensates.
template <int W>
__device__ __forceinline__ void normalize_factors(const Table<W>& t, int first, double* factors) {
  if (first < 0 || !(t.known()[first] > 0.0)) return;
#pragma unroll 1
  for (int b = 0; b < t.of.margins; ++b) {
    double total = 0.0;
    int number = 0;
#pragma unroll 1
    for (int line = t.of.offsets[b] + t.rank; line < t.of.offsets[b + 1]; line += W)
      if (t.targets()[line] > 0.0) {
        total += factors[line];
        ++number;
      }
    total = team_sum<W>(total);
    number = team_sum<W>(number);
    if (b == first || !(t.known()[b] > 0.0) || number == 0 || t.of.slack[b] > 0.0) continue;
    const double mean = total / number;
#pragma unroll 1
    for (int line = t.of.offsets[b] + t.rank; line < t.of.offsets[b + 1]; line += W) factors[line] -= mean;
#pragma unroll 1
    for (int line = t.of.offsets[first] + t.rank; line < t.of.offsets[first + 1]; line += W) factors[line] += mean;
  }
}

// Write the table, its factors and sums; return the residual, infinite where a cell or factor left the float64 range.
template <int W>
__device__ __forceinline__ double write_table(Table<W>& t, int first, double* out, double* factors, double* achieved) {
  bool vanished = false;
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) {
    out[t.of.places[c]] = t.x()[c];
    vanished |= t.q()[c] > 0.0 && !(t.x()[c] > 0.0 && t.x()[c] < CM_INF);
  }
  double worst = 0.0;
#pragma unroll 1
  for (int b = 0; b < t.of.margins; ++b) {
    const bool hard = t.of.slack[b] == 0.0;
    double missed = 0.0, size = 0.0;
    for_each_marginal(t, b, [&](int line, int at, int stop, int span, bool leads) {
      double sum = 0.0;
#pragma unroll 1
      for (; at < stop; at += span) sum += t.x()[t.of.members[at]];
      sum = span_sum(sum, span);
      if (!leads) return;
      achieved[line] = sum;
      if (!(t.targets()[line] >= 0.0)) return;
      const double goal = hard ? t.targets()[line] : t.goals()[line];
      missed += fabs(sum - goal);
      size += goal;
    });
    missed = team_sum<W>(missed);
    size = team_sum<W>(size);
    worst = larger(worst, size > 0.0 ? missed / size : missed);
  }
  if (!t.soft) minimize_norm(t);  // multipliers of soft margins define the goals
#pragma unroll 1
  for (int k = t.rank; k < t.of.lines; k += W)
    factors[k] = k >= t.of.closed ? t.multipliers()[k - t.of.closed] : t.targets()[k] > 0.0 ? t.lift()[k] : 0.0;
  t.synchronize();
  normalize_factors(t, first, factors);
  t.synchronize();
#pragma unroll 1
  for (int k = t.rank; k < t.of.lines; k += W) {
    const bool asked = t.targets()[k] != 0.0;
    factors[k] = asked ? exp(factors[k]) : 0.0;
    // Factors of contradictory soft margins may leave the float64 range.
    vanished |= asked && !t.soft && !(factors[k] > 0.0 && factors[k] < CM_INF);
  }
  return team_any<W>(vanished) ? CM_INF : worst;
}

// Kernel: a team of W threads for each table, with a workspace of `size` values, in `scratch` if given, else in shared
// memory.
template <int W>
__global__ void __launch_bounds__(CM_THREADS, 2)
    cmfast_ipf_nd_tables(const double* __restrict__ cells, i64 cells_step, const double* __restrict__ wanted,
                         i64 wanted_step, i64 n, int n_cells, int margins, int closed, int lines,
                         const int* __restrict__ offsets, const int* __restrict__ codes, const int* __restrict__ places,
                         const int* __restrict__ starts, const int* __restrict__ members, const int* __restrict__ spans,
                         const double* __restrict__ slack, int n_pairs, const int* __restrict__ pairs,
                         const int* __restrict__ common, const int* __restrict__ within, int first, int by_pairs,
                         double smoothing, double tol, double last_width, i64 max_iter, i64 size, double* scratch,
                         double* out, double* factors, double* achieved, double* out_residual, double* out_error,
                         i64* out_iter, signed char* out_status) {
  CM_DYN_SMEM(double, near);
  const i64 teams = blockDim.x / W, team = threadIdx.x / W;
  Table<W> t;
  t.of = Pattern{n_cells, margins, closed, lines, offsets, codes, places, starts, members, spans, slack};
  t.slack = slack[0];
  t.soft = false;
  for (int b = 0; b < margins; ++b) t.soft |= slack[b] > 0.0;
  t.rank = threadIdx.x % W;
  t.tol = tol;
  t.last_width = last_width;
  t.max_iter = max_iter;
  t.base = scratch ? scratch + (blockIdx.x * teams + team) * size : near + (W > 32 ? W / 32 : 0) + team * size;
  const Overlaps overlaps{n_pairs, pairs, common, within};
#pragma unroll 1
  for (i64 k = blockIdx.x * teams + team; k < n; k += gridDim.x * teams) {
    int status =
        set_up_table(t, cells + k * cells_step * n_cells, wanted + k * wanted_step * lines, smoothing, overlaps);
    if (status == CM_CONVERGED) status = scale(t, by_pairs);
    double residual = CM_NAN, error = t.probed;
    double *table = out + k * n_cells, *factor = factors + k * lines, *sums = achieved + k * lines;
    if (status <= CM_MAX_ITER) {
      residual = write_table(t, first, table, factor, sums);
      if (!(residual < CM_INF)) status = CM_RANGE;
    }
    if (status == CM_CONVERGED) {
      if (residual > tol)
        status = CM_MAX_ITER;
      else if (!(error <= CM_MOST_CELL_ERROR))
        status = CM_UNDETERMINED;
      else if (t.removed > 0)
        status = CM_LIMIT_ONLY;
    }
    const bool good = status <= CM_LIMIT_ONLY || status == CM_UNDETERMINED;
#pragma unroll 1
    for (int line = t.rank; line < lines; line += W) {
      if (!good || t.removed > 0) factor[line] = CM_NAN;
      if (!good) sums[line] = CM_NAN;
    }
#pragma unroll 1
    for (int c = t.rank; c < n_cells && !good; c += W) table[c] = CM_NAN;
    if (t.rank > 0) continue;
    out_residual[k] = good ? residual : CM_NAN;
    out_error[k] = good ? error : CM_NAN;
    out_iter[k] = t.passes;
    out_status[k] = status;
  }
}
