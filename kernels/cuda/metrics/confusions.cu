// Which classes are taken for which: one class against the rest, shares of the rows, the largest confusions.

__device__ __forceinline__ double number(double x) { return x; }
__device__ __forceinline__ double number(float x) { return widen(x); }
__device__ __forceinline__ double number(i64 x) { return double(x); }
template <typename O>
__device__ __forceinline__ O stored(double x) {
  return narrow<O>(x);
}
template <typename O>
__device__ __forceinline__ O stored(i64 x) {
  return x;
}

// out is (n, C, 2, 2): [[tn, fp], [fn, tp]] of every class.
template <typename S, typename O>
__global__ void cmfast_one_vs_rest_tables(const S* __restrict__ d, const S* __restrict__ t, const S* __restrict__ p,
                                          const S* __restrict__ totals, i64 C, i64 n, O* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * C; k += i64(gridDim.x) * CM_THREADS) {
    const S wrong = p[k] - d[k], rejected = (totals[k / C] - t[k]) - wrong;
    out[4 * k] = stored<O>(rejected < 0 ? S(0) : rejected);  // rounding of fractions; NaN stays
    out[4 * k + 1] = stored<O>(wrong);
    out[4 * k + 2] = stored<O>(S(t[k] - d[k]));
    out[4 * k + 3] = stored<O>(d[k]);
  }
}

template <typename T, typename S, typename O>
__global__ void cmfast_confusion_fractions_cells(const T* __restrict__ M, const S* __restrict__ t,
                                                 const signed char* __restrict__ status, i64 C, i64 n, double fill,
                                                 O* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * C * C; k += i64(gridDim.x) * CM_THREADS) {
    const S row = t[k / C];
    const double share = row > 0 ? number(M[k]) / number(row) : fill;
    out[k] = narrow<O>(status[k / (C * C)] == CM_CONVERGED ? share : CM_NAN);
  }
}

// The `most` largest, kept in order: cells come row by row, so an equal one that came before stays before.
template <typename T, typename S>
__global__ void cmfast_most_confused_cells(const T* __restrict__ M, const S* __restrict__ t,
                                           const signed char* __restrict__ status, i64 C, i64 n, int rate,
                                           int symmetric, i64 most, double* out, i64* out_row, i64* out_col) {
  for (i64 b = i64(blockIdx.x) * CM_THREADS + threadIdx.x; b < n; b += i64(gridDim.x) * CM_THREADS) {
    const T* m = M + b * C * C;
    const S* row = t + b * C;
    double* value = out + b * most;
    i64 found = 0;
    const bool bad = status[b] != CM_CONVERGED;
    for (i64 k = 0; bad && k < most; ++k) {
      value[k] = CM_NAN;
      out_row[b * most + k] = out_col[b * most + k] = -1;
    }
    for (i64 i = 0; !bad && i < C; ++i)
      for (i64 j = symmetric ? i + 1 : 0; j < C; ++j) {
        if (i == j) continue;
        double x = number(m[i * C + j]), y = number(m[j * C + i]);
        if (rate) {
          x = row[i] > 0 ? x / number(row[i]) : 0.0;
          y = row[j] > 0 ? y / number(row[j]) : 0.0;
        }
        if (symmetric) x += y;
        if (found == most && !(x > value[most - 1])) continue;
        i64 place = found < most ? found : most - 1;
        for (; place > 0 && value[place - 1] < x; --place) {
          value[place] = value[place - 1];
          out_row[b * most + place] = out_row[b * most + place - 1];
          out_col[b * most + place] = out_col[b * most + place - 1];
        }
        value[place] = x;
        out_row[b * most + place] = i;
        out_col[b * most + place] = j;
        found = min(found + 1, most);
      }
  }
}

// out is (5, rows, classes): what the matrices of the labels have as diagonal, margins, bands and tops.
__global__ void cmfast_label_margins_count(const i64* __restrict__ y_true, const i64* __restrict__ y_pred, i64 n,
                                           i64 rows, i64 n_classes, u64* out, u64* out_outside) {
  i64 outside = 0;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < rows * n; k += i64(gridDim.x) * CM_THREADS) {
    const i64 t = y_true[k], p = y_pred[k];
    if (u64(t) >= u64(n_classes) || u64(p) >= u64(n_classes)) {
      ++outside;
      continue;
    }
    u64* own = out + k / n * n_classes;
    const i64 part = rows * n_classes;
    if (t == p) atomicAdd(&own[t], u64(1));
    atomicAdd(&own[part + t], u64(1));
    atomicAdd(&own[2 * part + p], u64(1));
    atomicAdd(&own[3 * part + (t < p ? p - t : t - p)], u64(1));
    atomicAdd(&own[4 * part + max(t, p)], u64(1));
  }
  outside = team_sum<CM_THREADS>(outside);
  if (threadIdx.x == 0 && outside) atomicAdd(out_outside, u64(outside));
}
