// What every source of scaling shares: the limits at which its rules change, and numbers as fractions and powers of
// two.

constexpr double WIDE = 1e100;  // entries outside [1 / WIDE, WIDE] are brought nearer by powers of two
constexpr double SPAN = 1e18;   // ratio of cells from which rows and columns are paired in logarithms
constexpr double VAST = 1e30;   // ratio from which that is so even under a dominant diagonal
constexpr double TOTALS_RTOL = 1e-9;
constexpr double SAFE_WIDTH = 1.79;   // a full step no wider than this decreases the dual for certain
constexpr double NORMAL = 0x1p-1022;  // smaller numbers have lost digits, and their reciprocals may overflow

// When to stop; see kernels/shared/scaling.py.
struct Goals {
  double target, still, bound;

  // Whether a residual is small enough on the way: after a step that was small, or no smaller than the one before.
  __device__ __forceinline__ bool met(double residual, bool small, bool stalled) const {
    return (residual <= target && (small || stalled)) || (residual <= still && stalled);
  }
};

__device__ __forceinline__ double exponent_of(double x) {  // of a positive number, as frexp gives it
  const bool tiny = x < NORMAL;
  const i64 bits = __double_as_longlong(tiny ? x * 0x1p54 : x);
  return double(int(bits >> 52 & 0x7ff) - 1022 - (tiny ? 54 : 0));
}
__device__ __forceinline__ double times_power(double x, double power) { return ldexp(x, int(power)); }
__device__ __forceinline__ bool usable(double factor) { return factor > 0.0 && factor < CM_INF; }
