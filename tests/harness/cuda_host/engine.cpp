// Runs the blocks of a grid, some at a time, and the threads of a block, on the host.
//
// As fibers on one thread of the host: reproducible, fast, and what can be reported is reported. The seed says who goes
// first: 0 as numbered, 1 from the last, any other shuffled anew in every round.
// With CUDA_HOST_RACES ThreadSanitizer is told of each fiber as if it were a thread, and of barriers and launches as
// all that orders them: shuffles and votes exchange values and order no memory, as on a GPU. So this file itself is
// compiled without that sanitizer.
#ifndef __x86_64__
#error "the switch between fibers is written for x86-64"
#endif
#include "engine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#ifdef CUDA_HOST_RACES
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_host {

constexpr unsigned POISON = 0xff;  // NaN of every float, -1 of every integer
constexpr unsigned TOGETHER = 3;   // blocks, so that one may disturb the other, or wait for it

static dim3 grid, block;
static unsigned threads;  // per block

const dim3& grid_size() { return grid; }
const dim3& block_size() { return block; }

static Thread thread_of(unsigned b, unsigned t) {
  return {{t % block.x, t / block.x % block.y, t / (block.x * block.y)},
          {b % grid.x, b / grid.x % grid.y, b / (grid.x * grid.y)},
          t};
}

static unsigned warps() { return (threads + 31) / 32; }

// Fibers of the second block begin here, at a warp of their own.
static unsigned stride() { return 32 * warps(); }

// The lanes that a warp has: the last one of a block may be short.
static unsigned lanes(unsigned warp) {
  const unsigned left = threads - 32 * warp;
  return left >= 32 ? ~0u : (1u << left) - 1u;
}

// Exactly as long as was asked for, so that AddressSanitizer sees the first byte beyond.
static std::unique_ptr<unsigned char[]> shared_memory(unsigned bytes) {
  std::unique_ptr<unsigned char[]> memory(new unsigned char[bytes]);
  std::fill_n(memory.get(), bytes, POISON);
  return memory;
}

enum State : char { READY, AT_BLOCK, AT_WARP, DONE };

struct Fiber {
  void* stack_pointer;
  std::unique_ptr<char[]> stack;
  Thread thread;
  State state;
  unsigned mask;
  int line;
  bool orders;  // whether the lanes that meet see what the others wrote before
};

static const char* error;
static std::vector<Fiber> fibers;
static std::vector<unsigned long long> mail;
static std::unique_ptr<unsigned char[]> memory[TOGETHER];
static unsigned running;
static void* scheduler_stack;
static void (*body)(void**);
static void** body_arguments;

extern "C" void cuda_host_switch(void** save, void* to);
asm(R"(
.text
.globl cuda_host_switch
.hidden cuda_host_switch
cuda_host_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");

Thread& current() { return fibers[running].thread; }
unsigned char* shared() { return memory[running / stride()].get(); }
static unsigned long long& mailbox(unsigned lane) { return mail[(running & ~31u) + lane]; }

static void pause(State state) {
  fibers[running].state = state;
  cuda_host_switch(&fibers[running].stack_pointer, scheduler_stack);
}

void fail(const char* what) {
  error = what;
  pause(DONE);
}

void rest() { pause(READY); }

void block_barrier(int line) {
  fibers[running].line = line;
  pause(AT_BLOCK);
}

static void meet_lanes(unsigned mask, int line, bool orders) {
  Fiber& fiber = fibers[running];
  if (!(mask >> (running & 31u) & 1u)) fail("a lane is not in its own mask");
  fiber.mask = mask & lanes(current().index / 32);
  fiber.line = line;
  fiber.orders = orders;
  pause(AT_WARP);
}

void warp_barrier(unsigned mask, int line) { meet_lanes(mask, line, true); }

unsigned long long exchange(unsigned mask, unsigned long long value, unsigned source, int line) {
  mailbox(running & 31u) = value;
  meet_lanes(mask, line, false);
  if (!(mask >> source & 1u)) fail("a shuffle reads a lane outside its mask");
  const unsigned long long got = mailbox(source);
  meet_lanes(mask, line, false);
  return got;
}

unsigned vote(unsigned mask, bool yes, int line) {
  mailbox(running & 31u) = yes;
  meet_lanes(mask, line, false);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1u) votes |= unsigned(mailbox(lane) & 1u) << lane;
  meet_lanes(mask, line, false);
  return votes;
}

static void enter() {
  body(body_arguments);
  pause(DONE);
  __builtin_unreachable();
}

static void start(unsigned b, unsigned f) {
  constexpr std::size_t STACK = 64 << 10, REGISTERS = 6;
  Fiber& fiber = fibers[f];
  if (!fiber.stack) fiber.stack.reset(new char[STACK]);
  auto top =
      reinterpret_cast<void**>((reinterpret_cast<std::uintptr_t>(fiber.stack.get()) + STACK) & ~std::uintptr_t{15});
  *--top = nullptr;  // so that the stack is aligned as at a call
  *--top = reinterpret_cast<void*>(&enter);
  for (std::size_t k = 0; k < REGISTERS; ++k) *--top = nullptr;
  fiber.stack_pointer = top;
  fiber.thread = thread_of(b, f % stride());
  fiber.state = READY;
}

#ifdef CUDA_HOST_RACES
static void* scheduler;
// What ThreadSanitizer knows fibers by: few, so the only thing that all libraries of a process share.
__attribute__((visibility("default"))) inline std::vector<void*> contexts;

static void become(void* context) { __tsan_switch_to_fiber(context, __tsan_switch_to_fiber_no_sync); }
static void become(unsigned f) { become(contexts[f]); }

// What each of them did before comes before what any of them does next. `place` is one for those who meet there.
static void meet(const std::vector<unsigned>& members, void* place) {
  for (unsigned f : members) become(f), __tsan_release(place);
  for (unsigned f : members) become(f), __tsan_acquire(place);
  become(scheduler);
}

// The same for all fibers and the host: a launch begins, or ends.
static void join(const std::vector<unsigned>& members) {
  static char place;
  scheduler = __tsan_get_current_fiber();
  while (contexts.size() < fibers.size()) contexts.push_back(__tsan_create_fiber(0));
  __tsan_release(&place);
  meet(members, &place);
  __tsan_acquire(&place);
}

static void resume(unsigned f) {
  running = f;
  become(f);
  cuda_host_switch(&scheduler_stack, fibers[f].stack_pointer);
  become(scheduler);
}
#else
static void meet(const std::vector<unsigned>&, void*) {}
static void join(const std::vector<unsigned>&) {}
static void resume(unsigned f) {
  running = f;
  cuda_host_switch(&scheduler_stack, fibers[f].stack_pointer);
}
#endif

// Let those go on who wait at the barrier of the block of these fibers; say why if they never can.
static bool open_block(const std::vector<unsigned>& members) {
  std::vector<unsigned> waiting;
  unsigned gone = 0;
  bool apart = false;
  for (unsigned f : members) {
    gone += fibers[f].state == DONE;
    if (fibers[f].state != AT_BLOCK) continue;
    waiting.push_back(f);
    apart |= fibers[f].line != fibers[waiting[0]].line;
  }
  if (waiting.empty() || waiting.size() + gone < members.size()) return false;
  if (gone) error = "some threads left before a __syncthreads that others reached";
  if (apart) error = "threads of one block wait at different __syncthreads";
  for (unsigned f : waiting) fibers[f].state = READY;
  meet(waiting, &memory[members[0] / stride()]);
  return true;
}

// The same for every group of lanes that wait on one mask.
static bool open_warps(const std::vector<unsigned>& members) {
  bool opened = false;
  std::vector<unsigned> group;
  for (unsigned f : members) {
    if (fibers[f].state != AT_WARP) continue;
    const unsigned first = f & ~31u, mask = fibers[f].mask;
    unsigned here = 0;
    group.clear();
    for (unsigned lane = 0; lane < 32; ++lane) {
      const Fiber& other = fibers[first + lane];
      if (!(mask >> lane & 1u) || other.state != AT_WARP || other.mask != mask) continue;
      here |= 1u << lane;
      group.push_back(first + lane);
    }
    if (here != mask) continue;
    for (unsigned k : group) {
      if (fibers[k].line != fibers[f].line) error = "lanes of one warp meet from different lines";
      fibers[k].state = READY;
    }
    if (fibers[f].orders) meet(group, &mail[group[0]]);
    opened = true;
  }
  return opened;
}

static void shuffle(std::vector<unsigned>& order, unsigned seed, std::mt19937& random) {
  if (seed == 1) std::reverse(order.begin(), order.end());
  if (seed > 1) std::shuffle(order.begin(), order.end(), random);
}

// Run blocks, whose fibers are given, until they are done.
static void run(const std::vector<std::vector<unsigned>>& blocks, unsigned seed, std::mt19937& random) {
  std::vector<unsigned> order;
  for (const auto& members : blocks) order.insert(order.end(), members.begin(), members.end());
  join(order);
  std::size_t left = order.size();
  while (left && !error) {
    shuffle(order, seed, random);
    bool moved = false;
    for (unsigned f : order) {
      if (fibers[f].state != READY || error) continue;
      resume(f);
      left -= fibers[f].state == DONE;
      moved = true;
    }
    for (const auto& members : blocks) moved |= open_block(members);
    for (const auto& members : blocks) moved |= open_warps(members);
    if (left && !moved) error = "deadlock: a barrier names lanes that have left or wait elsewhere";
  }
  join(order);
}

const char* launch(void (*kernel)(void**), void** arguments, const unsigned* config) {
  grid = {config[0], config[1], config[2]};
  block = {config[3], config[4], config[5]};
  threads = block.x * block.y * block.z;
  body = kernel;
  body_arguments = arguments;
  error = nullptr;
  if (fibers.size() < TOGETHER * stride()) fibers.resize(TOGETHER * stride());
  mail.assign(TOGETHER * stride(), 0);
  std::mt19937 random(config[7]);
  std::vector<unsigned> order(grid.x * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, config[7], random);
  for (std::size_t first = 0; first < order.size() && !error; first += TOGETHER) {
    std::vector<std::vector<unsigned>> together;
    for (unsigned k = 0; k < std::min<std::size_t>(TOGETHER, order.size() - first); ++k) {
      memory[k] = shared_memory(config[6]);
      together.emplace_back(threads);
      std::iota(together[k].begin(), together[k].end(), k * stride());
      for (unsigned f : together[k]) start(order[first + k], f);
    }
    run(together, config[7], random);
  }
  return error;
}

}  // namespace cuda_host
