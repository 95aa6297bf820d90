// A probability clamped to [0, 1].
template <typename T>
__device__ __forceinline__ double share(T x) {
  const double p = widen(x);
  return p > 1.0 ? 1.0 : p > 0.0 ? p : 0.0;
}
