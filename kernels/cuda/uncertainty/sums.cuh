// Sums that metrics are made of, added up sample by sample.

// Add samples of class i that were taken for j to the sums of one matrix; without `bands` two of them are not needed.
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
