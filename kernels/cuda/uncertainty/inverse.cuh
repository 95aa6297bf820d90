// Generalised inverse of the Laplacian of a bi-normalised matrix, as kernels/cpu/uncertainty/cell_errors.py.

// A square matrix stored by rows, and a loop of a block over its cells.
struct Square {
  double* first;
  int size;

  __device__ __forceinline__ double& operator()(int i, int j) const { return first[i * size + j]; }
  template <typename F>
  __device__ __forceinline__ void each(F f) const {
    for (int k = threadIdx.x; k < size * size; k += blockDim.x) f(k / size, k % size);
  }
};

// Write to K, 2 C x 2 C, a generalised inverse of [[1, P], [P', 1]] by its Schur complement, one block together; L and
// `lines` (3 C values) are workspaces. A column whose pivot is negligible depends on earlier ones and is left 0.
__device__ __forceinline__ void invert(const Square& P, const Square& L, const Square& K, double* lines) {
  const int C = P.size;
  double *factors = lines, *line = factors + C, *other = line + C;
  K.each([&](int i, int j) { K(i, j) = i == j ? 1.0 : 0.0; });
  L.each([&](int i, int j) {
    double x = i == j ? 1.0 : 0.0;
    for (int k = 0; k < C; ++k) x -= P(k, i) * P(k, j);
    L(i, j) = x;
  });
  for (int k = 0; k < C; ++k) {  // Gauss-Jordan elimination
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
