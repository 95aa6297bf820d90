// Groups of thread blocks that share a large matrix. Each block runs all steps with row and column vectors of its own;
// the cells are shared, and each block handles a part of every pass over them. Results do not depend on the number of
// blocks: a group consists of the blocks that arrive before its first one has waited long enough, so no block ever
// waits for one that is not running.

#ifndef CM_HOST
// Writes before the addition are visible to blocks that read the sum, and to their threads after a barrier. Addresses
// are converted to the global space, so that the hardware need not find out whether they are in shared memory.
__device__ __forceinline__ u64 add_and_load(u64* where, u64 value) {
  u64 old;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(old)
               : "l"(__cvta_generic_to_global(where)), "l"(value)
               : "memory");
  return old;
}
__device__ __forceinline__ u64 load_acquire(const u64* where) {
  u64 value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(where)) : "memory");
  return value;
}
__device__ __forceinline__ void back_off() { __nanosleep(100); }
#endif

constexpr u64 CLOSED = 1ull << 32;   // flag: no block can join any more
constexpr int GROUP_PATIENCE = 200;  // pauses until the group is closed

// State of a block within its group: in shared memory, since registers are short. A single block's state is known at
// compile time.
struct BlockGroup {
  u64* flags;        // of each group: blocks that joined, final size, barriers reached
  double* exchange;  // of each group: two exchange buffers of `exchange_size` values
  i64 exchange_size;
  int groups, size, rank;
  unsigned barriers;

  // State of a block that may share its matrix: stored after the buffers of reductions and of partial sums.
  __device__ __forceinline__ static BlockGroup& of_block() {
    CM_DYN_SMEM(double, shared);
    return *reinterpret_cast<BlockGroup*>(shared + CM_THREADS / 32 + CM_THREADS);
  }

  __device__ __forceinline__ i64 number() const { return blockIdx.x % groups; }
  __device__ __forceinline__ u64* get_flag(int field) const { return flags + 3 * number() + field; }

  // Join the group, `most` blocks at most; a negative rank means too late. One thread.
  __device__ __forceinline__ void join(int most) {
    const u64 joined = add_and_load(get_flag(0), 1);
    rank = joined & CLOSED ? -1 : int(joined);
    if (rank == 0) {
      for (int k = 0; k < GROUP_PATIENCE && load_acquire(get_flag(0)) < u64(most); ++k) back_off();
      add_and_load(get_flag(1), add_and_load(get_flag(0), CLOSED));
    }
    while (rank >= 0 && load_acquire(get_flag(1)) == 0) back_off();
    size = int(load_acquire(get_flag(1)));
  }

  // Communication of blocks that share a matrix: one copy of each function for the compiler. A single block passes no
  // address of its state, which would force it into memory.
  __device__ __noinline__ void wait_for_others() {
    if (threadIdx.x == 0) {
      ++barriers;
      add_and_load(get_flag(2), 1);
      while (load_acquire(get_flag(2)) < u64(barriers) * size) back_off();
    }
    __syncthreads();
  }
  template <int W, typename Join>
  __device__ __noinline__ double reduce_with_others(double value, Join join) {
    double* values = get_exchange();
    if (threadIdx.x == 0) values[rank] = value;
    synchronize();
    return team_reduce<W>(int(threadIdx.x) < size ? values[threadIdx.x] : value, join);
  }
  __device__ __noinline__ double broadcast_to_others(double value) {
    double* values = get_exchange();
    if (rank == 0 && threadIdx.x == 0) values[0] = value;
    synchronize();
    return values[0];
  }

  // Barrier of all blocks of the group: earlier writes of any are visible to all afterwards.
  __device__ __forceinline__ void synchronize() {
    __syncthreads();
    if (size > 1) of_block().wait_for_others();
  }

  // Exchange buffer that no block reads any more: its last content was read before the last barrier.
  __device__ __forceinline__ double* get_exchange() const {
    return exchange + (2 * number() + (barriers & 1)) * exchange_size;
  }

  // Reduce over all blocks of the group; every block gets the same value.
  template <int W, typename Join>
  __device__ __forceinline__ double reduce(double value, Join join) {
    value = team_reduce<W>(value, join);
    return size == 1 ? value : of_block().reduce_with_others<W>(value, join);
  }
  // Broadcast the value of the first block.
  __device__ __forceinline__ double broadcast(double value) {
    return size == 1 ? value : of_block().broadcast_to_others(value);
  }
};
