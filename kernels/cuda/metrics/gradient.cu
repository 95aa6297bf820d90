// Backward pass of metrics, as kernels/cpu/metrics/gradient.py: derivatives times incoming gradients.

// Sum the derivatives of all results times their incoming gradients, one thread per matrix: for each class those in
// diagonal, row, column and, for ordinal metrics, band and top; then that in the total. A zero gradient times any
// derivative, NaN too, is zero; a NaN derivative of a class value means a filled-in constant.
__global__ void cmfast_metrics_gradient_mix(
    const double* __restrict__ d, const double* __restrict__ t, const double* __restrict__ p,
    const double* __restrict__ bands, const double* __restrict__ tops, const double* __restrict__ totals,
    const signed char* __restrict__ status, i64 C, i64 n, const i64* __restrict__ steps, int n_steps,
    const double* __restrict__ params, const double* __restrict__ weights, const double* __restrict__ members, int mode,
    int pooled, int n_scalars, int n_tables, const double* __restrict__ of_scalars,
    const double* __restrict__ of_tables, double* work, double* numbers, double* classes, double* out_mixed) {
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < n; b += i64(gridDim.x) * blockDim.x) {
    const Sums s{d + b * C, t + b * C, p + b * C, bands ? bands + b * C : nullptr, tops ? tops + b * C : nullptr,
                 C,         totals[b]};
    const i64 lines = s.rest() + 1;
    const bool good = status[b] == CM_CONVERGED;
    double* mixed = out_mixed + b * lines;
    for (i64 line = 0; line < lines; ++line) mixed[line] = good ? 0.0 : CM_NAN;
    if (!good) continue;
    const Lines G{numbers + b, n}, T{classes + b, n};
    differentiate(s, steps, n_steps, params, weights, members, mode, pooled, Lines{work + b, n}, G, T);
    for (int k = 0; k < n_scalars; ++k) {
      const double given = of_scalars[b * n_scalars + k];
      for (i64 line = 0; line < lines && given != 0.0; ++line) mixed[line] += given * G[k * lines + line];
    }
    for (i64 k = 0; k < n_tables * C; ++k) {
      const double given = of_tables[b * n_tables * C + k];
      for (int part = 0; part < 4; ++part) {
        const double slope = T[k * 4 + part];
        if (given != 0.0 && slope == slope) mixed[part == 3 ? lines - 1 : part * C + k % C] += given * slope;
      }
    }
  }
}

// Write the gradient of every cell from these sums, one thread per cell.
template <typename T>
__global__ void cmfast_metrics_gradient_cells(const double* __restrict__ mixed, i64 C, i64 n, int ordered,
                                              T* __restrict__ out) {
  const i64 lines = (ordered ? 5 : 3) * C + 1;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * C * C; k += i64(gridDim.x) * CM_THREADS) {
    const i64 j = k % C, i = k / C % C;
    const double* line = mixed + k / (C * C) * lines;
    double g = (line[C + i] + line[lines - 1]) + line[2 * C + j];
    if (i == j) g += line[i];
    if (ordered) g += line[3 * C + (i < j ? j - i : i - j)] + line[4 * C + (i < j ? j : i)];
    out[k] = narrow<T>(g);
  }
}
