// Product of a packed sparse symmetric matrix with a vector, and the vector operations of conjugate gradients.
//
// A pixel is stored in the rows of both of its bins, so that all sums are gathered, each by one warp in a fixed order:
// row i of the first half holds bins after i, row n + i those before. Pixels that do not fit two bytes are stored
// separately.

template <typename G, typename V>
struct Pixels {
  const i64* first;
  const G* gap;
  const V* value;
  const i64* rest_first;
  const i64* rest_gap;
  const double* rest_value;
  i64 n;

  // Call `each` with the other bin and the value of the pixels of bin i in one half, from `lane` on with stride
  // `lanes`.
  template <typename Each>
  __device__ __forceinline__ void over(i64 i, int half, int lane, int lanes, Each each) const {
    const i64 row = half * n + i, way = half ? -1 : 1;
    const i64 stop = first[row + 1], rest_stop = rest_first[row + 1];
#pragma unroll 4
    for (i64 k = first[row] + lane; k < stop; k += lanes) each(i + way * i64(gap[k]), double(value[k]));
#pragma unroll 1
    for (i64 k = rest_first[row] + lane; k < rest_stop; k += lanes) each(i + way * rest_gap[k], rest_value[k]);
  }
};

// out = r * d + x * (A @ w); without r the row sums alone.
template <typename G, typename V>
__global__ void cmfast_balance_product(const i64* __restrict__ first, const G* __restrict__ gap,
                                       const V* __restrict__ value, const i64* __restrict__ rest_first,
                                       const i64* __restrict__ rest_gap, const double* __restrict__ rest_value,
                                       const double* __restrict__ diagonal, const double* __restrict__ w,
                                       const double* __restrict__ x, const double* __restrict__ r,
                                       const double* __restrict__ d, i64 n, double* __restrict__ out) {
  const Pixels<G, V> pixels{first, gap, value, rest_first, rest_gap, rest_value, n};
  for (Team<32> team(n); team.more(); team.next()) {
    const i64 i = team.matrix();
    double total = 0.0;
    for (int half = 0; half < 2; ++half)
      pixels.over(i, half, team.rank, 32, [&](i64 j, double v) { total += v * w[j]; });
    total = x[i] * (team_sum<32>(total) + diagonal[i] * w[i]);
    if (team.mine() && team.rank == 0) out[i] = r ? r[i] * d[i] + total : total;
  }
}

// The smallest scaled pixel of each row.
template <typename G, typename V>
__global__ void cmfast_balance_least(const i64* __restrict__ first, const G* __restrict__ gap,
                                     const V* __restrict__ value, const i64* __restrict__ rest_first,
                                     const i64* __restrict__ rest_gap, const double* __restrict__ rest_value,
                                     const double* __restrict__ diagonal, const double* __restrict__ x, i64 n,
                                     double* __restrict__ out) {
  const Pixels<G, V> pixels{first, gap, value, rest_first, rest_gap, rest_value, n};
  for (Team<32> team(n); team.more(); team.next()) {
    const i64 i = team.matrix();
    double least = diagonal[i] > 0.0 ? diagonal[i] * x[i] * x[i] : CM_INF;
    pixels.over(i, 0, team.rank, 32, [&](i64 j, double v) { least = fmin(least, x[i] * v * x[j]); });
    least = team_reduce<32>(least, [](double a, double b) { return fmin(a, b); });
    if (team.mine() && team.rank == 0) out[i] = least;
  }
}

// Best triangle of each row: its smallest scaled pixel (0 without a triangle) and its other two bins.
template <typename G, typename V>
__global__ void cmfast_balance_triangles(const i64* __restrict__ first, const G* __restrict__ gap,
                                         const V* __restrict__ value, const double* __restrict__ x, i64 n,
                                         double* __restrict__ out, i64* __restrict__ second, i64* __restrict__ third) {
  for (i64 i = i64(blockIdx.x) * CM_THREADS + threadIdx.x; i < n; i += i64(gridDim.x) * CM_THREADS) {
    double best = 0.0;
    i64 of_best = 0, and_of_best = 0;
    const i64 stop = min(first[i + 1], first[i] + CM_TRIANGLE_PIXELS);
    for (i64 k = first[i]; k + 1 < stop; ++k) {
      const i64 a = i + i64(gap[k]), b = i + i64(gap[k + 1]), end = first[a + 1];
      i64 low = first[a], high = end;
      while (low < high) {
        const i64 middle = (low + high) / 2;
        if (a + i64(gap[middle]) < b)
          low = middle + 1;
        else
          high = middle;
      }
      if (low == end || a + i64(gap[low]) != b) continue;
      const double sides = fmin(x[i] * x[a] * double(value[k]), x[i] * x[b] * double(value[k + 1]));
      const double least = fmin(sides, x[a] * x[b] * double(value[low]));
      if (least > best) {
        best = least;
        of_best = a;
        and_of_best = b;
      }
    }
    out[i] = best;
    second[i] = of_best;
    third[i] = and_of_best;
  }
}

// Call `term` for every bin of a chunk, and write the chunk's sum.
template <typename Term>
__device__ __forceinline__ void over_chunks(i64 n, double* dots, Term term) {
  for (i64 begin = i64(blockIdx.x) * CM_BINS_PER_BLOCK; begin < n; begin += i64(gridDim.x) * CM_BINS_PER_BLOCK) {
    const i64 end = min(n, begin + CM_BINS_PER_BLOCK);
    double dot = 0.0;
    for (i64 i = begin + threadIdx.x; i < end; i += CM_THREADS) dot += term(i);
    dot = team_sum<CM_THREADS>(dot);
    if (threadIdx.x == 0) dots[begin / CM_BINS_PER_BLOCK] = dot;
  }
}

__global__ void cmfast_balance_dot(const double* __restrict__ d, const double* __restrict__ moved, i64 n,
                                   double* __restrict__ dots) {
  over_chunks(n, dots, [=](i64 i) { return d[i] * moved[i]; });
}

// Move the solution to the minimum along the search direction, and update the residual. `out` is the curvature, the sum
// of `chunks` parts, and then the new energy by chunk; nothing moves if the curvature is not positive and finite.
__global__ void cmfast_balance_advance(const double* __restrict__ parts, i64 chunks, double energy,
                                       const double* __restrict__ d, const double* __restrict__ moved,
                                       const double* __restrict__ r, i64 n, double* __restrict__ step,
                                       double* __restrict__ left, double* __restrict__ z, double* __restrict__ out) {
  double curvature = 0.0;
  for (i64 k = threadIdx.x; k < chunks; k += CM_THREADS) curvature += parts[k];
  curvature = team_sum<CM_THREADS>(curvature);  // the same bits in every block
  if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = curvature;
  if (!(curvature > 0.0 && curvature < CM_INF)) return;
  const double alpha = energy / curvature;
  over_chunks(n, out + 1, [=](i64 i) {
    step[i] += alpha * d[i];
    const double now = left[i] - alpha * moved[i];
    left[i] = now;
    z[i] = now / r[i];
    return now * z[i];
  });
}

// Compute the next search direction, and its product with x.
__global__ void cmfast_balance_turn(double beta, const double* __restrict__ z, const double* __restrict__ x, i64 n,
                                    double* __restrict__ d, double* __restrict__ w) {
  for (i64 i = i64(blockIdx.x) * CM_THREADS + threadIdx.x; i < n; i += i64(gridDim.x) * CM_THREADS) {
    d[i] = z[i] + beta * d[i];
    w[i] = x[i] * d[i];
  }
}
