// Class sums of confusion matrices, and every metric of a plan as a function of them.
//
// One thread computes the five sums of a class in the order of the cells: for column sums neighbouring lanes read
// adjacent cells, and row sums hit the level-1 cache.

__device__ __forceinline__ i64 plus(i64 a, i64 b) {
  return i64(u64(a) + u64(b));
}  // wraps on overflow, which the status reports
__device__ __forceinline__ double plus(double a, double b) { return a + b; }

// Validity of a matrix, collected cell by cell.
struct Validity {
  bool bad = false;
  u64 high = 0, low = 0;  // sums of 32-bit halves, which detect an overflow of int64

  __device__ __forceinline__ void see(i64 x) {
    bad |= x < 0;
    high += u64(x) >> 32;
    low += u64(x) & 0xffffffffu;
  }
  __device__ __forceinline__ void see(double x) { bad |= !(x >= 0.0 && x < CM_INF); }
};

template <int W>
__device__ __forceinline__ bool invalid(const Validity& validity, i64) {
  const u64 high = team_sum<W>(validity.high), low = team_sum<W>(validity.low);
  const bool crowded = high + (low >> 32) > 0x7fffffffu;
  return team_any<W>(validity.bad) || crowded;
}

template <int W>
__device__ __forceinline__ bool invalid(const Validity& validity, double total) {
  return team_any<W>(validity.bad) || !(total < CM_INF);
}

__device__ __forceinline__ i64 blank(i64) { return 0; }
__device__ __forceinline__ double blank(double) { return CM_NAN; }

__device__ __forceinline__ i64 cell(i64 x) { return x; }
__device__ __forceinline__ i64 cell(int x) { return x; }
__device__ __forceinline__ double cell(double x) { return x; }
__device__ __forceinline__ double cell(float x) { return widen(x); }

// One matrix with rows `pitch` apart: as passed, or in shared memory in the type of its sums.
template <typename T, typename S>
struct Cells {
  const T* m;
  i64 C, pitch;

  __device__ __forceinline__ S operator()(i64 i, i64 j) const { return cell(m[i * pitch + j]); }
  // Sum the total of a matrix by a team; return whether the matrix is invalid. Rows of IN lanes are summed first, then
  // these sums: teams with equal IN give the same bits.
  template <int W, int IN = W>
  __device__ __forceinline__ bool add_up(int rank, S* total) const {
    Validity validity;
    *total = 0;
    for (i64 k = rank; k < C; k += W) {
      S row = 0;
#pragma unroll 4
      for (i64 j = 0; j < C; ++j) {
        const S x = (*this)(k, j);
        validity.see(x);
        row = plus(row, x);
      }
      *total = plus(*total, row);
    }
    if constexpr (IN < W) {
      const S row = *total;  // at most as many row sums as lanes
      *total = 0;
#pragma unroll
      for (int first = 0; first < W; first += IN)
        *total = plus(*total, __shfl_sync(CM_ALL_LANES, row, first + rank % IN));
    }
    *total = team_reduce<IN>(*total, [](S a, S b) { return plus(a, b); });
    return invalid<W>(validity, *total);
  }
  // Diagonal, row sum and column sum; if `ordered`, also the sums by distance from the diagonal and by larger class.
  __device__ __forceinline__ void sums(i64 k, bool ordered, S (&out)[5]) const {
    S row = 0, col = 0, top = 0, above = 0, below = 0;
#pragma unroll 4
    for (i64 j = 0; j < C; ++j) {
      if (j == k) top = plus(col, plus(row, (*this)(k, k)));
      row = plus(row, (*this)(k, j));
      col = plus(col, (*this)(j, k));
    }
    const i64 end = ordered ? C - k : 0;
#pragma unroll 4
    for (i64 i = 0; i < end; ++i) {
      above = plus(above, (*this)(i, i + k));
      below = plus(below, (*this)(i + k, i));
    }
    out[0] = (*this)(k, k);
    out[1] = row;
    out[2] = col;
    out[3] = k ? plus(above, below) : above;
    out[4] = top;
  }
};

constexpr int UNORDERED = 3;  // class sums that ignore the order of classes; they come first

// out is (5, n, C): diagonal, row sums, column sums, sums by distance from the diagonal, sums by larger class; without
// the last two unless `ordered`.
template <typename T, typename S, int W>
__global__ void cmfast_margins_sums(const T* __restrict__ M, i64 C, i64 n, int ordered, S* __restrict__ out,
                                    S* __restrict__ out_total, signed char* __restrict__ out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const Cells<T, S> cells{M + team.matrix() * C * C, C, C};
    S total;
    const bool bad = cells.template add_up<W>(team.rank, &total);
    if (!team.mine()) continue;
    for (i64 k = team.rank; k < C; k += W) {
      S sums[5];
      cells.sums(k, ordered, sums);
#pragma unroll
      for (int part = 0; part < 5; ++part)
        if (part < UNORDERED || ordered) out[(part * n + team.matrix()) * C + k] = bad ? blank(total) : sums[part];
    }
    if (team.rank == 0) {
      out_total[team.matrix()] = bad ? blank(total) : total;
      out_status[team.matrix()] = bad ? CM_INVALID : CM_CONVERGED;
    }
  }
}

// ---- metrics: a plan of steps (see kernels/shared/metrics.py), run by one thread per matrix on its sums ----

// Products of sums: exact for counts. If the total is below FEW_SAMPLES, counts fit into 32 bits and products into 64.
constexpr int FEW_SAMPLES = 1 << 25;
template <typename S>
struct Product {
  using type = double;
};
template <>
struct Product<int> {
  using type = i64;
};
template <>
struct Product<i64> {
  using type = __int128;
};

// Class sums of one matrix, values of 64 bits; fractions far from one are divided by a power of two.
template <typename S>
struct Sums {
  static constexpr int STEP = 8 / sizeof(S);  // the lower half of a count that S can hold comes first
  const S *d, *t, *p, *band, *top;
  i64 C;
  S n;
  int power;

  using Wide = typename Product<S>::type;
  __device__ __forceinline__ double near(double x) const { return power ? ldexp(x, -power) : x; }
  __device__ __forceinline__ i64 near(i64 x) const { return x; }
  __device__ __forceinline__ int near(int x) const { return x; }
  __device__ __forceinline__ S hit(i64 k) const { return near(d[k * STEP]); }
  __device__ __forceinline__ S truth(i64 k) const { return near(t[k * STEP]); }
  __device__ __forceinline__ S prediction(i64 k) const { return near(p[k * STEP]); }
  __device__ __forceinline__ S apart(i64 k) const { return near(band[k * STEP]); }
  __device__ __forceinline__ S larger(i64 k) const { return near(top[k * STEP]); }
  __device__ __forceinline__ S missed(i64 k) const { return truth(k) - hit(k); }
  __device__ __forceinline__ S false_(i64 k) const { return prediction(k) - hit(k); }
  __device__ __forceinline__ S not_true(i64 k) const { return n - truth(k); }
  __device__ __forceinline__ S not_predicted(i64 k) const { return n - prediction(k); }
  __device__ __forceinline__ S rejected(i64 k) const { return not_true(k) - false_(k); }
  __device__ __forceinline__ Wide covariance(i64 k) const {  // tp tn - fn fp
    return Wide(hit(k)) * Wide(rejected(k)) - Wide(missed(k)) * Wide(false_(k));
  }
  __device__ __forceinline__ S right() const {
    S sum = 0;
    for (i64 k = 0; k < C; ++k) sum += hit(k);
    return sum;
  }
  // Where a single class is predicted or true take its sum for the total. Fractions added in another order may be
  // rounded otherwise, and the difference would be taken for samples of other classes.
  __device__ __forceinline__ void complete_total() {
    S of_truth = 0, of_prediction = 0;
    int truths = 0, predictions = 0;
    for (i64 k = 0; k < C && (truths < 2 || predictions < 2); ++k) {
      if (t[k] != 0) ++truths, of_truth = t[k];
      if (p[k] != 0) ++predictions, of_prediction = p[k];
    }
    if (predictions == 1)
      n = of_prediction;
    else if (truths == 1)
      n = of_truth;
  }
};

// Whether a matrix with these sums can exist; sets their total.
template <typename S>
__device__ __forceinline__ bool possible(Sums<S>& s) {
  const bool exact = S(0.5) == S(0);
  const double slack = exact ? 0.0 : 1e-9;  // margins of fractions are rounded in different orders
  const i64 most = 0x7fffffffffffffffLL;
  S others = 0;
  bool ok = true;
  s.n = 0;
  for (i64 k = 0; k < s.C; ++k) {
    ok &= s.d[k] >= 0 && s.t[k] >= 0 && s.p[k] >= 0;
    if (exact) ok &= i64(s.t[k]) <= most - i64(s.n) && i64(s.p[k]) <= most - i64(others);
    s.n = plus(s.n, s.t[k]);
    others = plus(others, s.p[k]);
  }
  ok &=
      s.n < CM_INF && !(fabs(as_double(s.n) - as_double(others)) > slack * as_double(s.n)) && !(exact && s.n != others);
  for (i64 k = 0; k < s.C && ok; ++k) {
    const S rest = min(min(s.t[k] - s.d[k], s.p[k] - s.d[k]), (s.n - s.t[k]) - (s.p[k] - s.d[k]));
    ok &= as_double(rest) >= -slack * as_double(s.n);
  }
  const S* given[2] = {s.band, s.top};
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    if (!given[which]) continue;
    S left = s.n;
    for (i64 k = 0; k < s.C && ok; ++k) {
      const S x = given[which][k];
      ok &= x >= 0 && as_double(left) - as_double(x) >= -slack * as_double(s.n) && (!exact || x <= left);
      left = left - x;
    }
    ok &= as_double(left) <= slack * as_double(s.n);
  }
  return ok;
}

// A 2x2 table: one class against the rest, or the sum of such tables. Divisions take longest, so they wait for a
// formula.
template <typename S>
struct Table {
  using Real = double;
  Entry<S> d, t, p, n, missed, wrong, not_true, not_predicted, rejected;

  __device__ __forceinline__ Quotient<S> hit() const { return d / t; }
  __device__ __forceinline__ Quotient<S> reject() const { return rejected / not_true; }
};

template <typename S>
struct ClassTable : Table<S> {
  const Sums<S>& s;
  i64 k;

  __device__ __forceinline__ Entry<S> covariance() const { return {as_double(s.covariance(k))}; }
  __device__ __forceinline__ Entry<S> truth() const { return this->t * this->not_true; }
  __device__ __forceinline__ Entry<S> prediction() const { return this->p * this->not_predicted; }
};

// Table of class k.
template <typename S>
__device__ __forceinline__ Table<S> table_of_class(const Sums<S>& s, i64 k) {
  return {as_double(s.hit(k)),      as_double(s.truth(k)),         as_double(s.prediction(k)),
          as_double(s.n),           as_double(s.missed(k)),        as_double(s.false_(k)),
          as_double(s.not_true(k)), as_double(s.not_predicted(k)), fmax(as_double(s.rejected(k)), 0.0)};
}

// Sum of the tables of the averaged classes, whose rates are micro-averages.
template <typename S>
__device__ __forceinline__ Table<S> pooled_table(const Sums<S>& s, const double* members) {
  typename Sums<S>::Wide d = 0, t = 0, p = 0, n = 0;
  for (i64 k = 0; k < s.C; ++k) {
    if (members && !(members[k] > 0.0)) continue;
    d += s.hit(k);
    t += s.truth(k);
    p += s.prediction(k);
    n += s.n;
  }
  return {as_double(d),     as_double(t),     as_double(p),
          as_double(n),     as_double(t - d), as_double(p - d),
          as_double(n - t), as_double(n - p), fmax(as_double((n - t) - (p - d)), 0.0)};
}

// A metric of classes, and how classes enter averages.
template <typename S>
struct Values {
  const Sums<S>& s;
  int code, mode;
  double beta, fill;
  const double* members;

  // Value of class k, or of the summed tables; NaN for 0/0. Formulas are inlined, so a kernel should have one call.
  __device__ __forceinline__ double raw(bool pooled, i64 k) const {
    const ClassTable<S> table{pooled ? pooled_table(s, members) : table_of_class(s, k), s, k};
    return code >= CM_VALUE_TSS ? correct_for_chance(code, table) : rate(code, beta * beta, table);
  }
  // Whether class k, with value x, enters averages.
  __device__ __forceinline__ bool enters(i64 k, double x) const {
    const bool inside = mode != CM_MODE_PRESENT || s.truth(k) > 0 || s.prediction(k) > 0;
    return inside && !(members && !(members[k] > 0.0)) && (mode != CM_MODE_DEFINED || x == x);
  }
};

// With `each`, write the value of every class to out[k], or its fill value; else return the value of class `pick`, of
// the summed tables, or an average.
template <typename S, typename O>
__device__ __forceinline__ double reduced(const Values<S>& values, bool each, int how, i64 pick, double parameter,
                                          const double* weights, O* out) {
  const bool one = !each && how == CM_OVER_PICK, pooled = !each && how == CM_OVER_MICRO;
  double members = 0.0, sum = 0.0, weighted = 0.0, weight = 0.0, least = CM_INF, square = 0.0, share = 0.0;
  LongProduct product;
  const i64 begin = one ? pick : 0, end = one || pooled ? begin + 1 : values.s.C;
#pragma unroll 1
  for (i64 k = begin; k < end; ++k) {
    double x = values.raw(pooled, k);
    if (one || pooled) return x;
    const bool enters = values.enters(k, x);
    if (x != x) x = values.fill;
    if (each) out[k] = narrow<O>(x);
    if (each || !enters) continue;
    members += 1.0;
    sum += x;
    const double own = as_double(values.s.truth(k));
    if (own > 0.0) weighted += own * x;
    weight += own;
    if (!(x >= least) && least == least) least = x;
    const double part = how == CM_OVER_TAU_WEIGHTED     ? weights[pick + k]
                        : how == CM_OVER_TAU_NORMALIZED ? weights[k]
                                                        : 1.0;
    square += part * ((1.0 - x) * (1.0 - x));
    share += part;
    product.times(x);
  }
  if (how == CM_OVER_MIN) return members > 0.0 ? least : CM_NAN;
  const bool geometric = how == CM_OVER_GEOMETRIC, adjusted = how == CM_OVER_ADJUSTED;
  const bool normalized = how != CM_OVER_TAU && how != CM_OVER_TAU_WEIGHTED;  // of the three kinds of tau
  double a = square, b = normalized ? share : members;
  if (how == CM_OVER_MEAN || adjusted) {
    a = sum;
    b = members;
  } else if (how == CM_OVER_WEIGHTED) {
    a = weighted;
    b = weight;
  }
  const double x = divide_any(geometric ? -product.exponent : a, geometric ? members : b);
  if (how == CM_OVER_MEAN || how == CM_OVER_WEIGHTED) return x;
  if (geometric || adjusted) {
    const double one = divide_any(1.0, members);
    if (geometric) return members > 0.0 ? pow(product.product, one) * exp2(x) : CM_NAN;
    return members >= 2.0 ? divide_any(x - one, 1.0 - one) : CM_NAN;
  }
  const double root = sqrt(x);
  if (how == CM_OVER_TAU) return 1.0 - root;
  if (!(members > 0.0)) return CM_NAN;
  if (how == CM_OVER_TAU_WEIGHTED) return parameter - parameter * root;
  const double near = 1.0 - root;
  return near != near ? near : pow(fmax(near, 0.0), parameter);
}

// Gerrity's score (1992) from class sums: weights depend on the smaller class, the larger class and their distance
// alone.
template <typename S>
__device__ __forceinline__ double gerrity(const Sums<S>& s) {
  if (s.C < 2) return CM_NAN;
  double score = 0.0, low = 0.0, high = 0.0;
  S below = 0;
  bool known = s.n > 0;
  // below / above and above / below are the odds of the cut after each class; `low` accumulates the former.
  for (i64 k = 0; k < s.C; ++k) {
    const S top = s.larger(k);
    score += low * as_double((s.truth(k) - top) + s.prediction(k)) - double(k) * as_double(s.apart(k));
    high += as_double(top);
    if (k == s.C - 1) break;
    below += s.truth(k);
    const S above = s.n - below;
    known &= below > 0 && above > 0;
    low += divide<S>(as_double(below), as_double(above));
    score += high * divide<S>(as_double(above), as_double(below));
  }
  return known ? divide<S>(score, double(s.C - 1) * as_double(s.n)) : CM_NAN;
}

// Numerator E - n S and denominator E of kappas whose weights are distances or squared distances. Counts that are added
// up as floats are divided by `unit`, their total; else it is one.
template <typename S, typename Real, typename Wide>
__device__ __forceinline__ void ordered(const Sums<S>& s, Real unit, bool squares, double* gain, double* chance) {
  const auto scaled = [=](S x) {
    if constexpr (EXACT<S> && !EXACT<Real>) return divide_moderate(double(x), unit);
    return Real(x);
  };
  const Real n = scaled(s.n);
  Wide expected = 0, apart = 0, spread = 0;
  Real below_t = 0, below_p = 0;
  Wide first_t = 0, first_p = 0;
  const i64 middle = S(0.5) == S(0) ? 0 : (s.C - 1) / 2;  // moments about the middle lose fewer digits for fractions
  for (i64 k = 0; k < s.C; ++k) {
    const Real t = scaled(s.truth(k)), p = scaled(s.prediction(k)), band = scaled(s.apart(k));
    const Wide i = Wide(k - middle);
    apart += Wide(squares ? k * k : k) * (Wide(n) * Wide(band));
    spread += i * i * (Wide(n) * Wide(t) + Wide(n) * Wide(p));
    first_t += i * Wide(t);
    first_p += i * Wide(p);
    if (k == s.C - 1) break;
    below_t += t;
    below_p += p;
    expected += Wide(below_t) * Wide(n - below_p) + Wide(below_p) * Wide(n - below_t);
  }
  // All mass in one diagonal cell: exactly 0 for integers, rounding noise for fractions.
  if (squares) expected = expected > 0 ? spread - 2 * first_t * first_p : Wide(0);
  *chance = as_double(expected);
  *gain = as_double(expected - apart);
}

__device__ __forceinline__ void ordered_of(const Sums<double>& s, bool squares, double* gain, double* chance) {
  ordered<double, double, double>(s, 1.0, squares, gain, chance);
}
__device__ __forceinline__ void ordered_of(const Sums<int>& s, bool squares, double* gain, double* chance) {
  ordered<int, i64, i64>(s, 1, squares, gain, chance);
}
__device__ __forceinline__ void ordered_of(const Sums<i64>& s, bool squares, double* gain, double* chance) {
  const double n = double(s.n);
  if (n * n * double(s.C) * double(s.C) * 2.0 < 0x1p126)
    ordered<i64, i64, __int128>(s, 1, squares, gain, chance);
  else  // totals near 2^63 with many classes
    ordered<i64, double, double>(s, n, squares, gain, chance);
}

// Value of the whole matrix, NaN for 0/0.
template <typename S>
__device__ __forceinline__ double whole(const Sums<S>& s, int code, double size) {
  if (code == CM_TOTAL_GERRITY) return gerrity(s);
  const double n = as_double(s.n), right = as_double(s.right()), others = double(s.C - 1);
  double a = right, b = n, t = 1.0, p = 1.0;
  switch (code) {
    case CM_TOTAL_ACCURACY: break;
    case CM_TOTAL_JACCARD_MICRO: b = n + (n - right); break;
    case CM_TOTAL_SPECIFICITY_MICRO:
      if (s.C < 2) return CM_NAN;
      a = double(s.C - 2) * n + right;
      b = others * n;
      break;
    case CM_TOTAL_KAPPA_LINEAR:
    case CM_TOTAL_KAPPA_QUADRATIC: ordered_of(s, code == CM_TOTAL_KAPPA_QUADRATIC, &a, &b); break;
    case CM_TOTAL_ERROR: a = as_double(s.n - s.right()); break;
    default: {
      using Wide = typename Product<S>::type;
      Wide covariance = 0, truth = 0, prediction = 0, expected = 0;
      for (i64 k = 0; k < s.C; ++k) {
        covariance += s.covariance(k);
        truth += Wide(s.truth(k)) * Wide(s.not_true(k));
        prediction += Wide(s.prediction(k)) * Wide(s.not_predicted(k));
        expected += Wide(s.truth(k)) * Wide(s.not_predicted(k));
      }
      a = as_double(covariance);
      t = as_double(truth);
      p = as_double(prediction);
      // Chance agreement from the average of both margins; numerator and denominator are scaled by 4 n^2.
      const double both = t + p + 2.0 * as_double(expected), met = 4.0 * (n * as_double(s.n - s.right()));
      switch (code) {
        case CM_TOTAL_KAPPA: b = as_double(expected); break;
        case CM_TOTAL_PEIRCE: b = t; break;
        case CM_TOTAL_SCOTT_PI:
          a = both - met;
          b = both;
          break;
        case CM_TOTAL_KRIPPENDORFF:
          if (!(2.0 * size > 1.0)) return CM_NAN;
          a = both - met * divide<S>(2.0 * size - 1.0, 2.0 * size);
          b = both;
          break;
        case CM_TOTAL_GWET_AC1:
          if (s.C < 2) return CM_NAN;
          b = 4.0 * others * (n * n) - both;
          a = b - others * met;
          break;
        default: b = sqrt(t * p);
      }
    }
  }
  const double x = divide<S>(a, b);
  return code == CM_TOTAL_MCC ? apply_degenerate_limits(t, p, fmax(cap_at_one(x), -1.0)) : x;
}

// Steps are (step, code, target, a, b); params are (fill value for 0/0, a parameter). out_registers is (registers, n);
// the first n_scalars are results.
template <typename O>
struct Plan {
  i64 C, n;
  const i64* steps;
  int n_steps;
  const double *params, *weights, *members;
  int mode, n_scalars, n_tables;
  double* out_registers;
  O *out_scalars, *out_tables;
  signed char* out_status;

  // Run the plan on the class sums of matrix b, which are valid if `ok`.
  template <typename S>
  __device__ __forceinline__ void run(Sums<S>& s, i64 b, bool ok) const {
    out_status[b] = ok ? CM_CONVERGED : CM_INVALID;
    if (!ok) {
      for (int k = 0; k < n_scalars; ++k) out_scalars[k * n + b] = narrow<O>(CM_NAN);
      for (int table = 0; table < n_tables; ++table)
        for (i64 k = 0; k < C; ++k) out_tables[(table * n + b) * C + k] = narrow<O>(CM_NAN);
      return;
    }
    if constexpr (!EXACT<S>) s.complete_total();
    const double size = as_double(s.n);
    if (S(0.5) != S(0) && (size > 1e70 || (size > 0.0 && size < 1e-70))) {
      const bool tiny = size < 0x1p-1022;
      s.power = int(__double_as_longlong(tiny ? size * 0x1p54 : size) >> 52 & 0x7ff) - 1022 - (tiny ? 54 : 0);
      s.n = s.near(s.n);
    }
    Values<S> values{s, 0, mode, 1.0, 0.0, members};
    for (int at = 0; at < n_steps; ++at) {
      const i64* step = steps + 5 * at;
      const double fill = params[2 * at], parameter = params[2 * at + 1];
      const int code = int(step[1]);
      if (step[0] == CM_STEP_VALUE) {
        values.code = code;
        values.beta = parameter;
        values.fill = fill;
        continue;
      }
      double x;
      if (step[0] == CM_STEP_EACH || step[0] == CM_STEP_REDUCE) {
        const bool each = step[0] == CM_STEP_EACH;
        x = reduced(values, each, code, step[3], parameter, weights, out_tables + (each ? (step[2] * n + b) * C : 0));
        if (each) continue;
      } else if (step[0] == CM_STEP_TOTAL) {
        x = whole(s, code, size);
      } else if (step[0] == CM_STEP_HARMONIC) {
        const double a = out_registers[step[3] * n + b], c = out_registers[step[4] * n + b];
        x = a == 0.0 && c == 0.0 ? 0.0 : divide_any(2.0 * a * c, a + c);
      } else {
        x = (out_registers[step[3] * n + b] + 1.0) * 0.5;
      }
      x = x == x ? x : fill;
      out_registers[step[2] * n + b] = x;
      if (step[2] < n_scalars) out_scalars[step[2] * n + b] = narrow<O>(x);
    }
  }
  // Run the plan on sums in shared memory: `parts` for each class, the total, and whether the matrix is invalid.
  template <typename S>
  __device__ __forceinline__ void run_at(const S* own, int parts, i64 b) const {
    const i64 step = C * Sums<S>::STEP, total = parts * step;
    Sums<S> s{own, own + step, own + 2 * step, own + 3 * step, own + 4 * step, C, own[total], 0};
    run(s, b, own[total + Sums<S>::STEP] == 0);
  }
};

// Without a status array the sums are validated first.
template <typename S, typename O>
__global__ void cmfast_metrics_of_sums_plan(const S* __restrict__ d, const S* __restrict__ t, const S* __restrict__ p,
                                            const S* __restrict__ bands, const S* __restrict__ tops,
                                            const S* __restrict__ totals, const signed char* __restrict__ status, i64 C,
                                            i64 n, const i64* __restrict__ steps, int n_steps,
                                            const double* __restrict__ params, const double* __restrict__ weights,
                                            const double* __restrict__ members, int mode, int n_scalars, int n_tables,
                                            double* out_registers, O* __restrict__ out_scalars,
                                            O* __restrict__ out_tables, signed char* __restrict__ out_status) {
  const Plan<O> plan{C,    n,         steps,    n_steps,       params,      weights,    members,
                     mode, n_scalars, n_tables, out_registers, out_scalars, out_tables, out_status};
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < n; b += i64(gridDim.x) * blockDim.x) {
    Sums<S> s{d + b * C, t + b * C, p + b * C, bands ? bands + b * C : nullptr, tops ? tops + b * C : nullptr, C, 0, 0};
    bool ok;
    if (status) {
      s.n = totals[b];
      ok = status[b] == CM_CONVERGED;
    } else {
      ok = possible(s);
    }
    plan.run(s, b, ok);
  }
}

// Run a plan on small matrices whose sums stay in shared memory. Each warp processes `many` matrices, at most one per
// lane: eight lanes, or all, load and sum one matrix in the order of the margins; then each lane runs the plan for one.
// Rows, matrices and sums are padded to avoid bank conflicts. Without a bound sm_100 and sm_120 use 154 registers.
template <typename T, typename S, typename O, int SHARERS>
__global__ void __launch_bounds__(64, 8)
    cmfast_metrics_of_matrices_plan(const T* __restrict__ M, int C, i64 n, int many, int ordered, int row_step,
                                    int cells_step, int sums_step, const i64* __restrict__ steps, int n_steps,
                                    const double* __restrict__ params, const double* __restrict__ weights,
                                    const double* __restrict__ members, int mode, int n_scalars, int n_tables,
                                    double* out_registers, O* __restrict__ out_scalars, O* __restrict__ out_tables,
                                    signed char* __restrict__ out_status) {
  CM_DYN_SMEM(S, held);
  constexpr int TOGETHER = 32 / SHARERS;
  constexpr int CELLS_AHEAD =
      SHARERS > 8 ? 16 : 8;  // cells loaded ahead by a lane: few warps fit, so latency must be hidden
  const Plan<O> plan{C,    n,         steps,    n_steps,       params,      weights,    members,
                     mode, n_scalars, n_tables, out_registers, out_scalars, out_tables, out_status};
  const int parts = ordered ? 5 : UNORDERED, lane = threadIdx.x % 32, rank = lane % SHARERS;
  const i64 warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const unsigned per_row = 65536 / C + 1;  // the row of cell k is k * per_row / 65,536, exact for small C
  S* sums_of = held + warp * 32 * sums_step;
  S* staged = held + blockDim.x * sums_step + threadIdx.x / SHARERS * cells_step;
  const Cells<S, S> cells{staged, C, row_step};
  for (i64 first = (blockIdx.x * warps + warp) * many; first < n; first += gridDim.x * warps * many) {
    const int here = int(min(i64(many), n - first));
#pragma unroll 1
    for (int begin = 0; begin < here; begin += TOGETHER) {
      const int place = begin + lane / SHARERS;
      const T* m = M + (first + min(place, here - 1)) * C * C;
      for (int at = rank; at < C * C; at += CELLS_AHEAD * SHARERS) {
        S ahead[CELLS_AHEAD];
#pragma unroll
        for (int u = 0; u < CELLS_AHEAD; ++u) ahead[u] = cell(m[min(at + u * SHARERS, C * C - 1)]);
#pragma unroll
        for (int u = 0; u < CELLS_AHEAD; ++u) {
          const int k = at + u * SHARERS;
          if (k < C * C) staged[k + int(k * per_row >> 16) * (row_step - C)] = ahead[u];
        }
      }
      __syncwarp();
      S* own = sums_of + place * sums_step;
      S total;
      const bool bad = cells.template add_up<SHARERS, 8>(rank, &total);
      for (int k = rank; k < C; k += SHARERS) {
        S sums[5];
        cells.sums(k, ordered, sums);
#pragma unroll
        for (int part = 0; part < 5; ++part)
          if (part < parts) own[part * C + k] = sums[part];
      }
      if (rank == 0) {
        own[parts * C] = total;
        own[parts * C + 1] = bad;
      }
      __syncwarp();
    }
    const S* own = sums_of + lane * sums_step;
    bool few = false;
    if constexpr (EXACT<S>) {
      const i64 total = own[parts * C];
      few = __all_sync(CM_ALL_LANES, lane >= here || (total >= 0 && total < FEW_SAMPLES));
      if (lane < here && few) plan.run_at(reinterpret_cast<const int*>(own), parts, first + lane);
    }
    if (lane < here && !few) plan.run_at(own, parts, first + lane);
    __syncwarp();  // all lanes have read what the next matrices overwrite
  }
}

// Cohen's weighted kappa (1968): one minus weighted disagreement over its expectation from the margins.
template <typename T, typename S, typename O, int W>
__global__ void cmfast_weighted_kappa_pairs(const T* __restrict__ M, const S* __restrict__ t, const S* __restrict__ p,
                                            const S* __restrict__ totals, const signed char* __restrict__ status,
                                            const double* __restrict__ weights, i64 C, i64 n, double fill,
                                            O* __restrict__ out, signed char* __restrict__ out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const i64 b = team.matrix();
    const double total = as_double(totals[b]);
    double met = 0.0, expected = 0.0;
    bool bad = status[b] != CM_CONVERGED;
    for (i64 k = team.rank; k < C * C; k += W) {
      const i64 i = k / C, j = k % C;
      const double w = weights[k];
      bad |= !(w >= 0.0 && w < CM_INF) || (i == j && w != 0.0);
      met += w * (as_double(cell(M[b * C * C + k])) / total);
      expected += w * (as_double(t[b * C + i]) / total) * (as_double(p[b * C + j]) / total);
    }
    met = team_sum<W>(met);
    expected = team_sum<W>(expected);
    bad = team_any<W>(bad);
    if (team.mine() && team.rank == 0) {
      out[b] = narrow<O>(bad ? CM_NAN : expected > 0.0 ? (expected - met) / expected : fill);
      out_status[b] = bad ? CM_INVALID : CM_CONVERGED;
    }
  }
}
