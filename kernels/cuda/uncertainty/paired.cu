// Paired replicates of two classifiers as class sums, one thread per replicate of a group.

// Class sums (diagonal, rows, columns, bands, tops) of both matrices of the replicates from `first` on: shape (G,
// count, 2, C) each, zeros initially. Random streams are those of groups from number `before` on.
__global__ void cmfast_paired_replicates_sums(const double* __restrict__ shares, const i64* __restrict__ groups,
                                              const i64* __restrict__ starts, const i64* __restrict__ totals,
                                              const i64* __restrict__ bounds, const i64* __restrict__ cells,
                                              const i64* __restrict__ counts, i64 n_cells, int C, i64 n_groups,
                                              i64 before, i64 first, i64 count, u64 seed, i64* d, i64* t, i64* p,
                                              i64* bands, i64* tops) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n_groups * count; k += i64(gridDim.x) * CM_THREADS) {
    const i64 group = k / count, one = 2 * k * C, two = one + C;
    i64 stratum = groups[group], left = 0;
    for (i64 u = starts[stratum]; u < starts[groups[group + 1]]; ++u) {
      if (u == starts[stratum]) left = totals[stratum++];  // every stratum has units
      Stream stream(seed, before + group, first + k % count, int(u - starts[groups[group]]));
      const i64 drawn = binomial(stream, left, shares[u]);
      left -= drawn;
      for (i64 c = bounds[u]; drawn > 0 && c < bounds[u + 1]; ++c) {
        const i64 x = drawn * counts[c], y = cells[c], a = cells[n_cells + c], b = cells[2 * n_cells + c];
        add_samples(x, y, a, d + one, t + one, p + one, bands ? bands + one : nullptr, bands ? tops + one : nullptr);
        add_samples(x, y, b, d + two, t + two, p + two, bands ? bands + two : nullptr, bands ? tops + two : nullptr);
      }
    }
  }
}
