// Put in front of every source, never included: CuPy's cache knows a kernel by its text.
//
// The text before this defines the status codes (CM_INVALID, ...) and CM_THREADS, the threads of a block.
typedef long long i64;
typedef unsigned long long u64;

#ifndef CM_HOST
#define CM_DYN_SMEM(T, name)                                    \
  extern __shared__ __align__(16) unsigned char cm_dyn_smem[]; \
  T* name = reinterpret_cast<T*>(cm_dyn_smem)
#endif

#define CM_ALL_LANES 0xffffffffu
#define CM_NAN __longlong_as_double(0x7ff8000000000000LL)
#define CM_INF __longlong_as_double(0x7ff0000000000000LL)

// CuPy compiles with -ftz=true, whatever it is asked for: a conversion from or to float makes zeros of denormals. These
// two do not.
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
  const unsigned size = unsigned(rint(fabs(x) * 0x1p149));  // one that rounds up to 2^23 is the first normal number
  return __uint_as_float(size | unsigned(u64(__double_as_longlong(x)) >> 32 & 0x80000000u));
}

// A team of W threads shares a matrix: part of a warp, a warp, or the whole block. Every thread of a block goes through
// every round of the loop over the batch, so that shuffles and barriers meet; a team without a matrix of its own works on
// the last one and writes nothing.
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

// The same value, bit for bit, in every thread of the team.
template <int W, typename T, typename Join>
__device__ __forceinline__ T team_reduce(T value, Join join) {
#pragma unroll
  for (int bits = (W < 32 ? W : 32) / 2; bits > 0; bits >>= 1)
    value = join(value, __shfl_xor_sync(CM_ALL_LANES, value, bits));
  if constexpr (W > 32) {
    CM_DYN_SMEM(T, part);
    __syncthreads();  // nobody still reads what the last reduction left here
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
#pragma unroll
    for (int warp = 1; warp < W / 32; ++warp) value = join(value, part[warp]);
  }
  return value;
}

template <int W, typename T>
__device__ __forceinline__ T team_sum(T value) {
  return team_reduce<W>(value, [](T a, T b) { return a + b; });
}

template <int W>
__device__ __forceinline__ bool team_any(bool value) {
  return team_reduce<W>(int(value), [](int a, int b) { return a | b; });
}

// Whether any team of the warp says yes: what its lanes must agree on before they shuffle.
__device__ __forceinline__ bool warp_any(bool value) { return __any_sync(CM_ALL_LANES, value); }
