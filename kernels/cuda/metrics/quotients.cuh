// Quotients of sums of a confusion matrix, and what formulas of metrics (kernels/shared/metric_formulas.py) call.

__device__ __forceinline__ double as_double(double x) { return x; }
__device__ __forceinline__ double as_double(int x) { return x; }
__device__ __forceinline__ double as_double(i64 x) { return double(x); }
__device__ __forceinline__ double as_double(__int128 x) {  // rounded once
  const bool negative = x < 0;
  unsigned __int128 size = negative ? -static_cast<unsigned __int128>(x) : static_cast<unsigned __int128>(x);
  const u64 high = u64(size >> 64);
  double value = double(u64(size));
  if (high) {
    const int shift = __clzll(i64(high));
    size <<= shift;
    // Sticky bit, so that the conversion rounds once.
    value = ldexp(double(u64(size >> 64) | (u64(size) != 0)), 64 - shift);
  }
  return negative ? -value : value;
}

// Whether S is a type of counts.
template <typename S>
constexpr bool EXACT = S(0.5) == S(0);

// Quotient of numbers of moderate size, rounded once: a reciprocal and the exact remainder of its product suffice
// (Markstein 1990), without the call of the operator for zeros, denormal and infinite numbers.
__device__ __forceinline__ double divide_moderate(double a, double b) {
  // The lowest bit, as in CUDA's own division: else one over a number whose 53 bits are all set is rounded down.
  double inverse = __longlong_as_double(__double_as_longlong(reciprocal_seed(b)) | 1);
  const double rest = fma(-b, inverse, 1.0);
  inverse = fma(inverse, fma(rest, rest, rest), inverse);
  inverse = fma(inverse, fma(-b, inverse, 1.0), inverse);
  const double quotient = a * inverse;
  return fma(fma(-b, quotient, a), inverse, quotient);
}

// Quotient of any two numbers, with the bits of the operator and without its call.
__device__ __forceinline__ double divide_any(double a, double b) {
  const double size = fabs(a), by = fabs(b);
  const bool moderate = size > 0x1p-400 && size < 0x1p400 && by > 0x1p-400 && by < 0x1p400;
  double dividend = a, divisor = b;
  int exponent = 0;
  if (!moderate) {
    if (!(size > 0.0 && size < CM_INF && by > 0.0 && by < CM_INF))
      return a * (by > 0.0 && by < CM_INF ? b : reciprocal_seed(b));
    const Parts whole(a), part(b);
    dividend = double(i64(whole.size));
    divisor = double(i64(part.size));
    exponent = whole.exponent - part.exponent;
  }
  const double quotient = divide_moderate(dividend, divisor);
  if (moderate) return quotient;
  double found = ldexp(quotient, exponent);
  if (found <= 0x1p-1022) {  // rounded a second time; the remainder is exact and says whether it lies on the other side
    double units = rint(ldexp(quotient, exponent + 1074));
    const double rest = fma(-divisor, units, ldexp(dividend, exponent + 1074));
    if (2.0 * fabs(rest) > divisor) units += rest > 0.0 ? 1.0 : -1.0;
    found = units * 0x1p-1074;
  }
  return (a < 0.0) != (b < 0.0) ? -found : found;
}

// Quotient of sums and products of sums, rounded once. Those of counts are zero or of moderate size; b is finite and
// not -0.
template <typename S>
__device__ __forceinline__ double divide(double a, double b) {
  if constexpr (!EXACT<S>) return divide_any(a, b);
  const double quotient = divide_moderate(a, b);
  return b != 0.0 ? quotient : a * CM_INF;
}

// Quotient of two such quotients, which may be infinite or NaN.
template <typename S>
__device__ __forceinline__ double divide_quotients(double a, double b) {
  const double quotient = divide<S>(a, b);
  if constexpr (!EXACT<S>) return quotient;
  return a < CM_INF && b < CM_INF ? quotient : a < CM_INF && b == b ? 0.0 : b < CM_INF ? a : CM_NAN;
}

// Such a quotient; that of two may be infinite or NaN.
template <typename S>
struct Quotient {
  double x;

  __device__ __forceinline__ operator double() const { return x; }
  friend __device__ __forceinline__ double operator/(Quotient a, Quotient b) { return divide_quotients<S>(a.x, b.x); }
};

// Weighted entries of a 2x2 table; a weight, and with it their sum, may be of any size.
struct Weighted {
  double x;

  friend __device__ __forceinline__ Weighted operator+(Weighted a, double b) { return {a.x + b}; }
  friend __device__ __forceinline__ double operator/(Weighted a, Weighted b) { return divide_any(a.x, b.x); }
};

// Entry of a 2x2 table, or a sum or product of such: a quotient of two is rounded once. With other numbers it is a
// plain number.
template <typename S>
struct Entry {
  double x;

  __device__ __forceinline__ operator double() const { return x; }
  friend __device__ __forceinline__ Entry operator+(Entry a, Entry b) { return {a.x + b.x}; }
  friend __device__ __forceinline__ Entry operator*(Entry a, Entry b) { return {a.x * b.x}; }
  friend __device__ __forceinline__ Quotient<S> operator/(Entry a, Entry b) { return {divide<S>(a.x, b.x)}; }
  friend __device__ __forceinline__ Entry sqrt(Entry a) { return {::sqrt(a.x)}; }
  friend __device__ __forceinline__ Weighted operator*(double weight, Entry a) { return {weight * a.x}; }
};

__device__ __forceinline__ double cap_at_one(double x) {
  return x > 1.0 ? 1.0 : x;
}  // clamps rounding errors; NaN stays

__device__ __forceinline__ double clamp_to_one(double x) { return x < -1.0 ? -1.0 : cap_at_one(x); }

// A correlation x with its limits: 0 if one margin is degenerate, NaN if both are.
__device__ __forceinline__ double apply_degenerate_limits(double truth, double prediction, double x) {
  if (truth == 0.0 && prediction == 0.0) return CM_NAN;
  return truth == 0.0 || prediction == 0.0 ? 0.0 : x;
}
