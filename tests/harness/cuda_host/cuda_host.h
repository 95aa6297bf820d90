// What CUDA C++ gives the kernels of this project, for g++ (-std=c++20): tests run them on a machine without a GPU.
// Only what is here exists, so anything else a kernel uses is a compile error and never a wrong result.
#pragma once
#include <utility>

#include "engine.h"

#define CM_HOST 1
#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)  // checked by the exported function
#define CM_DYN_SMEM(T, name) T* name = reinterpret_cast<T*>(cuda_host::shared())

namespace cuda_host {

inline unsigned lane() { return current().index & 31u; }

template <class... A, unsigned long... I>
inline void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*reinterpret_cast<std::remove_cv_t<A>*>(arguments[I])...);
}

template <class... A>
inline void call(void (*kernel)(A...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<A...>{});
}

// One value per lane of the mask, and who reads whose.
template <class T>
inline T exchange(unsigned mask, T value, unsigned source, int line) {
  static_assert(sizeof(T) <= sizeof(unsigned long long));
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, source, line);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace cuda_host

#define threadIdx (cuda_host::current().thread)
#define blockIdx (cuda_host::current().block)
#define gridDim (cuda_host::grid_size())
#define blockDim (cuda_host::block_size())
#define __syncthreads() cuda_host::block_barrier(__LINE__)

// What a warp does together knows the line it was called from: lanes that meet from different lines are a fault.
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  cuda_host::warp_barrier(mask, line);
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  return cuda_host::exchange(mask, value, (cuda_host::lane() & ~(width - 1u)) | (source & (width - 1u)), line);
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, int line = __builtin_LINE()) {
  const unsigned lane = cuda_host::lane(), source = lane ^ bits;
  return cuda_host::exchange(mask, value, source / width == lane / width ? source : lane, line);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  const unsigned lane = cuda_host::lane();
  return cuda_host::exchange(mask, value, (lane & (width - 1u)) + delta < unsigned(width) ? lane + delta : lane, line);
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  const unsigned lane = cuda_host::lane();
  return cuda_host::exchange(mask, value, (lane & (width - 1u)) >= delta ? lane - delta : lane, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return cuda_host::vote(mask, predicate != 0, line);
}

inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) == mask;
}

template <class T>
inline T atomicAdd(T* where, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>, "a sum of floats by atomics depends on who comes first");
  return __atomic_fetch_add(where, value, __ATOMIC_RELAXED);
}

template <class T>
inline T atomicOr(T* where, std::type_identity_t<T> value) {
  return __atomic_fetch_or(where, value, __ATOMIC_RELAXED);
}

template <class T>
inline T atomicMax(T* where, std::type_identity_t<T> value) {
  T old = __atomic_load_n(where, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(where, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

template <class T>
inline T atomicMin(T* where, std::type_identity_t<T> value) {
  T old = __atomic_load_n(where, __ATOMIC_RELAXED);
  while (value < old && !__atomic_compare_exchange_n(where, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

template <class T>
inline T atomicCAS(T* where, std::type_identity_t<T> old, std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(where, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return old;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(unsigned(bits)) : 32; }
inline int __clzll(long long bits) { return bits ? __builtin_clzll((unsigned long long)bits) : 64; }

// Numbers of 32 bits as with -ftz=true, with which CuPy compiles: what is computed or converted from denormals takes
// them for zeros, and gives zeros instead; copies keep them.
namespace cuda_host {
struct single {
  float value;
  static float flushed(float x) { return x > -0x1p-126f && x < 0x1p-126f ? x * 0.0f : x; }

  single() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  single(T x) : value(flushed(static_cast<float>(x))) {}
  operator float() const { return flushed(value); }
  single operator-() const { return __builtin_bit_cast(single, -value); }
  single& operator+=(float x) { return *this = single(float(*this) + x); }
};
static_assert(sizeof(single) == 4 && std::is_trivially_copyable_v<single>);
}  // namespace cuda_host

inline unsigned __float_as_uint(cuda_host::single x) { return __builtin_bit_cast(unsigned, x); }
inline cuda_host::single __uint_as_float(unsigned bits) { return __builtin_bit_cast(cuda_host::single, bits); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }

// Never part of a fused operation.
inline double __dmul_rn(double a, double b) {
  asm("" : "+x"(a), "+x"(b));
  double product = a * b;
  asm("" : "+x"(product));
  return product;
}
inline double __dadd_rn(double a, double b) {
  asm("" : "+x"(a), "+x"(b));
  return a + b;
}

extern "C" {
double log(double) noexcept;
double exp(double) noexcept;
double erfc(double) noexcept;
double exp2(double) noexcept;
double pow(double, double) noexcept;
double log2(double) noexcept;
double log1p(double) noexcept;
double sqrt(double) noexcept;
double floor(double) noexcept;
double fabs(double) noexcept;
double rint(double) noexcept;
double floor(double) noexcept;
double ldexp(double, int) noexcept;
double fma(double, double, double) noexcept;
double fmin(double, double) noexcept;
double fmax(double, double) noexcept;
}

// What the sources ask of the hardware in its own words. Numbers that blocks tell each other by.
inline unsigned long long add_and_load(unsigned long long* where, unsigned long long value) {
  return __atomic_fetch_add(where, value, __ATOMIC_ACQ_REL);
}
inline unsigned long long load_acquire(const unsigned long long* where) {
  return __atomic_load_n(where, __ATOMIC_ACQUIRE);
}
inline void back_off() { cuda_host::rest(); }
// The upper half of the right bits.
inline double upper_half(double x) { return __longlong_as_double(__double_as_longlong(x) & ~0xffffffffLL); }
inline double reciprocal_seed(double x) { return upper_half(1.0 / x); }
inline double inverse_root_seed(double x) { return upper_half(1.0 / sqrt(x)); }

template <class T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T max(T a, T b) {
  return a < b ? b : a;
}

#define float cuda_host::single

// One exported C function per kernel and the most threads of its blocks: config is grid x, y, z, block x, y, z, bytes
// of shared memory, seed.
#define CUDA_HOST_EXPORT(id, most, ...)                                                                        \
  extern "C" __attribute__((visibility("default"))) const char* id(const unsigned* config, void** arguments) { \
    if (config[3] * config[4] * config[5] > (most)) return "more threads than __launch_bounds__ allows";       \
    return cuda_host::launch([](void** values) { cuda_host::call(__VA_ARGS__, values); }, arguments, config);  \
  }
