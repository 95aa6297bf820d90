// Gradient of matrix scaling for matrices of any size, by a team of W threads each (a warp or a block), or by a group
// of blocks for large ones. The algorithm is that of kernels/cpu/scaling/gradient.py and _gradient_large.py.

// Label the blocks of a matrix (connected components of its positive cells) by their first row.
template <int W, typename Lives>
__device__ __forceinline__ void label_blocks(const Tile<W>& t, Lives lives, int of_rows, int of_cols) {
  each<W>(t.R, [&](int i) { t.row(of_rows, i) = i; });
  bool changed = true;
  while (changed) {
    changed = false;
    each<W>(t.C, [&](int j) {
      double least = CM_INF;
      for (int i = 0; i < t.R; ++i)
        if (lives(i, j)) least = fmin(least, t.row(of_rows, i));
      t.col(of_cols, j) = least;
    });
    each<W>(t.R, [&](int i) {
      double least = t.row(of_rows, i);
      for (int j = 0; j < t.C; ++j)
        if (lives(i, j)) least = fmin(least, t.col(of_cols, j));
      changed |= least < t.row(of_rows, i);
      t.row(of_rows, i) = least;
    });
    changed = team_any<W>(changed);
  }
}

// Compute factors of a limit, which has no factors itself: within a block they follow from its cells, `factor(i, j)`
// being the product of both.
template <int W, typename Lives, typename Factor>
__device__ __forceinline__ void compute_limit_factors(const Tile<W>& t, Lives lives, Factor factor) {
  label_blocks(t, lives, 3, 3);
  each<W>(t.R, [&](int i) { t.x(i) = t.off(i) == i; });
  each<W>(t.C, [&](int j) { t.y(j) = 0.0; });
  bool changed = true;
  while (changed) {
    changed = false;
    each<W>(t.C, [&](int j) {
      for (int i = 0; i < t.R && t.y(j) == 0.0; ++i)
        if (t.x(i) != 0.0 && lives(i, j)) t.y(j) = factor(i, j) / t.x(i);
    });
    each<W>(t.R, [&](int i) {
      for (int j = 0; j < t.C && t.x(i) == 0.0; ++j)
        if (t.y(j) != 0.0 && lives(i, j)) {
          t.x(i) = factor(i, j) / t.y(j);
          changed |= t.x(i) != 0.0;
        }
    });
    changed = team_any<W>(changed);
  }
}

// Graph weights W_jk = sum over i of p_ij p_ik / u_i for k < j, in tiles that a thread sums in registers; and the
// flows, the same sums times the difference of the gradients of both cells.
template <int W>
__device__ __forceinline__ void compute_weights_and_flows(const Tile<W>& t) {
  constexpr int SIDE = W > 32 ? 4 : 2;
  const int C = t.C, squares = (C + SIDE - 1) / SIDE;
  for (int item = get_first_item(t, W) + t.rank(); item < squares * (squares + 1) / 2; item += get_item_stride(t, W)) {
    const int a = int(0.5 * (sqrt(8.0 * item + 1.0) - 1.0)), b = item - a * (a + 1) / 2;  // the b-th square of line a
    double weight[SIDE][SIDE] = {}, flow[SIDE][SIDE] = {};
    for (int i = 0; i < t.R; ++i) {
      double left[SIDE], right[SIDE], one[SIDE], other[SIDE];
#pragma unroll
      for (int k = 0; k < SIDE; ++k) {
        const int j = min(a * SIDE + k, C - 1), l = min(b * SIDE + k, C - 1);
        left[k] = t.Q(i, j);
        one[k] = t.M(i, j);
        right[k] = t.Q(i, l);
        other[k] = t.M(i, l);
      }
#pragma unroll
      for (int j = 0; j < SIDE; ++j)
#pragma unroll
        for (int k = 0; k < SIDE; ++k) {
          const double both = left[j] * right[k];
          weight[j][k] += both;
          flow[j][k] += both * (one[j] - other[k]);
        }
    }
#pragma unroll
    for (int j = 0; j < SIDE; ++j)
#pragma unroll
      for (int k = 0; k < SIDE; ++k) {
        const int to = a * SIDE + j, from = b * SIDE + k;
        if (to >= C || from >= to) continue;
        t.weight(to, from) = weight[j][k];
        t.flow(to, from) = flow[j][k];
      }
  }
  synchronize_peers(t);
}

// Write the row sums to `last`, one over their square roots to `root`, and divide the cells by the square roots.
template <int W>
__device__ __forceinline__ void normalize_cells(const Tile<W>& t) {
  sum_rows(
      t, [&](int i, int j) { return t.Q(i, j); },
      [&](int i, double sum) {
        t.last(i) = sum;
        t.root(i) = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
      });
  for_each_cell(t, t.R, t.C, [&](int i, int j) { t.Q(i, j) *= t.root(i); });
}

// Convert gradients in normalised factors to gradients in log factors of any normalisation, those of the rows in
// `row_power`: the mean log row factor of the input is zero, so the rows absorb the difference of both totals. Then `v`
// gets those of the columns with the rows eliminated (Schur complement).
template <int W>
__device__ __forceinline__ void convert_to_log_factors(const Tile<W>& t, bool flip, const double* of_rows,
                                                       const double* of_cols) {
  double gap = 0.0, number = 0.0;
  each<W>(t.R, [&](int i) {
    t.row_power(i) = of_rows ? of_rows[i] * t.x(i) : 0.0;
    gap += flip ? t.row_power(i) : -t.row_power(i);
    number += !flip && t.x(i) != 0.0;
  });
  each<W>(t.C, [&](int j) {
    t.v(j) = of_cols ? of_cols[j] * t.y(j) : 0.0;
    gap += flip ? -t.v(j) : t.v(j);
    number += flip && t.y(j) != 0.0;
  });
  gap = team_sum<W>(gap) / team_sum<W>(number);
  if (flip)
    each<W>(t.C, [&](int j) { t.v(j) += t.y(j) != 0.0 ? gap : 0.0; });
  else
    each<W>(t.R, [&](int i) { t.row_power(i) += t.x(i) != 0.0 ? gap : 0.0; });
  sum_columns(
      t, [&](int i, int j) { return t.Q(i, j) * (t.row_power(i) * t.root(i)); },
      [&](int j, double sum) { t.v(j) -= sum; });
}

// Write to `sum` the column sums of cells times the deviation of `f(i, j)` from its row mean: in two steps, so that a
// shift of f costs no digits.
template <int W, typename Of>
__device__ __forceinline__ void sum_deviations(const Tile<W>& t, Of f) {
  sum_rows(
      t, [&](int i, int j) { return t.Q(i, j) * f(i, j); }, [&](int i, double sum) { t.off(i) = sum * t.root(i); });
  sum_rows(
      t, [&](int i, int j) { return t.Q(i, j) * (f(i, j) - t.off(i)); },
      [&](int i, double sum) { t.off(i) += sum * t.root(i); });
  sum_columns(
      t, [&](int i, int j) { return t.Q(i, j) * (t.last(i) * t.root(i)) * (f(i, j) - t.off(i)); },
      [&](int j, double sum) { t.sum(j) = sum; });
}

// Solve by conjugate gradients; return whether that was fast and accurate.
template <int W>
__device__ __forceinline__ bool conjugate_gradients(const Tile<W>& t) {
  bool bad = false;
  sum_columns(
      t,
      [&](int i, int j) {
        const double q = t.Q(i, j);
        return q * (t.last(i) * t.root(i)) * (1.0 - q * t.root(i));
      },
      [&](int j, double sum) {
        t.scale(j) = sum;
        bad |= !(sum > 0.0);
      });
  each<W>(t.R, [&](int i) { bad |= !(t.last(i) > 0.0); });
  if (team_any<W>(bad)) return false;
  sum_deviations(t, [&](int i, int j) { return t.M(i, j); });
  double all = 0.0, left = 0.0, rz = 0.0;
  each<W>(t.C, [&](int j) {
    t.r(j) = t.v(j) + t.sum(j);
    all += t.r(j);
  });
  const double mean = team_sum<W>(all) / t.C;
  each<W>(t.C, [&](int j) {
    t.d(j) = 0.0;
    t.r(j) -= mean;
    t.p(j) = t.r(j) / t.scale(j);
    left += fabs(t.r(j));
    rz += t.r(j) * t.p(j);
  });
  left = team_sum<W>(left);
  rz = team_sum<W>(rz);
  const double goal = CM_LEAST_GRADIENT_RESIDUAL * left;
  double turn = 0.0, length = 1.0, pivot = 1.0;
  for (int k = 0; k < t.C / 3; ++k) {
    if (left <= goal) return true;
    sum_deviations(t, [&](int i, int j) { return t.p(j); });
    double curvature = 0.0, more = 0.0;
    each<W>(t.C, [&](int j) { curvature += t.p(j) * t.sum(j); });
    const double alpha = rz / team_sum<W>(curvature);
    if (!(alpha > 0.0 && alpha < CM_INF)) return false;
    // Sturm sequence: a negative pivot of the Lanczos matrix less a number shows an eigenvalue below that number.
    pivot = 1.0 / alpha + turn / length - CM_LEAST_GROUP_EIGENVALUE - turn / (length * length) / pivot;
    if (!(pivot > 0.0)) return false;
    left = 0.0;
    each<W>(t.C, [&](int j) {
      t.d(j) += alpha * t.p(j);
      t.r(j) -= alpha * t.sum(j);
      left += fabs(t.r(j));
      more += t.r(j) * (t.r(j) / t.scale(j));
    });
    left = team_sum<W>(left);
    more = team_sum<W>(more);
    turn = more / rz;
    rz = more;
    length = alpha;
    each<W>(t.C, [&](int j) { t.p(j) = t.r(j) / t.scale(j) + turn * t.p(j); });
  }
  return false;
}

// Write to `off` the solution relative to the largest cell of each row, a sum over the other cells, and to `u` the
// mean's addition.
template <int W>
__device__ __forceinline__ void compute_row_solution(const Tile<W>& t) {
  find_row_maxima(
      t, [&](int i, int j) { return t.Q(i, j); }, [&](int i, int top) { t.off(i) = t.M(i, top) - t.d(top); });
  sum_rows(
      t, [&](int i, int j) { return t.Q(i, j) * ((t.M(i, j) - t.d(j)) - t.off(i)); },
      [&](int i, double sum) { t.u(i) = sum * t.root(i) + t.row_power(i) * t.root(i) * t.root(i); });
}

// Write the rows' solution to `row_power`, and shift both so that the mean of the input's columns, weighted by their
// sums, is zero: column targets are scaled to the row total. A target of zero gets the one-sided derivative.
template <int W, typename Cell>
__device__ __forceinline__ void compute_target_gradients(const Tile<W>& t, bool flip, Cell cell) {
  double mean = 0.0, total = 0.0;
  bool empty = false;
  sum_columns(
      t, [&](int i, int j) { return t.Q(i, j) * (t.last(i) * t.root(i)); },
      [&](int j, double sum) {
        t.sum(j) = sum;
        empty |= sum == 0.0;
        if (flip) return;
        mean += sum * t.d(j);
        total += sum;
      });
  each<W>(t.R, [&](int i) {
    const double u = t.last(i);
    t.row_power(i) = t.off(i) + t.u(i);
    empty |= u == 0.0;
    if (!flip) return;
    mean -= u * t.row_power(i);
    total += u;
  });
  mean = team_sum<W>(mean);
  total = team_sum<W>(total);
  if (total != 0.0) {
    each<W>(t.R, [&](int i) { t.row_power(i) += mean / total; });
    each<W>(t.C, [&](int j) { t.d(j) -= mean / total; });
  }
  if (!team_any<W>(empty)) return;
  sum_rows(
      t, [&](int i, int j) { return t.last(i) == 0.0 ? cell(i, j) * t.y(j) : 0.0; },
      [&](int i, double sum) { t.off(i) = sum; });
  sum_rows(
      t, [&](int i, int j) { return t.last(i) == 0.0 ? cell(i, j) * t.y(j) * (t.M(i, j) - t.d(j)) : 0.0; },
      [&](int i, double sum) {
        if (t.last(i) == 0.0) t.row_power(i) = t.off(i) > 0.0 ? sum / t.off(i) : 0.0;
      });
  sum_columns(
      t, [&](int i, int j) { return t.sum(j) == 0.0 ? cell(i, j) * t.x(i) : 0.0; },
      [&](int j, double sum) { t.gap(j) = sum; });
  sum_columns(
      t, [&](int i, int j) { return t.sum(j) == 0.0 ? cell(i, j) * t.x(i) * (t.M(i, j) - t.row_power(i)) : 0.0; },
      [&](int j, double sum) {
        if (t.sum(j) == 0.0) t.d(j) = t.gap(j) > 0.0 ? sum / t.gap(j) : 0.0;
      });
}

// Kernel: arguments as in gradient_single.cu; offsets of the parts of a tile as in team.cu. The tile holds the
// gradients in the scaled cells, and the scaled cells over square-rooted row sums.
template <int W, bool LARGE>
__global__ void __launch_bounds__(W > 32 ? CM_THREADS : 32 * CM_MOST_WARPS, W > 32 ? 1 : 2)
    cmfast_scaling_gradient_team(const float* floats, const double* doubles, i64 m_step, const float* of_floats,
                                 const double* of_doubles, const double* of_row, const double* of_col,
                                 const double* row_scale, const double* col_scale, const float* limit_floats,
                                 const double* limit_doubles, const signed char* status, const double* smoothing, int R,
                                 int C, i64 n, int group_size, u64* flags, i64 exchange_size, double* exchange,
                                 i64 cells_at, i64 scaled_at, i64 graph_at, i64 lines_at, i64 lines_size, double* lines,
                                 i64 shared_size, i64 scratch_size, double* scratch, float* out_floats,
                                 double* out_doubles, double* out_row, double* out_col) {
  CM_DYN_SMEM(double, shared);
  constexpr int FIRST = W + (LARGE ? CM_GROUP_FIELDS : 0);
  const int teams = blockDim.x / W, team = threadIdx.x / W, groups = gridDim.x / group_size;
  const i64 self = i64(blockIdx.x) * teams + team, slot = LARGE ? self % groups : self, size = i64(R) * C;
  double* near = shared + (W > 32 ? W / 32 : 0) + team * shared_size;
  const auto place = [&](i64 at) { return at >= 0 ? near + FIRST + at : scratch + slot * scratch_size + ~at; };
  double* own_lines = lines_at >= 0 ? near + FIRST : lines + self * lines_size;
  BlockGroup alone{flags, exchange, exchange_size, groups, 1, 0, 0};
  BlockGroup& peers = LARGE ? BlockGroup::of_block() : alone;
  if constexpr (LARGE) {
    if (threadIdx.x == 0) {
      peers = alone;
      if (group_size > 1) peers.join(group_size);
    }
    zeros::synchronize<W>();
    if (peers.rank < 0) return;
  }
  const bool flip = R < C;
  const Tile<W> t{place(cells_at),
                  place(scaled_at),
                  place(graph_at),
                  own_lines,
                  near,
                  peers,
                  flip ? C : R,
                  flip ? R : C,
                  1.0,
                  false,
                  false,
                  false};
  for (i64 b = slot; b < n; b += LARGE ? i64(groups) : i64(gridDim.x) * teams) {
    const bool limit = status[b] == CM_LIMIT_ONLY, solved = limit && (limit_floats || limit_doubles);
    // A limit has no factors, so gradients in factors are ignored.
    const bool good = status[b] == CM_CONVERGED || (solved && !of_row && !of_col);
    const double* rows = flip ? col_scale + b * C : row_scale + b * R;
    const double* cols = flip ? row_scale + b * R : col_scale + b * C;
    const double *of_rows = of_row ? of_row + b * R : nullptr, *of_cols = of_col ? of_col + b * C : nullptr;
    const auto at = [&](int i, int j) { return flip ? i64(j) * C + i : i64(i) * C + j; };
    const auto whole = [&](int i, int j) {
      const i64 k = b * m_step * size + at(i, j);
      return (floats ? widen(floats[k]) : doubles[k]) + smoothing[b];
    };
    const auto scaled = [&](int i, int j) {
      const i64 k = b * size + at(i, j);
      return limit_floats ? widen(limit_floats[k]) : limit_doubles[k];
    };
    const auto lives = [&](int i, int j) { return whole(i, j) > 0.0 && (!solved || scaled(i, j) > 0.0); };
    bool zero = false;
    if (good) {
      each<W>(t.R, [&](int i) {
        t.x(i) = rows[i];
        t.u(i) = t.row_power(i) = 0.0;
      });
      each<W>(t.C, [&](int j) {
        t.y(j) = cols[j];
        t.v(j) = 0.0;
      });
      if (solved) compute_limit_factors(t, lives, [&](int i, int j) { return scaled(i, j) / whole(i, j); });
      for_each_cell(t, R, C, [&](int row, int col) {
        const int i = flip ? col : row, j = flip ? row : col;
        const i64 k = b * size + at(i, j);
        const bool live = lives(i, j);
        zero |= !live;
        t.M(i, j) = of_floats ? widen(of_floats[k]) : of_doubles ? of_doubles[k] : 0.0;
        t.Q(i, j) = live ? t.x(i) * whole(i, j) * t.y(j) : 0.0;
      });
      zero = peers_any(t, zero);
      normalize_cells(t);
      if (of_row || of_col) convert_to_log_factors(t, flip, flip ? of_cols : of_rows, flip ? of_rows : of_cols);
      if (!LARGE || !conjugate_gradients(t)) {
        compute_weights_and_flows(t);
        eliminate_and_broadcast(t, true);  // the right-hand side is v - u plus flows
      }
      compute_row_solution(t);
      if (zero) label_blocks(t, lives, 2, 3);  // the square roots are no longer needed
    }
    for_each_cell(t, R, C, [&](int row, int col) {
      const int i = flip ? col : row, j = flip ? row : col;
      double slope = good ? (((t.M(i, j) - t.d(j)) - t.off(i)) - t.u(i)) * (t.x(i) * t.y(j)) : CM_NAN;
      if (good && zero && t.row(2, i) != t.col(3, j)) slope = 0.0;  // the cell links two blocks
      if (out_floats)
        out_floats[b * size + at(i, j)] = narrow<float>(slope);
      else
        out_doubles[b * size + at(i, j)] = slope;
    });
    if (out_row && good) {
      if (zero) each<W>(t.R, [&](int i) { t.root(i) = t.last(i) > 0.0 ? 1.0 / sqrt(t.last(i)) : 0.0; });
      compute_target_gradients(t, flip, [&](int i, int j) { return lives(i, j) ? whole(i, j) : 0.0; });
    }
    if (out_row && peers.rank == 0) {
      each<W>(t.R, [&](int i) { (flip ? out_col + b * C : out_row + b * R)[i] = good ? t.row_power(i) : CM_NAN; });
      each<W>(t.C, [&](int j) { (flip ? out_row + b * R : out_col + b * C)[j] = good ? t.d(j) : CM_NAN; });
    }
    synchronize_peers(t);  // before the tile is reused
  }
}
