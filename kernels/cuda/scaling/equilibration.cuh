// Equilibration of matrices whose cells span so many orders of magnitude that products leave the float64 range.
//
// In logarithms: the assignment of columns to rows with the largest product of cells (Hungarian algorithm), then
// factors that balance the flows between the pairs (Osborne). As powers of two these are exact, and the divided matrix
// has its paired cells near one and no cell much larger.

// Write log2 of the cells to Q. Dropped rows pair only with dropped columns, no matter which.
template <int W>
__device__ __forceinline__ void compute_logarithms(const Tile<W>& t) {
  for_each_cell(t, t.R, t.C, [&](int i, int j) {
    const double m = t.M(i, j);
    t.Q(i, j) = m > 0.0 ? log2(m) : t.u(i) == 0.0 && t.v(j) == 0.0 ? 0.0 : -CM_INF;
  });
}

// Assignment problem (Kuhn-Munkres by shortest augmenting paths): write the pairing with the largest sum of Q to r.
// False where every assignment has a zero cell.
template <int W>
__device__ __forceinline__ bool assign(const Tile<W>& t) {
  const int n = t.C;
  // x: prices of rows; y: of columns; q: the row of a column, or -1; p: the column before; d: slack; r: seen.
  each<W>(n, [&](int j) {
    t.x(j) = t.y(j) = 0.0;
    t.q(j) = -1.0;
  });
  for (int i = 0; i < n; ++i) {
    each<W>(n, [&](int j) {
      t.d(j) = CM_INF;
      t.r(j) = 0.0;
    });
    int here = -1, row = i;
    while (row >= 0) {
      if (here >= 0 && t.rank() == 0) t.r(here) = 1.0;
      t.synchronize();
      double least = CM_INF;
      int following = n;
      for (int j = t.rank(); j < n; j += W) {
        if (t.r(j) != 0.0) continue;
        const double gap = -t.Q(row, j) - t.x(row) - t.y(j);
        if (gap < t.d(j)) {
          t.d(j) = gap;
          t.p(j) = here;
        }
        if (t.d(j) < least) {
          least = t.d(j);
          following = j;
        }
      }
      const double own = least;
      least = team_min<W>(own);
      if (own > least) following = n;
      following = team_reduce<W>(following, [](int a, int b) { return min(a, b); });
      if (following == n) return false;
      t.synchronize();  // all have read the prices
      for (int j = t.rank(); j < n; j += W)
        if (t.r(j) != 0.0) {
          t.x(int(t.q(j))) += least;
          t.y(j) -= least;
        } else {
          t.d(j) -= least;
        }
      if (t.rank() == 0) t.x(i) += least;
      here = following;
      row = int(t.q(here));
      t.synchronize();  // all have read the assignment before it changes
    }
    if (t.rank() == 0)
      while (here >= 0) {
        const int before = int(t.p(here));
        t.q(here) = before >= 0 ? t.q(before) : i;
        here = before;
      }
    t.synchronize();
  }
  each<W>(n, [&](int j) { t.r(int(t.q(j))) = j; });
  return true;
}

// Balance (Osborne): with B_ij = A_ij - (A_ii + A_jj) / 2 of the logarithms in Q, fill x with t such that B_ij + t_i -
// t_j has equal sums of row i and column i, without the diagonal.
template <int W>
__device__ __forceinline__ void balance(const Tile<W>& t) {
  const int n = t.C;
  each<W>(n, [&](int i) { t.x(i) = 0.0; });
  for (int sweep = 0; sweep < CM_BALANCE_SWEEPS; ++sweep) {
    double change = 0.0;
    for (int i = 0; i < n; ++i) {
      const double half = 0.5 * t.Q(i, i);
      const auto from = [&](int j) { return t.Q(j, i) - half - 0.5 * t.Q(j, j) + t.x(j); };
      const auto to = [&](int j) { return t.Q(i, j) - half - 0.5 * t.Q(j, j) - t.x(j); };
      double into = -CM_INF, out = -CM_INF;
      for (int j = t.rank(); j < n; j += W)
        if (j != i) {
          into = fmax(into, from(j));
          out = fmax(out, to(j));
        }
      into = team_max<W>(into);
      out = team_max<W>(out);
      if (into == -CM_INF || out == -CM_INF) continue;
      double into_sum = 0.0, out_sum = 0.0;
      for (int j = t.rank(); j < n; j += W)
        if (j != i) {
          into_sum += exp2(from(j) - into);
          out_sum += exp2(to(j) - out);
        }
      into_sum = team_sum<W>(into_sum);
      out_sum = team_sum<W>(out_sum);
      const double fresh = 0.5 * (into + log2(into_sum) - out - log2(out_sum));
      change = fmax(change, fabs(fresh - t.x(i)));
      t.synchronize();
      if (t.rank() == 0) t.x(i) = fresh;
      t.synchronize();
    }
    if (change < CM_LEAST_EQUILIBRATION) break;
  }
}

template <int W>
__device__ __forceinline__ void divide_by_powers(Tile<W>& t) {
  t.far = true;
  for_each_cell(t, t.R, t.C,
                [&](int i, int j) { t.M(i, j) = multiply_by_power(t.M(i, j), -t.row_power(i) - t.col_power(j)); });
}

// Equilibrate: powers of two that make the binary logarithms of rows and columns average about zero.
template <int W>
__device__ __forceinline__ void equilibrate(Tile<W>& t) {
  const auto there = [&](int i, int j) { return double(t.M(i, j) > 0.0); };
  sum_rows(t, there, [&](int i, double n) { t.off(i) = n; });
  sum_columns(t, there, [&](int j, double n) { t.sum(j) = n; });
#pragma unroll 1
  for (int round = 0; round < 3; ++round) {
    sum_rows(
        t, [&](int i, int j) { return t.M(i, j) > 0.0 ? get_exponent(t.M(i, j)) - t.col_power(j) : 0.0; },
        [&](int i, double total) { t.row_power(i) = t.off(i) > 0.0 ? floor(total / t.off(i)) : 0.0; });
    sum_columns(
        t, [&](int i, int j) { return t.M(i, j) > 0.0 ? get_exponent(t.M(i, j)) - t.row_power(i) : 0.0; },
        [&](int j, double total) { t.col_power(j) = t.sum(j) > 0.0 ? floor(total / t.sum(j)) : 0.0; });
  }
  divide_by_powers(t);
}

__device__ __forceinline__ bool is_outside(double low, double high) { return low < 1.0 / CM_WIDE || high > CM_WIDE; }

// Whether the cells, from `low` to `high`, need no equilibration.
template <int W>
__device__ __forceinline__ bool is_in_range(const Tile<W>& t, double low, double high) {
  return !is_outside(low, high) && !(high > CM_VAST * low) &&
         (!(high > CM_MOST_SCALE_RATIO * low) || (t.R == t.C && has_dominant_diagonal(t)));
}

// Divide the cells by powers of two, exactly; pairs rows with columns first where possible.
template <int W>
__device__ __forceinline__ void equilibrate_if_needed(Tile<W>& t, bool plain, double low, double high) {
  if (is_in_range(t, low, high)) return;
  if (t.R == t.C && !plain) {
    compute_logarithms(t);
    if (assign(t)) {
      synchronize_peers(t);  // all have read the logarithms
      permute(t);
      compute_logarithms(t);
      balance(t);
      each<W>(t.C, [&](int i) {
        const double half = 0.5 * t.Q(i, i);
        t.row_power(i) = floor(half - t.x(i) + 0.5);
        t.col_power(i) = floor(half + t.x(i) + 0.5);
      });
      divide_by_powers(t);
      t.chosen = true;
      return;
    }
  }
  if (is_outside(low, high)) equilibrate(t);
}
