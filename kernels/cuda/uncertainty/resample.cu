// Multinomial replicates of confusion matrices; any thread can draw any row of any replicate.

// ---- shares ----

constexpr int BAD = 1, FRACTION = 2;

__device__ __forceinline__ double divide(double weight, double rest) { return weight > 0.0 ? weight / rest : 0.0; }

// Conditional share of every cell among itself and the later cells of its row; with rounding, its share of the detected
// samples of the row, and the detection rate.
template <typename T>
__global__ void cmfast_resample_rows(const T* __restrict__ M, const double* __restrict__ missed, int C, i64 n,
                                     int rounded, double* __restrict__ out_cells, double* __restrict__ out_support,
                                     double* __restrict__ out_rates, int* out_flags) {
  for (i64 row = i64(blockIdx.x) * CM_THREADS + threadIdx.x; row < n * C; row += i64(gridDim.x) * CM_THREADS) {
    const T* m = M + row * C;
    double* cells = out_cells + row * C;
    double rest = missed ? missed[row] : 0.0, found = 0.0;
    bool good = rest >= 0.0 && rest < CM_INF, whole = rest == floor(rest);
    for (int j = C - 1; j >= 0; --j) {
      const double x = widen(m[j]);
      good &= x >= 0.0 && x < CM_INF;
      whole &= x == floor(x);
      rest += x;
      found += x;
      if (!rounded) cells[j] = divide(x, rest);
    }
    for (int j = 0; j < C && rounded; ++j) cells[j] = divide(widen(m[j]), found);
    out_rates[row] = divide(found, rest);
    out_support[row] = rest;
    if (!good || !whole) atomicOr(&out_flags[row / C], (good ? 0 : BAD) | (whole ? 0 : FRACTION));
  }
}

// Conditional share of every row among itself and the later rows; number of samples to draw, `wanted` or all; status.
__global__ void cmfast_resample_matrices(const double* __restrict__ support, const int* __restrict__ flags, int C,
                                         i64 n, i64 wanted, double* __restrict__ out_rows, i64* __restrict__ out_total,
                                         signed char* __restrict__ out_status) {
  for (i64 b = i64(blockIdx.x) * CM_THREADS + threadIdx.x; b < n; b += i64(gridDim.x) * CM_THREADS) {
    double total = 0.0;
    for (int i = C - 1; i >= 0; --i) {
      total += support[b * C + i];
      out_rows[b * C + i] = divide(support[b * C + i], total);
    }
    const bool drawable = wanted < 0 ? total < 0x1p63 && !(flags[b] & FRACTION) : total < CM_INF;
    const bool empty = wanted > 0 && total == 0.0;
    const int status = flags[b] & BAD || !drawable ? CM_INVALID : empty ? CM_ZERO_LINE : CM_CONVERGED;
    out_status[b] = status;
    out_total[b] = wanted >= 0 ? wanted : status == CM_CONVERGED ? i64(total) : 0;
  }
}

// ---- draws ----

// Draw the row totals of every replicate.
__global__ void cmfast_resample_totals(const double* __restrict__ rows, const i64* __restrict__ total,
                                       const signed char* __restrict__ status, int C, i64 n, i64 n_resamples,
                                       const i64* __restrict__ numbers, u64 seed, i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * n_resamples; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = k / n_resamples;
    if (status[b] != CM_CONVERGED) continue;
    spread(seed, number_of(numbers, b), k % n_resamples, 0, total[b], rows + b * C, C, out + k * C);
  }
}

// Draw the cells of every row of every replicate; without `drawn` rows keep their number of samples.
__global__ void cmfast_resample_cells(const double* __restrict__ cells, const double* __restrict__ support,
                                      const i64* __restrict__ drawn, const signed char* __restrict__ status, int C,
                                      i64 n, i64 n_resamples, const i64* __restrict__ numbers, u64 seed,
                                      i64* __restrict__ out) {
  const i64 rows = n * n_resamples * C;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < rows; k += i64(gridDim.x) * CM_THREADS) {
    const i64 place = k / C, b = place / n_resamples, row = b * C + k % C;
    const bool good = status[b] == CM_CONVERGED;
    const i64 total = !good ? 0 : drawn ? drawn[k] : i64(support[row]);
    spread(seed, number_of(numbers, b), place % n_resamples, int(1 + k % C) * C, total, cells + row * C, C,
           out + k * C);
  }
}

// Write expected cells, rounded.
__global__ void cmfast_resample_rounded(const double* __restrict__ cells, const double* __restrict__ rates,
                                        const i64* __restrict__ drawn, const signed char* __restrict__ status, int C,
                                        i64 n, i64 n_resamples, i64* __restrict__ out) {
  const i64 size = n * n_resamples * C * C;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < size; k += i64(gridDim.x) * CM_THREADS) {
    const i64 line = k / C, b = line / C / n_resamples, row = b * C + line % C;
    const bool good = status[b] == CM_CONVERGED;
    out[k] = good ? i64(rint(rint(double(drawn[line]) * rates[row]) * cells[row * C + k % C])) : 0;
  }
}
