// Points to cells and back, and what is counted by cell, label and prediction: keys are cell << bits | tag.

// The index of a coordinate before it is rounded down. Subtract, then multiply: two roundings, the same on every device.
template <typename T>
__device__ __forceinline__ double place(T x, double origin, double inverse) {
  return (widen(x) - origin) * inverse;
}

// From 2^53 on neighbouring cells cannot be told apart; a coordinate that is not finite is there as well.
__device__ __forceinline__ bool is_index(double x) { return fabs(x) < 0x1p53; }

// Smallest and largest index per axis over the points that have a cell, and how many these are, one row per block.
template <typename T>
__global__ void cmfast_cell_counts_ranges(const T* __restrict__ X, i64 n, int m, const double* __restrict__ origin,
                                          const double* __restrict__ inverse, i64* out_low, i64* out_high,
                                          u64* out_kept) {
  out_kept += blockIdx.x;
  over_columns(
      X, n, m, out_low + i64(blockIdx.x) * m, out_high + i64(blockIdx.x) * m, out_kept,
      [=](T x, int d) { return is_index(place(x, origin[d], inverse[d])); },
      [=](T x, int d) { return i64(floor(place(x, origin[d], inverse[d]))); });
}

// Keys in mixed radix; a point without a cell gets the largest number.
template <typename T, typename L>
__global__ void cmfast_cell_counts_keys(const T* __restrict__ X, i64 n, int m, const double* __restrict__ origin,
                                        const double* __restrict__ inverse, const i64* __restrict__ low,
                                        const i64* __restrict__ extent, const L* __restrict__ y,
                                        const L* __restrict__ p, int half, i64* __restrict__ out) {
  for (i64 r = i64(blockIdx.x) * CM_THREADS + threadIdx.x; r < n; r += i64(gridDim.x) * CM_THREADS) {
    i64 key = 0;
    bool kept = true;
    for (int d = 0; d < m && kept; ++d) {
      const double x = place(X[r * m + d], origin[d], inverse[d]);
      kept = is_index(x);
      if (kept) key = key * extent[d] + (i64(floor(x)) - low[d]);
    }
    if (y) key = key << half | i64(y[r]);
    if (p) key = key << half | i64(p[r]);
    out[r] = kept ? key : CM_DROPPED;
  }
}

// Indices above the lowest, axis after axis, and whether a point has a cell.
template <typename T>
__global__ void cmfast_cell_counts_indices(const T* __restrict__ X, i64 n, int m, const double* __restrict__ origin,
                                           const double* __restrict__ inverse, const i64* __restrict__ low,
                                           i64* __restrict__ out, signed char* __restrict__ out_kept) {
  for (i64 r = i64(blockIdx.x) * CM_THREADS + threadIdx.x; r < n; r += i64(gridDim.x) * CM_THREADS) {
    bool kept = true;
    for (int d = 0; d < m; ++d) {
      const double x = place(X[r * m + d], origin[d], inverse[d]);
      kept &= is_index(x);
      out[d * n + r] = is_index(x) ? i64(floor(x)) - low[d] : 0;
    }
    out_kept[r] = kept;
  }
}

// Index rows of cells in mixed radix.
__global__ void cmfast_decode_cells_rows(const i64* __restrict__ cells, i64 n, int m, const i64* __restrict__ low,
                                         const i64* __restrict__ extent, i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    i64 rest = cells[k];
    for (int d = m - 1; d >= 0; --d) {
      const i64 quotient = rest / extent[d];
      out[k * m + d] = rest - quotient * extent[d] + low[d];
      rest = quotient;
    }
  }
}

// And back, perhaps with other ranges.
__global__ void cmfast_merge_cells_numbers(const i64* __restrict__ rows, i64 n, int m, const i64* __restrict__ low,
                                           const i64* __restrict__ extent, i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    i64 cell = 0;
    for (int d = 0; d < m; ++d) cell = cell * extent[d] + (rows[k * m + d] - low[d]);
    out[k] = cell;
  }
}

// The confusion matrix of runs; HELD: in shared memory first, so that blocks do not wait for each other.
template <bool HELD>
__global__ void cmfast_pair_counts_add(const i64* __restrict__ keys, const i64* __restrict__ counts, i64 n, int half,
                                       int n_classes, u64* out) {
  CM_DYN_SMEM(u64, held);
  const int cells = HELD ? n_classes * n_classes : 0;
  for (int k = threadIdx.x; k < cells; k += CM_THREADS) held[k] = 0;
  __syncthreads();
  u64* to = HELD ? held : out;
  const i64 mask = (i64(1) << half) - 1;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS)
    atomicAdd(&to[(keys[k] >> half & mask) * n_classes + (keys[k] & mask)], u64(counts[k]));
  __syncthreads();
  for (int k = threadIdx.x; k < cells; k += CM_THREADS)
    if (held[k]) atomicAdd(&out[k], held[k]);
}

// Sums of min(L, P) over pairs of an entry of one histogram and an entry of another in the same cell, per pair of their
// tags: cell l_cells[k] of one has the entries from l_first on, and so has p_cells[k] of the other. W threads per cell.
template <int W, bool HELD>
__global__ void cmfast_gcm_overlaps(const i64* __restrict__ l_cells, const i64* __restrict__ l_first,
                                    const i64* __restrict__ l_tags, const i64* __restrict__ L,
                                    const i64* __restrict__ p_cells, const i64* __restrict__ p_first,
                                    const i64* __restrict__ p_tags, const i64* __restrict__ P, i64 n, int rows,
                                    int columns, u64* out) {
  CM_DYN_SMEM(u64, held);
  const int size = HELD ? rows * columns : 0;
  for (int k = threadIdx.x; k < size; k += CM_THREADS) held[k] = 0;
  __syncthreads();
  u64* to = HELD ? held : out;
  for (Team<W> team(n); team.more(); team.next()) {
    if (!team.mine()) continue;
    const i64 l = l_first[l_cells[team.matrix()]], p = p_first[p_cells[team.matrix()]];
    const int a = int(l_first[l_cells[team.matrix()] + 1] - l), b = int(p_first[p_cells[team.matrix()] + 1] - p);
    int u = team.rank / b, s = team.rank % b;  // and from there in steps of W, without division
    while (u < a) {
      atomicAdd(&to[l_tags[l + u] * columns + p_tags[p + s]], u64(min(L[l + u], P[p + s])));
      u += W / b;
      s += W % b;
      if (s >= b) {
        s -= b;
        ++u;
      }
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < size; k += CM_THREADS)
    if (held[k]) atomicAdd(&out[k], held[k]);
}

// The same for one histogram pair in limbs, (limbs, entries) each, the lowest limb first; every cell has entries of both.
template <int W>
__global__ void cmfast_gcm_wide(const i64* __restrict__ l_first, const i64* __restrict__ l_tags,
                                const i64* __restrict__ L, i64 l_size, const i64* __restrict__ p_first,
                                const i64* __restrict__ p_tags, const i64* __restrict__ P, i64 p_size, i64 n, int limbs,
                                int n_classes, u64* out) {
  for (Team<W> team(n); team.more(); team.next()) {
    if (!team.mine()) continue;
    const i64 v = team.matrix(), l = l_first[v], p = p_first[v], b = p_first[v + 1] - p;
    for (i64 k = team.rank; k < (l_first[v + 1] - l) * b; k += W) {
      const i64 u = l + k / b, s = p + k % b;
      int top = limbs - 1;
      while (top > 0 && L[top * l_size + u] == P[top * p_size + s]) --top;
      const bool first = L[top * l_size + u] < P[top * p_size + s];
      for (i64 limb = 0; limb < limbs; ++limb)
        atomicAdd(&out[(limb * n_classes + l_tags[u]) * n_classes + p_tags[s]],
                  u64(first ? L[limb * l_size + u] : P[limb * p_size + s]));
    }
  }
}

// Integers in fixed point as numbers.
__global__ void cmfast_marginal_histogram_round(const i64* __restrict__ sums, i64 n, int shift, double scale,
                                                double* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS)
    out[k] = ldexp(double(sums[k]), -shift) * scale;
}

// Pairs of entries of two histograms in the same cell, one behind another from offset[k] on: number and smaller height.
__global__ void cmfast_min_overlap_pairs(const i64* __restrict__ a_cells, const i64* __restrict__ a_first,
                                         const i64* __restrict__ a_groups, const double* __restrict__ A,
                                         const i64* __restrict__ b_cells, const i64* __restrict__ b_first,
                                         const i64* __restrict__ b_groups, const double* __restrict__ B,
                                         const i64* __restrict__ offset, i64 n, i64 columns, i64* __restrict__ out_pair,
                                         double* __restrict__ out) {
  for (Team<32> team(n); team.more(); team.next()) {
    if (!team.mine()) continue;
    const i64 l = a_first[a_cells[team.matrix()]], p = b_first[b_cells[team.matrix()]];
    const i64 b = b_first[b_cells[team.matrix()] + 1] - p, pairs = (a_first[a_cells[team.matrix()] + 1] - l) * b;
    for (i64 k = team.rank; k < pairs; k += 32) {
      const i64 u = l + k / b, s = p + k % b, to = offset[team.matrix()] + k;
      out_pair[to] = a_groups[u] * columns + b_groups[s];
      out[to] = fmin(A[u], B[s]);
    }
  }
}
