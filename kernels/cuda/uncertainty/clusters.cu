// Bootstrap intervals and standard errors of metrics for clustered or stratified samples, as
// kernels/cpu/uncertainty/clusters.py.

// Sum the parts of every element, shape (n, C, C), and flag values that are not counts; one thread per cell.
template <typename T>
__global__ void cmfast_cluster_errors_totals(const T* __restrict__ M, i64 n, i64 n_parts, i64 C, i64* __restrict__ out,
                                             int* out_bad) {
  const i64 squares = C * C;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n * squares; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = k / squares;
    u64 total = 0;
    bool bad = false;
    for (i64 u = 0; u < n_parts; ++u) {
      const T x = M[(b * n_parts + u) * squares + k % squares];
      const double y = double(x);
      bad |= !(y >= 0.0 && y < 0x1p63 && y == floor(y));
      total += bad ? 0 : u64(i64(x));
    }
    out[k] = i64(total);
    if (bad) atomicOr(&out_bad[b], 1);
  }
}

// Write the status of every element, and zero the sums of invalid ones; for replicates, check that their samples are
// exact in float64. One block per element.
__global__ void cmfast_cluster_errors_status(const int* __restrict__ bad, const i64* __restrict__ counts,
                                             const i64* __restrict__ order, const i64* __restrict__ starts, i64 n,
                                             i64 n_parts, i64 n_strata, i64 C, int clustered, int draws, i64 wanted,
                                             i64* out_totals, signed char* __restrict__ out_status) {
  const Clusters parts{counts, order, starts, n_parts, C, clustered != 0};
  for (i64 b = blockIdx.x; b < n; b += gridDim.x) {
    bool good = !bad[b];
    if (good && draws) {
      double most = clustered ? 0.0 : 1.0, drawn = clustered ? double(n_parts) : 0.0;
      for (i64 c = threadIdx.x; c < C * C && !clustered; c += CM_THREADS) drawn += double(out_totals[b * C * C + c]);
      for (i64 u = threadIdx.x; u < n_parts && clustered; u += CM_THREADS) {
        double samples = 0.0;
        for (i64 c = 0; c < C * C; ++c) samples += double(parts.part(b, u)[c]);
        most = fmax(most, samples);
      }
      if (!clustered) drawn = team_sum<CM_THREADS>(drawn);
      most = team_reduce<CM_THREADS>(most, [](double a, double b) { return fmax(a, b); });
      good = most * (wanted >= 0 ? double(wanted) * double(n_strata) : drawn) < 0x1p53;
    }
    for (i64 c = threadIdx.x; c < C * C && !good; c += CM_THREADS) out_totals[b * C * C + c] = 0;
    if (threadIdx.x == 0) out_status[b] = good ? CM_CONVERGED : CM_INVALID;
  }
}

// Standard errors of every result, (scalars, n) and (tables, n, C), from derivatives in the cells; one block each.
__global__ void cmfast_cluster_errors_numbers(const i64* __restrict__ counts, const i64* __restrict__ order,
                                              const i64* __restrict__ starts, const signed char* __restrict__ status,
                                              i64 n, i64 n_parts, i64 n_strata, i64 C, int clustered, i64 wanted,
                                              i64 n_scalars, i64 n_numbers, int ordered,
                                              const double* __restrict__ numbers, const double* __restrict__ classes,
                                              double* __restrict__ out_scalars, double* __restrict__ out_classes) {
  const Clusters parts{counts, order, starts, n_parts, C, clustered != 0};
  for (i64 place = blockIdx.x; place < n * n_numbers; place += gridDim.x) {
    const i64 b = place % n, number = place / n, squares = C * C;
    const NumberSlopes slope(numbers, classes, n, b, C, ordered != 0, n_scalars, number);
    bool known = status[b] == CM_CONVERGED && n_strata > 0;
    double variance = 0.0;
    for (i64 s = 0; s < n_strata && known; ++s) {
      const i64 first = starts[s], kinds = parts.kinds(first, starts[s + 1]);
      const auto moved = [&](i64 k) {
        if (!clustered) return slope(k % squares / C, k % C);
        double sum = 0.0;
        for (i64 c = 0; c < squares; ++c) {
          const i64 x = parts.part(b, first + k)[c];
          if (x > 0) sum += slope(c / C, c % C) * double(x);
        }
        return sum;
      };
      i64 some = 0;
      double mean = 0.0, spread = 0.0;
      for (i64 k = threadIdx.x; k < kinds; k += CM_THREADS) {
        const i64 units = parts.units(b, first, k);
        if (units == 0) continue;
        some += units;
        mean += double(units) * moved(k);
      }
      const double all = double(team_sum<CM_THREADS>(some));
      mean = team_sum<CM_THREADS>(mean) / all;
      for (i64 k = threadIdx.x; k < kinds; k += CM_THREADS) {
        const i64 units = parts.units(b, first, k);
        if (units == 0) continue;
        const double away = moved(k) - mean;
        spread += double(units) * (away * away);
      }
      spread = team_sum<CM_THREADS>(spread);
      known = all > (clustered ? 1.0 : 0.0);
      variance += spread * (clustered ? all / (all - 1.0) : 1.0) * (wanted >= 0 ? all / double(wanted) : 1.0);
    }
    if (threadIdx.x == 0) {
      const i64 c = number - n_scalars;
      double* out = number < n_scalars ? out_scalars + place : out_classes + (c / C * n + b) * C + c % C;
      *out = known ? sqrt(variance) : CM_NAN;
    }
  }
}

// Draw replicates of elements from `first` on, and add up their class sums, shape (count, n_resamples, C) each, zeros
// initially. An element that cannot be drawn from gets an impossible row sum. One thread per replicate.
__global__ void cmfast_cluster_intervals_draws(const i64* __restrict__ counts, const i64* __restrict__ order,
                                               const i64* __restrict__ starts, const signed char* __restrict__ status,
                                               i64 n_parts, i64 n_strata, i64 C, int clustered, i64 wanted, i64 first,
                                               i64 count, i64 n_resamples, const i64* __restrict__ numbers, u64 seed,
                                               i64* d, i64* t, i64* p, i64* bands, i64* tops) {
  const Clusters parts{counts, order, starts, n_parts, C, clustered != 0};
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < count * n_resamples; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = first + k / n_resamples, replicate = k % n_resamples, one = k * C;
    if (status[b] != CM_CONVERGED) {
      t[one] = -1;
      continue;
    }
    parts.draw(b, number_of(numbers, b), replicate, n_strata, wanted, seed, [&](i64 x, i64 i, i64 j) {
      add_samples(x, i, j, d + one, t + one, p + one, bands ? bands + one : nullptr, bands ? tops + one : nullptr);
    });
  }
}

// Class sums with one unit of a kind left out, for indices from `first` on over all kinds of all elements, shape
// (count, C) each. `whole` holds the sums of n elements. One thread each.
__global__ void cmfast_cluster_intervals_without(const i64* __restrict__ counts, const i64* __restrict__ order,
                                                 const i64* __restrict__ starts, const signed char* __restrict__ status,
                                                 const i64* __restrict__ whole, i64 n, i64 n_parts, i64 C,
                                                 int clustered, i64 first, i64 count, i64* d, i64* t, i64* p,
                                                 i64* bands, i64* tops) {
  const Clusters parts{counts, order, starts, n_parts, C, clustered != 0};
  const i64 kinds = parts.kinds(0, n_parts);
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < count; k += i64(gridDim.x) * CM_THREADS) {
    const i64 b = (first + k) / kinds, kind = (first + k) % kinds, one = k * C;
    for (i64 c = 0; c < C; ++c) {
      d[one + c] = whole[b * C + c];
      t[one + c] = whole[(n + b) * C + c];
      p[one + c] = whole[(2 * n + b) * C + c];
      if (!bands) continue;
      bands[one + c] = whole[(3 * n + b) * C + c];
      tops[one + c] = whole[(4 * n + b) * C + c];
    }
    if (status[b] != CM_CONVERGED) continue;
    const i64* cells = parts.part(b, clustered ? kind : kind / (C * C));
    for (i64 c = clustered ? 0 : kind % (C * C); c < (clustered ? C * C : kind % (C * C) + 1); ++c)
      if (cells[c] > 0)
        add_samples(clustered ? -cells[c] : i64(-1), c / C, c % C, d + one, t + one, p + one,
                    bands ? bands + one : nullptr, bands ? tops + one : nullptr);
  }
}

// Jackknife acceleration of BCa, each stratum with its own mean (Davison and Hinkley 1997, 5.3), from leave-one-out
// values: one row per metric, `per` rows per element, one block per row.
__global__ void cmfast_cluster_intervals_acceleration(const i64* __restrict__ counts, const i64* __restrict__ order,
                                                      const i64* __restrict__ starts,
                                                      const signed char* __restrict__ status,
                                                      const double* __restrict__ without, i64 n, i64 per, i64 n_parts,
                                                      i64 n_strata, i64 C, int clustered, i64 wanted,
                                                      double* __restrict__ out) {
  const Clusters parts{counts, order, starts, n_parts, C, clustered != 0};
  for (i64 row = blockIdx.x; row < n; row += gridDim.x) {
    const i64 b = row / per, all = status[b] == CM_CONVERGED ? n_strata : 0;
    const double* own = without + row * parts.kinds(0, n_parts);
    double squares = 0.0, cubes = 0.0, largest = 0.0, size = 0.0;
    for (i64 s = 0; s < all; ++s) {
      const i64 first = starts[s], kinds = parts.kinds(first, starts[s + 1]), at = parts.kinds(0, first);
      double weight = 0.0, sum = 0.0, square = 0.0, cube = 0.0, units = 0.0;
      for (i64 k = threadIdx.x; k < kinds; k += CM_THREADS) {
        const double w = double(parts.units(b, first, k)), x = own[at + k];
        units += w;
        if (!(w > 0.0 && x - x == 0.0)) continue;
        weight += w;
        sum += w * x;
      }
      size += team_sum<CM_THREADS>(units);
      weight = team_sum<CM_THREADS>(weight);
      const double mean = team_sum<CM_THREADS>(sum) / weight;
      for (i64 k = threadIdx.x; k < kinds; k += CM_THREADS) {
        const double w = double(parts.units(b, first, k)), x = own[at + k], away = mean - x;
        if (!(w > 0.0 && x - x == 0.0)) continue;
        square += w * (away * away);
        cube += w * (away * away * away);
      }
      squares += team_sum<CM_THREADS>(square);
      cubes += team_sum<CM_THREADS>(cube);
      if (weight > 0.0) largest = fmax(largest, mean * mean);
    }
    if (threadIdx.x == 0) {
      const double factor = wanted >= 0 && size > 0.0 ? double(wanted) / size : 1.0;
      squares *= factor;
      cubes *= factor;
      // Rounding noise of a metric that no unit changes is no skewness.
      out[row] =
          squares > CM_MOST_ROUNDING_VARIANCE * fmax(1.0, largest) ? cubes / (6.0 * squares * sqrt(squares)) : 0.0;
    }
  }
}
