// The target of generated code: its dialect, and what scheduling needs to know of the device.
#ifndef TENON_KERNELGEN_IR_TARGET_H_
#define TENON_KERNELGEN_IR_TARGET_H_

#include <cstdint>
#include <string>

namespace tenon::kernelgen {

enum class Dialect : uint8_t { kCpp, kOpenCl };

// What a schedule must know of a device. Speed only, except `dialect`, `isa`, `fp64`: those choose
// the text.
struct Target {
  Dialect dialect = Dialect::kCpp;
  std::string isa =
      "scalar";  // avx512 | avx2 | baseline | generic (16-byte vectors, any cpu) | scalar
  uint32_t vector_bytes = 0;  // 0: one element at a time
  uint32_t registers = 16;    // vector registers
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;
  bool fma = false;
  bool bf16 = false;  // multiplies pairs of bf16 into f32 (vdpbf16ps)
  bool fp64 = true;
  uint32_t group = 0;  // OpenCL: most work items that meet at barriers and share memory, a power of
                       // two; 0: none do
  // What a kernel that only streams puts out bypasses the caches from this size on: it is larger
  // than what last-level caches keep for the next kernel. 0: the target has no such stores.
  int64_t stream_bytes = 0;
  // Fusion. An operand of a concat, pad or update is written into its part of the result from this
  // size on; a smaller one is not worth kernels of their own for the parts that are left.
  int64_t part_bytes = 16 << 10;
  int64_t huge_row = 1 << 18;  // points of a reduction that are worth merging chunks
  int64_t row_chunk =
      1 << 15;  // points of such a chunk: it stays in L2 between the stages that share its loop

  static Target avx512();
  static Target avx512_bf16();  // isa "avx512" too
  static Target avx2();
  static Target baseline();  // x86-64 with SSE2
  static Target generic();
  static Target scalar();
  static Target opencl(bool fp64, uint32_t group = 0);  // group: rounded down to a power of two
};

}  // namespace tenon::kernelgen
#endif
