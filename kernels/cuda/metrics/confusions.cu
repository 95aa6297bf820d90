// One-vs-rest tables, row-normalised confusions, the largest confusions, and class sums counted from labels.

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

// The `most` largest off-diagonal cells, by insertion sort: cells come row by row, so that ties keep that order.
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

constexpr int LABELS_AHEAD = 4;  // pairs that a thread loads before it counts the first

// out is (5, rows, groups, classes): the five class sums of label pairs (diagonal, margins, bands, tops). A block
// processes one of `parts` parts of a row; with HELD, for one group only, it counts in shared memory first, in `copies`
// sets of counters, so that neighbouring lanes use different ones.
template <int HELD>
__global__ void cmfast_label_margins_count(const i64* __restrict__ y_true, const i64* __restrict__ y_pred,
                                           const i64* __restrict__ groups, i64 n, i64 rows, i64 parts, i64 n_classes,
                                           i64 n_groups, int ignores, i64 ignored, int copies, u64* out,
                                           u64* out_outside) {
  CM_DYN_SMEM(unsigned, held);
  const int size = HELD ? int(5 * n_classes) : 0;
  const i64 part = (n + parts - 1) / parts;
  unsigned* own = held + threadIdx.x % copies * size;
  i64 outside = 0;
  for (i64 job = blockIdx.x; job < rows * parts; job += gridDim.x) {
    const i64 row = job / parts, begin = job % parts * part, last = min(n, begin + part) - 1;
    if (HELD) {
      for (int k = threadIdx.x; k < size * copies; k += CM_THREADS) held[k] = 0;
      __syncthreads();
    }
    const auto add = [&](int which, i64 group, i64 k) {
      if (HELD)
        atomicAdd(&own[which * int(n_classes) + int(k)], 1u);
      else
        atomicAdd(&out[((which * rows + row) * n_groups + group) * n_classes + k], u64(1));
    };
    for (i64 first = begin + threadIdx.x; first <= last; first += LABELS_AHEAD * CM_THREADS) {
      i64 t[LABELS_AHEAD], p[LABELS_AHEAD], group[LABELS_AHEAD];
#pragma unroll
      for (int u = 0; u < LABELS_AHEAD; ++u) {
        const i64 k = row * n + min(first + u * CM_THREADS, last);
        t[u] = y_true[k];
        p[u] = y_pred[k];
        group[u] = groups ? groups[k] : 0;
      }
#pragma unroll
      for (int u = 0; u < LABELS_AHEAD; ++u) {
        if (first + u * CM_THREADS > last || (ignores && t[u] == ignored)) continue;
        if (u64(t[u]) >= u64(n_classes) || u64(p[u]) >= u64(n_classes)) {
          ++outside;
          continue;
        }
        if (t[u] == p[u]) add(0, group[u], t[u]);
        add(1, group[u], t[u]);
        add(2, group[u], p[u]);
        add(3, group[u], t[u] < p[u] ? p[u] - t[u] : t[u] - p[u]);
        add(4, group[u], max(t[u], p[u]));
      }
    }
    if (HELD) {
      __syncthreads();
      for (int k = threadIdx.x; k < size; k += CM_THREADS) {
        u64 total = 0;
        for (int copy = 0; copy < copies; ++copy) total += held[copy * size + k];
        if (total) atomicAdd(&out[(k / n_classes * rows + row) * n_classes + k % n_classes], total);
      }
      __syncthreads();
    }
  }
  outside = team_sum<CM_THREADS>(outside);
  if (threadIdx.x == 0 && outside) atomicAdd(out_outside, u64(outside));
}
