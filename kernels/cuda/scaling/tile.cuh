// The workspace of one matrix, and passes over its cells by a team of W threads (a warp or a block). The order of all
// sums depends on the shape of the matrix alone.

constexpr int LEFT = -1;  // status: the full instance must start over

// Arrays of a matrix, in shared memory if they fit, else in global memory. R rows and C columns as solved, the shorter
// side being the columns. Rows of cells have an odd stride, so that a warp reads a column without bank conflicts.
template <int W>
struct Tile {
  double* cells;   // after smoothing, dropping, powers of two
  double* scaled;  // cells over sqrt(u), or scratch of the same size
  double* graph;   // weights below the diagonal, flows above
  double* lines;
  double* part;       // W values for partial sums
  BlockGroup& peers;  // state of the blocks that share the matrix
  int R, C;
  double total;
  bool far, chosen, warm;  // equilibrated by powers of two; pairing known already; initial factors given

  __device__ __forceinline__ static int rank() { return zeros::rank<W>(); }
  __device__ __forceinline__ static void synchronize() { zeros::synchronize<W>(); }

  __device__ __forceinline__ i64 at(int i, int j) const { return i64(i) * (C | 1) + j; }
  __device__ __forceinline__ double& M(int i, int j) const { return cells[at(i, j)]; }
  __device__ __forceinline__ double& Q(int i, int j) const { return scaled[at(i, j)]; }
  __device__ __forceinline__ double& weight(int i, int j) const { return graph[at(i, j)]; }  // j < i
  __device__ __forceinline__ double& flow(int i, int j) const { return graph[at(j, i)]; }    // j < i
  // A warp keeps 32 values of each field in any case, so that offsets are known at compile time.
  __device__ __forceinline__ i64 row_fields(int n) const { return n * i64(W > 32 ? R : 32); }
  __device__ __forceinline__ i64 col_fields(int n) const { return n * i64(W > 32 ? C : 32); }
  __device__ __forceinline__ double& row(int field, int i) const { return lines[row_fields(field) + i]; }
  __device__ __forceinline__ double& col(int field, int j) const {
    return lines[row_fields(CM_ROW_FIELDS) + col_fields(field) + j];
  }
  // Buffer of a value for each row or column that all blocks of the group write, and read after a barrier.
  __device__ __forceinline__ double* get_exchange() const {
    if constexpr (W == 32) return nullptr;
    return peers.size > 1 ? peers.get_exchange() : lines + row_fields(CM_ROW_FIELDS) + col_fields(CM_COL_FIELDS);
  }
  static_assert(CM_ROW_FIELDS == 6 && CM_COL_FIELDS == 12, "the launcher allocates these fields");
  __device__ __forceinline__ double& u(int i) const { return row(0, i); }     // row targets
  __device__ __forceinline__ double& x(int i) const { return row(1, i); }     // row factors
  __device__ __forceinline__ double& root(int i) const { return row(2, i); }  // 1 / sqrt(u)
  __device__ __forceinline__ double& off(int i) const { return row(3, i); }   // row sums without the paired cell
  __device__ __forceinline__ double& last(int i) const { return row(4, i); }  // row factors of the sweep before
  __device__ __forceinline__ double& row_power(int i) const { return row(5, i); }
  __device__ __forceinline__ double& v(int j) const { return col(0, j); }    // column targets
  __device__ __forceinline__ double& y(int j) const { return col(1, j); }    // column factors
  __device__ __forceinline__ double& sum(int j) const { return col(2, j); }  // column sums without the paired cell
  __device__ __forceinline__ double& gap(int j) const {
    return col(3, j);
  }  // target minus sum of a column: minus the gradient
  __device__ __forceinline__ double& q(int j) const { return col(4, j); }  // right-hand side without flows
  __device__ __forceinline__ double& d(int j) const { return col(5, j); }  // Newton step in log y
  __device__ __forceinline__ double& p(int j) const { return col(6, j); }  // scratch of the solver
  __device__ __forceinline__ double& r(int j) const { return col(7, j); }
  __device__ __forceinline__ double& col_power(int j) const { return col(8, j); }
  __device__ __forceinline__ double& order(int j) const { return col(9, j); }    // column of the input at each position
  __device__ __forceinline__ double& scale(int j) const { return col(10, j); }   // diagonal of the Laplacian
  __device__ __forceinline__ double& origin(int j) const { return col(11, j); }  // column factors before the last step
};

template <int W>
__device__ __forceinline__ double team_min(double value) {
  return team_reduce<W>(value, [](double a, double b) { return fmin(a, b); });
}
template <int W>
__device__ __forceinline__ double team_max(double value) {
  return team_reduce<W>(value, [](double a, double b) { return fmax(a, b); });
}

// Reductions over the blocks of a group.
template <int W>
__device__ __forceinline__ double peers_min(const Tile<W>& t, double value) {
  const auto join = [](double a, double b) { return fmin(a, b); };
  if constexpr (W > 32) return t.peers.template reduce<W>(value, join);
  return team_reduce<W>(value, join);
}
template <int W>
__device__ __forceinline__ double peers_max(const Tile<W>& t, double value) {
  const auto join = [](double a, double b) { return fmax(a, b); };
  if constexpr (W > 32) return t.peers.template reduce<W>(value, join);
  return team_reduce<W>(value, join);
}
template <int W>
__device__ __forceinline__ bool peers_any(const Tile<W>& t, bool value) {
  if constexpr (W > 32) return peers_max(t, double(value)) > 0.0;
  return team_any<W>(value);
}

// Of items that blocks take `many` at a time: the first of this block, and the distance to its next.
template <int W>
__device__ __forceinline__ int get_first_item(const Tile<W>& t, int many) {
  return W > 32 ? t.peers.rank * many : 0;
}
template <int W>
__device__ __forceinline__ int get_item_stride(const Tile<W>& t, int many) {
  return W > 32 ? t.peers.size * many : many;
}
template <int W>
__device__ __forceinline__ void synchronize_peers(const Tile<W>& t) {
  if constexpr (W > 32)
    t.peers.synchronize();
  else
    t.synchronize();
}

// Call `todo(k)` for every k below n, distributed over threads, then wait at a barrier.
template <int W, typename Todo>
__device__ __forceinline__ void each(int n, Todo todo) {
#pragma unroll 1
  for (int k = zeros::rank<W>(); k < n; k += W) todo(k);
  zeros::synchronize<W>();
}

// Call `todo(i, j)` for cells, neighbouring threads taking a row together; rows start at `begin` with stride `step`. No
// barrier.
template <int W, typename Todo>
__device__ __forceinline__ void for_some_cells(int rows, int cols, int begin, int step, Todo todo) {
  const int bits = cols > 16 ? 5 : cols > 1 ? 32 - __clz(cols - 1) : 0, rank = zeros::rank<W>();
#pragma unroll 1
  for (int i = (begin * W >> bits) + (rank >> bits); i < rows; i += step * W >> bits)
#pragma unroll 1
    for (int j = rank & ((1 << bits) - 1); j < cols; j += 1 << bits) todo(i, j);
}

// Call `todo(i, j)` for every cell, distributed over the blocks of the group, then wait at a barrier.
template <int W, typename Todo>
__device__ __forceinline__ void for_each_cell(const Tile<W>& t, int rows, int cols, Todo todo) {
  for_some_cells<W>(rows, cols, get_first_item(t, 1), get_item_stride(t, 1), todo);
  synchronize_peers(t);
}

// How `sum_rows` and `sum_columns` join terms: by their sum, or, where none is negative, by the largest.
struct Add {
  __device__ __forceinline__ double operator()(double a, double b) const { return a + b; }
};
struct Larger {
  __device__ __forceinline__ double operator()(double a, double b) const { return fmax(a, b); }
};

// Call `done(i, sum of term(i, j) over j)` for every row: a thread sums a short row, a warp a long one. In a block the
// sums are stored first, by any block of the group, so that the calls are distributed over the threads.
template <int W, typename Term, typename Done, typename Join = Add>
__device__ __forceinline__ void sum_rows(const Tile<W>& t, Term term, Done done, Join join = Join()) {
  const int bits = W > 32 && t.C > 32 ? 5 : 0, first = t.rank() & ((1 << bits) - 1);
  double* sums = t.get_exchange();
#pragma unroll 1
  for (int i = get_first_item(t, W >> bits) + (t.rank() >> bits); i < t.R; i += get_item_stride(t, W >> bits)) {
    double sum = 0.0;
    for (int j = first; j < t.C; j += 1 << bits) sum = join(sum, term(i, j));
    if (bits) sum = team_reduce<32>(sum, join);
    if constexpr (W == 32)
      done(i, sum);
    else if (first == 0)
      sums[i] = sum;
  }
  synchronize_peers(t);
  if constexpr (W > 32) each<W>(t.R, [&](int i) { done(i, sums[i]); });
}

// Call `done(j, sum of term(i, j) over i)` for every column: neighbouring threads sum neighbouring columns, 32 at a
// time; in a block also by pieces of rows, so that a group has enough work items.
template <int W, typename Term, typename Done, typename Join = Add>
__device__ __forceinline__ void sum_columns(const Tile<W>& t, Term term, Done done, Join join = Join()) {
  const int pieces = W > 32 ? (t.R + CM_PIECE_ROWS - 1) / CM_PIECE_ROWS : 1, items = (t.C + 31) / 32 * pieces;
  double* sums = t.get_exchange();
#pragma unroll 1
  for (int item = get_first_item(t, 1); item < items; item += get_item_stride(t, 1)) {
    const int first = item / pieces * 32, piece = item % pieces;
    const int begin = piece * CM_PIECE_ROWS, end = W > 32 ? min(t.R, begin + CM_PIECE_ROWS) : t.R;
    const int width = min(t.C - first, 32), shares = W / width, share = t.rank() / width, j = t.rank() % width;
    double sum = 0.0;
    if (share < shares)
      for (int i = begin + share; i < end; i += shares) sum = join(sum, term(i, first + j));
    if (shares > 1) {
      t.part[t.rank()] = sum;
      t.synchronize();
      if (share == 0)
#pragma unroll 1
        for (int s = 1; s < shares; ++s) sum = join(sum, t.part[s * width + j]);
    }
    if (share == 0) {
      if constexpr (W == 32)
        done(first + j, sum);
      else if (t.peers.size > 1)
        sums[piece * t.C + first + j] = sum;
      else
        sums[first + j] = piece ? join(sums[first + j], sum) : sum;
    }
    t.synchronize();
  }
  synchronize_peers(t);
  if constexpr (W > 32)
    each<W>(t.C, [&](int j) {
      double sum = sums[j];
#pragma unroll 1
      for (int piece = 1; piece < pieces && t.peers.size > 1; ++piece) sum = join(sum, sums[piece * t.C + j]);
      done(j, sum);
    });
}

// Call `done(i, j)` for every row with the first j of the largest value(i, j).
template <int W, typename Value, typename Done>
__device__ __forceinline__ void find_row_maxima(const Tile<W>& t, Value value, Done done) {
  const int bits = W > 32 && t.C > 32 ? 5 : 0, first = t.rank() & ((1 << bits) - 1);
  double* tops = t.get_exchange();
#pragma unroll 1
  for (int i = get_first_item(t, W >> bits) + (t.rank() >> bits); i < t.R; i += get_item_stride(t, W >> bits)) {
    int best = first;
    for (int j = first + (1 << bits); j < t.C; j += 1 << bits)
      if (value(i, j) > value(i, best)) best = j;
    if (bits) {
      const double own = value(i, best), most = team_max<32>(own);
      best = team_reduce<32>(own == most ? best : t.C - 1, [](int a, int b) { return min(a, b); });
    }
    if constexpr (W == 32)
      done(i, best);
    else if (first == 0)
      tops[i] = best;
  }
  synchronize_peers(t);
  if constexpr (W > 32) each<W>(t.R, [&](int i) { done(i, int(tops[i])); });
}

// Move column r(j) to position j in M, v, y, the powers of the columns, and `order`.
template <int W>
__device__ __forceinline__ void permute(Tile<W>& t) {
  for_each_cell(t, t.R, t.C, [&](int i, int j) { t.Q(i, j) = t.M(i, int(t.r(j))); });
  double* cells = t.cells;
  t.cells = t.scaled;
  t.scaled = cells;
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    const int field = k < 2 ? k : k + 6;
    each<W>(t.C, [&](int j) { t.p(j) = t.col(field, int(t.r(j))); });
    each<W>(t.C, [&](int j) { t.col(field, j) = t.p(j); });
  }
}

// Whether m_ii m_jj > m_ij m_ji for all classes i, j that are not dropped.
template <int W>
__device__ __forceinline__ bool has_dominant_diagonal(const Tile<W>& t) {
  bool good = true;
  for_each_cell(t, t.C, t.C, [&](int i, int j) {
    if (i == j)
      good &= (t.u(i) == 0.0) == (t.v(i) == 0.0) && (t.u(i) == 0.0 || t.M(i, i) != 0.0);
    else if (j < i && t.u(i) > 0.0 && t.u(j) > 0.0)
      good &= t.M(i, i) * t.M(j, j) > t.M(i, j) * t.M(j, i);
  });
  return !peers_any(t, !good);
}
