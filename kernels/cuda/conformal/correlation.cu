// Co-occurrence of classes in prediction sets: counts from bitsets, and ratios of them.

// Transpose sets, one bit per class, to words of 64 samples for every class.
__global__ void cmfast_ccm_columns(const i64* __restrict__ packed, i64 C, i64 n, i64 words, i64 steps, i64 size,
                                   u64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < size; k += i64(gridDim.x) * CM_THREADS) {
    const i64 j = k % C, step = k / C % steps, b = k / (C * steps);  // neighbouring threads read the same words
    u64 column = 0;
    for (i64 i = 64 * step; i < n && i < 64 * (step + 1); ++i)
      column |= (u64(packed[(b * n + i) * words + j / 64]) >> (j % 64) & 1) << (i % 64);
    out[(b * C + j) * steps + step] = column;
  }
}

// Count the sets that hold both classes of a pair (AND and popcount), one warp per pair.
__global__ void cmfast_ccm_pairs(const u64* __restrict__ columns, i64 C, i64 steps, i64 size, i64* __restrict__ out) {
  for (Team<32> team(size); team.more(); team.next()) {
    const i64 k = team.matrix(), j = k % C, i = k / C % C, b = k / (C * C);
    const u64* one = columns + (b * C + i) * steps;
    const u64* other = columns + (b * C + j) * steps;
    i64 both = 0;
    for (i64 step = team.rank; i <= j && step < steps; step += 32) both += __popcll(one[step] & other[step]);
    both = team_sum<32>(both);
    if (team.mine() && team.rank == 0 && i <= j) {
      out[(b * C + i) * C + j] = both;
      out[(b * C + j) * C + i] = both;
    }
  }
}

__global__ void cmfast_coverage_confusion_count(const i64* __restrict__ packed, const i64* __restrict__ y, i64 C, i64 n,
                                                i64 sets, i64 A, i64 words, u64* out, u64* out_totals,
                                                signed char* __restrict__ out_status) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < sets; k += i64(gridDim.x) * CM_THREADS) {
    const i64 i = k % n, e = k / n, r = e / A * n + i, label = y[r];
    const bool good = label >= 0 && label < C;
    if (e % A == 0) out_status[r] = good ? CM_CONVERGED : CM_INVALID;
    if (!good) continue;
    atomicAdd(&out_totals[e * C + label], u64(1));
    for (i64 w = 0; w < words; ++w)
      for (u64 word = u64(packed[k * words + w]); word; word &= word - 1)
        atomicAdd(&out[(e * C + label) * C + 64 * w + __popcll((word & (0 - word)) - 1)], u64(1));
  }
}

__device__ __forceinline__ int reason(i64 n, i64 m) {
  return n == 0 ? CM_NO_SAMPLES : m == 0 ? CM_NEVER : m == n ? CM_ALWAYS : CM_FINE;
}

// n * both - first * second in double without cancellation: exact modulo 2^64, plus the multiple of 2^64.
__device__ __forceinline__ double difference(i64 n, i64 both, i64 first, i64 second) {
  const double left = double(i64(u64(n) * u64(both) - u64(first) * u64(second)));
  const double near = double(n) * double(both) - double(first) * double(second);
  return left + rint((near - left) * 0x1p-64) * 0x1p64;
}

__global__ void cmfast_ccm_ratios_pairs(const i64* __restrict__ n, const i64* __restrict__ G, i64 C, i64 size, int kind,
                                        double undefined, double* __restrict__ out,
                                        signed char* __restrict__ out_reason) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < size; k += i64(gridDim.x) * CM_THREADS) {
    const i64 j = k % C, i = k / C % C, b = k / (C * C), total = n[b];
    const i64 first = G[(b * C + i) * C + i], second = G[(b * C + j) * C + j], both = G[k];
    const bool fine = reason(total, first) == CM_FINE && reason(total, second) == CM_FINE;
    double found = CM_NAN;
    if (kind == CM_CORRELATION) {
      const double spread = (double(first) * double(total - first)) * (double(second) * double(total - second));
      found = difference(total, both, first, second) / sqrt(spread);
      found = !fine ? undefined : i == j ? 1.0 : fmin(fmax(found, -1.0), 1.0);
    } else if (kind == CM_COVARIANCE && total) {
      found = difference(total, both, first, second) / (double(total) * double(total));
    } else if (kind == CM_LIFT && first && second) {
      found = double(total) * double(both) / (double(first) * double(second));
    } else if (kind == CM_CONDITIONAL && first) {
      found = double(both) / double(first);
    }
    out[k] = found;
    if (j == 0) out_reason[b * C + i] = reason(total, first);
  }
}
