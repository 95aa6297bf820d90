// Scaling of any matrices of any size: a team of W threads, a warp or a block, takes a matrix from a queue, solves it,
// and takes the next.
//
// The steps and rules are those of kernels/cpu/scaling: _tile_loop.py and _tile_newton.py for small matrices, _large.py
// for LARGE ones. A result depends on its matrix alone.
//
// Rare cases are most of the code to compile. So blocks have a COMMON instance without them, which runs first and lists
// the matrices it leaves: zeros that need a maximum flow, cells that need equilibration, sweeps that converge slowly.

// ---- loading ----

struct CellRange {
  double low, high;  // smallest positive cell, largest cell
  bool good, zero;
};

template <int W>
__device__ __forceinline__ CellRange measure_cell_range(const Tile<W>& t) {
  double low = CM_INF, high = 0.0;
  bool bad = false, zero = false;
  for_each_cell(t, t.R, t.C, [&](int i, int j) {
    const double m = t.M(i, j);
    bad |= !(m >= 0.0 && m < CM_INF);
    zero |= m == 0.0;
    if (m > 0.0) low = fmin(low, m);
    high = fmax(high, m);
  });
  low = peers_min(t, low);
  high = peers_max(t, high);
  bad = peers_any(t, bad);
  return {low, high, !bad, peers_any(t, zero)};
}

// Smooth by the pseudo-Bayes rule (Bishop, Fienberg, Holland): pull the cells towards independence; return the prior's
// strength.
template <int W>
__device__ __forceinline__ double apply_pseudo_bayes(const Tile<W>& t, double high) {
  if (high == 0.0) return 0.0;
  const double scale = ldexp(1.0, int(get_exponent(high)) - 1);  // keeps squares in range; the division is exact
  for_each_cell(t, t.R, t.C, [&](int i, int j) { t.M(i, j) /= scale; });
  const auto cell = [&](int i, int j) { return t.M(i, j); };
  double all = 0.0, squares = 0.0, gap = 0.0;
  sum_rows(t, cell, [&](int i, double sum) {
    t.off(i) = sum;
    all += sum;
  });
  sum_columns(t, cell, [&](int j, double sum) { t.sum(j) = sum; });
  const double N = team_sum<W>(all);
  for_some_cells<W>(t.R, t.C, 0, 1, [&](int i, int j) {  // sums by thread, so every block reads all cells
    const double m = t.M(i, j), e = t.off(i) * t.sum(j) / N - m;
    squares += m * m;
    gap += e * e;
  });
  synchronize_peers(t);
  squares = team_sum<W>(squares);
  gap = team_sum<W>(gap);
  const double strength = gap > 0.0 ? (N * N - squares) / gap : CM_INF;
  const double weight = strength < CM_INF ? strength / (N * scale + strength) : 1.0;
  for_each_cell(t, t.R, t.C, [&](int i, int j) {
    const double e = t.off(i) * t.sum(j) / N * scale;
    t.M(i, j) = (1.0 - weight) * (t.M(i, j) * scale) + weight * e;
  });
  return strength;
}

// Write the numbers of positive cells of rows to `off`, of columns to `sum`.
template <int W>
__device__ __forceinline__ void count_positive(const Tile<W>& t) {
  const auto there = [&](int i, int j) { return double(t.M(i, j) > 0.0); };
  sum_rows(t, there, [&](int i, double n) { t.off(i) = n; });
  sum_columns(t, there, [&](int j, double n) { t.sum(j) = n; });
}

// Drop empty classes, scale the column targets of the input to the row total, return the status of invalid targets.
template <int W>
__device__ __forceinline__ int check_targets(Tile<W>& t, bool flip, bool drop, bool zero, bool* changed) {
  if (drop && zero) {
    count_positive(t);
    each<W>(t.R, [&](int i) {
      if (t.off(i) == 0.0 && t.sum(i) == 0.0) t.u(i) = t.v(i) = 0.0;
    });
  }
  bool bad = false, dropped = false;
  double U = 0.0, V = 0.0;
  for (int i = t.rank(); i < t.R; i += W) {
    bad |= !(t.u(i) >= 0.0 && t.u(i) < CM_INF);
    dropped |= t.u(i) == 0.0;
    U += t.u(i);
  }
  for (int j = t.rank(); j < t.C; j += W) {
    bad |= !(t.v(j) >= 0.0 && t.v(j) < CM_INF);
    dropped |= t.v(j) == 0.0;
    V += t.v(j);
  }
  U = team_sum<W>(U);
  V = team_sum<W>(V);
  dropped = team_any<W>(dropped);
  if (team_any<W>(bad)) return CM_INVALID;
  const int wrong = compare_totals(U, V);
  if (wrong != CM_CONVERGED) return wrong;
  t.total = flip ? V : U;
  if (!(t.total > 0.0)) t.total = 1.0;
  if (U != V) {
    if (flip)
      each<W>(t.R, [&](int i) { t.u(i) *= V / U; });
    else
      each<W>(t.C, [&](int j) { t.v(j) *= U / V; });
  }
  if (dropped)
    for_each_cell(t, t.R, t.C, [&](int i, int j) {
      if (t.u(i) == 0.0 || t.v(j) == 0.0) t.M(i, j) = 0.0;
    });
  *changed |= dropped;
  if (!dropped && !zero) return CM_CONVERGED;
  count_positive(t);
  for (int i = t.rank(); i < t.R; i += W) bad |= t.u(i) > 0.0 && t.off(i) == 0.0;
  for (int j = t.rank(); j < t.C; j += W) bad |= t.v(j) > 0.0 && t.sum(j) == 0.0;
  return team_any<W>(bad) ? CM_ZERO_LINE : CM_CONVERGED;
}

// Classify the zeros and clear unsupported cells; return a status. `memory` includes the flow where targets may differ.
template <bool COMMON, bool LARGE, int W>
__device__ __forceinline__ int classify_zeros(const Tile<W>& t, bool flip, i64* memory, i64* flow) {
  double status = 0.0;
  if constexpr (COMMON) {
    bool good = t.R == t.C;
    for (int k = t.rank(); k < t.C && t.R == t.C; k += W)
      good &= t.u(k) == t.v(k) && (t.u(k) == 0.0 || t.M(k, k) > 0.0);
    if (team_any<W>(!good)) return LEFT;
    if (t.peers.rank == 0)
      status = zeros::classify_by_diagonal<W, LARGE>(
          reinterpret_cast<unsigned*>(memory), t.C, [&](int i, int j) { return t.M(i, j) > 0.0; },
          [&](int i) { return t.u(i) > 0.0; }, [&](int i, int j) { t.M(i, j) = 0.0; });
  } else if (t.peers.rank == 0) {
    zeros::Scratch z(flip ? t.C : t.R, flip ? t.R : t.C, memory, flow);
    const auto cell = [&](int i, int j) -> double& { return flip ? t.M(j, i) : t.M(i, j); };
    status = zeros::classify<W>(
        z, [&](int i, int j) { return cell(i, j) > 0.0; }, [&](int i) { return flip ? t.v(i) : t.u(i); },
        [&](int j) { return flip ? t.u(j) : t.v(j); }, [&](int i, int j) { cell(i, j) = 0.0; });
  }
  synchronize_peers(t);
  if constexpr (W > 32) status = t.peers.broadcast(status);
  return int(status);
}

// Set the initial column factors: the caller's if positive and finite, else ones, or ones of the input if `ones`.
template <int W>
__device__ __forceinline__ void begin(Tile<W>& t, const double* start_row, const double* start_col, bool ones) {
  bool no_rows = start_row == nullptr, no_cols = start_col == nullptr;
  for (int i = t.rank(); i < t.R && start_row; i += W) no_rows |= t.u(i) > 0.0 && !is_usable(start_row[i]);
  for (int j = t.rank(); j < t.C && start_col; j += W)
    no_cols |= t.v(j) > 0.0 && !is_usable(start_col[int(t.order(j))]);
  no_rows = team_any<W>(no_rows);
  no_cols = team_any<W>(no_cols);
  t.warm = !no_rows || !no_cols;
  if (!no_cols)
    each<W>(t.C, [&](int j) { t.y(j) = multiply_by_power(start_col[int(t.order(j))], t.col_power(j)); });
  else if (!no_rows)
    sum_columns(
        t,
        [&](int i, int j) { return t.u(i) > 0.0 ? multiply_by_power(start_row[i], t.row_power(i)) * t.M(i, j) : 0.0; },
        [&](int j, double sum) { t.y(j) = t.v(j) > 0.0 ? t.v(j) / sum : 1.0; });
  else
    each<W>(t.C, [&](int j) { t.y(j) = ones ? multiply_by_power(1.0, t.col_power(j)) : 1.0; });
}

// ---- results ----

// Factors, targets and powers of the rows or of the columns of the input.
struct Side {
  int n;
  const double *targets, *powers;
  double* factors;
};

template <int W>
__device__ __forceinline__ Side select_side(const Tile<W>& t, bool rows) {
  if (rows) return {t.R, &t.u(0), &t.row_power(0), &t.x(0)};
  return {t.C, &t.v(0), &t.col_power(0), &t.y(0)};
}

// Normalise: divide the factors of `first` by their geometric mean, multiply those of `second` by it; return the power
// of two that the powers in M add to it.
template <int W>
__device__ __forceinline__ double normalize_factors(const Side& first, const Side& second) {
  double product = 1.0, power = 0.0, given = 0.0, count = 0.0;
  for (int k = zeros::rank<W>(); k < first.n; k += W) {
    const double factor = first.factors[k];
    if (!(first.targets[k] > 0.0 && is_usable(factor))) continue;  // factors out of range are reported elsewhere
    const double exponent = get_exponent(factor);
    product *= multiply_by_power(factor, -exponent);
    const double more = get_exponent(product);
    product = multiply_by_power(product, -more);
    power += exponent + more;
    given -= first.powers[k];
    count += 1.0;
  }
  const double logs = team_sum<W>(log(product));
  power = team_sum<W>(power);
  given = team_sum<W>(given);
  count = team_sum<W>(count);
  if (count == 0.0) return 0.0;
  const double whole = floor((power + given) / count), own = floor(power / count);
  const double part = (power + given) - whole * count;
  const double mean = multiply_by_power(exp((logs + part * 0.693147180559945309417) / count), own);
  each<W>(first.n, [&](int k) { first.factors[k] /= mean; });
  each<W>(second.n, [&](int k) { second.factors[k] *= mean; });
  return whole - own;
}

// Convert the factors of the equilibrated matrix to those of the input; return whether all stayed in range.
template <int W>
__device__ __forceinline__ bool undo_powers(const Side& s, bool far, double rest) {
  bool good = true;
  for (int k = zeros::rank<W>(); k < s.n; k += W) {
    if (!(s.targets[k] > 0.0)) continue;
    good &= is_usable(s.factors[k]);
    if (far) s.factors[k] = multiply_by_power(s.factors[k], -s.powers[k] - rest);
    good &= is_usable(s.factors[k]);
  }
  return good;
}

// Normalise the factors and scale the cells; return the residual of the result, NaN where a factor is out of range, and
// the largest relative error of a row or column.
template <int W>
__device__ __forceinline__ double normalize_and_measure(const Tile<W>& t, bool flip, double* worst) {
  each<W>(t.C, [&](int j) {
    if (!(t.v(j) > 0.0)) t.y(j) = 0.0;
  });
  const Side rows = select_side(t, !flip), cols = select_side(t, flip);  // rows and columns of the input
  const double rest = normalize_factors<W>(rows, cols);
  double residual = 0.0, most = 0.0;
  sum_rows(
      t, [&](int i, int j) { return t.x(i) * t.M(i, j) * t.y(j); },
      [&](int i, double sum) {
        const double gap = fabs(sum - t.u(i));
        residual += gap;
        if (t.u(i) > 0.0) most = fmax(most, gap / t.u(i));
      });
  sum_columns(
      t,
      [&](int i, int j) {
        const double cell = t.x(i) * t.M(i, j) * t.y(j);
        t.M(i, j) = cell;
        return cell;
      },
      [&](int j, double sum) {
        const double gap = fabs(sum - t.v(j));
        residual += gap;
        if (t.v(j) > 0.0) most = fmax(most, gap / t.v(j));
      });
  *worst = team_max<W>(most);
  if (!undo_powers<W>(rows, t.far, rest)) residual = CM_NAN;
  if (!undo_powers<W>(cols, t.far, -rest)) residual = CM_NAN;
  t.synchronize();
  return team_sum<W>(residual) / t.total;
}

// Kernel: scale the matrices of a queue. row_sums_step etc. are zero where all share one; results are written at the
// same index. Offsets of the parts of a tile are in values: from the start of the team's shared memory, or, as ~offset
// below zero, from the start of its global scratch.
template <int W, bool LARGE, bool COMMON>
__global__ void __launch_bounds__(W > 32 ? CM_THREADS : 32 * CM_MOST_WARPS, W > 32 && !COMMON ? 1 : 2)
    cmfast_ipf_team(const float* floats, const double* doubles, i64 m_step, const double* row_sums, i64 row_sums_step,
                    const double* col_sums, i64 col_sums_step, const double* start_row, i64 start_row_step,
                    const double* start_col, i64 start_col_step, int R, int C, double smoothing, int drop, int bi,
                    int plain, double tol, double target, double still, double bound, double last_width, i64 max_iter,
                    int rescue, const i64* queue, const u64* length, i64 n, u64* next, int group_size, u64* flags,
                    i64 exchange_size, double* exchange, i64 cells_at, i64 scaled_at, i64 graph_at, i64 lines_at,
                    i64 lines_size, double* lines, i64 shared_size, i64 scratch_size, double* scratch, i64 network_size,
                    i64 flow_at, i64* network, i64* out_queue, u64* out_length, float* out_floats, double* out_doubles,
                    double* out_row, double* out_col, double* out_residual, i64* out_n_iter, signed char* out_status,
                    double* out_smoothing, double* out_line_error) {
  CM_DYN_SMEM(double, shared);
  const int me = zeros::rank<W>(), teams = blockDim.x / W, team = threadIdx.x / W;
  const int groups = gridDim.x / group_size;
  const int self = LARGE ? blockIdx.x : blockIdx.x * teams + team, slot = LARGE ? self % groups : self;
  double* near = shared + (W > 32 ? W / 32 : 0) + team * shared_size;
  const auto place = [&](i64 at) {
    return at >= 0 ? near + W + (LARGE ? CM_GROUP_FIELDS : 0) + at : scratch + i64(slot) * scratch_size + ~at;
  };
  double* own_lines =
      W == 32 || lines_at >= 0 ? near + W + (LARGE ? CM_GROUP_FIELDS : 0) : lines + i64(self) * lines_size;
  BlockGroup alone{flags, exchange, exchange_size, groups, 1, 0, 0};
  BlockGroup& peers = LARGE ? BlockGroup::of_block() : alone;
  if constexpr (LARGE) {
    static_assert(sizeof(BlockGroup) <= 8 * CM_GROUP_FIELDS, "the launcher allocates it");
    if (me == 0) {
      peers = alone;
      if (group_size > 1) peers.join(group_size);
    }
    zeros::synchronize<W>();
    if (peers.rank < 0) return;
  }
  const bool flip = R < C && !plain;
  const Goals goals{target, still, bound};
  const i64 size = i64(R) * C, most = length ? i64(*length) : n;
  while (true) {
    i64 turn = peers.rank == 0 ? team_sum<W>(me == 0 ? i64(atomicAdd(next, u64(1))) : 0) : 0;
    if constexpr (W > 32) turn = i64(peers.broadcast(double(turn)));
    if (turn >= most) break;
    const i64 b = queue ? queue[turn] : turn;
    if constexpr (W > 32) forget(own_lines);  // addresses in it are computed for each matrix: registers run short
    Tile<W> t{place(cells_at),
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
    const double* rows = row_sums ? row_sums + b * row_sums_step : nullptr;
    const double* cols = col_sums ? col_sums + b * col_sums_step : nullptr;
    const double* first_rows = start_row ? start_row + b * start_row_step : nullptr;
    const double* first_cols = start_col ? start_col + b * start_col_step : nullptr;
    each<W>(t.R, [&](int i) {
      const double* given = flip ? cols : rows;
      t.u(i) = given ? given[i] : 1.0;
      t.row_power(i) = 0.0;
    });
    each<W>(t.C, [&](int j) {
      const double* given = flip ? rows : cols;
      t.v(j) = given ? given[j] : 1.0;
      t.col_power(j) = 0.0;
      t.order(j) = j;
    });
    for_each_cell(t, R, C, [&](int i, int j) {
      const i64 k = b * m_step * size + i64(i) * C + j;
      (flip ? t.M(j, i) : t.M(i, j)) = floats ? widen(floats[k]) : doubles[k];
    });
    CellRange seen = measure_cell_range(t);
    bool changed = smoothing != 0.0;
    double amount = fmax(smoothing, 0.0), residual = CM_NAN, worst = CM_NAN;
    int status = seen.good ? CM_CONVERGED : CM_INVALID;
    bool limit = false;
    i64 done = 0;
    if (seen.good && smoothing > 0.0) for_each_cell(t, t.R, t.C, [&](int i, int j) { t.M(i, j) += smoothing; });
    if constexpr (!COMMON)
      if (seen.good && smoothing < 0.0) amount = apply_pseudo_bayes(t, seen.high);
    if (status == CM_CONVERGED) status = check_targets(t, flip, drop && bi, seen.zero && !(smoothing > 0.0), &changed);
    if (status == CM_CONVERGED && seen.zero && smoothing == 0.0 && !plain) {
      i64* memory = network + i64(slot) * network_size;
      status = classify_zeros<COMMON, LARGE>(t, flip, memory, flow_at ? memory + flow_at : nullptr);
      limit = status == CM_LIMIT_ONLY;
      if (limit) status = CM_CONVERGED;
      changed |= limit;
    }
    if (status == CM_CONVERGED && changed) seen = measure_cell_range(t);
    if constexpr (COMMON)
      if (status == CM_CONVERGED && !is_in_range(t, seen.low, seen.high)) status = LEFT;
    if (status == CM_CONVERGED) {
      if constexpr (!COMMON) equilibrate_if_needed(t, plain, seen.low, seen.high);
      begin(t, flip ? first_cols : first_rows, flip ? first_rows : first_cols, plain || !(LARGE || t.chosen));
      each<W>(t.R, [&](int i) { t.root(i) = t.u(i) > 0.0 ? 1.0 / sqrt(t.u(i)) : 0.0; });
      if (!COMMON && plain) {
        if constexpr (!COMMON) status = run_sinkhorn(t, goals, max_iter, &done);
      } else if constexpr (LARGE) {
        status = solve_large<COMMON>(t, goals, last_width, max_iter, rescue, &done);
      } else {
        status = run_newton(t, goals, last_width, max_iter, &done);
      }
      // Unit targets have columns of equal size: no small column can hide errors.
      if (status == CM_UNDETERMINED && (bi || t.C > CM_REFINED)) status = CM_CONVERGED;
      if (!bi && !plain && status != LEFT && !is_done(t, goals, status, max_iter)) {
        if constexpr (COMMON)
          status = LEFT;
        else
          status = refine(t, goals, status, max_iter, &done);
      }
    }
    if constexpr (COMMON) {
      if (status == LEFT) {
        if (me == 0 && peers.rank == 0) enqueue(b, out_queue, out_length);
        synchronize_peers(t);  // before the tile is reused
        continue;
      }
    }
    if (status <= CM_MAX_ITER || status == CM_UNDETERMINED) {
      residual = normalize_and_measure(t, flip, &worst);
      const auto fits = [&](double most) {
        forget(most);
        return residual <= most && worst <= Goals::line_bound(most);
      };
      if (!(residual < CM_INF))
        status = CM_RANGE;
      else if (plain)  // Sinkhorn results are checked by their sums alone
        status = fits(status == CM_CONVERGED ? goals.bound : tol) ? CM_CONVERGED : CM_MAX_ITER;
      else if (!fits(goals.bound))
        status = CM_MAX_ITER;
    }
    const bool failed = status > CM_MAX_ITER && status != CM_UNDETERMINED, without = failed || limit;
    if (peers.rank == 0) {
      each<W>(t.R, [&](int i) { (flip ? out_col + b * C : out_row + b * R)[i] = without ? CM_NAN : t.x(i); });
      each<W>(t.C,
              [&](int j) { (flip ? out_row + b * R : out_col + b * C)[int(t.order(j))] = without ? CM_NAN : t.y(j); });
    }
    each<W>(t.C, [&](int j) { t.r(int(t.order(j))) = j; });
    if (out_floats || out_doubles)
      for_each_cell(t, R, C, [&](int i, int j) {
        const double cell = failed ? CM_NAN : flip ? t.M(j, int(t.r(i))) : t.M(i, int(t.r(j)));
        const i64 k = b * size + i64(i) * C + j;
        if (out_floats)
          out_floats[k] = narrow<float>(cell);
        else
          out_doubles[k] = cell;
      });
    if (me == 0 && peers.rank == 0) {
      out_residual[b] = failed ? CM_NAN : residual;
      out_n_iter[b] = done;
      out_status[b] = limit && status == CM_CONVERGED ? CM_LIMIT_ONLY : status;
      out_smoothing[b] = amount;
      out_line_error[b] = failed ? CM_NAN : worst;
    }
    synchronize_peers(t);  // before the tile is reused
  }
}
