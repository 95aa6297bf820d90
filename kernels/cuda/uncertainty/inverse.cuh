// The inverse that tells how the sums of a scaled matrix move its factors: as kernels/cpu/uncertainty/cell_errors.py.

// Square matrices in a row, and how a block goes over the cells of one.
struct Square {
  double* first;
  int size;

  __device__ __forceinline__ double& operator()(int i, int j) const { return first[i * size + j]; }
  template <typename F>
  __device__ __forceinline__ void each(F f) const {
    for (int k = threadIdx.x; k < size * size; k += blockDim.x) f(k / size, k % size);
  }
};

// Fill K, of twice as many lines, with an inverse of [[1, P], [P', 1]], which a block does together; L and `lines`, of
// 3 C numbers, are worked in. A column whose pivot is nothing depends on those before it, and is left at 0.
__device__ __forceinline__ void invert(const Square& P, const Square& L, const Square& K, double* lines) {
  const int C = P.size;
  double *factors = lines, *line = factors + C, *other = line + C;
  K.each([&](int i, int j) { K(i, j) = i == j ? 1.0 : 0.0; });
  L.each([&](int i, int j) {
    double x = i == j ? 1.0 : 0.0;
    for (int k = 0; k < C; ++k) x -= P(k, i) * P(k, j);
    L(i, j) = x;
  });
  for (int k = 0; k < C; ++k) {  // Gauss and Jordan
    __syncthreads();
    const double pivot = L(k, k), one = 1.0 / pivot;
    const bool nothing = pivot <= CM_LEAST_LAPLACIAN_PIVOT;
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
      factors[i] = i == k ? 0.0 : L(i, k);
      line[i] = L(k, i) * one;
      other[i] = K(C + k, C + i) * one;
    }
    __syncthreads();
    L.each([&](int i, int j) {
      double &x = L(i, j), &y = K(C + i, C + j);
      if (nothing) {
        if (i == k || j == k) x = y = 0.0;
      } else if (i == k) {
        x = line[j];
        y = other[j];
      } else if (factors[i] != 0.0) {
        x -= factors[i] * line[j];
        y -= factors[i] * other[j];
      }
    });
  }
  __syncthreads();
  P.each([&](int a, int j) {
    double x = 0.0;
    for (int k = 0; k < C; ++k) x -= P(a, k) * K(C + k, C + j);
    K(a, C + j) = K(C + j, a) = x;
  });
  __syncthreads();
  P.each([&](int a, int i) {
    double x = a == i ? 1.0 : 0.0;
    for (int k = 0; k < C; ++k) x -= K(a, C + k) * P(i, k);
    K(a, i) = x;
  });
  __syncthreads();
}
