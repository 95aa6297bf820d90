// The workspace of one table, and passes over its cells by a team of threads, as kernels/cpu/margins. Values that
// decide about control flow are equal in all threads of a team. No atomics: each sum belongs to the threads of its
// marginal. Loops are not unrolled: that would take twice the registers and three times the compile time.

// Marginals of all cells, for all tables. Cells are sorted by the marginals of the first margin, which is eliminated
// exactly; marginals of the others that have a target are unknowns, counted from 0.
struct Pattern {
  int cells, margins, closed, lines;
  const int* __restrict__ offsets;  // first marginal of each margin
  const int* __restrict__ codes;    // (margins, cells): eliminated marginal, or index among the others
  const int* __restrict__ places;   // index in the table of each cell
  const int* __restrict__ starts;   // first index in `members` of each marginal
  const int* __restrict__ members;
  const int* __restrict__ spans;  // threads that share a marginal, for each margin
  // One over the importance of each margin, 0 for hard ones: a soft target m becomes the goal m exp(-slack multiplier).
  const double* __restrict__ slack;
};

template <int W>
struct Table {
  Pattern of;
  int rank;
  double tol, last_width;
  i64 max_iter;

  double* base;  // workspace of the table

  double slack;  // of the eliminated margin
  bool soft;     // whether any margin is soft
  bool bounded;  // whether the total is unknown and `total` a bound
  double residual, width, width_before, total, probed;
  i64 passes;
  int unknowns, steps, removed;

  __device__ __forceinline__ double asked(int b, int line) const {  // 0 where the marginal is no unknown
    return b ? wanted()[line - of.closed] : targets()[line];
  }
  __device__ __forceinline__ int others() const { return of.lines - of.closed; }
  __device__ __forceinline__ void synchronize() const {
    if constexpr (W > 32)
      __syncthreads();
    else
      __syncwarp();
  }
  // One base pointer and computed offsets, since registers are short.
  __device__ __forceinline__ double* at_lines(int k) const { return base + 2 * of.lines + k * of.closed; }
  __device__ __forceinline__ double* at_others(int k) const {
    return base + 2 * (of.lines + of.closed + of.margins) + k * (of.lines - of.closed);
  }
  __device__ __forceinline__ double* targets() const { return base; }  // of all marginals
  __device__ __forceinline__ double* goals() const { return base + of.lines; }
  __device__ __forceinline__ double* lift() const { return at_lines(0); }  // multipliers of eliminated marginals
  __device__ __forceinline__ double* step_lift() const { return at_lines(1); }
  __device__ __forceinline__ double* totals() const {
    return at_lines(2);
  }  // total of each margin, and whether it is known
  __device__ __forceinline__ double* known() const { return at_lines(2) + of.margins; }
  __device__ __forceinline__ double* wanted() const { return at_others(0); }  // of unknowns, 0 for others
  __device__ __forceinline__ double* multipliers() const { return at_others(1); }
  __device__ __forceinline__ double* sums() const { return at_others(2); }
  __device__ __forceinline__ double* step() const { return at_others(3); }
  __device__ __forceinline__ double* scale() const { return at_others(4); }
  __device__ __forceinline__ double* q() const { return at_others(5); }  // given cells, 0 where they must be zero
  __device__ __forceinline__ double* x() const { return q() + of.cells; }
  __device__ __forceinline__ double* z() const { return q() + 2 * i64(of.cells); }  // log-scale change of cells
  __device__ __forceinline__ double* work() const { return z() + max(of.cells, of.lines - of.closed); }

  __device__ __forceinline__ int code(int b, int c) const { return of.codes[i64(b) * of.cells + c]; }
  __device__ __forceinline__ int begin(int b) const { return of.offsets[b] - of.closed; }  // among the other marginals
  __device__ __forceinline__ int end(int b) const { return of.offsets[b + 1] - of.closed; }
};

__device__ __forceinline__ double larger(double a, double b) { return b > a ? b : a; }  // ignores b if NaN

template <int W>
__device__ __forceinline__ double team_largest(double value) {
  return team_reduce<W>(value, [](double a, double b) { return larger(a, b); });
}

// Reduction over the threads that share a marginal.
template <typename Join>
__device__ __forceinline__ double span_reduce(double value, int span, Join join) {
#pragma unroll 1
  for (int bits = span / 2; bits > 0; bits /= 2) value = join(value, __shfl_xor_sync(CM_ALL_LANES, value, bits));
  return value;
}
__device__ __forceinline__ double span_sum(double value, int span) {
  return span_reduce(value, span, [](double a, double b) { return a + b; });
}

// Call `body` for every marginal of a margin with this thread's first cell, end and stride in it, and whether it
// writes. Every thread runs every round, with or without a marginal, so that shuffles are complete.
template <int W, typename Body>
__device__ __forceinline__ void for_each_marginal(const Table<W>& t, int b, Body body) {
  const int span = t.of.spans[b], from = t.of.offsets[b], to = t.of.offsets[b + 1], own = t.rank % span;
#pragma unroll 1
  for (int first = from; first < to; first += W / span) {
    const int line = first + t.rank / span;
    const bool some = line < to;
    body(some ? line : from, some ? t.of.starts[line] + own : 0, some ? t.of.starts[line + 1] : 0, span,
         some && own == 0);
  }
}

template <int W, typename Value>
__device__ __forceinline__ void sum_lines(const Table<W>& t, int b, double* out, Value value) {
  for_each_marginal(t, b, [&](int line, int at, int stop, int span, bool leads) {
    double sum = 0.0;
#pragma unroll 1
    for (; at < stop; at += span) sum += value(t.of.members[at]);
    sum = span_sum(sum, span);
    if (leads) out[line] = sum;
  });
}

// Sums of the marginals of all margins but the eliminated one, or of one of them.
template <int W, typename Value>
__device__ __forceinline__ void sum_others(const Table<W>& t, int b, Value value) {
  sum_lines(t, b, t.sums() - t.of.closed, value);
}

template <int W, typename Value>
__device__ __forceinline__ double sum_over_codes(const Table<W>& t, int c, double sum, Value value) {
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b) sum += value[t.code(b, c)];
  return sum;
}

// Scale the cells by all multipliers, with those of the eliminated margin set so that its targets are met.
template <int W>
__device__ __forceinline__ void scale_cells(Table<W>& t) {
  for_each_marginal(t, 0, [&](int line, int at, int stop, int span, bool leads) {
    const double target = t.targets()[line];
    const bool asked = target >= 0.0;
    double top = -CM_INF, sum = 0.0;
#pragma unroll 1
    for (int c = at; c < stop; c += span)
      if (t.q()[c] > 0.0) {
        t.x()[c] = sum_over_codes(t, c, 0.0, t.multipliers());
        top = larger(top, t.x()[c]);
      }
    top = span_reduce(top, span, [](double a, double b) { return larger(a, b); });
#pragma unroll 1
    for (int c = at; c < stop; c += span)
      if (t.q()[c] > 0.0) {
        t.x()[c] = t.q()[c] * exp(t.x()[c] - (asked ? top : 0.0));
        sum += t.x()[c];
      }
    double factor = target / span_sum(sum, span), lift = log(factor) - top, goal = target;
    const bool scaled = asked && top > -CM_INF;
    if (t.slack > 0.0) {
      lift /= 1.0 + t.slack;
      factor = exp(lift + top);
      goal = scaled ? target * exp(-t.slack * lift) : 0.0;
    }
#pragma unroll 1
    for (int c = at; c < stop && scaled; c += span) t.x()[c] *= factor;
    if (leads) {
      t.lift()[line] = scaled ? lift : 0.0;
      t.goals()[line] = goal;
    }
  });
  t.synchronize();
}

// Sum the cells by marginal; measure the residual.
template <int W>
__device__ __forceinline__ void sum_cells(Table<W>& t) {
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b) sum_others(t, b, [&](int c) { return t.x()[c]; });
  t.synchronize();
  t.residual = 0.0;
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b) {
    const double slack = t.of.slack[b];
    double missed = 0.0, total = 0.0;
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W)
      if (t.wanted()[k] > 0.0) {
        double& goal = t.goals()[t.of.closed + k];
        if (slack > 0.0) goal = t.wanted()[k] * exp(-slack * t.multipliers()[k]);
        missed += fabs(t.sums()[k] - goal);
        total += goal;
      }
    missed = team_sum<W>(missed);
    total = slack > 0.0 ? team_sum<W>(total) : t.totals()[b];
    if (missed != 0.0) t.residual = missed < CM_INF ? larger(t.residual, missed / total) : CM_INF;
  }
  t.synchronize();
}

// Scale every margin to its targets in turn, the eliminated margin last, whose multipliers are not kept (one IPF
// sweep). Return the largest log-scale change of a marginal.
template <int W>
__device__ __forceinline__ double sweep(Table<W>& t) {
  const int last = t.of.margins - 1;
  double widest = 0.0;
#pragma unroll 1
  for (int b = 1; b <= last; ++b) {
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W) {
      t.step()[k] = t.wanted()[k] > 0.0 ? t.wanted()[k] / t.sums()[k] : 1.0;
      const double by = log(t.step()[k]);
      t.multipliers()[k] += by;
      widest = larger(widest, fabs(by));
    }
    t.synchronize();
    if (b == last) break;
#pragma unroll 1
    for (int c = t.rank; c < t.of.cells; c += W)
      if (t.q()[c] > 0.0) t.x()[c] *= t.step()[t.code(b, c)];
    t.synchronize();
    sum_others(t, b + 1, [&](int c) { return t.x()[c]; });
    t.synchronize();
  }
  for_each_marginal(t, 0, [&](int line, int at, int stop, int span, bool leads) {
    double sum = 0.0;
#pragma unroll 1
    for (int c = at; c < stop; c += span)
      if (t.q()[c] > 0.0) {
        t.x()[c] *= t.step()[t.code(last, c)];
        sum += t.x()[c];
      }
    sum = span_sum(sum, span);
    const double factor = t.targets()[line] > 0.0 ? t.targets()[line] / sum : 1.0;
    if (leads) widest = larger(widest, fabs(log(factor)));  // other threads may have no marginal
#pragma unroll 1
    for (int c = at; c < stop; c += span) t.x()[c] *= factor;
  });
  t.synchronize();
  sum_cells(t);
  return team_largest<W>(widest);
}

// Draw perturbations of magnitude 0.5 to 1.5 for unknowns and eliminated marginals, zero for all others, from the
// generator's state `word`.
template <int W>
__device__ __forceinline__ void draw_perturbation(Table<W>& t, u64 word) {
#pragma unroll 1
  for (int k = 0; k < t.of.lines && t.rank == 0; ++k) {
    const bool closed = k >= t.others();
    double& out = closed ? t.step_lift()[k - t.others()] : t.step()[k];
    const bool asked = (closed ? t.targets()[k - t.others()] : t.wanted()[k]) > 0.0;
    if (closed || asked) word = word * 6364136223846793005ull + 1442695040888963407ull;
    const double number = 2.0 * double(word >> 11) * 0x1p-53 - 1.0;
    out = asked ? (number < 0.0 ? number - 0.5 : number + 0.5) : 0.0;
  }
  t.synchronize();
}

// Sweep a perturbation of the log cells once, to first order; return its remaining size. Reads the sums of the first
// margin.
template <int W>
__device__ __forceinline__ double sweep_perturbation(Table<W>& t) {
  const int last = t.of.margins - 1;
  double size = 0.0;
#pragma unroll 1
  for (int b = 1; b <= last; ++b) {
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W)
      t.step()[k] = t.wanted()[k] > 0.0 ? t.sums()[k] / t.wanted()[k] : 0.0;
    t.synchronize();
    if (b == last) break;
#pragma unroll 1
    for (int c = t.rank; c < t.of.cells; c += W) t.z()[c] -= t.step()[t.code(b, c)];
    t.synchronize();
    sum_others(t, b + 1, [&](int c) { return t.x()[c] * t.z()[c]; });
    t.synchronize();
  }
  for_each_marginal(t, 0, [&](int line, int at, int stop, int span, bool) {
    double sum = 0.0;
#pragma unroll 1
    for (int c = at; c < stop; c += span) {
      t.z()[c] -= t.step()[t.code(last, c)];
      sum += t.x()[c] * t.z()[c];
    }
    sum = span_sum(sum, span);
    const double mean = t.targets()[line] > 0.0 ? sum / t.targets()[line] : 0.0;
#pragma unroll 1
    for (int c = at; c < stop; c += span) {
      t.z()[c] -= mean;
      if (t.q()[c] > 0.0) size = larger(size, fabs(t.z()[c]));
    }
  });
  t.synchronize();
  sum_others(t, 1, [&](int c) { return t.x()[c] * t.z()[c]; });
  t.synchronize();
  return team_largest<W>(size);
}

// Total change by all further sweeps of a random perturbation over its size; infinite where it decays slowly.
template <int W>
__device__ __forceinline__ double measure_amplification(Table<W>& t) {
  draw_perturbation(t, 1);
  double before = 0.0, total = 1.0;
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) {
    t.z()[c] = sum_over_codes(t, c, t.step_lift()[t.code(0, c)], t.step());
    if (t.q()[c] > 0.0) before = larger(before, fabs(t.z()[c]));
  }
  t.synchronize();
  before = team_largest<W>(before);
  if (before == 0.0) return CM_INF;  // no cell changes, so nothing was measured
  sum_others(t, 1, [&](int c) { return t.x()[c] * t.z()[c]; });
  t.synchronize();
#pragma unroll 1
  for (int k = 0; k < CM_MOST_ECHOES; ++k) {
    const double size = sweep_perturbation(t);
    t.passes += t.of.margins;
    total += size / before;
    if (size <= CM_FADED * before) return total;
  }
  return CM_INF;
}

// Complete the step by the eliminated margin; return the largest raise of a log cell or goal, and the largest change of
// a log cell.
template <int W>
__device__ __forceinline__ void measure_step(Table<W>& t, double& highest, double& widest) {
  double up = 0.0, far = 0.0;
#pragma unroll 1
  for (int b = 1; b < t.of.margins && t.soft; ++b)
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W) up = larger(up, -t.of.slack[b] * t.step()[k]);
  for_each_marginal(t, 0, [&](int line, int at, int stop, int span, bool leads) {
    double sum = 0.0;
#pragma unroll 1
    for (int c = at; c < stop; c += span) {
      t.z()[c] = sum_over_codes(t, c, 0.0, t.step());
      sum += t.x()[c] * t.z()[c];
    }
    sum = span_sum(sum, span);
    const double by = t.goals()[line] > 0.0 ? -sum / (t.goals()[line] * (1.0 + t.slack)) : 0.0;
    if (leads) t.step_lift()[line] = by;
    up = larger(up, -t.slack * by);
#pragma unroll 1
    for (int c = at; c < stop; c += span)
      if (t.q()[c] > 0.0) {
        up = larger(up, t.z()[c] + by);
        far = larger(far, fabs(t.z()[c] + by));
      }
  });
  t.synchronize();
  highest = team_largest<W>(up);
  widest = team_largest<W>(far);
}
