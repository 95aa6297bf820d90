// Delta-method standard errors of normalised cells and their accelerations, one block per matrix. Operations and their
// order are those of kernels/cpu/uncertainty/cell_errors.py, which derives them.

// Workspace of a block; the square matrices only for bi-normalised matrices.
struct Work {
  double *t, *p, *faults;                    // C each
  double* lines;                             // 3 C
  double* known;                             // the total, and what is wrong
  Square left, inverse, variances, product;  // of C rows, then 2 C each

  __device__ __forceinline__ Work(double* first, int C)
      : t(first),
        p(t + C),
        faults(p + C),
        lines(faults + C),
        known(lines + 3 * C),
        left{known + 2, C},
        inverse{left.first + C * C, 2 * C},
        variances{inverse.first + 4 * C * C, 2 * C},
        product{variances.first + 4 * C * C, 2 * C} {}
};

__device__ __forceinline__ void multiply(const Square& A, const Square& B, const Square& out) {
  out.each([&](int i, int j) {
    double x = 0.0;
    for (int k = 0; k < A.size; ++k) x += A(i, k) * B(k, j);
    out(i, j) = x;
  });
  __syncthreads();
}

// Write the standard errors of the cells of a bi-normalised matrix; `m` returns the samples of a cell.
template <typename Samples>
__device__ __forceinline__ void scaled(Samples m, const Square& P, const Work& work, const Square& out) {
  const int C = P.size;
  const Square &K = work.inverse, &N = work.variances, &T = work.product;
  invert(P, work.left, work.inverse, work.lines);
  const auto share = [&](int i, int j) { return P(i, j) > 0.0 ? P(i, j) * P(i, j) / m(i, j) : 0.0; };
  N.each([&](int i, int j) {
    double x = 0.0;
    if (i == j)
      for (int k = 0; k < C; ++k) x += i < C ? share(i, k) : share(k, j - C);
    else if (i < C && j >= C)
      x = share(i, j - C);
    else if (i >= C && j < C)
      x = share(j, i - C);
    N(i, j) = x;
  });
  __syncthreads();
  multiply(K, N, T);
  multiply(T, K, N);
  P.each([&](int a, int b) {
    const double p = P(a, b), own = K(a, a) + 2.0 * K(a, C + b) + K(C + b, C + b);
    const double rest = N(a, a) + 2.0 * N(a, C + b) + N(C + b, C + b);
    const double variance = p > 0.0 ? p * p * ((1.0 - 2.0 * p * own) / m(a, b) + rest) : 0.0;
    out(a, b) = sqrt(variance > 0.0 ? variance : 0.0);
  });
}

// Write the accelerations of the cells of a bi-normalised matrix.
template <typename Samples>
__device__ __forceinline__ void accelerate_scaled(Samples m, const Square& P, const Square& K, const Square& out) {
  const int C = P.size;
  P.each([&](int a, int b) {
    double squares = 0.0, cubes = 0.0;
    for (int k = 0; k < C; ++k) {
      const double row = K(a, k) + K(C + b, k);
      for (int j = 0; j < C; ++j) {
        if (!(P(k, j) > 0.0)) continue;
        const double own = k == a && j == b ? 1.0 : 0.0, x = own - P(k, j) * (row + K(a, C + j) + K(C + b, C + j));
        squares += x * x / m(k, j);
        cubes += x * x * x / (m(k, j) * m(k, j));
      }
    }
    const bool bent = P(a, b) > 0.0 && squares > CM_MOST_ROUNDING_VARIANCE;
    out(a, b) = bent ? cubes / (6.0 * squares * sqrt(squares)) : 0.0;
  });
}

// Write standard errors and accelerations of cells divided by the total, their row sum or their column sum.
template <typename Samples>
__device__ __forceinline__ void divided(Samples m, const Square& P, int of, bool rows, const Work& work, double n,
                                        const Square& out, const Square& bends) {
  P.each([&](int i, int j) {
    const double x = P(i, j), size = of == CM_OF_ALL ? n : of == CM_OF_ROW ? work.t[i] : work.p[j];
    double squares = 0.0, cubes = 0.0;
    if (rows && of == CM_OF_COL) {
      for (int k = 0; k < P.size; ++k) {  // binomial variances of every row
        const double t = work.t[k], q = t > 0.0 ? m(k, j) / t : 0.0, g = (k == i ? 1.0 : 0.0) - x;
        squares += t * q * (1.0 - q) * g * g;
        cubes += t * q * (1.0 - q) * (1.0 - 2.0 * q) * g * g * g;
      }
    } else {
      const double whole = rows ? work.t[i] : size, q = whole > 0.0 ? m(i, j) / whole : 0.0;
      squares = whole * q * (1.0 - q);
      cubes = whole * q * (1.0 - q) * (1.0 - 2.0 * q);
    }
    out(i, j) = sqrt(size > 0.0 ? squares / (size * size) : 0.0);
    bends(i, j) = squares > 0.0 ? cubes / (6.0 * squares * sqrt(squares)) : 0.0;
  });
}

// Standard errors of normalised matrices of M, and their status: INVALID if they are not counts and `wanted` gives no
// number of samples; others that were not normalised get NaN. Without `memory` (`words` values per block) the workspace
// is shared memory.
__global__ void cmfast_cell_errors_matrices(const double* __restrict__ M, double* normalized, int C, i64 n, int of,
                                            int rows, int bent, double wanted, double* memory, i64 words, double* out,
                                            double* out_bends, signed char* __restrict__ out_status) {
  CM_DYN_SMEM(double, held);
  constexpr double WRONG = 2.0, FRACTION = 1.0;
  const Work work(memory ? memory + blockIdx.x * words : held, C);
  for (i64 b = blockIdx.x; b < n; b += gridDim.x) {
    const i64 first = b * C * C;
    const double* cells = M + first;
    const Square P{normalized + first, C}, errors{out + first, C}, bends{out_bends + first, C};
    __syncthreads();  // all threads have read the previous matrix
    for (int k = threadIdx.x; k < C; k += blockDim.x) {
      double t = 0.0, p = 0.0, fault = 0.0;
      for (int j = 0; j < C; ++j) {
        const double x = cells[i64(k) * C + j], y = P(k, j);
        if (!(x >= 0.0 && x < CM_INF && y - y == 0.0)) fault = WRONG;
        if (x != floor(x)) fault = max(fault, FRACTION);
        t += x;
        p += cells[i64(j) * C + k];
      }
      work.t[k] = t;
      work.p[k] = p;
      work.faults[k] = fault;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      double total = 0.0, fault = 0.0;
      for (int k = 0; k < C; ++k) {
        total += work.t[k];
        fault = max(fault, work.faults[k]);
      }
      work.known[0] = total;
      work.known[1] = fault;
    }
    __syncthreads();
    const double total = work.known[0], fault = work.known[1];
    const bool fraction = fault == FRACTION && wanted < 0.0;
    if (threadIdx.x == 0) out_status[b] = fraction ? CM_INVALID : CM_CONVERGED;
    if (fraction || fault == WRONG) {
      P.each([&](int i, int j) { errors(i, j) = bends(i, j) = CM_NAN; });
      continue;
    }
    const double factor = wanted >= 0.0 && total > 0.0 ? wanted / total : 1.0;
    for (int k = threadIdx.x; k < C; k += blockDim.x) {
      work.t[k] *= factor;
      work.p[k] *= factor;
    }
    __syncthreads();
    const auto m = [&](int i, int j) { return cells[i64(i) * C + j] * factor; };
    if (of == CM_OF_BI) {
      scaled(m, P, work, errors);
      if (bent) accelerate_scaled(m, P, work.inverse, bends);
    } else {
      divided(m, P, of, rows != 0, work, total * factor, errors, bends);
    }
  }
}
