#include "sdk/tools/conform/checks/kernels/case_run.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/checks/kernels/float_values.h"
#include "sdk/tools/conform/fixtures/graphs/program.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"
#include "sdk/tools/support/tensors.h"

namespace tenon::conform {
namespace {

constexpr size_t kCasesInGraph = 48;

// The case that an input or output belongs to: 12 of "r12_0".
size_t case_of(const std::string& name) {
  uint64_t number = 0;
  (void)parse_u64(std::string_view(name).substr(1, name.find('_') - 1), &number);
  return number;
}
// Its index within that case.
size_t place_of(const std::string& name) {
  uint64_t number = 0;
  (void)parse_u64(std::string_view(name).substr(name.find('_') + 1), &number);
  return number;
}

// The values of a case's operands do not depend on the other cases in the graph.
std::vector<Named> inputs_of(std::span<const OpCase> cases, const tenon_model_info_t& info,
                             const Fill& fill) {
  std::vector<Named> inputs =
      make_inputs(info, [](tenon_dtype_t, uint64_t, int64_t, unsigned char*) {});
  for (Named& input : inputs) {
    const size_t place = place_of(input.name);
    const bool usual = place >= cases[case_of(input.name)].special_operands;
    const Fill& how = usual ? Fill(fill_usual) : fill;
    how(input.tensor.dtype, place, input.tensor.count(), input.bytes.data());
  }
  return inputs;
}

struct Batch {
  std::span<const OpCase> cases;
  std::vector<bool> on_device;
};

// Which of the cases ran on the device. The kind alone names its first instance.
Batch placed(std::span<const OpCase> cases, const Program& program, const std::string& kind) {
  Batch batch{cases, std::vector<bool>(cases.size())};
  const std::vector<std::string> devices = program.devices();
  for (size_t i = 0; i < cases.size() && i < devices.size(); ++i) {
    batch.on_device[i] = devices[i] == kind || devices[i].starts_with(kind + ":");
  }
  return batch;
}

// Smaller values are judged as if they were this large: functions near their zeros.
constexpr double kSmall = 1e-2;

// For elementwise ops, each element by itself, so that large neighbours hide nothing. The first
// that differs, or -1.
int64_t wrong_element(const tools::Dense& found, const tools::Dense& expected, double tolerance) {
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double x = tools::element(found, i), y = tools::element(expected, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::fabs(x - y);
    if (!(difference <= tolerance * std::max(std::fabs(y), kSmall))) return i;
  }
  return -1;
}

// A denormal operand counts as itself or as the zero of its sign, and so does a denormal result.
// `kept` and `flushed` are the reference's results for operands with denormals kept and flushed.
// The first element that matches neither, or -1. Elements for which denormals do not matter are
// left to other checks.
int64_t wrong_denormal(const tools::Dense& found, const tools::Dense& kept,
                       const tools::Dense& flushed, double tolerance) {
  constexpr double kPlaces = 4;  // in units of the smallest denormal
  const FloatLimits limits = float_limits(kept.dtype);
  const auto is = [&](double x, double y) {
    return x == y || (std::isnan(x) && std::isnan(y)) ||
           std::fabs(x - y) <= tolerance * std::fabs(y) + kPlaces * limits.smallest ||
           (x == 0 && std::fabs(y) < limits.smallest_normal);
  };
  for (int64_t i = 0; i < kept.count(); ++i) {
    const double x = tools::element(found, i), a = tools::element(kept, i),
                 b = tools::element(flushed, i);
    const bool matters = !(a == b || (std::isnan(a) && std::isnan(b))) ||
                         (a != 0 && std::fabs(a) < limits.smallest_normal);
    if (matters && !is(x, a) && !is(x, b)) return i;
  }
  return -1;
}

// The first zero with the wrong sign, or -1.
int64_t wrong_sign(const tools::Dense& found, const tools::Dense& expected) {
  if (!is_in(expected.dtype, kAnyFloat)) return -1;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double x = tools::element(found, i), y = tools::element(expected, i);
    if (x == 0 && y == 0 && std::signbit(x) != std::signbit(y)) return i;
  }
  return -1;
}

// The reference's results for operands whose denormals are flushed; empty if that means nothing.
std::vector<Named> with_flushed(const Program& reference, std::vector<Named> inputs) {
  std::vector<Named> out;
  std::string why;
  for (Named& input : inputs) {
    flush_denormals(input.tensor.dtype, input.tensor.count(), input.bytes.data());
    input.tensor.data = input.bytes.data();
  }
  if (!run_program(reference, inputs, &out, &why)) out.clear();
  return out;
}

Outcome compare_denormals(const Batch& batch, const std::vector<Named>& found,
                          const std::vector<Named>& kept, const std::vector<Named>& flushed) {
  for (size_t i = 0; i < kept.size() && i < found.size() && i < flushed.size(); ++i) {
    const OpCase& c = batch.cases[case_of(kept[i].name)];
    if (!batch.on_device[case_of(kept[i].name)] || found[i].tensor.dims != kept[i].tensor.dims)
      continue;
    const double tolerance = tools::default_tolerance(kept[i].tensor.dtype) * c.tolerance;
    const int64_t wrong =
        wrong_denormal(found[i].tensor, kept[i].tensor, flushed[i].tensor, tolerance);
    CONFORM_EXPECT(wrong < 0,
                   "{}: element {} is {}, and of denormals the reference makes {}, of zeros in "
                   "their place {}",
                   c.name(), tools::index_text(kept[i].tensor.dims, wrong),
                   tools::element_text(found[i].tensor, wrong),
                   tools::element_text(kept[i].tensor, wrong),
                   tools::element_text(flushed[i].tensor, wrong));
  }
  return pass();
}

Outcome compare_signs(const Batch& batch, const std::vector<Named>& found,
                      const std::vector<Named>& expected) {
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    const OpCase& c = batch.cases[case_of(expected[i].name)];
    if (!batch.on_device[case_of(expected[i].name)]) continue;
    const int64_t wrong = wrong_sign(found[i].tensor, expected[i].tensor);
    CONFORM_EXPECT(wrong < 0, "{}: element {} is {} and the reference says {}", c.name(),
                   tools::index_text(expected[i].tensor.dims, wrong),
                   tools::element_text(found[i].tensor, wrong),
                   tools::element_text(expected[i].tensor, wrong));
  }
  return pass();
}

// The first predicate that is neither 0 nor 1, or -1.
int64_t wrong_predicate(const tools::Dense& found) {
  if (found.dtype != TENON_PRED) return -1;
  const unsigned char* end = found.data + found.count();
  const unsigned char* wrong = std::find_if(found.data, end, [](unsigned char c) { return c > 1; });
  return wrong == end ? -1 : wrong - found.data;
}

Outcome compare_outputs(const Batch& batch, const std::vector<Named>& found,
                        const std::vector<Named>& expected, const CaseOptions& options) {
  const std::string& device = options.device;
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    const OpCase& c = batch.cases[case_of(expected[i].name)];
    if (!batch.on_device[case_of(expected[i].name)]) continue;
    CONFORM_EXPECT(found[i].tensor.dims == expected[i].tensor.dims,
                   "{}: {} gives {} and the reference {}", c.name(), device,
                   tools::type_text(found[i].tensor), tools::type_text(expected[i].tensor));
    const double tolerance = options.judge == Judge::kExact
                                 ? 0
                                 : tools::default_tolerance(expected[i].tensor.dtype) * c.tolerance;
    const int64_t odd = wrong_predicate(found[i].tensor);
    CONFORM_EXPECT(odd < 0, "{}: element {} is the byte {}, and predicates are 0 or 1", c.name(),
                   tools::index_text(found[i].tensor.dims, odd), found[i].bytes[odd]);
    tools::Comparison compared = tools::compare(found[i].tensor, expected[i].tensor, tolerance);
    if (compared.ok && (c.traits & TENON_TRAIT_ELEMENTWISE) != 0) {
      const int64_t wrong = wrong_element(found[i].tensor, expected[i].tensor, tolerance);
      if (wrong >= 0) compared.ok = false, compared.worst = wrong;
    }
    CONFORM_EXPECT(compared.ok, "{}: element {} is {} and the reference says {}", c.name(),
                   tools::index_text(expected[i].tensor.dims, compared.worst),
                   tools::element_text(found[i].tensor, compared.worst),
                   tools::element_text(expected[i].tensor, compared.worst));
  }
  return pass();
}

// Each thread has a program of its own, since the host runs an executable of kernels one call at a
// time.
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
  // On a busy machine they would hardly coincide otherwise.
  std::barrier together(static_cast<ptrdiff_t>(options.threads));
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < options.threads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < 10; ++round) {
          together.arrive_and_wait();
          if (outcomes[t].verdict != Verdict::kPass) continue;
          std::vector<Named> found;
          std::string why;
          const bool ran = run_program(*programs[t], inputs, &found, &why);
          outcomes[t] = ran ? compare_outputs(batch, found, expected, options)
                            : failed("a run in one of several threads fails: {}", why);
        }
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

// One run: inputs, and the reference's results.
struct Round {
  std::vector<Named> inputs, expected;
};

// False if the reference does not run the graph on one of the fills.
bool expect(std::span<const OpCase> cases, std::span<const Fill> fills, Program* reference,
            std::vector<Round>* rounds) {
  if (reference->compile(graph_of(cases), kReference, false) != TENON_OK) return false;
  return std::all_of(fills.begin(), fills.end(), [&](const Fill& fill) {
    Round& round = rounds->emplace_back();
    round.inputs = inputs_of(cases, reference->info(), fill);
    std::string why;
    return run_program(*reference, round.inputs, &round.expected, &why);
  });
}

// Leaves out cases for whose op some of the inputs are meaningless. It bisects on the reference
// alone, so that a device builds nothing for them.
void keep_meant(const Api& api, std::span<const OpCase> cases, std::span<const Fill> fills,
                std::vector<OpCase>* out) {
  Program reference(api);
  std::vector<Round> rounds;
  if (expect(cases, fills, &reference, &rounds)) {
    out->insert(out->end(), cases.begin(), cases.end());
  } else if (cases.size() > 1) {
    keep_meant(api, cases.first(cases.size() / 2), fills, out);
    keep_meant(api, cases.subspan(cases.size() / 2), fills, out);
  }
}

class CaseRun {
 public:
  CaseRun(Session& session, const Api& api, std::span<const Fill> fills, const CaseOptions& options,
          CaseTally* tally)
      : session_(session), api_(api), fills_(fills), options_(options), tally_(*tally) {}

  // All in one graph.
  Outcome run(std::span<const OpCase> cases) {
    Program reference(api_);
    std::vector<Round> rounds;
    if (!expect(cases, fills_, &reference, &rounds)) {
      std::vector<OpCase> kept;
      if (cases.size() > 1) keep_meant(api_, cases, fills_, &kept);
      return kept.empty() ? pass() : kept.size() == cases.size() ? singly(kept) : run(kept);
    }
    const std::string text = graph_of(cases);
    const std::string what = cases.size() == 1
                                 ? cases[0].name()
                                 : fmt::format("{} cases from {}", cases.size(), cases[0].name());
    session_.step("compiling " + what);
    Program program(api_);
    if (program.compile(text, options_.device, false) != TENON_OK) {
      if (cases.size() > 1) return singly(cases);
      return failed("{} does not compile: {}", what, last_failure(api_));
    }
    const Batch batch = placed(cases, program, options_.device);
    if (std::find(batch.on_device.begin(), batch.on_device.end(), true) == batch.on_device.end()) {
      tally_.elsewhere += cases.size();
      return pass();
    }
    session_.step("running " + what);
    for (const Round& round : rounds) {
      std::vector<Named> found;
      std::string why;
      if (!run_program(program, round.inputs, &found, &why)) {
        if (cases.size() > 1) return singly(cases);
        return failed("{} fails: {}", what, why);
      }
      CONFORM_TRY(judge(batch, round, found, reference));
      if (options_.threads > 1)
        CONFORM_TRY(run_in_threads(batch, text, api_, round.inputs, round.expected, options_));
    }
    count(batch);
    return pass();
  }

 private:
  // Cases whose graph failed are run one by one.
  Outcome singly(std::span<const OpCase> cases) {
    for (size_t i = 0; i < cases.size(); ++i) CONFORM_TRY(run(cases.subspan(i, 1)));
    return pass();
  }

  Outcome judge(const Batch& batch, const Round& round, const std::vector<Named>& found,
                const Program& reference) {
    if (options_.judge == Judge::kDenormals) {
      const std::vector<Named> flushed = with_flushed(reference, round.inputs);
      if (flushed.empty() && batch.cases.size() > 1) return singly(batch.cases);
      return compare_denormals(batch, found, round.expected, flushed);
    }
    CONFORM_TRY(compare_outputs(batch, found, round.expected, options_));
    return options_.judge == Judge::kZeroSigns ? compare_signs(batch, found, round.expected)
                                               : pass();
  }

  void count(const Batch& batch) {
    for (size_t i = 0; i < batch.cases.size(); ++i) {
      ++(batch.on_device[i] ? tally_.on_device : tally_.elsewhere);
      if (!batch.on_device[i]) continue;
      tally_.ops.insert(batch.cases[i].op);
      ++tally_.kernels[{batch.cases[i].op, dtype_of(batch.cases[i])}];
    }
  }

  Session& session_;
  const Api& api_;
  const std::span<const Fill> fills_;
  const CaseOptions& options_;
  CaseTally& tally_;
};

}  // namespace

Outcome run_cases(Session& session, std::span<const OpCase> cases, std::span<const Fill> fills,
                  const CaseOptions& options, CaseTally* tally) {
  Api api;
  CONFORM_TRY(find_api(&api));
  CaseRun run(session, api, fills, options, tally);
  for (size_t at = 0; at < cases.size(); at += kCasesInGraph)
    CONFORM_TRY(run.run(cases.subspan(at, std::min(kCasesInGraph, cases.size() - at))));
  return pass();
}

Outcome same_outputs(Session& session, const Program& program, const std::vector<Named>& inputs,
                     const std::vector<Named>& expected, std::string_view step) {
  session.step(std::string(step));
  std::vector<Named> found;
  std::string why;
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
  std::vector<Named> expected;
  std::string why;
  if (reference.compile(text, kReference, false) != TENON_OK ||
      !run_program(reference, inputs, &expected, &why)) {
    return skipped("the reference does not run it: " + why);
  }
  return same_outputs(session, program, inputs, expected, "running a graph on the device alone");
}

}  // namespace tenon::conform
