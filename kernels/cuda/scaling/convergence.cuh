// Convergence rules and number formats that all sources of matrix scaling share. The constants come from
// kernels/shared/scaling.py.

// Return CM_CONVERGED if the totals of row and column targets agree, else the status of the failure.
__device__ __forceinline__ int compare_totals(double U, double V) {
  if (!(fmax(U, V) < CM_INF)) return CM_RANGE;
  return fabs(U - V) <= CM_TOTALS_RTOL * fmax(U, V) ? CM_CONVERGED : CM_TOTALS;
}

struct Goals {
  double target, still, bound;

  // Test convergence: residual and every column within the target after a small or stalled step, or rounding alone is
  // left.
  __device__ __forceinline__ bool met(double residual, bool fits, bool small, bool stalled) const {
    return (residual <= target && fits && (small || stalled)) || (residual <= still && stalled);
  }
  // Largest relative error of a row or column at the end, where only rounding is left.
  __device__ __forceinline__ static double line_bound(double bound) {
    return bound >= CM_LINE_NOISE ? bound : 2.0 * bound;
  }
  // Whether the error of a row or column is within the target, relative to its own target.
  __device__ __forceinline__ bool fits(double gap, double own) const { return fabs(gap) <= target * own; }
};

__device__ __forceinline__ double get_exponent(double x) {  // binary exponent of a positive number, as by frexp
  const bool tiny = x < CM_NORMAL;
  const i64 bits = __double_as_longlong(tiny ? x * 0x1p54 : x);
  return double(int(bits >> 52 & 0x7ff) - 1022 - (tiny ? 54 : 0));
}
__device__ __forceinline__ double multiply_by_power(double x, double power) { return ldexp(x, int(power)); }
__device__ __forceinline__ bool is_usable(double factor) { return factor > 0.0 && factor < CM_INF; }

// Append a matrix to the queue of another kernel, in any order: its result depends on itself alone.
__device__ __forceinline__ void enqueue(i64 b, i64* queue, u64* length) { queue[atomicAdd(length, u64(1))] = b; }

// Make the compiler compute again what depends on a value, instead of keeping it in registers over the steps before.
__device__ __forceinline__ void forget(i64& value) { asm volatile("" : "+l"(value)); }
__device__ __forceinline__ void forget(double& value) {
  i64 bits = __double_as_longlong(value);
  forget(bits);
  value = __longlong_as_double(bits);
}
__device__ __forceinline__ void forget(double*& pointer) {
  i64 address = reinterpret_cast<i64>(pointer);
  forget(address);
  pointer = reinterpret_cast<double*>(address);
}
