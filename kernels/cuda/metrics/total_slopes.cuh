// Derivatives of whole-matrix metrics in class sums, as kernels/cpu/metrics/_gradients_totals.py.

// Values of one matrix, strided so that equal values of all matrices are adjacent.
struct Lines {
  double* first;
  i64 step;

  __device__ __forceinline__ double& operator[](i64 line) const { return first[line * step]; }
};

// Class sums of one matrix; `band` and `top` only for ordinal metrics.
struct Sums {
  const double *d, *t, *p, *band, *top;
  i64 C;
  double n;

  __device__ __forceinline__ i64 rest() const { return (band ? 5 : 3) * C; }  // the line of the derivative in the total
};

// Derivatives of a function of the total, the trace and the products of margins.
__device__ __forceinline__ void whole_slopes(const Sums& s, int code, const Lines& G) {
  const double n = s.n, others = double(s.C - 1);
  double hits = 0.0, both = 0.0, truth = 0.0, prediction = 0.0, chance = 0.0;
  for (i64 k = 0; k < s.C; ++k) {
    const double d = s.d[k], t = s.t[k], p = s.p[k];
    hits += d;
    both += d * (n - t - p + d) - (t - d) * (p - d);
    truth += t * (n - t);
    prediction += p * (n - p);
    chance += t * (n - p);
  }
  const double wrong = n - hits;
  // Derivatives in the trace, in n a - e, in the three sums of products, and in the total.
  double of_hits = 0.0, of_both = 0.0, of_truth = 0.0, of_prediction = 0.0, of_chance = 0.0, of_total = 0.0;
  switch (code) {
    case CM_TOTAL_ACCURACY:
      of_hits = 1.0 / n;
      of_total = -(hits / n) / n;
      break;
    case CM_TOTAL_ERROR:
      of_hits = -1.0 / n;
      of_total = (hits / n) / n;
      break;
    case CM_TOTAL_JACCARD_MICRO: {
      const double below = n + wrong, x = hits / below;
      of_hits = (1.0 + x) / below;
      of_total = -2.0 * x / below;
      break;
    }
    case CM_TOTAL_SPECIFICITY_MICRO:
      of_hits = s.C > 1 ? 1.0 / (others * n) : CM_NAN;
      of_total = -(hits / n) * of_hits;
      break;
    case CM_TOTAL_MCC: {
      of_both = 1.0 / sqrt(truth * prediction);
      const double x = both * of_both;
      of_truth = -0.5 * x / truth;
      of_prediction = -0.5 * x / prediction;
      break;
    }
    case CM_TOTAL_KAPPA:
      of_both = 1.0 / chance;
      of_chance = -(both / chance) / chance;
      break;
    case CM_TOTAL_PEIRCE:
      of_both = 1.0 / truth;
      of_truth = -(both / truth) / truth;
      break;
    default: {  // pi, alpha, AC1: one minus 4 n (n - a) over a combination of products
      const double size = 2.0 * n, mixed = truth + prediction + 2.0 * chance;
      double factor = 1.0, more = 0.0, below = mixed, sign = 1.0;
      if (code == CM_TOTAL_GWET_AC1) {
        below = 4.0 * others * (n * n) - mixed;
        sign = -1.0;
        factor = s.C > 1 ? others : CM_NAN;
      } else if (code == CM_TOTAL_KRIPPENDORFF) {  // Krippendorff's correction for small samples
        factor = size > 1.0 ? (size - 1.0) / size : CM_NAN;
        more = 2.0 / (size * size);
      }
      const double y = 4.0 * (n * wrong) * factor / below;
      of_hits = 4.0 * n * factor / below;
      of_truth = of_prediction = sign * y / below;
      of_chance = 2.0 * of_truth;
      of_total = -(4.0 * (n + wrong) * factor + 4.0 * (n * wrong) * more) / below;
      if (code == CM_TOTAL_GWET_AC1) of_total += 8.0 * others * n * y / below;
    }
  }
  for (i64 k = 0; k < s.C; ++k) {
    const double t = s.t[k], p = s.p[k];
    G[k] = of_hits + of_both * n;
    G[s.C + k] = of_truth * (n - 2.0 * t) + of_chance * (n - p) - of_both * p;
    G[2 * s.C + k] = of_prediction * (n - 2.0 * p) - of_chance * t - of_both * t;
  }
  G[s.rest()] = of_total + of_both * hits + (of_truth + of_prediction + of_chance) * n;
}

// Derivatives of the linearly or quadratically weighted kappa.
__device__ __forceinline__ void weighted_kappa_slopes(const Sums& s, bool squared, const Lines& G) {
  const double n = s.n;
  const i64 C = s.C, middle = (C - 1) / 2;
  double apart = 0.0, chance = 0.0, of_total = 0.0, below_t = 0.0, below_p = 0.0;
  double first_t = 0.0, first_p = 0.0, squares = 0.0;
  for (i64 k = 0; k < C; ++k) {
    const double i = double(k - middle), t = s.t[k], p = s.p[k];
    apart += double(squared ? k * k : k) * s.band[k];
    first_t += i * t;
    first_p += i * p;
    squares += i * i * (t + p);
    if (k == C - 1) break;
    below_t += t;
    below_p += p;
    chance += below_t * (n - below_p) + below_p * (n - below_t);
    of_total += below_t + below_p;
  }
  if (squared) {
    chance = chance > 0.0 ? n * squares - 2.0 * first_t * first_p : 0.0;
    of_total = squares;
  }
  const double y = n * apart / chance;  // the kappa is one minus this
  G[s.rest()] = (y * of_total - apart) / chance;
  double of_t = 0.0, of_p = 0.0;
  below_t = below_p = n;
  for (i64 k = C - 1; k >= 0; --k) {
    const double i = double(k - middle);
    if (k < C - 1) {
      below_t -= s.t[k + 1];
      below_p -= s.p[k + 1];
      of_t += n - 2.0 * below_p;
      of_p += n - 2.0 * below_t;
    }
    if (squared) {
      of_t = n * (i * i) - 2.0 * i * first_p;
      of_p = n * (i * i) - 2.0 * i * first_t;
    }
    G[C + k] = of_t * y / chance;
    G[2 * C + k] = of_p * y / chance;
    G[3 * C + k] = -double(squared ? k * k : k) * n / chance;
  }
}

// Derivatives of Gerrity's score; its formula is `gerrity` in values.cu.
__device__ __forceinline__ void gerrity_slopes(const Sums& s, const Lines& G) {
  const double n = s.n;
  const i64 C = s.C;
  const double scale = C > 1 ? 1.0 / (double(C - 1) * n) : CM_NAN;
  double below = 0.0, low = 0.0, high = 0.0, of_total = 0.0, score = 0.0;
  bool known = n > 0.0;
  for (i64 k = 0; k < C; ++k) {  // forward: odds of the cuts below a class
    const double top = s.top[k];
    score += low * ((s.t[k] - top) + s.p[k]) - double(k) * s.band[k];
    G[C + k] = low * scale;
    G[2 * C + k] = low * scale;
    G[3 * C + k] = -double(k) * scale;
    G[4 * C + k] = -low * scale;
    high += top;
    if (k == C - 1) break;
    below += s.t[k];
    const double above = n - below;
    known &= below > 0.0 && above > 0.0;
    low += below / above;
    score += high * (above / below);
    of_total += high / below;
  }
  double after = 0.0, odds = 0.0, cuts = 0.0;
  for (i64 k = C - 1; k >= 0; --k) {  // backward: odds of the cuts from a class on
    const double top = s.top[k];
    if (k < C - 1) {
      const double above = n - below;
      odds += above / below;
      cuts += after * n / (above * above) - high * n / (below * below);
      of_total -= after * below / (above * above);
      below -= s.t[k];
    }
    G[C + k] += cuts * scale;
    G[4 * C + k] += odds * scale;
    after += s.t[k] + s.p[k] - top;
    high -= top;
  }
  const double x = known && C > 1 ? score / (double(C - 1) * n) : CM_NAN;
  G[s.rest()] = of_total * scale - x / n;
}
