// Total support of a zero pattern: maximum flow and strongly connected components, by a team of W threads (a warp or a
// block).
//
// The algorithms are those of the CPU, in the same order where that matters, so that the flow itself is equal, cell by
// cell. Sets of rows or columns are bit sets of 32-bit words; sets are interleaved word by word (set k of n: words[w *
// n + k]), so that accesses coalesce. Only augmenting paths are followed by a single thread. A matrix and its targets
// are functions positive(i, j), u(i), v(j), of the input's rows and columns, with equal totals.
namespace zeros {

// Loops over rows, columns and words are mostly short: unrolled they would take twice the registers.
#define ROLLED _Pragma("unroll 1")

constexpr double EXACT = 0x1p53;  // integers up to it, and their sums, are exact in float64
constexpr int GRID = 61;          // bits of the integers that fractional targets are rounded to

// Workspace; `count_scratch_words` of the launcher has the same formula. The flow is for targets that are not all
// equal.
struct Scratch {
  int R, C, row_words, col_words, levels;
  i64 *row_cap, *col_cap;   // integer capacities
  i64 *unmet, *spare;       // unsent and free capacities; at the end, components, or -1
  i64* flow;                // from row i into column j: flow[j * R + i] where fed has it; null if that is 1
  unsigned *reach, *users;  // the columns that a row could feed; the rows that could feed a column
  unsigned *feeds, *fed;    // the columns that it does feed; the rows that do feed it
  unsigned *rows, *cols;    // result of a search: at the end the certificate
  unsigned *back_rows, *back_cols;
  unsigned *level_rows, *level_cols;  // bit sets at each distance from unmet rows; later `next`
  int *path_rows, *path_cols;

  __device__ __forceinline__ Scratch(int R, int C, i64* memory, i64* flow)
      : R(R), C(C), row_words((R + 31) / 32), col_words((C + 31) / 32), levels(min(R, C) + 1), flow(flow) {
    row_cap = memory;
    col_cap = row_cap + R;
    unmet = col_cap + C;
    spare = unmet + R;
    reach = reinterpret_cast<unsigned*>(spare + C);
    users = reach + R * col_words;
    feeds = users + C * row_words;
    fed = feeds + R * col_words;
    rows = fed + C * row_words;
    cols = rows + row_words;
    back_rows = cols + col_words;
    back_cols = back_rows + row_words;
    level_rows = back_cols + col_words;
    level_cols = level_rows + levels * row_words;
    path_rows = reinterpret_cast<int*>(level_cols + levels * col_words);
    path_cols = path_rows + levels;
  }
};

template <int W>
__device__ __forceinline__ void synchronize() {
  static_assert(W == 32 || W == CM_THREADS);
  if constexpr (W == 32)
    __syncwarp();
  else
    __syncthreads();
}

template <int W>
__device__ __forceinline__ int rank() {
  return threadIdx.x % W;
}

// ---- bit sets ----

__device__ __forceinline__ int find_lowest_bit(unsigned word) { return __ffs(int(word)) - 1; }
__device__ __forceinline__ bool has(const unsigned* set, int k) { return set[k >> 5] >> (k & 31) & 1u; }
__device__ __forceinline__ bool has(const unsigned* sets, int n, int l, int k) {
  return sets[(k >> 5) * n + l] >> (k & 31) & 1u;
}

// Whether set `l` of `n` intersects `other`.
__device__ __forceinline__ bool intersects(const unsigned* sets, int n, int l, const unsigned* other, int words) {
  unsigned both = 0;
  ROLLED
  for (int w = 0; w < words; ++w) both |= sets[w * n + l] & other[w];
  return both != 0;
}

// Smallest common member, or -1.
__device__ __forceinline__ int find_first_common(const unsigned* sets, int n, int l, const unsigned* other, int words) {
  ROLLED
  for (int w = 0; w < words; ++w) {
    const unsigned both = sets[w * n + l] & other[w];
    if (both) return 32 * w + find_lowest_bit(both);
  }
  return -1;
}

__device__ __forceinline__ int first(const unsigned* sets, int n, int l, int words) {
  ROLLED
  for (int w = 0; w < words; ++w)
    if (sets[w * n + l]) return 32 * w + find_lowest_bit(sets[w * n + l]);
  return -1;
}

// Add to a set all k below n that pass the test; return whether this thread's warp added any.
template <int W, typename Test>
__device__ __forceinline__ bool collect_members(unsigned* set, int n, bool fresh, Test test) {
  bool grew = false;
  ROLLED
  for (int start = rank<W>() / 32 * 32; start < n; start += W) {
    const int k = start + rank<W>() % 32;
    const unsigned before = fresh ? 0u : set[start / 32];
    const unsigned word = before | __ballot_sync(CM_ALL_LANES, k < n && test(k));
    __syncwarp();  // ballots alone do not order reads before writes
    if (rank<W>() % 32 == 0) set[start / 32] = word;
    grew |= word != before;
  }
  return grew;
}

// Transpose: each of m sets gets the indices of the n sets that contain it.
template <int W>
__device__ __forceinline__ void transpose(const unsigned* sets, int n, unsigned* out, int m, int words) {
  ROLLED
  for (int item = rank<W>(); item < words * m; item += W) {
    const int w = item / m, j = item % m;
    const unsigned* holds = sets + (j >> 5) * n;
    unsigned word = 0;
    for (int i = 32 * w; i < min(32 * w + 32, n); ++i) word |= (holds[i] >> (j & 31) & 1u) << (i & 31);
    out[item] = word;
  }
  synchronize<W>();
}

// ---- maximum flow ----

__device__ __forceinline__ int get_exponent(double x) {  // binary exponent, as by frexp
  if (x == 0.0) return 0;
  const bool tiny = x < 0x1p-1022;
  return int(__double_as_longlong(tiny ? x * 0x1p54 : x) >> 52) - 1022 - (tiny ? 54 : 0);
}

template <typename Target>
__device__ __forceinline__ double total(int n, Target target) {  // sequential: the order decides the last bit
  double sum = 0.0;
  ROLLED
  for (int k = 0; k < n; ++k) sum += target(k);
  return sum;
}

__device__ __forceinline__ i64 capacity(double target, bool equal, bool whole, int shift) {
  if (equal || target == 0.0) return target > 0.0;
  return whole ? i64(target) : max(i64(1), i64(ldexp(target, shift)));
}

// Convert the targets to integer capacities with one total; return the slack that counts as zero in their unit. Drops
// the flow array where the targets are all equal.
template <int W, typename RowTarget, typename ColTarget>
__device__ __forceinline__ i64 compute_capacities(Scratch& z, RowTarget u, ColTarget v) {
  double low = CM_INF, high = 0.0;
  int lines = 0;
  bool whole = true;
  ROLLED
  for (int k = rank<W>(); k < z.R + z.C; k += W) {
    const double target = k < z.R ? u(k) : v(k - z.R);
    whole &= target == floor(target);
    if (target > 0.0) {
      low = fmin(low, target);
      high = fmax(high, target);
      lines += k < z.R ? 1 : -1;
    }
  }
  low = team_reduce<W>(low, [](double a, double b) { return fmin(a, b); });
  high = team_reduce<W>(high, [](double a, double b) { return fmax(a, b); });
  const bool equal = team_sum<W>(lines) == 0 && low >= high;
  int shift = 0;
  double most = 0.0;
  if (equal) {
    z.flow = nullptr;
    whole = true;
  } else {
    const double U = total(z.R, u), V = total(z.C, v);
    whole = !team_any<W>(!whole) && U == V && U <= EXACT;
    most = fmax(U, V);
    shift = GRID - get_exponent(most);
  }
  i64 missing = 0;
  ROLLED
  for (int i = rank<W>(); i < z.R; i += W) {
    z.row_cap[i] = z.unmet[i] = capacity(u(i), equal, whole, shift);
    missing += z.row_cap[i];
  }
  ROLLED
  for (int j = rank<W>(); j < z.C; j += W) {
    z.col_cap[j] = z.spare[j] = capacity(v(j), equal, whole, shift);
    missing -= z.col_cap[j];
  }
  synchronize<W>();
  if (whole) return 0;
  // Differences by rounding, far below the largest target.
  missing = team_sum<W>(missing);
  if (rank<W>() == 0) {
    int largest = 0;
    for (int j = 1; j < z.C; ++j)
      if (z.col_cap[j] > z.col_cap[largest]) largest = j;
    z.col_cap[largest] += missing;
    z.spare[largest] += missing;
  }
  synchronize<W>();
  return i64(CM_FLOW_SLACK * ldexp(most, shift));
}

// Store as bit sets which rows and columns share a positive cell, zero targets left out.
template <int W, typename Positive>
__device__ __forceinline__ void pack(const Scratch& z, Positive positive) {
  ROLLED
  for (int k = rank<W>(); k < z.R * z.col_words; k += W) z.feeds[k] = 0;
  ROLLED
  for (int k = rank<W>(); k < z.C * z.row_words; k += W) z.fed[k] = 0;
  ROLLED
  for (int item = rank<W>() / 32; item < z.R * z.col_words; item += W / 32) {
    const int i = item / z.col_words, w = item % z.col_words, j = 32 * w + rank<W>() % 32;
    const bool open = j < z.C && z.row_cap[i] > 0 && z.col_cap[j] > 0 && positive(i, j);
    const unsigned word = __ballot_sync(CM_ALL_LANES, open);
    if (rank<W>() % 32 == 0) z.reach[w * z.R + i] = word;
  }
  synchronize<W>();
  transpose<W>(z.reach, z.R, z.users, z.C, z.row_words);
}

// Add `amount`, which may be negative, to the flow from row i to column j. One thread for every i and every j at a
// time.
__device__ __forceinline__ void send(const Scratch& z, int i, int j, i64 amount) {
  unsigned &fed = z.fed[(i >> 5) * z.C + j], &feeds = z.feeds[(j >> 5) * z.R + i];
  const unsigned row = 1u << (i & 31), col = 1u << (j & 31);
  if (z.flow) {
    i64& flow = z.flow[i64(j) * z.R + i];
    flow = amount = (fed & row ? flow : 0) + amount;
  }
  fed = amount > 0 ? fed | row : fed & ~row;
  feeds = amount > 0 ? feeds | col : feeds & ~col;
}

__device__ __forceinline__ void pass(const Scratch& z, int i, int j) {
  const i64 amount = min(z.unmet[i], z.spare[j]);
  send(z, i, j, amount);
  z.unmet[i] -= amount;
  z.spare[j] -= amount;
}

// Send flow directly where possible, through the diagonal first; return whether any target is left.
template <int W>
__device__ __forceinline__ bool send_greedily(const Scratch& z) {
  ROLLED
  for (int i = rank<W>(); i < min(z.R, z.C); i += W)
    if (has(z.reach, z.R, i, i)) pass(z, i, i);
  synchronize<W>();
  const bool left = collect_members<W>(z.rows, z.R, true, [&](int i) { return z.unmet[i] > 0; });
  collect_members<W>(z.cols, z.C, true, [&](int j) { return z.spare[j] > 0; });
  synchronize<W>();  // always: shuffles do not order memory, and other lanes write these sets next
  if (!team_any<W>(left)) return false;
  if (rank<W>() == 0) {
    ROLLED
    for (int w = 0; w < z.row_words; ++w) {
      ROLLED
      for (unsigned rest = z.rows[w]; rest; rest &= rest - 1) {
        const int i = 32 * w + find_lowest_bit(rest);
        for (int j; z.unmet[i] > 0 && (j = find_first_common(z.reach, z.R, i, z.cols, z.col_words)) >= 0;) {
          pass(z, i, j);
          if (z.spare[j] == 0) z.cols[j >> 5] &= ~(1u << (j & 31));
        }
      }
    }
  }
  synchronize<W>();
  return true;
}

// Compute the rows and columns at each distance from unmet rows; return the level of the first spare column, or -1.
template <int W>
__device__ __forceinline__ int compute_levels(const Scratch& z) {
  ROLLED
  for (int w = rank<W>(); w < z.col_words; w += W) z.cols[w] = 0;
  collect_members<W>(z.level_rows, z.R, true, [&](int i) { return z.unmet[i] > 0; });
  collect_members<W>(z.rows, z.R, true, [&](int i) { return z.unmet[i] > 0; });
  ROLLED
  for (int k = 0; k < z.levels; ++k) {
    const unsigned* from = z.level_rows + k * z.row_words;
    unsigned* cols = z.level_cols + k * z.col_words;
    bool end = false;
    synchronize<W>();
    const bool some = collect_members<W>(cols, z.C, true, [&](int j) {
      const bool found = !has(z.cols, j) && intersects(z.users, z.C, j, from, z.row_words);
      end |= found && z.spare[j] > 0;
      return found;
    });
    if (team_any<W>(end)) {
      synchronize<W>();
      return k;
    }
    if (!team_any<W>(some) || k + 1 == z.levels) return -1;
    synchronize<W>();
    ROLLED
    for (int w = rank<W>(); w < z.col_words; w += W) z.cols[w] |= cols[w];
    unsigned* rows = z.level_rows + (k + 1) * z.row_words;
    const bool more = collect_members<W>(
        rows, z.R, true, [&](int i) { return !has(z.rows, i) && intersects(z.feeds, z.R, i, cols, z.col_words); });
    if (!team_any<W>(more)) return -1;
    synchronize<W>();
    ROLLED
    for (int w = rank<W>(); w < z.row_words; w += W) z.rows[w] |= rows[w];
  }
  return -1;
}

// Find a shortest augmenting path from row `root` to a spare column; dead ends are removed from their level. One
// thread.
__device__ __forceinline__ bool find_path(const Scratch& z, int root, int depth) {
  z.path_rows[0] = root;
  ROLLED
  for (int k = 0; k >= 0;) {
    const int i = z.path_rows[k];
    unsigned *rows = z.level_rows + k * z.row_words, *cols = z.level_cols + k * z.col_words;
    const int j = find_first_common(z.reach, z.R, i, cols, z.col_words);
    if (j < 0) {
      rows[i >> 5] &= ~(1u << (i & 31));
      --k;
      continue;
    }
    z.path_cols[k] = j;
    if (k == depth && z.spare[j] > 0) return true;
    const int r = k == depth ? -1 : find_first_common(z.fed, z.C, j, rows + z.row_words, z.row_words);
    if (r < 0)
      cols[j >> 5] &= ~(1u << (j & 31));
    else
      z.path_rows[++k] = r;
  }
  return false;
}

// Augment the flow along the path by its bottleneck. One thread.
__device__ __forceinline__ void augment_path(const Scratch& z, int depth) {
  const int root = z.path_rows[0], last = z.path_cols[depth];
  i64 amount = min(z.unmet[root], z.spare[last]);
  if (z.flow) {
    ROLLED
    for (int k = 0; k < depth; ++k) amount = min(amount, z.flow[i64(z.path_cols[k]) * z.R + z.path_rows[k + 1]]);
  }
  ROLLED
  for (int k = 0; k <= depth; ++k) {
    send(z, z.path_rows[k], z.path_cols[k], amount);
    if (k < depth) send(z, z.path_rows[k + 1], z.path_cols[k], -amount);
  }
  z.unmet[root] -= amount;
  z.spare[last] -= amount;
}

// Augment the flow to a maximum (Dinic's algorithm; for equal targets this is Hopcroft-Karp matching).
template <int W>
__device__ __forceinline__ void maximize_flow(const Scratch& z) {
  for (int depth; (depth = compute_levels<W>(z)) >= 0;) {
    if (rank<W>() == 0)
      for (int i = 0; i < z.R; ++i)
        while (z.unmet[i] > 0 && find_path(z, i, depth)) augment_path(z, depth);
    synchronize<W>();
  }
}

// Remove flows of the size of rounding. A row or column that gets more than half of its target keeps its largest flow.
template <int W>
__device__ __forceinline__ void drop_rounding_flows(const Scratch& z, i64 slack) {
  const i64 lines = 2 * max(z.R, z.C);
  const auto noise = [&](int i, int j) {
    return z.flow[i64(j) * z.R + i] <= min(slack, min(z.row_cap[i], z.col_cap[j]) / lines);
  };
  ROLLED
  for (int item = rank<W>(); item < z.C * z.row_words; item += W) ROLLED
  for (unsigned rest = z.fed[item]; rest; rest &= rest - 1)
    if (noise(item / z.C * 32 + find_lowest_bit(rest), item % z.C)) z.fed[item] &= ~(rest & (0u - rest));
  ROLLED
  for (int item = rank<W>(); item < z.R * z.col_words; item += W) ROLLED
  for (unsigned rest = z.feeds[item]; rest; rest &= rest - 1)
    if (noise(item % z.R, item / z.R * 32 + find_lowest_bit(rest))) z.feeds[item] &= ~(rest & (0u - rest));
  synchronize<W>();
}

// ---- certificates and components ----

// Add to `rows` and `cols` all that is reachable from them: row -> column (positive cell) -> row (flow), or backwards.
template <int W>
__device__ __forceinline__ void find_reachable(const Scratch& z, bool backwards, unsigned* rows, unsigned* cols) {
  const unsigned *into = backwards ? z.fed : z.users, *out = backwards ? z.reach : z.feeds;
  bool grew = true;
  while (grew) {
    synchronize<W>();
    collect_members<W>(cols, z.C, false, [&](int j) { return intersects(into, z.C, j, rows, z.row_words); });
    synchronize<W>();
    grew = collect_members<W>(rows, z.R, false, [&](int i) { return intersects(out, z.R, i, cols, z.col_words); });
    grew = team_any<W>(grew);
  }
  synchronize<W>();
}

// Find the Hall violator: `rows` reachable from unmet rows, and the `cols` that they reach.
template <int W>
__device__ __forceinline__ void find_hall_violator(const Scratch& z, i64 slack) {
  i64 largest = 0;
  ROLLED
  for (int i = rank<W>(); i < z.R; i += W) largest = max(largest, z.unmet[i]);
  largest = team_reduce<W>(largest, [](i64 a, i64 b) { return max(a, b); });
  const i64 noise = slack / z.R;
  // Unmet targets of the size of rounding prove nothing where larger ones exist.
  collect_members<W>(z.rows, z.R, true,
                     [&](int i) { return z.unmet[i] > 0 && (z.unmet[i] > noise || largest <= noise); });
  ROLLED
  for (int w = rank<W>(); w < z.col_words; w += W) z.cols[w] = 0;
  find_reachable<W>(z, false, z.rows, z.cols);
}

// Whether some row or column with a target has no cell in a column or row with a target; writes the certificate to
// `rows` and `cols`, except columns without target.
template <int W>
__device__ __forceinline__ bool has_empty_line(const Scratch& z) {
  const bool row = collect_members<W>(
      z.rows, z.R, true, [&](int i) { return z.row_cap[i] > 0 && first(z.reach, z.R, i, z.col_words) < 0; });
  if (team_any<W>(row)) {
    ROLLED
    for (int w = rank<W>(); w < z.col_words; w += W) z.cols[w] = 0;
    synchronize<W>();
    return true;
  }
  bool col = false;
  collect_members<W>(z.cols, z.C, true, [&](int j) {
    const bool empty = z.col_cap[j] > 0 && first(z.users, z.C, j, z.row_words) < 0;
    col |= empty;
    return !empty;
  });
  if (!team_any<W>(col)) return false;
  collect_members<W>(z.rows, z.R, true, [&](int i) { return z.row_cap[i] > 0; });
  synchronize<W>();
  return true;
}

// Whether the first row with a target reaches all others and is reached by all.
template <int W>
__device__ __forceinline__ bool is_strongly_connected(const Scratch& z) {
  int start = z.R;
  ROLLED
  for (int i = rank<W>(); i < z.R; i += W)
    if (z.row_cap[i] > 0) start = min(start, i);
  start = team_reduce<W>(start, [](int a, int b) { return min(a, b); });
  ROLLED
  for (int w = rank<W>(); w < z.row_words; w += W)
    z.rows[w] = z.back_rows[w] = w == start >> 5 ? 1u << (start & 31) : 0;
  ROLLED
  for (int w = rank<W>(); w < z.col_words; w += W) z.cols[w] = z.back_cols[w] = 0;
  find_reachable<W>(z, false, z.rows, z.cols);
  bool all = true;
  ROLLED
  for (int i = rank<W>(); i < z.R; i += W) all &= z.row_cap[i] == 0 || has(z.rows, i);
  if (team_any<W>(!all)) return false;
  find_reachable<W>(z, true, z.back_rows, z.back_cols);
  ROLLED
  for (int i = rank<W>(); i < z.R; i += W) all &= z.row_cap[i] == 0 || has(z.back_rows, i);
  return !team_any<W>(!all);
}

// Transitive closure of n sets (Warshall).
template <int W>
__device__ __forceinline__ void close_transitively(unsigned* sets, int n, int words) {
  ROLLED
  for (int k = 0; k < n; ++k) {
    ROLLED
    for (int s = rank<W>(); s < n; s += W)
      if (s != k && has(sets, n, s, k)) {
        ROLLED
        for (int w = 0; w < words; ++w) sets[w * n + s] |= sets[w * n + k];
      }
    synchronize<W>();
  }
}

// Write to `unmet` and `spare` the strongly connected component of each row and column with a target, -1 for others:
// Warshall's closure on the shorter side; a row or column of the longer side joins those it feeds, or that feed it.
template <int W>
__device__ __forceinline__ void find_components(const Scratch& z) {
  const bool rows = z.R < z.C;
  const int n = min(z.R, z.C), far = max(z.R, z.C), words = (n + 31) / 32, far_words = (far + 31) / 32;
  const unsigned *out = rows ? z.reach : z.fed, *into = rows ? z.fed : z.reach;
  unsigned* next = z.level_rows;
  ROLLED
  for (int item = rank<W>(); item < n * words; item += W) {
    const int w = item / n, s = item % n;
    unsigned word = w == s >> 5 ? 1u << (s & 31) : 0;
    ROLLED
    for (int q = 0; q < far_words; ++q) ROLLED
    for (unsigned rest = out[q * n + s]; rest; rest &= rest - 1) word |= into[w * far + 32 * q + find_lowest_bit(rest)];
    next[item] = word;
  }
  synchronize<W>();
  close_transitively<W>(next, n, words);
  i64 *near_block = rows ? z.unmet : z.spare, *far_block = rows ? z.spare : z.unmet;
  const i64 *near_cap = rows ? z.row_cap : z.col_cap, *far_cap = rows ? z.col_cap : z.row_cap;
  ROLLED
  for (int s = rank<W>(); s < n; s += W) {
    int leader = 0;  // first member of its component
    while (!(has(next, n, s, leader) && has(next, n, leader, s))) ++leader;
    near_block[s] = near_cap[s] > 0 ? leader : -1;
  }
  synchronize<W>();
  const unsigned* ties = rows ? z.fed : z.feeds;
  ROLLED
  for (int t = rank<W>(); t < far; t += W) far_block[t] = far_cap[t] > 0 ? near_block[first(ties, far, t, words)] : -1;
  synchronize<W>();
}

// Renumber the components by their first rows.
template <int W>
__device__ __forceinline__ void number(const Scratch& z) {
  int* first_row = z.path_rows;
  ROLLED
  for (int k = rank<W>(); k < z.levels; k += W) first_row[k] = z.R;
  synchronize<W>();
  ROLLED
  for (int i = rank<W>(); i < z.R; i += W)
    if (z.unmet[i] >= 0) atomicMin(&first_row[z.unmet[i]], i);
  synchronize<W>();
  collect_members<W>(z.rows, z.R, true, [&](int i) { return z.unmet[i] >= 0 && first_row[z.unmet[i]] == i; });
  synchronize<W>();
  const auto renumber = [&](i64& block) {
    if (block < 0) return;
    const int before = first_row[block];
    int count = __popc(z.rows[before >> 5] & ((1u << (before & 31)) - 1u));
    ROLLED
    for (int w = 0; w < before >> 5; ++w) count += __popc(z.rows[w]);
    block = count;
  };
  ROLLED
  for (int i = rank<W>(); i < z.R; i += W) renumber(z.unmet[i]);
  ROLLED
  for (int j = rank<W>(); j < z.C; j += W) renumber(z.spare[j]);
  synchronize<W>();
}

// Classify the zeros under targets with one total; every thread of the team gets the status.
//
// CONVERGED: factors exist. LIMIT_ONLY: only a limit exists; `clear_cell(i, j)` is called, by any thread, for every
// positive cell that is zero in it. Then `unmet` and `spare` hold the components, which `number` counts by first rows.
// INFEASIBLE and ZERO_LINE: `rows` and `cols` are the Hall violator, with all columns that these rows reach.
template <int W, typename Positive, typename RowTarget, typename ColTarget, typename ClearCell>
__device__ __forceinline__ int classify(Scratch& z, Positive positive, RowTarget u, ColTarget v, ClearCell clear_cell) {
  const i64 slack = compute_capacities<W>(z, u, v);
  pack<W>(z, positive);
  if (has_empty_line<W>(z)) return CM_ZERO_LINE;
  if (send_greedily<W>(z)) {
    maximize_flow<W>(z);
    if (slack > 0) drop_rounding_flows<W>(z, slack);
    i64 left = 0;
    bool starved = false;  // lacks at least half of its target, which no rounding explains
    ROLLED
    for (int i = rank<W>(); i < z.R; i += W) {
      left += z.unmet[i];
      starved |= z.row_cap[i] > 0 && 2 * z.unmet[i] >= z.row_cap[i];
    }
    ROLLED
    for (int j = rank<W>(); j < z.C; j += W) starved |= z.col_cap[j] > 0 && 2 * z.spare[j] >= z.col_cap[j];
    left = team_sum<W>(left);
    starved = team_any<W>(starved);
    if (left > slack || (left > 0 && starved)) {
      find_hall_violator<W>(z, slack);
      return CM_INFEASIBLE;
    }
  } else if (slack > 0) {
    drop_rounding_flows<W>(z, slack);
  }
  if (is_strongly_connected<W>(z)) {
    ROLLED
    for (int i = rank<W>(); i < z.R; i += W) z.unmet[i] = z.row_cap[i] > 0 ? 0 : -1;
    ROLLED
    for (int j = rank<W>(); j < z.C; j += W) z.spare[j] = z.col_cap[j] > 0 ? 0 : -1;
    synchronize<W>();
    return CM_CONVERGED;
  }
  find_components<W>(z);
  bool dead = false;
  ROLLED
  for (int item = rank<W>() / 32; item < z.R * z.col_words; item += W / 32) {
    const int i = item / z.col_words, j = 32 * (item % z.col_words) + rank<W>() % 32;
    if (j < z.C && has(z.reach, z.R, i, j) && z.unmet[i] != z.spare[j]) {
      clear_cell(i, j);
      dead = true;
    }
  }
  return team_any<W>(dead) ? CM_LIMIT_ONLY : CM_CONVERGED;
}

// Whether member `start` is reached, over any number of sets, from every member that `live` names.
template <int W, typename Live>
__device__ __forceinline__ bool is_reached_by_all(const unsigned* sets, int n, int words, unsigned* seen, int start,
                                                  Live live) {
  unsigned* next = seen + words;
  ROLLED
  for (int w = rank<W>(); w < words; w += W) seen[w] = w == start >> 5 ? 1u << (start & 31) : 0;
  bool grew = true;
  while (grew) {
    synchronize<W>();
    collect_members<W>(next, n, true, [&](int i) { return intersects(sets, n, i, seen, words); });
    synchronize<W>();
    grew = team_any<W>(collect_members<W>(seen, n, false, [&](int i) { return has(next, i); }));
  }
  synchronize<W>();
  bool all = true;
  ROLLED
  for (int i = rank<W>(); i < n; i += W) all &= !live(i) || has(seen, i);
  return !team_any<W>(!all);
}

// Classify n rows and columns whose diagonal meets the targets, without a search for a flow: a cell has support if its
// column's class reaches its row's class. With MANY members one is tested first. Uses `memory` as scratch.
template <int W, bool MANY, typename Positive, typename Live, typename ClearCell>
__device__ __forceinline__ int classify_by_diagonal(unsigned* memory, int n, Positive positive, Live live,
                                                    ClearCell clear_cell) {
  const int words = (n + 31) / 32;
  ROLLED
  for (int i = rank<W>() / 32; i < n; i += W / 32)
#pragma unroll(MANY ? 4 : 1)
    for (int w = 0; w < words; ++w) {
      const int j = 32 * w + rank<W>() % 32;
      const unsigned word = __ballot_sync(CM_ALL_LANES, j < n && (j == i || positive(i, j)));
      if (rank<W>() % 32 == 0) memory[w * n + i] = word;
    }
  synchronize<W>();
  if constexpr (MANY) {
    unsigned *back = memory + n * words, *seen = back + n * words;
    int start = n;
    for (int i = n - 1 - rank<W>(); i >= 0; i -= W)
      if (live(i)) start = i;
    start = team_reduce<W>(start, [](int a, int b) { return min(a, b); });
    transpose<W>(memory, n, back, n, words);
    if (is_reached_by_all<W>(memory, n, words, seen, start, live) &&
        is_reached_by_all<W>(back, n, words, seen, start, live))
      return CM_CONVERGED;
  }
  close_transitively<W>(memory, n, words);
  bool dead = false;
  ROLLED
  for (int i = rank<W>() / 32; i < n; i += W / 32) ROLLED
  for (int j = rank<W>() % 32; j < n; j += 32)
    if (positive(i, j) && !has(memory, n, j, i)) {
      clear_cell(i, j);
      dead = true;
    }
  return team_any<W>(dead) ? CM_LIMIT_ONLY : CM_CONVERGED;
}

#undef ROLLED

}  // namespace zeros
