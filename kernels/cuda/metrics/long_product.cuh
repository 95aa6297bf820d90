// Product of many numbers without overflow or underflow.

// Mantissas are multiplied and exponents are added.
struct LongProduct {
  double product = 1.0, exponent = 0.0;

  __device__ __forceinline__ void times(double x) {
#pragma unroll
    for (int turn = 0; turn < 3; ++turn) {
      if (turn == 2) x *= product;
      if (x > 0.0 && x < 0x1p-256) {
        x *= 0x1p512;
        exponent += 512.0;
      }
    }
    product = x;
  }
  // Geometric mean of n numbers.
  __device__ __forceinline__ double mean(double n) const { return pow(product, 1.0 / n) * exp2(-exponent / n); }
};
