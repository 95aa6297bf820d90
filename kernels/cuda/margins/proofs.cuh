// Infeasibility certificates from diverging dual iterates, as kernels/cpu/margins/tables/infeasibility.py: no table has
// the margins, or some cells must be zero.

// What a cell gets by its lines. Targets that need not be met prove nothing.
template <int W>
__device__ __forceinline__ double raised(const Table<W>& t, const double* lift, const double* y, int c) {
  double z = t.slack == 0.0 ? lift[t.code(0, c)] : 0.0;
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b)
    if (t.of.slack[b] == 0.0) z += y[t.code(b, c)];
  return z;
}

struct Reach {
  double top, most, product, size;  // the largest z, the total times it, m . y and the sum of its magnitudes
};

template <int W>
__device__ __forceinline__ Reach reach(const Table<W>& t, const double* lift, const double* y) {
  Reach found{t.bounded ? 0.0 : -CM_INF, 0.0, 0.0, 0.0};
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
    if (t.q()[c] > 0.0) found.top = larger(found.top, raised(t, lift, y, c));
  found.top = team_largest<W>(found.top);
  found.product = team_sum<W>(found.product);
  found.size = team_sum<W>(found.size);
  found.most = t.total * found.top;
  return found;
}

// Whether numbers prove that there is no table.
template <int W>
__device__ __forceinline__ bool refutes(const Table<W>& t, const double* lift, const double* y) {
  const Reach found = reach(t, lift, y);
  return found.product - found.most > CM_LEAST_PROOF_GAP * found.size;
}

// The smallest target, of those that must be met, of the lines of a cell.
template <int W>
__device__ __forceinline__ double smallest_line(const Table<W>& t, int c) {
  const double target = t.targets()[t.code(0, c)];
  double least = target >= 0.0 && t.slack == 0.0 ? target : CM_INF;
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b) {
    const double other = t.wanted()[t.code(b, c)];
    if (other > 0.0 && t.of.slack[b] == 0.0) least = fmin(least, other);
  }
  return least;
}

// Whether a line that must meet its target has none but cells that are marked.
template <int W>
__device__ __forceinline__ bool leaves_empty(const Table<W>& t) {
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

// Take out the cells of which the step proves that they are zero; return how many, or -1 if that leaves a line empty.
// Whatever is zero to nine digits of the smallest of its lines counts as zero.
template <int W>
__device__ __forceinline__ int remove(Table<W>& t) {
  const Reach found = reach(t, t.step_lift(), t.step());
  // What rounding the targets may do is no proof.
  const double left = larger(found.most - found.product, 0.0) + CM_MOST_ROUNDED_GAP * found.size;
  if (!(left < CM_INF)) return 0;
  int number = 0;
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) {
    const double below = found.top - raised(t, t.step_lift(), t.step(), c);
    const double least = smallest_line(t, c);
    if (t.q()[c] > 0.0 && below > CM_BELOW && least < CM_INF && left <= CM_LEAST_PROOF_GAP * least * below) {
      t.x()[c] = -below;
      ++number;
    }
  }
  number = team_sum<W>(number);
  t.meet();
  if (number == 0) return 0;
  t.removed += number;
  if (leaves_empty(t)) return -1;
  t.meet();
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W)
    if (t.x()[c] < 0.0) t.q()[c] = t.x()[c] = 0.0;
  t.meet();
  return number;
}
