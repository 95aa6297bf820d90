// One table and the team that scales it to its margins, as kernels/cpu/margins. Every number that a decision is made of
// is the same in all threads of a team. Nothing is added by atomics: a sum belongs to the threads of its line. Loops
// are not unrolled: that would take twice the registers and the compiler three times as long.

// Which cells stand in which lines, for all tables. Cells are sorted by the lines of the first margin, which is closed
// exactly; what has a target in the others is an unknown, and these are counted from 0.
struct Pattern {
  int cells, margins, closed, lines;
  const int* __restrict__ offsets;  // number of the first line of each margin
  const int* __restrict__ codes;    // (margins, cells): a closed line, or which of the others
  const int* __restrict__ places;   // which cell of the table stands where
  const int* __restrict__ starts;   // where the cells of each line begin in `members`
  const int* __restrict__ members;
  const int* __restrict__ spans;  // how many threads share a line of each margin
  // One over how important each margin is, 0 where it must be met: else a target m becomes the goal m exp(-slack
  // multiplier).
  const double* __restrict__ slack;
};

template <int W>
struct Table {
  Pattern of;
  int rank;
  double tol, last_width;
  i64 max_iter;

  double* base;  // what the team keeps of a table

  double slack;  // of the closed margin
  bool soft;     // whether any margin need not be met
  bool bounded;  // whether no margin says what the total is, which is a bound then
  double residual, width, width_before, total, probed;
  i64 passes;
  int unknowns, steps, removed;

  __device__ __forceinline__ double asked(int b, int line) const {  // 0 where a line is no unknown
    return b ? wanted()[line - of.closed] : targets()[line];
  }
  __device__ __forceinline__ int others() const { return of.lines - of.closed; }
  __device__ __forceinline__ void meet() const {
    if constexpr (W > 32)
      __syncthreads();
    else
      __syncwarp();
  }
  // One pointer and sizes that are known everywhere, for registers are short.
  __device__ __forceinline__ double* at_lines(int k) const { return base + 2 * of.lines + k * of.closed; }
  __device__ __forceinline__ double* at_others(int k) const {
    return base + 2 * (of.lines + of.closed + of.margins) + k * (of.lines - of.closed);
  }
  __device__ __forceinline__ double* targets() const { return base; }  // of all lines
  __device__ __forceinline__ double* goals() const { return base + of.lines; }
  __device__ __forceinline__ double* lift() const { return at_lines(0); }  // multipliers of closed lines
  __device__ __forceinline__ double* step_lift() const { return at_lines(1); }
  __device__ __forceinline__ double* totals() const { return at_lines(2); }  // of margins, and whether they are known
  __device__ __forceinline__ double* known() const { return at_lines(2) + of.margins; }
  __device__ __forceinline__ double* wanted() const { return at_others(0); }  // of unknowns; else 0
  __device__ __forceinline__ double* multipliers() const { return at_others(1); }
  __device__ __forceinline__ double* sums() const { return at_others(2); }
  __device__ __forceinline__ double* step() const { return at_others(3); }
  __device__ __forceinline__ double* scale() const { return at_others(4); }
  __device__ __forceinline__ double* q() const { return at_others(5); }  // of cells; 0 where they can only be zero
  __device__ __forceinline__ double* x() const { return q() + of.cells; }
  __device__ __forceinline__ double* z() const { return q() + 2 * i64(of.cells); }  // a change, in logarithms
  __device__ __forceinline__ double* work() const { return z() + max(of.cells, of.lines - of.closed); }

  __device__ __forceinline__ int code(int b, int c) const { return of.codes[i64(b) * of.cells + c]; }
  __device__ __forceinline__ int begin(int b) const { return of.offsets[b] - of.closed; }  // of the others
  __device__ __forceinline__ int end(int b) const { return of.offsets[b + 1] - of.closed; }
};

__device__ __forceinline__ double larger(double a, double b) { return b > a ? b : a; }  // not b if that is no number

template <int W>
__device__ __forceinline__ double team_largest(double value) {
  return team_reduce<W>(value, [](double a, double b) { return larger(a, b); });
}

// The same for the threads that share a line.
template <typename Join>
__device__ __forceinline__ double span_reduce(double value, int span, Join join) {
#pragma unroll 1
  for (int bits = span / 2; bits > 0; bits /= 2) value = join(value, __shfl_xor_sync(CM_ALL_LANES, value, bits));
  return value;
}
__device__ __forceinline__ double span_sum(double value, int span) {
  return span_reduce(value, span, [](double a, double b) { return a + b; });
}

// Call `body` for every line of a margin with where this thread begins and ends in it, how far it strides, and whether
// it writes. Every thread makes every round, be there a line for it or not: so those of a line meet.
template <int W, typename Body>
__device__ __forceinline__ void over_lines(const Table<W>& t, int b, Body body) {
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
  over_lines(t, b, [&](int line, int at, int stop, int span, bool leads) {
    double sum = 0.0;
#pragma unroll 1
    for (; at < stop; at += span) sum += value(t.of.members[at]);
    sum = span_sum(sum, span);
    if (leads) out[line] = sum;
  });
}

// Sums of the lines of all margins but the closed one, or of one of them.
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

// Scale the cells by the multipliers of all unknowns, and every closed line to its target.
template <int W>
__device__ __forceinline__ void close(Table<W>& t) {
  over_lines(t, 0, [&](int line, int at, int stop, int span, bool leads) {
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
  t.meet();
}

// Add the cells up by line; measure how far the margins are off.
template <int W>
__device__ __forceinline__ void add_up(Table<W>& t) {
#pragma unroll 1
  for (int b = 1; b < t.of.margins; ++b) sum_others(t, b, [&](int c) { return t.x()[c]; });
  t.meet();
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
  t.meet();
}

// Scale every margin but the closed one to its targets, one after the other, and then that, whose multipliers are not
// kept. Return the most that a line was scaled by, as a logarithm.
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
    t.meet();
    if (b == last) break;
#pragma unroll 1
    for (int c = t.rank; c < t.of.cells; c += W)
      if (t.q()[c] > 0.0) t.x()[c] *= t.step()[t.code(b, c)];
    t.meet();
    sum_others(t, b + 1, [&](int c) { return t.x()[c]; });
    t.meet();
  }
  over_lines(t, 0, [&](int line, int at, int stop, int span, bool leads) {
    double sum = 0.0;
#pragma unroll 1
    for (int c = at; c < stop; c += span)
      if (t.q()[c] > 0.0) {
        t.x()[c] *= t.step()[t.code(last, c)];
        sum += t.x()[c];
      }
    sum = span_sum(sum, span);
    const double factor = t.targets()[line] > 0.0 ? t.targets()[line] / sum : 1.0;
    if (leads) widest = larger(widest, fabs(log(factor)));  // others may have no line
#pragma unroll 1
    for (int c = at; c < stop; c += span) t.x()[c] *= factor;
  });
  t.meet();
  add_up(t);
  return team_largest<W>(widest);
}

// Numbers at random, from a half to 1.5 and of either sign, for unknowns and closed lines, zero for all others; in a
// row that begins with a word.
template <int W>
__device__ __forceinline__ void draw_changes(Table<W>& t, u64 word) {
#pragma unroll 1
  for (int k = 0; k < t.of.lines && t.rank == 0; ++k) {
    const bool closed = k >= t.others();
    double& out = closed ? t.step_lift()[k - t.others()] : t.step()[k];
    const bool asked = (closed ? t.targets()[k - t.others()] : t.wanted()[k]) > 0.0;
    if (closed || asked) word = word * 6364136223846793005ull + 1442695040888963407ull;
    const double number = 2.0 * double(word >> 11) * 0x1p-53 - 1.0;
    out = asked ? (number < 0.0 ? number - 0.5 : number + 0.5) : 0.0;
  }
  t.meet();
}

// Sweep a change of the cells once, to first order; return what is left of it. The sums are those of the first margin.
template <int W>
__device__ __forceinline__ double fade(Table<W>& t) {
  const int last = t.of.margins - 1;
  double size = 0.0;
#pragma unroll 1
  for (int b = 1; b <= last; ++b) {
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W)
      t.step()[k] = t.wanted()[k] > 0.0 ? t.sums()[k] / t.wanted()[k] : 0.0;
    t.meet();
    if (b == last) break;
#pragma unroll 1
    for (int c = t.rank; c < t.of.cells; c += W) t.z()[c] -= t.step()[t.code(b, c)];
    t.meet();
    sum_others(t, b + 1, [&](int c) { return t.x()[c] * t.z()[c]; });
    t.meet();
  }
  over_lines(t, 0, [&](int line, int at, int stop, int span, bool) {
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
  t.meet();
  sum_others(t, 1, [&](int c) { return t.x()[c] * t.z()[c]; });
  t.meet();
  return team_largest<W>(size);
}

// How much larger a change of all cells is than that of a sweep, once all further sweeps have answered it.
template <int W>
__device__ __forceinline__ double echo(Table<W>& t) {
  draw_changes(t, 1);
  double before = 0.0, total = 1.0;
#pragma unroll 1
  for (int c = t.rank; c < t.of.cells; c += W) {
    t.z()[c] = sum_over_codes(t, c, t.step_lift()[t.code(0, c)], t.step());
    if (t.q()[c] > 0.0) before = larger(before, fabs(t.z()[c]));
  }
  t.meet();
  before = team_largest<W>(before);
  if (before == 0.0) return CM_INF;  // nothing is known
  sum_others(t, 1, [&](int c) { return t.x()[c] * t.z()[c]; });
  t.meet();
#pragma unroll 1
  for (int k = 0; k < CM_MOST_ECHOES; ++k) {
    const double size = fade(t);
    t.passes += t.of.margins;
    total += size / before;
    if (size <= CM_FADED * before) return total;
  }
  return CM_INF;
}

// Undo the closing of lines in the step; leave the most that it raises a cell or goal, and the most it changes a cell.
template <int W>
__device__ __forceinline__ void widths(Table<W>& t, double& highest, double& widest) {
  double up = 0.0, far = 0.0;
#pragma unroll 1
  for (int b = 1; b < t.of.margins && t.soft; ++b)
#pragma unroll 1
    for (int k = t.begin(b) + t.rank; k < t.end(b); k += W) up = larger(up, -t.of.slack[b] * t.step()[k]);
  over_lines(t, 0, [&](int line, int at, int stop, int span, bool leads) {
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
  t.meet();
  highest = team_largest<W>(up);
  widest = team_largest<W>(far);
}
