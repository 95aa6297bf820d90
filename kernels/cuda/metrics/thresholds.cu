// Binary confusion matrices at all thresholds of score arrays: sort keys, and counts from sorted scores.

// Order-reversing map of scores to unsigned integers, for an ascending sort to descending scores; both zeros are equal.
// Integer arithmetic, because CuPy's compiler flushes denormal floats to zero in calculations.
__device__ __forceinline__ u64 to_descending_key(double x) {
  const u64 sign = u64(1) << 63, bits = u64(__double_as_longlong(x));
  return bits == sign ? sign - 1 : bits & sign ? bits : ~(bits | sign);
}
__device__ __forceinline__ unsigned to_descending_key(float x) {
  const unsigned sign = 1u << 31, bits = __float_as_uint(x);
  return bits == sign ? sign - 1 : bits & sign ? bits : ~(bits | sign);
}

__device__ __forceinline__ bool is_nan(double x) { return x != x; }
__device__ __forceinline__ bool is_nan(float x) { return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u; }

// Inverse of the map: the score of a key, without the sign of a zero.
__device__ __forceinline__ double from_descending_key(u64 key) {
  const u64 sign = u64(1) << 63;
  return __longlong_as_double(i64(key & sign ? key : ~key & (sign - 1)));
}
__device__ __forceinline__ float from_descending_key(unsigned key) {
  const unsigned sign = 1u << 31;
  return __uint_as_float(key & sign ? key : ~key & (sign - 1));
}

// Write sort keys, prefixed with the row if bits are left, and flag rows with invalid scores or labels. Whether the
// label is one is stored next to the key, in a byte, or below the row number, by which a second sort groups the scores.
// Both arrays may be null.
template <typename T, typename Y, typename K>
__global__ void cmfast_threshold_matrices_keys(const T* __restrict__ scores, const Y* __restrict__ y, i64 n, i64 rows,
                                               K* __restrict__ out_keys, unsigned char* __restrict__ out_hits,
                                               unsigned* __restrict__ out_rows, int* out_bad) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * rows; k += i64(gridDim.x) * CM_THREADS) {
    const T score = scores[k];
    const Y label = y[k];
    const i64 row = k / n;
    K key = to_descending_key(score);
    if constexpr (sizeof(K) > sizeof(T)) key |= K(row) << 32;
    out_keys[k] = key;
    const unsigned hit = label == 1;
    if (out_hits) out_hits[k] = hit;
    if (out_rows) out_rows[k] = unsigned(row) << 1 | hit;
    if (is_nan(score) || (label != 0 && label != 1 && i64(label) != -1)) atomicOr(&out_bad[row], 1);
  }
}

template <typename T, typename Y>
__global__ void cmfast_threshold_matrices_gather(const T* __restrict__ scores, const Y* __restrict__ y,
                                                 const i64* __restrict__ order, i64 n, T* __restrict__ out_scores,
                                                 unsigned char* __restrict__ out_hits) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    out_scores[k] = from_descending_key(to_descending_key(scores[order[k]]));  // no -0, without arithmetic
    out_hits[k] = y[order[k]] == 1;
  }
}

// Scores and labels from sorted keys and what is stored with them; one of `hits` and `rows` is null.
template <typename T, typename K>
__global__ void cmfast_threshold_matrices_scores(const K* __restrict__ keys, const unsigned char* __restrict__ hits,
                                                 const unsigned* __restrict__ rows, i64 n, T* __restrict__ out_scores,
                                                 unsigned char* __restrict__ out_hits) {
  using Bits = decltype(to_descending_key(T(0)));
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    out_scores[k] = from_descending_key(Bits(keys[k]));
    out_hits[k] = (hits ? hits[k] : rows[k]) & 1;
  }
}

// Index of the last sorted score before `stop` that equals the one at k, by galloping (exponential) search.
template <typename T>
__device__ __forceinline__ i64 last_equal(const T* scores, i64 k, i64 stop) {
  const auto key = to_descending_key(scores[k]);
  const auto equal = [&](i64 other) { return other <= stop && to_descending_key(scores[other]) == key; };
  i64 step = 1;
  for (; equal(k + step); step *= 2) k += step;
  for (step /= 2; step > 0; step /= 2)
    if (equal(k + step)) k += step;
  return k;
}

// `hits` is a prefix sum over all rows. Tied scores share a threshold: each gets the counts at the last of them.
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
