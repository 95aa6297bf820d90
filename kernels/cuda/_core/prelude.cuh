// Common device code, inserted before every source instead of included: CuPy caches kernels by their text.
//
// The text before this defines the status codes (CM_INVALID, ...), the constants of kernels/shared/scaling.py,
// CM_THREADS, the threads of a block, and CM_TABLE_ROWS, the table rows that a block processes together.

typedef long long i64;
typedef unsigned long long u64;

#ifndef CM_HOST
#define CM_DYN_SMEM(T, name)                                   \
  extern __shared__ __align__(16) unsigned char cm_dyn_smem[]; \
  T* name = reinterpret_cast<T*>(cm_dyn_smem)
#endif

#define CM_ALL_LANES 0xffffffffu
#define CM_NAN __longlong_as_double(0x7ff8000000000000LL)
#define CM_INF __longlong_as_double(0x7ff0000000000000LL)

// CuPy always compiles with -ftz=true, so that conversions from or to float flush denormals to zero. These two do not.
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ double widen(int x) { return x; }
__device__ __forceinline__ double widen(i64 x) { return x; }
__device__ __forceinline__ double widen(float x) {
  const unsigned bits = __float_as_uint(x);
  if (bits & 0x7f800000u) return x;
  const double size = (bits & 0x007fffffu) * 0x1p-149;
  return bits >> 31 ? -size : size;
}

template <typename T>
__device__ __forceinline__ T narrow(double x) {
  return x;
}
template <>
__device__ __forceinline__ float narrow<float>(double x) {
  if (!(fabs(x) < 0x1p-126)) return x;
  const unsigned size = unsigned(rint(fabs(x) * 0x1p149));  // rounding up to 2^23 gives the smallest normal number
  return __uint_as_float(size | unsigned(u64(__double_as_longlong(x)) >> 32 & 0x80000000u));
}

// Hardware approximations of 1 / x and 1 / sqrt(x), to 20 bits.
#ifndef CM_HOST
__device__ __forceinline__ double reciprocal_seed(double x) {
  double seed;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(seed) : "d"(x));
  return seed;
}
__device__ __forceinline__ double inverse_root_seed(double x) {
  double seed;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(seed) : "d"(x));
  return seed;
}
#endif

// A finite double is sign * size * 2^exponent, size an integer of at most 53 bits.
struct Parts {
  u64 size;
  int exponent;
  bool negative, finite;

  __device__ __forceinline__ explicit Parts(double x) {
    const u64 bits = u64(__double_as_longlong(x));
    const int biased = int(bits >> 52 & 0x7ffu);
    size = (bits & 0xfffffffffffffull) | (biased ? 1ull << 52 : 0);
    exponent = (biased ? biased : 1) - 1075;
    negative = bits >> 63;
    finite = biased != 0x7ff;
  }
};

// A team of W threads shares a matrix: part of a warp, a warp, or the whole block. Every thread of a block runs every
// round of the loop over the batch, so that all reach shuffles and barriers; a team beyond the batch works on the last
// matrix and writes nothing.
template <int W>
struct Team {
  int rank;  // within the team
  i64 n, first;

  __device__ __forceinline__ explicit Team(i64 n)
      : rank(threadIdx.x % W), n(n), first(i64(blockIdx.x) * (CM_THREADS / W)) {}
  __device__ __forceinline__ bool more() const { return first < n; }
  __device__ __forceinline__ void next() { first += i64(gridDim.x) * (CM_THREADS / W); }
  __device__ __forceinline__ bool mine() const { return first + threadIdx.x / W < n; }
  __device__ __forceinline__ i64 matrix() const { return mine() ? first + threadIdx.x / W : n - 1; }
};

// Inlining of block reductions: a source with a hundred of them defines this so that one copy is compiled.
#ifndef CM_BLOCK_REDUCE
#define CM_BLOCK_REDUCE __forceinline__
#endif

template <int W, typename T, typename Join>
__device__ __forceinline__ T warp_reduce(T value, Join join) {
#pragma unroll
  for (int bits = (W < 32 ? W : 32) / 2; bits > 0; bits >>= 1)
    value = join(value, __shfl_xor_sync(CM_ALL_LANES, value, bits));
  return value;
}
template <int W, typename T, typename Join>
__device__ CM_BLOCK_REDUCE T block_reduce(T value, Join join) {
  CM_DYN_SMEM(T, part);
  value = warp_reduce<W>(value, join);
  __syncthreads();  // all threads have read the previous reduction
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = part[0];
#pragma unroll
  for (int warp = 1; warp < W / 32; ++warp) value = join(value, part[warp]);
  return value;
}

// Reduction over a team; all its threads get the same value, bit for bit.
template <int W, typename T, typename Join>
__device__ __forceinline__ T team_reduce(T value, Join join) {
  if constexpr (W > 32) return block_reduce<W>(value, join);
  return warp_reduce<W>(value, join);
}

template <int W, typename T>
__device__ __forceinline__ T team_sum(T value) {
  return team_reduce<W>(value, [](T a, T b) { return a + b; });
}

template <int W>
__device__ __forceinline__ bool team_any(bool value) {
  return team_reduce<W>(int(value), [](int a, int b) { return a | b; });
}

// Whether the value is true in any lane of the warp: lanes must agree on it before they shuffle.
__device__ __forceinline__ bool warp_any(bool value) { return __any_sync(CM_ALL_LANES, value); }

#define CM_DROPPED 0x7fffffffffffffffLL  // sorts after every key

// Calls `column` for the rows of X (n, m) whose values are all good, tile by tile; returns the number of these rows
// that this thread has seen. `column` is called for every column of a tile with a share of its rows, so that
// neighbouring threads read neighbouring values.
template <typename T, typename Good, typename Column>
__device__ __forceinline__ u64 visit_good_rows(const T* X, i64 n, int m, Good good, Column column) {
  CM_DYN_SMEM(unsigned char, kept);
  u64 number = 0;
  const int shares = max(1, CM_THREADS / max(m, 1));
  for (i64 first = i64(blockIdx.x) * CM_TABLE_ROWS; first < n; first += i64(gridDim.x) * CM_TABLE_ROWS) {
    const int rows = int(n - first < CM_TABLE_ROWS ? n - first : CM_TABLE_ROWS);
    __syncthreads();  // all threads have read the flags of the previous tile
    for (int r = threadIdx.x; r < rows; r += CM_THREADS) {
      const T* x = X + (first + r) * m;
      bool all = true;
      for (int d = 0; d < m && all; ++d) all = good(x[d], d);
      kept[r] = all;
      number += all;
    }
    __syncthreads();
    for (int job = threadIdx.x; job < shares * m; job += CM_THREADS)
      column(X + first * m + job % m, rows, job / m, shares, job % m, kept);
  }
  return number;
}

// Minimum and maximum of `value` of every column over the good rows, and the number of these rows.
template <typename T, typename Good, typename Value>
__device__ __forceinline__ void reduce_columns(const T* X, i64 n, int m, i64* out_low, i64* out_high, u64* out_kept,
                                               Good good, Value value) {
  for (int d = threadIdx.x; d < m; d += CM_THREADS) {
    out_low[d] = CM_DROPPED;
    out_high[d] = ~CM_DROPPED;
  }
  if (threadIdx.x == 0) *out_kept = 0;
  __syncthreads();
  const auto column = [=](const T* x, int rows, int share, int shares, int d, const unsigned char* kept) {
    i64 low = CM_DROPPED, high = ~CM_DROPPED;
    for (int r = share; r < rows; r += shares)
      if (kept[r]) {
        const i64 v = value(x[i64(r) * m], d);
        low = min(low, v);
        high = max(high, v);
      }
    if (low <= high) {
      atomicMin(&out_low[d], low);
      atomicMax(&out_high[d], high);
    }
  };
  const u64 number = visit_good_rows(X, n, m, good, column);
  if (number) atomicAdd(out_kept, number);
}
