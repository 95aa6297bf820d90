// Derivatives of one metric in the cells, from lines `step` apart as in kernels/cuda/metrics/slopes.cuh.

// Derivatives of a whole-matrix metric: lines of diagonal, row, column and, if `ordered`, band and top.
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

// Derivatives of a value of class k: in diagonal, row, column and total.
struct ClassSlopes {
  const double* first;
  i64 step, k;

  __device__ __forceinline__ double operator()(i64 i, i64 j) const {
    double slope = (i == k ? first[step] : 0.0) + (j == k ? first[2 * step] : 0.0);
    if (i == k && j == k) slope += first[0];
    return slope + first[3 * step];
  }
};

// Derivatives of result number k of a plan for one of `step` matrices: scalars first, then per-class values.
struct NumberSlopes {
  CellSlopes whole;
  ClassSlopes own;
  bool is_whole;

  __device__ __forceinline__ NumberSlopes(const double* numbers, const double* classes, i64 step, i64 matrix, i64 C,
                                          bool ordered, i64 n_scalars, i64 number)
      : whole{numbers + number * ((ordered ? 5 : 3) * C + 1) * step + matrix, step, C, ordered},
        own{classes + (number - n_scalars) * 4 * step + matrix, step, (number - n_scalars) % max(C, i64(1))},
        is_whole(number < n_scalars) {}
  __device__ __forceinline__ double operator()(i64 i, i64 j) const { return is_whole ? whole(i, j) : own(i, j); }
};
