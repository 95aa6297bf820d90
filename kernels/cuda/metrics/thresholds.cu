// All binary confusion matrices of rows of scores: what a sort needs, and what follows from it.

// Unsigned numbers that rise as scores fall; zeros are equal, whatever their sign. Made of bits: CuPy's compiler takes
// denormal floats for zero wherever it calculates.
__device__ __forceinline__ u64 falling(double x) {
  const u64 sign = u64(1) << 63, bits = u64(__double_as_longlong(x));
  return bits == sign ? sign - 1 : bits & sign ? bits : ~(bits | sign);
}
__device__ __forceinline__ unsigned falling(float x) {
  const unsigned sign = 1u << 31, bits = __float_as_uint(x);
  return bits == sign ? sign - 1 : bits & sign ? bits : ~(bits | sign);
}

__device__ __forceinline__ bool is_nan(double x) { return x != x; }
__device__ __forceinline__ bool is_nan(float x) { return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u; }

// Keys to sort by, with the row in front where there is room for it; and which rows hold what is no score or no label.
template <typename T, typename Y, typename K>
__global__ void cmfast_threshold_matrices_keys(const T* __restrict__ scores, const Y* __restrict__ y, i64 n, i64 rows,
                                               K* __restrict__ out_keys, int* out_bad) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * rows; k += i64(gridDim.x) * CM_THREADS) {
    K key = falling(scores[k]);
    if constexpr (sizeof(K) > sizeof(T)) key |= K(k / n) << 32;
    out_keys[k] = key;
    if (is_nan(scores[k]) || (y[k] != 0 && y[k] != 1 && i64(y[k]) != -1)) atomicOr(&out_bad[k / n], 1);
  }
}

template <typename T, typename Y>
__global__ void cmfast_threshold_matrices_gather(const T* __restrict__ scores, const Y* __restrict__ y,
                                                 const i64* __restrict__ order, i64 n, T* __restrict__ out_scores,
                                                 unsigned char* __restrict__ out_hits) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    out_scores[k] = scores[order[k]];
    out_hits[k] = y[order[k]] == 1;
  }
}

// The last of the sorted scores up to `stop` that equals the one at k: in steps that grow, then shrink.
template <typename T>
__device__ __forceinline__ i64 last_equal(const T* scores, i64 k, i64 stop) {
  const auto key = falling(scores[k]);
  const auto equal = [&](i64 other) { return other <= stop && falling(scores[other]) == key; };
  i64 step = 1;
  for (; equal(k + step); step *= 2) k += step;
  for (step /= 2; step > 0; step /= 2)
    if (equal(k + step)) k += step;
  return k;
}

// `hits` are running totals over all rows. Equal scores fall on one side together: each gets the counts at their last.
template <typename T>
__global__ void cmfast_threshold_matrices_count(const T* __restrict__ scores, const i64* __restrict__ hits,
                                                const int* __restrict__ bad, i64 n, i64 rows,
                                                T* __restrict__ out_thresholds, i64* __restrict__ out_matrices,
                                                signed char* __restrict__ out_status) {
  for (i64 place = i64(blockIdx.x) * CM_THREADS + threadIdx.x; place < (n + 1) * rows;
       place += i64(gridDim.x) * CM_THREADS) {
    const i64 row = place / (n + 1), k = place % (n + 1) - 1, first = row * n;  // k = -1: above all scores
    const i64 before = first ? hits[first - 1] : 0, positives = (n ? hits[first + n - 1] : 0) - before;
    const bool good = !bad[row];
    const i64 end = good && k >= 0 ? last_equal(scores, first + k, first + n - 1) : first - 1;
    const i64 tp = end < first ? 0 : hits[end] - before, fp = end + 1 - first - tp;
    out_thresholds[place] = !good ? T(CM_NAN) : k < 0 ? T(CM_INF) : scores[first + k];
    i64* out = out_matrices + 4 * place;
    out[0] = good ? n - positives - fp : 0;
    out[1] = good ? fp : 0;
    out[2] = good ? positives - tp : 0;
    out[3] = good ? tp : 0;
    if (k < 0) out_status[row] = good ? CM_CONVERGED : CM_INVALID;
  }
}
