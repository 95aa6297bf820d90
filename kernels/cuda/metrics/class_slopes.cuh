// Derivatives of per-class values by forward-mode differentiation, as kernels/cpu/metrics/_gradients_classes.py.

// Dual number: a value and its derivatives in diagonal, row sum, column sum and total of a class.
struct Dual {
  double x, d, t, p, n;
};

__device__ __forceinline__ Dual operator+(const Dual& a, const Dual& b) {
  return {a.x + b.x, a.d + b.d, a.t + b.t, a.p + b.p, a.n + b.n};
}
__device__ __forceinline__ Dual operator-(const Dual& a, const Dual& b) {
  return {a.x - b.x, a.d - b.d, a.t - b.t, a.p - b.p, a.n - b.n};
}
__device__ __forceinline__ Dual operator*(const Dual& a, double b) {
  return {a.x * b, a.d * b, a.t * b, a.p * b, a.n * b};
}
__device__ __forceinline__ Dual operator*(double a, const Dual& b) { return b * a; }
__device__ __forceinline__ Dual operator-(double a, const Dual& b) { return {a - b.x, -b.d, -b.t, -b.p, -b.n}; }
__device__ __forceinline__ Dual operator*(const Dual& a, const Dual& b) {
  return {a.x * b.x, a.d * b.x + a.x * b.d, a.t * b.x + a.x * b.t, a.p * b.x + a.x * b.p, a.n * b.x + a.x * b.n};
}
__device__ __forceinline__ Dual operator/(const Dual& a, const Dual& b) {
  const double q = a.x / b.x, one = 1.0 / b.x;
  return {q, (a.d - q * b.d) * one, (a.t - q * b.t) * one, (a.p - q * b.p) * one, (a.n - q * b.n) * one};
}
__device__ __forceinline__ Dual sqrt(const Dual& a) {
  const double x = ::sqrt(a.x), half = 0.5 / x;
  return {x, half * a.d, half * a.t, half * a.p, half * a.n};
}

__device__ __forceinline__ Dual cap_at_one(const Dual& a) { return a; }
__device__ __forceinline__ Dual clamp_to_one(const Dual& a) { return a; }

// One degenerate margin: the limit is 0 from every direction, without a derivative. Two: no limit exists.
__device__ __forceinline__ Dual apply_degenerate_limits(const Dual& truth, const Dual& prediction, Dual a) {
  const bool no_truth = truth.x == 0.0, no_prediction = prediction.x == 0.0;
  if (no_truth || no_prediction) a.x = no_truth && no_prediction ? CM_NAN : 0.0;
  return a;
}

// A 2x2 table of dual numbers: one class against the rest, or the sum of such tables.
struct DualTable {
  using Real = Dual;
  Dual d, t, p, n, missed, wrong, not_true, not_predicted, rejected;

  __device__ __forceinline__ DualTable(double diagonal, double row, double column, double total)
      : d{diagonal, 1.0, 0.0, 0.0, 0.0}, t{row, 0.0, 1.0, 0.0, 0.0}, p{column, 0.0, 0.0, 1.0, 0.0} {
    const Dual all{total, 0.0, 0.0, 0.0, 1.0};
    missed = t - d;
    wrong = p - d;
    not_true = all - t;
    not_predicted = all - p;
    n = t + not_true;
    rejected = not_true - wrong;
    if (rejected.x < 0.0) rejected.x = 0.0;  // rounding of fractions can go below 0
  }
  __device__ __forceinline__ Dual hit() const { return d / t; }
  __device__ __forceinline__ Dual reject() const { return rejected / not_true; }
  __device__ __forceinline__ Dual covariance() const { return d * rejected - missed * wrong; }
  __device__ __forceinline__ Dual truth() const { return t * not_true; }
  __device__ __forceinline__ Dual prediction() const { return p * not_predicted; }
};
