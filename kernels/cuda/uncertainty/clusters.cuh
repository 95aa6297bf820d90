// Resampling units of clustered or stratified samples.

// Matrices of the clusters or strata of some elements, shape (n, n_parts, C, C); invalid ones hold arbitrary values.
// `starts` has the first index of each stratum in `order`. Units are parts if `clustered`, else samples; samples of one
// cell are of one kind.
struct Clusters {
  const i64* counts;
  const i64 *order, *starts;
  i64 n_parts, C;
  bool clustered;

  __device__ __forceinline__ i64 squares() const { return C * C; }
  __device__ __forceinline__ const i64* part(i64 b, i64 u) const {
    return counts + (b * n_parts + order[u]) * squares();
  }
  // Number of kinds of units of parts `first` to `last`, including kinds without units.
  __device__ __forceinline__ i64 kinds(i64 first, i64 last) const {
    return (last - first) * (clustered ? 1 : squares());
  }
  // Number of units of kind k, counted from part `first` on.
  __device__ __forceinline__ i64 units(i64 b, i64 first, i64 k) const {
    return clustered ? 1 : part(b, first + k / squares())[k % squares()];
  }
  // Draw a replicate of an element with the streams of its number: call `add` with the samples that the units bring to
  // a cell, and the cell.
  template <typename Add>
  __device__ __forceinline__ void draw(i64 b, i64 number, i64 replicate, i64 n_strata, i64 wanted, u64 seed,
                                       Add add) const {
    int unit = 0;  // each unit has its own stream
    for (i64 s = 0; s < n_strata; ++s) {
      i64 rest = 0;
      const i64 last = kinds(starts[s], starts[s + 1]);
      for (i64 kind = 0; kind < last; ++kind) rest += units(b, starts[s], kind);
      i64 left = wanted >= 0 ? wanted : rest;
      for (i64 kind = 0; kind < last; ++kind) {
        const i64 size = units(b, starts[s], kind);
        if (size == 0) continue;
        Stream stream(seed, number, replicate, unit++);
        const i64 drawn = binomial(stream, left, double(size) / double(rest));
        left -= drawn;
        rest -= size;
        if (drawn == 0) continue;
        const i64* cells = part(b, starts[s] + (clustered ? kind : kind / squares()));
        for (i64 c = clustered ? 0 : kind % squares(); c < (clustered ? squares() : kind % squares() + 1); ++c)
          if (cells[c] > 0) add(clustered ? drawn * cells[c] : drawn, c / C, c % C);
      }
    }
  }
};
