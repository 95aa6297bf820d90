// Refinement of matrices with uncertain small rows, columns or cells, as kernels/cpu/scaling/_refine.py, with the
// Newton method of newton.cuh.

// Whether no cell depends on the rounding of targets, by a sufficient condition on the smallest cells.
template <int W>
__device__ __forceinline__ bool is_certain(const Tile<W>& t) {
  double low = CM_INF, hub = 0.0, least = CM_INF;
  for (int j = t.rank(); j < t.C; j += W) {
    double share = CM_INF;
    for (int i = 0; i < t.R; ++i) {
      if (!(t.u(i) > 0.0)) continue;
      const double cell = t.x(i) * t.M(i, j) * t.y(j);
      if (cell > 0.0) low = fmin(low, cell);
      share = fmin(share, cell / t.u(i));
    }
    if (!(t.v(j) > 0.0)) continue;
    hub = fmax(hub, share);
    least = fmin(least, t.v(j));
  }
  hub = team_max<W>(hub);
  least = team_min<W>(least);
  low = team_min<W>(low);
  return hub * least >= CM_DOUBT * t.total || CM_DOUBT * t.total <= low;
}

// Errors of the columns: their sum relative to the total, and the largest relative to its target.
struct ColumnErrors {
  double residual, worst;
};
template <int W>
__device__ __forceinline__ ColumnErrors measure_columns(const Tile<W>& t) {
  double missed = 0.0, worst = 0.0;
  sum_columns(
      t, [&](int i, int j) { return t.x(i) * t.M(i, j) * t.y(j); },
      [&](int j, double sum) {
        const double gap = fabs(sum - t.v(j));
        missed += gap;
        if (t.v(j) > 0.0) worst = fmax(worst, gap / t.v(j));
      });
  missed = team_sum<W>(missed);
  return {missed / t.total, team_max<W>(worst)};
}

// Whether the solver's status is final; the rows are exact.
template <int W>
__device__ __forceinline__ bool is_done(const Tile<W>& t, const Goals& goals, int status, i64 max_iter) {
  if (t.C > CM_REFINED || (status > CM_MAX_ITER && status != CM_RANGE && status != CM_UNDETERMINED)) return true;
  if (status == CM_RANGE || status == CM_UNDETERMINED) return false;
  const ColumnErrors missed = measure_columns(t);
  if (status == CM_MAX_ITER) return max_iter < CM_NEWTON_STEPS || !(missed.residual <= goals.bound);
  return missed.residual <= goals.bound && missed.worst <= Goals::line_bound(goals.bound) && is_certain(t);
}

// Whether row and column targets have the same sum in doubled precision (Knuth's two-sum).
template <int W>
__device__ __forceinline__ bool has_equal_totals(const Tile<W>& t) {
  double high = 0.0, low = 0.0;
  for (int k = 0; k < t.R + t.C; ++k) {
    const double target = k < t.R ? t.u(k) : -t.v(k - t.R), total = high + target, part = total - high;
    low += (high - (total - part)) + (target - part);
    high = total;
  }
  return high + low == 0.0;
}

// Sort the columns by decreasing target, so that the largest of every block of the matrix is grounded.
template <int W>
__device__ __forceinline__ void sort_columns(Tile<W>& t) {
  each<W>(t.C, [&](int j) {
    int place = 0;
    for (int k = 0; k < t.C; ++k) place += t.v(k) > t.v(j) || (t.v(k) == t.v(j) && k < j);
    t.r(place) = j;
  });
  permute(t);
}

// Solve L d = q with the factorised weights, by one block.
template <int W>
__device__ __forceinline__ void solve_in_block(const Tile<W>& t) {
  for (int k = t.C - 1; k > 0; --k) {
    const double given = t.r(k) * t.q(k);
    each<W>(k, [&](int j) { t.q(j) += t.weight(k, j) * given; });
  }
  each<W>(t.C, [&](int j) { t.d(j) = j ? t.q(j) : 0.0; });
  for (int k = 1; k < t.C; ++k) {
    const double d = t.d(k) * t.r(k);
    for (int j = k + 1 + t.rank(); j < t.C; j += W) t.d(j) += t.weight(j, k) * d;
    t.synchronize();
  }
  each<W>(t.C, [&](int j) { t.d(j) *= t.r(j); });
}
template <int W>
__device__ __forceinline__ void solve_and_broadcast(const Tile<W>& t) {
  if constexpr (W > 32) {
    double* told = t.get_exchange();
    if (t.peers.rank == 0) solve_in_block(t);
    if (t.peers.size == 1) return;
    if (t.peers.rank == 0) each<W>(t.C, [&](int j) { told[j] = t.d(j); });
    t.peers.synchronize();
    each<W>(t.C, [&](int j) { t.d(j) = told[j]; });
  } else {
    solve_in_block(t);
  }
}

// Largest relative change of a cell that rounding the targets and their sums could cause: the sum over all targets.
// Between paired rows and columns only the differences of their targets are rounded.
template <int W>
__device__ __forceinline__ double bound_errors(const Tile<W>& t, bool paired) {
  const auto cell = [&](int i, int j) { return t.x(i) * t.M(i, j) * t.y(j); };
  for_each_cell(t, t.R, t.C, [&](int i, int j) { t.Q(i, j) = 0.0; });
#pragma unroll 1
  for (int source = 1; source < t.C + (paired ? 0 : t.R); ++source) {
    const int row = source - t.C;
    each<W>(t.C, [&](int j) {
      const double own = paired ? fabs(t.v(j) - t.u(j)) : t.v(j);
      t.q(j) = row >= 0 ? -CM_LINE_ROUNDING * cell(row, j) : j == source ? CM_LINE_ROUNDING * own : 0.0;
    });
    solve_and_broadcast(t);
    sum_rows(
        t, [&](int i, int j) { return cell(i, j) * t.d(j); },
        [&](int i, double sum) {
          t.last(i) = (i == row ? CM_LINE_ROUNDING : 0.0) - (t.u(i) > 0.0 ? sum / t.u(i) : 0.0);
        });
    for_each_cell(t, t.R, t.C, [&](int i, int j) { t.Q(i, j) += fabs(t.last(i) + t.d(j)); });
  }
  double moved = 0.0;
  for_each_cell(t, t.R, t.C, [&](int i, int j) {
    if (cell(i, j) > 0.0 && !(t.Q(i, j) <= moved)) moved = t.Q(i, j) == t.Q(i, j) ? t.Q(i, j) : CM_INF;
  });
  return peers_max(t, moved);
}

// Continue Newton's method with the largest column grounded; return a status.
template <int W>
__device__ __forceinline__ int refine(Tile<W>& t, const Goals& goals, int status, i64 max_iter, i64* done) {
  // A grounded column with a small target makes factors diverge by the rounding of the totals: restart with sweeps.
  if (status == CM_RANGE || !(measure_columns(t).worst <= CM_LOST_LINE)) {
    each<W>(t.C, [&](int j) { t.y(j) = t.v(j) > 0.0 ? 1.0 : 0.0; });
#pragma unroll 1
    for (int sweep = 0; sweep < 3; ++sweep) run_sweep(t);
  }
  bool diagonal = t.R == t.C && has_equal_totals(t);
  if (diagonal) {
    bool bad = false;
    find_row_maxima(
        t, [&](int i, int j) { return t.M(i, j) * t.y(j); }, [&](int i, int top) { bad |= t.u(i) > 0.0 && top != i; });
    diagonal = !team_any<W>(bad);
  }
  const bool paired = diagonal;
  if (!paired) sort_columns(t);
  const i64 most = max_iter >= CM_NEWTON_STEPS ? CM_NEWTON_STEPS : max_iter - *done;
  double width = CM_INF, before = CM_INF;
  int stalls = 0;
  for (i64 step = 0;; ++step) {
    scale_rows(t, paired);
    double worst = 0.0, low = 0.0, high = 0.0;
    for (int j = t.rank(); j < t.C; j += W)
      if (t.v(j) > 0.0) worst = fmax(worst, fabs(t.gap(j)) / t.v(j));
    worst = team_max<W>(worst);
    eliminate(t, paired);
    bool bad = false;
    for (int j = t.rank(); j < t.C; j += W) {
      low = fmin(low, t.d(j));
      high = fmax(high, t.d(j));
      bad |= !(fabs(t.d(j)) < CM_INF);
    }
    low = team_min<W>(low);
    high = team_max<W>(high);
    if (team_any<W>(bad)) return CM_RANGE;
    before = width;
    width = high - low;
    const bool there = worst <= goals.target && width <= CM_FINE_WIDTH;
    stalls += has_stalled(width, before);
    if (there || stalls > CM_MOST_STALLS || step >= most) break;
    if (step == 0 && status == CM_CONVERGED && worst <= Goals::line_bound(goals.bound) &&
        width <= 0.1 * CM_MOST_CELL_ERROR)
      break;
    const double length = damped_step(width), middle = 0.5 * (low + high);
    each<W>(t.C, [&](int j) { t.y(j) *= exp(length * (t.d(j) - middle)); });
    ++*done;
  }
  if (!(width <= CM_MOST_CELL_ERROR)) return CM_UNDETERMINED;
  return bound_errors(t, paired) <= CM_MOST_CELL_ERROR ? CM_CONVERGED : CM_UNDETERMINED;
}
