// Prediction sets as bitsets, 64 classes per word, from the scores of all labels; and their coverage.

// Thresholds are (batch, alpha, group, 1 or label). A label is excluded if its score exceeds the threshold; comparisons
// with NaN exclude nothing.
__global__ void cmfast_prediction_sets_words(const double* __restrict__ s, const double* __restrict__ q,
                                             const i64* __restrict__ groups, const signed char* __restrict__ status,
                                             i64 C, i64 n, i64 rows, i64 A, i64 n_groups, i64 n_limits, i64 words,
                                             i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < rows * A * words; k += i64(gridDim.x) * CM_THREADS) {
    const i64 w = k % words, i = k / words % n, a = k / (words * n) % A, b = k / (words * n * A), r = b * n + i;
    const bool good = status[r] == CM_CONVERGED;
    const i64 g = good && groups ? groups[r] : 0;
    const double* limits = q + ((b * A + a) * n_groups + g) * n_limits;
    u64 word = 0;
    for (i64 j = 64 * w; j < C && j < 64 * (w + 1); ++j) {
      const bool out_of_it = good && s[r * C + j] > limits[n_limits > 1 ? j : 0];
      word |= u64(!out_of_it) << (j % 64);
    }
    out[k] = i64(word);
  }
}

template <typename T>
__global__ void cmfast_prediction_sets_sizes(const T* __restrict__ P, i64 C, i64 n, i64 rows, i64 A, i64 words,
                                             int top1, i64* packed, i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < rows * A; k += i64(gridDim.x) * CM_THREADS) {
    i64 size = 0;
    for (i64 w = 0; w < words; ++w) size += __popcll(u64(packed[k * words + w]));
    if (size == 0 && top1) {
      const T* row = P + (k / (n * A) * n + k % n) * C;
      i64 best = 0;
      for (i64 j = 1; j < C; ++j)
        if (share(row[j]) > share(row[best])) best = j;
      packed[k * words + best / 64] |= i64(u64(1) << (best % 64));
      size = 1;
    }
    out[k] = size;
  }
}

// Number of sets of every size, and how many of them hold the true label.
__global__ void cmfast_set_coverage_count(const i64* __restrict__ packed, const i64* __restrict__ y, i64 C, i64 n,
                                          i64 sets, i64 A, i64 words, u64* out, u64* out_covered,
                                          signed char* __restrict__ out_status) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < sets; k += i64(gridDim.x) * CM_THREADS) {
    const i64 i = k % n, e = k / n, r = e / A * n + i, label = y[r];
    const bool good = label >= 0 && label < C;
    if (e % A == 0) out_status[r] = good ? CM_CONVERGED : CM_INVALID;
    if (!good) continue;
    i64 size = 0;
    for (i64 w = 0; w < words; ++w) size += __popcll(u64(packed[k * words + w]));
    atomicAdd(&out[e * (C + 1) + size], u64(1));
    if (u64(packed[k * words + label / 64]) >> (label % 64) & 1) atomicAdd(&out_covered[e * (C + 1) + size], u64(1));
  }
}
