// Classification of zero patterns with certificates: a warp for each matrix, or a block for large ones.

// Targets of one matrix: ones where none are given, columns scaled to the row total.
struct Targets {
  const double *row_sums, *col_sums;
  double ratio;

  __device__ __forceinline__ double u(int i) const { return row_sums ? row_sums[i] : 1.0; }
  __device__ __forceinline__ double v(int j) const { return col_sums ? __dmul_rn(col_sums[j], ratio) : 1.0; }
};

// Equalise the totals; return OK or the status of the failure.
template <int W>
__device__ __forceinline__ int check(Targets& t, int R, int C) {
  bool good = true;
  if (!t.row_sums) return CM_CONVERGED;
  for (int i = zeros::rank<W>(); i < R; i += W) good &= t.u(i) >= 0.0 && t.u(i) < CM_INF;
  for (int j = zeros::rank<W>(); j < C; j += W) good &= t.v(j) >= 0.0 && t.v(j) < CM_INF;
  if (team_any<W>(!good)) return CM_INVALID;
  const double U = zeros::total(R, [&](int i) { return t.u(i); });
  const double V = zeros::total(C, [&](int j) { return t.v(j); });
  const int wrong = compare_totals(U, V);
  if (wrong == CM_CONVERGED && U != V) t.ratio = U / V;
  return wrong;
}

// Add to the certificate the columns without target in which its rows have a positive cell.
template <int W, typename T>
__device__ __forceinline__ void reach(const zeros::Scratch& z, const T* m) {
  zeros::collect_members<W>(z.cols, z.C, false, [&](int j) {
    bool found = false;
    for (int i = 0; i < z.R && !found; ++i) found = zeros::has(z.rows, i) && widen(m[i64(i) * z.C + j]) > 0.0;
    return found;
  });
  zeros::synchronize<W>();
}

// Blocks that fit on a multiprocessor without spilling registers; the compiler must be told.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int BLOCKS = 2;
#else
constexpr int BLOCKS = 3;
#endif

// Kernel: a team of threads loops over matrices and reuses its workspace, in `memory` if given, else in shared memory.
// `flow` is used for targets that may differ.
template <typename T, int W>
__global__ void __launch_bounds__(CM_THREADS, BLOCKS)
    cmfast_support_patterns(const T* __restrict__ M, int m_step, const double* __restrict__ row_sums, int row_step,
                            const double* __restrict__ col_sums, int col_step, int R, int C, i64 n, int numbers,
                            i64* memory, i64* flow, signed char* out_status, unsigned char* out_dead,
                            i64* out_row_block, i64* out_col_block, unsigned char* out_rows, unsigned char* out_cols,
                            double* out_wanted, double* out_available) {
  CM_DYN_SMEM(i64, shared);
  const i64 cells = i64(R) * C;
  const int me = zeros::rank<W>(), teams = CM_THREADS / W, team_of_block = threadIdx.x / W;
  const i64 place = i64(blockIdx.x) * teams + team_of_block;
  i64* mine = memory ? memory + place * numbers : shared + (W > 32 ? W / 32 : 0) + i64(team_of_block) * numbers;
  for (Team<W> team(n); team.more(); team.next()) {
    if (!team.mine()) continue;
    const i64 b = team.matrix();
    const T* m = M + b * m_step * cells;
    Targets t{row_sums ? row_sums + b * row_step * R : nullptr, col_sums ? col_sums + b * col_step * C : nullptr, 1.0};
    unsigned char *dead = out_dead + b * cells, *rows = out_rows + b * R, *cols = out_cols + b * C;
    bool bad = false, gap = false;
    for (i64 k = me; k < cells; k += W) {
      const double x = widen(m[k]);
      bad |= !(x >= 0.0 && x < CM_INF);
      gap |= x == 0.0;
      dead[k] = 0;
    }
    bad = team_any<W>(bad);
    int status = check<W>(t, R, C);
    if (bad) status = CM_INVALID;
    for (int k = me; k < R + C; k += W) gap |= (k < R ? t.u(k) : t.v(k - R)) == 0.0;
    gap = team_any<W>(gap);
    zeros::synchronize<W>();  // clearing is finished before marking starts
    zeros::Scratch z(R, C, mine, flow ? flow + place * cells : nullptr);
    const bool search = status == CM_CONVERGED && gap;
    if (search) {
      status = zeros::classify<W>(
          z, [&](int i, int j) { return widen(m[i64(i) * C + j]) > 0.0; }, [&](int i) { return t.u(i); },
          [&](int j) { return t.v(j); }, [&](int i, int j) { dead[i64(i) * C + j] = 1; });
      if (status == CM_CONVERGED || status == CM_LIMIT_ONLY) zeros::number<W>(z);
      if (status == CM_ZERO_LINE) reach<W>(z, m);
    }
    const bool fine = status == CM_CONVERGED || status == CM_LIMIT_ONLY, all = status == CM_TOTALS;
    const bool some = status == CM_INFEASIBLE || status == CM_ZERO_LINE;
    for (int i = me; i < R; i += W) {
      rows[i] = all || (some && zeros::has(z.rows, i));
      out_row_block[b * R + i] = !fine ? -1 : search ? z.unmet[i] : 0;
    }
    for (int j = me; j < C; j += W) {
      cols[j] = all || (some && zeros::has(z.cols, j));
      out_col_block[b * C + j] = !fine ? -1 : search ? z.spare[j] : 0;
    }
    if (me < 2) {
      const auto member = [&](int k) { return all || (some && zeros::has(me ? z.cols : z.rows, k)); };
      const auto target = [&](int k) { return !member(k) ? 0.0 : me ? t.v(k) : t.u(k); };
      const double sum = status == CM_INVALID ? CM_NAN : all || some ? zeros::total(me ? C : R, target) : 0.0;
      (me ? out_available : out_wanted)[b] = sum;
      if (me == 0) out_status[b] = status;
    }
    zeros::synchronize<W>();  // before the workspace is reused
  }
}
