// Accumulation of class sums sample by sample.

// Add x samples of class i predicted as j to the class sums of one matrix; bands and tops only if `bands` is not null.
template <typename T>
__device__ __forceinline__ void add_samples(T x, i64 i, i64 j, T* d, T* t, T* p, T* bands, T* tops) {
  if (i == j) d[i] += x;
  t[i] += x;
  p[j] += x;
  if (bands) {
    bands[i < j ? j - i : i - j] += x;
    tops[i < j ? j : i] += x;
  }
}
