// A call by position: arguments to records, the call, records to results.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>

#include "frontends/python/native/arrays/device_memory.h"
#include "frontends/python/native/arrays/numpy_arrays.h"
#include "frontends/python/native/arrays/tensor.h"
#include "frontends/python/native/host/host.h"
#include "frontends/python/native/program/program.h"
#include "frontends/python/native/program/results.h"
#include "tenon/cpp/record.hpp"
#include "tenon/cpp/text.hpp"

namespace nb = nanobind;

namespace tenon::python {
namespace {

// Below this a call keeps the GIL: giving it back and taking it again may cost as much.
constexpr double kQuickUs = 20;
constexpr size_t kSpareMax = 16;

// Whether a tensor is in memory of another library, whose stream the call follows.
bool works_on_stream(const Tensor& tensor) {
  return tensor.stream() != nullptr && *tensor.stream()->kind != 0;
}

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Call::Call(const Program& program)
    : arguments(new Argument[program.inputs_.size()]),
      inputs(program.inputs_.size()),
      given(new Argument[program.outputs_.size()]),
      outputs(program.outputs_.size()),
      results(program.outputs_.size()),
      fresh(program.outputs_.size()),
      blocks(program.outputs_.size()) {
  record.size_bytes = sizeof record;
  record.input_count = static_cast<uint32_t>(inputs.size());
  record.output_count = static_cast<uint32_t>(outputs.size());
  record.inputs = inputs.data();
  record.outputs = outputs.data();
  program.set_sizes_of(*this, {});
}

void Call::clear() {
  for (size_t i = 0; i < inputs.size(); ++i) arguments[i].release();
  for (size_t i = 0; i < outputs.size(); ++i) {
    given[i].release();
    Py_CLEAR(fresh[i]);
    blocks[i].reset();
  }
  for (PyObject* object : held) Py_DECREF(object);
  held.clear();
  given_objects = {};
}

void Call::look_at_arguments() {
  kind = Kind::kNone;
  bytes = 0;
  bool has_stream = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Argument& argument = arguments[i];
    inputs[i] = {sizeof(tenon_input_t), argument.donated ? TENON_INPUT_DONATED : 0,
                 argument.tensor != nullptr ? nullptr : &argument.array, argument.tensor};
    bytes += argument.bytes();
    if (const Tensor* tensor = argument.used(); tensor != nullptr && works_on_stream(*tensor))
      has_stream = true;
    if (argument.kind <= kind) continue;
    kind = argument.kind;
    of_user = argument.user;
  }
  record.streams = nullptr;
  record.stream_count = 0;
  if (has_stream) find_streams();
}

// A library works on one stream and later on another, so what a tensor's memory waits for may be in
// either: in the one that was current when the tensor was made, and in the one that is current now.
// Those that are current come first, for the work of a call goes to the first of its device and
// waits for the others.
void Call::find_streams() {
  stream_handles.clear();
  streams.clear();
  for (const bool now : {true, false}) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor* tensor = arguments[i].used();
      if (tensor == nullptr || !works_on_stream(*tensor)) continue;
      const WorkStream& stream = *tensor->stream();
      if (!now) {
        follow(stream, stream.handle);
      } else if (stream.library != nullptr) {
        follow(stream, current_stream(*stream.library, stream.place));
      }
    }
  }
  for (size_t i = 0; i < streams.size(); ++i) streams[i].handle = &stream_handles[i];
  record.streams = streams.data();
  record.stream_count = static_cast<uint32_t>(streams.size());
}

void Call::follow(const WorkStream& stream, uint64_t handle) {
  for (size_t i = 0; i < streams.size(); ++i) {
    if (stream_handles[i].handle == handle && view(streams[i].device) == stream.device) return;
  }
  auto native = sized<tenon_native_handle_t>();
  native.kind = text(stream.kind);
  native.handle = handle;
  stream_handles.push_back(native);
  auto of_call = sized<tenon_call_native_t>();
  of_call.device = text(stream.device);
  streams.push_back(of_call);
}

std::string Program::signature() const {
  std::string out;
  for (const Port& port : inputs_) {
    out += (out.empty() ? "" : ", ") + port.name + ": " + dtype_name(port.dtype) + "[";
    for (size_t i = 0; i < port.dim_texts.size(); ++i)
      out += (i == 0 ? "" : ", ") + port.dim_texts[i];
    out += "]";
  }
  return out.empty() ? "none" : out;
}

void Program::refuse_count(size_t given) const {
  raise_usage(TENON_INVALID_ARGUMENT, "T0601",
              "the model takes " + std::to_string(inputs_.size()) +
                  (inputs_.size() == 1 ? " input, and " : " inputs, and ") + std::to_string(given) +
                  (given == 1 ? " was" : " were") + " given (inputs: " + signature() + ").");
}

size_t Program::index_of(const std::string& name) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].name == name) return i;
  std::vector<std::string> known;
  for (const Port& port : inputs_) known.push_back(port.name);
  raise_usage(TENON_NOT_FOUND, "T0602",
              "there is no input " + text::quoted(name) + text::did_you_mean(name, known) +
                  " (inputs: " + signature() + ").");
}

void Program::read_named(Call& call, size_t count, PyObject* names) {
  std::vector<bool> seen(inputs_.size(), false);
  std::fill_n(seen.begin(), count, true);
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(names, &position, &key, &value) != 0) {
    if (!PyUnicode_Check(key)) throw nb::type_error("names of inputs are texts");
    const size_t i = index_of(nb::cast<std::string>(nb::str(nb::handle(key))));
    if (seen[i])
      raise_usage(TENON_INVALID_ARGUMENT, "T0601", inputs_[i].expected.where + " is given twice.");
    seen[i] = true;
    Py_INCREF(value);
    call.held.push_back(value);
    call.arguments[i].read(value, inputs_[i].expected);
  }
  std::string missing;
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i]) missing += (missing.empty() ? "" : ", ") + inputs_[i].name;
  if (!missing.empty()) {
    raise_usage(TENON_INVALID_ARGUMENT, "T0601",
                "these inputs are missing: " + missing + " (inputs: " + signature() + ").");
  }
}

void Program::read_arguments(Call& call, PyObject* const* values, size_t count, PyObject* names) {
  const bool named = names != nullptr && PyDict_GET_SIZE(names) != 0;
  if (count > inputs_.size() || (!named && count != inputs_.size())) refuse_count(count);
  for (size_t i = 0; i < count; ++i) call.arguments[i].read(values[i], inputs_[i].expected);
  if (named) read_named(call, count, names);
  call.look_at_arguments();
}

// The program's sizes, and those of this call.
void Program::set_sizes_of(Call& call, std::span<const Size> sizes) const {
  const std::vector<tenon_size_t>* all = &sizes_;
  if (!sizes.empty()) {
    call.sizes = sizes_;
    for (const auto& [name, value] : sizes) call.sizes.push_back({text(name), value});
    all = &call.sizes;
  }
  call.record.sizes = all->data();
  call.record.size_count = static_cast<uint32_t>(all->size());
}

// Memory for a small result; null if there is none, or it is better made by the host.
void* Program::memory_for(Call& call, size_t i, As as) {
  const Port& port = outputs_[i];
  if (port.small_bytes == 0 || (as != As::kUsers && as != As::kNumpy)) return nullptr;
  if (as == As::kNumpy || call.kind == Kind::kNumpy) {
    if (!numpy_has(port.dtype)) return nullptr;
    void* data = nullptr;
    call.fresh[i] =
        numpy_empty(port.dtype, static_cast<uint32_t>(port.dims.size()), port.dims.data(), &data);
    return data;
  }
  if (call.kind != Kind::kExchange || dlpack::kTypes[port.dtype].lanes == 0) return nullptr;
  return call.blocks[i].allocate(port.small_bytes);
}

void Program::ask_for_result(Call& call, size_t i, As as) {
  tenon_array_t& result = call.results[i];
  result = sized<tenon_array_t>();
  const uint32_t kind = as == As::kDevice ? TENON_OUTPUT_LEFT : TENON_OUTPUT_OWNED;
  call.outputs[i] = {sizeof(tenon_output_t), kind, &result, nullptr};
  void* const memory = memory_for(call, i, as);
  if (memory == nullptr) return;
  result.dtype = outputs_[i].dtype;
  result.rank = static_cast<uint32_t>(outputs_[i].dims.size());
  result.dims = outputs_[i].dims.data();
  result.data = memory;
  call.outputs[i].kind = TENON_OUTPUT_GIVEN;
}

void Program::read_given(Call& call, const Given& given, As as) {
  call.given_objects = given.memory;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (i >= given.memory.size() || given.memory[i] == Py_None) {
      ask_for_result(call, i, as);
      continue;
    }
    Expected expected = outputs_[i].expected;
    expected.where = "the memory for " + expected.where;
    Argument& memory = call.given[i];
    memory.read(given.memory[i], expected);
    if (memory.tensor != nullptr || !memory.writable)
      raise_usage(TENON_INVALID_ARGUMENT, "T0620", expected.where + " is read-only.");
    call.outputs[i] = {sizeof(tenon_output_t),
                       given.in_place ? TENON_OUTPUT_IN_PLACE : TENON_OUTPUT_GIVEN, &memory.array,
                       nullptr};
  }
}

void Program::execute(Call& call) {
  const tenon_host_call_t& api = *g_tables.call;
  double begin = 0, end = 0;
  tenon_code_t code;
  const ThreadLimit limit(threads_);
  if (last_us_ < kQuickUs && call.bytes <= 2 * last_bytes_ && may_keep_gil()) {
    begin = now_us();
    code = api.call(api.self, program_, &call.record);
    end = now_us();
    if (code != TENON_OK) raise_failure(code);
    empty_queues();
  } else {
    code = without_gil([&] {
      begin = now_us();
      const tenon_code_t result = api.call(api.self, program_, &call.record);
      end = now_us();
      return result;
    });
  }
  if (code != TENON_OK) raise_failure(code);
  last_us_ = by_value_ ? kQuickUs : end - begin;
  last_bytes_ = call.bytes;
  last_ = {call.record.repacked_bytes, call.record.transferred_bytes, call.record.copied_out_bytes,
           (end - begin) / 1000};
}

PyObject* Program::result_of(Call& call, size_t i, As as) {
  const Kind kind = call.kind;
  PyObject* const of_user = call.of_user;
  if (call.fresh[i] != nullptr) return std::exchange(call.fresh[i], nullptr);
  if (call.blocks[i]) {
    return as_exchanged(std::exchange(call.blocks[i], {}), call.results[i],
                        *exchange_of(Py_TYPE(of_user)));
  }
  tenon_tensor_t* tensor = std::exchange(call.outputs[i].tensor, nullptr);
  const tenon_array_t& array = call.results[i];
  if (as == As::kTensor || as == As::kDevice) return as_tensor(tensor, array);
  if (as == As::kNumpy || kind == Kind::kNumpy) return as_numpy(tensor, array);
  if (kind == Kind::kExchange) return as_exchanged(tensor, array, *exchange_of(Py_TYPE(of_user)));
  PyObject* made = as_tensor(tensor, array);
  if (kind != Kind::kNamespace || !nb::hasattr(nb::handle(of_user), "__array_namespace__"))
    return made;
  const nb::object owned = nb::steal(made);
  return nb::handle(of_user)
      .attr("__array_namespace__")()
      .attr("from_dlpack")(owned)
      .release()
      .ptr();
}

PyObject* Program::results_of(Call& call, As as) {
  nb::object results =
      nb::steal(results_new(output_names_.ptr(), static_cast<Py_ssize_t>(outputs_.size())));
  if (!results.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    PyObject* value = nullptr;
    if (i < call.given_objects.size() && call.given_objects[i] != Py_None) {
      value = Py_NewRef(call.given_objects[i]);
    } else {
      value = result_of(call, i, as);
    }
    results_set(results.ptr(), static_cast<Py_ssize_t>(i), value);
  }
  return results.release().ptr();
}

void Program::enter() {
  if (closed_) raise_usage(TENON_FAILED_PRECONDITION, "T0626", "the model was closed.");
  ++active_;
}

void Program::leave() {
  if (--active_ == 0 && closed_) release();
}

std::unique_ptr<Call> Program::take_call() {
  enter();
  if (spare_.empty()) return std::make_unique<Call>(*this);
  std::unique_ptr<Call> call = std::move(spare_.back());
  spare_.pop_back();
  return call;
}

void Program::give_back(std::unique_ptr<Call> call) {
  // Results that were not handed over, because making another one failed.
  for (tenon_output_t& output : call->outputs)
    release_tensor(std::exchange(output.tensor, nullptr));
  call->clear();
  leave();
  if (spare_.size() < kSpareMax) spare_.push_back(std::move(call));
}

std::unique_ptr<Call> Program::begin(const nb::args& values, const nb::kwargs& names) {
  std::unique_ptr<Call> call = take_call();
  try {
    std::vector<PyObject*> list;
    for (const nb::handle value : values) list.push_back(value.ptr());
    read_arguments(*call, list.data(), list.size(), names.ptr());
    read_given(*call, {}, As::kUsers);
  } catch (...) {
    give_back(std::move(call));
    throw;
  }
  return call;
}

PyObject* Program::call(PyObject* const* values, size_t count, PyObject* names, As as,
                        const Given& given, std::span<const Size> sizes) {
  // Gives the records back on every way out.
  struct Records {
    Program& program;
    std::unique_ptr<Call> call;
    ~Records() { program.give_back(std::move(call)); }
  } use{*this, take_call()};
  Call& c = *use.call;
  if (!given.memory.empty() && given.memory.size() != outputs_.size()) {
    raise_usage(TENON_INVALID_ARGUMENT, "T0620",
                "the model has " + std::to_string(outputs_.size()) + " results, and memory for " +
                    std::to_string(given.memory.size()) + " was given.");
  }
  read_arguments(c, values, count, names);
  read_given(c, given, as);
  set_sizes_of(c, sizes);
  execute(c);
  return results_of(c, as);
}

}  // namespace tenon::python
