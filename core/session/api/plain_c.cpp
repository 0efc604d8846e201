// <tenon/tenon.h>: functions for C programs over the tables of the host, which may be those of
// another copy of the library.
#include <tenon/tenon.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include <tenon/abi/call.h>
#include <tenon/abi/package.h>

#include "core/base/errors/guard.h"
#include "core/base/str.h"

namespace tenon::session {
namespace {

struct Tables {
  const tenon_host_session_t* session;
  const tenon_host_call_t* calls;
  const tenon_host_package_t* packages;
};

// Null before the first call. Set also if the host could not be opened, for the reason.
std::atomic<const tenon_host_t*> host;

tenon_str_t text_of(const char* text) {
  return {text, text == nullptr ? 0 : std::strlen(text)};
}

template <typename Table>
tenon_code_t find(const tenon_host_t* in, const char* id, const Table** out) {
  const void* table = nullptr;
  const tenon_code_t code = in->query(in->self, text_of(id), 0, &table);
  *out = static_cast<const Table*>(table);
  return code;
}

tenon_code_t open_tables(Tables* out) {
  const tenon_host_t* opened = nullptr;
  const tenon_code_t code = tenon_host_open(TENON_ABI_VERSION, nullptr, &opened);
  host = opened;
  if (code != TENON_OK) return code;
  if (const auto c = find(opened, TENON_HOST_SESSION_ID, &out->session); c != TENON_OK) return c;
  if (const auto c = find(opened, TENON_HOST_CALL_ID, &out->calls); c != TENON_OK) return c;
  return find(opened, TENON_HOST_PACKAGE_ID, &out->packages);
}

// Runs `body` with the tables. A host that cannot be opened is tried again by the next call.
template <typename Body>
tenon_code_t with_tables(Body&& body) {
  static std::atomic<const Tables*> kept = nullptr;
  return guarded([&]() -> tenon_code_t {
    if (const Tables* tables = kept.load(std::memory_order_acquire)) return body(*tables);
    Tables found{};
    if (const tenon_code_t code = open_tables(&found); code != TENON_OK) return code;
    const Tables* expected = nullptr;
    const auto* made = new Tables(found);  // lives as long as the process, as the host does
    if (!kept.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) delete made;
    return body(found);
  });
}

tenon_session_options_t on_device(const char* device) {
  tenon_session_options_t options{};
  options.size_bytes = sizeof options;
  options.device = text_of(device);
  return options;
}

uint32_t index_of(tenon_program_t* program, const char* name, bool input) {
  tenon_model_info_t info{};
  info.size_bytes = sizeof info;
  if (tenon_program_ports(program, &info) != TENON_OK) return UINT32_MAX;
  const tenon_port_t* ports = input ? info.inputs : info.outputs;
  const uint32_t count = input ? info.input_count : info.output_count;
  const auto wanted = from_abi_str(text_of(name));
  for (uint32_t i = 0; i < count; ++i) {
    const void* port = reinterpret_cast<const char*>(ports) + uint64_t{i} * ports->size_bytes;
    if (from_abi_str(static_cast<const tenon_port_t*>(port)->name) == wanted) return i;
  }
  return UINT32_MAX;
}

// `count` zeroed records, on the stack if they are few.
template <typename T>
class Records {
 public:
  explicit Records(uint64_t count) : large_(count > kSmall ? count : 0) {}
  T* data() { return large_.empty() ? small_.data() : large_.data(); }
  T& operator[](uint64_t i) { return data()[i]; }

 private:
  static constexpr uint64_t kSmall = 8;
  std::array<T, kSmall> small_{};
  std::vector<T> large_;
};

tenon_array_t array_of(const tenon_dense_t& dense) {
  return {sizeof(tenon_array_t), dense.dtype, 0, dense.rank, 0, dense.data, dense.dims, nullptr};
}

tenon_code_t call(const tenon_host_call_t& calls, tenon_program_t* program,
                  const tenon_dense_t* inputs, uint32_t input_count, tenon_dense_t* outputs,
                  uint32_t output_count) {
  Records<tenon_array_t> in_arrays(input_count), out_arrays(output_count);
  Records<tenon_input_t> in(input_count);
  Records<tenon_output_t> out(output_count);
  for (uint32_t i = 0; inputs != nullptr && i < input_count; ++i) {
    in_arrays[i] = array_of(inputs[i]);
    in[i] = {sizeof in[i], 0, &in_arrays[i], nullptr};
  }
  for (uint32_t i = 0; outputs != nullptr && i < output_count; ++i) {
    const bool given = outputs[i].data != nullptr;
    out_arrays[i] = given ? array_of(outputs[i]) : array_of({});
    out[i] = {sizeof out[i], given ? TENON_OUTPUT_GIVEN : TENON_OUTPUT_OWNED, &out_arrays[i],
              nullptr};
  }
  tenon_program_call_t record{};
  record.size_bytes = sizeof record;
  record.input_count = input_count;
  record.output_count = output_count;
  record.inputs = inputs == nullptr ? nullptr : in.data();  // the slot refuses null
  record.outputs = outputs == nullptr ? nullptr : out.data();
  if (const tenon_code_t code = calls.call(calls.self, program, &record); code != TENON_OK) {
    return code;
  }
  for (uint32_t i = 0; i < output_count; ++i) {
    if (out[i].kind == TENON_OUTPUT_GIVEN) continue;
    const tenon_array_t& array = out_arrays[i];
    outputs[i] = {array.dtype, 0, array.rank, array.dims, array.data, out[i].tensor};
  }
  return TENON_OK;
}

}  // namespace
}  // namespace tenon::session

using namespace tenon::session;  // NOLINT: the functions below are C

const char* tenon_error() {
  static thread_local std::string text;
  const tenon_host_t* const from = host;
  tenon_failure_t failure{};
  failure.size_bytes = sizeof failure;
  if (from == nullptr || from->last_failure(from->self, &failure) != TENON_OK) return "";
  try {
    text = tenon::from_abi_str(failure.id);
    if (!text.empty()) text += ": ";
    text += tenon::from_abi_str(failure.message);
    return text.c_str();
  } catch (...) {
    return "T0111: there is no memory for the reason";
  }
}

tenon_code_t tenon_load(const char* path, tenon_model_t** out_model) {
  return with_tables([&](const Tables& t) {
    return t.session->model_load(t.session->self, text_of(path), nullptr, 0, out_model);
  });
}

void tenon_model_release(tenon_model_t* model) {
  (void)with_tables([&](const Tables& t) {
    t.session->model_release(t.session->self, model);
    return TENON_OK;
  });
}

tenon_code_t tenon_compile(tenon_model_t* model, const char* device,
                           tenon_program_t** out_program) {
  return with_tables([&](const Tables& t) {
    const tenon_session_options_t options = on_device(device);
    return t.session->compile(t.session->self, model, &options, out_program);
  });
}

tenon_code_t tenon_save(tenon_model_t* model, const char* device, const char* path) {
  return with_tables([&](const Tables& t) {
    const tenon_session_options_t session = on_device(device);
    const tenon_package_options_t options = {sizeof options, 0, &session, {}};
    return t.packages->save(t.packages->self, model, &options, text_of(path));
  });
}

tenon_code_t tenon_open(const char* path, tenon_program_t** out_program) {
  return with_tables([&](const Tables& t) {
    return t.packages->load(t.packages->self, text_of(path), nullptr, out_program);
  });
}

void tenon_program_release(tenon_program_t* program) {
  (void)with_tables([&](const Tables& t) {
    t.session->program_release(t.session->self, program);
    return TENON_OK;
  });
}

tenon_code_t tenon_program_ports(tenon_program_t* program, tenon_model_info_t* out_info) {
  return with_tables(
      [&](const Tables& t) { return t.packages->ports(t.packages->self, program, out_info); });
}

uint32_t tenon_input_index(tenon_program_t* program, const char* name) {
  return index_of(program, name, true);
}

uint32_t tenon_output_index(tenon_program_t* program, const char* name) {
  return index_of(program, name, false);
}

tenon_code_t tenon_call(tenon_program_t* program, const tenon_dense_t* inputs, uint32_t input_count,
                        tenon_dense_t* outputs, uint32_t output_count) {
  return with_tables([&](const Tables& t) {
    return call(*t.calls, program, inputs, input_count, outputs, output_count);
  });
}

void tenon_dense_release(tenon_dense_t* arrays, uint32_t count) {
  (void)with_tables([&](const Tables& t) {
    for (uint32_t i = 0; i < count; ++i) {
      if (arrays[i].storage == nullptr) continue;
      t.calls->tensor_release(t.calls->self, static_cast<tenon_tensor_t*>(arrays[i].storage));
      arrays[i] = {};
    }
    return TENON_OK;
  });
}
