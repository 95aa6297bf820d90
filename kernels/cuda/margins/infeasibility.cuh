// Infeasibility certificates from diverging dual iterates, as kernels/cpu/margins/tables/infeasibility.py: no table has
// the margins, or some cells must be zero.

// Sum of the multipliers of a cell's marginals. Soft targets prove nothing and count as zero.
template <int W>
__device__ __forceinline__ double sum_multipliers(const Table<W>& t, const double* lift, const double* y, int c) {
  double z = t.slack == 0.0 ? lift[t.code(0, c)] : 0.0;
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b)
    if (t.of.slack[b] == 0.0) z += y[t.code(b, c)];
  return z;
}

struct CertificateValue {
  double top, most, product, size;  // the largest z, the total times it, m . y and the sum of its magnitudes
};

template <int W>
__device__ __forceinline__ CertificateValue evaluate_certificate(const Table<W>& t, const double* lift,
                                                                 const double* y) {
  CertificateValue found{t.bounded ? 0.0 : -CM_INF, 0.0, 0.0, 0.0};
#pragma unroll 1
  for (int b = 0; b < t.of.margins; ++b)
#pragma unroll 1
    for (int k = t.of.offsets[b] + t.rank; k < t.of.offsets[b + 1] && t.of.slack[b] == 0.0; k += W) {
      const double target = t.asked(b, k);
      const double part = target > 0.0 ? target * (b ? y[k - t.of.closed] : lift[k]) : 0.0;
      found.product += part;
      found.size += fabs(part);
    }
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W)
    if (t.q()[c] > 0.0) found.top = larger(found.top, sum_multipliers(t, lift, y, c));
  found.top = team_largest<W>(found.top);
  found.product = team_sum<W>(found.product);
  found.size = team_sum<W>(found.size);
  found.most = t.total * found.top;
  return found;
}

// Whether multipliers prove that the table is infeasible (Farkas certificate).
template <int W>
__device__ __forceinline__ bool is_certificate(const Table<W>& t, const double* lift, const double* y) {
  const CertificateValue found = evaluate_certificate(t, lift, y);
  return found.product - found.most > CM_LEAST_PROOF_GAP * found.size;
}

// Smallest hard target among the marginals of a cell.
template <int W>
__device__ __forceinline__ double find_smallest_target(const Table<W>& t, int c) {
  const double target = t.targets()[t.code(0, c)];
  double least = target >= 0.0 && t.slack == 0.0 ? target : CM_INF;
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b) {
    const double other = t.wanted()[t.code(b, c)];
    if (other > 0.0 && t.of.slack[b] == 0.0) least = fmin(least, other);
  }
  return least;
}

// Whether a marginal with a hard target has only marked cells.
template <int W>
__device__ __forceinline__ bool has_emptied_marginal(const Table<W>& t) {
  bool empty = false;
#pragma unroll 1
  for (int b = 0; b < t.of.margins; ++b)
#pragma unroll 1
    for (int line = t.of.offsets[b] + t.rank; line < t.of.offsets[b + 1]; line += W) {
      bool some = false, left = false;
#pragma unroll 1
      for (int at = t.of.starts[line]; at < t.of.starts[line + 1]; ++at) {
        const int c = t.of.members[at];
        some |= t.q()[c] > 0.0;
        left |= t.q()[c] > 0.0 && t.x()[c] >= 0.0;
      }
      empty |= some && !left && t.of.slack[b] == 0.0 && t.asked(b, line) > 0.0;
    }
  return team_any<W>(empty);
}

// Remove the cells that the Newton step proves to be zero; return their number, or -1 if that leaves a marginal empty.
// Zero means at most 1e-9 of the smallest target of its marginals.
template <int W>
__device__ __forceinline__ int fix_zero_cells(Table<W>& t) {
  const CertificateValue found = evaluate_certificate(t, t.step_lift(), t.step());
  // The effect of rounding the targets proves nothing.
  const double left = larger(found.most - found.product, 0.0) + CM_MOST_ROUNDED_GAP * found.size;
  if (!(left < CM_INF)) return 0;
  int number = 0;
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) {
    const double below = found.top - sum_multipliers(t, t.step_lift(), t.step(), c);
    const double least = find_smallest_target(t, c);
    if (t.q()[c] > 0.0 && below > CM_BELOW && least < CM_INF && left <= CM_LEAST_PROOF_GAP * least * below) {
      t.x()[c] = -below;
      ++number;
    }
  }
  number = team_sum<W>(number);
  t.synchronize();
  if (number == 0) return 0;
  t.removed += number;
  if (has_emptied_marginal(t)) return -1;
  t.synchronize();
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W)
    if (t.x()[c] < 0.0) t.q()[c] = t.x()[c] = 0.0;
  t.synchronize();
  return number;
}
