// cuBLASLt's functions, as far as plugins/cublaslt calls them, on the memory and the streams of the
// tests' CUDA driver. What the library would let pass, or answer with wrong numbers, is an error
// here.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "declarations.h"

using namespace tenon::cublaslt;

#define EXPORT extern "C" __attribute__((visibility("default"))) int
#define REQUIRE(condition, code)   \
  do {                             \
    if (!(condition)) return code; \
  } while (false)
#define BEGIN()                                                               \
  do {                                                                        \
    if (const int code = begin_call(__func__); code != kSuccess) return code; \
  } while (false)

namespace {

// What the tests' driver has for other libraries of its vendor.
struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  int (*stream_context)(void*, void**) = nullptr;
  void (*put)(void*, void (*)(void*, void*), void*) = nullptr;
  unsigned char* (*memory)(void*, uint64_t, uint64_t) = nullptr;
  Driver() {
    find("cuStreamGetCtx", &stream_context);
    find("fake_cuda_put", &put);
    find("fake_cuda_memory", &memory);
  }
  template <class F>
  void find(const char* name, F* out) {
    *out = reinterpret_cast<F>(dlsym(library, name));
  }
  bool has_current() const {
    void* context = nullptr;
    return stream_context(nullptr, &context) == 0;
  }
};
const Driver& driver() {
  static const Driver instance;
  return instance;
}

// ---- Calls that fail because the tests want it ----

std::atomic<uint64_t> calls{0}, fail_at{0}, products{0};
std::atomic<int> fail_code{kInternalError};

// What the tests want of the library: FAKE_CUBLASLT=version=13000,algorithms=0,handles=0.
int setting(const char* key, int otherwise) {
  const char* all = std::getenv("FAKE_CUBLASLT");
  const char* at = all == nullptr ? nullptr : std::strstr(all, key);
  return at == nullptr ? otherwise : std::atoi(at + std::strlen(key) + 1);
}

int begin_call(const char*) {
  return ++calls == fail_at ? fail_code.load() : static_cast<int>(kSuccess);
}

// ---- Objects ----

struct Object {
  virtual ~Object() = default;
};
struct Context final : Object {};
struct Desc final : Object {
  int compute = 0, scale = 0;
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = kEpilogueNone;
  uint64_t bias = 0;
};
struct Matrix final : Object {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0, batch_stride = 0;
  int32_t batch = 1;

  uint64_t element_bytes() const { return type == kF32 ? 4 : 2; }
  // From the first element to the end of the last.
  uint64_t span_bytes() const {
    return (static_cast<uint64_t>(batch - 1) * static_cast<uint64_t>(batch_stride) +
            (columns - 1) * static_cast<uint64_t>(leading) + rows) *
           element_bytes();
  }
};
struct Wish final : Object {
  uint64_t workspace = 0;
  uint32_t reductions = UINT32_MAX;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

std::mutex mutex;
std::set<Object*> objects;

template <class T>
int make(void* out) {
  auto* made = new T;
  const std::lock_guard lock(mutex);
  objects.insert(made);
  *static_cast<T**>(out) = made;
  return kSuccess;
}
template <class T, class H>
T* find(H handle) {
  auto* object = reinterpret_cast<T*>(handle);
  const std::lock_guard lock(mutex);
  return objects.contains(object) ? dynamic_cast<T*>(static_cast<Object*>(object)) : nullptr;
}
// Also where the tests make the call fail, as a library does that reports an earlier error.
template <class T, class H>
int destroy(H handle, int code) {
  T* const object = find<T>(handle);
  REQUIRE(object != nullptr, kInvalidValue);
  const std::lock_guard lock(mutex);
  objects.erase(object);
  delete object;
  return code;
}

template <class T>
int store(T* to, const void* from, size_t bytes) {
  REQUIRE(from != nullptr && bytes == sizeof(T), kInvalidValue);
  std::memcpy(to, from, bytes);
  return kSuccess;
}

// ---- Products ----

struct Problem {
  Desc desc;
  Matrix a, b, c, d;
};

// Everything that an algorithm is chosen for; the bias counts by its alignment alone.
uint64_t digest(const Problem& p) {
  uint64_t out = 17;
  const auto mix = [&](uint64_t v) { out = (out ^ v) * 0x9e3779b97f4a7c15; };
  mix(static_cast<uint64_t>(p.desc.compute) << 32 | p.desc.epilogue);
  mix(static_cast<uint64_t>(p.desc.transpose_a * 2 + p.desc.transpose_b));
  for (const Matrix* m : {&p.a, &p.b, &p.c, &p.d}) {
    mix(static_cast<uint64_t>(m->type));
    for (const uint64_t n :
         {m->rows, m->columns, static_cast<uint64_t>(m->leading),
          static_cast<uint64_t>(m->batch_stride), static_cast<uint64_t>(m->batch)})
      mix(n);
  }
  return out;
}

bool has(const Desc& desc, uint32_t bit) {
  return (desc.epilogue & bit) != 0;
}

int check(const Problem& p) {
  const Desc& d = p.desc;
  REQUIRE(d.scale == kF32, kNotSupported);
  REQUIRE(d.compute == kCompute32 || (d.compute == kComputeTf32 && p.a.type == kF32),
          kNotSupported);
  REQUIRE(p.a.type == p.b.type && p.c.type == p.d.type, kNotSupported);
  REQUIRE(p.d.type == p.a.type || p.d.type == kF32, kNotSupported);
  for (const Matrix* m : {&p.a, &p.b, &p.c, &p.d}) {
    REQUIRE(m->rows > 0 && m->columns > 0, kInvalidValue);
    REQUIRE(m->leading >= static_cast<int64_t>(m->rows), kInvalidValue);
    REQUIRE(m->batch == p.d.batch && m->batch > 0, kInvalidValue);
    REQUIRE(m->batch == 1 || m->batch_stride > 0, kInvalidValue);
  }
  const uint64_t rows = d.transpose_a != 0 ? p.a.columns : p.a.rows;
  const uint64_t depth = d.transpose_a != 0 ? p.a.rows : p.a.columns;
  const uint64_t depth_b = d.transpose_b != 0 ? p.b.columns : p.b.rows;
  const uint64_t columns = d.transpose_b != 0 ? p.b.rows : p.b.columns;
  REQUIRE(depth == depth_b && p.d.rows == rows && p.d.columns == columns, kInvalidValue);
  REQUIRE(p.c.rows == rows && p.c.columns == columns, kInvalidValue);
  const bool known = d.epilogue == kEpilogueNone || d.epilogue == kEpilogueBias ||
                     (d.epilogue & ~uint32_t{kEpilogueBias}) == kEpilogueRelu ||
                     (d.epilogue & ~uint32_t{kEpilogueBias}) == kEpilogueGelu;
  REQUIRE(known, kNotSupported);
  return kSuccess;
}

float f16_to_float(uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<float>(value);
}
float load(const unsigned char* data, int type, uint64_t index) {
  uint32_t wide = 0;
  uint16_t narrow = 0;
  if (type == kF32) {
    std::memcpy(&wide, data + index * 4, 4);
  } else {
    std::memcpy(&narrow, data + index * 2, 2);
    if (type == kF16) return f16_to_float(narrow);
    wide = static_cast<uint32_t>(narrow) << 16;
  }
  float out = 0;
  std::memcpy(&out, &wide, 4);
  return out;
}
void store(unsigned char* data, int type, uint64_t index, float value) {
  if (type == kF32) {
    std::memcpy(data + index * 4, &value, 4);
  } else if (type == kF16) {
    const auto narrow = static_cast<_Float16>(value);
    std::memcpy(data + index * 2, &narrow, 2);
  } else {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    if (std::isnan(value)) {
      bits |= 1u << 22;
    } else {
      bits += 0x7fff + (bits >> 16 & 1);
    }
    const auto narrow = static_cast<uint16_t>(bits >> 16);
    std::memcpy(data + index * 2, &narrow, 2);
  }
}
// 10 bits of the fraction are left, as tensor cores read f32.
float as_tf32(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff};
  std::memcpy(&value, &bits, 4);
  return value;
}

// As the library's are: relu loses NaN, gelu is the approximation by tanh.
float curve(const Desc& desc, float x) {
  if (has(desc, kEpilogueRelu)) return x > 0 ? x : 0;
  if (!has(desc, kEpilogueGelu)) return x;
  constexpr float kRoot = 0.7978845608f, kCube = 0.044715f;
  return 0.5f * x * (1 + std::tanh(kRoot * (x + kCube * x * x * x)));
}

struct Work {
  Problem p;
  float alpha = 0, beta = 0;
  uint64_t a = 0, b = 0, c = 0, d = 0, workspace = 0, workspace_bytes = 0;
  void* stream = nullptr;
};

void compute(const Work& w) {
  const Problem& p = w.p;
  const auto at = [&](uint64_t address, uint64_t bytes) {
    unsigned char* const data = driver().memory(w.stream, address, bytes);
    if (data == nullptr) {
      std::fprintf(stderr, "fake cublaslt: memory of a product was freed before it ran\n");
      std::abort();
    }
    return data;
  };
  unsigned char* const a = at(w.a, p.a.span_bytes());
  unsigned char* const b = at(w.b, p.b.span_bytes());
  unsigned char* const d = at(w.d, p.d.span_bytes());
  unsigned char* const c = w.beta == 0 ? d : at(w.c, p.c.span_bytes());
  const unsigned char* const bias =
      has(p.desc, kEpilogueBias) ? at(p.desc.bias, p.d.rows * p.d.element_bytes()) : nullptr;
  // No other work uses the workspace meanwhile.
  if (w.workspace_bytes != 0)
    std::memset(at(w.workspace, w.workspace_bytes), 0xff, w.workspace_bytes);
  const bool ta = p.desc.transpose_a != 0, tb = p.desc.transpose_b != 0;
  const bool tf32 = p.desc.compute == kComputeTf32;
  const uint64_t depth = ta ? p.a.rows : p.a.columns;
  const auto index = [](const Matrix& m, uint64_t batch, uint64_t row, uint64_t column) {
    return batch * static_cast<uint64_t>(m.batch_stride) +
           column * static_cast<uint64_t>(m.leading) + row;
  };
  for (uint64_t n = 0; n < static_cast<uint64_t>(p.d.batch); ++n) {
    for (uint64_t column = 0; column < p.d.columns; ++column) {
      for (uint64_t row = 0; row < p.d.rows; ++row) {
        float sum = 0;
        for (uint64_t k = 0; k < depth; ++k) {
          float x = load(a, p.a.type, ta ? index(p.a, n, k, row) : index(p.a, n, row, k));
          float y = load(b, p.b.type, tb ? index(p.b, n, column, k) : index(p.b, n, k, column));
          if (tf32) x = as_tf32(x), y = as_tf32(y);
          sum = std::fma(x, y, sum);
        }
        sum *= w.alpha;
        if (w.beta != 0) sum += w.beta * load(c, p.c.type, index(p.c, n, row, column));
        if (bias != nullptr) sum += load(bias, p.d.type, row);
        store(d, p.d.type, index(p.d, n, row, column), curve(p.desc, sum));
      }
    }
  }
}

void trace(const Work& w) {
  const char* wanted = std::getenv("FAKE_CUBLASLT_TRACE");
  if (wanted == nullptr || std::strcmp(wanted, "1") != 0) return;
  const Problem& p = w.p;
  const auto type = [](int t) { return t == kF32 ? "f32" : t == kF16 ? "f16" : "bf16"; };
  std::fprintf(stderr, "fake cublaslt: %d of %llux%llux%llu %s to %s%s%s%s%s%s\n", p.d.batch,
               static_cast<unsigned long long>(p.d.columns),
               static_cast<unsigned long long>(p.desc.transpose_a != 0 ? p.a.rows : p.a.columns),
               static_cast<unsigned long long>(p.d.rows), type(p.a.type), type(p.d.type),
               p.desc.compute == kComputeTf32 ? " tf32" : "", w.beta != 0 ? " residual" : "",
               has(p.desc, kEpilogueBias) ? " bias" : "", has(p.desc, kEpilogueRelu) ? " relu" : "",
               has(p.desc, kEpilogueGelu) ? " gelu" : "");
}

int read_problem(ProductDesc desc, Layout a, Layout b, Layout c, Layout d, Problem* out) {
  const Desc* const known = find<Desc>(desc);
  const Matrix* const matrices[] = {find<Matrix>(a), find<Matrix>(b), find<Matrix>(c),
                                    find<Matrix>(d)};
  REQUIRE(known != nullptr, kInvalidValue);
  for (const Matrix* m : matrices) REQUIRE(m != nullptr, kInvalidValue);
  *out = {*known, *matrices[0], *matrices[1], *matrices[2], *matrices[3]};
  return check(*out);
}

uint32_t alignment_of(uint64_t address) {
  uint32_t out = 1;
  while (out < 256 && address % (out * 2) == 0) out *= 2;
  return out;
}

}  // namespace

EXPORT cublasLtCreate(Handle* out) {
  BEGIN();
  REQUIRE(driver().library != nullptr && driver().has_current(), kNotInitialised);
  REQUIRE(setting("handles", 1) != 0, kNotInitialised);
  return make<Context>(out);
}
extern "C" __attribute__((visibility("default"))) size_t cublasLtGetCudartVersion() {
  return static_cast<size_t>(setting("version", 12020));
}
EXPORT cublasLtDestroy(Handle handle) {
  return destroy<Context>(handle, begin_call(__func__));
}
EXPORT cublasLtMatmulDescCreate(ProductDesc* out, int compute, int scale) {
  BEGIN();
  const int code = make<Desc>(out);
  Desc* const made = find<Desc>(*out);
  made->compute = compute;
  made->scale = scale;
  return code;
}
EXPORT cublasLtMatmulDescDestroy(ProductDesc desc) {
  return destroy<Desc>(desc, begin_call(__func__));
}
EXPORT cublasLtMatmulDescSetAttribute(ProductDesc handle, int which, const void* from,
                                      size_t bytes) {
  BEGIN();
  Desc* const desc = find<Desc>(handle);
  REQUIRE(desc != nullptr, kInvalidValue);
  if (which == kDescTransposeA) return store(&desc->transpose_a, from, bytes);
  if (which == kDescTransposeB) return store(&desc->transpose_b, from, bytes);
  if (which == kDescEpilogue) return store(&desc->epilogue, from, bytes);
  if (which == kDescBias) return store(&desc->bias, from, bytes);
  return kInvalidValue;
}
EXPORT cublasLtMatrixLayoutCreate(Layout* out, int type, uint64_t rows, uint64_t columns,
                                  int64_t leading) {
  BEGIN();
  REQUIRE(type == kF32 || type == kF16 || type == kBf16, kNotSupported);
  const int code = make<Matrix>(out);
  Matrix* const made = find<Matrix>(*out);
  made->type = type;
  made->rows = rows;
  made->columns = columns;
  made->leading = leading;
  return code;
}
EXPORT cublasLtMatrixLayoutDestroy(Layout layout) {
  return destroy<Matrix>(layout, begin_call(__func__));
}
EXPORT cublasLtMatrixLayoutSetAttribute(Layout handle, int which, const void* from, size_t bytes) {
  BEGIN();
  Matrix* const matrix = find<Matrix>(handle);
  REQUIRE(matrix != nullptr, kInvalidValue);
  if (which == kLayoutBatchCount) return store(&matrix->batch, from, bytes);
  if (which == kLayoutBatchStride) return store(&matrix->batch_stride, from, bytes);
  return kInvalidValue;
}
EXPORT cublasLtMatmulPreferenceCreate(Preference* out) {
  BEGIN();
  return make<Wish>(out);
}
EXPORT cublasLtMatmulPreferenceDestroy(Preference preference) {
  return destroy<Wish>(preference, begin_call(__func__));
}
EXPORT cublasLtMatmulPreferenceSetAttribute(Preference handle, int which, const void* from,
                                            size_t bytes) {
  BEGIN();
  Wish* const wish = find<Wish>(handle);
  REQUIRE(wish != nullptr, kInvalidValue);
  if (which == kPreferenceWorkspace) return store(&wish->workspace, from, bytes);
  if (which == kPreferenceReductionSchemes) return store(&wish->reductions, from, bytes);
  if (which >= kPreferenceAlignmentA && which <= kPreferenceAlignmentD)
    return store(&wish->alignments[which - kPreferenceAlignmentA], from, bytes);
  return kInvalidValue;
}

// The algorithm knows for what it was chosen: the problem, the alignment of each matrix and of the
// bias. It wants all the workspace that it may have.
EXPORT cublasLtMatmulAlgoGetHeuristic(Handle handle, ProductDesc desc, Layout a, Layout b, Layout c,
                                      Layout d, Preference preference, int wanted, Heuristic* out,
                                      int* found) {
  BEGIN();
  *found = 0;
  const Wish* const wish = find<Wish>(preference);
  REQUIRE(find<Context>(handle) != nullptr && wish != nullptr && wanted > 0, kInvalidValue);
  REQUIRE(setting("algorithms", 1) != 0, kNotSupported);
  // The vendor's library may add partial sums in the type of the result, unless that is forbidden.
  REQUIRE(wish->reductions == kReductionInSumType, kNotSupported);
  Problem p;
  if (const int code = read_problem(desc, a, b, c, d, &p); code != kSuccess) return code;
  *out = {};
  out->algorithm.data[0] = digest(p);
  for (int i = 0; i < 4; ++i) out->algorithm.data[1 + i] = wish->alignments[i];
  out->algorithm.data[5] = alignment_of(p.desc.bias);
  out->algorithm.data[6] = out->workspace_bytes = wish->workspace;
  out->waves = 1;
  *found = 1;
  return kSuccess;
}

EXPORT cublasLtMatmul(Handle handle, ProductDesc desc, const void* alpha, const void* a, Layout la,
                      const void* b, Layout lb, const void* beta, const void* c, Layout lc, void* d,
                      Layout ld, const Algorithm* algorithm, void* workspace,
                      size_t workspace_bytes, CUstream stream) {
  BEGIN();
  auto work = std::make_unique<Work>();
  if (const int code = read_problem(desc, la, lb, lc, ld, &work->p); code != kSuccess) return code;
  const Problem& p = work->p;
  REQUIRE(find<Context>(handle) != nullptr && algorithm != nullptr, kInvalidValue);
  REQUIRE(algorithm->data[0] == digest(p), kNotSupported);
  work->stream = stream;
  work->alpha = *static_cast<const float*>(alpha);
  work->beta = *static_cast<const float*>(beta);
  work->a = reinterpret_cast<uint64_t>(a);
  work->b = reinterpret_cast<uint64_t>(b);
  work->c = reinterpret_cast<uint64_t>(c);
  work->d = reinterpret_cast<uint64_t>(d);
  work->workspace = reinterpret_cast<uint64_t>(workspace);
  work->workspace_bytes = workspace_bytes;
  const std::pair<uint64_t, const Matrix*> all[] = {
      {work->a, &p.a}, {work->b, &p.b}, {work->c, &p.c}, {work->d, &p.d}};
  for (size_t i = 0; i < 4; ++i) {
    const auto& [address, matrix] = all[i];
    REQUIRE(address % algorithm->data[1 + i] == 0, kInvalidValue);
    REQUIRE(driver().memory(stream, address, matrix->span_bytes()) != nullptr, kInvalidValue);
  }
  if (has(p.desc, kEpilogueBias)) {
    REQUIRE(p.desc.bias % algorithm->data[5] == 0, kInvalidValue);
    REQUIRE(driver().memory(stream, p.desc.bias, p.d.rows * p.d.element_bytes()) != nullptr,
            kInvalidValue);
  }
  constexpr uint64_t kWorkspaceAlignment = 256;
  REQUIRE(workspace_bytes >= algorithm->data[6], kInvalidValue);
  REQUIRE(work->workspace % kWorkspaceAlignment == 0, kInvalidValue);
  REQUIRE(
      workspace_bytes == 0 || driver().memory(stream, work->workspace, workspace_bytes) != nullptr,
      kInvalidValue);
  trace(*work);
  ++products;
  driver().put(
      stream,
      [](void* on, void* given) {
        const std::unique_ptr<Work> mine(static_cast<Work*>(given));
        mine->stream = on;  // also where the default one was meant
        compute(*mine);
      },
      work.release());
  return kSuccess;
}

// ---- For tests ----

extern "C" __attribute__((visibility("default"))) void fake_cublaslt_fail_in(uint64_t n, int code) {
  fail_code = code;
  fail_at = n == 0 ? 0 : calls + n;
}
extern "C" __attribute__((visibility("default"))) uint64_t fake_cublaslt_calls() {
  return calls;
}
extern "C" __attribute__((visibility("default"))) uint64_t fake_cublaslt_products() {
  return products;
}
extern "C" __attribute__((visibility("default"))) uint64_t fake_cublaslt_objects() {
  const std::lock_guard lock(mutex);
  return objects.size();
}
