// Overlap, L1 distance and KL divergence of pairs of matrices, each divided by its own total; and their gradients.

// Whether the reciprocal is a normal number: then a product with it is accurate enough and takes a quarter of a
// division.
__device__ __forceinline__ bool invertible(double x) { return x > 0x1p-1000 && x < 0x1p1000; }

template <typename T, int W, typename Term>
__device__ __forceinline__ void compare(const T* P, int p_step, const T* Q, int q_step, i64 cells, i64 n, double most,
                                        T* out, signed char* out_status, Term term) {
  for (Team<W> team(n); team.more(); team.next()) {
    const T* p = P + team.matrix() * p_step * cells;
    const T* q = Q + team.matrix() * q_step * cells;
    double s = 0.0, t = 0.0;
    bool bad = false;
    for (i64 k = team.rank; k < cells; k += W) {
      const double x = widen(p[k]), y = widen(q[k]);
      bad |= !(x >= 0.0 && x < CM_INF && y >= 0.0 && y < CM_INF);
      s += x;
      t += y;
    }
    s = team_sum<W>(s);
    t = team_sum<W>(t);
    bad = team_any<W>(bad) || !(s < CM_INF && t < CM_INF);
    double total = 0.0;
    if (invertible(s) && invertible(t)) {
      const double by_s = 1.0 / s, by_t = 1.0 / t;
#pragma unroll 4
      for (i64 k = team.rank; k < cells; k += W) total += term(widen(p[k]) * by_s, widen(q[k]) * by_t);
    } else {
#pragma unroll 1
      for (i64 k = team.rank; k < cells; k += W) total += term(widen(p[k]) / s, widen(q[k]) / t);
    }
    total = fmin(team_sum<W>(total), most);
    if (team.mine() && team.rank == 0) {
      const int status = bad ? CM_INVALID : s == 0.0 || t == 0.0 ? CM_ZERO_LINE : CM_CONVERGED;
      out[team.matrix()] = narrow<T>(status == CM_CONVERGED ? total : CM_NAN);
      out_status[team.matrix()] = status;
    }
  }
}

template <typename T, int W>
__global__ void cmfast_overlap_pairs(const T* __restrict__ P, int p_step, const T* __restrict__ Q, int q_step,
                                     i64 cells, i64 n, T* __restrict__ out, signed char* __restrict__ out_status) {
  const double most = 1.0;  // rounding alone can exceed one
  compare<T, W>(P, p_step, Q, q_step, cells, n, most, out, out_status, [](double x, double y) { return fmin(x, y); });
}

template <typename T, int W>
__global__ void cmfast_l1_distance_pairs(const T* __restrict__ P, int p_step, const T* __restrict__ Q, int q_step,
                                         i64 cells, i64 n, T* __restrict__ out, signed char* __restrict__ out_status) {
  compare<T, W>(P, p_step, Q, q_step, cells, n, CM_INF, out, out_status,
                [](double x, double y) { return fabs(x - y); });
}

// x log(x/y) - x + y, which is nonnegative: unlike x log(x/y), it cannot cancel between cells.
__device__ __forceinline__ double kl_term(double x, double y) {
  if (x == 0.0) return y;
  const double d = (y - x) / x;
  // d - log(1 + d) by its series: the difference itself would lose all digits of nearly equal cells.
  if (fabs(d) < 0.01)
    return x * d * d * (1. / 2 - d * (1. / 3 - d * (1. / 4 - d * (1. / 5 - d * (1. / 6 - d * (1. / 7 - d / 8))))));
  return x * log(x / y) - x + y;
}

template <typename T, int W>
__global__ void cmfast_kl_divergence_pairs(const T* __restrict__ P, int p_step, const T* __restrict__ Q, int q_step,
                                           i64 cells, i64 n, T* __restrict__ out,
                                           signed char* __restrict__ out_status) {
  compare<T, W>(P, p_step, Q, q_step, cells, n, CM_INF, out, out_status, kl_term);
}

// Derivatives of a cell's term in both shares.
struct Slopes {
  double first, second;
};

// At a tie, the mean of the one-sided derivatives.
__device__ __forceinline__ Slopes slopes_of(int of, double x, double y) {
  if (of == CM_KL) {
    if (x == 0.0) return {y > 0.0 ? -CM_INF : 0.0, 0.0};
    return {log(x / y), -x / y};
  }
  const double side = x < y ? 0.5 : x > y ? -0.5 : 0.0;
  if (of == CM_L1) return {-2.0 * side, 2.0 * side};
  return {0.5 + side, 0.5 - side};
}

template <typename T, int W>
__global__ void cmfast_comparison_gradient_pairs(const T* __restrict__ P, int p_step, const T* __restrict__ Q,
                                                 int q_step, const double* __restrict__ G, i64 cells, i64 n, int of,
                                                 T* __restrict__ out_s, T* __restrict__ out_t) {
  for (Team<W> team(n); team.more(); team.next()) {
    const i64 b = team.matrix();
    const T* p = P + b * p_step * cells;
    const T* q = Q + b * q_step * cells;
    double s = 0.0, t = 0.0;
    bool bad = false;
    for (i64 k = team.rank; k < cells; k += W) {
      const double x = widen(p[k]), y = widen(q[k]);
      bad |= !(x >= 0.0 && y >= 0.0);
      s += x;
      t += y;
    }
    s = team_sum<W>(s);
    t = team_sum<W>(t);
    const bool good = !team_any<W>(bad) && s > 0.0 && s < CM_INF && t > 0.0 && t < CM_INF;
    double mean = 0.0, other = 0.0;
    for (i64 k = team.rank; k < cells; k += W) {
      const double x = widen(p[k]) / s, y = widen(q[k]) / t;
      const Slopes slopes = slopes_of(of, x, y);
      mean += x > 0.0 ? x * slopes.first : 0.0;
      other += y * slopes.second;
    }
    mean = team_sum<W>(mean);
    other = team_sum<W>(other);
    for (i64 k = team.mine() ? team.rank : cells; k < cells; k += W) {
      const Slopes slopes = slopes_of(of, widen(p[k]) / s, widen(q[k]) / t);
      out_s[b * cells + k] = narrow<T>(good ? G[b] * ((slopes.first - mean) / s) : CM_NAN);
      out_t[b * cells + k] = narrow<T>(good ? G[b] * ((slopes.second - other) / t) : CM_NAN);
    }
  }
}
