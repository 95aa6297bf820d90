// Scaling of small matrices to given margins: one thread per matrix, step for step what a lane of the CPU's tiles does.
//
// All that a matrix needs lies in global memory, interleaved: number k of thread t is scratch[k * stride + t], so that the
// threads of a warp, which do the same at the same time, read and write neighbours. Four kernels in a row share it.
// Nothing is added across threads: a result does not depend on its neighbours.

// The numbers of one matrix. R rows and C columns as it is solved: Newton's unknowns belong on the shorter side.
struct Tile {
  double* scratch;
  i64 stride;
  int R, C;

  __device__ __forceinline__ double& at(i64 k) const { return scratch[k * stride]; }
  __device__ __forceinline__ int lines() const { return 2 * R * C + 2 * min(R, C) * min(R, C); }
  __device__ __forceinline__ double& M(int i, int j) const { return at(i * C + j); }  // after smoothing, dropping, powers
  __device__ __forceinline__ double& Q(int i, int j) const { return at(R * C + i * C + j); }  // cells over sqrt(u)
  __device__ __forceinline__ double& W(int i, int j) const { return at(2 * R * C + i * C + j); }  // weights, lower half
  __device__ __forceinline__ double& F(int i, int j) const { return at(2 * R * C + C * C + i * C + j); }  // flows
  __device__ __forceinline__ double& row(int field, int i) const { return at(lines() + field * R + i); }
  __device__ __forceinline__ double& col(int field, int j) const { return at(lines() + 5 * R + field * C + j); }
  __device__ __forceinline__ double& u(int i) const { return row(0, i); }      // row targets
  __device__ __forceinline__ double& x(int i) const { return row(1, i); }      // row factors
  __device__ __forceinline__ double& root(int i) const { return row(2, i); }   // 1 / sqrt(u)
  __device__ __forceinline__ double& off(int i) const { return row(3, i); }    // row sums without the paired cell
  __device__ __forceinline__ double& row_power(int i) const { return row(4, i); }
  __device__ __forceinline__ double& v(int j) const { return col(0, j); }      // column targets
  __device__ __forceinline__ double& y(int j) const { return col(1, j); }      // column factors
  __device__ __forceinline__ double& sum(int j) const { return col(2, j); }    // column sums, likewise
  __device__ __forceinline__ double& diag(int j) const { return col(3, j); }   // the paired cells, scaled
  __device__ __forceinline__ double& q(int j) const { return col(4, j); }      // sources
  __device__ __forceinline__ double& d(int j) const { return col(5, j); }      // Newton step in log y
  __device__ __forceinline__ double& p(int j) const { return col(6, j); }      // scratch of the elimination
  __device__ __forceinline__ double& r(int j) const { return col(7, j); }
  __device__ __forceinline__ double& col_power(int j) const { return col(8, j); }
  __device__ __forceinline__ double& order(int j) const { return col(9, j); }  // column of the input at each place
  __device__ __forceinline__ double& single(int k) const { return at(lines() + 5 * R + 10 * C + k); }
  __device__ __forceinline__ double& total() const { return single(0); }
  __device__ __forceinline__ double& amount() const { return single(1); }   // smoothing
  __device__ __forceinline__ double& status() const { return single(2); }
  __device__ __forceinline__ double& n_iter() const { return single(3); }
  __device__ __forceinline__ double& far() const { return single(4); }      // whether M holds powers of two
  __device__ __forceinline__ double& chosen() const { return single(5); }   // whether the pairing was found already
  __device__ __forceinline__ double& moved() const { return single(6); }    // whether `order` is not the identity
  __device__ __forceinline__ double& warm() const { return single(7); }     // whether the caller gave factors
  __device__ __forceinline__ double& limit() const { return single(8); }    // whether cells died
  __device__ __forceinline__ double& paired() const { return single(9); }   // whether row i and column i belong together
};

// Integers for the classification of zeros, laid out likewise: rows are numbered l, and columns, of which there are no more
// than rows, s; sets of columns are bits in so many words.
struct Network {
  i64* scratch;
  i64 stride;
  int L, S, words;

  __device__ __forceinline__ i64& at(i64 k) const { return scratch[k * stride]; }
  __device__ __forceinline__ i64 sets() const { return i64(L) * S; }
  __device__ __forceinline__ i64 lines() const { return sets() + 2 * i64(L) * words; }
  __device__ __forceinline__ i64 ends() const { return lines() + 2 * L + 4 * S; }
  __device__ __forceinline__ i64& flow(int l, int s) const { return at(i64(l) * S + s); }
  __device__ __forceinline__ i64& reach(int l, int w) const { return at(sets() + i64(l) * words + w); }  // positive cells
  __device__ __forceinline__ i64& fed(int l, int w) const { return at(sets() + (i64(L) + l) * words + w); }  // flows
  __device__ __forceinline__ i64& cap(int l) const { return at(lines() + l); }
  __device__ __forceinline__ i64& unmet(int l) const { return at(lines() + L + l); }
  __device__ __forceinline__ i64& short_cap(int s) const { return at(lines() + 2 * L + s); }
  __device__ __forceinline__ i64& spare(int s) const { return at(lines() + 2 * L + S + s); }
  __device__ __forceinline__ i64& parent(int s) const { return at(lines() + 2 * L + 2 * S + s); }  // row it came from
  __device__ __forceinline__ i64& via(int s) const { return at(lines() + 2 * L + 3 * S + s); }     // and before that
  __device__ __forceinline__ i64& next(int s, int w) const { return at(ends() + i64(s) * words + w); }  // leads to
  __device__ __forceinline__ i64& seen(int w) const { return at(ends() + i64(S) * words + w); }
  __device__ __forceinline__ i64& level(int w) const { return at(ends() + (i64(S) + 1) * words + w); }
  __device__ __forceinline__ i64& following(int w) const { return at(ends() + (i64(S) + 2) * words + w); }
};

__device__ __forceinline__ int lowest(u64 set) { return 63 - __clzll(i64(set & (u64(0) - set))); }
__device__ __forceinline__ i64 bit(int s) { return i64(u64(1) << (s & 63)); }

// ---- zeros ----

// Whether there is a zero and nothing simpler is wrong, which is reported later; leaves the targets in u and v.
__device__ __forceinline__ bool plausible(const Tile& t, bool drop) {
  bool good = true, zero = false;
  for (int i = 0; i < t.R; ++i) t.off(i) = 0.0;
  for (int j = 0; j < t.C; ++j) t.sum(j) = 0.0;
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) {
      const double m = t.M(i, j);
      good &= m >= 0.0 && m < CM_INF;
      zero |= m == 0.0;
      if (m > 0.0) t.off(i) = t.sum(j) = 1.0;
    }
  if (!good || !zero) return false;
  double U = 0.0, V = 0.0;
  for (int i = 0; i < t.R; ++i) {
    if (drop && t.off(i) == 0.0 && t.sum(i) == 0.0) t.u(i) = t.v(i) = 0.0;
    good &= t.u(i) >= 0.0 && t.u(i) < CM_INF && (t.off(i) != 0.0 || t.u(i) == 0.0);
    U += t.u(i);
  }
  for (int j = 0; j < t.C; ++j) {
    good &= t.v(j) >= 0.0 && t.v(j) < CM_INF && (t.sum(j) != 0.0 || t.v(j) == 0.0);
    V += t.v(j);
  }
  if (!good || !(fmax(U, V) < CM_INF && fabs(U - V) <= TOTALS_RTOL * fmax(U, V))) return false;
  for (int i = 0; i < t.R; ++i) {
    bool fine = t.u(i) == 0.0;
    for (int j = 0; j < t.C; ++j) fine |= t.M(i, j) > 0.0 && t.v(j) > 0.0;
    good &= fine;
  }
  for (int j = 0; j < t.C; ++j) {
    bool fine = t.v(j) == 0.0;
    for (int i = 0; i < t.R; ++i) fine |= t.M(i, j) > 0.0 && t.u(i) > 0.0;
    good &= fine;
  }
  return good;  // else a line is empty without the dropped ones
}

__device__ __forceinline__ i64 capacity(double target, bool equal, bool whole, int shift) {
  if (equal || target == 0.0) return target > 0.0;
  return whole ? i64(target) : max(i64(1), i64(ldexp(target, shift)));
}

// Turn the targets into integers with one total; return the slack that counts as zero in their unit.
__device__ __forceinline__ i64 capacities(const Tile& t, const Network& g, bool flip) {
  double U = 0.0, V = 0.0, one = 0.0;
  bool equal = true, whole = true;
  int lines = 0;
  for (int i = 0; i < t.R; ++i) {
    const double u = t.u(i);
    U += u;
    whole &= u == floor(u);
    if (u > 0.0) {
      if (one == 0.0) one = u;
      equal &= u == one;
      ++lines;
    }
  }
  for (int j = 0; j < t.C; ++j) {
    const double v = t.v(j);
    V += v;
    whole &= v == floor(v);
    if (v > 0.0) {
      equal &= v == one;
      --lines;
    }
  }
  equal &= lines == 0;
  // The column targets of the input follow those of its rows.
  const double row_ratio = flip && U > 0.0 ? V / U : 1.0, col_ratio = !flip && V > 0.0 ? U / V : 1.0;
  whole &= U == V && U <= EXACT;
  const double most = flip ? V : U;
  const int shift = GRID_BITS - int(most > 0.0 ? exponent_of(most) : 0.0);
  i64 sent = 0, taken = 0;
  for (int l = 0; l < g.L; ++l) {
    g.cap(l) = g.unmet(l) = capacity(t.u(l) * row_ratio, equal, whole, shift);
    sent += g.cap(l);
  }
  int largest = 0;
  for (int s = 0; s < g.S; ++s) {
    g.short_cap(s) = capacity(t.v(s) * col_ratio, equal, whole, shift);
    taken += g.short_cap(s);
    if (g.short_cap(s) > g.short_cap(largest)) largest = s;
  }
  if (!equal && !whole) g.short_cap(largest) += sent - taken;  // from rounding, far below the largest target
  for (int s = 0; s < g.S; ++s) g.spare(s) = g.short_cap(s);
  return equal || whole ? 0 : i64(SLACK * ldexp(most, shift));
}

__device__ __forceinline__ void send(const Network& g, int l, int s, i64 amount) {
  g.flow(l, s) += amount;
  i64& fed = g.fed(l, s / 64);
  fed = g.flow(l, s) > 0 ? fed | bit(s) : fed & ~bit(s);
}

// Send what can be sent directly, through the diagonal first; return what is left.
__device__ __forceinline__ i64 send_directly(const Network& g) {
  i64 left = 0;
  for (int round = 0; round < 2; ++round) {
    left = 0;
    for (int l = 0; l < g.L; ++l) {
      for (int s = round ? 0 : min(l, g.S); s < (round ? g.S : min(l + 1, g.S)); ++s) {
        const i64 amount = g.reach(l, s / 64) & bit(s) ? min(g.unmet(l), g.spare(s)) : 0;
        if (amount > 0) {
          send(g, l, s, amount);
          g.unmet(l) -= amount;
          g.spare(s) -= amount;
        }
      }
      left += g.unmet(l);
    }
    if (left == 0) break;
  }
  return left;
}

// Put what row l reaches and nobody did before into `following`; remember the way.
__device__ __forceinline__ void visit(const Network& g, int l, int before) {
  for (int w = 0; w < g.words; ++w) {
    const u64 fresh = u64(g.reach(l, w) & ~g.seen(w));
    for (u64 left = fresh; left; left &= left - 1) {
      const int s = 64 * w + lowest(left);
      g.parent(s) = l;
      g.via(s) = before;
    }
    g.following(w) |= i64(fresh);
    g.seen(w) |= i64(fresh);
  }
}

// Make what was found the level in hand; return whether it is anything.
__device__ __forceinline__ bool advance(const Network& g) {
  i64 some = 0;
  for (int w = 0; w < g.words; ++w) {
    g.level(w) = g.following(w);
    some |= g.following(w);
    g.following(w) = 0;
  }
  return some != 0;
}

// Send more along a shortest path (Edmonds and Karp); return whether there was one.
__device__ __forceinline__ bool augment(const Network& g) {
  for (int w = 0; w < g.words; ++w) g.seen(w) = g.following(w) = 0;
  for (int l = 0; l < g.L; ++l)
    if (g.unmet(l) > 0) visit(g, l, -1);
  int end = -1;
  while (end < 0 && advance(g)) {
    for (int s = 0; s < g.S && end < 0; ++s)
      if (g.level(s / 64) & bit(s) && g.spare(s) > 0) end = s;
    for (int s = 0; s < g.S && end < 0; ++s) {
      if (!(g.level(s / 64) & bit(s))) continue;
      for (int l = 0; l < g.L; ++l)
        if (g.fed(l, s / 64) & bit(s)) visit(g, l, s);
    }
  }
  if (end < 0) return false;
  i64 amount = g.spare(end);
  for (int s = end; s >= 0; s = int(g.via(s)))
    amount = min(amount, g.via(s) < 0 ? g.unmet(int(g.parent(s))) : g.flow(int(g.parent(s)), int(g.via(s))));
  g.spare(end) -= amount;
  for (int s = end; s >= 0; s = int(g.via(s))) {
    const int l = int(g.parent(s));
    send(g, l, s, amount);
    if (g.via(s) < 0)
      g.unmet(l) -= amount;
    else
      send(g, l, int(g.via(s)), -amount);
  }
  return true;
}

// Say what the zeros allow: CONVERGED (factors exist), LIMIT_ONLY, and the cells that die are cleared, or INFEASIBLE.
__device__ __forceinline__ int classify(const Tile& t, const Network& g, bool flip) {
  const i64 slack = capacities(t, g, flip);
  for (int l = 0; l < g.L; ++l) {
    for (int w = 0; w < g.words; ++w) g.reach(l, w) = g.fed(l, w) = 0;
    for (int s = 0; s < g.S; ++s) {
      g.flow(l, s) = 0;
      if (t.M(l, s) > 0.0 && g.cap(l) > 0 && g.short_cap(s) > 0) g.reach(l, s / 64) |= bit(s);
    }
  }
  if (send_directly(g) > 0)
    while (augment(g)) {
    }
  i64 left = 0;
  bool starved = false;
  for (int l = 0; l < g.L; ++l) {
    left += g.unmet(l);
    starved |= g.cap(l) > 0 && 2 * g.unmet(l) >= g.cap(l);
  }
  for (int s = 0; s < g.S; ++s) starved |= g.short_cap(s) > 0 && 2 * g.spare(s) >= g.short_cap(s);
  if (left > slack || (left > 0 && starved)) return CM_INFEASIBLE;
  // Cells between different strongly connected components of line -> positive cell -> line -> flow are zero in every
  // matrix with these margins. Flows that are rounding only do not count.
  for (int s = 0; s < g.S; ++s)
    for (int w = 0; w < g.words; ++w) g.next(s, w) = s / 64 == w ? bit(s) : 0;
  for (int l = 0; l < g.L; ++l)
    for (int s = 0; s < g.S; ++s) {
      if (!(g.fed(l, s / 64) & bit(s))) continue;
      if (slack != 0 && g.flow(l, s) <= min(slack, min(g.cap(l), g.short_cap(s)) / (2 * max(g.L, g.S)))) {
        g.fed(l, s / 64) &= ~bit(s);
        continue;
      }
      for (int w = 0; w < g.words; ++w) g.next(s, w) |= g.reach(l, w);
    }
  for (int k = 0; k < g.S; ++k)
    for (int s = 0; s < g.S; ++s)
      if (g.next(s, k / 64) & bit(k))
        for (int w = 0; w < g.words; ++w) g.next(s, w) |= g.next(k, w);
  bool dead = false;
  for (int l = 0; l < g.L; ++l)
    for (int s = 0; s < g.S; ++s) {
      if (!(g.reach(l, s / 64) & bit(s))) continue;
      i64 back = 0;
      for (int w = 0; w < g.words; ++w) back |= g.next(s, w) & g.fed(l, w);
      if (back) continue;
      t.M(l, s) = 0.0;
      dead = true;
    }
  return dead ? CM_LIMIT_ONLY : CM_CONVERGED;
}

// ---- loading ----

// Bishop, Fienberg, Holland: pull the cells towards independence with a weight the data choose; return it.
__device__ __forceinline__ double pseudo_bayes(const Tile& t, double high) {
  if (high == 0.0) return 0.0;
  const double scale = ldexp(1.0, int(exponent_of(high)) - 1);  // so that squares stay in range; dividing is exact
  for (int i = 0; i < t.R; ++i) t.off(i) = 0.0;
  for (int j = 0; j < t.C; ++j) t.sum(j) = 0.0;
  double N = 0.0, squares = 0.0, gap = 0.0;
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) {
      const double m = t.M(i, j) / scale;
      t.M(i, j) = m;
      t.off(i) += m;
      t.sum(j) += m;
      N += m;
    }
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) {
      const double m = t.M(i, j), e = t.off(i) * t.sum(j) / N - m;
      squares += m * m;
      gap += e * e;
    }
  const double strength = gap > 0.0 ? (N * N - squares) / gap : CM_INF;
  const double weight = strength < CM_INF ? strength / (N * scale + strength) : 1.0;
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) {
      const double e = t.off(i) * t.sum(j) / N * scale;
      t.M(i, j) = (1.0 - weight) * (t.M(i, j) * scale) + weight * e;
    }
  return strength;
}

// Drop lines, make the totals equal by changing the column targets of the input, refuse what is bad.
__device__ __forceinline__ int check_targets(const Tile& t, bool flip, bool drop) {
  for (int i = 0; i < t.R; ++i) t.off(i) = 0.0;
  for (int j = 0; j < t.C; ++j) t.sum(j) = 0.0;
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) {
      t.off(i) += t.M(i, j);
      t.sum(j) += t.M(i, j);
    }
  double U = 0.0, V = 0.0;
  bool good = true, dropped = false;
  for (int i = 0; i < t.R; ++i) {
    if (drop && t.off(i) == 0.0 && t.sum(i) == 0.0) t.u(i) = t.v(i) = 0.0;
    good &= t.u(i) >= 0.0 && t.u(i) < CM_INF;
    dropped |= t.u(i) == 0.0;
    U += t.u(i);
  }
  for (int j = 0; j < t.C; ++j) {
    good &= t.v(j) >= 0.0 && t.v(j) < CM_INF;
    dropped |= t.v(j) == 0.0;
    V += t.v(j);
  }
  if (!good) return CM_INVALID;
  if (!(fmax(U, V) < CM_INF)) return CM_RANGE;
  if (!(fabs(U - V) <= TOTALS_RTOL * fmax(U, V))) return CM_TOTALS;
  const double given = flip ? V : U;
  t.total() = given > 0.0 ? given : 1.0;
  if (U != V) {
    for (int i = 0; i < t.R; ++i) t.u(i) *= given / U;
    for (int j = 0; j < t.C; ++j) t.v(j) *= given / V;
  }
  if (dropped)
    for (int i = 0; i < t.R; ++i)
      for (int j = 0; j < t.C; ++j)
        if (t.u(i) == 0.0 || t.v(j) == 0.0) t.M(i, j) = 0.0;
  for (int i = 0; i < t.R; ++i) {
    bool empty = t.u(i) > 0.0;
    for (int j = 0; j < t.C; ++j) empty &= t.M(i, j) == 0.0;
    good &= !empty;
  }
  for (int j = 0; j < t.C; ++j) {
    bool empty = t.v(j) > 0.0;
    for (int i = 0; i < t.R; ++i) empty &= t.M(i, j) == 0.0;
    good &= !empty;
  }
  return good ? CM_CONVERGED : CM_ZERO_LINE;
}

// Whether the diagonal of the classes that are not dropped dominates: m_ii m_jj > m_ij m_ji for every i and j.
__device__ __forceinline__ bool dominates(const Tile& t) {
  bool good = true;
  for (int i = 0; i < t.C; ++i) {
    good &= (t.u(i) == 0.0) == (t.v(i) == 0.0);
    if (t.u(i) == 0.0) continue;
    const double m = t.M(i, i);
    good &= m != 0.0;
    for (int j = 0; j < i; ++j) good &= t.u(j) == 0.0 || m * t.M(j, j) > t.M(i, j) * t.M(j, i);
  }
  return good;
}

// Bring column order(j) to place j in M, v, y and the powers of the columns.
__device__ __forceinline__ void permute(const Tile& t) {
  for (int i = -3; i < t.R; ++i) {
    for (int j = 0; j < t.C; ++j) {
      const int from = int(t.order(j));
      t.p(j) = i == -3 ? t.v(from) : i == -2 ? t.y(from) : i == -1 ? t.col_power(from) : t.M(i, from);
    }
    for (int j = 0; j < t.C; ++j) (i == -3 ? t.v(j) : i == -2 ? t.y(j) : i == -1 ? t.col_power(j) : t.M(i, j)) = t.p(j);
  }
}

// The pairing of rows and columns with the largest product of cells (Kuhn and Munkres, by shortest augmenting paths);
// Q holds the logarithms. False where no pairing has a positive product.
__device__ __forceinline__ bool assign(const Tile& t) {
  const int n = t.C;
  // x: prices of rows; y: of columns; order: the row of a column, or -1; p: the column before; d: slack; r: seen.
  for (int j = 0; j < n; ++j) {
    t.x(j) = t.y(j) = 0.0;
    t.order(j) = -1.0;
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      t.d(j) = CM_INF;
      t.r(j) = 0.0;
    }
    int here = -1, row = i;
    while (row >= 0) {
      if (here >= 0) t.r(here) = 1.0;
      double least = CM_INF;
      int following = -1;
      for (int j = 0; j < n; ++j) {
        if (t.r(j) != 0.0) continue;
        const double gap = -t.Q(row, j) - t.x(row) - t.y(j);
        if (gap < t.d(j)) {
          t.d(j) = gap;
          t.p(j) = here;
        }
        if (t.d(j) < least) {
          least = t.d(j);
          following = j;
        }
      }
      if (following < 0) return false;
      t.x(i) += least;
      for (int j = 0; j < n; ++j)
        if (t.r(j) != 0.0) {
          t.x(int(t.order(j))) += least;
          t.y(j) -= least;
        } else {
          t.d(j) -= least;
        }
      here = following;
      row = int(t.order(here));
    }
    while (here >= 0) {
      const int before = int(t.p(here));
      t.order(here) = before >= 0 ? t.order(before) : i;
      here = before;
    }
  }
  return true;
}

// With B_ij = A_ij - (A_ii + A_jj) / 2 of the paired cells in Q: fill x with t such that with B_ij + t_i - t_j each row
// sums to what its column sums to, without the diagonal (Osborne).
__device__ __forceinline__ void balance(const Tile& t) {
  const int n = t.C;
  for (int i = 0; i < n; ++i) t.x(i) = 0.0;
  for (int sweep = 0; sweep < BALANCE_SWEEPS; ++sweep) {
    double change = 0.0;
    for (int i = 0; i < n; ++i) {
      const double half_i = 0.5 * t.Q(i, i);
      double into = -CM_INF, out = -CM_INF, into_sum = 0.0, out_sum = 0.0;
      for (int pass = 0; pass < 2; ++pass)
        for (int j = 0; j < n; ++j) {
          if (j == i) continue;
          const double half = half_i + 0.5 * t.Q(j, j);
          const double a = t.Q(j, i) - half + t.x(j), b = t.Q(i, j) - half - t.x(j);
          if (pass == 0) {
            into = fmax(into, a);
            out = fmax(out, b);
          } else if (into > -CM_INF && out > -CM_INF) {
            into_sum += exp2(a - into);
            out_sum += exp2(b - out);
          }
        }
      if (into == -CM_INF || out == -CM_INF) continue;
      const double fresh = 0.5 * (into + log2(into_sum) - out - log2(out_sum));
      change = fmax(change, fabs(fresh - t.x(i)));
      t.x(i) = fresh;
    }
    if (change < STILL) break;
  }
}

__device__ __forceinline__ void divide_by_powers(const Tile& t) {
  t.far() = 1.0;
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) t.M(i, j) = times_power(t.M(i, j), -t.row_power(i) - t.col_power(j));
}

// Bring the cells together: the logarithms of rows and columns get mean zero.
__device__ __forceinline__ void equilibrate(const Tile& t) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < t.R; ++i) {
      double total = 0.0, n = 0.0;
      for (int j = 0; j < t.C; ++j)
        if (t.M(i, j) > 0.0) {
          total += exponent_of(t.M(i, j)) - t.col_power(j);
          n += 1.0;
        }
      t.row_power(i) = n > 0.0 ? floor(total / n) : 0.0;
    }
    for (int j = 0; j < t.C; ++j) {
      double total = 0.0, n = 0.0;
      for (int i = 0; i < t.R; ++i)
        if (t.M(i, j) > 0.0) {
          total += exponent_of(t.M(i, j)) - t.row_power(i);
          n += 1.0;
        }
      t.col_power(j) = n > 0.0 ? floor(total / n) : 0.0;
    }
  }
  divide_by_powers(t);
}

// Take powers of two out of the cells, which is exact; with a pairing where one is wanted and exists.
__device__ __forceinline__ void bring_near(const Tile& t, bool plain, double low, double high) {
  bool paired = t.R == t.C && !plain;
  for (int i = 0; i < t.R; ++i) paired &= t.u(i) > 0.0;
  for (int j = 0; j < t.C; ++j) paired &= t.v(j) > 0.0;
  if (paired) {
    for (int i = 0; i < t.R; ++i)
      for (int j = 0; j < t.C; ++j) t.Q(i, j) = t.M(i, j) > 0.0 ? log2(t.M(i, j)) : -CM_INF;
    if (assign(t)) {
      for (int j = 0; j < t.C; ++j) t.d(int(t.order(j))) = j;  // the column of a row
      for (int i = 0; i < t.R; ++i) {
        for (int j = 0; j < t.C; ++j) t.p(j) = t.Q(i, int(t.d(j)));
        for (int j = 0; j < t.C; ++j) t.Q(i, j) = t.p(j);
      }
      balance(t);
      for (int i = 0; i < t.R; ++i) {
        const double half = 0.5 * t.Q(i, i);
        t.row_power(i) = floor(half - t.x(i) + 0.5);
        t.col_power(int(t.d(i))) = floor(half + t.x(i) + 0.5);
      }
      divide_by_powers(t);
      for (int j = 0; j < t.C; ++j) t.order(j) = t.d(j);
      t.chosen() = t.moved() = 1.0;
      permute(t);
      return;
    }
    for (int j = 0; j < t.C; ++j) t.order(j) = j;
  }
  if (low < 1.0 / WIDE || high > WIDE) equilibrate(t);
}

// The column factors to start from: the caller's, where these are positive and finite, else one.
__device__ __forceinline__ void begin(const Tile& t, const double* start_row, const double* start_col) {
  for (int j = 0; j < t.C; ++j) t.y(j) = t.chosen() != 0.0 ? 1.0 : times_power(1.0, t.col_power(j));
  bool rows = start_row != nullptr, cols = start_col != nullptr;
  for (int j = 0; j < t.C && cols; ++j) cols = t.v(j) == 0.0 || usable(start_col[int(t.order(j))]);
  for (int i = 0; i < t.R && rows; ++i) rows = t.u(i) == 0.0 || usable(start_row[i]);
  t.warm() = cols || rows;
  for (int j = 0; j < t.C; ++j) {
    if (cols) {
      t.y(j) = times_power(start_col[int(t.order(j))], t.col_power(j));
    } else if (rows) {
      double sum = 0.0;
      for (int i = 0; i < t.R; ++i)
        if (t.u(i) > 0.0) sum += times_power(start_row[i], t.row_power(i)) * t.M(i, j);
      t.y(j) = t.v(j) > 0.0 ? t.v(j) / sum : 1.0;
    }
  }
}

// A matrix and its targets, row_step and so on being zero where all share one.
template <typename T>
__global__ void cmfast_ipf_load(const T* __restrict__ M, i64 m_step, const double* __restrict__ row_sums, i64 row_step,
                                const double* __restrict__ col_sums, i64 col_step, const double* start_row,
                                i64 start_row_step, const double* start_col, i64 start_col_step, int R, int C,
                                const i64* queue, const i64* length, i64 first, int n, double smoothing, int drop,
                                int bi, int plain, i64 stride, i64 step, double* scratch, i64 network_step,
                                i64* network) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= n || (length && first + thread >= *length)) return;
  const i64 b = queue ? queue[first + thread] : first + thread;
  const bool flip = R < C && !plain;
  const Tile t{scratch + thread * step, stride, flip ? C : R, flip ? R : C};
  for (int k = 0; k < 10; ++k) t.single(k) = 0.0;
  t.total() = 1.0;
  for (int i = 0; i < t.R; ++i) {
    t.u(i) = flip ? (col_sums ? col_sums[b * col_step + i] : 1.0) : (row_sums ? row_sums[b * row_step + i] : 1.0);
    t.row_power(i) = 0.0;
  }
  for (int j = 0; j < t.C; ++j) {
    t.v(j) = flip ? (row_sums ? row_sums[b * row_step + j] : 1.0) : (col_sums ? col_sums[b * col_step + j] : 1.0);
    t.col_power(j) = 0.0;
    t.order(j) = j;
  }
  const T* cells = M + b * m_step * R * C;
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) (flip ? t.M(j, i) : t.M(i, j)) = widen(cells[i * C + j]);
  int status = CM_CONVERGED;
  if (smoothing == 0.0 && !plain && plausible(t, drop && bi)) {
    status = classify(t, Network{network + thread * network_step, stride, t.R, t.C, (t.C + 63) / 64}, flip);
    t.limit() = status == CM_LIMIT_ONLY;
    if (status == CM_LIMIT_ONLY) status = CM_CONVERGED;
  }
  double low = CM_INF, high = 0.0;
  bool good = true;
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) {
      const double m = t.M(i, j);
      good &= m >= 0.0 && m < CM_INF;
      high = fmax(high, m);
      if (smoothing > 0.0) t.M(i, j) = m + smoothing;
    }
  if (!good) status = CM_INVALID;
  t.amount() = fmax(smoothing, 0.0);
  if (smoothing < 0.0 && good) t.amount() = pseudo_bayes(t, high);
  high = 0.0;
  for (int i = 0; i < t.R; ++i)
    for (int j = 0; j < t.C; ++j) {
      const double m = t.M(i, j);
      if (m > 0.0) low = fmin(low, m);
      high = fmax(high, m);
    }
  if (status == CM_CONVERGED) status = check_targets(t, flip, drop && bi);
  t.status() = status;
  if (status != CM_CONVERGED) return;
  const bool outside = low < 1.0 / WIDE || high > WIDE || high > VAST * low;
  if (outside || (high > SPAN * low && !(t.R == t.C && dominates(t)))) bring_near(t, plain, low, high);
  begin(t, flip ? (start_col ? start_col + b * start_col_step : nullptr)
                : (start_row ? start_row + b * start_row_step : nullptr),
        flip ? (start_row ? start_row + b * start_row_step : nullptr)
             : (start_col ? start_col + b * start_col_step : nullptr));
}

// ---- sweeps ----

// Row step, then column step (Sinkhorn and Knopp), until the residual of a whole sweep is at most `tol`.
__global__ void cmfast_ipf_sinkhorn(int R, int C, const i64* length, i64 first, int n, double tol, i64 max_iter,
                                    i64 stride, i64 step, double* scratch) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= n || (length && first + thread >= *length)) return;
  const Tile t{scratch + thread * step, stride, R, C};
  if (t.status() != CM_CONVERGED) return;
  double status = CM_MAX_ITER;
  for (i64 k = 1; k <= max_iter && status == CM_MAX_ITER; ++k) {
    t.n_iter() = double(k);
    for (int j = 0; j < C; ++j) t.sum(j) = 0.0;
    for (int i = 0; i < R; ++i) {
      double total = 0.0;
      for (int j = 0; j < C; ++j) total += t.M(i, j) * t.y(j);
      const double x = t.u(i) > 0.0 ? t.u(i) / total : 0.0;
      t.x(i) = x;
      for (int j = 0; j < C; ++j) t.sum(j) += t.M(i, j) * x;
    }
    for (int j = 0; j < C; ++j) t.y(j) = t.v(j) > 0.0 ? t.v(j) / t.sum(j) : 0.0;
    double residual = 0.0;
    for (int i = 0; i < R; ++i) {
      double total = 0.0;
      for (int j = 0; j < C; ++j) total += t.M(i, j) * t.y(j);
      residual += fabs(t.x(i) * total - t.u(i));
    }
    residual /= t.total();
    if (!(residual < CM_INF))
      status = CM_RANGE;
    else if (residual <= tol)
      status = CM_CONVERGED;
  }
  t.status() = status;
}

// ---- Newton's method on the dual ----

__device__ __forceinline__ void plain_sweep(const Tile& t) {
  for (int j = 0; j < t.C; ++j) t.sum(j) = 0.0;
  for (int i = 0; i < t.R; ++i) {
    double total = 0.0;
    for (int j = 0; j < t.C; ++j) total += t.M(i, j) * t.y(j);
    const double x = t.u(i) > 0.0 ? t.u(i) / total : 0.0;
    t.x(i) = x;
    for (int j = 0; j < t.C; ++j) t.sum(j) += t.M(i, j) * x;
  }
  for (int j = 0; j < t.C; ++j) t.y(j) = t.v(j) > 0.0 ? t.v(j) / t.sum(j) : 0.0;
}

// Pair each row with its largest scaled cell if these lie in different columns, else by a positive diagonal.
__device__ __forceinline__ bool pair_by_search(const Tile& t) {
  const int C = t.C;
  for (int j = 0; j < C; ++j) t.p(j) = -1.0;
  bool distinct = true;
  for (int i = 0; i < C; ++i) {
    if (t.u(i) == 0.0) continue;
    int best = 0;
    for (int j = 0; j < C; ++j)
      if (t.M(i, j) * t.y(j) > t.M(i, best) * t.y(best)) best = j;
    distinct &= t.p(best) < 0.0;
    t.p(best) = i;
  }
  if (distinct) {
    int i = 0;
    for (int j = 0; j < C; ++j) {  // what is left over is dropped on both sides, if their numbers agree
      if (t.p(j) >= 0.0) continue;
      while (i < C && t.u(i) > 0.0) ++i;
      distinct &= t.v(j) == 0.0;
      t.p(j) = i++;
    }
  }
  if (distinct) {
    for (int j = 0; j < C; ++j) t.order(int(t.p(j))) = j;
    t.moved() = 1.0;
    permute(t);
    return true;
  }
  bool good = true;
  for (int i = 0; i < C; ++i) {
    const bool zero = t.u(i) == 0.0;
    good &= zero == (t.v(i) == 0.0) && (zero || t.M(i, i) > 0.0);
  }
  return good;
}

__device__ __forceinline__ void paired_start(const Tile& t) {
  for (int i = 0; i < t.C; ++i) {
    const double u = t.u(i), m = t.M(i, i);
    const bool positive = u > 0.0 && m > 0.0;
    t.x(i) = positive ? sqrt(u / m) : 0.0;
    if (positive && t.warm() == 0.0) t.y(i) = sqrt(t.v(i) / m);
  }
  if (t.warm() == 0.0) return;
  for (int i = 0; i < t.C; ++i) {
    double total = 0.0;
    for (int j = 0; j < t.C; ++j) total += t.M(i, j) * t.y(j);
    t.x(i) = t.u(i) > 0.0 ? t.u(i) / total : 0.0;
  }
}

// Solve row i and column i together, exactly, for every i: x (m y + a) = u and y (m x + b) = v, with the paired cell m and
// the sums a of the row and b of the column.
__device__ __forceinline__ void paired_sweep(const Tile& t) {
  for (int i = 0; i < t.C; ++i) {
    double a = 0.0, b = 0.0;
    for (int j = 0; j < t.C; ++j)
      if (j != i) {
        a += t.M(i, j) * t.y(j);
        b += t.M(j, i) * t.x(j);
      }
    const double m = t.M(i, i), u = t.u(i), v = t.v(i);
    const double A = m * a, B = a * b + m * (v - u), G = u * b, D = sqrt(B * B + 4.0 * A * G);
    const double x = (B >= 0.0 ? 2.0 * G : D - B) / (B >= 0.0 ? B + D : 2.0 * A);
    const double y = v / (m * x + b);
    if (usable(x) && usable(y)) {  // a dropped class, an underflow: the pair stays as it is
      t.x(i) = x;
      t.y(i) = y;
    }
  }
}

// Make the rows exact; leave cells, flows and sources; return the residual.
__device__ __forceinline__ double row_pass(const Tile& t, bool paired) {
  const int C = t.C;
  const bool square = t.R == C;
  for (int j = 0; j < C; ++j) t.sum(j) = 0.0;
  for (int i = 0; i < t.R; ++i) {
    double a = 0.0;
    for (int j = 0; j < C; ++j)
      if (!square || j != i) a += t.M(i, j) * t.y(j);
    const double b = square ? t.M(i, i) * t.y(i) : 0.0, u = t.u(i), root = t.root(i);
    const double x = u > 0.0 ? u / (a + b) : 0.0;
    t.x(i) = x;
    if (square) {
      t.off(i) = x * a;
      t.diag(i) = x * b;
      t.Q(i, i) = x * b * root;
    }
    for (int j = 0; j < C; ++j) {
      if (square && j == i) continue;
      const double cell = x * t.M(i, j) * t.y(j);
      t.Q(i, j) = cell * root;
      t.sum(j) += cell;
      // Of the flows between two columns the later row completes what the earlier one began.
      if (square && j < i)
        t.F(i, j) += paired ? cell : 0.0;
      else if (square)
        t.F(j, i) = paired ? -cell : 0.0;
    }
  }
  double residual = 0.0;
  for (int j = 0; j < C; ++j) {
    if (paired) {
      t.q(j) = t.v(j) - t.u(j);
      residual += fabs(t.q(j) + (t.off(j) - t.sum(j)));
    } else {
      t.q(j) = t.v(j) - (t.sum(j) + (square ? t.diag(j) : 0.0));
      residual += fabs(t.q(j));
    }
  }
  return residual / t.total();
}

// W_jk = sum over i of q_ij q_ik for k < j.
__device__ __forceinline__ void weights(const Tile& t) {
  for (int j = 1; j < t.C; ++j)
    for (int k = 0; k < j; ++k) {
      double total = 0.0;
      for (int i = 0; i < t.R; ++i) total += t.Q(i, j) * t.Q(i, k);
      t.W(j, k) = total;
    }
}

// Solve L d = q + flows by star-mesh elimination (Grassmann, Taksar and Heyman), from the last column down: it only adds
// nonnegative numbers to the weights, so small cells keep all their digits.
__device__ __forceinline__ void eliminate(const Tile& t) {
  const bool square = t.R == t.C;
  for (int k = t.C - 1; k > 0; --k) {
    double total = 0.0;
    for (int j = 0; j < k; ++j) total += t.W(k, j);
    const double r = total >= NORMAL ? 1.0 / total : 0.0, q = t.q(k);
    double d = q;
    t.r(k) = r;
    for (int j = 0; j < k; ++j) {
      t.p(j) = t.W(k, j) * r;
      t.q(j) += t.p(j) * q;
      if (square) d += t.F(k, j);
    }
    t.d(k) = d;
    for (int j = 1; j < k; ++j) {
      const double p = t.p(j), f = square ? t.F(k, j) : 0.0;
      for (int i = 0; i < j; ++i) {
        t.W(j, i) += p * t.W(k, i);
        if (square) t.F(j, i) += p * t.F(k, i) - t.p(i) * f;
      }
    }
  }
  t.d(0) = 0.0;
  for (int k = 1; k < t.C; ++k) {
    double d = t.d(k);
    for (int j = 0; j < k; ++j) d += t.W(k, j) * t.d(j);
    t.d(k) = d * t.r(k);
  }
}

// Take a step whose length needs no line search; return the width that a full one would have had.
__device__ __forceinline__ double advance(const Tile& t) {
  double low = 0.0, high = 0.0;
  for (int j = 0; j < t.C; ++j) {
    low = fmin(low, t.d(j));
    high = fmax(high, t.d(j));
  }
  const double rho = high - low, middle = 0.5 * (low + high);  // keep the factors centred
  const double step = rho > SAFE_WIDTH ? fmax(SAFE_WIDTH, log1p(rho)) / rho : 1.0;
  for (int j = 0; j < t.C; ++j) t.y(j) *= exp(step * (t.d(j) - middle));
  return rho;
}

// Find the pairing and the first factors; return whether rows and columns are paired.
__device__ __forceinline__ bool start(const Tile& t, i64* done) {
  for (int i = 0; i < t.R; ++i) t.root(i) = t.u(i) > 0.0 ? 1.0 / sqrt(t.u(i)) : 0.0;
  bool paired = t.R == t.C && (t.chosen() != 0.0 || dominates(t));
  if (!paired) {
    for (int sweep = 0; sweep < 3; ++sweep) plain_sweep(t);
    *done += 3;
    paired = t.R == t.C && pair_by_search(t);
  }
  if (paired) {
    paired_start(t);
    for (int sweep = 0; sweep < 2; ++sweep) paired_sweep(t);
    *done += 2;
  }
  return paired;
}

__global__ void cmfast_ipf_newton(int R, int C, const i64* length, i64 first, int n, double tol, double last_width,
                                  i64 max_iter, i64 stride, i64 step, double* scratch) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= n || (length && first + thread >= *length)) return;
  const Tile t{scratch + thread * step, stride, R, C};
  if (t.status() != CM_CONVERGED) return;
  i64 done = 0;
  const bool paired = start(t, &done);
  double rho = CM_INF, before = CM_INF;
  while (true) {
    const double residual = row_pass(t, paired);
    // The residual alone would let cells smaller than the tolerance be wrong: the last step must be small too, or have
    // stopped shrinking at the level of rounding.
    const bool small = rho <= last_width || (rho < 0.1 && rho >= 0.5 * before);
    if (!(residual < CM_INF)) t.status() = CM_RANGE;
    if (!(residual < CM_INF) || (residual <= tol && small)) break;
    if (done >= max_iter) {
      t.status() = CM_MAX_ITER;
      break;
    }
    ++done;
    weights(t);
    eliminate(t);
    before = rho;
    rho = advance(t);
  }
  t.n_iter() = double(done);
}

// The same for matrices of many classes: a block shares the rows, the pairs of columns, and what one column gives to the
// others when it is eliminated.
__global__ void cmfast_ipf_newton_block(int R, int C, const i64* length, i64 first, int n, double tol,
                                        double last_width, i64 max_iter, i64 stride, i64 step, double* scratch) {
  const int me = threadIdx.x;
  for (int b = blockIdx.x; b < n && (!length || first + b < *length); b += gridDim.x) {
    const Tile t{scratch + b * step, stride, R, C};
    const bool square = R == C;
    if (t.status() != CM_CONVERGED) continue;
    if (me == 0) {
      i64 done = 0;
      t.paired() = start(t, &done);
      t.n_iter() = double(done);
    }
    __syncthreads();
    const bool paired = t.paired() != 0.0;
    i64 done = i64(t.n_iter());
    double rho = CM_INF, before = CM_INF;
    int status = CM_CONVERGED;
    while (true) {
      for (int i = me; i < R; i += CM_THREADS) {
        double a = 0.0;
        for (int j = 0; j < C; ++j)
          if (!square || j != i) a += t.M(i, j) * t.y(j);
        const double own = square ? t.M(i, i) * t.y(i) : 0.0, u = t.u(i);
        t.x(i) = u > 0.0 ? u / (a + own) : 0.0;
        if (square) {
          t.off(i) = t.x(i) * a;
          t.diag(i) = t.x(i) * own;
        }
      }
      __syncthreads();
      double residual = 0.0;
      for (int j = me; j < C; j += CM_THREADS) {
        double sum = 0.0;
        for (int i = 0; i < R; ++i) {
          const double cell = t.x(i) * t.M(i, j) * t.y(j);
          t.Q(i, j) = cell * t.root(i);
          if (!square || i != j) sum += cell;
          if (square && i > j) t.F(i, j) = paired ? cell - t.x(j) * t.M(j, i) * t.y(i) : 0.0;
        }
        t.q(j) = paired ? t.v(j) - t.u(j) : t.v(j) - (sum + (square ? t.diag(j) : 0.0));
        residual += fabs(paired ? t.q(j) + (t.off(j) - sum) : t.q(j));
      }
      residual = team_sum<CM_THREADS>(residual) / t.total();
      const bool small = rho <= last_width || (rho < 0.1 && rho >= 0.5 * before);
      if (!(residual < CM_INF)) status = CM_RANGE;
      if (!(residual < CM_INF) || (residual <= tol && small)) break;
      if (done >= max_iter) {
        status = CM_MAX_ITER;
        break;
      }
      ++done;
      for (int pair = me; pair < C * C; pair += CM_THREADS) {
        const int j = pair / C, k = pair % C;
        if (k >= j) continue;
        double total = 0.0;
        for (int i = 0; i < R; ++i) total += t.Q(i, j) * t.Q(i, k);
        t.W(j, k) = total;
      }
      __syncthreads();
      for (int k = C - 1; k > 0; --k) {
        double total = 0.0, flows = 0.0;
        for (int j = me; j < k; j += CM_THREADS) {
          total += t.W(k, j);
          if (square) flows += t.F(k, j);
        }
        total = team_sum<CM_THREADS>(total);
        flows = team_sum<CM_THREADS>(flows);
        const double r = total >= NORMAL ? 1.0 / total : 0.0, q = t.q(k);
        for (int j = me; j < k; j += CM_THREADS) {
          t.p(j) = t.W(k, j) * r;
          t.q(j) += t.p(j) * q;
        }
        if (me == 0) {
          t.r(k) = r;
          t.d(k) = q + flows;
        }
        __syncthreads();
        for (int pair = me; pair < k * k; pair += CM_THREADS) {
          const int j = pair / k, i = pair % k;
          if (i >= j) continue;
          t.W(j, i) += t.p(j) * t.W(k, i);
          if (square) t.F(j, i) += t.p(j) * t.F(k, i) - t.p(i) * t.F(k, j);
        }
        __syncthreads();
      }
      if (me == 0) t.d(0) = 0.0;
      for (int k = 1; k < C; ++k) {
        __syncthreads();
        double d = 0.0;
        for (int j = me; j < k; j += CM_THREADS) d += t.W(k, j) * t.d(j);
        d = team_sum<CM_THREADS>(d);
        if (me == 0) t.d(k) = (t.d(k) + d) * t.r(k);
      }
      __syncthreads();
      double low = 0.0, high = 0.0;
      for (int j = me; j < C; j += CM_THREADS) {
        low = fmin(low, t.d(j));
        high = fmax(high, t.d(j));
      }
      low = team_reduce<CM_THREADS>(low, [](double a, double b) { return fmin(a, b); });
      high = team_reduce<CM_THREADS>(high, [](double a, double b) { return fmax(a, b); });
      before = rho;
      rho = high - low;
      const double length = rho > SAFE_WIDTH ? fmax(SAFE_WIDTH, log1p(rho)) / rho : 1.0;
      for (int j = me; j < C; j += CM_THREADS) t.y(j) *= exp(length * (t.d(j) - 0.5 * (low + high)));
      __syncthreads();
    }
    if (me == 0) {
      t.n_iter() = double(done);
      t.status() = status;
    }
    __syncthreads();
  }
}

// ---- results ----

// Divide the factors `first` by their geometric mean, multiply the others by it; return the power of two that the powers
// in M add to it.
template <bool ROWS>
__device__ __forceinline__ double gauge(const Tile& t) {
  const int n = ROWS ? t.R : t.C;
  double product = 1.0, power = 0.0, given = 0.0, count = 0.0;
  for (int i = 0; i < n; ++i) {
    if (!((ROWS ? t.u(i) : t.v(i)) > 0.0)) continue;
    const double factor = ROWS ? t.x(i) : t.y(i);
    if (!usable(factor)) continue;  // which is out of range, and reported so
    const double exponent = exponent_of(factor);
    product *= times_power(factor, -exponent);
    power += exponent;
    given -= ROWS ? t.row_power(i) : t.col_power(i);
    count += 1.0;
    if (product < 1e-200) {
      const double more = exponent_of(product);
      product = times_power(product, -more);
      power += more;
    }
  }
  if (count == 0.0) return 0.0;
  const double whole = floor((power + given) / count), own = floor(power / count);
  const double part = (power + given) - whole * count;
  const double mean = times_power(exp((log(product) + part * 0.693147180559945309417) / count), own);
  for (int i = 0; i < t.R; ++i) t.x(i) = ROWS ? t.x(i) / mean : t.x(i) * mean;
  for (int j = 0; j < t.C; ++j) t.y(j) = ROWS ? t.y(j) * mean : t.y(j) / mean;
  return whole - own;
}

// Put the factors in the gauge, scale the cells, and measure again what is returned.
template <typename O>
__global__ void cmfast_ipf_finish(int R, int C, const i64* queue, const i64* length, i64 first, int n, int plain,
                                  double tol, i64 stride, i64 step, double* scratch, O* out, double* out_row,
                                  double* out_col, double* out_residual, i64* out_n_iter, signed char* out_status,
                                  double* out_smoothing) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= n || (length && first + thread >= *length)) return;
  const i64 b = queue ? queue[first + thread] : first + thread;
  const bool flip = R < C && !plain;
  const Tile t{scratch + thread * step, stride, flip ? C : R, flip ? R : C};
  int status = int(t.status());
  double residual = CM_NAN;
  if (status <= CM_MAX_ITER) {
    if (t.moved() != 0.0) {
      for (int j = 0; j < t.C; ++j) t.r(int(t.order(j))) = j;
      for (int j = 0; j < t.C; ++j) t.order(j) = t.r(j);
      permute(t);
    }
    for (int j = 0; j < t.C; ++j)
      if (!(t.v(j) > 0.0)) t.y(j) = 0.0;
    const double rest = flip ? -gauge<false>(t) : gauge<true>(t);
    residual = 0.0;
    bool good = true;
    for (int j = 0; j < t.C; ++j) t.sum(j) = 0.0;
    for (int i = 0; i < t.R; ++i) {
      double total = 0.0;
      for (int j = 0; j < t.C; ++j) {
        const double cell = t.x(i) * t.M(i, j) * t.y(j);
        t.M(i, j) = cell;
        total += cell;
        t.sum(j) += cell;
      }
      residual += fabs(total - t.u(i));
    }
    for (int j = 0; j < t.C; ++j) residual += fabs(t.sum(j) - t.v(j));
    residual /= t.total();
    for (int pass = 0; pass < 2; ++pass) {  // before and after the powers of two are undone
      for (int i = 0; i < t.R; ++i) {
        if (pass && t.far() != 0.0) t.x(i) = times_power(t.x(i), -t.row_power(i) - rest);
        good &= t.u(i) == 0.0 || usable(t.x(i));
      }
      for (int j = 0; j < t.C; ++j) {
        if (pass && t.far() != 0.0) t.y(j) = times_power(t.y(j), rest - t.col_power(j));
        good &= t.v(j) == 0.0 || usable(t.y(j));
      }
    }
    if (!good || !(residual < CM_INF))
      status = CM_RANGE;
    else if (status == CM_CONVERGED && !(residual <= tol))
      status = CM_MAX_ITER;
  }
  const bool failed = status > CM_MAX_ITER, limit = t.limit() != 0.0;
  for (int i = 0; i < R; ++i) out_row[b * R + i] = failed || limit ? CM_NAN : flip ? t.y(i) : t.x(i);
  for (int j = 0; j < C; ++j) out_col[b * C + j] = failed || limit ? CM_NAN : flip ? t.x(j) : t.y(j);
  if (out)
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < C; ++j)
        out[(b * R + i) * C + j] = narrow<O>(failed ? CM_NAN : flip ? t.M(j, i) : t.M(i, j));
  out_residual[b] = failed ? CM_NAN : residual;
  out_n_iter[b] = failed && status != CM_RANGE ? 0 : i64(t.n_iter());
  out_status[b] = limit && status == CM_CONVERGED ? CM_LIMIT_ONLY : status;
  out_smoothing[b] = t.amount();
}
