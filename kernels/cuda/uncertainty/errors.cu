// Delta-method standard errors of metrics from exact derivatives in every cell, as kernels/cpu/uncertainty/errors.py.

// Flag matrices that are not counts.
__global__ void cmfast_standard_errors_fractions(const double* __restrict__ M, i64 C, i64 n,
                                                 signed char* __restrict__ out_status) {
  for (Team<32> team(n); team.more(); team.next()) {
    bool fraction = false;
    for (i64 c = team.rank; c < C * C; c += 32) {
      const double x = M[team.matrix() * C * C + c];
      fraction |= x != floor(x);
    }
    fraction = team_any<32>(fraction);
    if (fraction && team.mine() && team.rank == 0) out_status[team.matrix()] = CM_INVALID;
  }
}

// Derivatives of every metric of the matrices, one thread per matrix. Lines of a metric, and in out_classes the four of
// each class, are n apart. They are centred to mean zero over the samples, which avoids cancellation.
__global__ void cmfast_standard_errors_slopes(const double* __restrict__ d, const double* __restrict__ t,
                                              const double* __restrict__ p, const double* __restrict__ bands,
                                              const double* __restrict__ tops, const double* __restrict__ totals,
                                              const signed char* __restrict__ status, i64 C, i64 n,
                                              const i64* __restrict__ steps, int n_steps,
                                              const double* __restrict__ params, const double* __restrict__ weights,
                                              const double* __restrict__ members, int mode, int pooled, int n_scalars,
                                              double* work, double* out_numbers, double* out_classes) {
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < n; b += i64(gridDim.x) * blockDim.x) {
    if (status[b] != CM_CONVERGED) continue;
    const Sums s{d + b * C, t + b * C, p + b * C, bands ? bands + b * C : nullptr, tops ? tops + b * C : nullptr,
                 C,         totals[b]};
    const Lines numbers{out_numbers + b, n}, classes{out_classes + b, n};
    differentiate(s, steps, n_steps, params, weights, members, mode, pooled, Lines{work + b, n}, numbers, classes);
    const i64 rest = s.rest();
    for (int k = 0; k < n_scalars; ++k) {
      const Lines G{&numbers[k * (rest + 1)], n};
      double mean = 0.0;
      for (int part = 0; part < (s.band ? 5 : 3); ++part) {
        const double* sums = part == 0 ? s.d : part == 1 ? s.t : part == 2 ? s.p : part == 3 ? s.band : s.top;
        for (i64 c = 0; c < C; ++c) mean += G[part * C + c] * sums[c];
      }
      G[rest] = G[rest] * 0.0 - mean / s.n;  // minus the mean, or NaN if not differentiable
    }
  }
}

// Standard errors of whole-matrix metrics from their derivatives, a team of W threads per matrix, by rows; for `wanted`
// samples or as many as there are.
template <int W>
__global__ void cmfast_standard_errors_numbers(const double* __restrict__ M, const double* __restrict__ t,
                                               const double* __restrict__ totals,
                                               const signed char* __restrict__ status, i64 C, i64 n, int n_scalars,
                                               const double* __restrict__ slopes, int ordered, int rows, double wanted,
                                               double* __restrict__ out) {
  for (Team<W> team(n * n_scalars); team.more(); team.next()) {
    const i64 b = team.matrix() % n, k = team.matrix() / n;
    const CellSlopes slope{slopes + k * ((ordered ? 5 : 3) * C + 1) * n + b, n, C, ordered != 0};
    const bool good = status[b] == CM_CONVERGED && totals[b] > 0.0;
    double variance = 0.0;
    for (i64 i = team.rank; i < C && good; i += W) {
      const double* line = M + (b * C + i) * C;
      double mean = 0.0;
      for (i64 j = 0; j < C && rows; ++j) mean += slope(i, j) * line[j];
      mean = t[b * C + i] > 0.0 ? mean / t[b * C + i] : 0.0;
      for (i64 j = 0; j < C; ++j) {
        const double g = slope(i, j) - mean;
        variance += line[j] * (g * g);
      }
    }
    variance = team_sum<W>(variance);
    const double error = sqrt(variance * (wanted >= 0.0 ? totals[b] / wanted : 1.0));
    if (team.mine() && team.rank == 0) out[team.matrix()] = good && error < CM_INF ? error : CM_NAN;
  }
}

// Standard errors of per-class values from their derivatives in d, t, p and n, one thread each.
__global__ void cmfast_standard_errors_classes(const double* __restrict__ M, const double* __restrict__ d,
                                               const double* __restrict__ t, const double* __restrict__ p,
                                               const double* __restrict__ totals,
                                               const signed char* __restrict__ status, i64 C, i64 n, int n_tables,
                                               const double* __restrict__ slopes, int rows, double wanted,
                                               double* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n_tables * C * n; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = k % n, c = k / n % C, place = (k / n / C * n + b) * C + c;
    const double* slope = slopes + k / n * 4 * n + b;
    if (status[b] != CM_CONVERGED) {
      out[place] = CM_NAN;
      continue;
    }
    const double own = d[b * C + c], truth = t[b * C + c], guess = p[b * C + c], total = totals[b];
    double right = slope[0] + slope[n] + slope[2 * n] + slope[3 * n], missed = slope[n] + slope[3 * n];
    double wrong = slope[2 * n] + slope[3 * n], rejected = slope[3 * n], variance;
    if (rows) {
      double others = 0.0;  // binomial variances of the other rows in a column
      for (i64 i = 0; i < C; ++i) {
        const double x = M[(b * C + i) * C + c], size = t[b * C + i];
        if (i != c && x > 0.0) others += x * ((size - x) / size);
      }
      variance = own > 0.0 ? own * ((truth - own) / truth) : 0.0;
      variance = variance * ((right - missed) * (right - missed)) + others * ((wrong - rejected) * (wrong - rejected));
    } else {
      const double neither = total - truth - guess + own;
      const double mean = (own * right + (truth - own) * missed + (guess - own) * wrong + neither * rejected) / total;
      right -= mean;
      missed -= mean;
      wrong -= mean;
      rejected -= mean;
      variance = own * (right * right) + (truth - own) * (missed * missed) + (guess - own) * (wrong * wrong) +
                 neither * (rejected * rejected);
    }
    const double error = sqrt(variance * (wanted >= 0.0 ? total / wanted : 1.0));
    out[place] = error < CM_INF ? error : CM_NAN;
  }
}
