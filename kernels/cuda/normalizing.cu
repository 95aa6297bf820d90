// Normalise matrices by totals, row sums or column sums; importance weights of samples; their gradients.

// Reciprocal of a sum in two factors, which avoid overflow: multiply by shrink first, then divide by total.
struct Share {
  double shrink, total;
  __device__ __forceinline__ double of(double x) const { return x * shrink / total; }
  __device__ __forceinline__ double weight() const { return shrink / total; }
};

template <int W, typename T>
__device__ __forceinline__ double line_sum(const T* p, i64 first, i64 count, double unit) {
  double total = 0.0;
  for (i64 k = first; k < count; k += W) total += widen(p[k]) * unit;
  return team_sum<W>(total);
}

// Sum of a row, or of all cells, by a team; an empty sum is replaced by `empty`.
template <int W, typename T>
__device__ __forceinline__ Share line_share(const T* p, int rank, i64 count, double empty) {
  const double total = line_sum<W>(p, rank, count, 1.0);
  const bool huge = total == CM_INF;
  double small = 0.0;
  if (warp_any(huge)) small = line_sum<W>(p, rank, count, CM_SHRINK);
  return huge ? Share{CM_SHRINK, small} : Share{1.0, total > 0.0 ? total : empty};
}

// Sum of a column, by one thread.
template <typename T>
__device__ __forceinline__ Share column_share(const T* p, i64 R, i64 C, double empty) {
  double total = 0.0, small = 0.0;
  for (i64 i = 0; i < R; ++i) {
    const double x = widen(p[i * C]);
    total += x;
    small += x * CM_SHRINK;
  }
  return total == CM_INF ? Share{CM_SHRINK, small} : Share{1.0, total > 0.0 ? total : empty};
}

template <int W, typename T>
__device__ __forceinline__ bool any_bad(const T* p, int rank, i64 cells) {
  bool bad = false;
  for (i64 k = rank; k < cells; k += W) {
    const double x = widen(p[k]);
    bad |= !(x >= 0.0 && x < CM_INF);
  }
  return team_any<W>(bad);
}

// Write ``value(cell, sum)`` to every cell, with the sum of its row, its column or all cells. The assignment of cells
// to threads does not depend on `value`.
template <int W, typename T, typename O, typename Value>
__device__ __forceinline__ void each_line(const T* p, i64 R, i64 C, int lines, const Team<W>& team, double empty, O* q,
                                          Value value) {
  if (lines == CM_COL) {
    for (i64 j = team.rank; j < C; j += W) {
      const Share share = column_share(p + j, R, C, empty);
      if (team.mine())
        for (i64 i = 0; i < R; ++i) q[i * C + j] = value(p[i * C + j], share);
    }
    return;
  }
  const i64 count = lines == CM_ALL_CELLS ? R * C : C;
  for (i64 first = 0; first < R * C; first += count) {
    const Share share = line_share<W>(p + first, team.rank, count, empty);
    if (team.mine())
      for (i64 k = team.rank; k < count; k += W) q[first + k] = value(p[first + k], share);
  }
}

template <typename T, typename O, int W>
__global__ void cmfast_normalize_lines(const T* __restrict__ M, i64 R, i64 C, int lines, i64 n, O* __restrict__ out,
                                       signed char* __restrict__ out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const T* p = M + team.matrix() * R * C;
    const bool bad = any_bad<W>(p, team.rank, R * C);
    each_line<W>(p, R, C, lines, team, 1.0, out + team.matrix() * R * C,
                 [=](T x, Share share) { return narrow<O>(bad ? CM_NAN : share.of(widen(x))); });
    if (team.mine() && team.rank == 0) out_status[team.matrix()] = bad ? CM_INVALID : CM_CONVERGED;
  }
}

// Status of a table of weights; a table with an infinite weight becomes NaN.
template <int W, typename O>
__device__ __forceinline__ int in_range(O* q, i64 cells, const Team<W>& team, bool wild) {
  wild = team_any<W>(wild);
  if (wild && team.mine())
    for (i64 k = team.rank; k < cells; k += W) q[k] = narrow<O>(CM_NAN);
  return wild ? CM_RANGE : CM_CONVERGED;
}

template <typename T, typename O, int W>
__global__ void cmfast_importance_weights_lines(const T* __restrict__ M, i64 R, i64 C, int lines, i64 n,
                                                O* __restrict__ out, signed char* __restrict__ out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const T* p = M + team.matrix() * R * C;
    O* q = out + team.matrix() * R * C;
    const bool bad = any_bad<W>(p, team.rank, R * C);
    bool wild = false;
    // An empty sum gives weight zero: one over infinity.
    each_line<W>(p, R, C, lines, team, CM_INF, q, [=, &wild](T, Share share) {
      const O weight = narrow<O>(bad ? CM_NAN : share.weight());
      wild |= !bad && !(widen(weight) < CM_INF);
      return weight;
    });
    __syncthreads();  // other threads write the cells below
    const int status = in_range<W>(q, R * C, team, wild);
    if (team.mine() && team.rank == 0) out_status[team.matrix()] = bad ? CM_INVALID : status;
  }
}

// Products of row and column factors, for matrices with the given scaling status.
template <typename O, int W>
__global__ void cmfast_importance_weights_factors(const double* __restrict__ row_scale,
                                                  const double* __restrict__ col_scale, i64 R, i64 C, i64 n,
                                                  O* __restrict__ out, signed char* __restrict__ out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const double* row = row_scale + team.matrix() * R;
    const double* col = col_scale + team.matrix() * C;
    O* q = out + team.matrix() * R * C;
    const bool scaled = team.mine() && out_status[team.matrix()] == CM_CONVERGED;  // written by its team below
    bool wild = false;
    for (i64 k = team.rank; k < R * C; k += W) {
      const O weight = narrow<O>(row[k / C] * col[k % C]);
      wild |= scaled && !(widen(weight) < CM_INF);
      if (team.mine()) q[k] = weight;
    }
    const int status = in_range<W>(q, R * C, team, wild);
    __syncwarp();  // all lanes have read the status, which shuffles do not order
    if (team.mine() && team.rank == 0 && scaled) out_status[team.matrix()] = status;
  }
}

// Contribution of a cell to the mean that is subtracted from the gradients of its row, column or matrix.
__device__ __forceinline__ double pull(double x, double g, double total, int of_weights) {
  return of_weights ? g / total : g * (x / total);
}

template <typename T>
__device__ __forceinline__ T line_gradient(double g, double mean, double total, int of_weights, bool bad) {
  const double found = (of_weights ? -mean : g - mean) / total;
  return narrow<T>(bad ? CM_NAN : total > 0.0 ? found : 0.0);
}

// Gradients in the cells, given those of the normalised cells or of the weights; zero without mass.
template <typename T, int W>
__global__ void cmfast_normalizing_gradient_lines(const T* __restrict__ M, const T* __restrict__ G, i64 R, i64 C,
                                                  int lines, int of_weights, i64 n, T* __restrict__ out) {
  for (Team<W> team(n); team.more(); team.next()) {
    const T* p = M + team.matrix() * R * C;
    const T* g = G + team.matrix() * R * C;
    T* q = out + team.matrix() * R * C;
    bool bad = any_bad<W>(p, team.rank, R * C);
    if (lines == CM_COL) {
      bool far = false;
      for (i64 j = team.rank; j < C; j += W) {
        double total = 0.0;
        for (i64 i = 0; i < R; ++i) total += widen(p[i * C + j]);
        far |= !(total < CM_INF);
      }
      bad |= team_any<W>(far);
      for (i64 j = team.mine() ? team.rank : C; j < C; j += W) {
        double total = 0.0, mean = 0.0;
        for (i64 i = 0; i < R; ++i) total += widen(p[i * C + j]);
        for (i64 i = 0; i < R; ++i) mean += pull(widen(p[i * C + j]), widen(g[i * C + j]), total, of_weights);
        for (i64 i = 0; i < R; ++i) q[i * C + j] = line_gradient<T>(widen(g[i * C + j]), mean, total, of_weights, bad);
      }
      continue;
    }
    const i64 count = lines == CM_ALL_CELLS ? R * C : C;
    for (i64 first = 0; first < R * C; first += count) bad |= !(line_sum<W>(p + first, team.rank, count, 1.0) < CM_INF);
    for (i64 first = 0; first < R * C; first += count) {
      const double total = line_sum<W>(p + first, team.rank, count, 1.0);
      double mean = 0.0;
      for (i64 k = first + team.rank; k < first + count; k += W)
        mean += pull(widen(p[k]), widen(g[k]), total, of_weights);
      mean = team_sum<W>(mean);
      for (i64 k = team.mine() ? first + team.rank : R * C; k < first + count; k += W)
        q[k] = line_gradient<T>(widen(g[k]), mean, total, of_weights, bad);
    }
  }
}
