// Group G, frontends and toolchains: bytes and texts of all kinds, from untrusted sources.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <set>

#include <tenon/abi/frontend.h>
#include <tenon/abi/toolchain.h>
#include <tenon/cpp/elements.hpp>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/graphs/host_graph.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr uint64_t kHeadBytes = 4096;
constexpr uint64_t kExampleBytesMax = uint64_t{64} << 20;
constexpr int kMutations = 400;
constexpr double kMutationSeconds = 10;

// ---- What is under test ----

struct Frontend {
  HostTables host;
  const tenon_frontend_api_t* api = nullptr;
};

Outcome find_frontend(Session& s, Frontend* out) {
  const void* table = nullptr;
  CONFORM_TRY(find_table(s, "frontend", TENON_FRONTEND_ID, &out->host, &table));
  out->api = static_cast<const tenon_frontend_api_t*>(table);
  return pass();
}

using Bytes = std::vector<unsigned char>;

struct Sample {
  std::string name;
  Bytes bytes;
};

std::vector<std::string_view> extensions_of(const tenon_frontend_api_t& api) {
  std::vector<std::string_view> out;
  for (std::string_view part : split(view(api.extensions), ',')) {
    if (!trim(part).empty()) out.push_back(trim(part));
  }
  return out;
}

std::string example_name(const tenon_frontend_api_t& api) {
  const std::vector<std::string_view> extensions = extensions_of(api);
  return "conform" + (extensions.empty() ? "" : std::string(extensions[0]));
}

// A tensor with small values.
struct Tensor {
  Array array;
  tenon_blob_t* blob = nullptr;
  tenon_file_tensor_t view = {};
};
bool make_tensor(const HostTables& host, tenon_dtype_t dtype, std::vector<int64_t> dims,
                 Tensor* out) {
  out->array = make_array(dtype, std::move(dims));
  fill_tame(&out->array, dtype);
  out->view.size_bytes = sizeof(out->view);
  out->view.dtype = dtype;
  out->view.rank = static_cast<uint32_t>(out->array.dims.size());
  out->view.dims = out->array.dims.data();
  if (host.graph->blob_bytes(host.graph->self, out->array.bytes.data(), out->array.bytes.size() - 8,
                             &out->blob) != TENON_OK)
    return false;
  out->view.blob = out->blob;
  return true;
}

// Files of the format: those that the user named, those next to the manifest, those that it writes
// itself.
std::vector<Sample> samples_of(Session& s, const Frontend& f) {
  std::vector<std::string> paths = s.examples();
  const std::vector<std::string_view> extensions = extensions_of(*f.api);
  const std::string folder = folder_of(s.subject().manifest_path);
  for (const std::string& name : list_folder(folder)) {
    const bool fits = std::any_of(extensions.begin(), extensions.end(),
                                  [&](std::string_view e) { return name.ends_with(e); });
    if (fits) paths.push_back(join_path(folder, name));
  }
  std::vector<Sample> out;
  for (const std::string& path : paths) {
    Result<std::string> text = read_file(path, kExampleBytesMax, "an example");
    if (text.ok()) out.push_back({path, Bytes(text->begin(), text->end())});
  }
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3}, {4}, {}, {1, 2, 2}}) {
    Tensor tensor;
    Bytes written;
    const tenon_sink_t sink = sink_to(&written);
    if (f.api->write_tensor != nullptr && make_tensor(f.host, TENON_F32, shape, &tensor) &&
        f.api->write_tensor(f.api->self, &tensor.view, &sink) == TENON_OK)
      out.push_back({example_name(*f.api), std::move(written)});
  }
  return out;
}

constexpr std::string_view kNoSample =
    "there is no file of its format: put one next to the manifest, or name it with --example";

// ---- Calls ----

uint32_t accepts(const Frontend& f, std::string_view name, const Bytes& bytes) {
  // A copy that is allocated to end where the bytes end.
  const Bytes head(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(
                                                      std::min<size_t>(bytes.size(), kHeadBytes)));
  return f.api->accepts(f.api->self, {name.data(), name.size()},
                        head.empty() ? nullptr : head.data(), head.size());
}

struct Source {
  std::string name;
  tenon_blob_t* blob = nullptr;
  tenon_source_t view = {};
};
bool make_source(const Frontend& f, std::string name, const Bytes& bytes, Source* out) {
  out->name = std::move(name);
  if (f.host.graph->blob_bytes(f.host.graph->self, bytes.data(), bytes.size(), &out->blob) !=
      TENON_OK)
    return false;
  out->view.size_bytes = sizeof(out->view);
  out->view.name = {out->name.data(), out->name.size()};
  out->view.bytes = out->blob;
  return true;
}

Outcome check_reason(const Frontend& f, std::string_view what, tenon_code_t code) {
  const Failure why = last_failure(f.host);
  CONFORM_EXPECT(code <= TENON_DEVICE_LOST, "{} gives the code {}, which does not exist", what,
                 code);
  CONFORM_EXPECT(why.code == code && !trim(why.text).empty(),
                 "{} gives {} and no reason with that code", what, code_text(code));
  CONFORM_EXPECT(code != TENON_INTERNAL, "{}: {}", what, why.text);
  return pass();
}

// Loads the bytes, which must give a valid graph or a reason. The graph's text, or the reason, goes
// to `out`.
Outcome load_any(const Frontend& f, const std::string& name, const Bytes& bytes, std::string* out) {
  Source source;
  if (!make_source(f, name, bytes, &source)) return skipped("no memory for a blob");
  auto* const mark = reinterpret_cast<tenon_graph_t*>(&source);
  tenon_graph_t* graph = mark;
  forget_failure();
  const tenon_code_t code = f.api->load(f.api->self, &source.view, &graph);
  Outcome outcome = pass();
  if (code != TENON_OK) {
    *out = last_failure(f.host).text;
    outcome = check_reason(f, "load", code);
    if (outcome.verdict == Verdict::kPass && graph != mark)
      outcome = failed("load fails and changes its output");
  } else if (graph == mark || graph == nullptr) {
    outcome = failed("load gives OK and no graph");
  } else {
    GraphRef owned(f.host, graph);
    if (f.host.graph->verify(f.host.graph->self, graph) != TENON_OK)
      outcome = failed("load gives a graph that is not valid: {}", last_failure(f.host).text);
    *out = write_graph(f.host, graph);
  }
  f.host.graph->blob_release(f.host.graph->self, source.blob);
  return outcome;
}

struct ReadTensors {
  const HostTables* host = nullptr;
  std::vector<Array> tensors;
  std::string wrong;
  static tenon_code_t take(void* self, const tenon_file_tensor_t* t) {
    auto& all = *static_cast<ReadTensors*>(self);
    const void* data = nullptr;
    uint64_t size = 0;
    if (t->rank > TENON_RANK_MAX || (t->rank != 0 && t->dims == nullptr) || t->blob == nullptr ||
        std::any_of(t->dims, t->dims + t->rank, [](int64_t d) { return d < 0; })) {
      all.wrong = "read_tensors gives a tensor without dims or bytes";
      return TENON_OK;
    }
    uint64_t elements = 1;
    for (uint32_t d = 0; d < t->rank; ++d) {
      if (__builtin_mul_overflow(elements, static_cast<uint64_t>(t->dims[d]), &elements) ||
          elements > (uint64_t{1} << 32)) {
        all.wrong = "read_tensors gives a tensor with more elements than there are";
        return TENON_OK;
      }
    }
    if (all.host->graph->blob_data(all.host->graph->self, t->blob, &data, &size) != TENON_OK) {
      all.wrong = "the bytes of a tensor cannot be read";
      return TENON_OK;
    }
    Array array = {t->dtype, {t->dims, t->dims + t->rank}, {}};
    const uint64_t wanted = elements == 0 ? 0 : make_array(t->dtype, array.dims).bytes.size() - 8;
    if (size != wanted) {
      all.wrong = fmt::format("read_tensors gives {} bytes for a tensor of {}", size, wanted);
      return TENON_OK;
    }
    array.bytes.assign(static_cast<const unsigned char*>(data),
                       static_cast<const unsigned char*>(data) + size);
    all.tensors.push_back(std::move(array));
    return TENON_OK;
  }
};

Outcome read_any(const Frontend& f, const std::string& name, const Bytes& bytes, ReadTensors* out) {
  Source source;
  if (!make_source(f, name, bytes, &source)) return skipped("no memory for a blob");
  out->host = &f.host;
  const tenon_file_tensor_sink_t sink = {sizeof sink, 0, out, ReadTensors::take};
  forget_failure();
  const tenon_code_t code = f.api->read_tensors(f.api->self, &source.view, &sink);
  Outcome outcome = code == TENON_OK ? pass() : check_reason(f, "read_tensors", code);
  f.host.graph->blob_release(f.host.graph->self, source.blob);
  CONFORM_EXPECT(out->wrong.empty(), "{}", out->wrong);
  if (code != TENON_OK) out->tensors.clear();
  return outcome;
}

Outcome take_any(const Frontend& f, const std::string& name, const Bytes& bytes) {
  std::string text;
  if (f.api->load != nullptr) CONFORM_TRY(load_any(f, name, bytes, &text));
  ReadTensors tensors;
  if (f.api->read_tensors != nullptr) CONFORM_TRY(read_any(f, name, bytes, &tensors));
  return pass();
}

// ---- Bytes ----

std::vector<Sample> foreign_samples() {
  std::vector<Sample> out = {{"empty", {}},
                             {"one zero", Bytes(1, 0)},
                             {"zeros", Bytes(5000, 0)},
                             {"ones", Bytes(5000, 0xff)}};
  const auto text = [&](const char* name, std::string_view bytes) {
    out.push_back({name, Bytes(bytes.begin(), bytes.end())});
  };
  text("an ELF header", std::string_view("\x7f"
                                         "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0",
                                         20));
  text("a zip header", "PK\x03\x04\x14");
  text("a PNG header", "\x89PNG\r\n\x1a\n");
  text("plain text", "It was a dark and stormy night; the rain fell in torrents.\n");
  text("broken UTF-8", "\xc3\x28\xa0\xa1\xe2\x28\xa1\xf0\x28\x8c\x28");
  std::mt19937_64 random(3);
  for (size_t size : {2u, 17u, 300u, 4096u, 4097u, 70000u}) {
    Bytes bytes(size);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    out.push_back({fmt::format("{} random bytes", size), std::move(bytes)});
  }
  return out;
}

Bytes mutated(const Bytes& from, std::mt19937_64* random, std::string* what) {
  Bytes bytes = from;
  const auto below = [&](size_t n) {
    return static_cast<size_t>((*random)() % std::max<size_t>(n, 1));
  };
  const size_t at = below(bytes.size());
  switch (bytes.empty() ? 5 : below(6)) {
    case 0:
      *what = fmt::format("cut after {} bytes", at);
      bytes.resize(at);
      break;
    case 1:
      *what = fmt::format("bit {} of byte {} flipped", at % 8, at);
      bytes[at] ^= static_cast<unsigned char>(1u << at % 8);
      break;
    case 2:
      *what = fmt::format("byte {} set", at);
      bytes[at] = std::initializer_list<unsigned char>{0, 0x7f, 0x80, 0xff}.begin()[below(4)];
      break;
    case 3: {
      const size_t n = 1 + below(16);
      *what = fmt::format("{} bytes from {} on set to 0xff", n, at);
      for (size_t i = at; i < std::min(bytes.size(), at + n); ++i) bytes[i] = 0xff;
      break;
    }
    case 4: {
      const size_t n = std::min(bytes.size() - at, 1 + below(32));
      *what = fmt::format("{} bytes removed at {}", n, at);
      bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at),
                  bytes.begin() + static_cast<ptrdiff_t>(at + n));
      break;
    }
    default:
      *what = fmt::format("bytes inserted at {}", at);
      bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), 1 + below(64),
                   static_cast<unsigned char>((*random)()));
  }
  return bytes;
}

double seconds_now() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// ---- Checks of frontends ----

Outcome frontend_names(Session& s) {
  Frontend f;
  CONFORM_TRY(find_frontend(s, &f));
  CONFORM_EXPECT(f.api->name.size != 0, "it has no name");
  const std::vector<std::string_view> extensions = extensions_of(*f.api);
  CONFORM_EXPECT(!extensions.empty(), "it has no extensions");
  for (std::string_view extension : extensions)
    CONFORM_EXPECT(extension.size() > 1 && extension[0] == '.' &&
                       extension.find('/') == std::string_view::npos,
                   "{} is not an extension: extensions begin with a dot", quoted(extension));
  const std::vector<Sample> samples = samples_of(s, f);
  for (const Sample& sample : samples) {
    s.step("accepts of " + sample.name);
    CONFORM_EXPECT(accepts(f, sample.name, sample.bytes) != 0,
                   "it does not accept its own format: {}", quoted(sample.name));
  }
  return samples.empty() ? skipped(std::string(kNoSample)) : pass();
}

Outcome frontend_accepts(Session& s) {
  Frontend f;
  CONFORM_TRY(find_frontend(s, &f));
  for (const Sample& sample : foreign_samples()) {
    s.step("accepts of " + sample.name);
    const uint32_t sure = accepts(f, "conform.elsewhere", sample.bytes);
    CONFORM_EXPECT(sure == 0, "it accepts {} in a file of another name, with {}", sample.name,
                   sure);
    (void)accepts(f, example_name(*f.api), sample.bytes);
    (void)accepts(f, "", sample.bytes);
  }
  std::mt19937_64 random(5);
  for (const Sample& sample : samples_of(s, f)) {
    for (int i = 0; i < kMutations; ++i) {
      std::string what;
      const Bytes bytes = mutated(sample.bytes, &random, &what);
      s.step(fmt::format("accepts of {}, {}", sample.name, what));
      (void)accepts(f, sample.name, bytes);
    }
  }
  return pass();
}

Outcome frontend_any_bytes(Session& s) {
  Frontend f;
  CONFORM_TRY(find_frontend(s, &f));
  for (const Sample& sample : foreign_samples()) {
    s.step("reading " + sample.name);
    const Outcome outcome = take_any(f, example_name(*f.api), sample.bytes);
    CONFORM_EXPECT(outcome.verdict != Verdict::kFail, "{}: {}", sample.name, outcome.text);
  }
  std::mt19937_64 random(7);
  const std::vector<Sample> samples = samples_of(s, f);
  for (const Sample& sample : samples) {
    const double end = seconds_now() + kMutationSeconds / static_cast<double>(samples.size());
    for (int i = 0; i < kMutations && seconds_now() < end; ++i) {
      std::string what;
      const Bytes bytes = mutated(sample.bytes, &random, &what);
      s.step(fmt::format("reading {}, {}", sample.name, what));
      const Outcome outcome = take_any(f, sample.name, bytes);
      CONFORM_EXPECT(outcome.verdict != Verdict::kFail, "{}, {}: {}", sample.name, what,
                     outcome.text);
    }
  }
  return samples.empty() ? skipped("random bytes do no harm; and " + std::string(kNoSample))
                         : pass();
}

Outcome frontend_loads(Session& s) {
  Frontend f;
  CONFORM_TRY(find_frontend(s, &f));
  const std::vector<Sample> samples = samples_of(s, f);
  size_t loaded = 0;
  std::string reason;
  for (const Sample& sample : samples) {
    s.step("reading " + sample.name + " twice");
    std::string first, second;
    if (f.api->load != nullptr) {
      CONFORM_TRY(load_any(f, sample.name, sample.bytes, &first));
      CONFORM_TRY(load_any(f, sample.name, sample.bytes, &second));
      CONFORM_EXPECT(first == second, "{} loads as another graph the second time",
                     quoted(sample.name));
      const bool is_graph = first.starts_with("tenon.tir");
      loaded += is_graph;
      if (!is_graph) reason = first;
    }
    ReadTensors tensors;
    if (f.api->read_tensors != nullptr &&
        read_any(f, sample.name, sample.bytes, &tensors).verdict == Verdict::kPass)
      loaded += !tensors.tensors.empty();
  }
  if (samples.empty()) return skipped(std::string(kNoSample));
  CONFORM_EXPECT(loaded != 0, "none of its samples gives a graph or a tensor: {}", reason);
  return pass();
}

Outcome frontend_tensors(Session& s) {
  Frontend f;
  CONFORM_TRY(find_frontend(s, &f));
  if (f.api->write_tensor == nullptr || f.api->read_tensors == nullptr)
    return not_offered("write_tensor and read_tensors");
  static const std::vector<int64_t> kShapes[] = {{},        {1}, {7},       {2, 3},
                                                 {3, 1, 5}, {0}, {2, 0, 3}, {33, 17}};
  size_t written = 0;
  for (tenon_dtype_t dtype = TENON_PRED; dtype < elements::kDtypeEnd; ++dtype) {
    for (const std::vector<int64_t>& shape : kShapes) {
      Tensor tensor;
      if (!make_tensor(f.host, dtype, shape, &tensor)) continue;
      const std::string what = fmt::format("element type {} with rank {}", dtype, shape.size());
      s.step("writing and reading " + what);
      Bytes bytes;
      const tenon_sink_t sink = sink_to(&bytes);
      forget_failure();
      const tenon_code_t code = f.api->write_tensor(f.api->self, &tensor.view, &sink);
      f.host.graph->blob_release(f.host.graph->self, tensor.blob);
      if (code != TENON_OK) {
        CONFORM_TRY(check_reason(f, "write_tensor", code));
        continue;
      }
      ++written;
      ReadTensors found;
      CONFORM_TRY(read_any(f, example_name(*f.api), bytes, &found));
      CONFORM_EXPECT(found.tensors.size() == 1,
                     "{}: {} tensors are read from what one was written to: {}", what,
                     found.tensors.size(), last_failure(f.host).text);
      tensor.array.bytes.resize(tensor.array.bytes.size() - 8);
      CONFORM_EXPECT(found.tensors[0].dtype == dtype && found.tensors[0].dims == shape,
                     "{}: another type is read", what);
      CONFORM_EXPECT(found.tensors[0].bytes == tensor.array.bytes, "{}: other elements are read",
                     what);
    }
  }
  CONFORM_EXPECT(written != 0, "it writes no tensor of any element type");
  return pass();
}

// ---- Files ----

char g_opened[256];

// A trapped system call: records its path and refuses it.
void on_open(int, siginfo_t* info, void* context) {
  auto* ucontext = static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
  auto& registers = ucontext->uc_mcontext.gregs;
  const auto* path =
      reinterpret_cast<const char*>(registers[info->si_syscall == SYS_openat ? REG_RSI : REG_RDI]);
  registers[REG_RAX] = -EACCES;
#elif defined(__aarch64__)
  (void)info;
  auto& registers = ucontext->uc_mcontext.regs;
  const auto* path = reinterpret_cast<const char*>(registers[1]);
  registers[0] = static_cast<unsigned long long>(-EACCES);
#endif
  if (path == nullptr || std::strncmp(path, "/proc/", 6) == 0 ||
      std::strncmp(path, "/sys/", 5) == 0)
    return;  // made by the C library itself
  if (g_opened[0] == '\0') std::strncpy(g_opened, path, sizeof(g_opened) - 1);
}

// From here on this thread opens no file; false if the system does not support that.
bool watch_opens() {
#if defined(__x86_64__)
  constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
  constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
  return false;
#endif
  struct sigaction action = {};
  action.sa_sigaction = on_open;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArch, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
#if defined(SYS_open)
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 2, 0),
#else
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
#endif
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog program = {static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

Outcome frontend_files(Session& s) {
  Frontend f;
  CONFORM_TRY(find_frontend(s, &f));
  std::vector<Sample> samples = samples_of(s, f);
  const bool has_samples = !samples.empty();
  for (Sample& sample : foreign_samples()) samples.push_back(std::move(sample));
  const auto use = [&] {
    for (const Sample& sample : samples) {
      (void)accepts(f, sample.name, sample.bytes);
      (void)take_any(f, sample.name, sample.bytes);
    }
    Tensor tensor;
    Bytes bytes;
    const tenon_sink_t sink = sink_to(&bytes);
    if (f.api->write_tensor != nullptr && make_tensor(f.host, TENON_F32, {2, 3}, &tensor))
      (void)f.api->write_tensor(f.api->self, &tensor.view, &sink);
  };
  s.step("reading, so that the host has loaded what it needs");
  use();
  if (!watch_opens()) return skipped("this system does not let a process watch what it opens");
  s.step("reading while no file may be opened");
  use();
  CONFORM_EXPECT(g_opened[0] == '\0', "it opens {} itself", quoted(g_opened));
  return has_samples ? pass()
                     : skipped("it opens nothing for foreign bytes; and " + std::string(kNoSample));
}

// ---- Toolchains ----

struct Toolchain {
  HostTables host;
  const tenon_toolchain_api_t* api = nullptr;
};

Outcome find_toolchain(Session& s, Toolchain* out) {
  if (s.subject().manifest_error.failed())
    return skipped("the manifest cannot be read, as A.manifest-keys reports");
  const host::Provided* first = nullptr;
  for (const host::Provided& provided : s.subject().manifest.provides)
    first = first == nullptr && provided.kind == "toolchain" ? &provided : first;
  if (first == nullptr) return not_offered(TENON_TOOLCHAIN_ID);
  CONFORM_TRY(find_host(&out->host));
  CONFORM_TRY(s.load());
  out->api = static_cast<const tenon_toolchain_api_t*>(s.table(TENON_TOOLCHAIN_ID));
  return out->api == nullptr ? not_offered(TENON_TOOLCHAIN_ID) : pass();
}

tenon_code_t build(const Toolchain& t, std::string_view dialect, std::string_view text,
                   Bytes* object, Bytes* said) {
  auto options = sized<tenon_toolchain_options_t>();
  const tenon_sink_t to_object = sink_to(object), to_said = sink_to(said);
  forget_failure();
  return t.api->build(t.api->self, {nullptr, 0}, {dialect.data(), dialect.size()},
                      {text.data(), text.size()}, &options, &to_object, &to_said);
}

Outcome toolchain_builds(Session& s) {
  Toolchain t;
  CONFORM_TRY(find_toolchain(s, &t));
  const std::vector<std::string_view> dialects = split(view(t.api->dialects), ',');
  CONFORM_EXPECT(!dialects.empty(), "it names no dialect");
  for (std::string_view dialect : dialects) {
    for (std::string_view text : {std::string_view("this is not text of any language ("),
                                  std::string_view("\0\1\2\xff", 4)}) {
      Bytes object, said;
      s.step(fmt::format("building text that is not {}", dialect));
      const tenon_code_t code = build(t, trim(dialect), text, &object, &said);
      CONFORM_EXPECT(code == TENON_INVALID_ARGUMENT || code == TENON_UNAVAILABLE,
                     "text that is not {} gives {}", dialect, code_text(code));
      CONFORM_EXPECT(heard_failure().code == code && !heard_failure().text.empty(),
                     "text that is not {} gives {} and no reason", dialect, code_text(code));
      CONFORM_EXPECT(object.empty(), "text that is not {} gives an object", dialect);
    }
  }
  Bytes object, said;
  s.step("building in an unknown dialect");
  CONFORM_EXPECT(build(t, "conform-nonesuch", "", &object, &said) != TENON_OK,
                 "it builds in a dialect that it does not name");
  return pass();
}

Outcome toolchain_loads(Session& s) {
  Toolchain t;
  CONFORM_TRY(find_toolchain(s, &t));
  for (const Sample& sample : foreign_samples()) {
    s.step("loading " + sample.name);
    auto* const mark = reinterpret_cast<tenon_module_t*>(&t);
    tenon_module_t* module = mark;
    forget_failure();
    const tenon_code_t code =
        t.api->load(t.api->self, sample.bytes.data(), sample.bytes.size(), &module);
    CONFORM_EXPECT(code != TENON_OK, "{} loads as a module", sample.name);
    CONFORM_EXPECT(module == mark, "load of {} fails and changes its output", sample.name);
    CONFORM_EXPECT(heard_failure().code == code && !heard_failure().text.empty(),
                   "load of {} gives {} and no reason", sample.name, code_text(code));
  }
  return pass();
}

constexpr Check kChecks[] = {
    {"R-G13", "frontend-accepts", frontend_accepts},
    {"R-G14", "frontend-any-bytes", frontend_any_bytes},
    {"R-G15", "frontend-files", frontend_files},
    {"R-G16", "frontend-tensors", frontend_tensors},
    {"R-G32", "frontend-names", frontend_names},
    {"R-G33", "frontend-loads", frontend_loads},
    {"R-G34", "toolchain-builds", toolchain_builds},
    {"R-G35", "toolchain-loads", toolchain_loads},
};

}  // namespace

std::span<const Check> frontend_checks() {
  return kChecks;
}

}  // namespace tenon::conform
