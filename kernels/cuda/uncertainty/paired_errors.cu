// Delta-method standard errors of the difference of metrics of two classifiers on the same samples, as
// kernels/cpu/uncertainty/paired_errors.py.

// Confusion matrices of both classifiers in every group, shape (G, 2, C, C), zeros initially; one thread per kind of
// unit.
__global__ void cmfast_paired_errors_counts(const i64* __restrict__ weights, const i64* __restrict__ starts,
                                            const i64* __restrict__ bounds, const i64* __restrict__ cells,
                                            const i64* __restrict__ counts, i64 n_units, i64 n_cells, i64 C,
                                            i64 n_groups, u64* out) {
  for (i64 u = i64(blockIdx.x) * CM_THREADS + threadIdx.x; u < n_units; u += i64(gridDim.x) * CM_THREADS) {
    i64 group = 0;  // the first group that ends after the unit
    for (i64 last = n_groups - 1; group < last;) {
      const i64 middle = (group + last) / 2;
      if (starts[middle + 1] > u)
        last = middle;
      else
        group = middle + 1;
    }
    for (i64 c = bounds[u]; c < bounds[u + 1]; ++c) {
      const i64 y = cells[c], a = cells[n_cells + c], b = cells[2 * n_cells + c];
      const u64 samples = u64(weights[u] * counts[c]);
      atomicAdd(&out[(2 * group * C + y) * C + a], samples);
      atomicAdd(&out[((2 * group + 1) * C + y) * C + b], samples);
    }
  }
}

// Standard errors of every result of every group, (scalars, G) and (tables, G, C), from the derivatives of both
// matrices, one block each. A unit changes a metric by the derivatives in the cells of its samples.
__global__ void cmfast_paired_errors_numbers(const i64* __restrict__ weights, const i64* __restrict__ starts,
                                             const i64* __restrict__ bounds, const i64* __restrict__ cells,
                                             const i64* __restrict__ counts, i64 n_cells, i64 C, i64 n_groups,
                                             i64 n_scalars, i64 n_numbers, int ordered, int clustered,
                                             const double* __restrict__ numbers, const double* __restrict__ classes,
                                             double* __restrict__ out_scalars, double* __restrict__ out_classes) {
  for (i64 k = blockIdx.x; k < n_groups * n_numbers; k += gridDim.x) {
    const i64 g = k % n_groups, number = k / n_groups, step = 2 * n_groups, from = starts[g], upto = starts[g + 1];
    const NumberSlopes first(numbers, classes, step, 2 * g, C, ordered, n_scalars, number);
    const NumberSlopes second(numbers, classes, step, 2 * g + 1, C, ordered, n_scalars, number);
    const auto moved = [&](i64 u) {
      double sum = 0.0;
      for (i64 c = bounds[u]; c < bounds[u + 1]; ++c) {
        const i64 y = cells[c];
        sum += (first(y, cells[n_cells + c]) - second(y, cells[2 * n_cells + c])) * double(counts[c]);
      }
      return sum;
    };
    i64 some = 0;
    double mean = 0.0, variance = 0.0;
    for (i64 u = from + threadIdx.x; u < upto; u += CM_THREADS) {
      some += weights[u];
      mean += double(weights[u]) * moved(u);
    }
    const double total = double(team_sum<CM_THREADS>(some));
    mean = team_sum<CM_THREADS>(mean) / total;
    for (i64 u = from + threadIdx.x; u < upto; u += CM_THREADS) {
      const double away = moved(u) - mean;
      variance += double(weights[u]) * (away * away);
    }
    variance = team_sum<CM_THREADS>(variance);
    if (clustered) variance = total > 1.0 ? variance * (total / (total - 1.0)) : CM_NAN;
    if (threadIdx.x == 0) {
      const i64 c = number - n_scalars;
      double* out = number < n_scalars ? out_scalars + k : out_classes + (c / C * n_groups + g) * C + c % C;
      *out = total > 0.0 ? sqrt(variance) : CM_NAN;
    }
  }
}
