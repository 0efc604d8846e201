#include "tenon/kernelgen/ir/target.h"

#include <algorithm>
#include <bit>

namespace tenon::kernelgen {
namespace {

constexpr uint32_t kWideBytes = 16;  // of every GPU's load instructions

Target cpp(const char* isa, uint32_t bytes, uint32_t registers, bool fma) {
  Target t;
  t.isa = isa;
  t.vector_bytes = bytes;
  t.registers = registers;
  t.fma = fma;
  const bool x86 = t.isa == "avx512" || t.isa == "avx2" || t.isa == "baseline";
  t.i16_pairs = x86;
  t.stream_bytes = x86 ? int64_t{32} << 20 : 0;
  return t;
}

}  // namespace

Target Target::avx512() {
  return cpp("avx512", 64, 32, true);
}
Target Target::avx512_vnni() {
  Target t = avx512();
  t.byte_quads = true;
  return t;
}
Target Target::avx512_bf16() {
  Target t = avx512_vnni();
  t.bf16 = true;
  return t;
}
Target Target::avx2() {
  return cpp("avx2", 32, 16, true);
}
Target Target::baseline() {
  return cpp("baseline", 16, 16, false);
}
Target Target::neon() {
  return cpp("neon", 16, 32, true);
}
Target Target::generic() {
  return cpp("generic", 16, 32, false);
}
Target Target::scalar() {
  return cpp("scalar", 0, 16, false);
}
Target Target::opencl(bool fp64, uint32_t group) {
  Target t = cpp("opencl", 0, 64, false);
  t.group = std::bit_floor(group);
  t.wide_bytes = kWideBytes;
  t.dialect = Dialect::kOpenCl;
  t.fp64 = fp64;
  return t;
}
Target Target::cuda(uint32_t group) {
  Target t = cpp("cuda", 0, 64, true);
  t.group = std::bit_floor(std::max(group, 1u));
  t.warp = 32;
  t.wide_bytes = kWideBytes;
  t.dialect = Dialect::kCuda;
  return t;
}
Target Target::metal(uint32_t group) {
  Target t = opencl(false, group);
  t.isa = "metal";
  t.fma = true;
  t.warp = 32;
  t.dialect = Dialect::kMetal;
  return t;
}
Target Target::hip(uint32_t warp, uint32_t group) {
  Target t = cuda(group);
  t.isa = "hip";
  t.warp = warp;
  t.dialect = Dialect::kHip;
  return t;
}

}  // namespace tenon::kernelgen
