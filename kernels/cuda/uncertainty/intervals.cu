// Bootstrap replicates as class sums, leave-one-out sums, and intervals from the metrics of all replicates.

// ---- replicates ----

// Draw multinomial replicates of matrices from `first` on, and add up their class sums: shape (count, n_resamples, C)
// each, zeros initially. A matrix that cannot be drawn from gets an impossible row sum.
__global__ void cmfast_metric_draws_of_counts(const double* __restrict__ cells, const double* __restrict__ rows,
                                              const double* __restrict__ support, const i64* __restrict__ total,
                                              const signed char* __restrict__ status, int C, i64 first, i64 count,
                                              i64 n_resamples, int rows_fixed, const i64* __restrict__ numbers,
                                              u64 seed, i64* d, i64* t, i64* p, i64* bands, i64* tops) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < count * n_resamples; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = first + k / n_resamples, replicate = k % n_resamples, one = k * C;
    if (status[b] != CM_CONVERGED) {
      t[one] = -1;
      continue;
    }
    const i64 number = number_of(numbers, b);
    i64 left = total[b];
    for (int i = 0; i < C; ++i) {
      i64 own = i64(support[b * C + i]);
      if (!rows_fixed) {
        Stream stream(seed, number, replicate, i);
        own = binomial(stream, left, rows[b * C + i]);
        left -= own;
      }
      for (int j = 0; j < C && own > 0; ++j) {
        Stream stream(seed, number, replicate, (1 + i) * C + j);
        const i64 drawn = binomial(stream, own, cells[(b * C + i) * C + j]);
        own -= drawn;
        if (drawn > 0)
          add_samples(drawn, i, j, d + one, t + one, p + one, bands ? bands + one : nullptr,
                      bands ? tops + one : nullptr);
      }
    }
  }
}

// Class sums of Dirichlet draws with parameters `alpha`, scaled to `total`: fractions. `logs` is a workspace of C * C
// values per draw.
__global__ void cmfast_metric_draws_of_shares(const double* __restrict__ alpha, const double* __restrict__ total,
                                              const signed char* __restrict__ status, int C, i64 first, i64 count,
                                              i64 n_resamples, const i64* __restrict__ numbers, u64 seed, double* logs,
                                              double* d, double* t, double* p, double* bands, double* tops) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < count * n_resamples; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = first + k / n_resamples, replicate = k % n_resamples, one = k * C;
    if (status[b] != CM_CONVERGED) {
      t[one] = CM_NAN;
      continue;
    }
    const i64 number = number_of(numbers, b);
    double* own = logs + one * C;
    double largest = -CM_INF, mass = 0.0;
    for (int i = 0; i < C; ++i) {
      Stream stream(seed, number, replicate, 1 + i);
      for (int j = 0; j < C; ++j) {
        const double shape = alpha[(b * C + i) * C + j];
        own[i * C + j] = shape > 0.0 ? log_gamma(stream, shape) : -CM_INF;
        largest = fmax(largest, own[i * C + j]);
      }
    }
    for (int c = 0; c < C * C; ++c) {
      own[c] = own[c] > -CM_INF ? exponential(own[c] - largest) : 0.0;
      mass += own[c];
    }
    for (int i = 0; i < C; ++i)
      for (int j = 0; j < C; ++j)
        if (own[i * C + j] > 0.0)
          add_samples(own[i * C + j] / mass * total[b], i, j, d + one, t + one, p + one, bands ? bands + one : nullptr,
                      bands ? tops + one : nullptr);
  }
}

// ---- single samples left out ----

// Class sums of matrices of counts, shape (n, C) each, zeros initially.
__global__ void cmfast_metric_intervals_whole(const double* __restrict__ cells, int C, i64 n, double* d, double* t,
                                              double* p, double* bands, double* tops) {
  for (i64 b = i64(blockIdx.x) * CM_THREADS + threadIdx.x; b < n; b += i64(gridDim.x) * CM_THREADS)
    for (int i = 0; i < C; ++i)
      for (int j = 0; j < C; ++j) {
        const double x = cells[(b * C + i) * C + j];
        if (x > 0.0)
          add_samples(x, i, j, d + b * C, t + b * C, p + b * C, bands ? bands + b * C : nullptr,
                      bands ? tops + b * C : nullptr);
      }
}

// Leave-one-out class sums, one sample less in each cell in turn: shape (n, C * C, C) each. An empty cell is left
// alone; a cell with less than one sample becomes 0.
__global__ void cmfast_metric_intervals_without(const double* __restrict__ cells, const double* __restrict__ whole,
                                                int C, i64 n, double* d, double* t, double* p, double* bands,
                                                double* tops) {
  const i64 squares = i64(C) * C;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * squares; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = k / squares, i = k % squares / C, j = k % C, one = k * C;
    for (int c = 0; c < C; ++c) {
      d[one + c] = whole[b * C + c];
      t[one + c] = whole[(n + b) * C + c];
      p[one + c] = whole[(2 * n + b) * C + c];
      if (bands) {
        bands[one + c] = whole[(3 * n + b) * C + c];
        tops[one + c] = whole[(4 * n + b) * C + c];
      }
    }
    const double x = fmin(cells[k], 1.0);
    if (x > 0.0)
      add_samples(-x, i, j, d + one, t + one, p + one, bands ? bands + one : nullptr, bands ? tops + one : nullptr);
  }
}

// Jackknife acceleration of BCa from leave-one-out values, shape (n, C * C), `per` metrics per matrix; rows may be
// fixed.
__global__ void cmfast_metric_intervals_acceleration(const double* __restrict__ cells,
                                                     const double* __restrict__ without, int C, i64 n, i64 per,
                                                     int rows_fixed, double* __restrict__ out) {
  const i64 squares = i64(C) * C;
  for (i64 place = i64(blockIdx.x) * CM_THREADS + threadIdx.x; place < n; place += i64(gridDim.x) * CM_THREADS) {
    const double *M = cells + place / per * squares, *own = without + place * squares;
    double cubes = 0.0, sum = 0.0, mean = 0.0;
    for (int i = 0; i < C; ++i) {
      if (i == 0 || rows_fixed) {
        double weight = 0.0;
        mean = 0.0;
        for (i64 k = i64(i) * C; k < (rows_fixed ? i64(i + 1) * C : squares); ++k)
          if (M[k] > 0.0 && own[k] - own[k] == 0.0) {
            mean += M[k] * own[k];
            weight += M[k];
          }
        mean = weight > 0.0 ? mean / weight : 0.0;
      }
      for (i64 k = i64(i) * C; k < i64(i + 1) * C; ++k)
        if (M[k] > 0.0 && own[k] - own[k] == 0.0) {
          const double away = mean - own[k];
          sum += M[k] * (away * away);
          cubes += M[k] * (away * away * away);
        }
    }
    // Rounding noise of a metric that no sample changes is no skewness.
    out[place] = sum > CM_MOST_ROUNDING_VARIANCE * fmax(1.0, mean * mean) ? cubes / (6.0 * sum * sqrt(sum)) : 0.0;
  }
}

// ---- intervals ----

constexpr int BINS = 256, BITS = 8;
static_assert(BINS == CM_THREADS, "each thread clears a bin");

// Element of rank k of a row, ignoring NaN, by radix selection with 8-bit digits; the same in every thread of the
// block.
__device__ __forceinline__ double select_rank(const double* row, i64 size, i64 k, unsigned* bins) {
  u64 found = 0;
  for (int shift = 64 - BITS; shift >= 0; shift -= BITS) {
    __syncthreads();
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (i64 i = threadIdx.x; i < size; i += CM_THREADS) {
      const u64 key = to_ordered_key(row[i]);
      const bool near = shift == 64 - BITS || key >> (shift + BITS) == found;
      if (row[i] == row[i] && near) atomicAdd(&bins[key >> shift & (BINS - 1)], 1u);
    }
    __syncthreads();
    int bin = 0;
    for (; k >= i64(bins[bin]); ++bin) k -= i64(bins[bin]);
    found = found << BITS | u64(bin);
  }
  return from_ordered_key(found);
}

// Quantile of the m defined elements of a row, interpolated linearly.
__device__ __forceinline__ double quantile(const double* row, i64 size, i64 m, double share, unsigned* bins) {
  if (m == 0 || !(share >= 0.0 && share <= 1.0)) return CM_NAN;
  const double place = share * double(m - 1);
  const i64 k = min(i64(place), m - 1);
  const double part = place - double(k), found = select_rank(row, size, k, bins);
  if (part > 0.0 && k + 1 < m) {
    double above = CM_INF;
    i64 upto = 0;
    for (i64 i = threadIdx.x; i < size; i += CM_THREADS) {
      if (row[i] <= found) ++upto;
      if (row[i] > found) above = fmin(above, row[i]);
    }
    upto = team_sum<CM_THREADS>(upto);
    above = team_reduce<CM_THREADS>(above, [](double a, double b) { return fmin(a, b); });
    if (upto <= k + 1) return found + part * (above - found);  // else the next element equals it
  }
  return found;
}

__device__ __forceinline__ double normal_distribution(double z) { return 0.5 * erfc(-z * 0.7071067811865476); }

template <int N>
__device__ __forceinline__ double polynomial(const double (&c)[N], double x) {
  double out = c[N - 1];
#pragma unroll
  for (int k = N - 2; k >= 0; --k) out = out * x + c[k];
  return out;
}

// Standard normal quantile of probability p (Wichura, Algorithm AS 241, 1988).
__device__ __forceinline__ double normal_quantile(double p) {
  const double q = p - 0.5;
  if (fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    const double above[] = {3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
                            45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727};
    const double below[] = {1.0,
                            42.313330701600911252,
                            687.18700749205790830,
                            5394.1960214247511077,
                            21213.794301586595867,
                            39307.895800092710610,
                            28729.085735721942674,
                            5226.4952788528545610};
    return q * polynomial(above, r) / polynomial(below, r);
  }
  double r = sqrt(-log(fmin(p, 1.0 - p))), found;
  if (r <= 5.0) {
    r -= 1.6;
    const double above[] = {1.42343711074968357734,   4.63033784615654529590,   5.76949722146069140550,
                            3.64784832476320460504,   1.27045825245236838258,   0.241780725177450611770,
                            0.0227238449892691845833, 7.74545014278341407640e-4};
    const double below[] = {1.0,
                            2.05319162663775882187,
                            1.67638483018380384940,
                            0.689767334985100004550,
                            0.148103976427480074590,
                            0.0151986665636164571966,
                            5.47593808499534494600e-4,
                            1.05075007164441684324e-9};
    found = polynomial(above, r) / polynomial(below, r);
  } else {
    r -= 5.0;
    const double above[] = {6.65790464350110377720,    5.46378491116411436990,   1.78482653991729133580,
                            0.296560571828504891230,   0.0265321895265761230930, 0.00124266094738807843860,
                            2.71155556874348757815e-5, 2.01033439929228813265e-7};
    const double below[] = {1.0,
                            0.599832206555887937690,
                            0.136929880922735805310,
                            0.0148753612908506148525,
                            7.86869131145613259100e-4,
                            1.84631831751005468180e-5,
                            1.42151175831644588870e-7,
                            2.04426310338993978564e-15};
    found = polynomial(above, r) / polynomial(below, r);
  }
  return q < 0.0 ? -found : found;
}

// BCa-adjusted probability (Efron 1987) that replaces the nominal tail `share`.
__device__ __forceinline__ double adjust_probability(double share, double less, double acceleration) {
  const double bias = normal_quantile(less), z = bias + normal_quantile(share);
  return normal_distribution(bias + z / (1.0 - acceleration * z));
}

// Interval, standard deviation and number of undefined replicates of every row, one block each. There are `per` rows
// per matrix; those of a matrix with a bad status get NaN.
__global__ void cmfast_replicate_intervals_rows(const double* __restrict__ replicates, i64 n, i64 size, i64 per,
                                                const double* __restrict__ acceleration,
                                                const signed char* __restrict__ status, int basic,
                                                double confidence_level, double* estimate, double* __restrict__ out_low,
                                                double* __restrict__ out_high, double* __restrict__ out_error,
                                                i64* __restrict__ out_undefined) {
  CM_DYN_SMEM(unsigned, memory);  // reduction scratch, then the histogram bins
  unsigned* bins = memory + CM_THREADS / 32 * 2;
  for (i64 k = blockIdx.x; k < n; k += gridDim.x) {
    const double *row = replicates + k * size, value = estimate[k];
    i64 m = 0, below = 0, equal = 0;
    double sum = 0.0, squares = 0.0;
    for (i64 i = threadIdx.x; i < size; i += CM_THREADS) {
      const double x = row[i];
      if (x != x) continue;
      ++m;
      sum += x;
      below += x < value;
      equal += x == value;
    }
    m = team_sum<CM_THREADS>(m);
    below = team_sum<CM_THREADS>(below);
    equal = team_sum<CM_THREADS>(equal);
    const double mean = team_sum<CM_THREADS>(sum) / double(m);
    for (i64 i = threadIdx.x; i < size; i += CM_THREADS)
      if (row[i] == row[i]) squares += (row[i] - mean) * (row[i] - mean);
    squares = team_sum<CM_THREADS>(squares);
    double first = 0.5 * (1.0 - confidence_level), last = 0.5 * (1.0 + confidence_level);
    if (acceleration) {
      const double half = 0.5 / double(m), share = (double(below) + 0.5 * double(equal)) / double(m);
      const double less = m > 0 ? fmin(fmax(share, half), 1.0 - half) : 0.5;  // half a replicate from 0 and 1
      first = adjust_probability(first, less, acceleration[k]);
      last = adjust_probability(last, less, acceleration[k]);
    }
    const double low = quantile(row, size, m, first, bins), high = quantile(row, size, m, last, bins);
    const bool good = !status || status[k / per] == CM_CONVERGED, known = good && value == value;
    if (threadIdx.x == 0) {
      out_low[k] = !known ? CM_NAN : basic ? 2.0 * value - high : low;
      out_high[k] = !known ? CM_NAN : basic ? 2.0 * value - low : high;
      out_error[k] = good && m > 1 ? sqrt(squares / double(m - 1)) : CM_NAN;
      out_undefined[k] = size - m;
      if (!good) estimate[k] = CM_NAN;
    }
    __syncthreads();  // all threads have read this row's results
  }
}
