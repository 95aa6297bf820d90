// Scaling of common matrices with five to 32 rows or columns: K lanes of a warp share a matrix of at most K rows and
// columns, as many matrices as fit into the warp. Matrices that need many steps, a maximum flow for their zeros, or
// equilibration are left to another kernel.
//
// Lane l holds row l and column l. Cells are in shared memory, the weights and flows between column l and the others in
// registers, so K is a compile-time constant. Rows and columns beyond the matrix have target zero, as dropped ones.

struct alignas(16) Pair {
  double a, b;
};

// Sizes for each number of rows or columns, from the launcher.
constexpr struct {
  int even, pitch, used, step;
} LANE_SIZES[] = {CM_LANE_SIZES};

// Forces values to be read from shared memory again: otherwise the compiler keeps a whole loop of them in registers
// that the weights need.
__device__ __forceinline__ void fence(int j) {
  if (j % 4 == 0) asm volatile("" ::: "memory");
}

// Sizes up to which the reciprocals of the elimination go without branches as well: beyond it registers run short.
constexpr int QUICK_LINES = 6;

// Sizes beyond which loops are unrolled by four at most: compiling takes seconds otherwise.
constexpr int MANY_LINES = 16;

// Position of a lane, and what it shares with the other lanes of its matrix. Functions that communicate must be reached
// by all lanes of the warp, so they never follow `&&` or `?`.
template <int K>
struct Lanes {
  static constexpr int EVEN = LANE_SIZES[K].even, PITCH = LANE_SIZES[K].pitch;
  static constexpr int USED = LANE_SIZES[K].used, STEP = LANE_SIZES[K].step;
  static constexpr int SIDE = 32 / K;  // matrices of a warp

  double* numbers;
  int l;      // row and column of this lane; surplus lanes repeat the last one and write nothing
  int first;  // lane with row and column 0
  bool mine;  // whether this is no surplus lane
  int turn = 0;

  __device__ __forceinline__ explicit Lanes(double* shared) {
    const int lane = threadIdx.x % 32, place = min(lane / K, SIDE - 1);
    first = place * K;
    mine = lane - first < K;
    l = min(lane - first, K - 1);
    numbers = shared + (i64(threadIdx.x / 32) * SIDE + place) * STEP;
    if (mine)
      for (int k = l; k < USED; k += K) numbers[k] = 0.0;  // what no lane writes is read with the rest of a pair
    __syncwarp();
  }

  __device__ __forceinline__ double& cell(int i, int j) const { return numbers[i * PITCH + j]; }
  __device__ __forceinline__ double& share(int i, int j) const { return numbers[(K + i) * PITCH + j]; }
  __device__ __forceinline__ const Pair* cells_of(int i) const {
    return reinterpret_cast<const Pair*>(numbers + i * PITCH);
  }
  __device__ __forceinline__ const Pair* shares_of(int i) const {
    return reinterpret_cast<const Pair*>(numbers + (K + i) * PITCH);
  }

  // Broadcast two values of every lane to all lanes of the matrix. Two buffers alternate, so one barrier suffices.
  __device__ __forceinline__ const Pair* broadcast_pair(double a, double b) {
    Pair* board = reinterpret_cast<Pair*>(numbers + 2 * K * PITCH) + turn * EVEN;
    turn ^= 1;
    if (mine) board[l] = Pair{a, b};
    __syncwarp();
    return board;
  }
  __device__ __forceinline__ double sum(double value) {
    const Pair* all = broadcast_pair(value, 0.0);
    double total = 0.0;
#pragma unroll(K > MANY_LINES ? 4 : K)
    for (int j = 0; j < K; ++j) {
      fence(j);
      total += all[j].a;
    }
    return total;
  }
  // The lanes with `yes` as a bit mask of their rows.
  __device__ __forceinline__ unsigned vote(bool yes) const {
    return __ballot_sync(CM_ALL_LANES, yes) >> first & (CM_ALL_LANES >> (32 - K));
  }
  __device__ __forceinline__ bool any(bool yes) const { return vote(yes) != 0; }
  __device__ __forceinline__ bool all(bool yes) const { return vote(!yes) == 0; }
  // The value of lane k.
  template <typename T>
  __device__ __forceinline__ T of(T value, int k) const {
    return __shfl_sync(CM_ALL_LANES, value, SIDE == 1 ? k : first + k);
  }
};

// State of one matrix, as held by each of its lanes.
struct Line {
  int rows, cols;    // as it is solved: Newton's unknowns belong on the shorter side
  bool flip;         // whether that is the transpose of the input
  bool easy;         // whether this kernel can finish it
  bool paired;       // whether row i is paired with column i
  bool warm, limit;  // whether the caller gave factors; whether cells were cleared
  double u, v, x, y;
  double own;  // the diagonal cell, while it is removed from the cells
  double total;
  int order;  // column of the input at this position
  int done;   // passes
};

struct Targets {
  const double *row_sums, *col_sums, *start_row, *start_col;
  i64 row_step, col_step, start_row_step, start_col_step;
};

// Load the cells with their minimum and maximum; rows and columns beyond the matrix become zeros.
template <int K>
__device__ __forceinline__ void load_cells(Lanes<K>& g, Line& t, const float* floats, const double* doubles, i64 at,
                                           int R, int C, double smoothing, double* low, double* high) {
  bool good = true;
  *low = CM_INF;
  *high = 0.0;
#pragma unroll(K > MANY_LINES ? 4 : 8)
  for (int i = 0; i < K; ++i) {
    double m = 0.0;
    if (i < R && g.l < C) {
      const i64 k = at + i * C + g.l;
      m = floats ? widen(floats[k]) : doubles[k];
      good &= m >= 0.0 && m < CM_INF;
      m += smoothing;
      if (m > 0.0) *low = fmin(*low, m);
      *high = fmax(*high, m);
    }
    if (g.mine) (t.flip ? g.cell(g.l, i) : g.cell(i, g.l)) = m;
  }
  t.easy = g.all(good);
  const Pair* all = g.broadcast_pair(*low, *high);
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int j = 0; j < K; ++j) {
    *low = fmin(*low, all[j].a);
    *high = fmax(*high, all[j].b);
  }
}

// Bit masks of the columns with a positive cell in this row, and of the rows with one in this column.
template <int K>
__device__ __forceinline__ void find_positive(const Lanes<K>& g, unsigned* of_row, unsigned* of_col) {
  *of_row = *of_col = 0;
#pragma unroll(K > MANY_LINES ? 4 : 8)
  for (int k = 0; k < K; ++k) {
    if (g.cell(g.l, k) > 0.0) *of_row |= line_bit(k);
    if (g.cell(k, g.l) > 0.0) *of_col |= line_bit(k);
  }
}

// Clear unsupported cells, which are zero in every matrix with these zeros and margins: cells whose column's class does
// not reach the class of its row. The diagonal is a perfect matching, so reachability through positive cells decides.
template <int K>
__device__ __forceinline__ bool clear_unsupported(const Lanes<K>& g, unsigned of_row, bool wanted) {
  unsigned leads = of_row | line_bit(g.l);
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int k = 0; k < K; ++k) {
    const unsigned from = g.of(leads, k);
    if (leads & line_bit(k)) leads |= from;
  }
  bool dead = false;
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int i = 0; i < K; ++i)
    if (wanted && g.mine && g.cell(i, g.l) > 0.0 && !(leads & line_bit(i))) {
      g.cell(i, g.l) = 0.0;
      dead = true;
    }
  dead = g.any(dead);
  __syncwarp();
  return dead;
}

// Validate the targets, drop empty classes, classify the zeros; `easy` says whether this kernel can finish the matrix.
template <int K>
__device__ __forceinline__ void check_input(Lanes<K>& g, Line& t, bool drop) {
  unsigned of_row, of_col;
  find_positive(g, &of_row, &of_col);
  if (drop && of_row == 0 && of_col == 0) t.u = t.v = 0.0;
  const double U = g.sum(t.u), V = g.sum(t.v), given = t.flip ? V : U;
  bool good = t.u >= 0.0 && t.u < CM_INF && t.v >= 0.0 && t.v < CM_INF && compare_totals(U, V) == CM_CONVERGED;
  t.total = given > 0.0 ? given : 1.0;
  if (U != V) {
    t.u *= given / U;
    t.v *= given / V;
  }
  const unsigned rows = g.vote(t.u > 0.0), cols = g.vote(t.v > 0.0);
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int i = 0; i < K; ++i)
    if (g.mine && (t.v == 0.0 || !(rows & line_bit(i)))) g.cell(i, g.l) = 0.0;
  __syncwarp();
  of_row = t.u > 0.0 ? of_row & cols : 0;
  of_col = t.v > 0.0 ? of_col & rows : 0;
  good &= (t.u == 0.0 || of_row != 0) && (t.v == 0.0 || of_col != 0);
  const bool zeros = g.any(t.u > 0.0 && of_row != cols);
  const bool sound = g.all(good), carried = g.all(t.u == t.v && (t.u == 0.0 || g.cell(g.l, g.l) > 0.0));
  t.easy &= sound && (!zeros || (t.rows == t.cols && carried));
  t.limit = false;
  if (warp_any(t.easy && zeros)) t.limit = clear_unsupported(g, of_row, t.easy && zeros);
}

// Remove the diagonal from the cells, so that sums leave out the paired cell.
template <int K>
__device__ __forceinline__ void remove_diagonal(Lanes<K>& g, Line& t) {
  t.own = g.cell(g.l, g.l);
  __syncwarp();
  if (g.mine) g.cell(g.l, g.l) = 0.0;
  __syncwarp();
}
template <int K>
__device__ __forceinline__ void restore_diagonal(Lanes<K>& g, const Line& t) {
  __syncwarp();
  if (g.mine) g.cell(g.l, g.l) = t.own;
  __syncwarp();
}

// Whether m_ii m_jj > m_ij m_ji for all classes i, j that are not dropped.
template <int K>
__device__ __forceinline__ bool has_dominant_diagonal(Lanes<K>& g, const Line& t) {
  bool good = t.rows == t.cols && (t.u == 0.0) == (t.v == 0.0);
  const double own = g.cell(g.l, g.l);
  const Pair* all = g.broadcast_pair(own, t.u);
  good &= t.u == 0.0 || own > 0.0;
#pragma unroll 4
  for (int j = 0; j < K; ++j)
    good &= j == g.l || t.u == 0.0 || all[j].b == 0.0 || own * all[j].a > g.cell(g.l, j) * g.cell(j, g.l);
  return g.all(good);
}

// Sums of cells times factors over this row and this column.
template <int K>
__device__ __forceinline__ void compute_weighted_sums(Lanes<K>& g, double x, double y, double* row, double* col) {
  const Pair* all = g.broadcast_pair(x, y);
  double a = 0.0, b = 0.0;
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int k = 0; k < K; ++k) {
    fence(k);
    a += g.cell(g.l, k) * all[k].b;
    b += g.cell(k, g.l) * all[k].a;
  }
  *row = a;
  *col = b;
}

// Set the initial column factors: the caller's if positive and finite, else one.
template <int K>
__device__ __forceinline__ void begin(Lanes<K>& g, Line& t, const Targets& given, i64 b) {
  const double* row = t.flip ? given.start_col : given.start_row;
  const double* col = t.flip ? given.start_row : given.start_col;
  const i64 row_step = t.flip ? given.start_col_step : given.start_row_step;
  const i64 col_step = t.flip ? given.start_row_step : given.start_col_step;
  t.x = t.y = 1.0;
  t.warm = false;
  if (!row && !col) return;
  const double start_x = row && g.l < t.rows ? row[b * row_step + g.l] : 1.0;
  const double start_y = col && g.l < t.cols ? col[b * col_step + g.l] : 1.0;
  const bool cols = g.all(t.v == 0.0 || is_usable(start_y)) && col;
  const bool rows = g.all(t.u == 0.0 || is_usable(start_x)) && row;
  double across, sum;
  compute_weighted_sums(g, t.u > 0.0 ? start_x : 0.0, 0.0, &across, &sum);
  sum += t.u > 0.0 ? start_x * t.own : 0.0;
  t.warm = cols || rows;
  if (cols)
    t.y = start_y;
  else if (rows)
    t.y = t.v > 0.0 ? t.v / sum : 1.0;
}

// One Sinkhorn sweep: scale the rows, then the columns.
template <int K>
__device__ __forceinline__ void run_sweep(Lanes<K>& g, Line& t, bool wanted) {
  double row, col, unused;
  compute_weighted_sums(g, 0.0, t.y, &row, &unused);
  const double x = t.u > 0.0 ? t.u / (row + t.own * t.y) : 0.0;
  compute_weighted_sums(g, x, 0.0, &unused, &col);
  const double y = t.v > 0.0 ? t.v / (col + t.own * x) : 0.0;
  if (wanted) {
    t.x = x;
    t.y = y;
  }
}

// Permute the columns by their order.
template <int K>
__device__ __forceinline__ void permute(Lanes<K>& g, Line& t, int from, bool wanted) {
  const double v = g.of(t.v, from), y = g.of(t.y, from);
  const int order = g.of(t.order, from);
  if (wanted) {
    t.v = v;
    t.y = y;
    t.order = order;
  }
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int i = 0; i < K; ++i) {
    const double m = g.cell(i, from);
    __syncwarp();
    if (wanted && g.mine) g.cell(i, g.l) = m;
  }
  __syncwarp();
}

// Pair each row with its largest scaled cell if the columns are distinct, else by a positive diagonal.
template <int K>
__device__ __forceinline__ bool pair_by_search(Lanes<K>& g, Line& t, bool wanted) {
  const Pair* all = g.broadcast_pair(t.y, 0.0);
  int best = 0;
  double most = -1.0;
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int j = 0; j < K; ++j) {
    const double m = g.cell(g.l, j) * all[j].a;
    if (j < t.cols && m > most) {
      most = m;
      best = j;
    }
  }
  const unsigned alive = g.vote(t.u > 0.0);
  unsigned taken = 0;
  int row = -1;  // paired with this column
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int i = 0; i < K; ++i) {
    const int column = g.of(best, i);
    if (!(alive & line_bit(i))) continue;
    taken |= line_bit(column);
    if (column == g.l) row = i;
  }
  const bool claimed = taken & line_bit(g.l);
  const bool distinct = g.all(claimed || t.v == 0.0) && __popc(taken) == __popc(alive);
  // Unpaired rows and columns are dropped ones.
  if (distinct && !claimed) row = find_nth_bit(~alive, __popc(~taken & (line_bit(g.l) - 1)));
  all = g.broadcast_pair(row, 0.0);
  int from = g.l;
#pragma unroll(K > MANY_LINES ? 4 : K)
  for (int j = 0; j < K; ++j)
    if (distinct && int(all[j].a) == g.l) from = j;
  permute(g, t, from, wanted && distinct);
  const bool zero = t.u == 0.0, own = g.all(zero == (t.v == 0.0) && (zero || g.cell(g.l, g.l) > 0.0));
  return distinct || own;
}

// Solve row i and column i jointly for every i in parallel (Jacobi): x (m y + a) = u and y (m x + b) = v, with the
// paired cell m and the sums a of the row and b of the column.
template <int K>
__device__ __forceinline__ void update_pairs(Lanes<K>& g, Line& t, bool wanted) {
  double a, b;
  compute_weighted_sums(g, t.x, t.y, &a, &b);
  const double m = t.own, u = t.u, v = t.v;
  const double A = m * a, B = a * b + m * (v - u), G = u * b, D = fast_sqrt(B * B + 4.0 * A * G);
  const double x = (B >= 0.0 ? 2.0 * G : D - B) * reciprocal(B >= 0.0 ? B + D : 2.0 * A);
  const double y = v * reciprocal(m * x + b);
  if (wanted && is_usable(x) && is_usable(y)) {  // dropped classes and underflows keep their factors
    t.x = x;
    t.y = y;
  }
}

// Find the pairing and compute initial factors.
template <int K>
__device__ __forceinline__ void start(Lanes<K>& g, Line& t, bool dominant) {
  t.paired = dominant;
  t.done = 0;
  if (warp_any(t.easy && !dominant)) {
    for (int pass = 0; pass < START_PASSES; ++pass) run_sweep(g, t, !dominant);
    restore_diagonal(g, t);
    const bool found = pair_by_search(g, t, !dominant && t.rows == t.cols);
    remove_diagonal(g, t);
    if (!dominant) {
      t.paired = found && t.rows == t.cols;
      t.done = START_PASSES;
    }
  }
  if (!warp_any(t.easy && t.paired)) return;
  const double m = t.own;
  const bool positive = t.u > 0.0 && m > 0.0;
  double row, unused;
  compute_weighted_sums(g, 0.0, t.y, &row, &unused);
  if (t.paired) {
    if (t.warm)
      t.x = t.u > 0.0 ? t.u / (row + m * t.y) : 0.0;
    else
      t.x = positive ? sqrt(t.u / m) : 0.0;
    if (!t.warm && positive) t.y = sqrt(t.v / m);
    t.done += START_PASSES;
  }
  for (int pass = 0; pass < START_PASSES; ++pass) update_pairs(g, t, t.paired);
}

// Scale the rows to their targets; write cells over square-rooted row targets, flows, source and column gap; return the
// residual.
template <int K>
__device__ __forceinline__ double scale_rows(Lanes<K>& g, Line& t, double root, double (&F)[K + (K & 1)],
                                             double* source, double* gap) {
  const Pair* all = g.broadcast_pair(t.y, 0.0);
  const Pair* row = g.cells_of(g.l);
  double rest = 0.0;
#pragma unroll
  for (int j = 0; j < Lanes<K>::EVEN; j += 2) {
    fence(j);
    const Pair m = row[j / 2];
    F[j] = m.a * all[j].a;
    F[j + 1] = m.b * all[j + 1].a;
    rest += F[j] + F[j + 1];
  }
  const double own = t.own * t.y;
  t.x = t.u > 0.0 ? t.u * reciprocal(rest + own) : 0.0;
  all = g.broadcast_pair(t.x, root);
  double sum = 0.0;
#pragma unroll
  for (int i = 0; i < K; ++i) {
    fence(i);
    const double cell = all[i].a * g.cell(i, g.l) * t.y;
    if (g.mine) g.share(i, g.l) = cell * all[i].b;
    sum += cell;
    F[i] = cell - t.x * F[i];  // between column l and the later ones; the others are not read
  }
  if (g.mine) g.share(g.l, g.l) = t.x * own * root;
  if (warp_any(!t.paired))
#pragma unroll
    for (int i = 0; i < K; ++i) F[i] = t.paired ? F[i] : 0.0;
  *source = t.paired ? t.v - t.u : t.v - (sum + t.x * own);
  *gap = t.paired ? *source + (t.x * rest - sum) : *source;
  return g.sum(fabs(*gap)) / t.total;
}

// Graph weights W_jl = sum over i of q_ij q_il.
template <int K>
__device__ __forceinline__ void weights(const Lanes<K>& g, double (&W)[K + (K & 1)]) {
#pragma unroll
  for (int j = 0; j < Lanes<K>::EVEN; ++j) W[j] = 0.0;
#pragma unroll 1
  for (int i = 0; i < K; ++i) {
    const double own = g.share(i, g.l);
    const Pair* row = g.shares_of(i);
#pragma unroll
    for (int j = 0; j < Lanes<K>::EVEN; j += 2) {
      fence(j);
      const Pair q = row[j / 2];
      W[j] += q.a * own;
      W[j + 1] += q.b * own;
    }
  }
}

// Steps of the elimination that share code, which is most of the compiler's work: fully unrolled code has a fifth fewer
// instructions but takes too long to compile for the largest sizes.
template <int K>
constexpr int TOGETHER = K > 24 ? 4 : 1;

// Solve the Newton system L d = q + flows by star-mesh elimination (Grassmann, Taksar, Heyman), from the last column to
// the first: weights only grow by nonnegative numbers, so small cells keep all their digits. Columns beyond the matrix
// have no weights.
template <int K>
__device__ __forceinline__ double eliminate(Lanes<K>& g, double q, double (&W)[K + (K & 1)], double (&F)[K + (K & 1)]) {
  double d = 0.0, r = 0.0;
#pragma unroll
  for (int top = K; top > 1; top -= TOGETHER<K>) {
    const int rest = max(top - TOGETHER<K>, 0);
#pragma unroll 1
    for (int k = top - 1; k >= max(rest, 1); --k) {
      double weight = W[top - 1], flow = F[top - 1];  // of column k, without an index: registers cannot be indexed
#pragma unroll
      for (int j = rest; j < top - 1; ++j)
        if (j == k) {
          weight = W[j];
          flow = F[j];
        }
      const Pair* last = g.broadcast_pair(g.l == k ? q : weight, flow);
      double total = 0.0, flows = 0.0;
#pragma unroll
      for (int j = 0; j < top - 1; ++j)
        if (j < rest || j < k) {
          fence(j);
          total += last[j].a;
          flows += last[j].b;
        }
      const double inverse = total < CM_NORMAL  ? 0.0
                             : K <= QUICK_LINES ? reciprocal(total)
                                                : 1.0 / total,
                   source = last[k].a;
      if (g.l == k) {
        d = q + flows;
        r = inverse;
      }
      const double p = g.l < k ? weight * inverse : 0.0, f = g.l < k ? flow * inverse : 0.0;
      q += p * source;
#pragma unroll
      for (int j = 0; j < top - 1; ++j)
        if (j < rest || j < k) {
          fence(j);
          W[j] += last[j].a * p;
          F[j] += last[j].a * f - last[j].b * p;
        }
    }
  }
#pragma unroll
  for (int j = 0; j < K - 1; ++j) {
    const double ready = g.of(d * r, j);
    d += g.l > j ? W[j] * ready : 0.0;
  }
  return d * r;
}

// Take a damped Newton step without a line search; return the range of the full step.
template <int K>
__device__ __forceinline__ double take_step(Lanes<K>& g, Line& t, double d, bool wanted) {
  const Pair* all = g.broadcast_pair(d, 0.0);
  double low = 0.0, high = 0.0;
#pragma unroll(K > MANY_LINES ? 4 : 8)
  for (int j = 0; j < K; ++j) {
    low = all[j].a < low ? all[j].a : low;  // fmin and fmax would test for NaN, which shows in the residual
    high = all[j].a > high ? all[j].a : high;
  }
  const double rho = high - low, middle = 0.5 * (low + high);  // keep the factors centred
  const double step = damped_step(rho);
  if (wanted && t.v > 0.0) t.y *= exp(step * (d - middle));
  return rho;
}

// Run Newton's method until the residual and the last step are small; `easy` stays set if that was soon enough, or if
// steps stalled and `stalls` allows that.
template <int K>
__device__ __forceinline__ void run_newton(Lanes<K>& g, Line& t, const Goals& goals, double last_width, int patience,
                                           bool stalls) {
  constexpr int N = Lanes<K>::EVEN;
  double W[N], F[N], source, gap, rho = CM_INF, before = CM_INF;
  const double root = t.u > 0.0 ? 1.0 / sqrt(t.u) : 0.0;
  bool busy = t.easy;
  while (true) {
    const double residual = scale_rows(g, t, root, F, &source, &gap);
    const bool fits = g.all(goals.fits(gap, t.v));
    // The residual does not show errors of cells below the tolerance: the last step must be small too, or stalled at
    // rounding.
    const bool met = goals.met(residual, fits, rho <= last_width, has_stalled(rho, before));
    if (busy && (!(residual < CM_INF) || met || t.done >= patience)) {
      t.easy = met && (stalls || rho <= last_width);
      busy = false;
    }
    if (!warp_any(busy)) return;
    weights(g, W);
    const double d = eliminate(g, source, W, F);
    const double width = take_step(g, t, d, busy);
    if (busy) {
      before = rho;
      rho = width;
      ++t.done;
    }
  }
}

// Normalise: divide the input's row factors by their geometric mean, multiply the column factors by it.
template <int K>
__device__ __forceinline__ void normalize_factors(Lanes<K>& g, Line& t) {
  const bool counts = t.flip ? t.v > 0.0 : t.u > 0.0;
  const double factor = t.flip ? t.y : t.x, exponent = is_usable(factor) && counts ? get_exponent(factor) : 0.0;
  const double power = g.sum(exponent);
  const double logs = g.sum(is_usable(factor) && counts ? log(multiply_by_power(factor, -exponent)) : 0.0);
  const double count = __popc(g.vote(counts));
  if (count == 0.0) return;
  const double whole = floor(power / count), part = power - whole * count;
  const double mean = multiply_by_power(exp((logs + part * 0.693147180559945309417) / count), whole);
  t.x = t.flip ? t.x * mean : t.x / mean;
  t.y = t.flip ? t.y / mean : t.y * mean;
}

// Measure the residual of the result again, infinite where a factor is out of range, and the largest relative error of
// a row or column.
template <int K>
__device__ __forceinline__ double measure(Lanes<K>& g, const Line& t, double* worst) {
  const Pair* all = g.broadcast_pair(t.x, t.y);
  double row = 0.0, col = 0.0;
#pragma unroll(K > MANY_LINES ? 4 : 8)
  for (int k = 0; k < K; ++k) {
    row += t.x * g.cell(g.l, k) * all[k].b;
    col += all[k].a * g.cell(k, g.l) * t.y;
  }
  const double residual = g.sum(fabs(row - t.u) + fabs(col - t.v)) / t.total;
  const double of_row = t.u > 0.0 ? fabs(row - t.u) / t.u : 0.0, of_col = t.v > 0.0 ? fabs(col - t.v) / t.v : 0.0;
  all = g.broadcast_pair(fmax(of_row, of_col), 0.0);
  *worst = 0.0;
#pragma unroll(K > MANY_LINES ? 4 : 8)
  for (int k = 0; k < K; ++k) *worst = fmax(*worst, all[k].a);
  return g.all((t.u == 0.0 || is_usable(t.x)) && (t.v == 0.0 || is_usable(t.y))) ? residual : CM_INF;
}

// Whether no cell depends on the rounding of targets, by a sufficient condition: one column has a part of every row.
template <int K>
__device__ __forceinline__ bool is_certain(Lanes<K>& g, const Line& t) {
  const Pair* all = g.broadcast_pair(t.u > 0.0 ? t.x / t.u : -1.0, t.v > 0.0 ? t.v : CM_INF);
  double share = CM_INF, least = CM_INF;
#pragma unroll(K > MANY_LINES ? 4 : 8)
  for (int k = 0; k < K; ++k) {
    least = fmin(least, all[k].b);
    if (all[k].a >= 0.0) share = fmin(share, all[k].a * g.cell(k, g.l) * t.y);
  }
  return g.any(share * least >= CM_DOUBT * t.total);
}

template <int K>
__device__ __forceinline__ void store_cells(Lanes<K>& g, const Line& t, float* floats, double* doubles, i64 at, int R,
                                            int C) {
  if (!floats && !doubles) return;
  const Pair* all = g.broadcast_pair(t.x, t.y);
  const bool write = t.easy && g.mine;
#pragma unroll(K > MANY_LINES ? 4 : 8)
  for (int k = 0; k < K; ++k) {
    const double cell = t.flip ? t.x * g.cell(g.l, k) * all[k].b : all[k].a * g.cell(k, g.l) * t.y;
    if (!write || k >= R || g.l >= C) continue;
    const i64 place = at + k * C + t.order;
    if (floats)
      floats[place] = narrow<float>(cell);
    else
      doubles[place] = cell;
  }
}

// Blocks that fit on a multiprocessor without spilling registers: four and three up to these sizes. The compiler must
// be told; on the newest architectures QUICK_LINES need more registers than a few more lines.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int FOUR_BLOCKS = 13, THREE_BLOCKS = 22, UNLIKE_OTHERS = QUICK_LINES;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int FOUR_BLOCKS = 9, THREE_BLOCKS = 18, UNLIKE_OTHERS = QUICK_LINES;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr int FOUR_BLOCKS = 13, THREE_BLOCKS = 24, UNLIKE_OTHERS = 0;
#else
constexpr int FOUR_BLOCKS = 12, THREE_BLOCKS = 22, UNLIKE_OTHERS = 0;
#endif
template <int K>
constexpr int BLOCKS = K <= FOUR_BLOCKS && K != UNLIKE_OTHERS ? 4
                       : K <= THREE_BLOCKS                    ? 3
                                                              : 2;

// Scale the common matrices; all others are appended to `out_queue`. Of the two pointers to cells one is null, of those
// to results one or both.
template <int K>
__global__ void __launch_bounds__(CM_GROUP_THREADS, BLOCKS<K>)
    cmfast_ipf_group(const float* __restrict__ floats, const double* __restrict__ doubles, i64 m_step,
                     const double* __restrict__ row_sums, i64 row_sums_step, const double* __restrict__ col_sums,
                     i64 col_sums_step, const double* __restrict__ start_row, i64 start_row_step,
                     const double* __restrict__ start_col, i64 start_col_step, int R, int C, i64 n, double smoothing,
                     int drop, int bi, double target, double still, double bound, double last_width, i64 max_iter,
                     float* out_floats, double* out_doubles, double* out_row, double* out_col, double* out_residual,
                     i64* out_n_iter, signed char* out_status, double* out_smoothing, double* out_line_error,
                     i64* out_queue, u64* out_length) {
  CM_DYN_SMEM(double, numbers);
  Lanes<K> g(numbers);
  const Targets given{row_sums,      col_sums,      start_row,      start_col,
                      row_sums_step, col_sums_step, start_row_step, start_col_step};
  const i64 warps = blockDim.x / 32, side = Lanes<K>::SIDE;
  for (i64 at = (blockIdx.x * warps + threadIdx.x / 32) * side; at < n; at += gridDim.x * warps * side) {
    const auto exists = [&] { return at + g.first / K < n; };
    const auto matrix = [&] { return min(at + g.first / K, n - 1); };
    i64 b = matrix();
    Line t;
    t.flip = R < C;
    t.rows = t.flip ? C : R;
    t.cols = t.flip ? R : C;
    t.order = g.l;
    const double row = g.l < R ? (row_sums ? row_sums[b * row_sums_step + g.l] : 1.0) : 0.0;
    const double col = g.l < C ? (col_sums ? col_sums[b * col_sums_step + g.l] : 1.0) : 0.0;
    t.u = t.flip ? col : row;
    t.v = t.flip ? row : col;
    double low, high;
    load_cells(g, t, floats, doubles, b * m_step * R * C, R, C, smoothing, &low, &high);
    check_input(g, t, drop && bi);
    const bool dominant = has_dominant_diagonal(g, t);
    t.easy &=
        exists() && low >= 1.0 / CM_WIDE && high <= CM_WIDE && high <= (dominant ? CM_VAST : CM_MOST_SCALE_RATIO) * low;
    if (warp_any(t.easy)) {
      remove_diagonal(g, t);
      begin(g, t, given, b);
      start(g, t, dominant);
      run_newton(g, t, Goals{target, still, bound}, last_width, int(min(max_iter, i64(PATIENT_PASSES))), bi);
      restore_diagonal(g, t);
      if (!(t.v > 0.0)) t.y = 0.0;
      normalize_factors(g, t);
      forget(at);
      b = matrix();
      double worst;
      const double residual = measure(g, t, &worst);
      t.easy &= residual <= bound && worst <= Goals::line_bound(bound) && t.done <= max_iter;
      if (!bi) t.easy &= is_certain(g, t);
      store_cells(g, t, out_floats, out_doubles, b * R * C, R, C);
      if (t.easy && g.mine) {
        const int j = t.flip ? g.l : t.order;
        const double x = t.flip ? t.y : t.x, y = t.flip ? t.x : t.y;
        if (g.l < R) out_row[b * R + g.l] = t.limit ? CM_NAN : x;
        if (g.l < C) out_col[b * C + j] = t.limit ? CM_NAN : y;
        if (g.l == 0) {
          out_residual[b] = residual;
          out_n_iter[b] = t.done;
          out_status[b] = t.limit ? CM_LIMIT_ONLY : CM_CONVERGED;
          out_smoothing[b] = smoothing;
          out_line_error[b] = worst;
        }
      }
    }
    if (g.mine && g.l == 0 && exists() && !t.easy) enqueue(matrix(), out_queue, out_length);
    __syncwarp();  // all have read what the next matrices overwrite
  }
}
