#include "toolchain/toolchain.h"

#include <gtest/gtest.h>

#include "test_host.h"

namespace tenon::cpu {
namespace {

tenon_code_t append(void* self, const void* data, uint64_t size) {
  static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
  return TENON_OK;
}

class Toolchain : public ::testing::Test {
 protected:
  tenon_code_t build(std::string_view dialect, std::string_view text, uint32_t isolated = 0,
                     std::string_view target = "") {
    bytes_.clear();
    diagnostics_.clear();
    auto options = sized<tenon_toolchain_options_t>();
    options.optimise = 1;
    options.isolated = isolated;
    const tenon_sink_t object = {&bytes_, &append}, diagnostics = {&diagnostics_, &append};
    return api_.build(nullptr, str(target), str(dialect), str(text), &options, &object,
                      &diagnostics);
  }
  template <typename F>
  F* symbol(const char* name) {
    void* address = nullptr;
    return api_.symbol(nullptr, module_, str(name), &address) == TENON_OK
               ? reinterpret_cast<F*>(address)
               : nullptr;
  }
  void load() {
    ASSERT_EQ(api_.load(nullptr, bytes_.data(), bytes_.size(), &module_), TENON_OK)
        << host_.failure;
  }
  void TearDown() override {
    if (module_) {
      api_.release(nullptr, module_);
    }
  }
  TestHost& host_ = TestHost::get();
  const tenon_toolchain_api_t& api_ = kToolchainTable;
  std::string bytes_, diagnostics_;
  tenon_module_t* module_ = nullptr;
};

TEST_F(Toolchain, CppToCallable) {
  ASSERT_EQ(build("c++", "extern \"C\" int twice(int x) { return 2 * x; }"), TENON_OK)
      << diagnostics_;
  load();
  EXPECT_EQ(symbol<int(int)>("twice")(21), 42);
  EXPECT_EQ(symbol<int(int)>("thrice"), nullptr);
}

TEST_F(Toolchain, CudaKernelsBecomePtx) {
  const char* text =
      "extern \"C\" __attribute__((global)) void twice(float* x) {"
      " const int i = __nvvm_read_ptx_sreg_tid_x(); x[i] = x[i] + x[i]; __syncthreads(); }";
  ASSERT_EQ(build("cuda-c++", text, 0, "cuda sm_80"), TENON_OK) << diagnostics_;
  for (const char* part : {".version 7.0", ".target sm_80", ".entry twice", "bar.sync"})
    EXPECT_NE(bytes_.find(part), std::string::npos) << part << " is not in\n" << bytes_;
  ASSERT_EQ(build("cuda-c++", text, 0, "cuda sm_90"), TENON_OK) << diagnostics_;
  EXPECT_NE(bytes_.find(".target sm_90"), std::string::npos);
}

// A code object: AMDGPU's ELF, shared, for HSA, with a descriptor for the kernel and notes.
TEST_F(Toolchain, HipKernelsBecomeCodeObjects) {
  const char* text =
      "extern \"C\" __attribute__((global)) void twice(float* x) {"
      " const int i = __builtin_amdgcn_workitem_id_x(); x[i] = x[i] + x[i]; }";
  for (const char* target : {"rocm gfx90a", "rocm gfx942", "rocm gfx1100", "rocm gfx1201"}) {
    ASSERT_EQ(build("hip-c++", text, 0, target), TENON_OK) << target << diagnostics_;
    EXPECT_TRUE(
        bytes_.starts_with("\x7f"
                           "ELF\x02\x01\x01\x40\x03"))
        << target;
    for (const char* part : {"twice.kd", "amdhsa.kernels", ".vgpr_count"})
      EXPECT_NE(bytes_.find(part), std::string::npos) << part;
  }
}

TEST_F(Toolchain, HipRefusesWhatNoRuntimeCouldLoad) {
  for (const char* target : {"", "rocm", "rocm gfx9", "gfx942", "cuda sm_90"})
    EXPECT_EQ(build("hip-c++", "", 0, target), TENON_INVALID_ARGUMENT) << target;
  EXPECT_EQ(build("hip-c++", "", 1, "rocm gfx942"), TENON_UNIMPLEMENTED);
  EXPECT_EQ(build("hip-c++", "nonsense", 0, "rocm gfx942"), TENON_INVALID_ARGUMENT);
  EXPECT_NE(build("hip-c++",
                  "extern \"C\" __attribute__((device)) float other(float);"
                  " extern \"C\" __attribute__((global)) void k(float* x) { *x = other(*x); }",
                  0, "rocm gfx942"),
            TENON_OK);
  EXPECT_NE(api_.version.size, 0u);
}

TEST_F(Toolchain, CudaIsCompiledForArchitecturesThatClangKnows) {
  for (const char* target : {"", "cuda", "cuda sm_9", "cuda sm_100", "sm_90", "cpu isa=avx2"}) {
    EXPECT_EQ(build("cuda-c++", "", 0, target), TENON_INVALID_ARGUMENT) << target;
    EXPECT_NE(host_.failure.find("sm_90"), std::string::npos) << host_.failure;
  }
  EXPECT_EQ(build("cuda-c++", "", 1, "cuda sm_90"), TENON_UNIMPLEMENTED);
  EXPECT_EQ(build("cuda-c++", "nonsense", 0, "cuda sm_90"), TENON_INVALID_ARGUMENT);
  EXPECT_NE(diagnostics_.find("nonsense"), std::string::npos);
}

TEST_F(Toolchain, OpenclKernelsRunByItems) {
  ASSERT_EQ(build("opencl-c",
                  "__kernel void scale(__global float* x, float a) {"
                  "  x[get_global_id(0)] *= a; }"),
            TENON_OK)
      << diagnostics_;
  load();
  auto run = reinterpret_cast<tenon_opencl_run_t>(symbol<void()>("scale__run"));
  ASSERT_NE(run, nullptr);
  float x[4] = {1, 2, 3, 4}, a = 10;
  void* args[] = {x, &a};
  const uint64_t size[] = {4, 1, 1}, begin[] = {1, 0, 0}, end[] = {3, 1, 1};
  run(args, size, begin, end);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[1], 20);
  EXPECT_EQ(x[2], 30);
  EXPECT_EQ(x[3], 4);
}

// Counts of the accesses made by the kernel below.
int g_reads = 0, g_writes = 0;
void count_access(const void*, uint64_t size_bytes, uint32_t kind) {
  (kind == TENON_OPENCL_WRITE ? g_writes : g_reads) += static_cast<int>(size_bytes);
}

TEST_F(Toolchain, AWatchedKernelTellsOfItsAccesses) {
  const tenon_key_value_t watch = {str(TENON_TOOLCHAIN_WATCH), str("1")};
  auto options = sized<tenon_toolchain_options_t>();
  options.options = &watch;
  options.option_count = 1;
  const tenon_sink_t object = {&bytes_, &append}, diagnostics = {&diagnostics_, &append};
  const char* text =
      "__kernel void k(__global float* x) { float own[2]; __local float tile[4];"
      "  own[0] = x[get_global_id(0)]; tile[1] = own[0]; x[get_global_id(0)] = tile[1] + 1; }";
  ASSERT_EQ(
      api_.build(nullptr, str(""), str("opencl-c"), str(text), &options, &object, &diagnostics),
      TENON_OK)
      << host_.failure;
  load();
  *symbol<tenon_opencl_access_t>("tenon_opencl_access") = count_access;
  float x[2] = {1, 2};
  void* args[] = {x};
  const uint64_t size[] = {2, 1, 1}, begin[] = {0, 0, 0};
  reinterpret_cast<tenon_opencl_run_t>(symbol<void()>("k__run"))(args, size, begin, size);
  EXPECT_EQ(x[1], 3);
  EXPECT_EQ(g_reads, 16);  // x and tile, 4 bytes each, twice
  EXPECT_EQ(g_writes, 16);
  std::string names;
  auto list = reinterpret_cast<tenon_opencl_variables_t>(symbol<void()>("tenon_opencl_variables"));
  list(
      [](void* context, const char* name, void*, uint64_t bytes, uint32_t local) {
        *static_cast<std::string*>(context) += cat(name, " ", bytes, " ", local, ";");
      },
      &names);
  EXPECT_EQ(names, "k.tile 16 1;");
  EXPECT_EQ(api_.build(nullptr, str(""), str("c++"), str(""), &options, &object, &diagnostics),
            TENON_INVALID_ARGUMENT);
}

TEST_F(Toolchain, SecondBuildComesFromTheCache) {
  const std::string text = "extern \"C\" int cached() { return 5; }";
  host_.cache.clear();
  ASSERT_EQ(build("c++", text), TENON_OK);
  ASSERT_EQ(host_.cache.size(), 1u);
  host_.cache.begin()->second = "from the cache";
  ASSERT_EQ(build("c++", text), TENON_OK);
  EXPECT_EQ(bytes_, "from the cache");
  host_.cache.clear();
}

TEST_F(Toolchain, IsolatedTextThatKillsTheCompiler) {
  const char* text =
      "typedef float v8 __attribute__((vector_size(32)));"
      "v8 load(const v8* p, int align, v8 mask) __asm__(\"llvm.masked.load\");"
      "extern \"C\" void f(v8* x) { *x = load(x, 4, *x); }";
  EXPECT_EQ(build("c++", text, 1), TENON_ABORTED);
  EXPECT_NE(host_.failure.find("died of signal"), std::string::npos) << host_.failure;
}

TEST_F(Toolchain, SaysWhatIsWrong) {
  EXPECT_EQ(build("c++", "int f( {"), TENON_INVALID_ARGUMENT);
  EXPECT_NE(diagnostics_.find("error:"), std::string::npos);
  EXPECT_EQ(build("fortran", ""), TENON_INVALID_ARGUMENT);
  EXPECT_NE(host_.failure.find("'fortran'"), std::string::npos) << host_.failure;
  EXPECT_EQ(build("c++", "", 0, "sim"), TENON_INVALID_ARGUMENT);
  EXPECT_NE(host_.failure.find("'sim'"), std::string::npos) << host_.failure;
  EXPECT_EQ(build("c++", "extern \"C\" int nowhere(); extern \"C\" int f() { return nowhere(); }"),
            TENON_OK);
  EXPECT_EQ(api_.load(nullptr, bytes_.data(), bytes_.size(), &module_), TENON_INVALID_ARGUMENT);
  EXPECT_NE(host_.failure.find("nowhere"), std::string::npos) << host_.failure;
}

}  // namespace
}  // namespace tenon::cpu
