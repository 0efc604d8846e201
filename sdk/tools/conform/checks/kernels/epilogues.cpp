// Group F, third part: what kernels compute after their own op, and constants that they pack.
#include <algorithm>

#include "sdk/tools/conform/checks/kernels/kernel_object.h"
#include "sdk/tools/conform/checks/kernels/op_cases.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"

namespace tenon::conform {
namespace {

// Operands of a case as text: which are arguments, which constants.
struct CaseText {
  std::string names, arguments, constants;
};

// A literal with small values that differ: [[1, 2], [3, 1]].
std::string literal(std::span<const int64_t> dims, int64_t* next) {
  if (dims.empty()) return std::to_string(1 + (*next)++ % 7);
  std::string text;
  for (int64_t i = 0; i < dims[0]; ++i)
    text += (i == 0 ? "" : ", ") + literal(dims.subspan(1), next);
  return "[" + text + "]";
}

constexpr size_t kNoConstant = SIZE_MAX;

CaseText text_of(const OpCase& c, size_t constant) {
  CaseText out;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const bool absent = c.operands[i] == "_";
    const std::string name = absent ? "_" : fmt::format("%a{}", i);
    out.names += (i == 0 ? "" : ", ") + name;
    if (absent) continue;
    if (i != constant) {
      out.arguments +=
          fmt::format("{}{}: {}", out.arguments.empty() ? "" : ", ", name, c.operands[i]);
      continue;
    }
    int64_t next = 0;
    out.constants += fmt::format("  {} = const {} {}\n", name, c.operands[i],
                                 literal(dims_of(c.operands[i]), &next));
  }
  return out;
}

// Nodes that read %r of a type and give %y of that type.
struct Tail {
  std::string nodes, arguments;
  uint32_t count;
};

std::vector<Tail> tails(const std::string& type) {
  std::vector<Tail> out;
  for (std::string_view op : {"relu", "gelu", "tanh", "logistic"})
    out.push_back({fmt::format("  %y = {}(%r) : {}\n", op, type), "", 1});
  const std::string extra = fmt::format(", %e: {}", type);
  out.push_back({fmt::format("  %y = add(%r, %e) : {}\n", type), extra, 1});
  out.push_back({fmt::format("  %y = mul(%e, %r) : {}\n", type), extra, 1});
  out.push_back({fmt::format("  %s = add(%r, %e) : {0}\n  %y = relu(%s) : {0}\n", type), extra, 2});
  const std::vector<int64_t> dims = dims_of(type);
  for (size_t d = 0; d < dims.size(); ++d) {
    const std::string spread = fmt::format(
        "  %s = broadcast(%e) {{dims = [{}], shape = dims [{}]}} : {}\n", d, dims_text(dims), type);
    const std::string vector = fmt::format(", %e: {}", changed_dims(type, std::to_string(dims[d])));
    out.push_back({spread + fmt::format("  %y = add(%r, %s) : {}\n", type), vector, 2});
    out.push_back({spread + fmt::format("  %t = add(%s, %r) : {0}\n  %y = relu(%t) : {0}\n", type),
                   vector, 3});
  }
  return out;
}

std::string graph_text(const OpCase& c, const CaseText& operands, const Tail& tail) {
  return fmt::format(
      "tenon.tir 1\ngraph @k({}{}) -> (y: {}) {{\n{}  %r = {}({}){} : {}\n{}  yield %y\n}}\n",
      operands.arguments, tail.arguments, c.results[0], operands.constants, c.op, operands.names,
      c.attributes, c.results[0], tail.nodes);
}

// Cases with one result of f32, whose sizes are known.
std::vector<OpCase> cases_of(KernelFixture& fixture) {
  std::vector<OpCase> cases = op_examples(fixture.session().host());
  std::erase_if(cases, [&](OpCase& c) {
    return !infer_results(host_tables(fixture.session().host()), &c) || c.results.size() != 1 ||
           !c.results[0].starts_with("f32[") ||
           std::any_of(c.operands.begin(), c.operands.end(), [](const std::string& type) {
             return type != "_" && !type.starts_with("f32[");
           });
  });
  return cases;
}

// Runs a call that query took whole, and compares with the reference.
Outcome right_values(KernelFixture& fixture, const KernelCall& call,
                     const tenon_kernel_candidate_t& candidate, const std::string& what) {
  Kernel kernel(fixture);
  CONFORM_TRY(create(fixture, call, what, &kernel));
  const std::vector<Named> inputs = call.part().inputs({}, fill_normal);
  std::vector<Named> expected, got;
  if (call.part().expected(inputs, &expected).verdict != Verdict::kPass) return pass();
  KernelRun run(fixture, call);
  CONFORM_TRY(run.prepare(inputs, candidate, 0xa5, kernel.kernel));
  fixture.session().step("running " + what);
  CONFORM_TRY(run_parts(run, kernel.kernel, in_order(candidate.part_count), what));
  CONFORM_TRY(run.kept_all());
  CONFORM_TRY(run.outputs(&got));
  return same_tensors(got, expected, what);
}

// What was taken of a longer epilogue is taken when it is offered alone.
Outcome keeps_its_word(KernelFixture& fixture, const Part& part, uint32_t taken,
                       const std::string& what) {
  tenon_kernel_candidate_t again;
  const tenon_code_t code = fixture.query(KernelCall(part, taken), &again);
  CONFORM_EXPECT(code == TENON_OK && again.epilogue_taken == taken,
                 "query of {} takes {} nodes of an epilogue, and asked about these alone gives {} "
                 "and takes {}",
                 what, taken, code_text(code), again.epilogue_taken);
  return pass();
}

Outcome epilogues(Session& s) {
  KernelFixture fixture(s);
  CONFORM_TRY(fixture.open());
  size_t taken = 0;
  for (const OpCase& c : cases_of(fixture)) {
    for (const Tail& tail : tails(c.results[0])) {
      std::unique_ptr<Part> part;
      if (Part::read(fixture.api(), graph_text(c, text_of(c, kNoConstant), tail), &part).verdict !=
          Verdict::kPass)
        continue;
      const KernelCall call(*part, tail.count);
      const std::string what = c.name() + " with" + tail.nodes;
      tenon_kernel_candidate_t candidate;
      fixture.session().step("asking for " + what);
      if (fixture.query(call, &candidate) != TENON_OK || candidate.epilogue_taken == 0) continue;
      ++taken;
      CONFORM_TRY(keeps_its_word(fixture, *part, candidate.epilogue_taken, what));
      if (candidate.epilogue_taken == tail.count)
        CONFORM_TRY(right_values(fixture, call, candidate, what));
    }
  }
  return taken == 0 ? not_offered("an epilogue of its kernels") : pass();
}

tenon_code_t full_sink(void*, const void*, uint64_t) {
  return TENON_RESOURCE_EXHAUSTED;
}

// Twice the same bytes, and no success if they cannot be written.
Outcome packs_steadily(KernelFixture& fixture, const KernelCall& call,
                       const tenon_kernel_candidate_t& candidate, uint32_t operand,
                       const std::string& what) {
  Kernel kernel(fixture);
  CONFORM_TRY(create(fixture, call, what, &kernel));
  const Bytes plain = [&] {
    const std::span<const std::byte> bytes = fixture.constant(call, operand);
    Bytes out(bytes.size());
    std::copy_n(reinterpret_cast<const Bytes::value_type*>(bytes.data()), bytes.size(), out.data());
    return out;
  }();
  Bytes first, second;
  CONFORM_TRY(fixture.pack(kernel.kernel, operand, plain, &first));
  CONFORM_TRY(fixture.pack(kernel.kernel, operand, plain, &second));
  CONFORM_EXPECT(first == second, "prepack of operand {} of {} writes other bytes each time",
                 operand, what);
  const tenon_sink_t full = {nullptr, full_sink};
  const tenon_kernels_api_t& k = fixture.kernels();
  const tenon_code_t code =
      k.prepack(k.self, kernel.kernel, operand, plain.data(), plain.size(), &full);
  CONFORM_EXPECT(code != TENON_OK, "prepack of operand {} of {} gives OK to a sink that fails",
                 operand, what);
  return (void)candidate, pass();
}

Outcome packed(Session& s) {
  KernelFixture fixture(s);
  CONFORM_TRY(fixture.open());
  size_t packed = 0;
  for (const OpCase& c : cases_of(fixture)) {
    for (size_t constant = 0; constant < std::min<size_t>(c.operands.size(), 32); ++constant) {
      if (c.operands[constant] == "_") continue;
      std::unique_ptr<Part> part;
      Tail nothing{"", "", 0};
      std::string text = graph_text(c, text_of(c, constant), nothing);
      text.replace(text.find("yield %y"), 8, "yield %r");
      if (Part::read(fixture.api(), text, &part).verdict != Verdict::kPass) continue;
      const KernelCall call(*part, 0);
      const std::string what = fmt::format("{} with operand {} constant", c.name(), constant);
      tenon_kernel_candidate_t candidate;
      fixture.session().step("asking for " + what);
      if (fixture.query(call, &candidate) != TENON_OK || candidate.prepack_mask == 0) continue;
      CONFORM_EXPECT(candidate.prepack_mask == 1u << constant,
                     "the candidate for {} packs other operands (mask {:#x})", what,
                     candidate.prepack_mask);
      CONFORM_EXPECT(fixture.kernels().prepack != nullptr,
                     "the candidate for {} packs an operand, and there is no prepack", what);
      ++packed;
      CONFORM_TRY(packs_steadily(fixture, call, candidate, static_cast<uint32_t>(constant), what));
      CONFORM_TRY(right_values(fixture, call, candidate, what));
    }
  }
  return packed == 0 ? not_offered("packed constants of its kernels") : pass();
}

constexpr Check kChecks[] = {{"R-F17", "epilogues", epilogues}, {"R-F18", "packed", packed}};

}  // namespace

std::span<const Check> kernel_epilogue_checks() {
  return kChecks;
}

}  // namespace tenon::conform
