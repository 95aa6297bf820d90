// Rules of Newton's method on the dual; kernels/shared/scaling.py has their reasons and their constants.

__device__ __forceinline__ double damped_step(double width) {
  return width > CM_SAFE_WIDTH ? fmax(CM_SAFE_WIDTH, log1p(width)) / width : 1.0;
}

__device__ __forceinline__ bool has_stalled(double width, double before) {
  return width < CM_CLOSE && width >= CM_STANDING * before;
}
