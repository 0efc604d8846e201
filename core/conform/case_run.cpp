#include "core/conform/case_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <thread>

#include "core/base/str.h"
#include "core/conform/float_values.h"
#include "core/conform/program.h"
#include "core/conform/session.h"
#include "core/ir/dtype.h"
#include "core/tools/tensors.h"

namespace tenon::conform {
namespace {

constexpr size_t kCasesInGraph = 48;

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

// Below it a difference counts as one from a value of this size: functions near their zeros.
constexpr double kSmall = 1e-2;

// Of an op that works element by element, each element by itself: large neighbours hide nothing.
// The first that differs, or -1.
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
// `kept` and `flushed` are the reference's with operands of the one kind and of the other. The
// first that is neither, or -1; where no denormal matters, others judge.
int64_t wrong_denormal(const tools::Dense& found, const tools::Dense& kept,
                       const tools::Dense& flushed, double tolerance) {
  constexpr double kPlaces = 4;  // of the smallest denormal
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

// The first zero that has the other sign, or -1.
int64_t wrong_sign(const tools::Dense& found, const tools::Dense& expected) {
  if (!ir::dtype_is_float(expected.dtype)) return -1;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double x = tools::element(found, i), y = tools::element(expected, i);
    if (x == 0 && y == 0 && std::signbit(x) != std::signbit(y)) return i;
  }
  return -1;
}

// What the reference makes of operands whose denormals are zeros; empty where that means nothing.
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

Outcome compare_outputs(const Batch& batch, const std::vector<Named>& found,
                        const std::vector<Named>& expected, const std::string& device) {
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    const OpCase& c = batch.cases[case_of(expected[i].name)];
    if (!batch.on_device[case_of(expected[i].name)]) continue;
    CONFORM_EXPECT(found[i].tensor.dims == expected[i].tensor.dims,
                   "{}: {} gives {} and the reference {}", c.name(), device,
                   tools::type_text(found[i].tensor), tools::type_text(expected[i].tensor));
    const double tolerance = tools::default_tolerance(expected[i].tensor.dtype) * c.tolerance;
    tools::Comparison compared = tools::compare(found[i].tensor, expected[i].tensor, tolerance);
    if (compared.ok && is_elementwise(c)) {
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
  if (options.judge == Judge::kDenormals) {
    const std::vector<Named> flushed = with_flushed(reference, inputs);
    if (flushed.empty() && cases.size() > 1)
      return run_singly(s, api, cases, fill, options, tally, ops);
    CONFORM_TRY(compare_denormals(batch, found, expected, flushed));
  } else {
    CONFORM_TRY(compare_outputs(batch, found, expected, options.device));
  }
  if (options.judge == Judge::kZeroSigns) CONFORM_TRY(compare_signs(batch, found, expected));
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
