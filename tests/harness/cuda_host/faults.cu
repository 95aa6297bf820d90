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

template <int W>
__global__ void __launch_bounds__(W > 1 ? 32 * W : 32, 2) bounded(float* out) {
  out[threadIdx.x] = W;
}

// Neighbours write what this lane reads, with nothing but a shuffle or a vote between.
__global__ void ordered_by_a_shuffle(float* out) {
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, float(threadIdx.x), 1);
  const float unused = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  if (threadIdx.x % 2 == 0) out[threadIdx.x] += out[threadIdx.x + 1] + unused;
}

__global__ void ordered_by_a_vote(float* out) {
  out[threadIdx.x] = 1.0f;
  if (__any_sync(0xffffffffu, 1) && threadIdx.x % 2 == 0) out[threadIdx.x] += out[threadIdx.x + 1];
}

__global__ void ordered(float* out) {
  out[threadIdx.x] = 1.0f;
  __syncwarp();
  if (threadIdx.x % 2 == 0) out[threadIdx.x] += out[threadIdx.x + 1];
}

// A block takes more than one turn: the next one overwrites what others still read.
__global__ void second_turn(const float* x, float* out, int n) {
  CM_DYN_SMEM(float, held);
  for (int first = blockIdx.x * blockDim.x; first < n; first += gridDim.x * blockDim.x) {
    held[threadIdx.x] = x[first + threadIdx.x];
    __syncthreads();
    out[first + threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
  }
}

// A denormal number is kept by a copy, and zero for everything else.
__global__ void tiny(const float* x, float* out) {
  out[0] = x[0];
  out[1] = double(x[0]) * 0x1p149;
  out[2] = x[0] + x[1];
  out[3] = 0x1p-149;
}

struct alignas(16) Four {
  float x[4];
};

__global__ void loads_apart(const float* x, float* out) {
  out[threadIdx.x] = reinterpret_cast<const Four*>(x + 1)[threadIdx.x].x[0];
}

// What is left of a product after it was rounded: nothing, unless the subtraction is fused with the second product.
__global__ void product_rest(const double* x, double* out) {
  const double rounded = __dmul_rn(x[0], x[0]);
  out[0] = x[0] * x[0] - rounded;
  out[1] = __dmul_rn(x[0], x[0]) - rounded;
}
