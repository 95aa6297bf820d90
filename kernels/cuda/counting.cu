// Count confusion matrices from labels. All sums, of weights too, are integer sums, so that the order does not matter.

// Sample arrays, each with its row stride.
template <typename L>
struct Samples {
  const L* y_true;
  i64 t_step;
  const L* y_pred;
  i64 p_step;
  const i64* groups;
  i64 g_step;
  unsigned n_classes;
  int ignores;
  u64 ignored;

  // Whether samples with this truth are ignored.
  __device__ __forceinline__ bool ignore(L t) const { return ignores && u64(i64(t)) == ignored; }
};

// A label viewed as unsigned: negative labels become out of range, so that one comparison checks both ends.
__device__ __forceinline__ unsigned unsign(unsigned char x) { return x; }
__device__ __forceinline__ unsigned unsign(int x) { return unsigned(x); }
__device__ __forceinline__ u64 unsign(i64 x) { return u64(x); }

template <typename L>
__device__ __forceinline__ bool known(L t, L p, unsigned n_classes) {
  return unsign(t) < n_classes && unsign(p) < n_classes;
}

// Samples of one block: `together` whole rows, or one of `parts` parts of one row.
struct Job {
  i64 row, start, length;  // first row; range of samples in each row
  int height;              // number of rows

  __device__ __forceinline__ Job(i64 job, i64 rows, i64 n, int together, i64 parts) {
    // Parts except the last are whole rounds, and start 16-byte aligned if the row does.
    const i64 part = parts > 1 ? ((n + parts - 1) / parts + CM_ROUND - 1) / CM_ROUND * CM_ROUND : n;
    row = job / parts * together;
    start = job % parts * part;
    length = min(part, n - start);
    height = int(min(i64(together), rows - row));
  }
  __device__ __forceinline__ i64 samples() const { return length > 0 ? height * length : 0; }
  // Row of sample k relative to the first; a block with several rows has few samples.
  __device__ __forceinline__ unsigned above(i64 k) const { return height > 1 ? unsigned(k) / unsigned(length) : 0; }
};

__device__ __forceinline__ i64 jobs(i64 rows, int together, i64 parts) {
  return (rows + together - 1) / together * parts;
}

// Samples that a thread loads before it counts the first, so that many loads are in flight.
template <typename L>
constexpr int AHEAD = sizeof(L) == 1 ? 16 : 8;
static_assert(CM_ROUND == CM_THREADS * AHEAD<unsigned char>);

struct Nothing {};

// Calls `use(above, group, t, p, load(row, at))` for every sample of this thread, LOADED of them loaded at a time.
template <int LOADED, typename L, typename Load, typename Use>
__device__ __forceinline__ void over_samples(const Samples<L>& samples, const Job& job, Load load, Use use) {
  const i64 last = job.samples() - 1;
  for (i64 first = threadIdx.x; first <= last; first += LOADED * CM_THREADS) {
    L t[LOADED], p[LOADED];
    i64 group[LOADED];
    unsigned above[LOADED];
    decltype(load(i64(0), i64(0))) more[LOADED];
#pragma unroll
    for (int u = 0; u < LOADED; ++u) {
      const i64 k = min(first + u * CM_THREADS, last);  // repeats the last sample beyond the end, unused
      above[u] = job.above(k);
      const i64 row = job.row + above[u], at = job.start + k - above[u] * job.length;
      t[u] = samples.y_true[row * samples.t_step + at];
      p[u] = samples.y_pred[row * samples.p_step + at];
      group[u] = samples.groups ? samples.groups[row * samples.g_step + at] : 0;
      more[u] = load(row, at);
    }
#pragma unroll
    for (int u = 0; u < LOADED; ++u)
      if (first + u * CM_THREADS <= last) use(above[u], group[u], t[u], p[u], more[u]);
  }
}

// With HELD a block counts in shared memory first, in `copies` tables: lanes that count the same cell conflict, so
// neighbouring lanes use different copies.
template <typename L, int HELD>
__global__ void cmfast_confusion_matrix_count(const L* __restrict__ y_true, i64 t_step, const L* __restrict__ y_pred,
                                              i64 p_step, const i64* __restrict__ groups, i64 g_step, i64 n, i64 rows,
                                              int together, i64 parts, unsigned n_classes, u64 n_groups, int ignores,
                                              u64 ignored, int copies, u64* out, u64* out_outside) {
  CM_DYN_SMEM(unsigned, held);
  const Samples<L> samples{y_true, t_step, y_pred, p_step, groups, g_step, n_classes, ignores, ignored};
  const u64 cells = n_groups * n_classes * n_classes;
  i64 outside = 0;
  for (i64 index = blockIdx.x; index < jobs(rows, together, parts); index += gridDim.x) {
    const Job job(index, rows, n, together, parts);
    const unsigned size = HELD ? unsigned(job.height * cells) : 0;
    if constexpr (HELD) {
      for (unsigned k = threadIdx.x; k < size * copies; k += CM_THREADS) held[k] = 0;
      __syncthreads();
    }
    unsigned* own = held + threadIdx.x % copies * size;
    over_samples<(sizeof(L) == 8 ? 4 : 8)>(
        samples, job, [](i64, i64) { return Nothing(); },
        [&](unsigned above, i64 group, L t, L p, Nothing) {
          if (samples.ignore(t)) return;
          if (!known(t, p, n_classes))
            ++outside;
          else if (HELD)
            atomicAdd(
                &own[above * unsigned(cells) + (unsigned(group) * n_classes + unsigned(t)) * n_classes + unsigned(p)],
                1u);
          else
            atomicAdd(&out[(job.row + above) * cells + (u64(group) * n_classes + u64(t)) * n_classes + u64(p)], u64(1));
        });
    if constexpr (HELD) {
      __syncthreads();
      for (unsigned k = threadIdx.x; k < size; k += CM_THREADS) {
        u64 total = 0;
        for (int copy = 0; copy < copies; ++copy) total += held[copy * size + k];
        if (total) atomicAdd(&out[job.row * cells + k], total);
      }
      __syncthreads();
    }
  }
  outside = team_sum<CM_THREADS>(outside);
  if (threadIdx.x == 0 && outside) atomicAdd(out_outside, u64(outside));
}

// Count small tables of long rows without atomics: every thread has byte counters, four cells per word, the words of a
// lane in one bank of shared memory, so that lanes never conflict. Before a byte can overflow, the warp adds its bytes
// to the block's table. The last cell counts labels out of range.
struct Bytes {
  unsigned *words, *totals;  // counters of this warp; table of the block
  int lane, groups, cells;   // groups of four cells

  __device__ __forceinline__ Bytes(unsigned* held, int cells)
      : totals(held), lane(threadIdx.x % 32), groups((cells + 3) / 4), cells(cells) {
    words = held + 4 * groups + threadIdx.x / 32 * 32 * groups;
  }
  __device__ __forceinline__ void clear() const {
#pragma unroll 1
    for (int k = threadIdx.x; k < cells; k += CM_THREADS) totals[k] = 0;
#pragma unroll 1
    for (int group = 0; group < groups; ++group) words[32 * group + lane] = 0;
    __syncthreads();
  }
  __device__ __forceinline__ void count(unsigned cell) const {
    ++reinterpret_cast<unsigned char*>(words)[cell / 4 * 128 + 4 * lane + cell % 4];
  }
  // Each lane sums its own groups over all lanes, starting at a different lane than its neighbours.
  __device__ __forceinline__ void flush() const {
    __syncwarp();
    for (int group = lane; group < groups; group += 32) {
      unsigned even = 0, odd = 0;
#pragma unroll 8
      for (int turn = 0; turn < 32; ++turn) {
        unsigned* word = &words[32 * group + (turn + lane) % 32];
        even += *word & 0x00ff00ffu;
        odd += *word >> 8 & 0x00ff00ffu;
        *word = 0;
      }
      const unsigned sums[4] = {even & 0xffffu, odd & 0xffffu, even >> 16, odd >> 16};
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (sums[k]) atomicAdd(&totals[4 * group + k], sums[k]);
    }
    __syncwarp();
  }
};

struct alignas(16) Sixteen {
  unsigned word[4];
};

// Count a full round of one-byte labels, 16-byte aligned: each thread has sixteen adjacent pairs. Up to 16 classes four
// cells fit into a word without carries, and so do four tests: below 128 a label reaches n_classes if adding the rest
// of 128 sets its highest bit. Count them one by one, with `one`, if one is out of range.
template <typename One>
__device__ __forceinline__ void count_words(const Bytes& bytes, const unsigned char* y_true,
                                            const unsigned char* y_pred, unsigned n_classes, One one) {
  const Sixteen t = reinterpret_cast<const Sixteen*>(y_true)[threadIdx.x];
  const Sixteen p = reinterpret_cast<const Sixteen*>(y_pred)[threadIdx.x];
  const unsigned rest = (128 - n_classes) * 0x01010101u;
  unsigned beyond = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    beyond |= t.word[k] | (t.word[k] + rest);
    beyond |= p.word[k] | (p.word[k] + rest);
  }
  if (beyond & 0x80808080u) {
#pragma unroll 1
    for (int u = 0; u < 16; ++u) one(y_true[16 * threadIdx.x + u], y_pred[16 * threadIdx.x + u]);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const unsigned four = t.word[k] * n_classes + p.word[k];
#pragma unroll
    for (int u = 0; u < 4; ++u) bytes.count(four >> 8 * u & 0xffu);
  }
}

template <bool WIDE, typename L>
__device__ __forceinline__ void count_bytes(const Bytes& bytes, const L* y_true, const L* y_pred, i64 length,
                                            unsigned n_classes) {
  constexpr int round = AHEAD<L> * CM_THREADS;
  const auto count = [&](L t, L p) {
    bytes.count(known(t, p, n_classes) ? unsigned(t) * n_classes + unsigned(p) : n_classes * n_classes);
  };
  int rounds = 0;
  for (i64 first = 0; first < length; first += round) {
    if (length - first >= round) {
      if constexpr (WIDE) {
        count_words(bytes, y_true + first, y_pred + first, n_classes, count);
      } else {
        L t[AHEAD<L>], p[AHEAD<L>];
#pragma unroll
        for (int u = 0; u < AHEAD<L>; ++u) {
          t[u] = y_true[first + u * CM_THREADS + threadIdx.x];
          p[u] = y_pred[first + u * CM_THREADS + threadIdx.x];
        }
#pragma unroll
        for (int u = 0; u < AHEAD<L>; ++u) count(t[u], p[u]);
      }
    } else {
#pragma unroll 1
      for (i64 k = first + threadIdx.x; k < length; k += CM_THREADS) count(y_true[k], y_pred[k]);
    }
    if (++rounds == 255 / AHEAD<L> || first + round >= length) {
      bytes.flush();
      rounds = 0;
    }
  }
}

template <typename L>
__global__ void cmfast_confusion_matrix_count_bytes(const L* __restrict__ y_true, i64 t_step,
                                                    const L* __restrict__ y_pred, i64 p_step, i64 n, i64 rows,
                                                    i64 parts, unsigned n_classes, u64* out, u64* out_outside) {
  CM_DYN_SMEM(unsigned, held);
  const unsigned cells = n_classes * n_classes;
  const Bytes bytes(held, int(cells) + 1);
  for (i64 index = blockIdx.x; index < rows * parts; index += gridDim.x) {
    const Job job(index, rows, n, 1, parts);
    const L* t = y_true + job.row * t_step + job.start;
    const L* p = y_pred + job.row * p_step + job.start;
    bytes.clear();
    if (sizeof(L) == 1 && ((reinterpret_cast<u64>(t) | reinterpret_cast<u64>(p)) & 15) == 0)
      count_bytes<sizeof(L) == 1>(bytes, t, p, job.length, n_classes);
    else
      count_bytes<false>(bytes, t, p, job.length, n_classes);
    __syncthreads();
    for (unsigned k = threadIdx.x; k <= cells; k += CM_THREADS)
      if (bytes.totals[k]) atomicAdd(k < cells ? &out[job.row * cells + k] : out_outside, u64(bytes.totals[k]));
    __syncthreads();
  }
}

// Weights are added as big integers: digits of CM_SUM_DIGIT_BITS bits in 64-bit words, which allows 2^35 samples.
constexpr u64 DIGIT_MASK = (1u << CM_SUM_DIGIT_BITS) - 1u;
constexpr int WEIGHTS_AHEAD = 4;

// In shared memory words have 32 bits, the widest native atomic addition; carries go to the next word. The highest word
// wraps around as a signed number: the samples of a block use half of the 63 bits above any weight.
__device__ __forceinline__ void add_held(unsigned* word, int words, unsigned size, bool negative) {
  while (size && words--) {
    const unsigned old = atomicAdd(word++, negative ? 0u - size : size);
    size = (negative ? old < size : old + size < size) ? 1u << (32 - CM_SUM_DIGIT_BITS) : 0;
  }
}

// Exponent range of the weights: out_found is the smallest, the largest, and the number of samples out of range.
// out_flags marks tables that an invalid weight falls into.
template <typename L, typename V>
__global__ void cmfast_confusion_matrix_exponents(const L* __restrict__ y_true, i64 t_step,
                                                  const L* __restrict__ y_pred, i64 p_step,
                                                  const i64* __restrict__ groups, i64 g_step,
                                                  const V* __restrict__ weight, i64 w_step, i64 n, i64 rows,
                                                  int together, i64 parts, unsigned n_classes, u64 n_groups,
                                                  int ignores, u64 ignored, i64* out_found, int* out_flags) {
  const Samples<L> samples{y_true, t_step, y_pred, p_step, groups, g_step, n_classes, ignores, ignored};
  i64 outside = 0;
  int lowest = 4096, highest = -4096;
  for (i64 index = blockIdx.x; index < jobs(rows, together, parts); index += gridDim.x) {
    const Job job(index, rows, n, together, parts);
    over_samples<WEIGHTS_AHEAD>(
        samples, job, [=](i64 row, i64 at) { return weight[row * w_step + at]; },
        [&](unsigned above, i64 group, L t, L p, V x) {
          if (samples.ignore(t)) return;
          if (!known(t, p, n_classes)) {
            ++outside;
            return;
          }
          const Parts parts_of(widen(x));
          if (!parts_of.finite) {
            atomicOr(&out_flags[(job.row + above) * n_groups + group], 1);
          } else if (parts_of.size) {
            lowest = min(lowest, parts_of.exponent);
            highest = max(highest, parts_of.exponent);
          }
        });
  }
  outside = team_sum<CM_THREADS>(outside);
  lowest = team_reduce<CM_THREADS>(lowest, [](int a, int b) { return min(a, b); });
  highest = team_reduce<CM_THREADS>(highest, [](int a, int b) { return max(a, b); });
  if (threadIdx.x == 0) {
    atomicMin(&out_found[0], i64(lowest));
    atomicMax(&out_found[1], i64(highest));
    if (outside) atomicAdd(reinterpret_cast<u64*>(&out_found[2]), u64(outside));
  }
}

// out_digits is (rows, groups, classes, classes, digits), in units of 2^base. With HELD a block sums in shared memory
// first; its tables are `stride` words apart.
template <typename L, typename V, int HELD>
__global__ void cmfast_confusion_matrix_add(const L* __restrict__ y_true, i64 t_step, const L* __restrict__ y_pred,
                                            i64 p_step, const i64* __restrict__ groups, i64 g_step,
                                            const V* __restrict__ weight, i64 w_step, i64 n, i64 rows, int together,
                                            i64 parts, unsigned n_classes, u64 n_groups, int ignores, u64 ignored,
                                            int base, int digits, int copies, int stride, u64* out_digits) {
  CM_DYN_SMEM(unsigned, held);
  const Samples<L> samples{y_true, t_step, y_pred, p_step, groups, g_step, n_classes, ignores, ignored};
  const u64 cells = n_groups * n_classes * n_classes;
  for (i64 index = blockIdx.x; index < jobs(rows, together, parts); index += gridDim.x) {
    const Job job(index, rows, n, together, parts);
    if (HELD) {
      for (int k = threadIdx.x; k < stride * copies; k += CM_THREADS) held[k] = 0;
      __syncthreads();
    }
    unsigned* own = held + threadIdx.x % copies * stride;
    over_samples<WEIGHTS_AHEAD>(
        samples, job, [=](i64 row, i64 at) { return weight[row * w_step + at]; },
        [&](unsigned above, i64 group, L t, L p, V value) {
          const Parts x(widen(value));
          if (samples.ignore(t) || !known(t, p, n_classes) || !x.finite || !x.size) return;
          const u64 cell = (u64(group) * n_classes + u64(t)) * n_classes + u64(p);
          const int shift = x.exponent - base, up = shift % CM_SUM_DIGIT_BITS, first = shift / CM_SUM_DIGIT_BITS;
          const u64 pieces[3] = {x.size << up & DIGIT_MASK, x.size >> (CM_SUM_DIGIT_BITS - up) & DIGIT_MASK,
                                 x.size >> (2 * CM_SUM_DIGIT_BITS - up)};
          if (HELD) {
            unsigned* word = own + (above * unsigned(cells) + unsigned(cell)) * digits + first;
#pragma unroll
            for (int piece = 0; piece < 3; ++piece)
              add_held(word + piece, digits - first - piece, unsigned(pieces[piece]), x.negative);
          } else {
            u64* out = out_digits + ((job.row + above) * cells + cell) * digits + first;
#pragma unroll
            for (int piece = 0; piece < 3; ++piece)
              if (pieces[piece]) atomicAdd(&out[piece], x.negative ? u64(0) - pieces[piece] : pieces[piece]);
          }
        });
    if (HELD) {
      __syncthreads();
      for (u64 k = threadIdx.x; k < job.height * cells * digits; k += CM_THREADS) {
        const bool highest = (k + 1) % digits == 0;
        u64 total = 0;
        for (int copy = 0; copy < copies; ++copy) {
          const unsigned word = held[copy * stride + k];
          total += highest ? u64(i64(int(word))) : u64(word);
        }
        if (total) atomicAdd(&out_digits[job.row * cells * digits + k], total);
      }
      __syncthreads();
    }
  }
}

// The float64 value of digits, rounded once; digits are normalised in place.
__device__ __forceinline__ double rounded(i64* digit, int digits, int base) {
  i64 carry = 0;
  for (int k = 0; k < digits; ++k) {
    const i64 x = digit[k] + carry;
    digit[k] = x & i64(DIGIT_MASK);
    carry = x >> CM_SUM_DIGIT_BITS;
  }
  const bool negative = carry < 0;
  if (negative) {
    carry = 1;
    for (int k = 0; k < digits; ++k) {
      const i64 x = i64(DIGIT_MASK) - digit[k] + carry;
      digit[k] = x & i64(DIGIT_MASK);
      carry = x >> CM_SUM_DIGIT_BITS;
    }
  }
  int k = digits - 1;
  while (k > 0 && !digit[k]) --k;
  u64 head = u64(digit[k]);
  int exponent = base + CM_SUM_DIGIT_BITS * k;
  for (--k; k >= 0 && head >> (64 - CM_SUM_DIGIT_BITS) == 0; --k) {
    head = head << CM_SUM_DIGIT_BITS | u64(digit[k]);
    exponent -= CM_SUM_DIGIT_BITS;
  }
  if (k >= 0) {  // fill all 64 bits; the last one is sticky
    const int room = __clzll(i64(head));
    head = head << room | u64(digit[k]) >> (CM_SUM_DIGIT_BITS - room);
    exponent -= room;
    bool rest = (u64(digit[k]) << room & DIGIT_MASK) != 0;
    for (--k; k >= 0; --k) rest |= digit[k] != 0;
    head |= rest;
  }
  const double size = ldexp(double(head), exponent);
  return negative ? -size : size;
}

__global__ void cmfast_confusion_matrix_round(i64* digit, int digits, int base, const int* __restrict__ flags,
                                              i64 cells, i64 n, double* __restrict__ out,
                                              signed char* __restrict__ out_status) {
  for (Team<32> team(n); team.more(); team.next()) {
    double* q = out + team.matrix() * cells;
    bool bad = flags[team.matrix()];
    if (team.mine())
      for (i64 k = team.rank; k < cells; k += 32) {
        const double x = rounded(digit + (team.matrix() * cells + k) * digits, digits, base);
        q[k] = x;
        bad |= !(fabs(x) < CM_INF);
      }
    bad = team_any<32>(bad);
    if (!team.mine()) continue;
    if (bad)
      for (i64 k = team.rank; k < cells; k += 32) q[k] = CM_NAN;
    if (team.rank == 0) out_status[team.matrix()] = bad ? CM_INVALID : CM_CONVERGED;
  }
}
