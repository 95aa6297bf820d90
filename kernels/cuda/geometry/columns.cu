// Ranges and moments of the columns of a table of points, over the rows that are finite throughout.

// Order-preserving integer keys of float64.
__device__ __forceinline__ i64 ordered(double x) {
  const i64 bits = __double_as_longlong(x);
  return bits ^ (bits >> 63 & CM_DROPPED);
}

template <typename T>
__global__ void cmfast_column_ranges_blocks(const T* __restrict__ X, i64 n, int m, i64* out_low, i64* out_high,
                                            u64* out_kept) {
  reduce_columns(
      X, n, m, out_low + i64(blockIdx.x) * m, out_high + i64(blockIdx.x) * m, out_kept + blockIdx.x,
      [](T x, int) { return fabs(widen(x)) < CM_INF; }, [](T x, int) { return ordered(widen(x)); });
}

// Sums of u and of u*u, u the integer position of a value in its column, one row per block.
template <typename T>
__global__ void cmfast_column_moments_blocks(const T* __restrict__ X, i64 n, int m, const double* __restrict__ low,
                                             const double* __restrict__ scale, u64* out_first, u64* out_second) {
  out_first += i64(blockIdx.x) * m;
  out_second += i64(blockIdx.x) * m;
  for (int d = threadIdx.x; d < m; d += CM_THREADS) out_first[d] = out_second[d] = 0;
  __syncthreads();
  visit_good_rows(
      X, n, m, [](T x, int) { return fabs(widen(x)) < CM_INF; },
      [=](const T* x, int rows, int share, int shares, int d, const unsigned char* kept) {
        u64 first = 0, second = 0;
        for (int r = share; r < rows; r += shares)
          if (kept[r]) {
            const u64 u = u64(rint((widen(x[i64(r) * m]) - low[d]) * scale[d]));
            first += u;
            second += u * u;
          }
        if (first) {
          atomicAdd(&out_first[d], first);
          atomicAdd(&out_second[d], second);
        }
      });
}
