// Slopes of one number of a matrix in its cells, of lines that lie `step` apart: see kernels/cuda/metrics/slopes.cuh.

// Of a number of the matrix: lines of the diagonal, row, column, and of band and top if the classes are `ordered`.
struct CellSlopes {
  const double* first;
  i64 step, C;
  bool ordered;

  __device__ __forceinline__ double line(i64 k) const { return first[k * step]; }
  __device__ __forceinline__ double operator()(i64 i, i64 j) const {
    double slope = line(C + i) + line((ordered ? 5 : 3) * C) + line(2 * C + j);
    if (i == j) slope += line(i);
    return ordered ? slope + (line(3 * C + (i < j ? j - i : i - j)) + line(4 * C + max(i, j))) : slope;
  }
};
