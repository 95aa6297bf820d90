// Newton system of a table, as kernels/cpu/margins: the Hessian in the unknowns (Schur complement of the eliminated
// margin), its Cholesky factor, forward and back substitution. The lower triangle is stored row by row.

constexpr int PANEL = 8;  // columns of a panel, factorised before the trailing block is updated

__device__ __forceinline__ i64 cell_of(int i, int j) { return i64(i) * (i + 1) / 2 + j; }

// Subtract the products of pairs of cells of an eliminated marginal from a row, which belongs to one thread.
template <int W>
__device__ __forceinline__ void eliminate_marginal(const Table<W>& t, double* row, int k, int c, int from) {
  const int line = t.code(0, c);
  if (!(t.targets()[line] > 0.0)) return;
  const double part = t.x()[c] / (t.goals()[line] * (1.0 + t.slack));
#pragma unroll 1
  for (int other = t.of.starts[line]; other < t.of.starts[line + 1]; ++other)
#pragma unroll 1
    for (int b = 1; b <= from; ++b) {
      const int j = t.code(b, other);
      if (j <= k) row[j] -= part * t.x()[other];
    }
}

// Form the Hessian, by pairs of cells of an eliminated marginal if `pairs`, else by its sums for each unknown, stored
// after the triangle.
template <int W>
__device__ __forceinline__ void form_hessian(Table<W>& t, bool pairs) {
  const int n = t.others();
  double *S = t.work(), *T = S + cell_of(n, 0);
  const i64 size = cell_of(n, 0) + (pairs ? 0 : i64(n) * t.of.closed);
#pragma unroll 1
  for (i64 k = t.rank; k < size; k += W) S[k] = 0.0;
  t.synchronize();
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b)
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W) {
      double* row = S + cell_of(k, 0);
#pragma unroll 1
      for (int at = t.of.starts[t.of.closed + k]; at < t.of.starts[t.of.closed + k + 1]; ++at) {
        const int c = t.of.members[at];
        if (!(t.x()[c] > 0.0)) continue;
        row[k] += t.x()[c];
#pragma unroll 1
        for (int a = 1; a < b; ++a) row[t.code(a, c)] += t.x()[c];
        const double goal = t.goals()[t.code(0, c)] * (1.0 + t.slack);
        if (pairs)
          eliminate_marginal(t, row, k, c, b);
        else if (goal > 0.0)
          T[i64(t.code(0, c)) * n + k] += t.x()[c] / sqrt(goal);
      }
    }
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b)
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W) {
      const double more = t.of.slack[b] * t.goals()[t.of.closed + k], size = t.sums()[k] + more;
      // A marginal whose cells all underflow gets no step: its scale would be infinite.
      t.scale()[k] = t.wanted()[k] > 0.0 && size > 0.0 ? 1.0 / sqrt(size) : 0.0;
      S[cell_of(k, k)] += more;
    }
  t.synchronize();
#pragma unroll 1
  for (int k = 0; k < n; ++k)
#pragma unroll 1
    for (int j = t.rank; j <= k; j += W) {
      double sum = S[cell_of(k, j)];
#pragma unroll 1
      for (int line = 0; line < t.of.closed && !pairs; ++line) sum -= T[i64(line) * n + k] * T[i64(line) * n + j];
      S[cell_of(k, j)] = sum * (t.scale()[k] * t.scale()[j]) + (j == k && t.wanted()[k] > 0.0 ? CM_NUDGE : 0.0);
    }
  t.synchronize();
}

// Update the trailing block by a panel of columns, in register tiles.
template <int W>
__device__ __forceinline__ void update_trailing(const Table<W>& t, double* S, int first, int last) {
  constexpr int TILE = 3;  // rows and columns of a thread's register tile
  const int n = t.others();
  const i64 side = (n - last + TILE - 1) / TILE;
#pragma unroll 1
  for (i64 tile = t.rank; tile < side * (side + 1) / 2; tile += W) {
    int down = int((sqrt(8.0 * double(tile) + 1.0) - 1.0) / 2.0);
    while (i64(down) * (down + 1) / 2 > tile) --down;
    while (i64(down + 1) * (down + 2) / 2 <= tile) ++down;
    const int top = last + TILE * down, left = last + TILE * int(tile - i64(down) * (down + 1) / 2);
    double sum[TILE][TILE] = {};
#pragma unroll 1
    for (int j = first; j < last; ++j) {
      double one[TILE], other[TILE];
#pragma unroll
      for (int r = 0; r < TILE; ++r) {
        one[r] = S[cell_of(min(top + r, n - 1), j)];
        other[r] = S[cell_of(min(left + r, n - 1), j)];
      }
#pragma unroll
      for (int r = 0; r < TILE; ++r)
#pragma unroll
        for (int s = 0; s < TILE; ++s) sum[r][s] += one[r] * other[s];
    }
#pragma unroll
    for (int r = 0; r < TILE; ++r)
#pragma unroll
      for (int s = 0; s < TILE; ++s)
        if (top + r < n && left + s <= top + r) S[cell_of(top + r, left + s)] -= sum[r][s];
  }
}

// Replace the lower triangle by its Cholesky factor, with zeros for null pivots.
template <int W>
__device__ __forceinline__ void factorize(const Table<W>& t) {
  const int n = t.others();
  double* S = t.work();
#pragma unroll 1
  for (int first = 0; first < n; first += PANEL) {
    const int last = min(first + PANEL, n);
#pragma unroll 1
    for (int j = first; j < last; ++j) {
      const double pivot = S[cell_of(j, j)], size = pivot > CM_LEAST_PIVOT ? sqrt(pivot) : 0.0;
      const double by = size > 0.0 ? 1.0 / size : 0.0;
      t.synchronize();  // all have read the pivot
#pragma unroll 1
      for (int i = j + t.rank; i < n; i += W) S[cell_of(i, j)] = i == j ? size : S[cell_of(i, j)] * by;
      t.synchronize();
#pragma unroll 1
      for (int i = j + 1 + t.rank; i < n; i += W) {
        const double part = S[cell_of(i, j)];
#pragma unroll 1
        for (int k = j + 1; k < last && k <= i; ++k) S[cell_of(i, k)] -= part * S[cell_of(k, j)];
      }
      t.synchronize();
    }
    update_trailing(t, S, first, last);
    t.synchronize();
  }
}

// Solve for the step by forward and back substitution, in place.
template <int W>
__device__ __forceinline__ void substitute(const Table<W>& t) {
  const int n = t.others();
  const double* S = t.work();
#pragma unroll 1
  for (int up = 0; up < 2; ++up)
#pragma unroll 1
    for (int number = 0; number < n; ++number) {
      const int i = up ? n - 1 - number : number;
      const double size = S[cell_of(i, i)], one = size > 0.0 ? t.step()[i] / size : 0.0;
      t.synchronize();
      if (t.rank == 0) t.step()[i] = one;
#pragma unroll 1
      for (int k = (up ? 0 : i + 1) + t.rank; k < (up ? i : n); k += W)
        t.step()[k] -= S[up ? cell_of(i, k) : cell_of(k, i)] * one;
      t.synchronize();
    }
}
