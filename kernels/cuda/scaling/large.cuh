// Large matrices: sweeps with momentum while they are fast, then Newton's method, by elimination up to about a hundred
// columns and by conjugate gradients beyond. Errors of small cells that the residual does not show are bounded by the
// smallest scaled cell or by wide paths between rows and columns, or resolved by elimination.

// Run Sinkhorn sweeps until the residual of a whole sweep is small enough, or no longer decreases below `still`; return
// a status.
template <int W>
__device__ __forceinline__ int run_sinkhorn(const Tile<W>& t, const Goals& goals, i64 max_iter, i64* done) {
  each<W>(t.R, [&](int i) { t.x(i) = 0.0; });
  double before = CM_INF, residual;
  for (i64 k = 0;; ++k) {
    double missed = 0.0;
    double worst = 0.0;
    sum_rows(
        t, [&](int i, int j) { return t.M(i, j) * t.y(j); },
        [&](int i, double sum) {
          const double u = t.u(i), x = t.x(i);
          missed += fabs(x * sum - u);
          if (u > 0.0) worst = fmax(worst, fabs(x * sum - u) / u);
          t.last(i) = x;
          t.x(i) = u > 0.0 ? u / sum : 0.0;
        });
    residual = team_sum<W>(missed) / t.total;
    worst = team_max<W>(worst);
    *done = k;
    if (!(residual < CM_INF) || (k > 0 && fmax(residual, worst) <= goals.target) || k >= max_iter) break;
    if (residual <= goals.still && worst <= 2.0 * goals.still && residual >= before) break;
    before = k > 0 ? residual : CM_INF;
    sum_columns(
        t, [&](int i, int j) { return t.M(i, j) * t.x(i); },
        [&](int j, double sum) { t.y(j) = t.v(j) > 0.0 ? t.v(j) / sum : 0.0; });
  }
  each<W>(t.R, [&](int i) { t.x(i) = t.last(i); });  // the residual is that of these factors
  if (!(residual < CM_INF)) return CM_RANGE;
  return residual <= fmax(goals.target, goals.still) ? CM_CONVERGED : CM_MAX_ITER;
}

// Progress of sweeps with momentum: passes; the residual, and that of the pass from which the rate is measured; the
// factor by which a pass shrinks it at best; the passes since the one before `mark`, or since momentum was changed; the
// times that the residual grew, and whether the next step takes no part of the last one.
struct SweepState {
  i64 k = 0;
  double residual = CM_INF, mark = CM_INF, momentum = 0.0;
  int since = -1, restarts = 0;
  bool fresh = false;

  __device__ __forceinline__ void update(double found) {
    residual = found;
    ++k;
    fresh = false;
    const int passes = momentum > 0.0 ? CM_RATE_PASSES : CM_RATE_PASSES / 2;
    if (++since == passes + 1) {
      const double shrink = pow(residual / mark, 1.0 / passes), keep = momentum * momentum;
      since = 1;
      if (shrink >= 1.0) {
        ++restarts;
        fresh = true;
        since = 0;
      } else if (shrink > momentum) {
        // The slowest error shrinks by a zero of z z - (1 + keep - gain gap) z + keep, which gives the spectral gap.
        const double gap = (1.0 + keep - shrink - keep / shrink) / ((1.0 + momentum) * (1.0 + momentum));
        const double root = sqrt(CM_GAP_MARGIN * gap);
        momentum = (1.0 - root) / (1.0 + root);
        since = 0;
      }
    }
    if (since == 1) mark = residual;
  }
  // Whether more passes are left, even at the best rate, than Newton's method would take.
  __device__ __forceinline__ bool is_slow(double target, double left) const {
    return restarts > CM_MOST_RESTARTS || log(target / left) < CM_PATIENT_MOMENTUM_SWEEPS * log(momentum);
  }
};

// Set x = u / (M y).
template <int W>
__device__ __forceinline__ void update_rows(const Tile<W>& t) {
  sum_rows(
      t, [&](int i, int j) { return t.M(i, j) * t.y(j); },
      [&](int i, double sum) { t.x(i) = t.u(i) > 0.0 ? t.u(i) / sum : 0.0; });
}

// Run sweeps with momentum (heavy ball, as on the CPU) until the residual and every column's relative error are at most
// `target`; return whether they were too slow. The last step of y is in `d`.
template <int W>
__device__ __forceinline__ bool run_momentum_sweeps(const Tile<W>& t, SweepState& pace, double target, i64 max_iter) {
  while (true) {
    if (pace.k > 0) {
      const double gain = (1.0 + pace.momentum) * (1.0 + pace.momentum);
      const double keep = pace.fresh ? 0.0 : pace.momentum * pace.momentum;
      each<W>(t.C, [&](int j) {
        if (!(t.v(j) > 0.0)) return;
        const double change = gain * (t.v(j) / t.sum(j) - t.y(j)) + keep * t.d(j);
        t.d(j) = fmax(change, -CM_MOST_TAKEN * t.y(j));  // the factors stay positive
        t.y(j) += t.d(j);
      });
    }
    update_rows(t);
    double missed = 0.0, worst = 0.0;
    sum_columns(
        t, [&](int i, int j) { return t.M(i, j) * t.x(i); },
        [&](int j, double sum) {
          t.sum(j) = sum;
          const double gap = fabs(t.y(j) * sum - t.v(j));
          missed += gap;
          if (t.v(j) > 0.0) worst = fmax(worst, gap / t.v(j));
        });
    pace.update(team_sum<W>(missed) / t.total);
    worst = team_max<W>(worst);
    const double left = pace.residual > target ? pace.residual : worst;
    if (!(pace.residual < CM_INF) || left <= target || pace.k >= max_iter) return false;
    if (pace.is_slow(target, left)) return true;
  }
}

// Number of rows or columns that are not dropped.
template <int W>
__device__ __forceinline__ int count_live(const Tile<W>& t, bool rows) {
  int number = 0;
  for (int k = t.rank(); k < (rows ? t.R : t.C); k += W) number += (rows ? t.u(k) : t.v(k)) > 0.0;
  return team_sum<W>(number);
}

// Residual below which no cell errs by more than `last_width`, relative, as on the CPU: to first order the logarithms
// of the factors err as the potentials of an electrical network whose conductances are the scaled cells, and a path is
// as wide as its smallest cell. Each pass extends the widest paths from one column by a row, whose widths are in
// `last`, and a column, whose widths are in `p`.
template <int W>
__device__ __forceinline__ double bound_by_paths(const Tile<W>& t, double last_width, double residual) {
  const auto cell = [&](int i, int j) { return t.x(i) * t.M(i, j) * t.y(j); };
  double first = t.C, bound = 0.0;
#pragma unroll 1
  for (int j = t.rank(); j < t.C; j += W)
    if (t.v(j) > 0.0) first = fmin(first, j);
  first = team_min<W>(first);
  each<W>(t.C, [&](int j) { t.p(j) = j == int(first) ? CM_INF : 0.0; });
#pragma unroll 1
  for (int pass = 1; pass <= CM_MOST_PATH_PASSES; ++pass) {
    double narrowest = CM_INF;
    sum_rows(
        t, [&](int i, int j) { return fmin(cell(i, j), t.p(j)); },
        [&](int i, double width) {
          t.last(i) = width;
          if (t.u(i) > 0.0) narrowest = fmin(narrowest, width);
        },
        Larger());
    sum_columns(
        t, [&](int i, int j) { return fmin(cell(i, j), t.last(i)); },
        [&](int j, double width) {
          t.p(j) = fmax(t.p(j), width);
          if (t.v(j) > 0.0) narrowest = fmin(narrowest, t.p(j));
        },
        Larger());
    const double found = last_width * team_min<W>(narrowest) / (2.0 * pass * t.total);
    if (found >= residual || (0.0 < found && found <= bound)) return fmax(found, bound);
    bound = found;
  }
  return bound;
}

// Residual below which no flow between two sets of rows and columns errs by more than `last_width`: every such flow
// passes at least one positive cell, and without zeros one of nearly every row and column. A better bound is looked for
// only where this one is below `residual`.
template <int W>
__device__ __forceinline__ double bound_hidden_residual(const Tile<W>& t, double last_width, double residual) {
  double low = CM_INF;
  bool zero = false;
  const int lines = max(1, min(count_live(t, true), count_live(t, false)) - 1);
  for_each_cell(t, t.R, t.C, [&](int i, int j) {
    const double cell = t.x(i) * t.M(i, j) * t.y(j);
    if (cell > 0.0) low = fmin(low, cell);
    zero |= cell == 0.0 && t.u(i) > 0.0 && t.v(j) > 0.0;
  });
  low = peers_min(t, low);
  const double bound = last_width * low * (peers_any(t, zero) ? 1 : lines) / t.total;
  return bound >= residual ? bound : fmax(bound, bound_by_paths(t, last_width, residual));
}

// Write the diagonal of the Laplacian to `scale`: sums over i of p_ij (u_i - p_ij) / u_i. For the largest cell of a
// row, u_i - p_ij is summed from the other cells, in `off`.
template <int W>
__device__ __forceinline__ void diagonal(const Tile<W>& t, bool paired) {
  const auto cell = [&](int i, int j) { return t.x(i) * t.M(i, j) * t.y(j); };
  if (paired)
    each<W>(t.R, [&](int i) { t.last(i) = i; });
  else
    find_row_maxima(t, [&](int i, int j) { return t.M(i, j) * t.y(j); }, [&](int i, int top) { t.last(i) = top; });
  sum_rows(
      t, [&](int i, int j) { return j == int(t.last(i)) ? 0.0 : cell(i, j); },
      [&](int i, double rest) { t.off(i) = rest; });
  sum_columns(
      t,
      [&](int i, int j) {
        const double p = cell(i, j), u = t.u(i);
        return !(u > 0.0) ? 0.0 : j == int(t.last(i)) ? p * t.off(i) / u : p * (1.0 - p / u);
      },
      [&](int j, double sum) { t.scale(j) = sum > 0.0 ? sum : 1.0; });
}

// Write the Laplacian product L p to `sum`, from differences only, so that a shift of p costs no digits; return p . L
// p.
template <int W>
__device__ __forceinline__ double multiply_laplacian(const Tile<W>& t, bool paired) {
  if (paired)
    each<W>(t.R, [&](int i) { t.off(i) = t.p(i); });
  else
    sum_rows(
        t, [&](int i, int j) { return t.M(i, j) * (t.y(j) * t.p(j)); },
        [&](int i, double sum) { t.off(i) = t.u(i) > 0.0 ? t.x(i) * sum / t.u(i) : 0.0; });
  sum_rows(
      t, [&](int i, int j) { return t.M(i, j) * t.y(j) * (t.p(j) - t.off(i)); },
      [&](int i, double sum) { t.last(i) = t.off(i) + (t.u(i) > 0.0 ? t.x(i) / t.u(i) * sum : 0.0); });
  double curvature = 0.0;
  sum_columns(
      t, [&](int i, int j) { return t.x(i) * t.M(i, j) * t.y(j) * (t.p(j) - t.last(i)); },
      [&](int j, double sum) {
        t.sum(j) = sum;
        curvature += t.p(j) * sum;
      });
  return team_sum<W>(curvature);
}

// Solve L d = gap by preconditioned conjugate gradients; return the number of products, 0 where elimination would be
// faster.
template <int W>
__device__ __forceinline__ int conjugate_gradients(const Tile<W>& t, double residual, bool paired, int rescue) {
  diagonal(t, paired);
  const int lines = count_live(t, false);
  double all = 0.0, size = 0.0;
  for (int j = t.rank(); j < t.C; j += W)
    if (t.v(j) > 0.0) {
      all += t.gap(j);
      size += fabs(t.gap(j));
    }
  const double mean = team_sum<W>(all) / lines;
  const double goal = fmin(0.1, sqrt(residual)) * team_sum<W>(size);
  const int most = t.C <= rescue ? lines / 3 : 4 * lines;
  double rz = 0.0;
  each<W>(t.C, [&](int j) {
    t.d(j) = 0.0;
    t.r(j) = t.v(j) > 0.0 ? t.gap(j) - mean : 0.0;
    t.p(j) = t.r(j) / t.scale(j);
    rz += t.r(j) * t.p(j);
  });
  rz = team_sum<W>(rz);
  for (int k = 1; k <= most; ++k) {
    const double curvature = multiply_laplacian(t, paired);
    if (!(curvature > 0.0)) break;
    const double alpha = rz / curvature, before = rz;
    double left = 0.0;
    rz = 0.0;
    each<W>(t.C, [&](int j) {
      t.d(j) += alpha * t.p(j);
      t.r(j) -= alpha * t.sum(j);
      left += fabs(t.r(j));
      rz += t.r(j) * (t.r(j) / t.scale(j));
    });
    if (team_sum<W>(left) <= goal) return k;
    rz = team_sum<W>(rz);
    each<W>(t.C, [&](int j) { t.p(j) = t.r(j) / t.scale(j) + rz / before * t.p(j); });
  }
  return t.C <= rescue ? 0 : most;
}

// Slope of the dual along the step: the dot product of step and column gaps.
template <int W>
__device__ __forceinline__ double slope(const Tile<W>& t) {
  double sum = 0.0;
  for (int j = t.rank(); j < t.C; j += W) sum += t.gap(j) * t.d(j);
  return team_sum<W>(sum);
}

// Centre the step of the columns that are not dropped; return its range.
template <int W>
__device__ __forceinline__ double centre(const Tile<W>& t) {
  double low = CM_INF, high = -CM_INF;
  for (int j = t.rank(); j < t.C; j += W)
    if (t.v(j) > 0.0) {
      low = fmin(low, t.d(j));
      high = fmax(high, t.d(j));
      if (!(t.d(j) == t.d(j))) high = CM_INF;  // NaN ends the iteration
    }
  low = team_min<W>(low);
  high = team_max<W>(high);
  each<W>(t.C, [&](int j) { t.d(j) -= 0.5 * (low + high); });
  return high - low;
}

// Newton's method from the factors of the sweeps; returns a status, UNDETERMINED where steps have only stalled.
template <int W>
__device__ __forceinline__ int newton_large(Tile<W>& t, const Goals& goals, double last_width, i64 max_iter, int rescue,
                                            i64* done) {
  const bool paired = t.R == t.C && (t.chosen || has_dominant_diagonal(t) || pair_by_search(t));
  if (paired) {
    start_paired(t);
    *done += 2;
  }
  double width = CM_INF, before = CM_INF, length = 1.0, steepness = 0.0, hidden = -1.0;
  bool dense = t.C <= rescue && count_live(t, false) <= CM_MOST_ELIMINATED_COLUMNS, trial = false;
  while (true) {
    const double residual = scale_rows(t, paired);
    if (!(residual < CM_INF)) return CM_RANGE;
    if (trial && length > damped_step(width) && -slope(t) > 0.5 * steepness) {  // backtrack
      length = fmax(0.3 * length, damped_step(width));
      each<W>(t.C, [&](int j) { t.y(j) = t.origin(j) * exp(length * t.d(j)); });
      ++*done;
      continue;
    }
    const bool stalled = has_stalled(width, before);
    if (goals.met(residual, do_columns_fit(t, goals), width <= last_width, stalled)) {
      if (hidden < 0.0) hidden = bound_hidden_residual(t, last_width, residual);
      const bool worn = stalled || residual <= CM_RESIDUAL_NOISE;  // conjugate gradients have reached rounding
      if (dense || (residual <= hidden && hidden >= CM_SWEEP_ROUNDING) || (worn && t.C > rescue))
        return width <= last_width ? CM_CONVERGED : CM_UNDETERMINED;
      dense = worn;
    }
    if (*done >= max_iter) return CM_MAX_ITER;
    const int products = dense ? 0 : conjugate_gradients(t, residual, paired, rescue);
    dense = products == 0;
    if (dense) eliminate(t, paired);
    *done += 1 + products;
    before = width;
    width = centre(t);
    if (!(width < CM_INF)) return CM_RANGE;
    // After a large step the slope at its end, known from the next pass over the rows, decides about backtracking.
    trial = width > CM_SAFE_WIDTH;
    length = trial ? fmin(1.0, CM_MOST_MOMENTUM_WIDTH / width) : 1.0;
    if (trial) steepness = fabs(slope(t));
    each<W>(t.C, [&](int j) {
      t.origin(j) = t.y(j);
      t.y(j) *= exp(length * t.d(j));
    });
  }
}

// Sweeps, then Newton's method where they are slow or leave small cells inaccurate; returns a status. A COMMON instance
// has the sweeps alone.
template <bool COMMON, int W>
__device__ __forceinline__ int solve_large(Tile<W>& t, const Goals& goals, double last_width, i64 max_iter, int rescue,
                                           i64* done) {
  const double target = goals.target;
  each<W>(t.C, [&](int j) {
    if (!(t.v(j) > 0.0)) t.y(j) = 0.0;
    t.origin(j) = t.y(j);
    t.d(j) = 0.0;
  });
  SweepState pace;
  bool newton = false;
  double goal = target;
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    newton = run_momentum_sweeps(t, pace, goal, max_iter);
    if (turn == 1 || newton || !(pace.residual <= target)) break;
    const double hidden = bound_hidden_residual(t, last_width, pace.residual);
    newton = hidden < CM_SWEEP_ROUNDING;
    if (newton || !(pace.residual > hidden)) break;
    goal = fmin(target, hidden);
  }
  *done = pace.k;
  newton |= !(pace.residual < CM_INF);
  if (!newton) return pace.residual <= fmax(target, goals.still) ? CM_CONVERGED : CM_MAX_ITER;
  if constexpr (COMMON) {
    return LEFT;
  } else {
    if (!(pace.residual < CM_INF)) {
      each<W>(t.C, [&](int j) { t.y(j) = t.origin(j); });
      update_rows(t);
    }
    const int status = newton_large(t, goals, last_width, max_iter, rescue, done);
    if (status == CM_RANGE) *done = 0;
    return status;
  }
}
