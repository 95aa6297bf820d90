// Step length and convergence test of Newton's method on the dual; kernels/shared/scaling.py defines and explains them.

__device__ __forceinline__ double damped_step(double width) {
  return width > CM_SAFE_WIDTH ? fmax(CM_SAFE_WIDTH, log1p(width)) / width : 1.0;
}

__device__ __forceinline__ bool has_stalled(double width, double before) {
  return width < CM_CLOSE && width >= CM_STANDING * before;
}
