// The record of a compiled subgraph: round trips through bytes, and malformed bytes.
#include "tenon/kernelgen/device/device_program.h"

#include <gtest/gtest.h>

#include "tenon/kernelgen/device/program_layout.h"

namespace tenon::kernelgen {
namespace {

SizeProgram size(int64_t v) {
  Pool pool;
  return size_program(pool, pool.integer(v));
}

// A constant is packed at load; a run multiplies an input by it.
DeviceProgram sample() {
  DeviceProgram p;
  p.symbol_count = 1;
  p.input_count = p.output_count = p.constant_count = 1;
  for (BufferKind kind :
       {BufferKind::kInput, BufferKind::kConstant, BufferKind::kPersistent, BufferKind::kOutput}) {
    ProgramBuffer b;
    b.kind = kind;
    b.type = TENON_F32;
    b.bytes = size(64);
    p.buffers.push_back(b);
  }
  for (uint32_t count : {2u, 3u}) {
    ProgramKernel k;
    k.entry = "k_" + std::to_string(count);
    k.buffer_count = count;
    k.extent_count = count - 2;
    k.range = size(16);
    k.flops = size(32);
    k.bytes = size(192);
    p.kernels.push_back(k);
  }
  ProgramStep pack, multiply;
  pack.buffers = {1, 2};
  pack.written = {false, true};
  multiply.kernel = 1;
  multiply.buffers = {0, 2, 3};
  multiply.written = {false, false, true};
  multiply.extents = {SizeProgram::extent(0)};
  p.load_steps = {pack};
  p.steps = {multiply};
  return p;
}

bool reads(const DeviceProgram& p, std::string* why) {
  const std::string bytes = p.bytes();
  DeviceProgram out;
  return DeviceProgram::read(bytes.data(), bytes.size(), &out, why);
}

TEST(DeviceProgram, BytesAndBack) {
  const std::string bytes = sample().bytes();
  DeviceProgram out;
  std::string why;
  ASSERT_TRUE(DeviceProgram::read(bytes.data(), bytes.size(), &out, &why)) << why;
  EXPECT_EQ(out.bytes(), bytes);
  ASSERT_EQ(out.load_steps.size(), 1u);
  EXPECT_EQ(out.buffers[2].kind, BufferKind::kPersistent);
  EXPECT_EQ(out.kernels[1].flops.evaluate({}), 32);
  EXPECT_EQ(used_at_run(out), (std::vector<bool>{true, false, true, true}));
}

TEST(DeviceProgram, NoPrefixIsAProgram) {
  const std::string bytes = sample().bytes();
  for (size_t n = 0; n < bytes.size(); ++n) {
    DeviceProgram out;
    std::string why;
    EXPECT_FALSE(DeviceProgram::read(bytes.data(), n, &out, &why)) << n;
    EXPECT_FALSE(why.empty());
  }
}

TEST(DeviceProgram, StepsOfTheLoadKeepToTheLoad) {
  std::string why;
  DeviceProgram p = sample();
  p.load_steps[0].buffers[0] = 0;
  EXPECT_FALSE(reads(p, &why));
  EXPECT_NE(why.find("only runs have"), std::string::npos) << why;
  p = sample();
  p.load_steps[0].written[0] = true;  // a constant
  EXPECT_FALSE(reads(p, &why));
  p = sample();
  p.kernels[0].extent_count = 1;
  p.load_steps[0].extents = {SizeProgram::extent(0)};
  EXPECT_FALSE(reads(p, &why));
  EXPECT_NE(why.find("a size of a run"), std::string::npos) << why;
  p = sample();
  p.steps[0].written[1] = true;
  EXPECT_FALSE(reads(p, &why));
  EXPECT_NE(why.find("writes a persistent buffer"), std::string::npos) << why;
  p = sample();
  p.load_steps[0].buffers[1] = 9;
  EXPECT_FALSE(reads(p, &why));
}

TEST(DeviceProgram, TheLoadIsLaidOutOnItsOwn) {
  DeviceProgram p = sample();
  p.kernels[0].scratch_bytes = size(128);
  ProgramLayout layout;
  std::string why;
  ASSERT_TRUE(layout_load_steps(p, {ScratchPer::kItem, 64}, &layout, &why)) << why;
  ASSERT_EQ(layout.launches.size(), 1u);
  EXPECT_EQ(layout.launches[0].range, 16);
  EXPECT_EQ(layout.workspace_bytes, 16u * 128);
  EXPECT_EQ(layout.bytes[2], 64u);
  p.buffers[2].bytes = size(-1);
  EXPECT_FALSE(layout_load_steps(p, {ScratchPer::kItem, 64}, &layout, &why));
}

}  // namespace
}  // namespace tenon::kernelgen
