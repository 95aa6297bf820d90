// Derivatives of metrics in class sums, exact by the chain rule, as kernels/cpu/metrics/_gradients.py.
//
// The derivative in a cell is the sum of those in its row sum, its column sum, on the diagonal the diagonal, for
// ordinal metrics band and top, and the total. So a metric has 3 C + 1 or 5 C + 1 lines: diagonal, row, column, band
// and top of each class, then the total. If the metric is undefined or not differentiable, the last line is NaN; a
// class whose value is filled in enters an average as a constant.

// A per-class value and its derivatives, NaN for 0/0 or a correlation of one class alone.
__device__ __forceinline__ Dual differentiate_class_value(int code, double square, double d, double t, double p,
                                                          double n) {
  const DualTable table(d, t, p, n);
  return code >= CM_VALUE_TSS ? correct_for_chance(code, table) : slope_rate(code, square, table);
}

constexpr int CARRIED = 5;  // values per class: the value and its derivatives

struct Differentiated {
  const Sums& s;
  const double *weights, *members;
  int mode;
  Lines values;  // of every class, then of the micro average
  int code;
  double square, fill;

  __device__ __forceinline__ double value(i64 k, int part = 0) const { return values[k * CARRIED + part]; }
  __device__ __forceinline__ bool is_member(i64 k) const { return !members || members[k] > 0.0; }
  // 1 if a class with value x enters averages, else 0.
  __device__ __forceinline__ double enters(i64 k, double x) const {
    bool inside = true;
    if (mode == CM_MODE_PRESENT) inside = s.t[k] > 0.0 || s.p[k] > 0.0;
    if (mode == CM_MODE_DEFINED) inside = x == x;
    return inside && is_member(k) ? 1.0 : 0.0;
  }
  // Compute the values of every class and, if `pooled`, of the summed tables.
  __device__ __forceinline__ void make(bool pooled) const {
    for (i64 k = 0; k < s.C + pooled; ++k) {
      double d = 0.0, t = 0.0, p = 0.0, n = 0.0;
      const bool one = k < s.C;
      for (i64 c = one ? k : 0; c < (one ? k + 1 : s.C); ++c) {
        if (!one && !is_member(c)) continue;
        d += s.d[c];
        t += s.t[c];
        p += s.p[c];
        n += s.n;
      }
      const Dual x = differentiate_class_value(code, square, d, t, p, n);
      values[k * CARRIED] = x.x;
      values[k * CARRIED + 1] = x.d;
      values[k * CARRIED + 2] = x.t;
      values[k * CARRIED + 3] = x.p;
      values[k * CARRIED + 4] = x.n;
    }
  }
  // Write the derivatives of the micro average; return its value.
  __device__ __forceinline__ double pool(const Lines& G) const {
    double number = 0.0;
    for (i64 k = 0; k < s.C; ++k) {
      if (!is_member(k)) continue;
      number += 1.0;
      for (int part = 0; part < 3; ++part) G[part * s.C + k] = value(s.C, 1 + part);
    }
    G[s.rest()] = number * value(s.C, 4);
    return value(s.C);
  }
  __device__ __forceinline__ double reduce(int how, i64 pick, const Lines& G) const;
};

// Write the derivatives of a reduction over the classes; return its value.
__device__ __forceinline__ double Differentiated::reduce(int how, i64 pick, const Lines& G) const {
  if (how == CM_OVER_PICK) {
    for (int part = 0; part < 3; ++part) G[part * s.C + pick] = value(pick, 1 + part);
    G[s.rest()] = value(pick, 4);
    return value(pick);
  }
  double number = 0.0, total = 0.0, weight = 0.0, weighted = 0.0, squares = 0.0, least = CM_INF, ties = 0.0;
  LongProduct product;
  for (i64 k = 0; k < s.C; ++k) {
    double x = value(k);
    const double member = enters(k, x);
    if (!(member > 0.0)) continue;
    x = x == x ? x : fill;
    number += 1.0;
    total += x;
    weight += s.t[k];
    if (s.t[k] > 0.0) weighted += s.t[k] * x;
    squares += (how == CM_OVER_TAU_WEIGHTED ? weights[pick + k] : 1.0) * (1.0 - x) * (1.0 - x);
    if (how == CM_OVER_GEOMETRIC) product.times(x);
    ties = x < least ? 1.0 : x == least ? ties + 1.0 : ties;
    if (x < least) least = x;
  }
  const double mean = total / number, away = sqrt(squares / number);
  double result = mean, each = 1.0 / number;
  switch (how) {
    case CM_OVER_WEIGHTED:
      result = weighted / weight;
      each = 1.0 / weight;
      break;
    case CM_OVER_MIN: result = least + total * 0.0; break;
    case CM_OVER_GEOMETRIC: result = number > 0.0 ? product.mean(number) : CM_NAN; break;
    case CM_OVER_TAU:
    case CM_OVER_TAU_WEIGHTED:
      result = 1.0 - away;
      each = each / away;
      break;
    case CM_OVER_ADJUSTED:
      result = number > 1.0 ? (mean - 1.0 / number) / (1.0 - 1.0 / number) : CM_NAN;
      each = 1.0 / (number - 1.0);
      break;
    default: break;
  }
  double undefined = result * 0.0;  // 0, or NaN if the result is undefined
  const bool limited = code >= CM_VALUE_DOOLITTLE;
  for (i64 k = 0; k < s.C; ++k) {
    const double given = value(k), member = enters(k, given), t = s.t[k], p = s.p[k];
    bool known = given == given;
    const double x = known ? given : fill;
    if (limited) known &= t > 0.0 && p > 0.0 && t < s.n && p < s.n;  // a degenerate margin makes it constant
    double share = member * each, direct = 0.0;
    switch (how) {
      case CM_OVER_WEIGHTED:
        share *= t;
        if (share > 0.0) direct = each * (x - result);
        break;
      case CM_OVER_MIN:
        share = member > 0.0 && x == least ? (ties == 1.0 ? 1.0 : CM_NAN) : 0.0;
        if (share > 0.0 && !known) share = CM_NAN;  // the minimum is a fill value
        break;
      case CM_OVER_GEOMETRIC: share = member > 0.0 ? share * (result / x) : 0.0; break;
      case CM_OVER_TAU: share = member > 0.0 ? share * (1.0 - x) : 0.0; break;
      case CM_OVER_TAU_WEIGHTED: share = member > 0.0 ? share * (weights[pick + k] * (1.0 - x)) : 0.0; break;
      default: break;
    }
    undefined += share * 0.0;
    const bool moves = share > 0.0 && known;
    for (int part = 0; part < 3; ++part)
      G[part * s.C + k] = (moves ? share * value(k, 1 + part) : 0.0) + (part == 1 ? direct : 0.0);
    if (moves) undefined += share * value(k, 4);
  }
  G[s.rest()] = undefined;
  return result;
}

// Write the derivatives of every register of a plan, and of its per-class values (four each: in d, t, p and n). `work`
// has CARRIED lines for each class and for the micro average, then one for each register.
__device__ __forceinline__ void differentiate(const Sums& s, const i64* steps, int n_steps, const double* params,
                                              const double* weights, const double* members, int mode, bool pooled,
                                              const Lines& work, const Lines& of_numbers, const Lines& of_classes) {
  const i64 lines = s.rest() + 1, registers = CARRIED * (s.C + 1);
  Differentiated values{s, weights, members, mode, work, 0, 1.0, CM_NAN};
  for (int at = 0; at < n_steps; ++at) {
    const i64 kind = steps[5 * at], target = steps[5 * at + 2], a = steps[5 * at + 3], b = steps[5 * at + 4];
    const int code = int(steps[5 * at + 1]);
    const double fill = params[2 * at], parameter = params[2 * at + 1];
    if (kind == CM_STEP_VALUE) {
      values.code = code;
      values.square = parameter * parameter;
      values.fill = fill;
      values.make(pooled);
      continue;
    }
    if (kind == CM_STEP_EACH) {
      for (i64 k = 0; k < s.C; ++k)
        for (int part = 0; part < 4; ++part) of_classes[(target * s.C + k) * 4 + part] = values.value(k, 1 + part);
      continue;
    }
    const Lines G{&of_numbers[target * lines], of_numbers.step};
    for (i64 line = 0; line < lines; ++line) G[line] = 0.0;
    double made = 0.0;
    if (kind == CM_STEP_REDUCE) {
      made = code == CM_OVER_MICRO ? values.pool(G) : values.reduce(code, a, G);
    } else if (kind == CM_STEP_TOTAL) {
      if (code == CM_TOTAL_GERRITY)
        gerrity_slopes(s, G);
      else if (code == CM_TOTAL_KAPPA_LINEAR || code == CM_TOTAL_KAPPA_QUADRATIC)
        weighted_kappa_slopes(s, code == CM_TOTAL_KAPPA_QUADRATIC, G);
      else
        whole_slopes(s, code, G);
    } else {
      double first = 0.5, second = 0.0;  // maps [-1, 1] to [0, 1]
      if (kind == CM_STEP_HARMONIC) {
        const double x = work[registers + a], y = work[registers + b], both = (x + y) * (x + y);
        first = 2.0 * y * y / both;
        second = 2.0 * x * x / both;
        made = 2.0 * x * y / (x + y);
      }
      for (i64 line = 0; line < lines; ++line) {
        double slope = first * of_numbers[a * lines + line];
        if (kind == CM_STEP_HARMONIC) slope += second * of_numbers[b * lines + line];
        G[line] = slope;
      }
    }
    work[registers + target] = made == made ? made : fill;
  }
}
