// Conformal quantiles from sorted scores, and histograms of scores.

// Write sort keys of scores, their segment, and the segment sizes; each row has one more segment for scores with an
// invalid group, which are left out.
__global__ void cmfast_threshold_keys(const double* __restrict__ s, const i64* __restrict__ groups, i64 n, i64 size,
                                      i64 n_groups, u64* __restrict__ out_keys, i64* __restrict__ out_segments,
                                      u64* out_counts, signed char* __restrict__ out_status) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < size; k += i64(gridDim.x) * CM_THREADS) {
    i64 g = groups ? groups[k] : 0;
    const bool good = g >= 0 && g < n_groups;
    if (!good) g = n_groups;
    out_status[k] = good ? CM_CONVERGED : CM_INVALID;
    const i64 segment = k / n * (n_groups + 1) + g;
    out_keys[k] = to_ordered_key(s[k]);
    out_segments[k] = segment;
    atomicAdd(&out_counts[segment], u64(1));
  }
}

// `ends` is the prefix sum of all segment sizes.
__global__ void cmfast_threshold_pick(const u64* __restrict__ keys, const i64* __restrict__ order,
                                      const i64* __restrict__ counts, const i64* __restrict__ ends,
                                      const i64* __restrict__ ranks, i64 A, i64 n_groups, i64 n_ranks, i64 size,
                                      int by_group, double* __restrict__ out, signed char* __restrict__ out_status) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < size; k += i64(gridDim.x) * CM_THREADS) {
    const i64 g = k % n_groups, a = k / n_groups % A, b = k / (n_groups * A), segment = b * (n_groups + 1) + g;
    const i64 held = counts[segment], rank = ranks[a * n_ranks + (by_group ? held : 0)];
    out[k] = rank > held ? CM_INF : from_ordered_key(keys[order[ends[segment] - held + rank - 1]]);
    if (a == 0) out_status[b * n_groups + g] = by_group && !held ? CM_ZERO_LINE : CM_CONVERGED;
  }
}

// Histogram bins from 0: the first bin whose upper edge is not below the score; the last bin is beyond all edges.
__global__ void cmfast_score_histogram_count(const double* __restrict__ s, i64 n, i64 size, i64 bins, double width,
                                             u64* out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < size; k += i64(gridDim.x) * CM_THREADS) {
    const double x = s[k];
    i64 at = bins;
    if (x <= width * double(bins)) {
      const double guess = x / width;
      at = guess > 0.0 ? i64(guess) : 0;
      if (at > bins - 1) at = bins - 1;
      while (double(at + 1) * width < x) ++at;
      while (at > 0 && double(at) * width >= x) --at;
    }
    atomicAdd(&out[k / n * (bins + 1) + at], u64(1));
  }
}
