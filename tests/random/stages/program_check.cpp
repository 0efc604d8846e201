#include "tests/random/stages/program_check.h"

#include <algorithm>

namespace tenon::random_tests {

using interpreter::Memory;
using kernelgen::Buffer;
using kernelgen::Kernel;
using kernelgen::Role;
using kernelgen::Stage;
using kernelgen::View;

namespace {

bool same_view(const View& a, const View& b) {
  return a.buffer == b.buffer && a.index == b.index && a.guard == b.guard;
}

// Both are of one pool, where equal numbers are equal expressions.
bool same_stage(const Stage& a, const Stage& b) {
  return a.kind == b.kind && a.space == b.space && a.reduce == b.reduce && a.fill == b.fill &&
         a.value == b.value && a.init == b.init && a.step == b.step && a.merge == b.merge &&
         a.final == b.final && a.a == b.a && a.b == b.b && a.overlay == b.overlay &&
         std::ranges::equal(a.store, b.store, same_view);
}

bool same_buffer(const Buffer& a, const Buffer& b) {
  return a.type == b.type && a.dims == b.dims && a.strides == b.strides && a.offset == b.offset &&
         a.role == b.role;
}

}  // namespace

ProgramCheck::ProgramCheck(const Generated& subject, const kernelgen::HostTables& host,
                           tenon_graph_t* graph, const kernelgen::Lowered& lowered)
    : subject_(subject),
      host_(host),
      graph_(graph),
      inputs_(lowered.inputs),
      constants_(lowered.constants),
      outputs_(lowered.outputs),
      constant_values_(lowered.constant_values) {
  const Region main = main_region(subject.graph.get());
  tenon_region_view_t view = {};
  view.size_bytes = sizeof view;
  (void)host_.graph->region_view(host_.graph->self, subject.graph.get(), main.id(), &view);
  for (const Binding& b : subject.bindings) {
    std::vector<int64_t>& sizes = extents_.emplace_back();
    for (uint32_t i = 0; i < view.symbol_count; ++i) sizes.push_back(b.symbols[view.symbols[i]]);
    std::vector<Check>& checks = checks_.emplace_back();
    const kernelgen::Pool& pool = lowered.program.pool;
    for (const kernelgen::LoweredCheck& c : lowered.checks)
      checks.push_back(
          {c.buffer, pool.evaluate(c.limit, sizes), pool.evaluate(c.count, sizes), c.text});
  }
}

void ProgramCheck::fill(size_t binding, std::vector<Memory>* memory) const {
  const Binding& b = subject_.bindings[binding];
  const auto hold = [&](uint32_t buffer, const void* bytes) {
    Memory& m = (*memory)[buffer];
    m = Memory::holding(m.type, static_cast<int64_t>(m.cells.size()), bytes,
                        interpreter::name_of_buffer(buffer));
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] != ~0u) hold(inputs_[i], b.inputs[i].data());
  }
  for (size_t i = 0; i < constants_.size(); ++i) {
    if (constants_[i] == ~0u) continue;
    tenon_value_view_t v = {};
    v.size_bytes = sizeof v;
    const void* data = nullptr;
    uint64_t size = 0;
    (void)host_.graph->value_view(host_.graph->self, graph_, constant_values_[i], &v);
    if (host_.graph->blob_data(host_.graph->self, v.blob, &data, &size) == TENON_OK)
      hold(constants_[i], data);
  }
}

std::string ProgramCheck::outputs(size_t binding, const std::vector<Memory>& memory) const {
  const Binding& b = subject_.bindings[binding];
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Memory& m = memory[outputs_[i]];
    const std::string& name = subject_.outputs[i];
    // Of complex numbers, a program sees the parts.
    const int64_t parts = is_complex(b.outputs[i].dtype) ? 2 : 1;
    if (static_cast<int64_t>(m.cells.size()) != parts * b.outputs[i].count())
      return "output " + name + " has another size";
    for (size_t e = 0; e < m.cells.size(); ++e) {
      if (m.cells[e].name == interpreter::kNotStored)
        return "element " + std::to_string(e) + " of output " + name + " is never stored";
    }
    const std::string differs = difference(name, b.outputs[i], m.bytes().data());
    if (!differs.empty()) return differs;
  }
  return checks(binding, memory);
}

std::string ProgramCheck::checks(size_t binding, const std::vector<Memory>& memory) const {
  for (const Check& c : checks_[binding]) {
    const Memory& m = memory[c.buffer];
    if (c.count == 0) continue;
    if (m.cells.empty() || m.cells[0].name == interpreter::kNotStored)
      return "a check is never computed";
    if (static_cast<uint64_t>(m.cells[0].value.i) >= static_cast<uint64_t>(c.limit))
      return "a check fails: " + (c.text.empty() ? "an index is outside" : c.text);
  }
  return "";
}

std::string ProgramCheck::run(size_t binding, const Kernel& program) const {
  interpreter::Report report;
  std::vector<Memory> memory = interpreter::memory_of_program(program, extents_[binding]);
  fill(binding, &memory);
  const std::vector<interpreter::Place> places = interpreter::places_of_program(program, &memory);
  // Sums are split into as many parts as generated code has lanes: one long chain of roundings
  // would be less accurate than any code.
  interpreter::run_stages(program, extents_[binding], places, {0, 64, nullptr}, &report);
  return report.empty() ? outputs(binding, memory) : report.text();
}

std::string ProgramCheck::step(const char* name, const Kernel& program) {
  if (std::ranges::equal(program.stages, last_, same_stage) &&
      std::ranges::equal(program.buffers, last_buffers_, same_buffer))
    return "";
  last_ = program.stages;
  last_buffers_ = program.buffers;
  for (size_t b = 0; b < subject_.bindings.size(); ++b) {
    const std::string wrong = run(b, program);
    if (!wrong.empty()) return std::string("step ") + name + ": " + wrong;
  }
  return "";
}

}  // namespace tenon::random_tests
