// Fast arithmetic and bit operations of the kernels for small matrices (a thread or some lanes each).

constexpr int START_PASSES = 3;     // passes before Newton's method
constexpr int PATIENT_PASSES = 16;  // passes after which a matrix is left to another kernel

__device__ __forceinline__ unsigned line_bit(int k) { return 1u << k; }

// Position of the n-th set bit.
__device__ __forceinline__ int find_nth_bit(unsigned set, int n) {
  for (; n > 0; --n) set &= set - 1;
  return __ffs(int(set)) - 1;
}

// Reciprocal to one or two ulps, without the branches of a division, for steps that are measured afterwards. NaN for
// zero and infinity.
__device__ __forceinline__ double reciprocal(double x) {
  double y = reciprocal_seed(x);
#pragma unroll
  for (int step = 0; step < 2; ++step) y += y * (1.0 - x * y);
  return y;
}
__device__ __forceinline__ double fast_sqrt(double x) {
  const double seed = inverse_root_seed(x);
  double root = x * seed, half = 0.5 * seed;
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    const double rest = 0.5 - root * half;
    root += root * rest;
    half += half * rest;
  }
  return root;
}
