// Runs kernels of PTX: each thread of a block up to its next barrier or shuffle, one after another.
#ifndef TENON_TESTS_FAKES_CUDA_RUN_H_
#define TENON_TESTS_FAKES_CUDA_RUN_H_

#include <cstdint>
#include <string>

#include "ptx.h"

namespace fake_cuda {

// The device's memory.
struct Memory {
  virtual ~Memory() = default;
  // The allocation that holds the address, as [*begin, *end), and its bytes; null if there is none.
  virtual unsigned char* find(uint64_t address, uint64_t* begin, uint64_t* end) = 0;
};

struct Grid {
  const Kernel* kernel;
  uint32_t blocks, threads;
  const unsigned char* parameters;  // Kernel::parameter_bytes
};

// False: *why says which thread of which kernel did what: an access outside of all allocations or
// at an address that is not aligned, a barrier that some threads never reach, a trap.
bool run(const Grid& grid, Memory& memory, std::string* why);

}  // namespace fake_cuda
#endif
