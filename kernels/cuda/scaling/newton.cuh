// Newton's method on the dual of matrix scaling. The unknowns are the logarithms of the column factors; the rows are
// exact after every pass over them. The Hessian is the graph Laplacian of the columns (a Schur complement). Where row i
// and column i are paired the diagonal never enters: small cells keep all their digits.

// ---- initial factors ----

// One Sinkhorn sweep: scale the rows, then the columns.
template <int W>
__device__ __forceinline__ void run_sweep(const Tile<W>& t) {
  sum_rows(
      t, [&](int i, int j) { return t.M(i, j) * t.y(j); },
      [&](int i, double sum) { t.x(i) = t.u(i) > 0.0 ? t.u(i) / sum : 0.0; });
  sum_columns(
      t, [&](int i, int j) { return t.M(i, j) * t.x(i); },
      [&](int j, double sum) { t.y(j) = t.v(j) > 0.0 ? t.v(j) / sum : 0.0; });
}

// Whether the columns requested in `off` are distinct; then r holds the row of each column. One thread.
template <int W>
__device__ __forceinline__ bool match_distinct_columns(const Tile<W>& t) {
  const int C = t.C;
  for (int j = 0; j < C; ++j) t.p(j) = -1.0;
  for (int i = 0; i < C; ++i) {
    if (t.u(i) == 0.0) continue;
    const int best = int(t.off(i));
    if (t.p(best) >= 0.0) return false;
    t.p(best) = t.r(i) = best;
  }
  for (int i = 0, j = 0; i < C; ++i) {  // unpaired columns must be dropped ones
    if (t.u(i) > 0.0) continue;
    while (t.p(j) >= 0.0) ++j;
    if (t.v(j) != 0.0) return false;
    t.r(i) = j++;
  }
  return true;
}

// Pair each row with its largest scaled cell if the columns are distinct, else by a positive diagonal.
template <int W>
__device__ __forceinline__ bool pair_by_search(Tile<W>& t) {
  find_row_maxima(t, [&](int i, int j) { return t.M(i, j) * t.y(j); }, [&](int i, int best) { t.off(i) = best; });
  const bool found = team_any<W>(t.rank() == 0 && match_distinct_columns(t));
  t.synchronize();
  if (found) {
    permute(t);
    return true;
  }
  bool bad = false;
  each<W>(t.C, [&](int i) {
    const bool dropped = t.u(i) == 0.0;
    bad |= dropped != (t.v(i) == 0.0) || (!dropped && t.M(i, i) == 0.0);
  });
  return !team_any<W>(bad);
}

// Solve row i and column i jointly, in turn for every i: x (m y + a) = u and y (m x + b) = v, with the paired cell m
// and the sums a of the row and b of the column. Cells after the diagonal are summed first, cells before it as their
// factors become known.
template <int W>
__device__ __forceinline__ void sweep_pairs(const Tile<W>& t) {
  sum_rows(
      t, [&](int i, int j) { return j > i ? t.M(i, j) * t.y(j) : 0.0; }, [&](int i, double sum) { t.off(i) = sum; });
  sum_columns(
      t, [&](int i, int j) { return i > j ? t.M(i, j) * t.x(i) : 0.0; }, [&](int j, double sum) { t.sum(j) = sum; });
  for (int i = 0; i < t.C; ++i) {
    const double a = t.off(i), b = t.sum(i), m = t.M(i, i), u = t.u(i), v = t.v(i);
    const double A = m * a, B = a * b + m * (v - u), G = u * b, D = sqrt(B * B + 4.0 * A * G);
    double x = (B >= 0.0 ? 2.0 * G : D - B) / (B >= 0.0 ? B + D : 2.0 * A);
    double y = v / (m * x + b);
    if (!(is_usable(x) && is_usable(y))) {  // dropped classes and underflows keep their factors
      x = t.x(i);
      y = t.y(i);
    } else if (t.rank() == 0) {
      t.x(i) = x;
      t.y(i) = y;
    }
    for (int k = i + 1 + t.rank(); k < t.C; k += W) {
      t.off(k) += t.M(k, i) * y;
      t.sum(k) += t.M(i, k) * x;
    }
    t.synchronize();
  }
}

template <int W>
__device__ __forceinline__ void start_paired(const Tile<W>& t) {
  if (t.warm)
    sum_rows(
        t, [&](int i, int j) { return t.M(i, j) * t.y(j); },
        [&](int i, double sum) { t.x(i) = t.u(i) > 0.0 ? t.u(i) / sum : 0.0; });
  else
    each<W>(t.C, [&](int i) {
      const double u = t.u(i), m = t.M(i, i);
      const bool positive = u > 0.0 && m > 0.0;
      t.x(i) = positive ? sqrt(u / m) : 0.0;
      if (positive) t.y(i) = sqrt(t.v(i) / m);
    });
#pragma unroll 1
  for (int sweep = 0; sweep < 2; ++sweep) sweep_pairs(t);
}

// ---- Newton system ----

// Scale the rows to their targets; write the column gaps, return the residual.
template <int W>
__device__ __forceinline__ double scale_rows(const Tile<W>& t, bool paired) {
  sum_rows(
      t, [&](int i, int j) { return paired && i == j ? 0.0 : t.M(i, j) * t.y(j); },
      [&](int i, double a) {
        const double u = t.u(i);
        t.x(i) = u > 0.0 ? u / (paired ? a + t.M(i, i) * t.y(i) : a) : 0.0;
        t.off(i) = t.x(i) * a;
      });
  double residual = 0.0;
  sum_columns(
      t, [&](int i, int j) { return paired && i == j ? 0.0 : t.x(i) * t.M(i, j) * t.y(j); },
      [&](int j, double sum) {
        t.gap(j) = paired ? (t.v(j) - t.u(j)) + (t.off(j) - sum) : t.v(j) - sum;
        residual += fabs(t.gap(j));
      });
  return team_sum<W>(residual) / t.total;
}

// Graph weights W_jk = sum over i of p_ij p_ik / u_i for k < j, in tiles that a thread sums in registers; and the flows
// P_jk - P_kj.
template <int W>
__device__ __forceinline__ void build_graph(const Tile<W>& t, bool paired) {
  for_each_cell(t, t.R, t.C, [&](int i, int j) {
    const double cell = t.x(i) * t.M(i, j) * t.y(j);
    t.Q(i, j) = cell * t.root(i);
    if (paired && j < i) t.flow(i, j) = cell - t.x(j) * t.M(j, i) * t.y(i);
  });
  constexpr int SIDE = W > 32 ? 3 : 2;
  const int C = t.C, squares = (C + SIDE - 1) / SIDE;
  for (int item = get_first_item(t, W) + t.rank(); item < squares * (squares + 1) / 2; item += get_item_stride(t, W)) {
    const int a = int(0.5 * (sqrt(8.0 * item + 1.0) - 1.0)), b = item - a * (a + 1) / 2;  // the b-th square of line a
    double sum[SIDE][SIDE] = {};
    for (int i = 0; i < t.R; ++i) {
      double left[SIDE], right[SIDE];
#pragma unroll
      for (int k = 0; k < SIDE; ++k) {
        left[k] = t.Q(i, min(a * SIDE + k, C - 1));
        right[k] = t.Q(i, min(b * SIDE + k, C - 1));
      }
#pragma unroll
      for (int j = 0; j < SIDE; ++j)
#pragma unroll
        for (int k = 0; k < SIDE; ++k) sum[j][k] += left[j] * right[k];
    }
#pragma unroll
    for (int j = 0; j < SIDE; ++j)
#pragma unroll
      for (int k = 0; k < SIDE; ++k)
        if (a * SIDE + j < C && b * SIDE + k < a * SIDE + j) t.weight(a * SIDE + j, b * SIDE + k) = sum[j][k];
  }
  synchronize_peers(t);
}

// Eliminate pivot k: multipliers for the other columns, updated sources. One warp.
template <int W>
__device__ __forceinline__ void eliminate_pivot(const Tile<W>& t, bool paired, int k) {
  double total = 0.0, flows = 0.0;
  for (int j = t.rank(); j < k; j += 32) {
    total += t.weight(k, j);
    if (paired) flows += t.flow(k, j);
  }
  total = team_sum<32>(total);
  flows = team_sum<32>(flows);
  const double r = total >= CM_NORMAL ? 1.0 / total : 0.0,
               q = t.q(k);  // else the last column of a block, whose step is arbitrary
  for (int j = t.rank(); j < k; j += 32) {
    t.p(j) = t.weight(k, j) * r;
    t.q(j) += t.p(j) * q;
  }
  if (t.rank() == 0) {
    t.r(k) = r;
    t.d(k) = q + flows;
  }
}

// Solve the Newton system L d = gap by star-mesh elimination (Grassmann, Taksar, Heyman), from the last column to the
// first: weights only grow by nonnegative numbers, so small cells keep all their digits.
template <int W>
__device__ __forceinline__ void eliminate_in_block(const Tile<W>& t, bool paired) {
  constexpr int ACROSS = W > 32 ? 16 : 8, DOWN = W / ACROSS;
  const int C = t.C, across = t.rank() % ACROSS, down = t.rank() / ACROSS;
  each<W>(C, [&](int j) { t.q(j) = paired ? t.v(j) - t.u(j) : t.gap(j); });
  for (int k = C - 1; k > 0; --k) {
    if (t.rank() < 32) eliminate_pivot(t, paired, k);
    t.synchronize();
    for (int i = across; i < k; i += ACROSS) {
      const double w = t.weight(k, i), p = t.p(i), f = paired ? t.flow(k, i) : 0.0;
      for (int j = i + 1 + ((down - i - 1) & (DOWN - 1)); j < k; j += DOWN) {
        t.weight(j, i) += t.p(j) * w;
        if (paired) t.flow(j, i) += t.p(j) * f - p * t.flow(k, j);
      }
    }
    t.synchronize();
  }
  if (t.rank() == 0) t.d(0) = t.r(0) = 0.0;
  t.synchronize();
  for (int k = 1; k < C; ++k) {
    const double d = t.d(k) * t.r(k);
    for (int j = k + 1 + t.rank(); j < C; j += W) t.d(j) += t.weight(j, k) * d;
    t.synchronize();
  }
  each<W>(C, [&](int j) { t.d(j) *= t.r(j); });
}

// Eliminate in the first block of the group, which broadcasts the step.
template <int W>
__device__ __forceinline__ void eliminate_and_broadcast(const Tile<W>& t, bool paired) {
  if constexpr (W > 32) {
    double* told = t.get_exchange();
    if (t.peers.rank == 0) eliminate_in_block(t, paired);
    if (t.peers.size == 1) return;
    if (t.peers.rank == 0) each<W>(t.C, [&](int j) { told[j] = t.d(j); });
    t.peers.synchronize();
    each<W>(t.C, [&](int j) { t.d(j) = told[j]; });
  } else {
    eliminate_in_block(t, paired);
  }
}

template <int W>
__device__ __forceinline__ void eliminate(const Tile<W>& t, bool paired) {
  build_graph(t, paired);
  eliminate_and_broadcast(t, paired);
}

// Whether every column is within the target, after a pass over the rows.
template <int W>
__device__ __forceinline__ bool do_columns_fit(const Tile<W>& t, const Goals& goals) {
  bool bad = false;
  for (int j = t.rank(); j < t.C; j += W) bad |= !goals.fits(t.gap(j), t.v(j));
  return !team_any<W>(bad);
}

// ---- steps ----

// Compute initial factors and the pairing; return whether rows and columns are paired.
template <int W>
__device__ __forceinline__ bool start(Tile<W>& t, i64* done) {
  bool paired = t.R == t.C && (t.chosen || has_dominant_diagonal(t));
  if (!paired) {
#pragma unroll 1
    for (int sweep = 0; sweep < 3; ++sweep) run_sweep(t);
    *done += 3;
    paired = t.R == t.C && pair_by_search(t);
  }
  if (paired) {
    start_paired(t);
    *done += 2;
  }
  return paired;
}

// Newton's method by elimination; returns a status, UNDETERMINED where steps have only stalled.
template <int W>
__device__ __forceinline__ int run_newton(Tile<W>& t, const Goals& goals, double last_width, i64 max_iter, i64* done) {
  const bool paired = start(t, done);
  double width = CM_INF, before = CM_INF;
  while (true) {
    const double residual = scale_rows(t, paired);
    if (!(residual < CM_INF)) return CM_RANGE;
    // The residual does not show errors of cells below the tolerance: the last step must be small too, or stalled at
    // rounding.
    if (goals.met(residual, do_columns_fit(t, goals), width <= last_width, has_stalled(width, before)))
      return width <= last_width ? CM_CONVERGED : CM_UNDETERMINED;
    if (*done >= max_iter) return CM_MAX_ITER;
    ++*done;
    eliminate(t, paired);
    double low = 0.0, high = 0.0;
    for (int j = t.rank(); j < t.C; j += W) {
      low = fmin(low, t.d(j));
      high = fmax(high, t.d(j));
    }
    low = team_min<W>(low);
    high = team_max<W>(high);
    before = width;
    width = high - low;
    const double length = damped_step(width), middle = 0.5 * (low + high);  // keep the factors centred
    each<W>(t.C, [&](int j) { t.y(j) *= exp(length * (t.d(j) - middle)); });
  }
}
