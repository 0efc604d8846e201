#include "compiler.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

double now_ms() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(clock::now().time_since_epoch()).count();
}

void append(void* context, const char* data, uint64_t size) {
  static_cast<std::string*>(context)->append(data, size);
}

tenon_clang_str_t str(const std::string& text) {
  return {text.data(), text.size()};
}

const tenon_clang_t& compiler() {
  static const tenon_clang_t* table = [] {
    const double start = now_ms();
    void* library = dlopen(TENON_CLANG_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    std::printf("dlopen of the compiler library: %.1f ms\n", now_ms() - start);
    auto query = reinterpret_cast<tenon_clang_query_fn>(dlsym(library, TENON_CLANG_QUERY_NAME));
    return query(TENON_CLANG_ABI);
  }();
  return *table;
}

struct Built {
  int32_t code;
  std::string bytes, messages;
};

Built build(const std::string& text, uint32_t dialect, uint32_t output = TENON_CLANG_OBJECT,
            const std::string& cpu = "x86-64-v3") {
  tenon_clang_options_t options = {};
  options.size_bytes = sizeof(options);
  options.dialect = dialect;
  options.opt_level = 1;
  options.output = output;
  options.cpu = str(cpu);
  Built built;
  built.code =
      compiler().build(str(text), &options, &append, &built.bytes, &append, &built.messages);
  return built;
}

// Links and opens a test's objects in a directory of its own.
class Loaded {
 public:
  explicit Loaded(const std::vector<std::string>& objects) {
    char pattern[] = "/tmp/tenon-compiler-test-XXXXXX";
    folder_ = mkdtemp(pattern);
    const std::string path = folder_ + "/kernels.so";
    std::vector<tenon_clang_str_t> spans;
    for (const std::string& object : objects) {
      spans.push_back(str(object));
    }
    std::string bytes, messages;
    double start = now_ms();
    EXPECT_EQ(compiler().link(spans.data(), spans.size(), &append, &bytes, &append, &messages), 0)
        << messages;
    std::ofstream(path, std::ios::binary) << bytes;
    const double linked = now_ms();
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    std::printf("link %.2f ms, dlopen %.2f ms\n", linked - start, now_ms() - linked);
  }
  ~Loaded() {
    if (library_) {
      dlclose(library_);
    }
    std::filesystem::remove_all(folder_);
  }
  template <typename F>
  F* symbol(const char* name) {
    return library_ ? reinterpret_cast<F*>(dlsym(library_, name)) : nullptr;
  }

 private:
  std::string folder_;
  void* library_ = nullptr;
};

std::string softmax(const std::string& name) {
  return R"(
typedef float v8 __attribute__((vector_size(32), aligned(4)));
typedef int i8 __attribute__((vector_size(32), aligned(4)));
static inline v8 exp8(v8 x) {
  v8 n = __builtin_elementwise_roundeven(x * 1.44269504f);
  v8 r = x - n * 0.693359375f + n * 2.12194440e-4f;
  v8 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f; p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f; p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  return p * (v8)((__builtin_convertvector(n, i8) + 127) << 23);
}
extern "C" void )" +
         name + R"((void* const* buf, const long* ext, long begin, long end, void*) {
  const long n = ext[0];
  for (long row = begin; row < end; ++row) {
    const float* x = (const float*)buf[0] + row * n;
    float* y = (float*)buf[1] + row * n;
    v8 m = {-1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f, -1e30f};
    for (long j = 0; j < n; j += 8) m = __builtin_elementwise_max(m, *(const v8*)(x + j));
    float top = m[0];
    for (int k = 1; k < 8; ++k) top = top > m[k] ? top : m[k];
    v8 s = {};
    for (long j = 0; j < n; j += 8) {
      v8 e = exp8(*(const v8*)(x + j) - top);
      *(v8*)(y + j) = e;
      s += e;
    }
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += s[k];
    for (long j = 0; j < n; j += 8) *(v8*)(y + j) = *(const v8*)(y + j) / sum;
  }
})";
}

using Kernel = void(void* const*, const int64_t*, int64_t, int64_t, void*);

TEST(Compiler, SoftmaxKernelRunsAndCompilesInMilliseconds) {
  compiler();
  double start = now_ms();
  Built first = build(softmax("first"), TENON_CLANG_CXX);
  ASSERT_EQ(first.code, 0) << first.messages;
  std::printf("first kernel %.1f ms\n", now_ms() - start);
  start = now_ms();
  Built second = build(softmax("second"), TENON_CLANG_CXX);
  ASSERT_EQ(second.code, 0) << second.messages;
  std::printf("next kernel %.1f ms\n", now_ms() - start);
  Loaded loaded({first.bytes, second.bytes});
  auto* kernel = loaded.symbol<Kernel>("second");
  ASSERT_NE(kernel, nullptr);
  std::vector<float> x(64), y(64);
  for (int i = 0; i < 64; ++i) {
    x[i] = static_cast<float>(i % 7) - 3.0f;
  }
  void* buffers[] = {x.data(), y.data()};
  const int64_t extents[] = {32};
  kernel(buffers, extents, 0, 2, nullptr);
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int j = 0; j < 32; ++j) {
      sum += std::exp(x[row * 32 + j]);
    }
    for (int j = 0; j < 32; ++j) {
      EXPECT_NEAR(y[row * 32 + j], std::exp(x[row * 32 + j]) / sum, 1e-6);
    }
  }
}

TEST(Compiler, ErrorsNameFileLineAndColumn) {
  Built built = build("int f() {\n  return missing;\n}\n", TENON_CLANG_CXX);
  EXPECT_EQ(built.code, TENON_CLANG_BAD_TEXT);
  EXPECT_NE(built.messages.find("kernel.cpp:2:10: error: use of undeclared identifier 'missing'"),
            std::string::npos)
      << built.messages;
  EXPECT_TRUE(built.bytes.empty());
}

TEST(Compiler, UnknownCpuIsAnError) {
  Built built = build("int x;", TENON_CLANG_CXX, TENON_CLANG_OBJECT, "abacus");
  EXPECT_EQ(built.code, TENON_CLANG_BAD_TEXT);
  EXPECT_NE(built.messages.find("unknown target CPU 'abacus'"), std::string::npos)
      << built.messages;
}

TEST(Compiler, AssemblyUsesTheWholeWidthAskedFor) {
  const std::string text =
      "typedef float v16 __attribute__((vector_size(64), aligned(4)));\n"
      "extern \"C\" void f(float* x) { *(v16*)x += 1.0f; }\n";
  Built wide = build(text, TENON_CLANG_CXX, TENON_CLANG_ASSEMBLY, "x86-64-v4");
  EXPECT_NE(wide.bytes.find("%zmm"), std::string::npos) << wide.bytes << wide.messages;
  Built narrow = build(text, TENON_CLANG_CXX, TENON_CLANG_ASSEMBLY, "x86-64");
  EXPECT_EQ(narrow.bytes.find("%ymm"), std::string::npos) << narrow.bytes;
}

// A product and a sum become one instruction where the text asks for it, and nowhere else. What a
// target lacks does not become a call of a library.
TEST(Compiler, JoinsProductsAndSumsOnlyWhereAsked) {
  const std::string plain =
      "extern \"C\" float f(float a, float b, float c) { float p = a * b; return p + c; }\n"
      "extern \"C\" float g(float a, float b, float c) { return a * b + c; }";
  const std::string asked =
      "extern \"C\" float f(float a, float b, float c) { "
      "_Pragma(\"clang fp contract(on)\") return a * b + c; }";
  const std::string opencl = "float f(float a, float b, float c) { return mad(a, b, c); }";
  const std::string always = "float f(float a, float b, float c) { return a * b + c; }";
  const auto assembly = [](const std::string& text, uint32_t dialect, const char* cpu) {
    Built built = build(text, dialect, TENON_CLANG_ASSEMBLY, cpu);
    EXPECT_EQ(built.code, 0) << built.messages;
    return built.bytes;
  };
  const char* const kJoined = "vfmadd";
  const char* const kNew = "x86-64-v3";
  for (const uint32_t dialect : {TENON_CLANG_CXX, TENON_CLANG_ITEMS_CXX})
    EXPECT_EQ(assembly(plain, dialect, kNew).find(kJoined), std::string::npos);
  EXPECT_EQ(assembly(always, TENON_CLANG_OPENCL_C, kNew).find(kJoined), std::string::npos);
  EXPECT_NE(assembly("#pragma OPENCL FP_CONTRACT ON\n" + always, TENON_CLANG_OPENCL_C, kNew)
                .find(kJoined),
            std::string::npos);
  EXPECT_NE(assembly(opencl, TENON_CLANG_OPENCL_C, kNew).find(kJoined), std::string::npos);
  EXPECT_NE(assembly(asked, TENON_CLANG_CXX, kNew).find(kJoined), std::string::npos);
  for (const uint32_t dialect : {TENON_CLANG_CXX, TENON_CLANG_ITEMS_CXX})
    EXPECT_EQ(assembly(asked, dialect, "x86-64").find("fma"), std::string::npos);
  EXPECT_EQ(assembly(opencl, TENON_CLANG_OPENCL_C, "x86-64").find("fma"), std::string::npos);
}

TEST(Compiler, CompilesOnSeveralThreads) {
  std::vector<Built> built(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 8; i += 4) {
        built[i] = build(softmax("k" + std::to_string(i)), TENON_CLANG_CXX);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<std::string> objects;
  for (const Built& b : built) {
    ASSERT_EQ(b.code, 0) << b.messages;
    objects.push_back(b.bytes);
  }
  Loaded loaded(objects);
  EXPECT_NE(loaded.symbol<Kernel>("k7"), nullptr);
}

TEST(Compiler, LinkOfGarbageFailsInWords) {
  Built built = build("extern \"C\" int f() { return 1; }", TENON_CLANG_CXX);
  const std::string garbage[] = {"not an object",
                                 "\x7f"
                                 "ELF"};
  for (const std::string& object : garbage) {
    const tenon_clang_str_t span = str(object);
    std::string bytes, messages;
    EXPECT_NE(compiler().link(&span, 1, &append, &bytes, &append, &messages), 0);
    EXPECT_FALSE(messages.empty());
    EXPECT_TRUE(bytes.empty());
  }
  Loaded still_works({built.bytes});
  EXPECT_NE(still_works.symbol<int()>("f"), nullptr);
}

// As one archive: with a file for each object, the process would run out of descriptors.
TEST(Compiler, LinksManyObjects) {
  std::vector<std::string> objects;
  for (int i = 0; i < 150; ++i) {
    Built built =
        build("extern \"C\" int f" + std::to_string(i) + "() { return " + std::to_string(i) + "; }",
              TENON_CLANG_CXX);
    ASSERT_EQ(built.code, 0) << built.messages;
    objects.push_back(std::move(built.bytes));
  }
  Loaded loaded(objects);
  for (int i : {0, 7, 149}) {
    auto* f = loaded.symbol<int()>(("f" + std::to_string(i)).c_str());
    ASSERT_NE(f, nullptr) << i;
    EXPECT_EQ(f(), i);
  }
}

// Larger than the buffer of a pipe.
TEST(Compiler, LinksLargeModules) {
  Built built =
      build("extern \"C\" { extern const int table[500000] = {1, 2, 3}; }", TENON_CLANG_CXX);
  ASSERT_EQ(built.code, 0) << built.messages;
  Loaded loaded({built.bytes});
  const int* table = loaded.symbol<const int>("table");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table[2], 3);
}

using RunItems = void(void* const*, const uint64_t*, const uint64_t*, const uint64_t*);

TEST(OpenclC, RunsWorkItemsOneAfterAnother) {
  double start = now_ms();
  Built built = build(R"(
typedef struct { float a, b; } pair;
__kernel void axpy(__global const float* restrict x, __global float* y, float a, const uint n,
                   __local float* scratch, pair p, __constant float* c) {
  size_t i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  if (i >= n) return;
  scratch[get_local_id(0)] = fma(a, x[i], exp(x[i])) + p.b;
  float4 v = (float4)(scratch[get_local_id(0)], tanh(x[i]), max(x[i], 0.5f), erf(c[0]));
  y[i] = v.x + v.y + v.z + v.w + (float)get_group_id(0) + (float)get_local_size(0);
})",
                      TENON_CLANG_OPENCL_C);
  ASSERT_EQ(built.code, 0) << built.messages;
  std::printf("OpenCL C kernel %.1f ms\n", now_ms() - start);
  Loaded loaded({built.bytes});
  auto* run = loaded.symbol<RunItems>("axpy__run");
  ASSERT_NE(run, nullptr);
  std::vector<float> x(16), y(16, -1.0f);
  for (int i = 0; i < 16; ++i) {
    x[i] = 0.1f * static_cast<float>(i);
  }
  float a = 3.0f, scratch[1], pair[2] = {0, 0.25f}, constant = 0.3f;
  uint32_t n = 15;
  void* args[] = {x.data(), y.data(), &a, &n, scratch, pair, &constant};
  const uint64_t global[] = {8, 2, 1}, begin[] = {0, 0, 0};
  run(args, global, begin, global);
  for (int i = 0; i < 15; ++i) {
    const float expected = 3.0f * x[i] + std::exp(x[i]) + 0.25f + std::tanh(x[i]) +
                           std::max(x[i], 0.5f) + std::erf(0.3f) + static_cast<float>(i % 8) + 1.0f;
    EXPECT_NEAR(y[i], expected, 1e-5) << i;
  }
  EXPECT_EQ(y[15], -1.0f);
}

// The loader's own call clobbers registers that code generation assumes to be preserved, so only
// functions made for this purpose may call it.
TEST(OpenclC, AsksForThreadLocalAddressesByOrdinaryCalls) {
  for (uint32_t dialect : {TENON_CLANG_OPENCL_C, TENON_CLANG_OPENCL_C_WATCHED}) {
    Built built = build(R"(
__kernel void k(__global const float* x, __global float* y) {
  __local float tile[64];
  const float v = x[get_global_id(0)];
  tile[get_global_id(0)] = v;
  y[0] = tile[63 - get_global_id(0)] + v;
})",
                        dialect, TENON_CLANG_ASSEMBLY);
    ASSERT_EQ(built.code, 0) << built.messages;
    size_t found = 0;
    std::string function;
    std::istringstream lines(built.bytes);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && (std::isalpha(line[0]) || line[0] == '_')) function = line;
      if (line.find("__tls_get_addr") == std::string::npos) continue;
      ++found;
      EXPECT_EQ(function.find("__tenon_address_of_"), 0u) << function;
    }
    EXPECT_GE(found, 2u) << built.bytes;
  }
}

TEST(OpenclC, RefusesBarriersAndImagesInWords) {
  Built barrier =
      build("__kernel void k(__global int* x) { barrier(1); x[0] = 1; }", TENON_CLANG_OPENCL_C);
  EXPECT_EQ(barrier.code, TENON_CLANG_BAD_TEXT);
  EXPECT_NE(barrier.messages.find("cannot meet at a barrier"), std::string::npos)
      << barrier.messages;
  EXPECT_NE(barrier.messages.find("kernel.cl:1:"), std::string::npos) << barrier.messages;
  Built image = build("__kernel void k(read_only image2d_t x) { }", TENON_CLANG_OPENCL_C);
  EXPECT_EQ(image.code, TENON_CLANG_BAD_TEXT);
  EXPECT_FALSE(image.messages.empty());
}

// lld ends the process on errors that it calls fatal. Here it returns, and reports from then on
// that it cannot run again. The name of the suite puts the test last.
TEST(ZCompilerLast, ATruncatedObjectDoesNotEndTheProcess) {
  Built built = build("extern \"C\" int f() { return 1; }", TENON_CLANG_CXX);
  const std::string cut = built.bytes.substr(0, 100);
  const tenon_clang_str_t span = str(cut);
  for (int round = 0; round < 2; ++round) {
    std::string bytes, messages;
    EXPECT_NE(compiler().link(&span, 1, &append, &bytes, &append, &messages), 0);
    EXPECT_FALSE(messages.empty());
  }
}

}  // namespace
