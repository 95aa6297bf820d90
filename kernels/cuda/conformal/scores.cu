// Conformal scores in fixed point: probabilities as integer multiples of 2^-52, whose sums do not depend on the order.

#define CM_ONE 0x3ff0000000000000LL  // bit pattern of 1.0

// A probability in units of 2^-52, rounded to even, read from the last bits of 1 + p.
__device__ __forceinline__ i64 units(double p) { return __double_as_longlong(1.0 + p) - CM_ONE; }

__device__ __forceinline__ u64 mixed(u64 x, i64 factor) { return (x ^ x >> 33) * u64(factor); }

__device__ __forceinline__ bool is_share(double x) { return x >= 0.0 && x <= 1.0; }

__device__ __forceinline__ double score(i64 before, i64 ahead, double p, double u, i64 penalty, i64 k_reg) {
  const i64 beyond = ahead + 1 - k_reg;
  const i64 sum = before + units(u * p), whole = i64(1) << 52;
  return double((sum < whole ? sum : whole) + penalty * (beyond > 0 ? beyond : 0)) * 0x1p-52;
}

// The SAPS or top-k score of the label with `ahead` labels before it in a row of this largest probability.
__device__ __forceinline__ double score_rank(int method, i64 ahead, double largest, double u, i64 penalty) {
  if (method == CM_TOP_K) return double(ahead) + u;
  if (ahead == 0) return double(units(u * largest)) * 0x1p-52;
  return double(units(largest) + penalty * (ahead - 1) + i64(rint(u * double(penalty)))) * 0x1p-52;
}

// Validate rows: probabilities whose sum fits int64, a draw in [0, 1], a group in range.
template <typename T, int W>
__global__ void cmfast_scores_rows(const T* __restrict__ P, const double* __restrict__ u,
                                   const i64* __restrict__ groups, i64 C, i64 n, i64 n_groups,
                                   signed char* __restrict__ out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const T* row = P + team.matrix() * C;
    bool bad = false;
    i64 total = 0;
    for (i64 j = team.rank; j < C; j += W) {
      const double p = widen(row[j]);
      const bool good = p >= -CM_OUTSIDE && p <= 1.0 + CM_OUTSIDE;
      bad |= !good;
      if (C > CM_SAFE && good) total += units(share(p)) >> 20;
    }
    bad = team_any<W>(bad);
    if (C > CM_SAFE) bad |= team_sum<W>(total) > i64(CM_MOST_TOTAL) << 32;
    if (team.mine() && team.rank == 0) {
      const i64 r = team.matrix(), g = groups ? groups[r] : 0;
      bad |= (u && !is_share(u[r])) || g < 0 || g >= n_groups;
      out_status[r] = bad ? CM_INVALID : CM_CONVERGED;
    }
  }
}

template <typename T, int W>
__global__ void cmfast_scores_labels(const T* __restrict__ P, const i64* __restrict__ y, const double* __restrict__ u,
                                     i64 C, i64 n, int method, i64 penalty, i64 k_reg, double* __restrict__ out,
                                     signed char* out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const i64 r = team.matrix(), label = y[r];
    const T* row = P + r * C;
    // A team beyond the batch must not read what that of the last row writes.
    const bool good = team.mine() && out_status[r] == CM_CONVERGED && label >= 0 && label < C;
    const double p = good ? share(row[label]) : 0.0;
    i64 before = 0, ahead = 0;
    double largest = 0.0;
    for (i64 j = team.rank; good && method != CM_LAC && j < C; j += W) {
      const double other = share(row[j]);
      largest = fmax(largest, other);
      if (other > p || (other == p && j < label)) {
        before += units(other);
        ++ahead;
      }
    }
    before = team_sum<W>(before);
    ahead = team_sum<W>(ahead);
    if (method >= CM_SAPS) largest = team_reduce<W>(largest, [](double a, double b) { return fmax(a, b); });
    __syncwarp();  // all lanes have read the status, which shuffles do not order
    if (team.mine() && team.rank == 0) {
      const double draw = u ? u[r] : 1.0;
      out[r] = !good               ? CM_NAN
               : method == CM_LAC  ? 1.0 - p
               : method >= CM_SAPS ? score_rank(method, ahead, largest, draw, penalty)
                                   : score(before, ahead, p, draw, penalty, k_reg);
      if (!good) out_status[r] = CM_INVALID;
    }
  }
}

// Score all labels of all rows by the mass ranked before each; NaN in invalid rows.
template <typename T>
__global__ void cmfast_scores_all(const T* __restrict__ P, const double* __restrict__ u,
                                  const signed char* __restrict__ status, i64 C, i64 n, int method, i64 penalty,
                                  i64 k_reg, double* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * C; k += i64(gridDim.x) * CM_THREADS) {
    const i64 r = k / C, label = k % C;
    const T* row = P + r * C;
    if (status[r] != CM_CONVERGED) {
      out[k] = CM_NAN;
      continue;
    }
    const double p = share(row[label]);
    if (method == CM_LAC) {
      out[k] = 1.0 - p;
      continue;
    }
    i64 before = 0, ahead = 0;
    double largest = 0.0;
    for (i64 j = 0; j < C; ++j) {
      const double other = share(row[j]);
      largest = fmax(largest, other);
      if (other > p || (other == p && j < label)) {
        before += units(other);
        ++ahead;
      }
    }
    const double draw = u ? u[r] : 1.0;
    out[k] = method >= CM_SAPS ? score_rank(method, ahead, largest, draw, penalty)
                               : score(before, ahead, p, draw, penalty, k_reg);
  }
}

// Uniform draw of every row, a hash of its probabilities and the keys; a sum modulo 2^64 does not depend on the order.
template <typename T, int W>
__global__ void cmfast_row_draws_rows(const T* __restrict__ P, const i64* __restrict__ keys, i64 C, i64 n,
                                      double* __restrict__ out) {
  for (Team<W> team(n); team.more(); team.next()) {
    const T* row = P + team.matrix() * C;
    u64 total = 0;
    for (i64 j = team.rank; j < C; j += W) total += u64(units(share(row[j]))) * u64(keys[j + 1]);
    total = team_sum<W>(total) + u64(keys[0]);
    const u64 found = mixed(mixed(total, CM_FIRST_FACTOR), CM_SECOND_FACTOR);
    if (team.mine() && team.rank == 0) out[team.matrix()] = double((found ^ found >> 33) >> 11) * 0x1p-53;
  }
}
