#include "tests/random/stages/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "tests/interpreter/agreement.h"
#include "tests/interpreter/tree_interpreter.h"

namespace tenon::random_tests {

namespace kg = kernelgen;
using interpreter::Memory;
using interpreter::Place;
using interpreter::Report;
using interpreter::RunOptions;

// One run of a kernel in its original form: its operands and its results.
struct KernelCheck::Launch {
  const kg::Kernel* kernel = nullptr;
  const kg::ProgramStep* step = nullptr;
  std::vector<int64_t> extents;
  std::vector<uint32_t> program_buffer;  // by buffer of the kernel; ~0u: a temp
  std::vector<bool> stored;              // by buffer of the kernel
  std::vector<Memory> before;  // contents of the buffers that it stores, by buffer of the kernel
  std::vector<Memory>* memory = nullptr;  // of the program, after the run
  uint32_t clock = 0;                     // before the run
  double magnitude = 0;                   // largest number that it read or stored
  kg::DType computed = TENON_F64;         // the least precise type that it computes in
};

namespace {

// The nodes of a tree other than loops, loads and stores.
std::set<std::string> special_parts(const std::vector<kg::Node>& nodes) {
  std::set<std::string> out;
  for (const kg::Node& n : nodes) {
    switch (n.kind) {
      case kg::NodeKind::kTranspose:
        out.insert("transpose");
        break;
      case kg::NodeKind::kInterleave:
        out.insert("interleave");
        break;
      case kg::NodeKind::kMma:
        out.insert(n.few_bits != 0              ? "mma of few bits"
                   : n.steps == 4               ? "mma of quads"
                   : n.steps == 2               ? "mma of pairs"
                   : n.read != TENON_DTYPE_NONE ? "mma of bf16 panels"
                   : n.b_buffer < 0             ? "mma"
                                                : "mma of panels");
        break;
      case kg::NodeKind::kDots:
        out.insert("dots");
        break;
      case kg::NodeKind::kTaps:
        out.insert(!n.full ? "taps" : n.run == 0 ? "depthwise taps" : "depthwise runs");
        break;
      case kg::NodeKind::kSort:
        out.insert("sort");
        break;
      case kg::NodeKind::kAnyNan:
        out.insert("any nan");
        break;
      case kg::NodeKind::kBarrier:
        out.insert("barrier");
        break;
      default:
        break;
    }
    out.merge(special_parts(n.body));
    out.merge(special_parts(n.other));
  }
  return out;
}

}  // namespace

KernelCheck::KernelCheck(kg::BuiltProgram* built, const kg::Target& target,
                         std::vector<bool> overlaid, std::vector<bool> joined, uint64_t seed,
                         bool trees, bool texts, StageStatistics* statistics)
    : built_(*built),
      target_(target),
      overlaid_(std::move(overlaid)),
      joined_(std::move(joined)),
      seed_(seed),
      trees_(trees),
      texts_(texts),
      statistics_(*statistics) {
  forms_.resize(built->kernels.size());
}

std::string KernelCheck::complete(Form* form) {
  std::string why;
  if (!kg::verify(*form->kernel, &why)) return "step split: " + why;
  form->prepared = std::make_unique<kg::Prepared>(kg::prepare(*form->kernel));
  if (!trees_) return "";
  // Adds axes and expressions to the pool, and does not change stages.
  kg::Prepared& prepared = *form->prepared;
  kg::Schedule schedule;
  form->tree = std::make_unique<kg::LoopTree>();
  if (kg::schedule_kernel(prepared.kernel, target_, &schedule, &why) &&
      kg::lower(prepared, schedule, form->tree.get(), &why)) {
    ++statistics_.trees;
    ++statistics_.shapes[std::string(kg::name_of(schedule.shape)) +
                         (schedule.together ? " together" : "")];
    for (const std::string& part : special_parts(form->tree->body)) ++statistics_.shapes[part];
    return "";
  }
  ++statistics_.left_out["no loops: " + why];
  form->tree = nullptr;
  return "";
}

std::string KernelCheck::make_forms(uint32_t kernel) {
  if (forms_[kernel] != nullptr) return "";
  forms_[kernel] = std::make_unique<Forms>();
  ++statistics_.kernels;
  Forms& f = *forms_[kernel];
  kg::Kernel& k = built_.kernels[kernel];
  kg::structural_hash(k, &f.buffer_order, &f.extent_order);
  f.own.kernel = &k;
  for (uint32_t b = 0; b < k.buffers.size(); ++b) f.own.origin.push_back(b);
  std::string wrong = complete(&f.own);
  auto general = std::make_unique<kg::General>();
  if (!wrong.empty() || !kg::generalise(k, general.get())) return wrong;
  f.general = std::move(general);
  f.any_size.kernel = &f.general->kernel;
  f.any_size.sizes = f.general->sizes;
  f.any_size.origin = f.general->kernel.buffer_origin;
  return complete(&f.any_size);
}

// Runs one form of the launch's kernel on copies of the memory that the kernel stores to, and
// compares the results.
template <class F>
std::string KernelCheck::compare(const Launch& launch, const Form& form, const char* step,
                                 bool in_place, bool flat, F run) {
  std::vector<Memory> copies = launch.before;
  std::vector<Place> places(form.kernel->buffers.size());
  std::vector<int64_t> extents = launch.extents;
  // Temps in an output's memory may have lost their names; then an element counts as stored again.
  std::vector<bool> shared(form.kernel->buffers.size());
  for (const kg::Buffer& b : form.kernel->buffers) {
    if (b.alias_of >= 0) shared[static_cast<size_t>(b.alias_of)] = flat;
  }
  if (!form.sizes.empty() || form.kernel != launch.kernel) {
    extents.clear();
    for (const kg::SizeProgram& s : form.sizes) extents.push_back(s.evaluate(launch.extents));
  }
  const auto place = [&](uint32_t b) {
    const uint32_t own = form.origin[b], p = launch.program_buffer[own];
    if (p == ~0u) return Place{nullptr, interpreter::name_of_temp(b), false};
    return Place{launch.stored[own] ? &copies[own] : &(*launch.memory)[p],
                 interpreter::name_of_buffer(p), overlaid_[p] || shared[b]};
  };
  for (uint32_t b = 0; b < places.size(); ++b) places[b] = place(b);
  if (in_place) {
    for (const auto& [written, read] : shared_operands(launch)) {
      copies[written] = (*launch.memory)[launch.program_buffer[read]];
      places[read].memory = &copies[written];
    }
  }
  Report report;
  uint32_t clock = launch.clock;
  run(extents, places, &clock, &report);
  const std::string where = std::string("step ") + step + ": ";
  if (texts_ && form.kernel != launch.kernel) text_ = kg::to_text(*form.kernel);
  if (texts_ && form.tree != nullptr) text_ += kg::to_text(*form.tree);
  if (!report.empty()) return where + report.text();
  for (uint32_t b = 0; b < copies.size(); ++b) {
    if (!launch.stored[b]) continue;
    const Memory& expected = (*launch.memory)[launch.program_buffer[b]];
    std::string differs =
        interpreter::disagreement(copies[b], expected, launch.magnitude, launch.computed);
    if (!differs.empty())
      differs = interpreter::disagreement(copies[b], expected, launch.magnitude, launch.computed,
                                          spread(launch, b));
    if (!differs.empty()) return where + "b" + std::to_string(b) + differs;
  }
  return "";
}

// How far changes of the operands in their last bit move each element that the kernel stores in b.
// Code that rounds differently (another order of a sum, a fused multiply-add) is right for operands
// that close. A sine of a large sum amplifies them beyond what magnitudes show.
std::vector<double> KernelCheck::spread(const Launch& launch, uint32_t b) {
  const Memory& expected = (*launch.memory)[launch.program_buffer[b]];
  const double bit = launch.computed == TENON_F64    ? 0x1p-52
                     : launch.computed == TENON_BF16 ? 0x1p-7
                     : launch.computed == TENON_F16  ? 0x1p-10
                                                     : 0x1p-23;
  std::mt19937_64 random(seed_);
  std::vector<double> out(expected.cells.size());
  for (const uint32_t partials : {1U, 2U, 3U, 7U}) {
    std::vector<Memory> copies = launch.before;
    std::vector<Place> places;
    for (uint32_t n = 0; n < copies.size(); ++n) {
      const uint32_t p = launch.program_buffer[n];
      if (p != ~0u && !launch.stored[n]) copies[n] = (*launch.memory)[p];
      if (kg::is_float(copies[n].type)) {
        for (interpreter::Cell& c : copies[n].cells) c.value.f *= 1 + (random() % 2 ? bit : -bit);
      }
      places.push_back(p == ~0u ? Place{nullptr, interpreter::name_of_temp(n), false}
                                : Place{&copies[n], interpreter::name_of_buffer(p), overlaid_[p]});
    }
    Report report;
    uint32_t clock = launch.clock;
    interpreter::run_stages(*launch.kernel, launch.extents, places, {seed_, partials, &clock},
                            &report);
    for (size_t i = 0; i < out.size(); ++i) {
      const double apart = std::fabs(copies[b].cells[i].value.f - expected.cells[i].value.f);
      if (std::isfinite(apart)) out[i] = std::max(out[i], apart);
    }
  }
  return out;
}

// Pairs (stored, read) of the kernel's buffers that may share memory in this step.
std::vector<std::pair<uint32_t, uint32_t>> KernelCheck::shared_operands(
    const Launch& launch) const {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  const auto local = [&](uint32_t p) {
    return static_cast<uint32_t>(std::ranges::find(launch.program_buffer, p) -
                                 launch.program_buffer.begin());
  };
  const std::vector<uint32_t>& pairs = launch.step->in_place;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const uint32_t written = local(pairs[i]), read = local(pairs[i + 1]);
    // A buffer that several kernels write in parts is kept in memory of its own by the planner.
    if (joined_[pairs[i]]) continue;
    const auto used = [&](const auto& pair) {
      return pair.first == written || pair.second == read;
    };
    if (std::ranges::any_of(out, used)) continue;
    if (written < launch.program_buffer.size() && read < launch.program_buffer.size())
      out.push_back({written, read});
  }
  return out;
}

std::string KernelCheck::compare_forms(const Launch& launch, const Forms& forms) {
  std::string wrong;
  if (!shared_operands(launch).empty()) {
    wrong = compare(launch, forms.own, "in_place", true, false,
                    [&](auto& extents, auto& places, uint32_t* clock, Report* report) {
                      interpreter::run_stages(*forms.own.kernel, extents, places,
                                              {seed_ + 1, 7, clock}, report);
                    });
  }
  for (const Form* form : {&forms.own, &forms.any_size}) {
    if (wrong.empty() && form->kernel != nullptr)
      wrong = run_forms(launch, *form, form != &forms.own);
  }
  return wrong;
}

// Runs the kernel, or its general form: its stages, then its loop trees.
std::string KernelCheck::run_forms(const Launch& launch, const Form& form, bool general) {
  std::string wrong;
  if (general) {
    wrong = compare(launch, form, "general", false, false,
                    [&](auto& extents, auto& places, uint32_t* clock, Report* report) {
                      interpreter::run_stages(*form.kernel, extents, places, {seed_ + 2, 5, clock},
                                              report);
                    });
  }
  if (!wrong.empty()) return wrong;
  wrong = compare(launch, form, general ? "prepare (of the general form)" : "prepare", false, true,
                  [&](auto& extents, auto& places, uint32_t* clock, Report* report) {
                    interpreter::run_prepared(*form.prepared, extents, places,
                                              {seed_ + 3, 6, clock}, report);
                  });
  if (!wrong.empty() || form.tree == nullptr) return wrong;
  const auto loops = [&](auto& extents, auto& places, uint32_t* clock, Report* report) {
    std::vector<Memory*> memory;
    std::vector<interpreter::Name> names;
    interpreter::TreeOptions options{seed_ + 4, 3, target_.items(), {}};
    for (const Place& p : places) {
      memory.push_back(p.memory);
      names.push_back(p.name);
      options.rewritten.push_back(p.rewritten);
    }
    for (const kg::Stage& s : form.kernel->stages) {
      if (s.kind == kg::StageKind::kScatter) options.rewritten[s.store[0].buffer] = true;
    }
    interpreter::run_tree(*form.tree, extents, memory, names, ++*clock, options, report);
  };
  wrong =
      compare(launch, form, general ? "loops (of the general form)" : "loops", false, true, loops);
  // All items of a group load what the first one needs for its result. In place this looks like a
  // race, though only the first one's value is used.
  if (!wrong.empty() || general || form.tree->together || shared_operands(launch).empty())
    return wrong;
  return compare(launch, form, "loops, in place", true, true, loops);
}

std::string KernelCheck::run_step(const kg::ProgramStep& step, std::vector<Memory>* memory,
                                  std::span<const int64_t> symbols) {
  std::string wrong = make_forms(step.kernel);
  if (!wrong.empty()) return wrong;
  const Forms& forms = *forms_[step.kernel];
  const kg::Kernel& k = built_.kernels[step.kernel];
  Launch launch{&k,
                &step,
                std::vector<int64_t>(k.pool.extents().size()),
                std::vector<uint32_t>(k.buffers.size(), ~0u),
                std::vector<bool>(k.buffers.size()),
                std::vector<Memory>(k.buffers.size()),
                memory,
                clock_,
                0};
  for (size_t i = 0; i < forms.extent_order.size(); ++i)
    launch.extents[forms.extent_order[i]] = step.extents[i].evaluate(symbols);
  for (size_t i = 0; i < forms.buffer_order.size(); ++i)
    launch.program_buffer[forms.buffer_order[i]] = step.buffers[i];
  for (const kg::Stage& s : k.stages) {
    for (const kg::View& v : s.store)
      launch.stored[v.buffer] = launch.program_buffer[v.buffer] != ~0u;
  }
  std::vector<Place> places;
  for (uint32_t b = 0; b < k.buffers.size(); ++b) {
    const uint32_t p = launch.program_buffer[b];
    if (launch.stored[b]) launch.before[b] = (*memory)[p];
    if (p == ~0u)
      places.push_back({nullptr, interpreter::name_of_temp(b), false});
    else
      places.push_back({&(*memory)[p], interpreter::name_of_buffer(p), overlaid_[p]});
  }
  Report report;
  interpreter::run_stages(k, launch.extents, places, {seed_, 61, &clock_}, &report);
  if (!report.empty()) return "step split: " + report.text();
  for (uint32_t p : launch.program_buffer) {
    if (p != ~0u)
      launch.magnitude = std::max(launch.magnitude, interpreter::magnitude_of((*memory)[p]));
  }
  launch.computed = interpreter::computed_type(k);
  return compare_forms(launch, forms);
}

std::string KernelCheck::run(const ProgramCheck& program, size_t binding) {
  std::vector<Memory> memory;
  const std::vector<int64_t>& symbols = program.extents(binding);
  for (const kg::ProgramBuffer& b : built_.program.buffers) {
    memory.push_back(Memory::unwritten(b.type, b.bytes.evaluate(symbols) / kg::size_of(b.type)));
  }
  program.fill(binding, &memory);
  clock_ = 0;
  for (const auto* steps : {&built_.program.load_steps, &built_.program.steps}) {
    for (const kg::ProgramStep& step : *steps) {
      std::string wrong = run_step(step, &memory, symbols);
      if (wrong.empty()) continue;
      wrong = "kernel " + std::to_string(step.kernel) + " (" + step.name + "), " + wrong;
      return texts_ ? wrong + "\n" + kg::to_text(built_.kernels[step.kernel]) + text_ : wrong;
    }
  }
  const std::string wrong = program.outputs(binding, memory);
  return wrong.empty() ? "" : "step split: " + wrong;
}

}  // namespace tenon::random_tests
