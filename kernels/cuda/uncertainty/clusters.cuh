// Units of matrices whose samples come in clusters, or from strata.

// Matrices of the clusters, or of the strata, of some elements: shape (n, n_parts, C, C), where bad ones hold anything;
// where the parts of each stratum lie in `order` begins in `starts`. What is drawn are units: parts, if they are
// `clustered`, else samples, of which those of a cell are alike.
struct Clusters {
  const i64* counts;
  const i64 *order, *starts;
  i64 n_parts, C;
  bool clustered;

  __device__ __forceinline__ i64 squares() const { return C * C; }
  __device__ __forceinline__ const i64* part(i64 b, i64 u) const {
    return counts + (b * n_parts + order[u]) * squares();
  }
  // Kinds of units from the first to before the last part, those that are none among them.
  __device__ __forceinline__ i64 kinds(i64 first, i64 last) const {
    return (last - first) * (clustered ? 1 : squares());
  }
  // Units of kind k, counted from the first part on.
  __device__ __forceinline__ i64 units(i64 b, i64 first, i64 k) const {
    return clustered ? 1 : part(b, first + k / squares())[k % squares()];
  }
  // Draw a replicate of an element, from the streams of its number: call `add` with how many samples each unit brings
  // to a cell, and which that is.
  template <typename Add>
  __device__ __forceinline__ void draw(i64 b, i64 number, i64 replicate, i64 n_strata, i64 wanted, u64 seed,
                                       Add add) const {
    int unit = 0;  // each has a stream of its own
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
