// Order-preserving map of double to unsigned integers, for radix sorts and counts by bits.

#define CM_SIGN 0x8000000000000000ull

// NaN maps as infinity, and both zeros are equal.
__device__ __forceinline__ u64 to_ordered_key(double x) {
  const u64 bits = u64(__double_as_longlong(x != x ? CM_INF : x + 0.0));
  return bits & CM_SIGN ? ~bits : bits | CM_SIGN;
}
__device__ __forceinline__ double from_ordered_key(u64 key) {
  return __longlong_as_double(i64(key & CM_SIGN ? key & ~CM_SIGN : ~key));
}
