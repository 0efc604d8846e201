// The target of generated code: its dialect, and what scheduling needs to know about the device.
#ifndef TENON_KERNELGEN_IR_TARGET_H_
#define TENON_KERNELGEN_IR_TARGET_H_

#include <cstdint>
#include <string>

namespace tenon::kernelgen {

enum class Dialect : uint8_t { kCpp, kOpenCl, kCuda, kHip, kMetal };

// Affects speed only, except for `dialect`, `isa` and `fp64`, which choose the text.
struct Target {
  Dialect dialect = Dialect::kCpp;
  // avx512 | avx2 | baseline | neon | generic (16-byte vectors, any CPU) | scalar
  std::string isa = "scalar";
  uint32_t vector_bytes = 0;  // 0: one element at a time
  uint32_t registers = 16;    // vector registers
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;
  bool fma = false;
  bool bf16 = false;        // multiplies pairs of bf16 into f32 (vdpbf16ps)
  bool i16_pairs = false;   // multiplies pairs of i16 into i32 (pmaddwd)
  bool byte_quads = false;  // multiplies four u8 by four i8 into i32 (vpdpbusd, vpdpwssd)
  bool fp64 = true;
  // Work items: the most that can share barriers and memory, a power of two; 0: none can.
  uint32_t group = 0;
  // Of those, how many run in step and exchange values without memory; 0: none do.
  uint32_t warp = 0;
  // Bytes that a group has to share; 0: no limit is known. A kernel that needs more at `group` gets
  // smaller groups.
  int64_t shared_bytes = 0;
  // Bytes of the widest load and store of a work item, at a multiple of that; all memory begins at
  // one. 0: an item loads and stores element by element.
  uint32_t wide_bytes = 0;
  // From this size on, the results of a kernel that only streams bypass the caches: they are too
  // large for last-level caches to keep for the next kernel. 0: the target has no such stores.
  int64_t stream_bytes = 0;
  // Fusion: an operand of a concat, pad or update is written into its part of the result from this
  // size on. A smaller operand is not worth separate kernels for the remaining parts.
  int64_t part_bytes = 16 << 10;
  int64_t huge_row = 1 << 18;  // from this many points on, a reduction is worth cutting into chunks
  // Points of such a chunk: it stays in L2 between the stages that share its loop.
  int64_t row_chunk = 1 << 15;

  // Whether kernels are text for one work item, and scalar.
  bool items() const { return dialect != Dialect::kCpp; }
  // Whether pointers name the space that they point into.
  bool spaces() const { return dialect == Dialect::kOpenCl || dialect == Dialect::kMetal; }
  // Whether the text is C++ that the compiler of a GPU understands, without address spaces.
  bool gpu_cpp() const { return dialect == Dialect::kCuda || dialect == Dialect::kHip; }

  static Target avx512();
  static Target avx512_vnni();  // isa is "avx512" too, as in the next
  static Target avx512_bf16();
  static Target avx2();
  static Target baseline();  // x86-64 with SSE2
  static Target neon();      // AArch64
  static Target generic();
  static Target scalar();
  static Target opencl(bool fp64, uint32_t group = 0);     // group: rounded down to a power of two
  static Target cuda(uint32_t group = 256);                // likewise, at least 1
  static Target metal(uint32_t group = 256);               // without f64, warps of 32
  static Target hip(uint32_t warp, uint32_t group = 256);  // warp: 32 or 64
};

}  // namespace tenon::kernelgen
#endif
