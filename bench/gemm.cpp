// Matrix products of kernelgen, relative to the multiply-add peak of the same minute.
//
//   bench_gemm [--type f32|bf16] [--isa avx512_bf16|avx512|avx2|baseline] [--threads N]
//              [--only M,N,K] [--weights constant|input]
//
// One line per shape: time of the best of several repetitions, GFLOPS, share of the peak loop that
// ran just before, and bytes per second (which limit a vector times a matrix). The data is random,
// because zeros draw less power and run faster.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

#include "tenon/kernelgen/fuse/load_time.h"
#include "tenon/kernelgen/testing/test_support.h"

namespace {

using namespace tenon::kernelgen;
using testing::Data;

struct Options {
  DType type = TENON_F32;
  Target target = Target::avx512_bf16();
  int threads = 1;
  bool constant = true;
  std::vector<int64_t> only;
};

struct Product {
  int64_t batch, m, n, k;
  bool b_transposed;  // b is [n][k], as linear layers and q k^T have it
  bool symbolic;      // m is known at run time only
};

double seconds() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch() /
                             std::chrono::nanoseconds(1)) *
         1e-9;
}

// The best of repetitions for about a fifth of a second.
template <class F>
double best_of(F f) {
  double best = 1e30;
  for (double until = seconds() + 0.2, from = 0; from < until;) {
    from = seconds();
    f();
    best = std::min(best, seconds() - from);
  }
  return best;
}

std::string peak_text(const Options& o) {
  const std::string bytes = std::to_string(o.target.vector_bytes);
  const bool pairs = o.type == TENON_BF16 && o.target.bf16;
  std::string s = "typedef float F __attribute__((vector_size(" + bytes + ")));\n";
  if (pairs) s += "typedef __bf16 H __attribute__((vector_size(64)));\n";
  s += "extern \"C\" float peak(long n, float x) {\n  F a = (F){} + x;\n";
  if (pairs) s += "  H h = __builtin_bit_cast(H, a);\n";
  for (int i = 0; i < 12; ++i) s += "  F c" + std::to_string(i) + " = a;\n";
  s += "  for (long i = 0; i < n; ++i) {\n";
  for (int i = 0; i < 12; ++i) {
    const std::string c = "c" + std::to_string(i);
    s += "    " + c +
         (pairs ? " = __builtin_ia32_dpbf16ps_512(" + c + ", h, h);" : " = " + c + " * a + a;") +
         " asm volatile(\"\" : \"+v\"(" + c + "));\n";
  }
  s += "  }\n  F r = c0";
  for (int i = 1; i < 12; ++i) s += " + c" + std::to_string(i);
  return s + ";\n  return r[0];\n}\n";
}

double peak_gflops(const Options& o) {
  static const testing::Library lib = testing::compile(peak_text(o), o.target);
  if (!lib.handle) {
    std::fprintf(stderr, "%s\n", lib.log.c_str());
    std::exit(1);
  }
  const auto loop = reinterpret_cast<float (*)(long, float)>(dlsym(lib.handle, "peak"));
  const bool pairs = o.type == TENON_BF16 && o.target.bf16;
  const long n = 2000000;
  const double t = best_of([&] {
    std::vector<std::thread> others;
    for (int i = 1; i < o.threads; ++i) others.emplace_back([&] { (void)loop(n, 0.5f); });
    (void)loop(n, 0.5f);
    for (std::thread& x : others) x.join();
  });
  const int lanes = static_cast<int>(o.target.vector_bytes / 4);
  return static_cast<double>(n) * 12 * lanes * (pairs ? 4 : 2) * o.threads / t * 1e-9;
}

// Runs the range in chunks that are claimed one by one, as the host's pool does.
void run_range(testing::Entry entry, void* const* buf, const int64_t* ext, int64_t range,
               int64_t grain, int threads, std::vector<char*>& scratch) {
  if (threads == 1) return entry(buf, ext, 0, range, scratch[0]);
  const int64_t chunk = std::max(grain, range / (threads * 4));
  std::atomic<int64_t> next{0};
  auto work = [&](int w) {
    for (int64_t at; (at = next.fetch_add(chunk)) < range;)
      entry(buf, ext, at, std::min(range, at + chunk), scratch[static_cast<size_t>(w)]);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& x : others) x.join();
}

void run(const Product& s, const Options& o) {
  Builder b;
  const ExprId m = s.symbolic ? b.extent({1, 1 << 20, 1, 0}) : b.dim(s.m);
  std::vector<ExprId> a_dims = {m, b.dim(s.k)}, b_dims = {b.dim(s.b_transposed ? s.n : s.k),
                                                          b.dim(s.b_transposed ? s.k : s.n)};
  std::vector<uint32_t> batch;
  if (s.batch > 1) {
    a_dims.insert(a_dims.begin(), b.dim(s.batch));
    b_dims.insert(b_dims.begin(), b.dim(s.batch));
    batch = {0};
  }
  const uint32_t first = static_cast<uint32_t>(batch.size());
  const Tensor x = b.input(o.type, a_dims), w = o.constant && s.batch == 1
                                                    ? b.constant(o.type, b_dims)
                                                    : b.input(o.type, b_dims);
  const uint32_t sum_a[] = {first + 1}, sum_b[] = {s.b_transposed ? first + 1 : first};
  b.output(b.dot(x, w, batch, batch, sum_a, sum_b));
  Kernel program = b.take_program();
  move_to_load(program, o.target);
  std::vector<Data> memory;
  const std::vector<int64_t> ext = s.symbolic ? std::vector<int64_t>{s.m} : std::vector<int64_t>{};
  std::mt19937 rng(1);
  std::uniform_real_distribution<double> u(-1, 1);
  for (const Buffer& buffer : program.buffers) {
    int64_t n = 1;
    for (ExprId d : buffer.dims) n *= program.pool.evaluate(d, ext);
    memory.emplace_back(buffer.type, static_cast<size_t>(n) + 16);
    const bool given = buffer.role == Role::kIn || buffer.role == Role::kConstant;
    for (size_t i = 0; given && i < memory.back().size(); ++i) memory.back().set(i, u(rng));
  }
  std::vector<Kernel> kernels = partition(program, o.target);
  Module module;
  std::string why;
  if (!generate(kernels, o.target, &module, &why))
    std::fprintf(stderr, "%s\n", why.c_str()), std::exit(1);
  const testing::Library lib = testing::compile(module.text, o.target);
  if (!lib.handle) std::fprintf(stderr, "%s\n", lib.log.c_str()), std::exit(1);
  const double flops = 2.0 * static_cast<double>(s.batch * s.m * s.n * s.k);
  double load = 0, time = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Launch& l = module.launches[i];
    std::vector<void*> buf;
    bool at_load = false;
    for (size_t j = 0; j < l.buffers.size(); ++j) {
      const uint32_t origin = kernels[i].buffer_origin[l.buffers[j]];
      buf.push_back(memory[origin].bytes.data());
      at_load |= l.written[j] && program.buffers[origin].role == Role::kPersistent;
    }
    const int64_t range = l.range.evaluate(ext);
    const size_t bytes = static_cast<size_t>(l.scratch_bytes.evaluate(ext) + 64) / 64 * 64;
    std::vector<char*> scratch;
    for (int t = 0; t < o.threads; ++t)
      scratch.push_back(static_cast<char*>(std::aligned_alloc(64, bytes)));
    const auto entry = reinterpret_cast<testing::Entry>(dlsym(lib.handle, l.entry.c_str()));
    auto once = [&] {
      run_range(entry, buf.data(), ext.data(), range, l.grain, o.threads, scratch);
    };
    if (at_load) {
      const double from = seconds();
      once();
      load += seconds() - from;
    } else {
      time += best_of(once);
    }
    for (char* p : scratch) std::free(p);
  }
  const double peak = peak_gflops(o), gflops = flops / time * 1e-9;
  const double bytes =
      static_cast<double>(s.batch * (s.m * s.k + s.k * s.n + s.m * s.n)) * size_of(o.type);
  std::printf(
      "%3lldx %6lld%s x %6lld x %5lld %s %10.1f us %8.1f GFLOPS %5.1f %% of %6.1f %7.1f GB/s  load "
      "%.1f ms\n",
      static_cast<long long>(s.batch), static_cast<long long>(s.m), s.symbolic ? "?" : " ",
      static_cast<long long>(s.n), static_cast<long long>(s.k), s.b_transposed ? "b^T" : "b  ",
      time * 1e6, gflops, 100 * gflops / peak, peak, bytes / time * 1e-9, load * 1e3);
  std::fflush(stdout);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--type") o.type = value == "bf16" ? TENON_BF16 : TENON_F32;
    if (key == "--isa")
      o.target = value == "avx2"       ? Target::avx2()
                 : value == "baseline" ? Target::baseline()
                 : value == "avx512"   ? Target::avx512()
                                       : Target::avx512_bf16();
    if (key == "--threads") o.threads = std::max(1, std::atoi(value.c_str()));
    if (key == "--weights") o.constant = value == "constant";
    if (key == "--only") {
      long long m = 0, n = 0, k = 0;
      if (std::sscanf(value.c_str(), "%lld,%lld,%lld", &m, &n, &k) == 3) o.only = {m, n, k};
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  std::vector<Product> shapes = {
      {1, 512, 512, 512, false, false},   {1, 1024, 1024, 1024, false, false},
      {1, 1024, 1024, 1024, true, false}, {1, 1024, 1024, 4096, true, false},
      {1, 128, 768, 768, true, false},    {1, 128, 2304, 768, true, false},
      {1, 128, 3072, 768, true, false},   {1, 128, 768, 3072, true, false},
      {1, 128, 50257, 768, true, false},  {1, 1007, 1007, 1007, true, false},
      {1, 77, 77, 77, true, false},       {1, 77, 768, 768, true, false},
      {1, 77, 768, 768, true, true},      {1, 128, 768, 768, true, true},
      {12, 128, 128, 64, true, false},    {12, 128, 64, 128, false, false},
      {1, 1, 768, 768, true, false},      {1, 1, 4096, 4096, true, false},
      {1, 1, 4096, 4096, true, true},     {1, 2, 4096, 4096, true, true},
      {1, 4, 4096, 4096, true, true},     {1, 5, 4096, 4096, true, true},
      {1, 6, 4096, 4096, true, true}};
  if (o.only.size() == 3)
    shapes = {{1, o.only[0], o.only[1], o.only[2], true, false},
              {1, o.only[0], o.only[1], o.only[2], true, true}};
  for (const Product& s : shapes) run(s, o);
}
