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
#include <functional>
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
  bool orders;               // whether the lanes that meet see what the others wrote before
  unsigned long long given;  // to the lanes that it meets next
  unsigned long long mail;   // what it gave when they last met: nobody meets again before all have gone on from there
};

// A block that runs: its fibers, how many wait at its barrier, and how many are done.
struct Block {
  std::vector<unsigned> members;
  unsigned waiting, gone;
};

static const char* error;
static std::vector<Fiber> fibers;
static std::vector<char> visited;  // warps of which a lane came to a meeting in this round
static std::unique_ptr<unsigned char[]> memory[TOGETHER];
static unsigned running;
static Fiber* now;  // the one that runs
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

Thread& current() { return now->thread; }
unsigned char* shared() { return memory[running / stride()].get(); }
static Fiber& neighbour(unsigned lane) { return fibers[(running & ~31u) + lane]; }

static void pause(State state) {
  now->state = state;
  cuda_host_switch(&now->stack_pointer, scheduler_stack);
}

void fail(const char* what) {
  error = what;
  pause(DONE);
}

void rest() { pause(READY); }

void block_barrier(int line) {
  now->line = line;
  pause(AT_BLOCK);
}

static void meet_lanes(unsigned mask, int line, bool orders, unsigned long long given = 0) {
  if (!(mask >> (running & 31u) & 1u)) fail("a lane is not in its own mask");
  now->mask = mask & lanes(current().index / 32);
  now->line = line;
  now->orders = orders;
  now->given = given;
  pause(AT_WARP);
}

void warp_barrier(unsigned mask, int line) { meet_lanes(mask, line, true); }

unsigned long long exchange(unsigned mask, unsigned long long value, unsigned source, int line) {
  meet_lanes(mask, line, false, value);
  if (!(mask >> source & 1u)) fail("a shuffle reads a lane outside its mask");
  return neighbour(source).mail;
}

unsigned vote(unsigned mask, bool yes, int line) {
  meet_lanes(mask, line, false, yes);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1u) votes |= unsigned(neighbour(lane).mail & 1u) << lane;
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
  now = &fibers[f];
  become(f);
  cuda_host_switch(&scheduler_stack, fibers[f].stack_pointer);
  become(scheduler);
}
#else
static void meet(const std::vector<unsigned>&, void*) {}
static void join(const std::vector<unsigned>&) {}
static void resume(unsigned f) {
  running = f;
  now = &fibers[f];
  cuda_host_switch(&scheduler_stack, fibers[f].stack_pointer);
}
#endif

// Let those go on who wait at the barrier of a block; say why if they never can.
static void open_block(Block& block, std::vector<unsigned>& ready) {
  if (!block.waiting || block.waiting + block.gone < block.members.size()) return;
  std::vector<unsigned> waiting;
  bool apart = false;
  for (unsigned f : block.members) {
    if (fibers[f].state != AT_BLOCK) continue;
    waiting.push_back(f);
    apart |= fibers[f].line != fibers[waiting[0]].line;
    fibers[f].state = READY;
  }
  if (block.gone) error = "some threads left before a __syncthreads that others reached";
  if (apart) error = "threads of one block wait at different __syncthreads";
  block.waiting = 0;
  ready.insert(ready.end(), waiting.begin(), waiting.end());
  meet(waiting, &memory[block.members[0] / stride()]);
}

// The same for every group of lanes of a warp that wait on one mask.
static void open_warp(unsigned warp, std::vector<unsigned>& ready) {
  std::vector<unsigned> group;
  for (unsigned f = 32 * warp; f < 32 * warp + 32; ++f) {
    if (fibers[f].state != AT_WARP) continue;
    const unsigned mask = fibers[f].mask;
    unsigned here = 0;
    group.clear();
    for (unsigned lane = 0; lane < 32; ++lane) {
      const Fiber& other = fibers[32 * warp + lane];
      if (!(mask >> lane & 1u) || other.state != AT_WARP || other.mask != mask) continue;
      here |= 1u << lane;
      group.push_back(32 * warp + lane);
    }
    if (here != mask) continue;
    for (unsigned k : group) {
      if (fibers[k].line != fibers[f].line) error = "lanes of one warp meet from different lines";
      fibers[k].state = READY;
      fibers[k].mail = fibers[k].given;
    }
    ready.insert(ready.end(), group.begin(), group.end());
    if (fibers[f].orders) meet(group, &fibers[group[0]].mail);
  }
}

static void shuffle(std::vector<unsigned>& order, unsigned seed, std::mt19937& random) {
  if (seed == 0 && !std::is_sorted(order.begin(), order.end())) std::sort(order.begin(), order.end());
  if (seed == 1) std::sort(order.begin(), order.end(), std::greater<>());
  if (seed > 1) std::shuffle(order.begin(), order.end(), random);
}

// Run blocks until they are done, in rounds: all fibers that can go on do so once, then those go on in the next round
// whom nobody keeps waiting any more. A round takes time only for these, since often one warp works and others wait.
static void run(std::vector<Block>& blocks, unsigned seed, std::mt19937& random) {
  std::vector<unsigned> ready, next, warps;
  for (const Block& block : blocks) ready.insert(ready.end(), block.members.begin(), block.members.end());
  const std::vector<unsigned> every = ready;
  join(every);
  std::size_t left = every.size();
  while (left && !error) {
    if (ready.empty()) error = "deadlock: a barrier names lanes that have left or wait elsewhere";
    shuffle(ready, seed, random);
    next.clear();
    warps.clear();
    for (unsigned f : ready) {
      if (error) break;
      resume(f);
      Block& block = blocks[f / stride()];
      switch (fibers[f].state) {
        case READY: next.push_back(f); break;
        case AT_BLOCK: ++block.waiting; break;
        case AT_WARP:
          if (!visited[f / 32]) warps.push_back(f / 32);
          visited[f / 32] = true;
          break;
        case DONE: ++block.gone, --left;
      }
    }
    for (Block& block : blocks) open_block(block, next);
    for (unsigned warp : warps) {
      visited[warp] = false;
      open_warp(warp, next);
    }
    ready.swap(next);
  }
  join(every);
}

const char* launch(void (*kernel)(void**), void** arguments, const unsigned* config) {
  grid = {config[0], config[1], config[2]};
  block = {config[3], config[4], config[5]};
  threads = block.x * block.y * block.z;
  body = kernel;
  body_arguments = arguments;
  error = nullptr;
  if (fibers.size() < TOGETHER * stride()) fibers.resize(TOGETHER * stride());
  for (Fiber& fiber : fibers) fiber.state = DONE;  // a launch that failed leaves some in between
  visited.assign(TOGETHER * warps(), false);
  std::mt19937 random(config[7]);
  std::vector<unsigned> order(grid.x * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, config[7], random);
  for (std::size_t first = 0; first < order.size() && !error; first += TOGETHER) {
    std::vector<Block> together;
    for (unsigned k = 0; k < std::min<std::size_t>(TOGETHER, order.size() - first); ++k) {
      memory[k] = shared_memory(config[6]);
      together.push_back({std::vector<unsigned>(threads), 0, 0});
      std::iota(together[k].members.begin(), together[k].members.end(), k * stride());
      for (unsigned f : together[k].members) start(order[first + k], f);
    }
    run(together, config[7], random);
  }
  return error;
}

}  // namespace cuda_host
