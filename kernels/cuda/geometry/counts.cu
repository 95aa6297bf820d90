// Keys of points and cells (cell << bits | tag), runs of sorted keys, counts, overlaps and fixed-point weights.

// Grid coordinate before rounding down. Subtract, then multiply: two roundings, the same on every device.
template <typename T>
__device__ __forceinline__ double place(T x, double origin, double inverse) {
  return (widen(x) - origin) * inverse;
}

// Whether float64 distinguishes neighbouring cells (below 2^53); false for values that are not finite.
__device__ __forceinline__ bool is_index(double x) { return fabs(x) < 0x1p53; }

// Minimum and maximum index per axis over the points that have a cell, and their number, one row per block.
template <typename T>
__global__ void cmfast_cell_counts_ranges(const T* __restrict__ X, i64 n, int m, const double* __restrict__ origin,
                                          const double* __restrict__ inverse, i64* out_low, i64* out_high,
                                          u64* out_kept) {
  out_kept += blockIdx.x;
  reduce_columns(
      X, n, m, out_low + i64(blockIdx.x) * m, out_high + i64(blockIdx.x) * m, out_kept,
      [=](T x, int d) { return is_index(place(x, origin[d], inverse[d])); },
      [=](T x, int d) { return i64(floor(place(x, origin[d], inverse[d]))); });
}

// Minimum and maximum of one or two label arrays.
template <typename L>
__global__ void cmfast_cell_counts_labels(const L* __restrict__ y, const L* __restrict__ p, i64 n, i64* out_found) {
  i64 low = CM_DROPPED, high = ~CM_DROPPED;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    const i64 one = i64(y[k]), other = p ? i64(p[k]) : one;
    low = min(low, min(one, other));
    high = max(high, max(one, other));
  }
  low = team_reduce<CM_THREADS>(low, [](i64 a, i64 b) { return min(a, b); });
  high = team_reduce<CM_THREADS>(high, [](i64 a, i64 b) { return max(a, b); });
  if (threadIdx.x == 0) {
    atomicMin(&out_found[0], low);
    atomicMax(&out_found[1], high);
  }
}

// Mixed-radix keys; a point without a cell gets the largest value. If 31 bits suffice, keys have 32 bits, which halves
// the passes and the bytes of a radix sort.
template <typename T, typename L, typename K>
__global__ void cmfast_cell_counts_keys(const T* __restrict__ X, i64 n, int m, const double* __restrict__ origin,
                                        const double* __restrict__ inverse, const i64* __restrict__ low,
                                        const i64* __restrict__ extent, const L* __restrict__ y,
                                        const L* __restrict__ p, int half, K* __restrict__ out) {
  for (i64 r = i64(blockIdx.x) * CM_THREADS + threadIdx.x; r < n; r += i64(gridDim.x) * CM_THREADS) {
    i64 key = 0;
    bool kept = true;
    for (int d = 0; d < m && kept; ++d) {
      const double x = place(X[r * m + d], origin[d], inverse[d]);
      kept = is_index(x);
      if (kept) key = key * extent[d] + (i64(floor(x)) - low[d]);
    }
    if (y) key = key << half | i64(y[r]);
    if (p) key = key << half | i64(p[r]);
    out[r] = K(kept ? key : sizeof(K) == 4 ? 0x7fffffff : CM_DROPPED);
  }
}

// Indices relative to the lowest, axis by axis, and whether a point has a cell.
template <typename T>
__global__ void cmfast_cell_counts_indices(const T* __restrict__ X, i64 n, int m, const double* __restrict__ origin,
                                           const double* __restrict__ inverse, const i64* __restrict__ low,
                                           i64* __restrict__ out, signed char* __restrict__ out_kept) {
  for (i64 r = i64(blockIdx.x) * CM_THREADS + threadIdx.x; r < n; r += i64(gridDim.x) * CM_THREADS) {
    bool kept = true;
    for (int d = 0; d < m; ++d) {
      const double x = place(X[r * m + d], origin[d], inverse[d]);
      kept &= is_index(x);
      out[d * n + r] = is_index(x) ? i64(floor(x)) - low[d] : 0;
    }
    out_kept[r] = kept;
  }
}

// Decode mixed-radix cell keys to index rows.
__global__ void cmfast_decode_cells_rows(const i64* __restrict__ cells, i64 n, int m, const i64* __restrict__ low,
                                         const i64* __restrict__ extent, i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    i64 rest = cells[k];
    for (int d = m - 1; d >= 0; --d) {
      const i64 quotient = rest / extent[d];
      out[k * m + d] = rest - quotient * extent[d] + low[d];
      rest = quotient;
    }
  }
}

// Encode index rows to mixed-radix cell keys, possibly with other ranges.
__global__ void cmfast_merge_cells_numbers(const i64* __restrict__ rows, i64 n, int m, const i64* __restrict__ low,
                                           const i64* __restrict__ extent, i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    i64 cell = 0;
    for (int d = 0; d < m; ++d) cell = cell * extent[d] + (rows[k * m + d] - low[d]);
    out[k] = cell;
  }
}

typedef unsigned __int128 u128;

// Add to an integer word by word, each with the carry of the one below: words of 32 bits with HELD, in shared memory,
// which has no native atomics of more; else of 64.
template <bool HELD>
struct Word {
  typedef u64 type;
};
template <>
struct Word<true> {
  typedef unsigned type;
};
template <bool HELD, typename T>
__device__ __forceinline__ void add_wide(T* to, T x) {
  typedef typename Word<HELD>::type W;
  W* words = reinterpret_cast<W*>(to);
  W carry = 0;
#pragma unroll
  for (int k = 0; k < int(sizeof(T) / sizeof(W)); ++k) {
    const W own = W(x >> 8 * int(sizeof(W)) * k), more = own + carry;
    carry = more < own;
    if (more) carry |= W(atomicAdd(&words[k], more) + more) < more;
  }
}

// Count every key below n_keys; larger keys are of points without a cell.
__global__ void cmfast_cell_counts_number(const int* __restrict__ keys, i64 n, int n_keys, u64* out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS)
    if (keys[k] < n_keys) atomicAdd(&out[keys[k]], u64(1));
}

// Whether a run of sorted keys begins at k.
template <typename K>
__device__ __forceinline__ bool begins(const K* keys, i64 k, i64 n) {
  return k < n && (k == 0 || keys[k] != keys[k - 1]);
}

// Count the runs that begin in each tile of sorted keys. CM_RUN_KEYS times 32 consecutive keys belong to a warp, whose
// lanes read adjacent keys.
template <typename K>
__global__ void cmfast_cell_counts_runs(const K* __restrict__ keys, i64 n, i64 tiles, i64* __restrict__ out) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const i64 start = (tile * CM_THREADS + threadIdx.x / 32 * 32) * CM_RUN_KEYS + threadIdx.x % 32;
    int number = 0;
#pragma unroll
    for (int r = 0; r < CM_RUN_KEYS; ++r) number += begins(keys, start + 32 * r, n);
    number = team_sum<CM_THREADS>(number);
    if (threadIdx.x == 0) out[tile] = number;
  }
}

// Write where runs begin and, if requested, their keys; `before` is the number of runs that begin in earlier tiles.
template <typename K>
__global__ void cmfast_cell_counts_starts(const K* __restrict__ keys, i64 n, i64 tiles, const i64* __restrict__ before,
                                          i64* __restrict__ out_first, i64* __restrict__ out_keys) {
  CM_DYN_SMEM(int, of_warp);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const i64 start = (tile * CM_THREADS + warp * 32) * CM_RUN_KEYS + lane;
    unsigned heads[CM_RUN_KEYS];
    int number = 0;
#pragma unroll
    for (int r = 0; r < CM_RUN_KEYS; ++r) {
      heads[r] = __ballot_sync(CM_ALL_LANES, begins(keys, start + 32 * r, n));
      number += __popc(heads[r]);
    }
    __syncthreads();  // all threads have read the counts of the previous tile
    if (lane == 0) of_warp[warp] = number;
    __syncthreads();
    i64 at = before[tile];
    for (int w = 0; w < warp; ++w) at += of_warp[w];
#pragma unroll
    for (int r = 0; r < CM_RUN_KEYS; ++r) {
      if (heads[r] >> lane & 1) {
        const i64 to = at + __popc(heads[r] & ((1u << lane) - 1));
        out_first[to] = start + 32 * r;
        if (out_keys) out_keys[to] = keys[start + 32 * r];
      }
      at += __popc(heads[r]);
    }
  }
}

// Confusion matrix of runs; with HELD in shared memory first, so that blocks do not contend.
template <bool HELD>
__global__ void cmfast_pair_counts_add(const i64* __restrict__ keys, const i64* __restrict__ counts, i64 n, int half,
                                       int n_classes, u64* out) {
  CM_DYN_SMEM(u64, held);
  const int cells = HELD ? n_classes * n_classes : 0;
  for (int k = threadIdx.x; k < cells; k += CM_THREADS) held[k] = 0;
  __syncthreads();
  u64* to = HELD ? held : out;
  const i64 mask = (i64(1) << half) - 1;
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS)
    add_wide<HELD>(&to[(keys[k] >> half & mask) * n_classes + (keys[k] & mask)], u64(counts[k]));
  __syncthreads();
  for (int k = threadIdx.x; k < cells; k += CM_THREADS)
    if (held[k]) atomicAdd(&out[k], held[k]);
}

// Heights of the labels and predictions of one large cell: zeros between cells. The lists say which are not zero, so
// that a cell takes time for its own labels and predictions, and not for all classes.
template <typename T>
struct CellHeights {
  T *L, *P;
  int *labels, *predictions;
  int* seen;  // whether a prediction is listed

  __device__ __forceinline__ CellHeights(T* first, int n_classes) : L(first), P(first + n_classes) {
    labels = reinterpret_cast<int*>(first + 2 * n_classes);
    predictions = labels + n_classes;
    seen = predictions + n_classes;
  }
};

// Integers of as many words: heights of weights that one word holds, or two.
template <int WORDS>
struct Height {
  typedef u64 type;
};
template <>
struct Height<2> {
  typedef u128 type;
};

// A block loads CM_THREADS keys and takes the cells that begin among the first CELL_TILE: of these, each small one ends
// among the keys that were loaded.
constexpr int CELL_TILE = CM_THREADS - CM_SMALL_CELL_KEYS;

// Sums of min(L, P) over the labels and predictions of every cell; its heights L by label and P by prediction are sums
// of counts times fixed-point weights q, all of WORDS words, lowest first. Keys are (cell, label, prediction), sorted.
//
// In a cell of up to CM_SMALL_CELL_KEYS keys a thread takes each key; with more keys the block takes the cell, after
// all small ones of the tile. HELD says what is in shared memory: 2, the heights of a large cell and the sums of the
// block; 1, the heights; 0, neither, and heights are in `scratch`, zeros. The heights of a cell take the space of
// `space` numbers.
template <int WORDS, int HELD>
__global__ void cmfast_gcm_sums(const i64* __restrict__ keys, const i64* __restrict__ counts, i64 n, int half,
                                int n_classes, const i64* __restrict__ q, i64 space, u64* scratch, u64* out) {
  typedef typename Height<WORDS>::type T;
  CM_DYN_SMEM(i64, staged);
  T* mass = reinterpret_cast<T*>(staged + CM_THREADS);
  int* large = reinterpret_cast<int*>(mass + CM_THREADS);  // where large cells begin in the tile
  int* number = large + CM_THREADS / CM_SMALL_CELL_KEYS;   // of large cells; of labels and of predictions of one
  T* held = reinterpret_cast<T*>(number + 4);
  T *scratches = reinterpret_cast<T*>(scratch), *sums = reinterpret_cast<T*>(out);
  const T* weights = reinterpret_cast<const T*>(q);
  const CellHeights<T> heights(HELD ? held : scratches + blockIdx.x * space, n_classes);
  T* to = HELD == 2 ? held + space : sums;
  const int cells = HELD == 2 ? n_classes * n_classes : 0, me = threadIdx.x;
  for (i64 k = me; k < (HELD ? space : 0) + cells; k += CM_THREADS) held[k] = 0;
  if (me < 3) number[me] = 0;
  const i64 mask = (i64(1) << half) - 1;
  const auto weigh = [&](i64 key, i64 at) {
    return weights[(key >> half & mask) * n_classes + (key & mask)] * T(counts[at]);
  };
  const auto add = [&](i64 i, i64 j, T x) {
    if (x) add_wide<HELD == 2>(&to[i * n_classes + j], x);
  };
  __syncthreads();
  for (i64 first = i64(blockIdx.x) * CELL_TILE; first < n; first += i64(gridDim.x) * CELL_TILE) {
    const int here = int(min(i64(CM_THREADS), n - first));
    if (me < here) {
      staged[me] = keys[first + me];
      mass[me] = weigh(staged[me], first + me);
    }
    __syncthreads();
    const auto same = [&](int k, i64 cell) { return staged[k] >> 2 * half == cell; };
    if (me < here) {
      // The cell of this thread's key, from `begin` to `end`, as far as it must be known: a thread looks at no more
      // than CM_SMALL_CELL_KEYS keys before its own, so `begin` is where the cell begins if it is small.
      const i64 cell = staged[me] >> 2 * half, own = staged[me] & mask;
      int begin = me, end = me + 1;
      while (begin > 0 && me - begin < CM_SMALL_CELL_KEYS && same(begin - 1, cell)) --begin;
      while (end < here && end - begin <= CM_SMALL_CELL_KEYS && same(end, cell)) ++end;
      // A cell that begins before the tile, or beyond CELL_TILE, belongs to another one.
      const bool before = begin == 0 && first > 0 && keys[first - 1] >> 2 * half == cell;
      if (begin < CELL_TILE && !before && end - begin <= CM_SMALL_CELL_KEYS) {
        bool leads = true;  // of the keys with this prediction the first adds the minima of all
        for (int k = begin; k < me; ++k) leads &= (staged[k] & mask) != own;
        T P = 0;
        for (int k = me; k < end && leads; ++k)
          if ((staged[k] & mask) == own) P += mass[k];
        for (int k = begin; k < end && P;) {  // label by label
          const i64 line = staged[k] >> half;
          T L = 0;
          for (; k < end && staged[k] >> half == line; ++k) L += mass[k];
          add(line & mask, own, L < P ? L : P);
        }
      } else if (begin == me && begin < CELL_TILE && !before) {
        large[atomicAdd(&number[0], 1)] = me;
      }
    }
    __syncthreads();
    const int larger = number[0];
    for (int c = 0; c < larger; ++c) {
      const i64 begin = first + large[c], cell = keys[begin] >> 2 * half;
      for (i64 k = begin + me; k < n && keys[k] >> 2 * half == cell; k += CM_THREADS) {
        const i64 key = keys[k];
        const int i = int(key >> half & mask), j = int(key & mask);
        const T x = weigh(key, k);
        add_wide<(HELD > 0)>(&heights.L[i], x);
        add_wide<(HELD > 0)>(&heights.P[j], x);
        if (k == begin || keys[k - 1] >> half != key >> half) heights.labels[atomicAdd(&number[1], 1)] = i;
        if (!atomicOr(&heights.seen[j], 1)) heights.predictions[atomicAdd(&number[2], 1)] = j;
      }
      __syncthreads();
      const int a = number[1], b = number[2];
      for (int u = me / 32; u < a; u += CM_THREADS / 32)
        for (int s = me % 32; s < b; s += 32) {
          const int i = heights.labels[u], j = heights.predictions[s];
          add(i, j, heights.L[i] < heights.P[j] ? heights.L[i] : heights.P[j]);
        }
      __syncthreads();
      for (int u = me; u < a; u += CM_THREADS) heights.L[heights.labels[u]] = 0;
      for (int s = me; s < b; s += CM_THREADS) {
        const int j = heights.predictions[s];
        heights.P[j] = 0;
        heights.seen[j] = 0;
      }
      if (me < 2) number[1 + me] = 0;
      __syncthreads();
    }
    // All have read it. The next tile's barrier comes before it is used.
    if (larger && me == 0) number[0] = 0;
  }
  __syncthreads();
  for (int k = me; k < cells; k += CM_THREADS)
    if (to[k]) add_wide<false>(&sums[k], to[k]);
}

// Points of every cell, whose keys (cell, label, prediction) begin at first[k]. Added up over cells, from out[1] on:
// points of cells with one key; of cells with one label or one prediction; and, of other cells, pairs of a label and a
// prediction. In a cell of up to CM_SMALL_CELL_KEYS keys a thread finds the distinct predictions, beyond that a block,
// by a bit each in shared memory, `words` of 32 at a time.
__global__ void cmfast_cell_shapes_cells(const i64* __restrict__ keys, const i64* __restrict__ counts, i64 n_keys,
                                         const i64* __restrict__ first, i64 n, int half, int n_classes, int words,
                                         i64* __restrict__ out_points, u64* out) {
  CM_DYN_SMEM(u64, part);                         // of block reductions
  u64* met = part + CM_THREADS / 32;              // points of a large cell
  int* number = reinterpret_cast<int*>(met + 1);  // of large cells; of labels and predictions of one
  int* large = number + 4;                        // large cells of the tile
  int* seen = large + CM_THREADS;                 // bits of predictions
  const int me = threadIdx.x;
  const i64 mask = (i64(1) << half) - 1, window = i64(32) * words;
  u64 pure = 0, unmixed = 0, pairs = 0;
  const auto add = [&](i64 size, u64 points, u64 labels, u64 predictions) {
    if (size == 1) pure += points;
    if (labels > 1 && predictions > 1)
      pairs += labels * predictions;
    else
      unmixed += points;
  };
  const auto begins_label = [&](i64 k, i64 begin) { return k == begin || keys[k - 1] >> half != keys[k] >> half; };
  if (me == 0) *met = number[1] = number[2] = 0;
  for (int k = me; k < words; k += CM_THREADS) seen[k] = 0;
  for (i64 base = i64(blockIdx.x) * CM_THREADS; base < n; base += i64(gridDim.x) * CM_THREADS) {
    if (me == 0) number[0] = 0;
    __syncthreads();
    const auto end_of = [&](i64 cell) { return cell + 1 < n ? first[cell + 1] : n_keys; };
    if (base + me < n) {
      const i64 begin = first[base + me], end = end_of(base + me);
      if (end - begin > CM_SMALL_CELL_KEYS) {
        large[atomicAdd(&number[0], 1)] = me;
      } else {
        u64 points = 0, labels = 0, predictions = 0;
        for (i64 k = begin; k < end; ++k) {
          points += u64(counts[k]);
          labels += begins_label(k, begin);
          bool fresh = true;
          for (i64 l = begin; l < k; ++l) fresh &= ((keys[l] ^ keys[k]) & mask) != 0;
          predictions += fresh;
        }
        out_points[base + me] = i64(points);
        add(end - begin, points, labels, predictions);
      }
    }
    __syncthreads();
    const int larger = number[0];
    for (int u = 0; u < larger; ++u) {
      const i64 cell = base + large[u], begin = first[cell], end = end_of(cell);
      u64 points = 0;
      int labels = 0, predictions = 0;
      for (i64 low = 0; low < n_classes; low += window) {
        for (i64 k = begin + me; k < end; k += CM_THREADS) {
          if (low == 0) {
            points += u64(counts[k]);
            labels += begins_label(k, begin);
          }
          const i64 place = (keys[k] & mask) - low;
          if (place < 0 || place >= window) continue;
          const int bit = int(1u << (place & 31));
          predictions += !(atomicOr(&seen[place >> 5], bit) & bit);
        }
        __syncthreads();
        for (int k = me; k < words; k += CM_THREADS) seen[k] = 0;
        __syncthreads();
      }
      atomicAdd(met, points);
      atomicAdd(&number[1], labels);
      atomicAdd(&number[2], predictions);
      __syncthreads();
      if (me == 0) {
        out_points[cell] = i64(*met);
        add(end - begin, *met, u64(number[1]), u64(number[2]));
        *met = number[1] = number[2] = 0;
      }
      __syncthreads();
    }
    __syncthreads();  // all have read how many cells are large
  }
  pure = team_sum<CM_THREADS>(pure);
  unmixed = team_sum<CM_THREADS>(unmixed);
  pairs = team_sum<CM_THREADS>(pairs);
  if (me == 0) {
    atomicAdd(&out[1], pure);
    atomicAdd(&out[2], unmixed);
    atomicAdd(&out[3], pairs);
  }
}

// Sums of min(L, P) over pairs of entries of two histograms in the same cell, per pair of tags: the entries of cell
// l_cells[k] start at l_first, those of p_cells[k] likewise. W threads per cell.
template <int W, bool HELD>
__global__ void cmfast_gcm_overlaps(const i64* __restrict__ l_cells, const i64* __restrict__ l_first,
                                    const i64* __restrict__ l_tags, const i64* __restrict__ L,
                                    const i64* __restrict__ p_cells, const i64* __restrict__ p_first,
                                    const i64* __restrict__ p_tags, const i64* __restrict__ P, i64 n, int rows,
                                    int columns, u64* out) {
  CM_DYN_SMEM(u64, held);
  const int size = HELD ? rows * columns : 0;
  for (int k = threadIdx.x; k < size; k += CM_THREADS) held[k] = 0;
  __syncthreads();
  u64* to = HELD ? held : out;
  for (Team<W> team(n); team.more(); team.next()) {
    if (!team.mine()) continue;
    const i64 l = l_first[l_cells[team.matrix()]], p = p_first[p_cells[team.matrix()]];
    const int a = int(l_first[l_cells[team.matrix()] + 1] - l), b = int(p_first[p_cells[team.matrix()] + 1] - p);
    int u = team.rank / b, s = team.rank % b;  // advanced by W without division
    while (u < a) {
      add_wide<HELD>(&to[l_tags[l + u] * columns + p_tags[p + s]], u64(min(L[l + u], P[p + s])));
      u += W / b;
      s += W % b;
      if (s >= b) {
        s -= b;
        ++u;
      }
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < size; k += CM_THREADS)
    if (held[k]) atomicAdd(&out[k], held[k]);
}

// Sums of minima for heights in limbs, (limbs, entries) each, lowest limb first; every cell has entries of both.
template <int W>
__global__ void cmfast_gcm_wide(const i64* __restrict__ l_first, const i64* __restrict__ l_tags,
                                const i64* __restrict__ L, i64 l_size, const i64* __restrict__ p_first,
                                const i64* __restrict__ p_tags, const i64* __restrict__ P, i64 p_size, i64 n, int limbs,
                                int n_classes, u64* out) {
  for (Team<W> team(n); team.more(); team.next()) {
    if (!team.mine()) continue;
    const i64 v = team.matrix(), l = l_first[v], p = p_first[v], b = p_first[v + 1] - p;
    for (i64 k = team.rank; k < (l_first[v + 1] - l) * b; k += W) {
      const i64 u = l + k / b, s = p + k % b;
      int top = limbs - 1;
      while (top > 0 && L[top * l_size + u] == P[top * p_size + s]) --top;
      const bool first = L[top * l_size + u] < P[top * p_size + s];
      for (i64 limb = 0; limb < limbs; ++limb)
        atomicAdd(&out[(limb * n_classes + l_tags[u]) * n_classes + p_tags[s]],
                  u64(first ? L[limb * l_size + u] : P[limb * p_size + s]));
    }
  }
}

// Fixed-point weights, whose integer sums have the same bits in any order; the format is that of
// kernels/shared/geometry_weights.py.

// Summary of weight tables W over the pairs with nonzero counts M, one thread per row and per column of a table:
// whether a weight is invalid; bits of the minimum and the maximum, of the smallest positive weight and of the largest
// row or column sum (bits of nonnegative numbers are ordered like them); twice the index of the first weight in use,
// plus one if it is -0.
__global__ void cmfast_gcm_summary(const double* __restrict__ W, const i64* __restrict__ M, i64 n, int n_classes,
                                   i64* out_found) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    const i64 table = k / (2 * n_classes), line = k % (2 * n_classes), cells = i64(n_classes) * n_classes;
    const bool row = line < n_classes;
    const i64 start = row ? line * n_classes : line - n_classes, step = row ? 1 : n_classes;
    i64* found = out_found + table * CM_SUMMARY_NUMBERS;
    const i64 never = CM_DROPPED;
    i64 low = never, high = -1, smallest = never, first = never;
    bool bad = false;
    double sum = 0.0;
    for (int s = 0; s < n_classes; ++s) {
      const i64 at = start + s * step;
      if (M[at] <= 0) continue;
      const double w = W[table * cells + at];
      if (!(w >= 0.0 && w < CM_INF)) {
        bad = true;
        continue;
      }
      // Separately rounded product and sum in index order, as on the CPU: the shift depends on the sum.
      sum = __dadd_rn(sum, __dmul_rn(w, double(M[at])));
      const i64 bits = __double_as_longlong(fabs(w));
      low = min(low, bits);
      high = max(high, bits);
      if (bits) smallest = min(smallest, bits);
      first = min(first, 2 * at + (__double_as_longlong(w) < 0));
    }
    atomicMax(&found[4], i64(__double_as_longlong(sum)));
    if (!row) continue;
    if (bad) atomicMax(&found[0], i64(1));
    atomicMin(&found[1], low);
    atomicMax(&found[2], high);
    atomicMin(&found[3], smallest);
    atomicMin(&found[5], first);
  }
}

// One table in fixed point: rint(w * 2^shift); ones for `equal` weights; with a width, limbs of that many bits, (limbs,
// cells), lowest first.
__global__ void cmfast_gcm_integers(const double* __restrict__ W, const i64* __restrict__ M, i64 n, int equal,
                                    int shift, int width, int limbs, i64* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    const bool used = M[k] > 0;
    const double w = used ? W[k] : 0.0;
    if (!width) {
      out[k] = equal ? used : i64(rint(ldexp(w, shift)));
      continue;
    }
    const Parts parts(w);
    u64 size = parts.size;
    int up = parts.exponent + shift;
    if (up < 0) {  // ties to even
      const int drop = min(-up, 63);
      const u64 rest = size & ((1ull << drop) - 1), half = 1ull << (drop - 1);
      size >>= drop;
      size += rest > half || (rest == half && (size & 1));
      up = 0;
    }
    for (int limb = 0; limb < limbs; ++limb) {
      const int down = limb * width - up;
      const u64 digit = down >= 64 || down <= -64 ? 0 : down >= 0 ? size >> down : size << -down;
      out[limb * n + k] = i64(digit & (width < 64 ? (1ull << width) - 1 : ~0ull));
    }
  }
}

// Integer sums as float64, `cells` of them for each of `tables` tables, repeatedly.
__global__ void cmfast_gcm_round(const i64* __restrict__ sums, i64 n, i64 cells, i64 tables,
                                 const int* __restrict__ shift, const double* __restrict__ scale,
                                 double* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    const i64 table = k / cells % tables;
    const double x = ldexp(double(sums[k]), -shift[table]) * scale[table];
    out[k] = x == x ? x : CM_NAN;
  }
}

// Sums in normalised limbs (limbs, n) as float64, rounded once, also for denormals.
__global__ void cmfast_gcm_round_limbs(const i64* __restrict__ sums, i64 n, int limbs, int width, int shift,
                                       double* __restrict__ out) {
  for (i64 k = i64(blockIdx.x) * CM_THREADS + threadIdx.x; k < n; k += i64(gridDim.x) * CM_THREADS) {
    int limb = limbs - 1;
    while (limb > 0 && !sums[limb * n + k]) --limb;
    u64 head = u64(sums[limb * n + k]);
    int exponent = limb * width - shift;
    while (--limb >= 0 && head && !(head >> (64 - width))) {
      head = head << width | u64(sums[limb * n + k]);
      exponent -= width;
    }
    int room = __clzll(i64(head | 1));
    bool rest = false;
    if (limb >= 0) {  // fill all 64 bits from the next limb
      const u64 digit = u64(sums[limb * n + k]);
      head = head << room | digit >> (width - room);
      rest = (digit & ((1ull << (width - room)) - 1)) != 0;
      exponent -= room;
      room = 0;
      while (--limb >= 0) rest |= sums[limb * n + k] != 0;
    }
    // Bits beyond the precision of this magnitude: 53, or fewer for denormals.
    const int drop = max(11 - room, -1074 - exponent);
    if (drop > 0) {
      const u64 half = 1ull << (min(drop, 64) - 1), low = drop < 64 ? head & (2 * half - 1) : head;
      u64 kept = drop < 64 ? head >> drop : 0;
      kept += drop <= 64 && (low > half || (low == half && (rest || (kept & 1))));
      head = kept;
      exponent += drop;
    }
    out[k] = ldexp(double(head), exponent);
  }
}

// Pairs of entries of two histograms in the same cell, consecutively from offset[k] on: pair of tags and smaller
// height.
__global__ void cmfast_min_overlap_pairs(const i64* __restrict__ a_cells, const i64* __restrict__ a_first,
                                         const i64* __restrict__ a_groups, const double* __restrict__ A,
                                         const i64* __restrict__ b_cells, const i64* __restrict__ b_first,
                                         const i64* __restrict__ b_groups, const double* __restrict__ B,
                                         const i64* __restrict__ offset, i64 n, i64 columns, i64* __restrict__ out_pair,
                                         double* __restrict__ out) {
  for (Team<32> team(n); team.more(); team.next()) {
    if (!team.mine()) continue;
    const i64 l = a_first[a_cells[team.matrix()]], p = b_first[b_cells[team.matrix()]];
    const i64 b = b_first[b_cells[team.matrix()] + 1] - p, pairs = (a_first[a_cells[team.matrix()] + 1] - l) * b;
    for (i64 k = team.rank; k < pairs; k += 32) {
      const i64 u = l + k / b, s = p + k % b, to = offset[team.matrix()] + k;
      out_pair[to] = a_groups[u] * columns + b_groups[s];
      out[to] = fmin(A[u], B[s]);
    }
  }
}
