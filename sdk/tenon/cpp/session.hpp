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
// and keeps state where it is: Output::left() and Input::donate().
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

#include <algorithm>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/abi/call.h"
#include "tenon/abi/host.h"
#include "tenon/abi/operation.h"
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
  bool autotune = false;  // measure where kernel sets and the device's own code compete
  std::vector<uint32_t> stable_inputs;  // positions of inputs whose values rarely change
};

namespace detail {

// Used by every handle; set once by Session::open.
inline const tenon_host_session_t* g_session = nullptr;
inline const tenon_host_call_t* g_call = nullptr;
inline const tenon_host_operation_t* g_operation = nullptr;
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

// An immutable value on the host, on a device, or on several. Outlives programs.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Tensor&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Tensor() {
    if (object_ != nullptr) detail::g_call->tensor_release(detail::g_call->self, object_);
  }
  // In memory of a device ("cpu", "sim:1"), or of the host.
  static Status copy(const ArrayView& array, Tensor* out, std::string_view device = "") {
    if (detail::g_call == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    const tenon_array_t raw = detail::raw(array);
    return detail::g_call->tensor_copy(detail::g_call->self, &raw, str(device), out->out());
  }
  // Without a copy: the memory lives, and stays as it is, as long as the tensor and every call that
  // uses it.
  static Status borrow(const ArrayView& array, Tensor* out) {
    if (detail::g_call == nullptr) return TENON_UNIMPLEMENTED;
    const tenon_array_t raw = detail::raw(array);
    return detail::g_call->tensor_wrap(detail::g_call->self, &raw, nullptr, nullptr, out->out());
  }
  // Memory of another library on a device, where it is: see tenon_host_call_t::tensor_adopt. It
  // lives as long as the tensor and every call that uses it.
  static Status adopt(tenon_dtype_t dtype, std::span<const int64_t> dims, std::string_view device,
                      const tenon_native_memory_t& memory, Tensor* out) {
    if (detail::g_call == nullptr) return TENON_UNIMPLEMENTED;
    auto raw = sized<tenon_array_t>();
    raw.dtype = dtype;
    raw.rank = static_cast<uint32_t>(dims.size());
    raw.dims = dims.data();
    return detail::g_call->tensor_adopt(detail::g_call->self, &raw, str(device), &memory, nullptr,
                                        nullptr, out->out());
  }
  // A handle of its memory on a device, for other libraries; copied there if necessary.
  Status native(std::string_view device, std::string_view kind, tenon_native_memory_t* out) const {
    if (object_ == nullptr) return TENON_INVALID_ARGUMENT;
    *out = {};
    out->size_bytes = sizeof *out;
    return detail::g_call->tensor_native(detail::g_call->self, object_, str(device), str(kind),
                                         out);
  }
  // What is in a stream of a device now may use its memory there, also when the tensor is gone: see
  // tenon_host_call_t::tensor_use.
  Status use(std::string_view device, const tenon_native_handle_t& stream) const {
    if (object_ == nullptr) return TENON_INVALID_ARGUMENT;
    constexpr size_t kEnd = offsetof(tenon_host_call_t, tensor_use) + sizeof(void*);
    if (detail::g_call->size_bytes < kEnd) return TENON_UNIMPLEMENTED;  // by an older libtenon
    auto of_device = sized<tenon_call_native_t>();
    of_device.device = str(device);
    of_device.handle = &stream;
    return detail::g_call->tensor_use(detail::g_call->self, object_, &of_device);
  }
  // Its elements on the host, as long as it lives; copied there if necessary.
  Status array(ArrayView* out) const {
    if (object_ == nullptr) return TENON_INVALID_ARGUMENT;
    auto raw = sized<tenon_array_t>();
    TENON_TRY(detail::g_call->tensor_array(detail::g_call->self, object_, &raw));
    *out = {raw.dtype, {raw.dims, raw.dims + raw.rank}, raw.data};
    return {};
  }
  Status info(tenon_tensor_info_t* out) const {
    if (object_ == nullptr) return TENON_INVALID_ARGUMENT;
    *out = {};
    out->size_bytes = sizeof *out;
    return detail::g_call->tensor_info(detail::g_call->self, object_, out);
  }
  tenon_tensor_t* get() const { return object_; }
  // For calls that make one; releases the current one.
  tenon_tensor_t** out() {
    *this = Tensor();
    return &object_;
  }

 private:
  tenon_tensor_t* object_ = nullptr;
};

// Work of this thread, or of a thread of its own, that can be cancelled. Its functions, which may
// be empty, are called as operation.h says.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  ~Operation() {
    if (object_ != nullptr) api().release(api().self, object_);
  }
  std::function<bool()> poll;
  std::function<void(std::string_view phase, uint64_t done, uint64_t total)> progress;
  std::function<void(Status)> done;

  // Before the first use, after the functions are set.
  Status open() {
    if (detail::g_operation == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    auto options = sized<tenon_operation_options_t>();
    options.context = this;
    if (poll) options.poll = [](void* self) { return self_of(self).poll() ? 1u : 0u; };
    if (progress) {
      options.progress = [](void* self, tenon_str_t phase, uint64_t done, uint64_t total) {
        self_of(self).progress(view(phase), done, total);
      };
    }
    if (done) options.done = [](void* self, tenon_code_t code) { self_of(self).done(code); };
    return api().create(api().self, &options, &object_);
  }
  void cancel() {
    if (object_ != nullptr) api().cancel(api().self, object_);
  }
  // What `work` asks of the host on this thread belongs to the operation.
  template <class Work>
  Status run(Work&& work) {
    TENON_TRY(api().enter(api().self, object_));
    Status result = work();
    const tenon_code_t left = api().leave(api().self, object_);
    return result.ok() ? Status(left) : result;
  }
  Status wait(uint64_t timeout_ns = UINT64_MAX) {
    return api().wait(api().self, object_, timeout_ns);
  }
  tenon_operation_t* get() const { return object_; }

 private:
  static Operation& self_of(void* self) { return *static_cast<Operation*>(self); }
  static const tenon_host_operation_t& api() { return *detail::g_operation; }
  tenon_operation_t* object_ = nullptr;
};

// An input of Program::call: an array of the caller or a tensor. Their memory is borrowed for the
// call.
class Input {
 public:
  Input(ArrayView array) : array_(std::move(array)) {}
  Input(const Tensor& tensor) : tensor_(&tensor) {}
  // The call may take the tensor's memory for an output. Afterwards it has no value.
  static Input donate(Tensor& tensor) {
    Input input(tensor);
    input.flags_ = TENON_INPUT_DONATED;
    return input;
  }

 private:
  friend class Call;
  ArrayView array_;
  const Tensor* tensor_ = nullptr;
  uint32_t flags_ = 0;
};

// An output of Program::call: a tensor that this owns after the call, or memory of the caller. It
// outlives the program.
class Output {
 public:
  Output() = default;  // a tensor that the host can read
  // The caller's dense memory, which a call writes, for a result of this type and these dims.
  Output(tenon_dtype_t dtype, std::vector<int64_t> dims, void* memory)
      : kind_(TENON_OUTPUT_GIVEN), array_{dtype, std::move(dims), memory} {}
  static Output into(std::span<float> memory, std::vector<int64_t> dims) {
    return {TENON_F32, std::move(dims), memory.data()};
  }
  // The same, and it may be the memory of an input array, which it replaces while that is read.
  static Output in_place(std::span<float> memory, std::vector<int64_t> dims) {
    Output output = into(memory, std::move(dims));
    output.kind_ = TENON_OUTPUT_IN_PLACE;
    return output;
  }
  // A tensor that stays on the device that made it.
  static Output left() {
    Output output;
    output.kind_ = TENON_OUTPUT_LEFT;
    return output;
  }
  // For a tensor that was left, data is null where the host cannot read it.
  const ArrayView& array() const { return array_; }
  template <class T>
  std::span<const T> as() const {
    return array_.as<T>();
  }
  Tensor& tensor() { return tensor_; }

 private:
  friend class Call;
  bool is_callers() const { return kind_ == TENON_OUTPUT_GIVEN || kind_ == TENON_OUTPUT_IN_PLACE; }
  uint32_t kind_ = TENON_OUTPUT_OWNED;
  ArrayView array_;
  Tensor tensor_;
};

// Compiled and loaded on its devices.
class Program : public detail::Handle<tenon_program_t, &tenon_host_session_t::program_release> {
 public:
  Status bind(Binding* out) const {
    return detail::g_session->binding_create(detail::g_session->self, object_, out->out());
  }
  // Runs with arrays and tensors by position, from any thread; calls of one program run at the same
  // time. `information`, when given, gets what was copied.
  Status call(std::span<const Input> inputs, std::span<Output> outputs,
              tenon_program_call_t* information = nullptr) const;
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

// A call with its records, for calls in the background, and for many calls with the same memory. A
// tensor that is an output of one run may be an input of the next. The program, tensors, the memory
// of arrays, and outputs are borrowed as long as it lives.
class Call {
 public:
  Call(const Program& program, std::span<const Input> inputs, std::span<Output> outputs)
      : program_(program.get()), outputs_(outputs) {
    arrays_.reserve(inputs.size() + outputs.size());
    inputs_.reserve(inputs.size());
    for (const Input& input : inputs) {
      arrays_.push_back(detail::raw(input.array_));
      tensors_.push_back(input.tensor_);
      inputs_.push_back({sizeof(tenon_input_t), input.flags_,
                         input.tensor_ == nullptr ? &arrays_.back() : nullptr, nullptr});
    }
    records_.reserve(outputs.size());
    for (const Output& output : outputs) {
      arrays_.push_back(detail::raw(output.array_));
      records_.push_back({sizeof(tenon_output_t), output.kind_, &arrays_.back(), nullptr});
    }
    raw_.size_bytes = sizeof raw_;
    raw_.input_count = static_cast<uint32_t>(inputs_.size());
    raw_.output_count = static_cast<uint32_t>(records_.size());
    raw_.inputs = inputs_.data();
    raw_.outputs = records_.data();
  }
  Call(const Call&) = delete;

  Status run() {
    if (detail::g_call == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    begin();
    TENON_TRY(detail::g_call->call(detail::g_call->self, program_, &raw_));
    give();
    return {};
  }
  // The value of a symbolic size; needed for one that follows from no input's dims.
  void size(std::string_view name, int64_t value) {
    const auto at = std::find_if(sizes_.begin(), sizes_.end(),
                                 [name](const tenon_size_t& s) { return view(s.name) == name; });
    if (at != sizes_.end()) {
      at->value = value;
    } else {
      names_.emplace_back(name);
      sizes_.push_back({str(names_.back()), value});
    }
    raw_.sizes = sizes_.data();
    raw_.size_count = static_cast<uint32_t>(sizes_.size());
  }
  // Streams and fences of other libraries on a device of the program, as the device's plugin takes
  // them; handles have no flags.
  void stream(std::string_view device, const tenon_native_handle_t& handle) {
    join(streams_, device, handle);
    raw_.streams = streams_.records.data();
    raw_.stream_count = static_cast<uint32_t>(streams_.records.size());
  }
  void wait_for(std::string_view device, const tenon_native_handle_t& handle) {
    join(waits_, device, handle);
    raw_.waits = waits_.records.data();
    raw_.wait_count = static_cast<uint32_t>(waits_.records.size());
  }
  void signal(std::string_view device, const tenon_native_handle_t& handle) {
    join(signals_, device, handle);
    raw_.signals = signals_.records.data();
    raw_.signal_count = static_cast<uint32_t>(signals_.records.size());
  }
  // Begins the call on a thread of the operation, which must be waited for with finish().
  Status start(const Operation& operation) {
    if (detail::g_operation == nullptr) return TENON_UNIMPLEMENTED;  // by an older libtenon
    begin();
    return detail::g_operation->start_call(detail::g_operation->self, program_, &raw_,
                                           operation.get());
  }
  Status finish(Operation& operation) {
    TENON_TRY(operation.wait());
    give();
    return {};
  }
  // Of the last run: what was copied.
  const tenon_program_call_t& information() const { return raw_; }

 private:
  // Tensors as they are now: an input may be an output of the run before.
  void begin() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (tensors_[i] != nullptr) inputs_[i].tensor = tensors_[i]->get();
    }
    for (Output& output : outputs_) {
      if (!output.is_callers()) output.array_ = {};
    }
  }
  void give() {
    for (size_t i = 0; i < records_.size(); ++i) {
      if (outputs_[i].is_callers()) continue;
      *outputs_[i].tensor_.out() = records_[i].tensor;
      const tenon_array_t& made = *records_[i].array;
      outputs_[i].array_ = {made.dtype, {made.dims, made.dims + made.rank}, made.data};
    }
  }
  struct Natives {
    std::deque<tenon_native_handle_t> handles;
    std::deque<std::string> texts;  // names of devices, and kinds
    std::vector<tenon_call_native_t> records;
  };
  static void join(Natives& all, std::string_view device, const tenon_native_handle_t& handle) {
    tenon_native_handle_t& kept = all.handles.emplace_back(handle);
    kept.kind = str(all.texts.emplace_back(view(handle.kind)));
    all.records.push_back(
        {sizeof(tenon_call_native_t), 0, str(all.texts.emplace_back(device)), &kept});
  }
  tenon_program_t* program_;
  std::span<Output> outputs_;
  std::vector<tenon_array_t> arrays_;  // of inputs, then of outputs
  std::vector<const Tensor*> tensors_;
  std::vector<tenon_input_t> inputs_;
  std::vector<tenon_output_t> records_;
  std::deque<std::string> names_;  // a deque: addresses are stable
  std::vector<tenon_size_t> sizes_;
  Natives streams_, waits_, signals_;
  tenon_program_call_t raw_{};
};

inline Status Program::call(std::span<const Input> inputs, std::span<Output> outputs,
                            tenon_program_call_t* information) const {
  Call call(*this, inputs, outputs);
  TENON_TRY(call.run());
  if (information != nullptr) {
    *information = call.information();
    information->inputs = nullptr;
    information->outputs = nullptr;
  }
  return {};
}

class Model : public detail::Handle<tenon_model_t, &tenon_host_session_t::model_release> {
 public:
  // FAILED_PRECONDITION for a model that was not loaded, as before a session.
  Status info(tenon_model_info_t* out) const {
    *out = {};
    out->size_bytes = sizeof *out;
    if (object_ == nullptr) return TENON_FAILED_PRECONDITION;
    return detail::g_session->model_info(detail::g_session->self, object_, out);
  }
  Status compile(const CompileOptions& options, Program* out) const {
    if (object_ == nullptr) return TENON_FAILED_PRECONDITION;
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
    raw.autotune = options.autotune ? 1 : 0;
    raw.device = str(options.device);
    raw.pipeline = str(options.pipeline);
    raw.options = pairs.data();
    raw.option_count = static_cast<uint32_t>(pairs.size());
    raw.stable_inputs = options.stable_inputs.data();
    raw.stable_count = static_cast<uint32_t>(options.stable_inputs.size());
    return raw;
  }
};

// The process's single session with the host.
class Session {
 public:
  // Starts the host of the process, or finds it. After a failure, failure_text() has the reason.
  Status open(const tenon_host_options_t* options = nullptr) {
    const tenon_host_t* host = nullptr;
    const tenon_code_t code = tenon_host_open(TENON_ABI_VERSION, options, &host);
    if (code != TENON_OK) {
      if (context().host == nullptr) detail::g_context.host = host;  // for its last failure
      return code;
    }
    attach(host);
    detail::g_session = context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
    detail::g_call = context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
    detail::g_operation = context().query<tenon_host_operation_t>(TENON_HOST_OPERATION_ID);
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
