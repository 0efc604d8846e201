#include "core/conform/case_run.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <thread>

#include <tenon/abi/session.h>

#include "core/base/str.h"
#include "core/conform/session.h"
#include "core/tools/tensors.h"

namespace tenon::conform {
namespace {

constexpr size_t kCasesInGraph = 48;
const std::string kReference = "reference";

using Bytes = std::vector<unsigned char>;

// The tables that a program works with.
struct Api {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
  const tenon_host_session_t* session = nullptr;
};

Outcome find_api(Api* out) {
  std::string why;
  out->host = installed_host(&why);
  if (out->host == nullptr) return skipped("the installed host does not start: " + why);
  const void *graph = nullptr, *session = nullptr;
  constexpr std::string_view kGraph = TENON_HOST_GRAPH_ID, kSession = TENON_HOST_SESSION_ID;
  if (out->host->query(out->host->self, {kGraph.data(), kGraph.size()}, 0, &graph) != TENON_OK ||
      out->host->query(out->host->self, {kSession.data(), kSession.size()}, 0, &session) !=
          TENON_OK) {
    return skipped("the installed host has no sessions");
  }
  out->graph = static_cast<const tenon_host_graph_t*>(graph);
  out->session = static_cast<const tenon_host_session_t*>(session);
  return pass();
}

std::string last_failure(const Api& api) {
  tenon_failure_t failure = {};
  failure.size_bytes = sizeof(failure);
  if (api.host->last_failure(api.host->self, &failure) != TENON_OK) return "no reason given";
  return printable(view(failure.message), 600);
}

std::string failure_id(const Api& api) {
  tenon_failure_t failure = {};
  failure.size_bytes = sizeof(failure);
  return api.host->last_failure(api.host->self, &failure) == TENON_OK
             ? std::string(view(failure.id))
             : "";
}

tenon_code_t append(void* self, const void* data, uint64_t size) {
  static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
  return TENON_OK;
}

// A model, compiled for one device.
class Program {
 public:
  explicit Program(const Api& api) : api_(api) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) api_.session->program_release(api_.session->self, program_);
    if (model_ != nullptr) api_.session->model_release(api_.session->self, model_);
  }
  // What the device does not take runs on the reference, which compiles nothing. whole: composites
  // are broken up before, and nothing may run elsewhere.
  tenon_code_t compile(const std::string& text, const std::string& kind, bool whole) {
    const std::string device = whole || kind == kReference ? kind : kind + "," + kReference;
    tenon_blob_t* blob = nullptr;
    if (tenon_code_t code =
            api_.graph->blob_bytes(api_.graph->self, text.data(), text.size(), &blob);
        code != TENON_OK)
      return code;
    constexpr std::string_view kName = "cases.tir";
    const std::string_view pipeline = whole ? "" : "none";
    tenon_code_t code = api_.session->model_load_bytes(
        api_.session->self, blob, {kName.data(), kName.size()}, {nullptr, 0}, &model_);
    api_.graph->blob_release(api_.graph->self, blob);
    if (code != TENON_OK) return code;
    tenon_session_options_t options = {};
    options.size_bytes = sizeof(options);
    options.claim_all = 1;
    options.no_fallback = whole ? 1 : 0;
    options.device = {device.data(), device.size()};
    options.pipeline = {pipeline.data(), pipeline.size()};
    return api_.session->compile(api_.session->self, model_, &options, &program_);
  }
  // Which device every node runs on, in order of nodes.
  std::vector<std::string> devices() const {
    std::string text;
    const tenon_sink_t sink = {&text, append};
    std::vector<std::string> out;
    if (api_.session->placement(api_.session->self, program_, &sink) != TENON_OK) return out;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("nodes")) return out;
    for (const auto& node : json["nodes"]) out.push_back(node.value("device", ""));
    return out;
  }
  tenon_model_info_t info() const {
    tenon_model_info_t info = {};
    info.size_bytes = sizeof(info);
    (void)api_.session->model_info(api_.session->self, model_, &info);
    return info;
  }
  tenon_program_t* get() const { return program_; }
  const Api& api() const { return api_; }

 private:
  const Api& api_;
  tenon_model_t* model_ = nullptr;
  tenon_program_t* program_ = nullptr;
};

struct Named {
  std::string name;
  tools::Dense tensor;
  Bytes bytes;
};

int64_t count_of(const tenon_port_t& port) {
  int64_t count = 1;
  for (uint32_t i = 0; i < port.rank; ++i) count *= port.dims[i];
  return count;
}

std::vector<Named> make_inputs(const tenon_model_info_t& info, const Fill& fill) {
  std::vector<Named> inputs(info.input_count);
  for (uint32_t i = 0; i < info.input_count; ++i) {
    const tenon_port_t& port = info.inputs[i];
    Named& input = inputs[i];
    input.name = std::string(view(port.name));
    input.tensor.dtype = port.dtype;
    input.tensor.dims.assign(port.dims, port.dims + port.rank);
    input.bytes.resize(std::max<uint64_t>(input.tensor.size_bytes(), 1));
    fill(port.dtype, i, count_of(port), input.bytes.data());
    input.tensor.data = input.bytes.data();
  }
  return inputs;
}

tenon_code_t bind_one(const Api& api, tenon_binding_t* binding, const Named& input) {
  std::vector<int64_t> strides(input.tensor.dims.size() + 1);
  int64_t stride = input.tensor.count() == 0
                       ? 0
                       : static_cast<int64_t>(input.tensor.size_bytes()) / input.tensor.count();
  for (size_t d = input.tensor.dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= input.tensor.dims[d];
  }
  tenon_array_t array = {};
  array.size_bytes = sizeof(array);
  array.dtype = input.tensor.dtype;
  array.rank = static_cast<uint32_t>(input.tensor.dims.size());
  array.data = const_cast<unsigned char*>(input.bytes.data());
  array.dims = input.tensor.dims.data();
  array.strides_bytes = strides.data();
  return api.session->bind_input(api.session->self, binding, {input.name.data(), input.name.size()},
                                 &array);
}

// One run; the outputs copied out. False with the reason when it fails.
bool run_program(const Program& program, const std::vector<Named>& inputs,
                 std::vector<Named>* outputs, std::string* why) {
  const Api& api = program.api();
  tenon_binding_t* binding = nullptr;
  tenon_code_t code = api.session->binding_create(api.session->self, program.get(), &binding);
  if (code != TENON_OK) return *why = last_failure(api), false;
  for (const Named& input : inputs) {
    if (code == TENON_OK) code = bind_one(api, binding, input);
  }
  if (code == TENON_OK) code = api.session->run(api.session->self, binding);
  if (code != TENON_OK) *why = last_failure(api);  // before another call into the host
  const tenon_model_info_t info = program.info();
  for (uint32_t i = 0; code == TENON_OK && i < info.output_count; ++i) {
    tenon_array_t array = {};
    array.size_bytes = sizeof(array);
    code = api.session->output(api.session->self, binding, info.outputs[i].name, &array);
    if (code != TENON_OK) {
      *why = last_failure(api);
      break;
    }
    Named output;
    output.name = std::string(view(info.outputs[i].name));
    output.tensor = tools::dense_of(array);
    const uint64_t size = output.tensor.size_bytes();
    if (size != 0) output.bytes.assign(output.tensor.data, output.tensor.data + size);
    outputs->push_back(std::move(output));
    outputs->back().tensor.data = outputs->back().bytes.data();
  }
  api.session->binding_release(api.session->self, binding);
  return code == TENON_OK;
}

// The case that an output belongs to: "r12_0".
size_t case_of(const std::string& output) {
  uint64_t number = 0;
  (void)parse_u64(std::string_view(output).substr(1, output.find('_') - 1), &number);
  return number;
}

struct Batch {
  std::span<const OpCase> cases;
  std::vector<bool> on_device;
};

// Which of the cases the device got. Its first instance is meant by its kind.
Batch placed(std::span<const OpCase> cases, const Program& program, const std::string& kind) {
  Batch batch{cases, std::vector<bool>(cases.size())};
  const std::vector<std::string> devices = program.devices();
  for (size_t i = 0; i < cases.size() && i < devices.size(); ++i) {
    batch.on_device[i] = devices[i] == kind || devices[i].starts_with(kind + ":");
  }
  return batch;
}

Outcome compare_outputs(const Batch& batch, const std::vector<Named>& found,
                        const std::vector<Named>& expected, const std::string& device) {
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    const OpCase& c = batch.cases[case_of(expected[i].name)];
    if (!batch.on_device[case_of(expected[i].name)]) continue;
    CONFORM_EXPECT(found[i].tensor.dims == expected[i].tensor.dims,
                   "{}: {} gives {} and the reference {}", c.name(), device,
                   tools::type_text(found[i].tensor), tools::type_text(expected[i].tensor));
    const double tolerance = tools::default_tolerance(expected[i].tensor.dtype) * c.tolerance;
    const tools::Comparison compared =
        tools::compare(found[i].tensor, expected[i].tensor, tolerance);
    CONFORM_EXPECT(compared.ok, "{}: element {} is {} and the reference says {}", c.name(),
                   tools::index_text(expected[i].tensor.dims, compared.worst),
                   tools::element_text(found[i].tensor, compared.worst),
                   tools::element_text(expected[i].tensor, compared.worst));
  }
  return pass();
}

// Programs of their own, since the host runs one executable of kernels once at a time.
Outcome run_in_threads(const Batch& batch, const std::string& text, const Api& api,
                       const std::vector<Named>& inputs, const std::vector<Named>& expected,
                       const CaseOptions& options) {
  std::vector<Outcome> outcomes(options.threads);
  std::vector<std::unique_ptr<Program>> programs;
  for (unsigned t = 0; t < options.threads; ++t) {
    programs.push_back(std::make_unique<Program>(api));
    CONFORM_EXPECT(programs.back()->compile(text, options.device, false) == TENON_OK,
                   "a second time it does not compile: {}", last_failure(api));
  }
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < options.threads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < 10 && outcomes[t].verdict == Verdict::kPass; ++round) {
          std::vector<Named> found;
          std::string why;
          const bool ran = run_program(*programs[t], inputs, &found, &why);
          outcomes[t] = ran ? compare_outputs(batch, found, expected, options.device)
                            : failed("a run in one of several threads fails: {}", why);
        }
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

Outcome run_batch(Session& s, const Api& api, std::span<const OpCase> cases, const Fill& fill,
                  const CaseOptions& options, CaseTally* tally, std::set<std::string>* ops);

// What a graph of several did is asked of each alone.
Outcome run_singly(Session& s, const Api& api, std::span<const OpCase> cases, const Fill& fill,
                   const CaseOptions& options, CaseTally* tally, std::set<std::string>* ops) {
  for (size_t i = 0; i < cases.size(); ++i)
    CONFORM_TRY(run_batch(s, api, cases.subspan(i, 1), fill, options, tally, ops));
  return pass();
}

Outcome run_batch(Session& s, const Api& api, std::span<const OpCase> cases, const Fill& fill,
                  const CaseOptions& options, CaseTally* tally, std::set<std::string>* ops) {
  const std::string text = graph_of(cases);
  const std::string what = cases.size() == 1
                               ? cases[0].name()
                               : fmt::format("{} cases from {}", cases.size(), cases[0].name());
  s.step("compiling " + what);
  Program program(api), reference(api);
  if (program.compile(text, options.device, false) != TENON_OK) {
    if (cases.size() > 1) return run_singly(s, api, cases, fill, options, tally, ops);
    return failed("{} does not compile: {}", what, last_failure(api));
  }
  const Batch batch = placed(cases, program, options.device);
  if (std::none_of(batch.on_device.begin(), batch.on_device.end(), [](bool on) { return on; })) {
    tally->elsewhere += cases.size();
    return pass();
  }
  s.step("running " + what);
  const std::vector<Named> inputs = make_inputs(program.info(), fill);
  std::vector<Named> found, expected;
  std::string why;
  if (reference.compile(text, kReference, false) != TENON_OK ||
      !run_program(reference, inputs, &expected, &why)) {
    // These inputs mean nothing to some op of it.
    return cases.size() > 1 ? run_singly(s, api, cases, fill, options, tally, ops) : pass();
  }
  if (!run_program(program, inputs, &found, &why)) {
    if (cases.size() > 1) return run_singly(s, api, cases, fill, options, tally, ops);
    return failed("{} fails: {}", what, why);
  }
  CONFORM_TRY(compare_outputs(batch, found, expected, options.device));
  if (options.threads > 1) CONFORM_TRY(run_in_threads(batch, text, api, inputs, expected, options));
  for (size_t i = 0; i < cases.size(); ++i) {
    ++(batch.on_device[i] ? tally->on_device : tally->elsewhere);
    if (!batch.on_device[i]) continue;
    ops->insert(cases[i].op);
    ++tally->kernels[{cases[i].op, dtype_of(cases[i])}];
  }
  return pass();
}

}  // namespace

Outcome run_cases(Session& session, std::span<const OpCase> cases, const Fill& fill,
                  const CaseOptions& options, CaseTally* tally) {
  Api api;
  CONFORM_TRY(find_api(&api));
  std::set<std::string> ops;
  for (size_t at = 0; at < cases.size(); at += kCasesInGraph) {
    CONFORM_TRY(run_batch(session, api,
                          cases.subspan(at, std::min(kCasesInGraph, cases.size() - at)), fill,
                          options, tally, &ops));
  }
  tally->ops.assign(ops.begin(), ops.end());
  for (const auto& [kernel, count] : tally->kernels)
    session.note(fmt::format("kernel {} {} {}", kernel.first, kernel.second, count));
  return pass();
}

Outcome run_whole_graph(Session& session, const std::string& text, const std::string& device) {
  Api api;
  CONFORM_TRY(find_api(&api));
  session.step("compiling a graph for the device alone");
  Program program(api), reference(api);
  if (program.compile(text, device, true) != TENON_OK) {
    constexpr std::string_view kNotTaken = "T0504";
    return failure_id(api) == kNotTaken ? not_offered(last_failure(api))
                                        : failed("{}", last_failure(api));
  }
  const std::vector<Named> inputs =
      make_inputs(program.info(),
                  [](tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
                    tools::fill_random(dtype, 1, stream, count, bytes);
                  });
  std::vector<Named> found, expected;
  std::string why;
  if (reference.compile(text, kReference, false) != TENON_OK ||
      !run_program(reference, inputs, &expected, &why)) {
    return skipped("the reference does not run it: " + why);
  }
  session.step("running a graph on the device alone");
  CONFORM_EXPECT(run_program(program, inputs, &found, &why), "it fails: {}", why);
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    const tools::Comparison compared = tools::compare(
        found[i].tensor, expected[i].tensor, tools::default_tolerance(expected[i].tensor.dtype));
    CONFORM_EXPECT(compared.ok, "output {}: element {} is {} and the reference says {}",
                   expected[i].name, tools::index_text(expected[i].tensor.dims, compared.worst),
                   tools::element_text(found[i].tensor, compared.worst),
                   tools::element_text(expected[i].tensor, compared.worst));
  }
  return pass();
}

}  // namespace tenon::conform
