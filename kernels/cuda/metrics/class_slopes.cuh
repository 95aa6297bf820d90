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
__device__ __forceinline__ Dual operator*(const Dual& a, const Dual& b) {
  return {a.x * b.x, a.d * b.x + a.x * b.d, a.t * b.x + a.x * b.t, a.p * b.x + a.x * b.p, a.n * b.x + a.x * b.n};
}
__device__ __forceinline__ Dual operator/(const Dual& a, const Dual& b) {
  const double q = a.x / b.x, one = 1.0 / b.x;
  return {q, (a.d - q * b.d) * one, (a.t - q * b.t) * one, (a.p - q * b.p) * one, (a.n - q * b.n) * one};
}
__device__ __forceinline__ Dual root(const Dual& a) {
  const double x = sqrt(a.x), half = 0.5 / x;
  return {x, half * a.d, half * a.t, half * a.p, half * a.n};
}

// A 2x2 table of dual numbers: one class against the rest, or the sum of such tables.
struct DualTable {
  Dual d, t, p, missed, wrong, not_true, not_predicted, rejected;

  __device__ __forceinline__ DualTable(double diagonal, double row, double column, double total)
      : d{diagonal, 1.0, 0.0, 0.0, 0.0}, t{row, 0.0, 1.0, 0.0, 0.0}, p{column, 0.0, 0.0, 1.0, 0.0} {
    const Dual n{total, 0.0, 0.0, 0.0, 1.0};
    missed = t - d;
    wrong = p - d;
    not_true = n - t;
    not_predicted = n - p;
    rejected = not_true - wrong;
    if (rejected.x < 0.0) rejected.x = 0.0;  // rounding of fractions can go below 0
  }
};

// A ratio of one 2x2 table with its derivatives; `square` is beta squared.
__device__ __forceinline__ Dual differentiate_ratio(const DualTable& m, int code, double square) {
  Dual above = m.d, below = m.t;  // the recall
  switch (code) {
    case CM_VALUE_PRECISION: below = m.p; break;
    case CM_VALUE_FBETA:
      above = m.d * (1.0 + square);
      below = m.t * square + m.p;
      break;
    case CM_VALUE_JACCARD: below = m.t + m.wrong; break;
    case CM_VALUE_SPECIFICITY:
      above = m.rejected;
      below = m.not_true;
      break;
    case CM_VALUE_NPV:
      above = m.rejected;
      below = m.not_predicted;
      break;
    case CM_VALUE_FALSE_POSITIVE:
      above = m.wrong;
      below = m.not_true;
      break;
    case CM_VALUE_FALSE_NEGATIVE: above = m.missed; break;
    case CM_VALUE_FALSE_DISCOVERY:
      above = m.wrong;
      below = m.p;
      break;
    case CM_VALUE_FALSE_OMISSION:
      above = m.missed;
      below = m.not_predicted;
      break;
    case CM_VALUE_POSITIVE_LIKELIHOOD:
      above = m.d / m.t;
      below = m.wrong / m.not_true;
      break;
    case CM_VALUE_NEGATIVE_LIKELIHOOD:
      above = m.missed / m.t;
      below = m.rejected / m.not_true;
      break;
    case CM_VALUE_ODDS:
      above = (m.d / m.missed) * (m.rejected / m.wrong);
      below = m.t / m.t;
      break;
    case CM_VALUE_FOWLKES_MALLOWS: below = root(m.t * m.p); break;
    case CM_VALUE_ACCURACY:
      above = m.d + m.rejected;
      below = m.t + m.not_true;
      break;
    default: break;
  }
  return above / below;
}

// Balanced accuracy, geometric mean or tau of a class's recall and specificity, with derivatives.
__device__ __forceinline__ Dual differentiate_rate_mean(const DualTable& m, int code) {
  if (code == CM_VALUE_TAU) {
    const Dual lost = m.missed / m.t, wrong = m.wrong / m.not_true;
    const Dual away = root((lost * lost + wrong * wrong) * 0.5);
    return {1.0 - away.x, -away.d, -away.t, -away.p, -away.n};
  }
  const Dual hit = m.d / m.t, reject = m.rejected / m.not_true;
  return code == CM_VALUE_BALANCED_ACCURACY ? (hit + reject) * 0.5 : root(hit * reject);
}

__device__ __forceinline__ Dual differentiate_corrected_value(const DualTable& m, int code) {
  const Dual covariance = m.d * m.rejected - m.missed * m.wrong;
  Dual above = covariance, below = m.t * m.not_true;
  switch (code) {
    case CM_VALUE_TSS: break;
    case CM_VALUE_HEIDKE:
      above = covariance * 2.0;
      below = m.t * m.not_predicted + m.p * m.not_true;
      break;
    case CM_VALUE_MARKEDNESS: below = m.p * m.not_predicted; break;
    case CM_VALUE_GILBERT:
      below = m.d * m.rejected + m.wrong * (m.d + m.not_true) + (m.t + m.not_true) * m.missed;
      break;
    default:
      below = below * (m.p * m.not_predicted);
      if (code == CM_VALUE_DOOLITTLE)
        above = covariance * covariance;
      else
        below = root(below);
  }
  Dual out = above / below;
  if (code == CM_VALUE_DOOLITTLE || code == CM_VALUE_MCC) {
    // One degenerate margin: the limit is 0 from every direction, without a derivative. Two: no limit exists.
    const bool truth = m.t.x * m.not_true.x == 0.0, prediction = m.p.x * m.not_predicted.x == 0.0;
    if (truth || prediction) out.x = truth && prediction ? CM_NAN : 0.0;
  }
  return out;
}

// A per-class value and its derivatives, NaN for 0/0 or a correlation of one class alone.
__device__ __forceinline__ Dual differentiate_class_value(int code, double square, double d, double t, double p,
                                                          double n) {
  const DualTable table(d, t, p, n);
  if (code >= CM_VALUE_TSS) return differentiate_corrected_value(table, code);
  if (code >= CM_VALUE_BALANCED_ACCURACY && code <= CM_VALUE_TAU) return differentiate_rate_mean(table, code);
  return differentiate_ratio(table, code, square);
}
