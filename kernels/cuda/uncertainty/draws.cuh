// Counter-based random numbers (Philox), and binomial and gamma variates from them.
//
// Operations and their order are those of kernels/cpu/uncertainty/_random_numbers.py, and sources with this header are
// compiled without fused multiply-add: every variate has the bits that it has on the CPU.

// log k! minus (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2
constexpr int KNOWN = 16;
__constant__ double CORRECTIONS[KNOWN] = {
    0.08106146679532726,  0.0413406959554093,    0.02767792568499834,  0.020790672103765093,
    0.016644691189821193, 0.013876128823070748,  0.01189670994589177,  0.010411265261972096,
    0.009255462182712733, 0.00833056343336287,   0.007573675487951841, 0.00694284010720953,
    0.006408994188004207, 0.0059513701127588475, 0.005554733551962801, 0.0052076559196096404};

// ---- streams ----

// Stream number of a matrix: its index or, for a part of a batch, that in the whole.
__device__ __forceinline__ i64 number_of(const i64* numbers, i64 b) { return numbers ? numbers[b] : b; }

struct Pair {
  double first, second;
};

__device__ __forceinline__ double uniform(unsigned high, unsigned low) {  // in (0, 1)
  return double(i64((u64(high) << 32 | low) >> 11)) * 0x1p-53 + 0x1p-54;
}

struct Stream {
  unsigned number, replicate, part, matrix, key, key_too;

  __device__ __forceinline__ Stream(u64 seed, i64 matrix, i64 replicate, int part)
      : number(0),
        replicate(unsigned(replicate)),
        part(unsigned(part)),
        matrix(unsigned(matrix)),
        key(unsigned(seed)),
        key_too(unsigned(seed >> 32)) {}

  __device__ __forceinline__ Pair next() {  // Philox4x32-10
    unsigned a = number++, b = replicate, c = part, d = matrix, k = key, m = key_too;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const u64 x = u64(a) * 0xD2511F53u, y = u64(c) * 0xCD9E8D57u;
      a = unsigned(y >> 32) ^ b ^ k;
      c = unsigned(x >> 32) ^ d ^ m;
      b = unsigned(y);
      d = unsigned(x);
      k += 0x9E3779B9u;
      m += 0xBB67AE85u;
    }
    return {uniform(a, b), uniform(c, d)};
  }
};

// ---- functions ----

// log((1 + s) / (1 - s)) for |s| < 0.172, by its series in two independent partial sums.
__device__ __forceinline__ double series(double s) {
  const double square = s * s, fourth = square * square;
  double even = 0.0, odd = 0.0;
#pragma unroll
  for (int k = 10; k >= 0; k -= 2) {
    even = even * fourth + 1.0 / (2 * k + 1);
    odd = odd * fourth + 1.0 / (2 * k + 3);
  }
  return 2.0 * s * (even + square * odd);
}

__device__ __forceinline__ double logarithm(double x) {  // natural logarithm of a normal float64
  const i64 bits = __double_as_longlong(x);
  double part = __longlong_as_double((bits & 0x000fffffffffffffLL) | 0x3fe0000000000000LL);
  int exponent = int(bits >> 52) - 1022;
  if (part < 0.7071067811865476) {
    part *= 2.0;
    --exponent;
  }
  return exponent * 0.6931471805599453 + series((part - 1.0) / (part + 1.0));
}

__device__ __forceinline__ double log_ratio(double d, double y) {  // log((y + d) / y), accurate for small d
  const double s = d / (2.0 * y + d);
  return fabs(s) < 0.17 ? series(s) : logarithm((y + d) / y);
}

__device__ constexpr double factorial(int k) { return k > 1 ? k * factorial(k - 1) : 1.0; }

template <int K>
__device__ __forceinline__ void add_powers(double square, double& even, double& odd) {
  constexpr double first = 1.0 / factorial(K), second = 1.0 / factorial(K + 1);
  even = even * square + first;
  odd = odd * square + second;
  if constexpr (K > 0) add_powers<K - 2>(square, even, odd);
}

__device__ __forceinline__ double exp_near(double x) {  // exp(x) for x in [-56, 0]
  x /= 128.0;
  double even = 0.0, odd = 0.0;
  add_powers<12>(x * x, even, odd);
  double total = even + x * odd;
#pragma unroll
  for (int k = 0; k < 7; ++k) total *= total;
  return total;
}

__device__ __forceinline__ double correction(double k) {  // log k! minus Stirling's approximation
  if (k < KNOWN) return CORRECTIONS[int(k)];
  const double t = 1.0 / (k + 1.0), square = t * t;
  return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) * t;
}

// ---- binomial draws ----

__device__ __forceinline__ double draw_by_inversion(Stream& stream, double n, double p) {
  const double odds = p / (1.0 - p), start = exp_near(n * log_ratio(-p, 1.0));
  while (true) {
    const double v = stream.next().first;
    double k = 0.0, chance = start, total = start;
    while (v > total && k < CM_MOST_INVERTED) {
      k += 1.0;
      chance *= (n + 1.0 - k) * (odds / k);
      total += chance;
    }
    if (v <= total) return k;
  }
}

// Log probability of k minus that of the mode.
__device__ __forceinline__ double log_relative_probability(double n, double odds, double mode, double k) {
  const double d = k - mode, before = odds * (n - mode + 1.0), after = mode + 1.0;
  const double large = (n - k + 0.5) * log_ratio(d, n - k + 1.0) - (k + 0.5) * log_ratio(d, after);
  const double tilt = d * series((before - after) / (before + after));  // before and after are nearly equal
  return large + tilt + (correction(mode) + correction(n - mode) - correction(k) - correction(n - k));
}

__device__ __forceinline__ double draw_by_rejection(Stream& stream, double n, double p) {
  const double q = 1.0 - p, spread = sqrt(n * p * q), b = 1.15 + 2.53 * spread;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, middle = n * p + 0.5, quick = 0.92 - 4.2 / b;
  while (true) {
    const Pair pair = stream.next();
    const double u = pair.second - 0.5, edge = 0.5 - fabs(u), k = floor((2.0 * a / edge + b) * u + middle);
    if (k < 0.0 || k > n) continue;
    if (edge >= 0.07 && pair.first <= quick) return k;
    const double square = edge * edge, v = pair.first * ((2.83 + 5.1 / b) * spread) * square / (a + b * square);
    if (logarithm(v) <= log_relative_probability(n, p / q, floor((n + 1.0) * p), k)) return k;
  }
}

__device__ __forceinline__ i64 binomial(Stream& stream, i64 n, double p) {
  if (n == 0 || p == 0.0) return 0;
  if (p >= 1.0) return n;
  const double rare = fmin(p, 1.0 - p), size = double(n);
  const double drawn = size * rare < CM_LEAST_REJECTION_MEAN ? draw_by_inversion(stream, size, rare)
                                                             : draw_by_rejection(stream, size, rare);
  const i64 k = min(i64(drawn), n);  // a size beyond 2^53 may have been rounded up
  return p > 0.5 ? n - k : k;
}

// Multinomial draw of `left` samples by binomial draws; shares are conditional on what is left, and each draw has its
// own stream.
__device__ __forceinline__ void spread(u64 seed, i64 matrix, i64 replicate, int part, i64 left, const double* shares,
                                       int C, i64* out) {
  for (int j = 0; j < C; ++j) {
    Stream stream(seed, matrix, replicate, part + j);
    const i64 drawn = binomial(stream, left, shares[j]);
    out[j] = drawn;
    left -= drawn;
  }
}

// ---- gamma draws ----

__device__ __forceinline__ double exponential(double x) {  // exp(x) for x <= 0
  if (x < -745.0) return 0.0;
  const double k = floor(x / 0.6931471805599453);
  return ldexp(exp_near(x - k * 0.6931471805599453 - 0.6931471805599453), int(k) + 1);
}

__device__ __forceinline__ double normal(Stream& stream) {  // standard normal variate, by the polar method
  while (true) {
    const Pair pair = stream.next();
    const double u = 2.0 * pair.first - 1.0, v = 2.0 * pair.second - 1.0, s = u * u + v * v;
    if (0.0 < s && s < 1.0) return u * sqrt(-2.0 * logarithm(s) / s);
  }
}

// Logarithm of a gamma variate (Marsaglia and Tsang 2000), because for shapes below 1 the variate may underflow.
__device__ __forceinline__ double log_gamma(Stream& stream, double shape) {
  const double d = (shape >= 1.0 ? shape : shape + 1.0) - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
  double v;
  while (true) {
    const double x = normal(stream), root = 1.0 + c * x;
    if (root <= 0.0) continue;
    v = root * root * root;
    const double u = stream.next().first;
    if (u < 1.0 - 0.0331 * (x * x) * (x * x)) break;
    if (logarithm(u) < 0.5 * x * x + d * (1.0 - v + logarithm(v))) break;
  }
  const double drawn = logarithm(d * v);
  return shape < 1.0 ? drawn + logarithm(stream.next().first) / shape : drawn;
}
