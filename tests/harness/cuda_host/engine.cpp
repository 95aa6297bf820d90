// Runs the blocks of a grid, and the threads of a block, on the host.
//
// By default as fibers on one thread of the host: reproducible, fast, and what can be reported is reported. The seed
// says who goes first: 0 as numbered, 1 from the last, any other shuffled anew in every round.
// With CUDA_HOST_THREADS as threads of the host, two blocks at a time, for ThreadSanitizer.
#include "engine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace cuda_host {

constexpr unsigned POISON = 0xff;  // NaN of every float, -1 of every integer

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

}  // namespace cuda_host

#ifdef CUDA_HOST_THREADS
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace cuda_host {

struct Block {
  std::unique_ptr<unsigned char[]> memory;
  std::barrier<> edge;
  std::vector<std::unique_ptr<std::barrier<>>> warp_edges;
  std::vector<unsigned long long> mail;
};

static thread_local Thread now;
static thread_local Block* home;

Thread& current() { return now; }
unsigned char* shared() { return home->memory.get(); }
unsigned long long& mailbox(unsigned lane) { return home->mail[(now.index & ~31u) + lane]; }
void block_barrier(int) { home->edge.arrive_and_wait(); }

void fail(const char* what) {
  std::fprintf(stderr, "cuda_host: %s\n", what);
  std::abort();
}

void warp_barrier(unsigned mask, int) {
  if ((mask & lanes(now.index / 32)) != lanes(now.index / 32)) fail("threads take barriers of whole warps only");
  home->warp_edges[now.index / 32]->arrive_and_wait();
}

const char* launch(void (*kernel)(void**), void** arguments, const unsigned* config) {
  constexpr unsigned TOGETHER = 2;
  grid = {config[0], config[1], config[2]};
  block = {config[3], config[4], config[5]};
  threads = block.x * block.y * block.z;
  const unsigned blocks = grid.x * grid.y * grid.z;
  for (unsigned first = 0; first < blocks; first += TOGETHER) {
    std::vector<std::unique_ptr<Block>> some;
    std::vector<std::jthread> running;
    for (unsigned b = first; b < std::min(first + TOGETHER, blocks); ++b) {
      some.emplace_back(new Block{shared_memory(config[6]), std::barrier<>(threads), {}, {}});
      Block* mine = some.back().get();
      mine->mail.resize(32 * warps());
      for (unsigned w = 0; w < warps(); ++w)
        mine->warp_edges.emplace_back(new std::barrier<>(std::min(32u, threads - 32 * w)));
      for (unsigned t = 0; t < threads; ++t)
        running.emplace_back([=] {
          now = thread_of(b, t);
          home = mine;
          kernel(arguments);
          home->warp_edges[t / 32]->arrive_and_drop();  // a thread that is gone holds nobody up
          home->edge.arrive_and_drop();
        });
    }
    running.clear();
  }
  return nullptr;
}

}  // namespace cuda_host
#else
#ifndef __x86_64__
#error "the switch between fibers is written for x86-64"
#endif

namespace cuda_host {

enum State : char { READY, AT_BLOCK, AT_WARP, DONE };

struct Fiber {
  void* stack_pointer;
  std::unique_ptr<char[]> stack;
  Thread thread;
  State state;
  unsigned mask;
  int line;
};

static const char* error;
static std::vector<Fiber> fibers;
static std::vector<unsigned long long> mail;
static std::unique_ptr<unsigned char[]> memory;
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
unsigned char* shared() { return memory.get(); }
unsigned long long& mailbox(unsigned lane) { return mail[(running & ~31u) + lane]; }

static void pause(State state) {
  fibers[running].state = state;
  cuda_host_switch(&fibers[running].stack_pointer, scheduler_stack);
}

void fail(const char* what) {
  error = what;
  pause(DONE);
}

void block_barrier(int line) {
  fibers[running].line = line;
  pause(AT_BLOCK);
}

void warp_barrier(unsigned mask, int line) {
  if (!(mask >> (running & 31u) & 1u)) fail("a lane is not in its own mask");
  fibers[running].mask = mask & lanes(running / 32);
  fibers[running].line = line;
  pause(AT_WARP);
}

static void enter() {
  body(body_arguments);
  pause(DONE);
  __builtin_unreachable();
}

static void start(unsigned b, unsigned t) {
  constexpr std::size_t STACK = 64 << 10, REGISTERS = 6;
  Fiber& fiber = fibers[t];
  if (!fiber.stack) fiber.stack.reset(new char[STACK]);
  auto top =
      reinterpret_cast<void**>((reinterpret_cast<std::uintptr_t>(fiber.stack.get()) + STACK) & ~std::uintptr_t{15});
  *--top = nullptr;  // so that the stack is aligned as at a call
  *--top = reinterpret_cast<void*>(&enter);
  for (std::size_t k = 0; k < REGISTERS; ++k) *--top = nullptr;
  fiber.stack_pointer = top;
  fiber.thread = thread_of(b, t);
  fiber.state = READY;
}

// Let those go on who wait at the barrier of the block; say why if they never can.
static bool open_block() {
  unsigned waiting = 0, gone = 0;
  int line = 0;
  bool apart = false;
  for (unsigned t = 0; t < threads; ++t) {
    gone += fibers[t].state == DONE;
    if (fibers[t].state != AT_BLOCK) continue;
    apart |= waiting && fibers[t].line != line;
    line = fibers[t].line;
    ++waiting;
  }
  if (!waiting || waiting + gone < threads) return false;
  if (gone) error = "some threads left before a __syncthreads that others reached";
  if (apart) error = "threads of one block wait at different __syncthreads";
  for (unsigned t = 0; t < threads; ++t)
    if (fibers[t].state == AT_BLOCK) fibers[t].state = READY;
  return true;
}

// The same for every group of lanes that wait on one mask.
static bool open_warps() {
  bool opened = false;
  for (unsigned t = 0; t < threads; ++t) {
    if (fibers[t].state != AT_WARP) continue;
    const unsigned first = t & ~31u, mask = fibers[t].mask;
    unsigned here = 0;
    for (unsigned k = first; k < std::min(first + 32, threads); ++k)
      if (fibers[k].state == AT_WARP && fibers[k].mask == mask) here |= 1u << (k - first);
    if (here != mask) continue;
    for (unsigned k = first; k < std::min(first + 32, threads); ++k) {
      if (!(mask >> (k - first) & 1u)) continue;
      if (fibers[k].line != fibers[t].line) error = "lanes of one warp meet from different lines";
      fibers[k].state = READY;
    }
    opened = true;
  }
  return opened;
}

static void shuffle(std::vector<unsigned>& order, unsigned seed, std::mt19937& random) {
  if (seed == 1) std::reverse(order.begin(), order.end());
  if (seed > 1) std::shuffle(order.begin(), order.end(), random);
}

static void run_block(unsigned seed, std::mt19937& random) {
  std::vector<unsigned> order(threads);
  std::iota(order.begin(), order.end(), 0u);
  unsigned left = threads;
  while (left && !error) {
    shuffle(order, seed, random);
    bool moved = false;
    for (unsigned t : order) {
      if (fibers[t].state != READY || error) continue;
      running = t;
      cuda_host_switch(&scheduler_stack, fibers[t].stack_pointer);
      left -= fibers[t].state == DONE;
      moved = true;
    }
    moved |= open_block();
    moved |= open_warps();
    if (left && !moved) error = "deadlock: a barrier names lanes that have left or wait elsewhere";
  }
}

const char* launch(void (*kernel)(void**), void** arguments, const unsigned* config) {
  grid = {config[0], config[1], config[2]};
  block = {config[3], config[4], config[5]};
  threads = block.x * block.y * block.z;
  body = kernel;
  body_arguments = arguments;
  error = nullptr;
  if (fibers.size() < threads) fibers.resize(threads);
  mail.assign(32 * warps(), 0);
  std::mt19937 random(config[7]);
  std::vector<unsigned> order(grid.x * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, config[7], random);
  for (unsigned b : order) {
    memory = shared_memory(config[6]);
    for (unsigned t = 0; t < threads; ++t) start(b, t);
    run_block(config[7], random);
    if (error) break;
  }
  return error;
}

}  // namespace cuda_host
#endif
