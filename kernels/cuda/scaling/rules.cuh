// What every source of scaling shares: when to stop, and numbers as fractions and powers of two. The limits at which
// rules change come from kernels/shared/scaling.py.

// What is wrong with the totals of row and column targets.
__device__ __forceinline__ int compare_totals(double U, double V) {
  if (!(fmax(U, V) < CM_INF)) return CM_RANGE;
  return fabs(U - V) <= CM_TOTALS_RTOL * fmax(U, V) ? CM_CONVERGED : CM_TOTALS;
}

struct Goals {
  double target, still, bound;

  // Whether a residual is small enough on the way, and every column `fits`: after a step that was small, or no smaller
  // than the one before.
  __device__ __forceinline__ bool met(double residual, bool fits, bool small, bool stalled) const {
    return (residual <= target && fits && (small || stalled)) || (residual <= still && stalled);
  }
  // What the worst line may miss in the end, where only rounding is left.
  __device__ __forceinline__ static double line_bound(double bound) {
    return bound >= CM_LINE_NOISE ? bound : 2.0 * bound;
  }
  // Whether a line misses so little of its own target, however small that is.
  __device__ __forceinline__ bool fits(double gap, double own) const { return fabs(gap) <= target * own; }
};

__device__ __forceinline__ double exponent_of(double x) {  // of a positive number, as frexp gives it
  const bool tiny = x < CM_NORMAL;
  const i64 bits = __double_as_longlong(tiny ? x * 0x1p54 : x);
  return double(int(bits >> 52 & 0x7ff) - 1022 - (tiny ? 54 : 0));
}
__device__ __forceinline__ double times_power(double x, double power) { return ldexp(x, int(power)); }
__device__ __forceinline__ bool usable(double factor) { return factor > 0.0 && factor < CM_INF; }

// Write down a matrix that another kernel is to take, in any order: what comes of it depends on itself alone.
__device__ __forceinline__ void leave(i64 b, i64* queue, u64* length) { queue[atomicAdd(length, u64(1))] = b; }
