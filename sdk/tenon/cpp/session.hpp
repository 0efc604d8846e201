// Loading and running models from a C++ program, over tenon.host.session/1. Link against
// libtenon.so.
//
//     tenon::Session session;
//     TENON_TRY(session.open());
//     tenon::Model model;       TENON_TRY(session.load("model.onnx", &model));
//     tenon::Program program;   TENON_TRY(model.compile({.device = "cpu"}, &program));
//     tenon::Binding binding;   TENON_TRY(program.bind(&binding));
//     TENON_TRY(binding.input("x", tenon::ArrayView::of(x, {1, 64})));
//     TENON_TRY(binding.run());
//     tenon::ArrayView y;       TENON_TRY(binding.output("y", &y));
//
// A server calls a program by position instead, from any thread:
//
//     tenon::Output y;
//     TENON_TRY(program.call({{tenon::ArrayView::of(x, {1, 64})}}, {&y, 1}));
//
// A program in a file needs no model where it runs:
//
//     TENON_TRY(model.save({.device = "cpu"}, "model.tpk"));
//     TENON_TRY(session.load_package("model.tpk", &program));
//
// Handles release what they own and can be moved. If a call fails, failure_text() says why.
// Threads: as session.h says for each object.
#ifndef TENON_CPP_SESSION_HPP_
#define TENON_CPP_SESSION_HPP_

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/abi/call.h"
#include "tenon/abi/host.h"
#include "tenon/abi/package.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/record.hpp"

namespace tenon::inline sdk {

// A dense row-major array in host memory, borrowed.
struct ArrayView {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  const void* data = nullptr;

  static ArrayView of(std::span<const float> values, std::vector<int64_t> dims) {
    return {TENON_F32, std::move(dims), values.data()};
  }
  int64_t element_count() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  template <class T>
  std::span<const T> as() const {
    return {static_cast<const T*>(data), static_cast<size_t>(element_count())};
  }
};

struct CompileOptions {
  std::string_view device;  // "cpu", "sim:1", "sim,cpu"; empty: TENON_DEVICE, else by cost
  std::string_view pipeline;
  bool no_fallback = false;
  std::vector<std::pair<std::string_view, std::string_view>> options;
};

namespace detail {

// Used by every handle; set once by Session::open.
inline const tenon_host_session_t* g_session = nullptr;
inline const tenon_host_call_t* g_call = nullptr;
inline const tenon_host_package_t* g_package = nullptr;

inline tenon_array_t raw(const ArrayView& array) {
  tenon_array_t out{};
  out.size_bytes = sizeof out;
  out.dtype = array.dtype;
  out.rank = static_cast<uint32_t>(array.dims.size());
  out.data = const_cast<void*>(array.data);
  out.dims = array.dims.data();
  return out;
}

template <class T, auto Release>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) (g_session->*Release)(g_session->self, object_);
  }
  T* get() const { return object_; }
  // For calls that create an object; releases the current one.
  T** out() {
    *this = Handle();
    return &object_;
  }

 protected:
  T* object_ = nullptr;
};

}  // namespace detail

// The last failure of this thread: one or more whole sentences, beginning with a stable code.
inline std::string failure_text() {
  auto failure = sized<tenon_failure_t>();
  if (context().host == nullptr) return "libtenon could not be started";
  context().host->last_failure(context().host->self, &failure);
  std::string text(view(failure.message));
  const std::string_view id = view(failure.id);
  return id.empty() || text.starts_with(id) ? text : cat(id, ": ", text);
}

// Inputs and outputs for successive runs.
class Binding : public detail::Handle<tenon_binding_t, &tenon_host_session_t::binding_release> {
 public:
  // The data remains the caller's. It must live until another array is bound or the binding is
  // gone.
  Status input(std::string_view name, const ArrayView& array) {
    const tenon_array_t raw = detail::raw(array);
    return detail::g_session->bind_input(detail::g_session->self, object_, str(name), &raw);
  }
  Status run() { return detail::g_session->run(detail::g_session->self, object_); }
  // Valid until the next run.
  Status output(std::string_view name, ArrayView* out) {
    auto raw = sized<tenon_array_t>();
    TENON_TRY(detail::g_session->output(detail::g_session->self, object_, str(name), &raw));
    *out = {raw.dtype, {raw.dims, raw.dims + raw.rank}, raw.data};
    return {};
  }
  Status info(tenon_run_info_t* out) {
    *out = {};
    out->size_bytes = sizeof *out;
    return detail::g_session->run_info(detail::g_session->self, object_, out);
  }
};

// An output of Program::call: memory that this owns after the call, or memory of the caller. It
// outlives the program.
class Output {
 public:
  Output() = default;
  // The caller's dense memory, which a call writes, for a result of this type and these dims.
  Output(tenon_dtype_t dtype, std::vector<int64_t> dims, void* memory)
      : array_{dtype, std::move(dims), memory}, given_(true) {}
  static Output into(std::span<float> memory, std::vector<int64_t> dims) {
    return {TENON_F32, std::move(dims), memory.data()};
  }
  Output(Output&& other) noexcept { *this = std::move(other); }
  Output& operator=(Output&& other) noexcept {
    std::swap(array_, other.array_);
    std::swap(result_, other.result_);
    std::swap(given_, other.given_);
    return *this;
  }
  ~Output() {
    if (result_ != nullptr) detail::g_call->result_release(detail::g_call->self, result_);
  }
  const ArrayView& array() const { return array_; }
  template <class T>
  std::span<const T> as() const {
    return array_.as<T>();
  }

 private:
  friend class Program;
  ArrayView array_;
  tenon_result_t* result_ = nullptr;
  bool given_ = false;
};

// Compiled and loaded on its devices.
class Program : public detail::Handle<tenon_program_t, &tenon_host_session_t::program_release> {
 public:
  Status bind(Binding* out) const {
    return detail::g_session->binding_create(detail::g_session->self, object_, out->out());
  }
  // Runs with arrays by position, from any thread; calls of one program run at the same time.
  // `information`, when given, gets what was copied.
  Status call(std::span<const ArrayView> inputs, std::span<Output> outputs,
              tenon_program_call_t* information = nullptr) const {
    if (detail::g_call == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    std::vector<tenon_array_t> in, out;
    std::vector<tenon_output_t> records;
    for (const ArrayView& array : inputs) in.push_back(detail::raw(array));
    for (Output& output : outputs) {
      out.push_back(detail::raw(output.array_));
      records.push_back({sizeof(tenon_output_t),
                         output.given_ ? TENON_OUTPUT_GIVEN : TENON_OUTPUT_OWNED, nullptr,
                         nullptr});
    }
    for (size_t i = 0; i < records.size(); ++i) records[i].array = &out[i];
    tenon_program_call_t raw{};
    raw.size_bytes = sizeof raw;
    raw.input_count = static_cast<uint32_t>(in.size());
    raw.output_count = static_cast<uint32_t>(out.size());
    raw.inputs = in.data();
    raw.outputs = records.data();
    TENON_TRY(detail::g_call->call(detail::g_call->self, object_, &raw));
    for (size_t i = 0; i < records.size(); ++i) {
      if (outputs[i].given_) continue;
      outputs[i] = Output();  // what a call before this one left
      outputs[i].result_ = records[i].result;
    }
    for (size_t i = 0; i < records.size(); ++i) {
      if (outputs[i].given_) continue;
      outputs[i].array_ = {out[i].dtype, {out[i].dims, out[i].dims + out[i].rank}, out[i].data};
    }
    raw.inputs = nullptr;
    raw.outputs = nullptr;
    if (information != nullptr) *information = raw;
    return {};
  }
  // Inputs, outputs and symbols. Borrows from the program.
  Status ports(tenon_model_info_t* out) const {
    if (detail::g_package == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    *out = {};
    out->size_bytes = sizeof *out;
    return detail::g_package->ports(detail::g_package->self, object_, out);
  }
  Status info(tenon_program_info_t* out) const {
    *out = {};
    out->size_bytes = sizeof *out;
    return detail::g_session->program_info(detail::g_session->self, object_, out);
  }
  Status placement(std::string* json) const {
    const tenon_sink_t sink = sink_to(json);
    return detail::g_session->placement(detail::g_session->self, object_, &sink);
  }
  Status summary(std::string* text) const {
    const tenon_sink_t sink = sink_to(text);
    return detail::g_session->placement_summary(detail::g_session->self, object_, &sink);
  }
  Status dump(std::string_view what, std::string* text) const {
    const tenon_sink_t sink = sink_to(text);
    return detail::g_session->dump(detail::g_session->self, object_, str(what), &sink);
  }
};

class Model : public detail::Handle<tenon_model_t, &tenon_host_session_t::model_release> {
 public:
  Status info(tenon_model_info_t* out) const {
    *out = {};
    out->size_bytes = sizeof *out;
    return detail::g_session->model_info(detail::g_session->self, object_, out);
  }
  Status compile(const CompileOptions& options, Program* out) const {
    std::vector<tenon_key_value_t> pairs;
    const tenon_session_options_t raw = raw_options(options, pairs);
    return detail::g_session->compile(detail::g_session->self, object_, &raw, out->out());
  }
  // Compiles into a file. target: what options.device compiles for; empty: as this machine's.
  Status save(const CompileOptions& options, std::string_view path,
              std::string_view target = {}) const {
    if (detail::g_package == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    std::vector<tenon_key_value_t> pairs;
    const tenon_session_options_t session = raw_options(options, pairs);
    auto raw = sized<tenon_package_options_t>();
    raw.session = &session;
    raw.target = str(target);
    return detail::g_package->save(detail::g_package->self, object_, &raw, str(path));
  }

 private:
  static tenon_session_options_t raw_options(const CompileOptions& options,
                                             std::vector<tenon_key_value_t>& pairs) {
    for (const auto& [key, value] : options.options) pairs.push_back({str(key), str(value)});
    auto raw = sized<tenon_session_options_t>();
    raw.no_fallback = options.no_fallback ? 1 : 0;
    raw.device = str(options.device);
    raw.pipeline = str(options.pipeline);
    raw.options = pairs.data();
    raw.option_count = static_cast<uint32_t>(pairs.size());
    return raw;
  }
};

// The process's single session with the host.
class Session {
 public:
  Status open() {
    const tenon_host_t* host = nullptr;
    TENON_TRY(tenon_host_open(TENON_ABI_VERSION, &host));
    attach(host);
    detail::g_session = context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
    detail::g_call = context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
    detail::g_package = context().query<tenon_host_package_t>(TENON_HOST_PACKAGE_ID);
    return detail::g_session == nullptr ? Status(TENON_FAILED_PRECONDITION) : Status();
  }
  const tenon_host_session_t& api() const { return *detail::g_session; }

  Status load(std::string_view path, Model* out) const {
    return api().model_load(api().self, str(path), nullptr, 0, out->out());
  }
  // A program that Model::save wrote. It holds native code: load only files that you trust.
  // check_constants: reads the whole file.
  Status load_package(std::string_view path, Program* out, bool check_constants = false) const {
    if (detail::g_package == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    auto options = sized<tenon_package_load_options_t>();
    options.flags = check_constants ? TENON_PACKAGE_CHECK_CONSTANTS : 0;
    return detail::g_package->load(detail::g_package->self, str(path), &options, out->out());
  }
  // A model from .tir text or any format that a frontend recognises.
  Status load_bytes(std::string_view bytes, std::string_view name, Model* out) const {
    tenon_blob_t* blob = nullptr;
    const tenon_host_graph_t& graph = *context().graph;
    TENON_TRY(graph.blob_bytes(graph.self, bytes.data(), bytes.size(), &blob));
    const tenon_code_t code = api().model_load_bytes(api().self, blob, str(name), {}, out->out());
    graph.blob_release(graph.self, blob);
    return code;
  }
};

}  // namespace tenon::inline sdk

#endif
