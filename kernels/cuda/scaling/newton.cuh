// Newton's method on the dual. The unknowns are the logarithms of the column factors; the rows are exact after every
// pass over them. The equations belong to a graph on the columns. Where row i and column i are paired the diagonal
// never enters: small cells keep all their digits.

// ---- starts ----

// One sweep of Sinkhorn and Knopp.
template <int W>
__device__ __forceinline__ void plain_sweep(const Tile<W>& t) {
  over_rows(
      t, [&](int i, int j) { return t.M(i, j) * t.y(j); },
      [&](int i, double sum) { t.x(i) = t.u(i) > 0.0 ? t.u(i) / sum : 0.0; });
  over_columns(
      t, [&](int i, int j) { return t.M(i, j) * t.x(i); },
      [&](int j, double sum) { t.y(j) = t.v(j) > 0.0 ? t.v(j) / sum : 0.0; });
}

// Whether the columns in `off` that rows want are different ones; then r says which row each column goes to. One
// thread.
template <int W>
__device__ __forceinline__ bool distinct(const Tile<W>& t) {
  const int C = t.C;
  for (int j = 0; j < C; ++j) t.p(j) = -1.0;
  for (int i = 0; i < C; ++i) {
    if (t.u(i) == 0.0) continue;
    const int best = int(t.off(i));
    if (t.p(best) >= 0.0) return false;
    t.p(best) = t.r(i) = best;
  }
  for (int i = 0, j = 0; i < C; ++i) {  // what is left over is dropped on both sides, if their numbers agree
    if (t.u(i) > 0.0) continue;
    while (t.p(j) >= 0.0) ++j;
    if (t.v(j) != 0.0) return false;
    t.r(i) = j++;
  }
  return true;
}

// Pair each row with its largest scaled cell if these lie in different columns, else by a positive diagonal.
template <int W>
__device__ __forceinline__ bool pair_by_search(Tile<W>& t) {
  over_tops(t, [&](int i, int j) { return t.M(i, j) * t.y(j); }, [&](int i, int best) { t.off(i) = best; });
  const bool found = team_any<W>(t.rank() == 0 && distinct(t));
  t.meet();
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

// Solve row i and column i together, exactly, for every i: x (m y + a) = u and y (m x + b) = v, with the paired cell m
// and the sums a of the row and b of the column. What lies beyond the diagonal is added up first, what lies before it
// as soon as its factors are known.
template <int W>
__device__ __forceinline__ void paired_sweep(const Tile<W>& t) {
  over_rows(
      t, [&](int i, int j) { return j > i ? t.M(i, j) * t.y(j) : 0.0; }, [&](int i, double sum) { t.off(i) = sum; });
  over_columns(
      t, [&](int i, int j) { return i > j ? t.M(i, j) * t.x(i) : 0.0; }, [&](int j, double sum) { t.sum(j) = sum; });
  for (int i = 0; i < t.C; ++i) {
    const double a = t.off(i), b = t.sum(i), m = t.M(i, i), u = t.u(i), v = t.v(i);
    const double A = m * a, B = a * b + m * (v - u), G = u * b, D = sqrt(B * B + 4.0 * A * G);
    double x = (B >= 0.0 ? 2.0 * G : D - B) / (B >= 0.0 ? B + D : 2.0 * A);
    double y = v / (m * x + b);
    if (!(usable(x) && usable(y))) {  // a dropped class, an underflow: the pair stays as it is
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
    t.meet();
  }
}

template <int W>
__device__ __forceinline__ void paired_start(const Tile<W>& t) {
  if (t.warm)
    over_rows(
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
  for (int sweep = 0; sweep < 2; ++sweep) paired_sweep(t);
}

// ---- equations ----

// Make the rows exact; leave what the columns lack; return the residual.
template <int W>
__device__ __forceinline__ double row_pass(const Tile<W>& t, bool paired) {
  over_rows(
      t, [&](int i, int j) { return paired && i == j ? 0.0 : t.M(i, j) * t.y(j); },
      [&](int i, double a) {
        const double u = t.u(i);
        t.x(i) = u > 0.0 ? u / (paired ? a + t.M(i, i) * t.y(i) : a) : 0.0;
        t.off(i) = t.x(i) * a;
      });
  double residual = 0.0;
  over_columns(
      t, [&](int i, int j) { return paired && i == j ? 0.0 : t.x(i) * t.M(i, j) * t.y(j); },
      [&](int j, double sum) {
        t.gap(j) = paired ? (t.v(j) - t.u(j)) + (t.off(j) - sum) : t.v(j) - sum;
        residual += fabs(t.gap(j));
      });
  return team_sum<W>(residual) / t.total;
}

// W_jk = sum over i of p_ij p_ik / u_i for k < j, in squares that a thread adds up in registers; and the flows P_jk -
// P_kj.
template <int W>
__device__ __forceinline__ void build_graph(const Tile<W>& t, bool paired) {
  each_cell(t, t.R, t.C, [&](int i, int j) {
    const double cell = t.x(i) * t.M(i, j) * t.y(j);
    t.Q(i, j) = cell * t.root(i);
    if (paired && j < i) t.flow(i, j) = cell - t.x(j) * t.M(j, i) * t.y(i);
  });
  constexpr int SIDE = W > 32 ? 3 : 2;
  const int C = t.C, squares = (C + SIDE - 1) / SIDE;
  for (int item = first_of(t, W) + t.rank(); item < squares * (squares + 1) / 2; item += step_of(t, W)) {
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
  meet_all(t);
}

// What node k gives to the others when it is eliminated: a share of its source each. One warp.
template <int W>
__device__ __forceinline__ void share_out(const Tile<W>& t, bool paired, int k) {
  double total = 0.0, flows = 0.0;
  for (int j = t.rank(); j < k; j += 32) {
    total += t.weight(k, j);
    if (paired) flows += t.flow(k, j);
  }
  total = team_sum<32>(total);
  flows = team_sum<32>(flows);
  const double r = total >= CM_NORMAL ? 1.0 / total : 0.0,
               q = t.q(k);  // else the last node of a block: its shift is free
  for (int j = t.rank(); j < k; j += 32) {
    t.p(j) = t.weight(k, j) * r;
    t.q(j) += t.p(j) * q;
  }
  if (t.rank() == 0) {
    t.r(k) = r;
    t.d(k) = q + flows;
  }
}

// Solve L d = gap by star-mesh elimination (Grassmann, Taksar and Heyman), from the last column down: it only adds
// nonnegative numbers to the weights, so small cells keep all their digits.
template <int W>
__device__ __forceinline__ void eliminate_alone(const Tile<W>& t, bool paired) {
  constexpr int ACROSS = W > 32 ? 16 : 8, DOWN = W / ACROSS;
  const int C = t.C, across = t.rank() % ACROSS, down = t.rank() / ACROSS;
  each<W>(C, [&](int j) { t.q(j) = paired ? t.v(j) - t.u(j) : t.gap(j); });
  for (int k = C - 1; k > 0; --k) {
    if (t.rank() < 32) share_out(t, paired, k);
    t.meet();
    for (int i = across; i < k; i += ACROSS) {
      const double w = t.weight(k, i), p = t.p(i), f = paired ? t.flow(k, i) : 0.0;
      for (int j = i + 1 + ((down - i - 1) & (DOWN - 1)); j < k; j += DOWN) {
        t.weight(j, i) += t.p(j) * w;
        if (paired) t.flow(j, i) += t.p(j) * f - p * t.flow(k, j);
      }
    }
    t.meet();
  }
  if (t.rank() == 0) t.d(0) = t.r(0) = 0.0;
  t.meet();
  for (int k = 1; k < C; ++k) {
    const double d = t.d(k) * t.r(k);
    for (int j = k + 1 + t.rank(); j < C; j += W) t.d(j) += t.weight(j, k) * d;
    t.meet();
  }
  each<W>(C, [&](int j) { t.d(j) *= t.r(j); });
}

// The same by one block of a crew, which tells the others.
template <int W>
__device__ __forceinline__ void eliminate_for_all(const Tile<W>& t, bool paired) {
  if constexpr (W > 32) {
    double* told = t.fresh();
    if (t.crew.rank == 0) eliminate_alone(t, paired);
    if (t.crew.size == 1) return;
    if (t.crew.rank == 0) each<W>(t.C, [&](int j) { told[j] = t.d(j); });
    t.crew.meet();
    each<W>(t.C, [&](int j) { t.d(j) = told[j]; });
  } else {
    eliminate_alone(t, paired);
  }
}

template <int W>
__device__ __forceinline__ void eliminate(const Tile<W>& t, bool paired) {
  build_graph(t, paired);
  eliminate_for_all(t, paired);
}

// Whether every column misses so little of its own target, after a pass over the rows.
template <int W>
__device__ __forceinline__ bool columns_fit(const Tile<W>& t, const Goals& goals) {
  bool bad = false;
  for (int j = t.rank(); j < t.C; j += W) bad |= !goals.fits(t.gap(j), t.v(j));
  return !team_any<W>(bad);
}

// ---- steps ----

// Prepare the factors; return whether rows and columns are paired.
template <int W>
__device__ __forceinline__ bool start(Tile<W>& t, i64* done) {
  bool paired = t.R == t.C && (t.chosen || dominates(t));
  if (!paired) {
#pragma unroll 1
    for (int sweep = 0; sweep < 3; ++sweep) plain_sweep(t);
    *done += 3;
    paired = t.R == t.C && pair_by_search(t);
  }
  if (paired) {
    paired_start(t);
    *done += 2;
  }
  return paired;
}

// Newton's method by elimination alone; returns a status: UNDETERMINED where steps have only stopped shrinking.
template <int W>
__device__ __forceinline__ int newton(Tile<W>& t, const Goals& goals, double last_width, i64 max_iter, i64* done) {
  const bool paired = start(t, done);
  double width = CM_INF, before = CM_INF;
  while (true) {
    const double residual = row_pass(t, paired);
    if (!(residual < CM_INF)) return CM_RANGE;
    // The residual alone would let cells smaller than the tolerance be wrong: the last step must be small too, or have
    // stopped shrinking at the level of rounding.
    if (goals.met(residual, columns_fit(t, goals), width <= last_width, has_stalled(width, before)))
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
