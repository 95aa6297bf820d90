// Between the kernels and what runs them.
#pragma once

struct dim3 {
  unsigned x, y, z;
};

namespace cuda_host {

struct Thread {
  dim3 thread, block;
  unsigned index;  // within the block
};

Thread& current();
const dim3& grid_size();
const dim3& block_size();
unsigned char* shared();
void block_barrier(int line);
void warp_barrier(unsigned mask, int line);
unsigned long long exchange(unsigned mask, unsigned long long value, unsigned source, int line);
unsigned vote(unsigned mask, bool yes, int line);
void rest();
void fail(const char* what);
const char* launch(void (*kernel)(void**), void** arguments, const unsigned* config);

}  // namespace cuda_host
