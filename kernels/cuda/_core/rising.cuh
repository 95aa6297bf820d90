// Unsigned numbers that rise with numbers: what counts and sorts of bits need.

#define CM_SIGN 0x8000000000000000ull

// NaN is infinity, and zeros are equal.
__device__ __forceinline__ u64 rising(double x) {
  const u64 bits = u64(__double_as_longlong(x != x ? CM_INF : x + 0.0));
  return bits & CM_SIGN ? ~bits : bits | CM_SIGN;
}
__device__ __forceinline__ double of_rising(u64 key) {
  return __longlong_as_double(i64(key & CM_SIGN ? key & ~CM_SIGN : ~key));
}
