// Replicates and standard errors of normalised cells for clustered or stratified samples, as
// kernels/cpu/uncertainty/cluster_cells.py, which derives them.

// Draw replicates of the sum of the parts of every element, shape (n, n_resamples, C, C), zeros initially; one thread
// per replicate.
__global__ void cmfast_cluster_replicates_cells(const i64* __restrict__ counts, const i64* __restrict__ order,
                                                const i64* __restrict__ starts, const signed char* __restrict__ status,
                                                i64 n, i64 n_parts, i64 n_strata, i64 C, int clustered, i64 wanted,
                                                i64 n_resamples, const i64* __restrict__ numbers, u64 seed, i64* out) {
  const Clusters parts{counts, order, starts, n_parts, C, clustered != 0};
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * n_resamples; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = k / n_resamples;
    if (status[b] != CM_CONVERGED) continue;
    parts.draw(b, number_of(numbers, b), k % n_resamples, n_strata, wanted, seed,
               [&](i64 x, i64 i, i64 j) { out[(k * C + i) * C + j] += x; });
  }
}

// Workspace of a block; the last two square matrices only for bi-normalised matrices.
struct Work {
  double *sizes, *faults;               // C each: the sums that cells are divided by, and whether a row is invalid
  double *own, *moved;                  // 2 C each
  double* lines;                        // 3 C
  Square mean, squares, left, inverse;  // C rows each, the last one 2 C

  __device__ __forceinline__ Work(double* first, int C)
      : sizes(first),
        faults(sizes + C),
        own(faults + C),
        moved(own + 2 * C),
        lines(moved + 2 * C),
        mean{lines + 3 * C, C},
        squares{mean.first + C * C, C},
        left{squares.first + C * C, C},
        inverse{left.first + C * C, 2 * C} {}
};

// Samples of one resampling unit in a cell.
struct Unit {
  const i64* cells;
  i64 only;  // cell of a single sample; -1: all cells

  __device__ __forceinline__ double operator()(i64 c) const { return only < 0 ? double(cells[c]) : c == only; }
};

// Call `use` with every unit of element b in a stratum that begins at part `from`, and with the number of such units.
template <typename Use>
__device__ __forceinline__ void over_units(const Clusters& parts, i64 b, i64 from, i64 kinds, Use use) {
  const i64 squares = parts.squares();
  for (i64 k = 0; k < kinds; ++k) {
    const double units = double(parts.units(b, from, k));
    if (!(units > 0.0)) continue;
    const Unit unit{parts.part(b, from + (parts.clustered ? k : k / squares)), parts.clustered ? -1 : k % squares};
    use(unit, units);
  }
}

// Call `use` with the change of every cell of the normalised matrix P of M by the unit.
template <typename Use>
__device__ __forceinline__ void move(const Unit& unit, const i64* M, const Square& P, int of, const Work& work,
                                     Use use) {
  const int C = P.size;
  __syncthreads();  // all threads have read the previous unit
  for (int line = threadIdx.x; line < 2 * C; line += blockDim.x) {
    double sum = 0.0;
    for (int k = 0; k < C; ++k) {
      const int i = line < C ? line : k, j = line < C ? k : line - C;
      const double x = unit(i64(i) * C + j);
      if (x > 0.0) sum += of == CM_OF_BI ? P(i, j) * (x / double(M[i64(i) * C + j])) : x;
    }
    work.own[line] = sum;
  }
  __syncthreads();
  if (of == CM_OF_BI) {
    for (int line = threadIdx.x; line < 2 * C; line += blockDim.x) {
      double sum = 0.0;
      for (int k = 0; k < 2 * C; ++k) sum += work.inverse(line, k) * work.own[k];
      work.moved[line] = sum;
    }
    __syncthreads();
  }
  double all = 0.0;
  for (int k = 0; k < C && of == CM_OF_ALL; ++k) all += work.own[k];
  P.each([&](int i, int j) {
    const double x = unit(i64(i) * C + j), samples = double(M[i64(i) * C + j]);
    if (of == CM_OF_BI) {
      const double direct = x > 0.0 ? P(i, j) * (x / samples) : 0.0;
      use(i, j, direct - P(i, j) * (work.moved[i] + work.moved[C + j]));
    } else {
      const double size = work.sizes[of == CM_OF_COL ? j : i];
      const double brought = of == CM_OF_ALL ? all : work.own[of == CM_OF_ROW ? i : C + j];
      use(i, j, size > 0.0 ? (x - samples / size * brought) / size : 0.0);
    }
  });
}

// Standard errors and accelerations of the cells that the sums `totals` of all parts are normalised to, and the status;
// elements that were not normalised get NaN. One block per element; without `memory` (`words` values per block) the
// workspace is shared memory.
__global__ void cmfast_cluster_cell_errors_matrices(const i64* __restrict__ counts, const i64* __restrict__ order,
                                                    const i64* __restrict__ starts, const i64* __restrict__ totals,
                                                    double* normalized, i64 n, i64 n_parts, i64 n_strata, int C, int of,
                                                    int clustered, i64 wanted, double* memory, i64 words, double* out,
                                                    double* out_bends, signed char* out_status) {
  CM_DYN_SMEM(double, held);
  const Clusters parts{counts, order, starts, n_parts, C, clustered != 0};
  const Work work(memory ? memory + blockIdx.x * words : held, C);
  for (i64 b = blockIdx.x; b < n; b += gridDim.x) {
    const i64 first = b * C * C;
    const i64* M = totals + first;
    const Square P{normalized + first, C}, errors{out + first, C}, bends{out_bends + first, C};
    __syncthreads();  // all threads have read the previous matrix
    for (int k = threadIdx.x; k < C; k += blockDim.x) {
      double size = 0.0, fault = 0.0;
      for (int j = 0; j < C; ++j) {
        size += double(M[of == CM_OF_COL ? i64(j) * C + k : i64(k) * C + j]);
        if (P(k, j) - P(k, j) != 0.0) fault = 1.0;
      }
      work.sizes[k] = size;
      work.faults[k] = fault;
    }
    __syncthreads();
    double fault = 0.0, total = 0.0;
    for (int k = 0; k < C; ++k) {
      fault += work.faults[k];
      total += work.sizes[k];
    }
    const bool good = out_status[b] == CM_CONVERGED;
    __syncthreads();
    for (int k = threadIdx.x; k < C && of == CM_OF_ALL; k += blockDim.x) work.sizes[k] = total;
    if (threadIdx.x == 0 && fault > 0.0) out_status[b] = CM_CONVERGED;
    if (of == CM_OF_BI && good && fault == 0.0) invert(P, work.left, work.inverse, work.lines);
    P.each([&](int i, int j) { errors(i, j) = bends(i, j) = work.squares(i, j) = 0.0; });
    bool known = good && fault == 0.0;
    double fewer = 1.0;  // finite-sample factor of the variance, k / n
    for (i64 s = 0; s < n_strata && known; ++s) {
      const i64 from = starts[s], kinds = parts.kinds(from, starts[s + 1]);
      i64 some = 0;
      for (i64 k = 0; k < kinds; ++k) some += parts.units(b, from, k);
      known = some > (clustered ? 1 : 0);
      if (!known) break;
      const double all = double(some), drawn = clustered ? all / (all - 1.0) : 1.0;
      fewer = wanted >= 0 ? all / double(wanted) : 1.0;
      P.each([&](int i, int j) { work.mean(i, j) = 0.0; });
      over_units(parts, b, from, kinds, [&](const Unit& unit, double units) {
        move(unit, M, P, of, work, [&](int i, int j, double x) { work.mean(i, j) += units * x; });
      });
      over_units(parts, b, from, kinds, [&](const Unit& unit, double units) {
        move(unit, M, P, of, work, [&](int i, int j, double moved) {
          const double x = moved - work.mean(i, j) / all;
          work.squares(i, j) += units * x * x;
          errors(i, j) += units * x * x * fewer * drawn;
          bends(i, j) += units * x * x * x;
        });
      });
    }
    // Rounding noise of a cell that no unit changes counts as zero error and no skewness.
    P.each([&](int i, int j) {
      const double whole = work.squares(i, j);
      const bool bent = whole > CM_MOST_ROUNDING_VARIANCE;
      errors(i, j) = !known ? CM_NAN : bent ? sqrt(errors(i, j)) : 0.0;
      bends(i, j) = !known ? CM_NAN : bent ? sqrt(fewer) * bends(i, j) / (6.0 * whole * sqrt(whole)) : 0.0;
    });
  }
}
