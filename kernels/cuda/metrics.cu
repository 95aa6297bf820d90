// The sums of confusion matrices that every metric is made of.
//
// One thread makes the five sums of a class, each in the order of the cells: neighbours in a warp then read neighbours in
// memory for the sums along columns, and what the sums along rows read comes from the first cache.

__device__ __forceinline__ i64 plus(i64 a, i64 b) { return i64(u64(a) + u64(b)); }  // wraps; the status says so
__device__ __forceinline__ double plus(double a, double b) { return a + b; }

// What makes a matrix invalid, gathered cell by cell.
struct Doubt {
  bool bad = false;
  u64 high = 0, low = 0;  // halves of the cells, so that a sum beyond int64 is seen

  __device__ __forceinline__ void see(i64 x) {
    bad |= x < 0;
    high += u64(x) >> 32;
    low += u64(x) & 0xffffffffu;
  }
  __device__ __forceinline__ void see(double x) { bad |= !(x >= 0.0 && x < CM_INF); }
};

template <int W>
__device__ __forceinline__ bool invalid(const Doubt& doubt, i64) {
  const u64 high = team_sum<W>(doubt.high), low = team_sum<W>(doubt.low);
  const bool crowded = high + (low >> 32) > 0x7fffffffu;
  return team_any<W>(doubt.bad) || crowded;
}

template <int W>
__device__ __forceinline__ bool invalid(const Doubt& doubt, double total) {
  return team_any<W>(doubt.bad) || !(total < CM_INF);
}

__device__ __forceinline__ i64 blank(i64) { return 0; }
__device__ __forceinline__ double blank(double) { return CM_NAN; }

__device__ __forceinline__ i64 cell(i64 x) { return x; }
__device__ __forceinline__ i64 cell(int x) { return x; }
__device__ __forceinline__ double cell(double x) { return x; }
__device__ __forceinline__ double cell(float x) { return widen(x); }

// out is (5, n, C): diagonal, row sums, column sums, sums by distance from the diagonal, sums by larger class.
template <typename T, typename S, int W>
__global__ void cmfast_margins_sums(const T* __restrict__ M, i64 C, i64 n, S* __restrict__ out,
                                    S* __restrict__ out_total, signed char* __restrict__ out_status) {
  for (Team<W> team(n); team.more(); team.next()) {
    const T* m = M + team.matrix() * C * C;
    Doubt doubt;
    S total = 0;
    for (i64 k = team.rank; k < C; k += W) {
      S row = 0;
      for (i64 j = 0; j < C; ++j) {
        const S x = cell(m[k * C + j]);
        doubt.see(x);
        row = plus(row, x);
      }
      total = plus(total, row);
    }
    total = team_reduce<W>(total, [](S a, S b) { return plus(a, b); });
    const bool bad = invalid<W>(doubt, total);
    if (!team.mine()) continue;
    for (i64 k = team.rank; k < C; k += W) {
      S row = 0, col = 0, top = 0, above = 0, below = 0;
      for (i64 j = 0; j < C; ++j) {
        if (j == k) top = plus(col, plus(row, cell(m[k * C + k])));
        row = plus(row, cell(m[k * C + j]));
        col = plus(col, cell(m[j * C + k]));
      }
      for (i64 i = 0; i + k < C; ++i) {
        above = plus(above, cell(m[i * C + i + k]));
        below = plus(below, cell(m[(i + k) * C + i]));
      }
      const S sums[5] = {cell(m[k * C + k]), row, col, k ? plus(above, below) : above, top};
#pragma unroll
      for (int part = 0; part < 5; ++part) out[(part * n + team.matrix()) * C + k] = bad ? blank(total) : sums[part];
    }
    if (team.rank == 0) {
      out_total[team.matrix()] = bad ? blank(total) : total;
      out_status[team.matrix()] = bad ? CM_INVALID : CM_CONVERGED;
    }
  }
}
