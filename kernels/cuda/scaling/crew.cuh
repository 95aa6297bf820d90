// Blocks that work on a large matrix together. Each takes all of its steps with lines of its own; the cells are theirs
// together, and of what goes over them each does a part. Nothing depends on how many there are: whoever has come when
// the first of them has waited long enough belongs to the crew, so nobody ever waits for a block that has no processor.

#ifndef CM_HOST
// What was written before is seen by whoever sees the sum, and by its block after a barrier.
__device__ __forceinline__ u64 add_and_see(u64* where, u64 value) {
  u64 old;
  asm volatile("atom.add.acq_rel.gpu.u64 %0, [%1], %2;" : "=l"(old) : "l"(where), "l"(value) : "memory");
  return old;
}
__device__ __forceinline__ u64 see(const u64* where) {
  u64 value;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(where) : "memory");
  return value;
}
__device__ __forceinline__ void rest() { __nanosleep(100); }
#endif

constexpr u64 CLOSED = 1ull << 32;  // nobody may join any more
constexpr int CREW_PATIENCE = 200;  // rests until then

// What a block knows of its crew: in shared memory, for registers are short. Alone it is known to the compiler.
struct Crew {
  u64* boards;       // of each crew: how many have joined, its size, how often its blocks have met
  double* exchange;  // of each crew, room for `room` numbers twice, which its blocks tell each other
  i64 room;
  int crews, size, rank;
  unsigned meetings;

  // That of a block which may not be alone: behind the room for reductions and for sums of several threads.
  __device__ __forceinline__ static Crew& of_block() {
    CM_DYN_SMEM(double, shared);
    return *reinterpret_cast<Crew*>(shared + CM_THREADS / 32 + CM_THREADS);
  }

  __device__ __forceinline__ i64 number() const { return blockIdx.x % crews; }
  __device__ __forceinline__ u64* board(int field) const { return boards + 3 * number() + field; }

  // Join, `most` blocks at most; a rank below zero says that it is too late. One thread.
  __device__ __forceinline__ void join(int most) {
    const u64 joined = add_and_see(board(0), 1);
    rank = joined & CLOSED ? -1 : int(joined);
    if (rank == 0) {
      for (int k = 0; k < CREW_PATIENCE && see(board(0)) < u64(most); ++k) rest();
      add_and_see(board(1), add_and_see(board(0), CLOSED));
    }
    while (rank >= 0 && see(board(1)) == 0) rest();
    size = int(see(board(1)));
  }

  // What is asked for everywhere, by whoever is not alone: one copy of each for the compiler to look at. Whoever is
  // alone has no address that they are given: else it would lie in memory.
  __device__ __noinline__ void meet_others() {
    if (threadIdx.x == 0) {
      ++meetings;
      add_and_see(board(2), 1);
      while (see(board(2)) < u64(meetings) * size) rest();
    }
    __syncthreads();
  }
  template <int W, typename Join>
  __device__ __noinline__ double agree_with_others(double value, Join join) {
    double* values = fresh();
    if (threadIdx.x == 0) values[rank] = value;
    meet();
    return team_reduce<W>(int(threadIdx.x) < size ? values[threadIdx.x] : value, join);
  }
  __device__ __noinline__ double heed_others(double value) {
    double* values = fresh();
    if (rank == 0 && threadIdx.x == 0) values[0] = value;
    meet();
    return values[0];
  }

  // What any of them wrote before is there for all of them afterwards.
  __device__ __forceinline__ void meet() {
    __syncthreads();
    if (size > 1) of_block().meet_others();
  }

  // Room that nobody reads any more: what was told there was read before the last meeting.
  __device__ __forceinline__ double* fresh() const { return exchange + (2 * number() + (meetings & 1)) * room; }

  // The same value in all of them, where equal ones may be joined.
  template <int W, typename Join>
  __device__ __forceinline__ double agree(double value, Join join) {
    value = team_reduce<W>(value, join);
    return size == 1 ? value : of_block().agree_with_others<W>(value, join);
  }
  // What the first of them says.
  __device__ __forceinline__ double heed(double value) { return size == 1 ? value : of_block().heed_others(value); }
};
