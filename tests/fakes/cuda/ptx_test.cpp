// Instructions of PTX one by one, and texts that are refused.
#include "ptx.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "run.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kBase = uint64_t{1} << 46;

struct TestMemory final : Memory, Placement {
  std::vector<uint64_t> words = std::vector<uint64_t>(64, 0);
  std::vector<uint64_t> variable = std::vector<uint64_t>(8, 0);
  unsigned char* find(uint64_t address, uint64_t* begin, uint64_t* end) override {
    if (address < kBase || address >= kBase + 8 * words.size()) return nullptr;
    *begin = kBase;
    *end = kBase + 8 * words.size();
    return reinterpret_cast<unsigned char*>(words.data());
  }
  uint64_t place(uint64_t) override { return kBase; }
};

std::string module(const std::string& body) {
  return ".version 7.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry k(\n.param .u64 k_param_0\n)\n.maxntid 64, 1, 1\n{\n"
         ".reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n"
         ".reg .b64 %rd<9>;\n.reg .f64 %fd<9>;\n.shared .align 8 .b8 s[512];\n"
         "ld.param.u64 %rd0, [k_param_0];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd1, %r0, 8;\n"
         "add.s64 %rd2, %rd0, %rd1;\n" +
         body + "\nret;\n}\n";
}

// Runs the body with %rd2 at the thread's word, %r0 its number. Empty, or why it failed.
std::string run_body(const std::string& body, TestMemory& memory, uint32_t threads = 1) {
  Module m;
  std::string why;
  if (!parse(module(body), memory, &m, &why)) return why;
  const uint64_t parameter = kBase;
  const Grid grid{m.kernels.at("k").get(), 1, threads,
                  reinterpret_cast<const unsigned char*>(&parameter)};
  return run(grid, memory, &why) ? "" : why;
}

uint64_t result(const std::string& body) {
  TestMemory memory;
  EXPECT_EQ(run_body(body, memory), "");
  return memory.words[0];
}

// ---- What instructions mean ----

struct Row {
  const char* body;  // leaves its result in %rd3
  uint64_t right;
};

TEST(Ptx, Instructions) {
  const Row rows[] = {
      {"add.s32 %r1, 2147483647, 1;\ncvt.s64.s32 %rd3, %r1;", uint64_t(-2147483648ll)},
      {"mov.u32 %r1, -7;\ndiv.s32 %r2, %r1, 2;\ncvt.s64.s32 %rd3, %r2;", uint64_t(-3ll)},
      {"mov.u32 %r1, -7;\nshr.s32 %r2, %r1, 40;\ncvt.s64.s32 %rd3, %r2;", uint64_t(-1ll)},
      {"mov.u32 %r1, 1;\nshl.b32 %r2, %r1, 32;\ncvt.u64.u32 %rd3, %r2;", 0},
      {"mul.hi.u64 %rd3, -1, 16;", 15},
      {"mul.wide.s32 %rd3, -3, 5;", uint64_t(-15ll)},
      {"mad.lo.s32 %r1, 3, 4, 5;\ncvt.u64.u32 %rd3, %r1;", 17},
      {"min.s64 %rd3, -1, 3;", uint64_t(-1ll)},
      {"min.u64 %rd3, -1, 3;", 3},
      {"popc.b64 %r1, 255;\ncvt.u64.u32 %rd3, %r1;", 8},
      {"clz.b32 %r1, 1;\ncvt.u64.u32 %rd3, %r1;", 31},
      {"prmt.b32 %r1, 305419896, 0, 291;\ncvt.u64.u32 %rd3, %r1;", 0x78563412},
      {"shf.l.wrap.b32 %r1, -2147483648, 1, 1;\ncvt.u64.u32 %rd3, %r1;", 3},
      {"bfe.u32 %r1, 240, 4, 4;\ncvt.u64.u32 %rd3, %r1;", 15},
      {"bfe.s32 %r1, 240, 4, 4;\ncvt.s64.s32 %rd3, %r1;", uint64_t(-1ll)},
      {"bfi.b32 %r1, 3, 0, 4, 2;\ncvt.u64.u32 %rd3, %r1;", 0x30},
      {"mov.f32 %f1, 0f7F800000;\ncvt.rzi.s32.f32 %r1, %f1;\ncvt.s64.s32 %rd3, %r1;", 2147483647},
      {"mov.f32 %f1, 0f7FC00000;\ncvt.rzi.s32.f32 %r1, %f1;\ncvt.s64.s32 %rd3, %r1;", 0},
      {"mov.f32 %f1, 0f40200000;\ncvt.rni.f32.f32 %f2, %f1;\nmov.b32 %r1, %f2;\ncvt.u64.u32 %rd3, "
       "%r1;",
       0x40000000},
      {"mov.f32 %f1, 0f7FC00000;\nsetp.lt.f32 %p1, %f1, %f1;\nselp.b64 %rd3, 1, 2, %p1;", 2},
      {"mov.f32 %f1, 0f7FC00000;\nsetp.ltu.f32 %p1, %f1, %f1;\nselp.b64 %rd3, 1, 2, %p1;", 1},
      {"mov.f32 %f1, 0f7FC00000;\nmov.f32 %f2, 0f3F800000;\nmax.f32 %f3, %f1, %f2;\nmov.b32 %r1, "
       "%f3;\ncvt.u64.u32 %rd3, %r1;",
       0x3f800000},
      {"setp.eq.s32 %p1, 1, 1;\nsetp.lt.and.s32 %p2, 1, 2, %p1;\nselp.b64 %rd3, 1, 2, %p2;", 1},
      {"mov.b64 {%r1, %r2}, 4294967298;\nadd.s32 %r3, %r1, %r2;\ncvt.u64.u32 %rd3, %r3;", 3},
      {"mov.b64 %rd3, {%r0, 1};", uint64_t{1} << 32},
      {"{ .reg .b16 tmp;\nmov.b32 {tmp, %rs1}, 131071; }\ncvt.u64.u16 %rd3, %rs1;", 1},
      {"setp.eq.s32 %p1, 1, 1;\nmov.u64 %rd3, 1;\n@%p1 bra $L;\nmov.u64 %rd3, 2;\n$L:", 1},
      {"setp.eq.s32 %p1, 1, 1;\nmov.u64 %rd3, 1;\n@!%p1 bra $L;\nmov.u64 %rd3, 2;\n$L:", 2},
      // One rounding, not two.
      {"mov.f32 %f1, 0f3F800001;\nfma.rn.f32 %f2, %f1, 0f3F7FFFFF, 0fBF800000;\nmov.b32 %r1, "
       "%f2;\ncvt.u64.u32 %rd3, %r1;",
       0x337ffffe},
  };
  for (const Row& row : rows)
    EXPECT_EQ(result(row.body + std::string("\nst.global.u64 [%rd2], %rd3;")), row.right)
        << row.body;
}

TEST(Ptx, LoadsExtendTheSign) {
  TestMemory memory;
  memory.words[0] = 0xfffffffeu;
  ASSERT_EQ(run_body("ld.global.s32 %rd3, [%rd2];\nst.global.u64 [%rd2+8], %rd3;", memory), "");
  EXPECT_EQ(memory.words[1], uint64_t(-2ll));
}

TEST(Ptx, VectorsOfMemory) {
  TestMemory memory;
  memory.words[0] = 5, memory.words[1] = 7;
  ASSERT_EQ(run_body("ld.global.v2.u64 {%rd3, %rd4}, [%rd2];\nst.global.v2.u64 [%rd2+16], {%rd4, "
                     "%rd3};",
                     memory),
            "");
  EXPECT_EQ(memory.words[2], 7u);
  EXPECT_EQ(memory.words[3], 5u);
}

// Every thread stores, all meet, every thread reads its neighbour's.
// NVRTC says of parameters where they point to.
TEST(Ptx, ParametersThatPoint) {
  const std::string text = module("mov.u64 %rd3, 5;\nst.global.u64 [%rd2], %rd3;");
  const std::string plain = ".param .u64 k_param_0";
  std::string declared = text;
  declared.replace(text.find(plain), plain.size(), ".param .u64 .ptr .global .align 16 k_param_0");
  TestMemory memory;
  Module m;
  std::string why;
  ASSERT_TRUE(parse(declared, memory, &m, &why)) << why;
  EXPECT_EQ(m.kernels.at("k")->parameter_bytes, 8u);
}

TEST(Ptx, ThreadsMeetAtBarriers) {
  TestMemory memory;
  const std::string body =
      "mov.u64 %rd3, s;\nadd.s64 %rd4, %rd3, %rd1;\ncvt.u64.u32 %rd5, %r0;\nst.shared.u64 [%rd4], "
      "%rd5;\nbar.sync 0;\nxor.b64 %rd6, %rd1, 8;\nadd.s64 %rd6, %rd3, %rd6;\nld.shared.u64 %rd7, "
      "[%rd6];\nst.global.u64 [%rd2], %rd7;";
  ASSERT_EQ(run_body(body, memory, 64), "");
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(memory.words[i], i ^ 1);
}

TEST(Ptx, LanesExchangeValues) {
  TestMemory memory;
  ASSERT_EQ(run_body("shfl.sync.down.b32 %r1|%p1, %r0, 16, 31, -1;\ncvt.u64.u32 %rd3, "
                     "%r1;\nst.global.u64 [%rd2], %rd3;",
                     memory, 64),
            "");
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(memory.words[i], i % 32 < 16 ? i + 16 : i);
}

// ---- What is refused, and what stops a kernel ----

TEST(Ptx, RefusesByName) {
  const std::pair<const char*, const char*> rows[] = {
      {"wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned is not known"},
      {"ex2.approx.f32 %f1, %f2;", "ex2.approx.f32 is not known"},
      {"div.approx.f32 %f1, %f2, %f3;", ".approx of div.approx.f32 is not known"},
      {"add.rz.f32 %f1, %f2, %f3;", ".rz of add.rz.f32 is not known"},
      {"atom.global.add.u32 %r1, [%rd2], 1;", "atom.global.add.u32 is not known"},
      {"add.s32 %r1, %r2;", "add.s32 has 2 operands"},
      {"add.s32 %r1, %r99, 1;", "register %r99"},
      {"bra $nowhere;", "$nowhere is missing"},
      {"bar.sync 1;", "another barrier"},
      {"ld.global.u32 %r1;", "operands are missing"},
  };
  for (const auto& [body, part] : rows) {
    TestMemory memory;
    EXPECT_NE(run_body(body, memory).find(part), std::string::npos)
        << body << ": " << run_body(body, memory);
  }
}

TEST(Ptx, RefusesMoreParametersThanADriverTakes) {
  const auto why_not = [](const char* bytes) {
    TestMemory memory;
    Module m;
    std::string why, text = module("");
    text.replace(text.find(".param .u64 k_param_0"), 21,
                 std::string(".param .align 8 .b8 k_param_0[") + bytes + "]");
    return parse(text, memory, &m, &why) ? "" : why;
  };
  EXPECT_EQ(why_not("4096"), "");
  EXPECT_NE(why_not("4104").find("4104 bytes of parameters of k"), std::string::npos);
}

TEST(Ptx, StopsWhatIsWrong) {
  const std::pair<const char*, const char*> rows[] = {
      {"st.global.u64 [%rd2+512], %rd1;", "a store outside of any allocation"},
      {"ld.global.u64 %rd3, [%rd2+-8];", "a load outside of any allocation"},
      {"ld.global.u64 %rd3, [%rd2+4];", "not aligned"},
      {"mov.u64 %rd3, s;\nld.shared.u64 %rd4, [%rd3+512];", "outside of shared memory"},
      {"trap;", "a trap"},
  };
  for (const auto& [body, part] : rows) {
    TestMemory memory;
    EXPECT_NE(run_body(body, memory).find(part), std::string::npos) << body;
  }
}

// Every text that is cut short is refused or runs; none crashes.
TEST(Ptx, TextsCutShort) {
  const std::string whole = module("st.global.u64 [%rd2], %rd1;");
  for (size_t size = 0; size < whole.size(); ++size) {
    TestMemory memory;
    Module m;
    std::string why;
    if (!parse(whole.substr(0, size), memory, &m, &why)) {
      EXPECT_NE(why, "") << size;
    }
  }
}

}  // namespace
}  // namespace fake_cuda
