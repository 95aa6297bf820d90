// Kernels with planted faults: each must be found by the tool that is there to find it. And one without.
__global__ void right(const float* x, float* out) {
  CM_DYN_SMEM(float, held);
  held[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

__global__ void barrier_missing(const float* x, float* out) {
  CM_DYN_SMEM(float, held);
  held[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  out[blockIdx.x * blockDim.x + threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

__global__ void barrier_left(float* out) {
  if (threadIdx.x < 10) __syncthreads();
  out[threadIdx.x] = 1.0f;
}

__global__ void barriers_apart(float* out) {
  if (threadIdx.x < 64)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1.0f;
}

__global__ void lane_left(float* out) {
  if (threadIdx.x >= 40) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, float(threadIdx.x), 1);
}

__global__ void lanes_apart(float* out) {
  const float x = float(threadIdx.x);
  if (threadIdx.x < 16)
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x, 1);
  else
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x, 2);
}

__global__ void lane_outside(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000ffffu, float(threadIdx.x), 20);
}

__global__ void lane_not_in_mask(float* out) { out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, float(threadIdx.x), 1); }

__global__ void write_beyond(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 1.0f;
}

__global__ void read_beyond(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i + 1];
}

__global__ void shared_beyond(float* out) {
  CM_DYN_SMEM(float, held);
  held[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = held[threadIdx.x + 1];
}

__global__ void update_lost(int* out) { out[0] = out[0] + 1; }

__global__ void blocks_collide(int* out) {
  if (threadIdx.x == 0) out[0] = blockIdx.x;
}

__global__ void never_written(float* out) {
  CM_DYN_SMEM(float, held);
  out[threadIdx.x] = held[threadIdx.x];
}
