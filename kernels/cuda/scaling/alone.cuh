// What kernels share of which a thread has a matrix of its own: how its numbers come and go, and elimination in
// registers.

// A warp brings the numbers of its matrices, `size` each and one behind another in memory, to and from shared memory,
// where those of a lane lie together, an odd number of places from those of the next. `move` takes a number's place
// among those of its matrix, in memory, and in shared memory.
template <typename Move>
__device__ __forceinline__ void over_numbers(int size, int matrices, Move move) {
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

// Solve L d = q + flows by star-mesh elimination, which only adds nonnegative numbers to the weights; see group.cu. Of
// weights and flows between columns l < j, W[l][j] and F[l][j] are read alone; d takes the place of the sources `q`.
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
