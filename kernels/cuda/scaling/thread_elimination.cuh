// Shared by kernels with one thread per matrix: transfer of values by a warp, and elimination in registers.

// Transfer the values of a warp's matrices, `size` each and adjacent in memory, to or from shared memory, where those
// of a lane are adjacent with an odd stride between lanes (no bank conflicts). `move` takes the index within the
// matrix, in memory, and in shared memory.
template <typename Move>
__device__ __forceinline__ void transfer_values(int size, int matrices, Move move) {
  const int lane = threadIdx.x % 32, pitch = size | 1;
  int at = lane % size, matrix = lane / size;
  for (int k = lane; k < size * matrices; k += 32) {
    move(at, k, matrix * pitch + at);
    at += 32 % size;
    matrix += 32 / size;
    if (at >= size) {
      at -= size;
      ++matrix;
    }
  }
  __syncwarp();
}

// Solve the Newton system L d = q + flows by star-mesh elimination, which only adds nonnegative weights; see group.cu.
// Only W[l][j] and F[l][j] for columns l < j are read; d overwrites the sources `q`.
template <int K>
__device__ __forceinline__ void eliminate(double (&W)[K][K], double (&F)[K][K], double (&q)[K]) {
  double inverse[K];
  inverse[0] = 0.0;
#pragma unroll
  for (int k = K - 1; k > 0; --k) {
    double total = 0.0, flows = 0.0;
#pragma unroll
    for (int j = 0; j < k; ++j) {
      total += W[j][k];
      flows += F[j][k];
    }
    inverse[k] = total >= CM_NORMAL ? reciprocal(total) : 0.0;
#pragma unroll
    for (int l = 0; l < k; ++l) {
      const double p = W[l][k] * inverse[k], f = F[l][k] * inverse[k];
      q[l] += p * q[k];
#pragma unroll
      for (int j = l + 1; j < k; ++j) {
        W[l][j] += W[j][k] * p;
        F[l][j] += W[j][k] * f - F[j][k] * p;
      }
    }
    q[k] += flows;
  }
  q[0] = 0.0;
#pragma unroll
  for (int l = 1; l < K; ++l) {
#pragma unroll
    for (int j = 0; j < l; ++j) q[l] += W[j][l] * q[j];
    q[l] *= inverse[l];
  }
}
