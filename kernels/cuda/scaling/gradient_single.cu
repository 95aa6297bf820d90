// Gradient of matrix scaling with up to four rows and columns: one thread has a matrix of at most K rows and columns.
// The algorithm is that of kernels/cpu/scaling/gradient.py. Rows and columns beyond the matrix have factor zero.

// A matrix as solved: transposed if that makes the columns the shorter side.
template <int K>
struct Sloped {
  const double *cells, *given;  // cells and gradients in the scaled cells, as in the input
  double smoothing;
  int rows, cols, by_row, by_col;
  bool flip;
  unsigned live, gone;          // bit masks: positive cells (of a limit the supported ones); empty columns
  double x[K], y[K], p[K][K];   // factors; scaled cells, later the gradient in log cells
  double share[K], s[K], q[K];  // 1 / row sums; gradients in log factors; later, in
  double a[K];                  // q, those in the column targets; in the row targets
  double mean, total;           // weighted mean of the columns' solution; the total

  __device__ __forceinline__ bool has(int i, int j) const { return i < rows && j < cols; }
  __device__ __forceinline__ int at(int i, int j) const { return i * by_row + j * by_col; }
  __device__ __forceinline__ bool lives(int i, int j) const { return live & line_bit(i * K + j); }
  // Loads unconditionally, without a branch.
  __device__ __forceinline__ double m(int i, int j) const {
    const double cell = cells[has(i, j) ? at(i, j) : 0] + smoothing;
    return lives(i, j) ? cell : 0.0;
  }
  __device__ __forceinline__ double g(int i, int j) const {
    const double slope = given[has(i, j) ? at(i, j) : 0];
    return has(i, j) ? slope : 0.0;
  }

  // Bit masks of the columns of each row's block (connected component of positive cells).
  __device__ __forceinline__ void label_blocks(unsigned (&block)[K]) const {
#pragma unroll
    for (int i = 0; i < K; ++i) block[i] = live >> (i * K) & ((1u << K) - 1);
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < K; ++i)
        if (block[i] & block[k]) block[i] |= block[k];
  }

  // Compute factors of a limit, which has no factors itself: within a block they follow from its cells, `scaled(at)`.
  template <typename Scaled>
  __device__ __forceinline__ void compute_limit_factors(Scaled scaled) {
    unsigned block[K];
    label_blocks(block);
#pragma unroll
    for (int i = 0; i < K; ++i) {
      x[i] = block[i] != 0;
      y[i] = 0.0;
#pragma unroll
      for (int k = 0; k < i; ++k)
        if (block[i] & block[k]) x[i] = 0.0;
    }
#pragma unroll 1
    for (int step = 0; step < rows; ++step) {
#pragma unroll
      for (int j = 0; j < K; ++j) {
        double top = 0.0, cell = 1.0, other = 0.0;
#pragma unroll
        for (int i = 0; i < K; ++i)
          if (other == 0.0 && x[i] != 0.0 && lives(i, j)) {
            top = scaled(at(i, j));
            cell = m(i, j);
            other = x[i];
          }
        if (y[j] == 0.0 && other != 0.0) y[j] = top / cell / other;
      }
#pragma unroll
      for (int i = 0; i < K; ++i) {
        double top = 0.0, cell = 1.0, other = 0.0;
#pragma unroll
        for (int j = 0; j < K; ++j)
          if (other == 0.0 && y[j] != 0.0 && lives(i, j)) {
            top = scaled(at(i, j));
            cell = m(i, j);
            other = y[j];
          }
        if (x[i] == 0.0 && other != 0.0) x[i] = top / cell / other;
      }
    }
  }

  __device__ __forceinline__ void scale() {
    gone = (1u << cols) - 1;
#pragma unroll
    for (int i = 0; i < K; ++i) {
      double sum = 0.0;
#pragma unroll
      for (int j = 0; j < K; ++j) {
        p[i][j] = x[i] * m(i, j) * y[j];
        sum += p[i][j];
        if (p[i][j] > 0.0) gone &= ~line_bit(j);
      }
      share[i] = sum > 0.0 ? 1.0 / sum : 0.0;
    }
  }

  // Convert gradients in normalised factors to gradients in log factors of any normalisation: the mean log row factor
  // of the input is zero, so the rows absorb the difference of both totals.
  __device__ __forceinline__ void convert_to_log_factors(const double* of_rows, const double* of_cols) {
    double gap = 0.0, number = 0.0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      s[k] = of_rows && k < rows ? of_rows[k] * x[k] : 0.0;
      q[k] = of_cols && k < cols ? of_cols[k] * y[k] : 0.0;
      gap += flip ? s[k] - q[k] : q[k] - s[k];
      number += (flip ? y[k] : x[k]) != 0.0;
    }
    gap /= number;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (!flip && x[k] != 0.0) s[k] += gap;
      if (flip && y[k] != 0.0) q[k] += gap;
    }
#pragma unroll
    for (int j = 0; j < K; ++j)
#pragma unroll
      for (int i = 0; i < K; ++i) q[j] -= p[i][j] * (s[i] * share[i]);
  }

  // Write the columns' solution to `q` by elimination without subtractions: weights and flows between two columns are
  // as small as their coupling.
  __device__ __forceinline__ void solve() {
    double W[K][K], F[K][K];
#pragma unroll
    for (int j = 0; j < K; ++j)
#pragma unroll
      for (int l = 0; l < j; ++l) {
        W[l][j] = F[l][j] = 0.0;
#pragma unroll
        for (int i = 0; i < K; ++i) {
          const double both = p[i][j] * p[i][l] * share[i];
          W[l][j] += both;
          F[l][j] += both * (g(i, j) - g(i, l));
        }
      }
    eliminate(W, F, q);
  }

  // Compute the rows' solution, and overwrite the scaled cells with the gradient in log cells over the cells. The value
  // at a row's largest cell is a sum over the others, which are small where it is nearly all of the row.
  __device__ __forceinline__ void compute_row_solution() {
    mean = total = 0.0;
#pragma unroll
    for (int i = 0; i < K; ++i) {
      double most = -1.0, middle = 0.0, more = 0.0, sum = 0.0, along = 0.0, z[K];
#pragma unroll
      for (int j = 0; j < K; ++j) {
        z[j] = g(i, j) - q[j];
        if (p[i][j] > most) {
          most = p[i][j];
          middle = z[j];
        }
      }
#pragma unroll
      for (int j = 0; j < K; ++j) {
        more += p[i][j] * (z[j] - middle);
        sum += p[i][j];
        along += p[i][j] * q[j];
      }
      more = (more + s[i]) * share[i];
      a[i] = middle + more;
      mean += flip ? -(sum * a[i]) : along;
      total += sum;
#pragma unroll
      for (int j = 0; j < K; ++j) p[i][j] = (z[j] - middle) - more;
    }
  }

  // Normalise: shift both solutions so that the mean of the input's columns, weighted by their sums, is zero: column
  // targets are scaled to the row total. A target of zero gets the one-sided derivative.
  __device__ __forceinline__ void compute_target_gradients() {
    bool empty = gone != 0;
    mean = total == 0.0 ? 0.0 : mean / total;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      a[k] += mean;
      q[k] -= mean;
      empty |= k < rows && share[k] == 0.0;
    }
    if (!empty) return;
#pragma unroll
    for (int i = 0; i < K; ++i) {
      double weights = 0.0, found = 0.0;
#pragma unroll
      for (int j = 0; j < K; ++j) {
        weights += m(i, j) * y[j];
        found += m(i, j) * y[j] * (g(i, j) - q[j]);
      }
      if (share[i] == 0.0) a[i] = weights > 0.0 ? found / weights : 0.0;
    }
#pragma unroll
    for (int j = 0; j < K; ++j) {
      double weights = 0.0, found = 0.0;
#pragma unroll
      for (int i = 0; i < K; ++i) {
        weights += m(i, j) * x[i];
        found += m(i, j) * x[i] * (g(i, j) - a[i]);
      }
      if (gone & line_bit(j)) q[j] = weights > 0.0 ? found / weights : 0.0;
    }
  }
};

// Kernel: of two pointers to one kind of cells one is null, or both without such cells: `floats` and `doubles` are the
// input, `of_...` the gradients in the scaled cells, `limit_...` the scaled cells of limits.
template <int K>
__global__ void __launch_bounds__(CM_SINGLE_THREADS, K == 2 ? 8 : 4)
    cmfast_scaling_gradient_single(const float* __restrict__ floats, const double* __restrict__ doubles, i64 m_step,
                                   const float* __restrict__ of_floats, const double* __restrict__ of_doubles,
                                   const double* __restrict__ of_row, const double* __restrict__ of_col,
                                   const double* __restrict__ row_scale, const double* __restrict__ col_scale,
                                   const float* __restrict__ limit_floats, const double* __restrict__ limit_doubles,
                                   const signed char* __restrict__ status, const double* __restrict__ smoothing, int R,
                                   int C, i64 n, float* out_floats, double* out_doubles, double* out_row,
                                   double* out_col) {
  CM_DYN_SMEM(double, numbers);
  const int size = R * C, lane = threadIdx.x % 32, room = 32 * (size | 1);
  double *cells = numbers + threadIdx.x / 32 * (2 * room), *given = cells + room;
  const i64 warps = blockDim.x / 32;
  for (i64 first = (blockIdx.x * warps + threadIdx.x / 32) * 32; first < n; first += gridDim.x * warps * 32) {
    const int matrices = int(min(i64(32), n - first)), mine = (lane < matrices ? lane : 0) * (size | 1);
    const i64 b = min(first + lane, n - 1);
    transfer_values(size, matrices, [&](int at, int k, int place) {
      const i64 from = m_step ? first * size + k : i64(at);
      cells[place] = floats ? widen(floats[from]) : doubles[from];
      given[place] = of_floats ? widen(of_floats[first * size + k]) : of_doubles ? of_doubles[first * size + k] : 0.0;
    });
    Sloped<K> t;
    t.cells = cells + mine;
    t.given = given + mine;
    t.smoothing = smoothing[b];
    t.flip = R < C;
    t.rows = t.flip ? C : R;
    t.cols = t.flip ? R : C;
    t.by_row = t.flip ? 1 : C;
    t.by_col = t.flip ? C : 1;
    const bool limit = status[b] == CM_LIMIT_ONLY, solved = limit && (limit_floats || limit_doubles);
    // A limit has no factors, so gradients in factors are ignored.
    const bool good = status[b] == CM_CONVERGED || (solved && !of_row && !of_col);
    const auto scaled = [&](int at) {
      return limit_floats ? widen(limit_floats[b * size + at]) : limit_doubles[b * size + at];
    };
    const double* rows = t.flip ? col_scale + b * C : row_scale + b * R;
    const double* cols = t.flip ? row_scale + b * R : col_scale + b * C;
    unsigned all = 0;
    t.live = 0;
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
      for (int j = 0; j < K; ++j) {
        if (!t.has(i, j)) continue;
        all |= line_bit(i * K + j);
        if (t.cells[t.at(i, j)] + t.smoothing > 0.0 && (!solved || scaled(t.at(i, j)) > 0.0))
          t.live |= line_bit(i * K + j);
      }
#pragma unroll
    for (int k = 0; k < K; ++k) {
      t.x[k] = k < t.rows ? rows[k] : 0.0;
      t.y[k] = k < t.cols ? cols[k] : 0.0;
      t.s[k] = t.q[k] = 0.0;
    }
    if (solved) t.compute_limit_factors(scaled);
    t.scale();
    if (of_row || of_col) {
      const double *of_rows = of_row ? of_row + b * R : nullptr, *of_cols = of_col ? of_col + b * C : nullptr;
      t.convert_to_log_factors(t.flip ? of_cols : of_rows, t.flip ? of_rows : of_cols);
    }
    t.solve();
    t.compute_row_solution();
    if (out_row) {
      t.compute_target_gradients();
      double* to_rows = t.flip ? out_col + b * C : out_row + b * R;
      double* to_cols = t.flip ? out_row + b * R : out_col + b * C;
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (lane < matrices && k < t.rows) to_rows[k] = good ? t.a[k] : CM_NAN;
        if (lane < matrices && k < t.cols) to_cols[k] = good ? t.q[k] : CM_NAN;
      }
    }
    unsigned block[K];
    if (t.live != all) t.label_blocks(block);
    __syncwarp();  // all have read what results will overwrite
    if (lane < matrices)
#pragma unroll
      for (int i = 0; i < K; ++i)
#pragma unroll
        for (int j = 0; j < K; ++j) {
          if (!t.has(i, j)) continue;
          const bool joined =
              t.live == all || block[i] & line_bit(j);  // otherwise the scaled cell is zero for any input
          cells[mine + t.at(i, j)] = !good ? CM_NAN : joined ? t.p[i][j] * (t.x[i] * t.y[j]) : 0.0;
        }
    __syncwarp();
    transfer_values(size, matrices, [&](int, int k, int place) {
      if (out_floats)
        out_floats[first * size + k] = narrow<float>(cells[place]);
      else
        out_doubles[first * size + k] = cells[place];
    });
  }
}
