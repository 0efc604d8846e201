// The C table of sessions: every slot checks its arguments, calls the class behind the handle and
// records failures.
#include <algorithm>
#include <cstring>

#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/session/api/handles.h"
#include "core/session/api/options.h"
#include "core/session/api/session.h"
#include "core/session/compile/pipeline.h"
#include "core/session/report/explain.h"

namespace tenon::session {
namespace {

// ---- Models ----

Status give_model(Result<std::shared_ptr<Model>> model, tenon_model_t** out) {
  if (!model.ok()) return std::move(model).status();
  HandlePtr<tenon_model_t> handle = new_handle<tenon_model_t>();
  handle->model = std::move(*model);
  *out = handle.release();
  return {};
}

tenon_code_t model_load(void*, tenon_str_t path, const tenon_key_value_t* options,
                        uint32_t option_count, tenon_model_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(out, "out_model");
    if (option_count != 0) TENON_REQUIRE(options, "options");
    return give_model(Model::load(from_abi_str(path), {options, option_count}), out);
  });
}

tenon_code_t model_load_bytes(void*, tenon_blob_t* bytes, tenon_str_t name, tenon_str_t folder,
                              tenon_model_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(bytes, "bytes");
    TENON_REQUIRE(out, "out_model");
    return give_model(Model::load_bytes(ir::Ref<ir::Blob>::share(ir::Blob::from(bytes)),
                                        from_abi_str(name), from_abi_str(folder), {}),
                      out);
  });
}

tenon_code_t model_from_graph(void*, tenon_graph_t* graph, tenon_model_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(graph, "graph");
    TENON_REQUIRE(out, "out_model");
    return give_model(Model::create(ir::Graph::from(graph)->clone()), out);
  });
}

tenon_code_t model_info(void*, tenon_model_t* model, tenon_model_info_t* out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(model);
    TENON_REQUIRE(out, "out_info");
    return give_record(out, model->model->info());
  });
}

tenon_code_t model_graph(void*, tenon_model_t* model, tenon_graph_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(model);
    TENON_REQUIRE(out, "out_graph");
    ir::Ref<ir::Graph> graph = model->model->graph();
    *out = graph.detach()->abi();
    return {};
  });
}

void model_release(void*, tenon_model_t* model) {
  release_handle(model);
}

// ---- Programs ----

}  // namespace

Result<CompileOptions> read_options(const tenon_session_options_t* options) {
  tenon_session_options_t given{};
  if (options != nullptr) {
    TENON_ASSIGN_OR_RETURN(given, prefix_of(options));
  }
  if (given.option_count != 0) TENON_REQUIRE(given.options, "options");
  for (const auto& [name, value] :
       {std::pair("no_fallback", given.no_fallback),
        std::pair("deterministic", given.deterministic), std::pair("autotune", given.autotune)}) {
    if (value > 1)
      return error(TENON_INVALID_ARGUMENT, "T0616", "{} is 0 or 1, and is {}", name, value);
  }
  CompileOptions o;
  o.device = from_abi_str(given.device);
  o.pipeline = from_abi_str(given.pipeline);
  o.no_fallback = given.no_fallback != 0;
  o.deterministic = given.deterministic != 0;
  o.autotune = given.autotune != 0;
  if (given.stable_count != 0) TENON_REQUIRE(given.stable_inputs, "stable_inputs");
  o.stable_inputs.assign(given.stable_inputs, given.stable_inputs + given.stable_count);
  for (uint32_t i = 0; i < given.option_count; ++i) {
    o.options.emplace_back(from_abi_str(given.options[i].key),
                           from_abi_str(given.options[i].value));
  }
  return o;
}

namespace {

tenon_code_t compile(void*, tenon_model_t* model, const tenon_session_options_t* options,
                     tenon_program_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(model);
    TENON_REQUIRE(out, "out_program");
    TENON_ASSIGN_OR_RETURN(const CompileOptions o, read_options(options));
    TENON_ASSIGN_OR_RETURN(AnyProgram program, compile_model(model->model, o));
    give_program(std::move(program), out);
    return {};
  });
}

tenon_code_t program_info(void*, tenon_program_t* program, tenon_program_info_t* out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(out, "out_info");
    const tenon_program_info_t info =
        std::visit([](const auto& p) { return p->info(); }, program->program);
    return give_record(out, info);
  });
}

tenon_code_t placement(void*, tenon_program_t* program, const tenon_sink_t* json) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(json, "sink");
    return write(json,
                 std::visit([](const auto& p) { return p->placement_json(); }, program->program));
  });
}

tenon_code_t placement_summary(void*, tenon_program_t* program, const tenon_sink_t* text) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(text, "sink");
    return write(
        text, std::visit([](const auto& p) { return p->placement_summary(); }, program->program));
  });
}

tenon_code_t dump(void*, tenon_program_t* program, tenon_str_t what, const tenon_sink_t* text) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(text, "sink");
    TENON_ASSIGN_OR_RETURN(
        const std::string dumped,
        std::visit([&](const auto& p) { return p->dump(from_abi_str(what)); }, program->program));
    return write(text, dumped);
  });
}

void program_release(void*, tenon_program_t* program) {
  release_handle(program);
}

// ---- Runs ----

// The body of a slot of a binding, which one thread uses at a time: a second one gets an error.
template <typename F>
tenon_code_t bound(tenon_binding_t* binding, F&& body) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(binding);
    if (binding->busy.exchange(true, std::memory_order_acquire)) {
      return error(TENON_FAILED_PRECONDITION, "T0622",
                   "the binding is in use by another thread; give each thread one of its own, or "
                   "use tenon_host_call_t, which any thread may at any time");
    }
    struct Leave {
      ~Leave() { busy.store(false, std::memory_order_release); }
      std::atomic<bool>& busy;
    } const leave{binding->busy};
    return body(*binding->binding);
  });
}

tenon_code_t binding_create(void*, tenon_program_t* program, tenon_binding_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(out, "out_binding");
    HandlePtr<tenon_binding_t> handle = new_handle<tenon_binding_t>();
    handle->binding = std::make_unique<Binding>(program->program);
    *out = handle.release();
    return {};
  });
}

tenon_code_t bind_input(void*, tenon_binding_t* binding, tenon_str_t name,
                        const tenon_array_t* array) {
  return bound(binding, [&](Binding& b) -> Status {
    TENON_REQUIRE(array, "array");
    TENON_ASSIGN_OR_RETURN(const tenon_array_t given, prefix_of(array));
    return b.bind_input(from_abi_str(name), given);
  });
}

tenon_code_t bind_size(void*, tenon_binding_t* binding, tenon_str_t name, int64_t value) {
  return bound(binding,
               [&](Binding& b) -> Status { return b.bind_size(from_abi_str(name), value); });
}

tenon_code_t run(void*, tenon_binding_t* binding) {
  return bound(binding, [&](Binding& b) -> Status { return b.run(); });
}

tenon_code_t output(void*, tenon_binding_t* binding, tenon_str_t name, tenon_array_t* out) {
  return bound(binding, [&](Binding& b) -> Status {
    TENON_REQUIRE(out, "out_array");
    tenon_array_t array{};
    TENON_RETURN_IF_ERROR(b.output(from_abi_str(name), &array));
    return give_record(out, array);
  });
}

tenon_code_t run_info(void*, tenon_binding_t* binding, tenon_run_info_t* out) {
  return bound(binding, [&](Binding& b) -> Status {
    TENON_REQUIRE(out, "out_info");
    return give_record(out, b.run_info());
  });
}

tenon_code_t profile_enable(void*, tenon_binding_t* binding, uint32_t on) {
  return bound(binding, [&](Binding& b) -> Status {
    b.enable_profile(on != 0);
    return {};
  });
}

tenon_code_t profile_write(void*, tenon_binding_t* binding, uint32_t format,
                           const tenon_sink_t* sink) {
  return bound(binding, [&](Binding& b) -> Status {
    TENON_REQUIRE(sink, "sink");
    const runtime::Trace& trace = b.trace();
    if (format == TENON_PROFILE_PERFETTO) return trace.write_perfetto(*sink);
    if (format == TENON_PROFILE_TABLE) return trace.write_table(*sink);
    return error(TENON_INVALID_ARGUMENT, "T0508",
                 "a profile has no form {}; it has 1 (Perfetto) and 2 (table)", format);
  });
}

void binding_release(void*, tenon_binding_t* binding) {
  release_handle(binding);
}

// ---- Tensors, the process ----

tenon_code_t tensors_read(void*, tenon_str_t path, const tenon_file_tensor_sink_t* sink) {
  return slot([&]() -> Status {
    TENON_REQUIRE(sink, "sink");
    TENON_ASSIGN_OR_RETURN(const tenon_file_tensor_sink_t given, prefix_of(sink));
    TENON_REQUIRE(given.tensor, "the sink's function");
    return read_tensors(from_abi_str(path), given);
  });
}

tenon_code_t tensor_write(void*, tenon_str_t path, const tenon_file_tensor_t* tensor) {
  return slot([&]() -> Status {
    TENON_REQUIRE(tensor, "tensor");
    TENON_ASSIGN_OR_RETURN(const tenon_file_tensor_t given, prefix_of(tensor));
    return write_tensor(from_abi_str(path), given);
  });
}

void cancel(void*, uint32_t on) {
  request_process_cancel(on != 0);
}

tenon_code_t explain_slot(void*, tenon_str_t what, tenon_str_t filter, const tenon_sink_t* json) {
  return slot([&]() -> Status {
    TENON_REQUIRE(json, "sink");
    TENON_ASSIGN_OR_RETURN(const std::string text,
                           explain(from_abi_str(what), from_abi_str(filter)));
    return write(json, text);
  });
}

tenon_code_t passes_run(void*, tenon_graph_t* graph, tenon_str_t passes, tenon_str_t print_after,
                        uint32_t flags, const tenon_sink_t* prints,
                        const tenon_sink_t* stats_json) {
  return slot([&]() -> Status {
    TENON_REQUIRE(graph, "graph");
    TENON_RETURN_IF_ERROR(check_flags(flags, TENON_PASSES_VERIFY_EACH, "passes_run"));
    pass::Settings settings;
    settings.verify_each = (flags & TENON_PASSES_VERIFY_EACH) != 0;
    settings.print_after = from_abi_str(print_after);
    settings.prints = prints;
    TENON_ASSIGN_OR_RETURN(
        const std::vector<pass::Report> reports,
        pass::run_pipeline(host_tables(), pass_registry(), graph, from_abi_str(passes), settings));
    return stats_json == nullptr ? Status() : write(stats_json, pass::reports_json(reports));
  });
}

}  // namespace

const tenon_host_session_t* host_session_table() {
  static const tenon_host_session_t table = {sizeof(tenon_host_session_t),
                                             nullptr,
                                             model_load,
                                             model_load_bytes,
                                             model_from_graph,
                                             model_info,
                                             model_graph,
                                             model_release,
                                             compile,
                                             program_info,
                                             placement,
                                             placement_summary,
                                             dump,
                                             program_release,
                                             binding_create,
                                             bind_input,
                                             bind_size,
                                             run,
                                             output,
                                             run_info,
                                             profile_enable,
                                             profile_write,
                                             binding_release,
                                             tensors_read,
                                             tensor_write,
                                             cancel,
                                             explain_slot,
                                             passes_run};
  return &table;
}

}  // namespace tenon::session
