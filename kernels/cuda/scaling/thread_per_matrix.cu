// Scaling of common matrices with up to four rows and columns: one thread has a matrix of at most K rows and columns in
// registers, so lanes do not communicate. The steps, and what is left to another kernel, are those of group.cu. Rows
// and columns beyond the matrix have target zero, as dropped ones.

// A matrix as solved: transposed if that makes the columns, Newton's unknowns, the shorter side.
template <int K>
struct Single {
  double m[K][K];
  double own[K];  // the diagonal, while it is removed from the cells
  double u[K], v[K], x[K], y[K];
  double total;
  int rows, cols, done;
  int order[K];  // column of the input at each position
  bool flip, easy, paired, warm, limit, zeros;

  __device__ __forceinline__ double row_sum(int i, const double (&factor)[K]) const {
    double sum = 0.0;
#pragma unroll
    for (int j = 0; j < K; ++j) sum += m[i][j] * factor[j];
    return sum;
  }
  __device__ __forceinline__ double col_sum(int j, const double (&factor)[K]) const {
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < K; ++i) sum += m[i][j] * factor[i];
    return sum;
  }

  // Load the cells with their minimum and maximum.
  __device__ __forceinline__ void take(const double* cells, int C, double smoothing, double* low, double* high) {
    *low = CM_INF;
    *high = 0.0;
    easy = true;
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
      for (int j = 0; j < K; ++j) {
        double cell = 0.0;
        if (i < rows && j < cols) {
          cell = cells[flip ? j * C + i : i * C + j];
          easy &= cell >= 0.0 && cell < CM_INF;
          cell += smoothing;
          if (cell > 0.0) *low = fmin(*low, cell);
          *high = fmax(*high, cell);
        }
        m[i][j] = cell;
      }
  }

  // Validate the targets, drop empty classes, classify the zeros; `easy` says whether this kernel can finish the
  // matrix.
  __device__ __forceinline__ void check_input(bool drop) {
    unsigned of_row[K], of_col[K], with_target = 0, cols_with_target = 0;
    double U = 0.0, V = 0.0;
    bool good = true, carried = true;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      of_row[k] = of_col[k] = 0;
#pragma unroll
      for (int j = 0; j < K; ++j) {
        if (m[k][j] > 0.0) of_row[k] |= line_bit(j);
        if (m[j][k] > 0.0) of_col[k] |= line_bit(j);
      }
      if (drop && of_row[k] == 0 && of_col[k] == 0) u[k] = v[k] = 0.0;
      U += u[k];
      V += v[k];
    }
    const double given = flip ? V : U;
    total = given > 0.0 ? given : 1.0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      good &= u[k] >= 0.0 && u[k] < CM_INF && v[k] >= 0.0 && v[k] < CM_INF;
      if (U != V) {
        u[k] *= given / U;
        v[k] *= given / V;
      }
      if (u[k] > 0.0) with_target |= line_bit(k);
      if (v[k] > 0.0) cols_with_target |= line_bit(k);
    }
    zeros = false;
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (v[j] == 0.0 || !(with_target & line_bit(k))) m[k][j] = 0.0;
      of_row[k] = u[k] > 0.0 ? of_row[k] & cols_with_target : 0;
      of_col[k] = v[k] > 0.0 ? of_col[k] & with_target : 0;
      good &= (u[k] == 0.0 || of_row[k] != 0) && (v[k] == 0.0 || of_col[k] != 0);
      zeros |= u[k] > 0.0 && of_row[k] != cols_with_target;
      carried &= u[k] == v[k] && (u[k] == 0.0 || m[k][k] > 0.0);
    }
    easy &= good && compare_totals(U, V) == CM_CONVERGED && (!zeros || (rows == cols && carried));
    limit = easy && zeros && clear_unsupported(of_row);
  }

  // Clear unsupported cells, which are zero in every matrix with these zeros and margins; see group.cu.
  __device__ __forceinline__ bool clear_unsupported(const unsigned (&of_row)[K]) {
    unsigned leads[K];
    bool dead = false;
#pragma unroll
    for (int k = 0; k < K; ++k) leads[k] = of_row[k] | line_bit(k);
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < K; ++i)
        if (leads[i] & line_bit(k)) leads[i] |= leads[k];
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (m[i][j] > 0.0 && !(leads[j] & line_bit(i))) {
          m[i][j] = 0.0;
          dead = true;
        }
    return dead;
  }

  __device__ __forceinline__ void remove_diagonal() {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      own[k] = m[k][k];
      m[k][k] = 0.0;
    }
  }
  __device__ __forceinline__ void restore_diagonal() {
#pragma unroll
    for (int k = 0; k < K; ++k) m[k][k] = own[k];
  }

  // Whether m_ii m_jj > m_ij m_ji for all classes i, j that are not dropped.
  __device__ __forceinline__ bool has_dominant_diagonal() const {
    bool good = rows == cols;
#pragma unroll
    for (int i = 0; i < K; ++i) {
      good &= (u[i] == 0.0) == (v[i] == 0.0) && (u[i] == 0.0 || m[i][i] > 0.0);
#pragma unroll
      for (int j = 0; j < i; ++j) good &= u[i] == 0.0 || u[j] == 0.0 || m[i][i] * m[j][j] > m[i][j] * m[j][i];
    }
    return good;
  }

  // Set the initial column factors: the caller's if positive and finite, else one.
  __device__ __forceinline__ void begin(const double* row, const double* col) {
    bool by_rows = row, by_cols = col;
    warm = false;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      x[k] = row && k < rows ? row[k] : 1.0;
      y[k] = col && k < cols ? col[k] : 1.0;
      by_rows &= u[k] == 0.0 || is_usable(x[k]);
      by_cols &= v[k] == 0.0 || is_usable(y[k]);
    }
    if (!row && !col) return;
    warm = by_rows || by_cols;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (!(u[k] > 0.0)) x[k] = 0.0;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (!by_cols) y[k] = by_rows && v[k] > 0.0 ? v[k] / (col_sum(k, x) + x[k] * own[k]) : 1.0;
#pragma unroll
    for (int k = 0; k < K; ++k) x[k] = 1.0;
  }

  // One Sinkhorn sweep: scale the rows, then the columns.
  __device__ __forceinline__ void run_sweep() {
#pragma unroll
    for (int i = 0; i < K; ++i) x[i] = u[i] > 0.0 ? u[i] / (row_sum(i, y) + own[i] * y[i]) : 0.0;
#pragma unroll
    for (int j = 0; j < K; ++j) y[j] = v[j] > 0.0 ? v[j] / (col_sum(j, x) + own[j] * x[j]) : 0.0;
  }

  // Move the value at position from[l] to position l, without an index visible to the compiler: registers cannot be
  // indexed.
  template <typename T>
  __device__ __forceinline__ static void permute(T (&values)[K], const int (&from)[K]) {
    T brought[K];
#pragma unroll
    for (int l = 0; l < K; ++l) {
      brought[l] = values[l];
#pragma unroll
      for (int j = 0; j < K; ++j) {
        int here = from[l] == j;
        asm volatile("" : "+r"(here));
        if (here) brought[l] = values[j];
      }
    }
#pragma unroll
    for (int l = 0; l < K; ++l) values[l] = brought[l];
  }

  // Pair each row with its largest scaled cell if the columns are distinct, else by a positive diagonal.
  __device__ __forceinline__ bool pair_by_search() {
    unsigned alive = 0, taken = 0;
    int row_of[K], from[K];
#pragma unroll
    for (int l = 0; l < K; ++l) row_of[l] = -1;
#pragma unroll
    for (int i = 0; i < K; ++i) {
      if (!(u[i] > 0.0)) continue;
      int best = 0;
      double most = -1.0;
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (j < cols && m[i][j] * y[j] > most) {
          most = m[i][j] * y[j];
          best = j;
        }
      alive |= line_bit(i);
      taken |= line_bit(best);
#pragma unroll
      for (int l = 0; l < K; ++l)
        if (l == best) row_of[l] = i;
    }
    bool distinct = __popc(taken) == __popc(alive), same = true;
#pragma unroll
    for (int l = 0; l < K; ++l) distinct &= taken & line_bit(l) || v[l] == 0.0;
#pragma unroll
    for (int l = 0; l < K; ++l) {
      // Unpaired rows and columns are dropped ones.
      if (distinct && !(taken & line_bit(l))) row_of[l] = find_nth_bit(~alive, __popc(~taken & (line_bit(l) - 1)));
      from[l] = l;
    }
#pragma unroll
    for (int l = 0; l < K; ++l)
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (distinct && row_of[j] == l) from[l] = j;
    permute(v, from);
    permute(y, from);
    permute(order, from);
#pragma unroll
    for (int i = 0; i < K; ++i) permute(m[i], from);
#pragma unroll
    for (int l = 0; l < K; ++l) same &= (u[l] == 0.0) == (v[l] == 0.0) && (u[l] == 0.0 || m[l][l] > 0.0);
    return distinct || same;
  }

  // Solve row i and column i jointly for every i in parallel; see group.cu.
  __device__ __forceinline__ void update_pairs() {
    double new_x[K], new_y[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const double a = row_sum(k, y), b = col_sum(k, x);
      const double A = own[k] * a, B = a * b + own[k] * (v[k] - u[k]), G = u[k] * b, D = fast_sqrt(B * B + 4.0 * A * G);
      new_x[k] = (B >= 0.0 ? 2.0 * G : D - B) * reciprocal(B >= 0.0 ? B + D : 2.0 * A);
      new_y[k] = v[k] * reciprocal(own[k] * new_x[k] + b);
    }
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (is_usable(new_x[k]) && is_usable(new_y[k])) {  // dropped classes and underflows keep their factors
        x[k] = new_x[k];
        y[k] = new_y[k];
      }
  }

  // Find the pairing and compute initial factors.
  __device__ __forceinline__ void start(bool dominant) {
    paired = dominant;
    done = 0;
    if (!dominant) {
#pragma unroll 1
      for (int pass = 0; pass < START_PASSES; ++pass) run_sweep();
      if (rows == cols) {
        restore_diagonal();
        paired = pair_by_search();
        remove_diagonal();
      }
      done = START_PASSES;
    }
    if (!paired) return;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const bool positive = u[k] > 0.0 && own[k] > 0.0;
      if (warm)
        x[k] = u[k] > 0.0 ? u[k] / (row_sum(k, y) + own[k] * y[k]) : 0.0;
      else
        x[k] = positive ? sqrt(u[k] / own[k]) : 0.0;
    }
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (!warm && u[k] > 0.0 && own[k] > 0.0) y[k] = sqrt(v[k] / own[k]);
    done += START_PASSES;
#pragma unroll 1
    for (int pass = 0; pass < START_PASSES; ++pass) update_pairs();
  }

  // Run Newton's method until the residual and the last step are small; `easy` stays set if that was soon enough, or if
  // steps stalled and `stalls` allows that.
  __device__ __forceinline__ void run_newton(const Goals& goals, double last_width, int patience, bool stalls) {
    double rho = CM_INF, before = CM_INF, share[K];
    const double whole = 1.0 / total;
#pragma unroll
    for (int i = 0; i < K; ++i) share[i] = u[i] > 0.0 ? 1.0 / u[i] : 0.0;
#pragma unroll 1
    while (true) {
      // Weights and flows between columns l < j in the upper triangles of `W` and `F`, and the sources.
      double W[K][K], F[K][K], q[K], residual = 0.0;
      bool fits = true;
      scale_rows(goals, share, W, F, q, &residual, &fits);
      residual *= whole;
      const bool met = goals.met(residual, fits, rho <= last_width, has_stalled(rho, before));
      if (!(residual < CM_INF) || met || done >= patience) {
        easy = met && (stalls || rho <= last_width);
        return;
      }
      eliminate(W, F, q);
      before = rho;
      rho = take_step(q);
      ++done;
    }
  }

  // Scale the rows to their targets; write weights, flows and sources.
  __device__ __forceinline__ void scale_rows(const Goals& goals, const double (&share)[K], double (&W)[K][K],
                                             double (&F)[K][K], double (&q)[K], double* residual, bool* fits) {
    double sum[K];
#pragma unroll
    for (int j = 0; j < K; ++j) {
      sum[j] = 0.0;
#pragma unroll
      for (int l = 0; l < j; ++l) W[l][j] = F[l][j] = 0.0;
    }
#pragma unroll
    for (int i = 0; i < K; ++i) {
      const double mine = own[i] * y[i], rest = row_sum(i, y);
      double cell[K];
      x[i] = u[i] > 0.0 ? u[i] * reciprocal(rest + mine) : 0.0;
#pragma unroll
      for (int j = 0; j < K; ++j) {
        cell[j] = x[i] * m[i][j] * y[j];
        sum[j] += cell[j];
      }
      // Of this row: flows from later columns, and flows to earlier ones.
#pragma unroll
      for (int j = i + 1; j < K; ++j) F[i][j] -= cell[j];
#pragma unroll
      for (int j = 0; j < i; ++j) F[j][i] += cell[j];
      q[i] = x[i] * rest;
      cell[i] = x[i] * mine;
#pragma unroll
      for (int j = 0; j < K; ++j)
#pragma unroll
        for (int l = 0; l < j; ++l) W[l][j] += cell[j] * (cell[l] * share[i]);
    }
#pragma unroll
    for (int l = 0; l < K; ++l) {
      const double apart = q[l] - sum[l];
      q[l] = paired ? v[l] - u[l] : v[l] - (sum[l] + x[l] * own[l] * y[l]);
      const double gap = paired ? q[l] + apart : q[l];
      *residual += fabs(gap);
      *fits &= goals.fits(gap, v[l]);
#pragma unroll
      for (int j = l + 1; j < K; ++j)
        if (!paired) F[l][j] = 0.0;
    }
  }

  // Take a damped Newton step without a line search; return the range of the full step.
  __device__ __forceinline__ double take_step(const double (&d)[K]) {
    double low = 0.0, high = 0.0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
      low = d[j] < low ? d[j] : low;  // fmin and fmax would test for NaN, which shows in the residual
      high = d[j] > high ? d[j] : high;
    }
    const double rho = high - low, middle = 0.5 * (low + high);  // keep the factors centred
    const double step = damped_step(rho);
#pragma unroll
    for (int j = 0; j < K; ++j)
      if (v[j] > 0.0) y[j] *= exp(step * (d[j] - middle));
    return rho;
  }

  // Normalise: divide the input's row factors by their geometric mean, multiply the column factors by it.
  __device__ __forceinline__ void normalize_factors() {
    double power = 0.0, product = 1.0, count = 0.0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (!((flip ? v[k] : u[k]) > 0.0)) continue;
      const double factor = flip ? y[k] : x[k], exponent = is_usable(factor) ? get_exponent(factor) : 0.0;
      count += 1.0;
      power += exponent;
      if (is_usable(factor)) product *= multiply_by_power(factor, -exponent);
    }
    if (count == 0.0) return;
    const double whole = floor(power / count), part = power - whole * count;
    const double mean = multiply_by_power(exp((log(product) + part * 0.693147180559945309417) / count), whole);
    const double inverse = 1.0 / mean;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      x[k] *= flip ? mean : inverse;
      y[k] *= flip ? inverse : mean;
    }
  }

  // Scale the cells; return the residual, infinite where a factor is out of range, and the largest relative error of a
  // row or column.
  __device__ __forceinline__ double scale(double* worst) {
    double residual = 0.0;
    *worst = 0.0;
    bool good = true;
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
      for (int j = 0; j < K; ++j) m[i][j] = x[i] * m[i][j] * y[j];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      double row = 0.0, col = 0.0;
#pragma unroll
      for (int j = 0; j < K; ++j) {
        row += m[k][j];
        col += m[j][k];
      }
      residual += fabs(row - u[k]) + fabs(col - v[k]);
      if (u[k] > 0.0) *worst = fmax(*worst, fabs(row - u[k]) / u[k]);
      if (v[k] > 0.0) *worst = fmax(*worst, fabs(col - v[k]) / v[k]);
      good &= (u[k] == 0.0 || is_usable(x[k])) && (v[k] == 0.0 || is_usable(y[k]));
    }
    return good ? residual / total : CM_INF;
  }

  // Whether no cell depends on the rounding of targets, by a sufficient condition: one column has a part of every row.
  __device__ __forceinline__ bool is_certain() const {
    bool found = false;
    double least = CM_INF;
#pragma unroll
    for (int j = 0; j < K; ++j)
      if (v[j] > 0.0) least = fmin(least, v[j]);
    const double part = CM_DOUBT * total / least;
#pragma unroll
    for (int j = 0; j < K; ++j) {
      bool all = true;
#pragma unroll
      for (int i = 0; i < K; ++i) all &= u[i] == 0.0 || m[i][j] >= part * u[i];
      found |= all && v[j] > 0.0;
    }
    return found;
  }
};

// Scale the common matrices; all others are appended to `out_queue`, for a kernel that writes their results again. Of
// the two pointers to cells one is null, of those to results one or both.
template <int K>
__global__ void __launch_bounds__(CM_SINGLE_THREADS, K == 2   ? 10
                                                     : K == 3 ? 8
                                                              : 1)
    cmfast_ipf_single(const float* __restrict__ floats, const double* __restrict__ doubles, i64 m_step,
                      const double* __restrict__ row_sums, i64 row_sums_step, const double* __restrict__ col_sums,
                      i64 col_sums_step, const double* __restrict__ start_row, i64 start_row_step,
                      const double* __restrict__ start_col, i64 start_col_step, int R, int C, i64 n, double smoothing,
                      int drop, int bi, double target, double still, double bound, double last_width, i64 max_iter,
                      float* out_floats, double* out_doubles, double* out_row, double* out_col, double* out_residual,
                      i64* out_n_iter, signed char* out_status, double* out_smoothing, double* out_line_error,
                      i64* out_queue, u64* out_length) {
  CM_DYN_SMEM(double, numbers);
  const int size = R * C, lane = threadIdx.x % 32;
  double* held = numbers + threadIdx.x / 32 * 32 * (size | 1);
  const i64 warps = blockDim.x / 32;
  for (i64 first = (blockIdx.x * warps + threadIdx.x / 32) * 32; first < n; first += gridDim.x * warps * 32) {
    const int matrices = int(min(i64(32), n - first));
    i64 b = min(first + lane, n - 1);
    transfer_values(size, matrices, [&](int at, int k, int place) {
      const i64 from = m_step ? first * size + k : i64(at);
      held[place] = floats ? widen(floats[from]) : doubles[from];
    });
    Single<K> t;
    double low, high;
    t.flip = R < C;
    t.rows = t.flip ? C : R;
    t.cols = t.flip ? R : C;
    t.take(held + (lane < matrices ? lane : 0) * (size | 1), C, smoothing, &low, &high);
    __syncwarp();  // all have read what results will overwrite
    const double* rows = t.flip ? (col_sums ? col_sums + b * col_sums_step : nullptr)
                                : (row_sums ? row_sums + b * row_sums_step : nullptr);
    const double* cols = t.flip ? (row_sums ? row_sums + b * row_sums_step : nullptr)
                                : (col_sums ? col_sums + b * col_sums_step : nullptr);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      t.u[k] = k < t.rows ? (rows ? rows[k] : 1.0) : 0.0;
      t.v[k] = k < t.cols ? (cols ? cols[k] : 1.0) : 0.0;
      t.order[k] = k;
      t.x[k] = t.y[k] = CM_NAN;
    }
    t.check_input(drop && bi);
    const bool dominant = t.has_dominant_diagonal();
    t.easy &= low >= 1.0 / CM_WIDE && high <= CM_WIDE && high <= (dominant ? CM_VAST : CM_MOST_SCALE_RATIO) * low;
    double residual = CM_INF, worst = CM_INF;
    t.done = 0;
    if (t.easy) {
      const double* by_row = start_row ? start_row + b * start_row_step : nullptr;
      const double* by_col = start_col ? start_col + b * start_col_step : nullptr;
      t.remove_diagonal();
      t.begin(t.flip ? by_col : by_row, t.flip ? by_row : by_col);
      t.start(dominant);
      t.run_newton(Goals{target, still, bound}, last_width, int(min(max_iter, i64(PATIENT_PASSES))), bi);
      t.restore_diagonal();
      forget(first);
      b = min(first + lane, n - 1);
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (!(t.v[k] > 0.0)) t.y[k] = 0.0;
      t.normalize_factors();
      residual = t.scale(&worst);
      t.easy &= residual <= bound && worst <= Goals::line_bound(bound) && t.done <= max_iter && (bi || t.is_certain());
    }
    if (out_floats || out_doubles) {
#pragma unroll
      for (int i = 0; i < K; ++i)
#pragma unroll
        for (int j = 0; j < K; ++j)
          if (i < t.rows && j < t.cols) held[lane * (size | 1) + (t.flip ? j * C + i : i * C + t.order[j])] = t.m[i][j];
      __syncwarp();
      transfer_values(size, matrices, [&](int, int k, int place) {
        if (out_floats)
          out_floats[first * size + k] = narrow<float>(held[place]);
        else
          out_doubles[first * size + k] = held[place];
      });
    }
    double along_rows[K], along_cols[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      along_rows[k] = t.limit ? CM_NAN : t.flip ? t.y[k] : t.x[k];
      along_cols[k] = t.limit ? CM_NAN : t.flip ? t.x[k] : t.y[k];
    }
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (k < R) held[lane * (R | 1) + k] = along_rows[k];
    __syncwarp();
    transfer_values(R, matrices, [&](int, int k, int place) { out_row[first * R + k] = held[place]; });
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (k < C) held[lane * (C | 1) + t.order[k]] = along_cols[k];
    __syncwarp();
    transfer_values(C, matrices, [&](int, int k, int place) { out_col[first * C + k] = held[place]; });
    if (lane < matrices) {
      out_residual[b] = residual;
      out_n_iter[b] = t.done;
      out_status[b] = t.limit ? CM_LIMIT_ONLY : CM_CONVERGED;
      out_smoothing[b] = smoothing;
      out_line_error[b] = worst;
      if (!t.easy) enqueue(b, out_queue, out_length);
    }
  }
}
