// Confusion matrices from labels. Every sum is one of integers, that of weights too, so that no order matters.

// What the arrays of samples say of sample k of one row: its cell in the tables (groups, classes, classes).
template <typename L>
struct Samples {
  const L* y_true;
  const L* y_pred;
  const i64* groups;
  u64 low, n_classes;

  __device__ __forceinline__ static u64 wide(L x) { return u64(i64(x)); }

  // Unsigned: one comparison for both ends.
  __device__ __forceinline__ bool find(i64 t, i64 p, i64 g, u64* group, u64* cell) const {
    const u64 i = wide(y_true[t]) - low, j = wide(y_pred[p]) - low;
    *group = groups ? groups[g] : 0;
    *cell = (*group * n_classes + i) * n_classes + j;
    return i < n_classes && j < n_classes;
  }
};

// The samples of one block: `together` whole rows, or one of `parts` parts of one row.
struct Job {
  i64 row, start, length;  // the first row, and what is read of each
  int height;              // how many rows

  __device__ __forceinline__ Job(i64 job, i64 rows, i64 n, int together, i64 parts) {
    const i64 part = (n + parts - 1) / parts;
    row = job / parts * together;
    start = job % parts * part;
    length = min(part, n - start);
    height = int(min(i64(together), rows - row));
  }
  __device__ __forceinline__ i64 samples() const { return length > 0 ? height * length : 0; }
};

__device__ __forceinline__ i64 jobs(i64 rows, int together, i64 parts) {
  return (rows + together - 1) / together * parts;
}

// With HELD a block counts in shared memory first, in `copies` tables of its own: lanes of a warp that count the same
// cell at once wait for each other, so neighbours count in different ones.
template <typename L, int HELD>
__global__ void cmfast_confusion_matrix_count(const L* __restrict__ y_true, i64 t_step, const L* __restrict__ y_pred,
                                              i64 p_step, const i64* __restrict__ groups, i64 g_step, i64 n, i64 rows,
                                              int together, i64 parts, u64 low, u64 n_classes, u64 n_groups, int copies,
                                              u64* out, u64* out_outside) {
  CM_DYN_SMEM(unsigned, held);
  const Samples<L> samples{y_true, y_pred, groups, low, n_classes};
  const u64 cells = n_groups * n_classes * n_classes;
  i64 outside = 0;
  for (i64 index = blockIdx.x; index < jobs(rows, together, parts); index += gridDim.x) {
    const Job job(index, rows, n, together, parts);
    const u64 size = job.height * cells;
    if (HELD) {
      for (u64 k = threadIdx.x; k < size * copies; k += CM_THREADS) held[k] = 0;
      __syncthreads();
    }
    for (i64 k = threadIdx.x; k < job.samples(); k += CM_THREADS) {
      const i64 above = together > 1 ? k / job.length : 0;
      const i64 row = job.row + above, at = job.start + k - above * job.length;
      u64 group, cell;
      if (!samples.find(row * t_step + at, row * p_step + at, row * g_step + at, &group, &cell))
        ++outside;
      else if (HELD)
        atomicAdd(&held[threadIdx.x % copies * size + above * cells + cell], 1u);
      else
        atomicAdd(&out[row * cells + cell], u64(1));
    }
    if (HELD) {
      __syncthreads();
      for (u64 k = threadIdx.x; k < size; k += CM_THREADS) {
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

// Weights are added as integers of any length: digits of CM_DIGIT_BITS bits in words of 64, which leaves room for 2^35
// samples.
constexpr u64 DIGIT_MASK = (1u << CM_DIGIT_BITS) - 1u;

// In shared memory the words have 32 bits, because it adds no longer ones by itself; what leaves one goes into the
// next. The highest wraps around, as a number with a sign: all samples of a block fill half of the 63 bits above any
// weight.
__device__ __forceinline__ void add_held(unsigned* word, int words, unsigned size, bool negative) {
  while (size && words--) {
    const unsigned old = atomicAdd(word++, negative ? 0u - size : size);
    size = (negative ? old < size : old + size < size) ? 1u << (32 - CM_DIGIT_BITS) : 0;
  }
}

// The exponents that occur: out_found is the smallest, the largest, and how many samples lie outside. out_flags marks
// tables that a weight which is no number falls into.
template <typename L, typename V>
__global__ void cmfast_confusion_matrix_exponents(const L* __restrict__ y_true, i64 t_step,
                                                  const L* __restrict__ y_pred, i64 p_step,
                                                  const i64* __restrict__ groups, i64 g_step,
                                                  const V* __restrict__ weight, i64 w_step, i64 n, i64 rows,
                                                  int together, i64 parts, u64 low, u64 n_classes, u64 n_groups,
                                                  i64* out_found, int* out_flags) {
  const Samples<L> samples{y_true, y_pred, groups, low, n_classes};
  i64 outside = 0;
  int lowest = 4096, highest = -4096;
  for (i64 index = blockIdx.x; index < jobs(rows, together, parts); index += gridDim.x) {
    const Job job(index, rows, n, together, parts);
    for (i64 k = threadIdx.x; k < job.samples(); k += CM_THREADS) {
      const i64 above = together > 1 ? k / job.length : 0;
      const i64 row = job.row + above, at = job.start + k - above * job.length;
      u64 group, cell;
      if (!samples.find(row * t_step + at, row * p_step + at, row * g_step + at, &group, &cell)) {
        ++outside;
        continue;
      }
      const Parts parts_of(widen(weight[row * w_step + at]));
      if (!parts_of.finite) {
        atomicOr(&out_flags[row * n_groups + group], 1);
      } else if (parts_of.size) {
        lowest = min(lowest, parts_of.exponent);
        highest = max(highest, parts_of.exponent);
      }
    }
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

// out_digits is (rows, groups, classes, classes, digits), in units of 2^base. With HELD a block adds up in shared
// memory first, as it counts there; its tables are `stride` words apart.
template <typename L, typename V, int HELD>
__global__ void cmfast_confusion_matrix_add(const L* __restrict__ y_true, i64 t_step, const L* __restrict__ y_pred,
                                            i64 p_step, const i64* __restrict__ groups, i64 g_step,
                                            const V* __restrict__ weight, i64 w_step, i64 n, i64 rows, int together,
                                            i64 parts, u64 low, u64 n_classes, u64 n_groups, int base, int digits,
                                            int copies, int stride, u64* out_digits) {
  CM_DYN_SMEM(unsigned, held);
  const Samples<L> samples{y_true, y_pred, groups, low, n_classes};
  const u64 cells = n_groups * n_classes * n_classes;
  for (i64 index = blockIdx.x; index < jobs(rows, together, parts); index += gridDim.x) {
    const Job job(index, rows, n, together, parts);
    if (HELD) {
      for (int k = threadIdx.x; k < stride * copies; k += CM_THREADS) held[k] = 0;
      __syncthreads();
    }
    for (i64 k = threadIdx.x; k < job.samples(); k += CM_THREADS) {
      const i64 above = together > 1 ? k / job.length : 0;
      const i64 row = job.row + above, at = job.start + k - above * job.length;
      u64 group, cell;
      if (!samples.find(row * t_step + at, row * p_step + at, row * g_step + at, &group, &cell)) continue;
      const Parts x(widen(weight[row * w_step + at]));
      if (!x.finite || !x.size) continue;
      const int shift = x.exponent - base, up = shift % CM_DIGIT_BITS, first = shift / CM_DIGIT_BITS;
      const u64 pieces[3] = {x.size << up & DIGIT_MASK, x.size >> (CM_DIGIT_BITS - up) & DIGIT_MASK,
                             x.size >> (2 * CM_DIGIT_BITS - up)};
      if (HELD) {
        unsigned* word = held + threadIdx.x % copies * stride + (above * cells + cell) * digits + first;
#pragma unroll
        for (int piece = 0; piece < 3; ++piece)
          add_held(word + piece, digits - first - piece, unsigned(pieces[piece]), x.negative);
      } else {
        u64* out = out_digits + (row * cells + cell) * digits + first;
#pragma unroll
        for (int piece = 0; piece < 3; ++piece)
          if (pieces[piece]) atomicAdd(&out[piece], x.negative ? u64(0) - pieces[piece] : pieces[piece]);
      }
    }
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

// The number that the digits are, rounded once; they are normalised on the way.
__device__ __forceinline__ double rounded(i64* digit, int digits, int base) {
  i64 carry = 0;
  for (int k = 0; k < digits; ++k) {
    const i64 x = digit[k] + carry;
    digit[k] = x & i64(DIGIT_MASK);
    carry = x >> CM_DIGIT_BITS;
  }
  const bool negative = carry < 0;
  if (negative) {
    carry = 1;
    for (int k = 0; k < digits; ++k) {
      const i64 x = i64(DIGIT_MASK) - digit[k] + carry;
      digit[k] = x & i64(DIGIT_MASK);
      carry = x >> CM_DIGIT_BITS;
    }
  }
  int k = digits - 1;
  while (k > 0 && !digit[k]) --k;
  u64 head = u64(digit[k]);
  int exponent = base + CM_DIGIT_BITS * k;
  for (--k; k >= 0 && head >> (64 - CM_DIGIT_BITS) == 0; --k) {
    head = head << CM_DIGIT_BITS | u64(digit[k]);
    exponent -= CM_DIGIT_BITS;
  }
  if (k >= 0) {  // fill all 64 bits, the last of which stands for whatever is below it
    const int room = __clzll(i64(head));
    head = head << room | u64(digit[k]) >> (CM_DIGIT_BITS - room);
    exponent -= room;
    bool rest = (u64(digit[k]) << room & DIGIT_MASK) != 0;
    for (--k; k >= 0; --k) rest |= digit[k] != 0;
    head |= rest;
  }
  const double size = ldexp(double(head), exponent);
  return negative ? -size : size;
}

template <typename O>
__global__ void cmfast_confusion_matrix_round(i64* digit, int digits, int base, const int* __restrict__ flags,
                                              i64 cells, i64 n, O* __restrict__ out,
                                              signed char* __restrict__ out_status) {
  for (Team<32> team(n); team.more(); team.next()) {
    O* q = out + team.matrix() * cells;
    bool bad = flags[team.matrix()], wild = false;
    if (team.mine())
      for (i64 k = team.rank; k < cells; k += 32) {
        const double x = rounded(digit + (team.matrix() * cells + k) * digits, digits, base);
        q[k] = narrow<O>(x);
        bad |= !(fabs(x) < CM_INF);
        wild |= !(fabs(widen(q[k])) < CM_INF);
      }
    bad = team_any<32>(bad);
    wild = team_any<32>(wild);
    if (!team.mine()) continue;
    if (bad || wild)
      for (i64 k = team.rank; k < cells; k += 32) q[k] = narrow<O>(CM_NAN);
    if (team.rank == 0) out_status[team.matrix()] = bad ? CM_INVALID : wild ? CM_RANGE : CM_CONVERGED;
  }
}
