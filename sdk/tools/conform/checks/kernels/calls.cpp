// Group F, second part: kernels of tenon.kernels/1, queried, created and run step by step.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "sdk/tools/conform/checks/kernels/kernel_object.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/kernel_fixture.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// Every op's example; elementwise ones in two shapes.
std::vector<OpCase> asked_cases(KernelFixture& fixture) {
  return generate_cases(fixture.session().host(),
                        [](const OpCase& example, std::vector<OpCase>* out) {
                          out->push_back(example);
                          if (is_elementwise(example)) out->push_back(with_shape(example, "7, 37"));
                        });
}

// Calls `visit` for at most `most` cases whose query returns OK, with the candidate.
template <typename Visit>
Outcome each_taken(KernelFixture& fixture, size_t most, Visit visit) {
  CONFORM_TRY(fixture.open());
  size_t taken = 0;
  for (const OpCase& c : asked_cases(fixture)) {
    if (taken >= most) break;
    std::unique_ptr<Part> part;
    if (Part::read(fixture.api(), graph_of({&c, 1}), &part).verdict != Verdict::kPass) continue;
    const KernelCall call(*part, 0);
    tenon_kernel_candidate_t candidate;
    fixture.session().step("asking for " + c.name());
    if (fixture.query(call, &candidate) != TENON_OK) continue;
    ++taken;
    CONFORM_TRY(visit(c, call, candidate));
  }
  return taken == 0 ? skipped("the kernels take no op's example") : pass();
}

Outcome right_candidate(const KernelCall& call, const tenon_kernel_candidate_t& candidate,
                        const std::string& what) {
  const tenon_kernel_call_t& asked = call.call();
  CONFORM_EXPECT(!view(candidate.name).empty(), "the candidate for {} has no name", what);
  CONFORM_EXPECT(is_valid_utf8(view(candidate.name)),
                 "the candidate for {} has a name that is not UTF-8", what);
  CONFORM_EXPECT(candidate.part_count >= 1, "the candidate for {} has no part", what);
  CONFORM_EXPECT(std::isfinite(candidate.cost_ns) && candidate.cost_ns >= 0,
                 "the candidate for {} costs {} ns", what, candidate.cost_ns);
  CONFORM_EXPECT(candidate.epilogue_taken <= asked.epilogue_count,
                 "the candidate for {} takes {} nodes after it of {}", what,
                 candidate.epilogue_taken, asked.epilogue_count);
  for (uint32_t i = 0; i < 32; ++i) {
    const bool constant = i < asked.operand_count && (tenon_kernel_operand(&asked, i)->flags &
                                                      TENON_KERNEL_OPERAND_CONSTANT) != 0;
    CONFORM_EXPECT(constant || (candidate.prepack_mask >> i & 1) == 0,
                   "the candidate for {} packs operand {}, which is not a constant", what, i);
  }
  return pass();
}

Outcome right_answer(KernelFixture& fixture, const KernelCall& call, const std::string& what) {
  tenon_kernel_candidate_t candidate;
  fixture.session().step("asking for " + what);
  const tenon_code_t code = fixture.query(call, &candidate);
  if (code == TENON_OK) return right_candidate(call, candidate, what);
  CONFORM_EXPECT(code == TENON_UNIMPLEMENTED, "query of {} gives {}", what, code_text(code));
  CONFORM_EXPECT(heard_failure().any && heard_failure().code == code,
                 "{} is refused without a reason", what);
  return pass();
}

Outcome answers(Session& s) {
  KernelFixture fixture(s);
  CONFORM_TRY(fixture.open());
  for (const OpCase& c : asked_cases(fixture)) {
    std::unique_ptr<Part> part;
    if (Part::read(fixture.api(), graph_of({&c, 1}), &part).verdict != Verdict::kPass) continue;
    CONFORM_TRY(right_answer(fixture, KernelCall(*part, 0), c.name()));
  }
  for (const std::string& text : {chain_graph()}) {
    std::unique_ptr<Part> part;
    CONFORM_TRY(Part::read(fixture.api(), text, &part));
    for (uint32_t epilogue : {1u, 2u, 3u})
      CONFORM_TRY(right_answer(
          fixture, KernelCall(*part, epilogue),
          fmt::format("{} with {} nodes after it", part->op_of(part->nodes()[0]), epilogue)));
  }
  return pass();
}

Outcome creates(Session& s) {
  KernelFixture fixture(s);
  return each_taken(
      fixture, SIZE_MAX,
      [&](const OpCase& c, const KernelCall& call, const tenon_kernel_candidate_t&) -> Outcome {
        Kernel first(fixture), second(fixture);
        CONFORM_TRY(create(fixture, call, c.name(), &first));
        return create(fixture, call, c.name(), &second);
      });
}

// Operands by argument; only for cases whose operands are the graph's arguments, in order.
std::vector<Named> inputs_of(const Part& part) {
  return part.inputs({}, fill_normal);
}

Outcome writes_alone(Session& s) {
  KernelFixture fixture(s);
  return each_taken(
      fixture, 200,
      [&](const OpCase& c, const KernelCall& call,
          const tenon_kernel_candidate_t& candidate) -> Outcome {
        Kernel kernel(fixture);
        CONFORM_TRY(create(fixture, call, c.name(), &kernel));
        const std::vector<Named> inputs = inputs_of(call.part());
        std::vector<Named> expected, got;
        const bool known = call.part().expected(inputs, &expected).verdict == Verdict::kPass;
        for (unsigned char filler : {0xa5, 0x3c}) {
          KernelRun run(fixture, call);
          CONFORM_TRY(run.prepare(inputs, candidate, filler));
          fixture.session().step("running " + c.name());
          CONFORM_TRY(run_parts(run, kernel.kernel, in_order(candidate.part_count), c.name()));
          CONFORM_TRY(run.kept_all());
          CONFORM_TRY(run.outputs(&got));
          if (known) CONFORM_TRY(same_tensors(got, expected, c.name()));
        }
        return pass();
      });
}

Outcome any_order(Session& s) {
  KernelFixture fixture(s);
  size_t several = 0;
  CONFORM_TRY(each_taken(
      fixture, 200,
      [&](const OpCase& c, const KernelCall& call,
          const tenon_kernel_candidate_t& candidate) -> Outcome {
        const uint32_t count = std::min(candidate.part_count, 256u);
        if (candidate.part_count < 2 || count != candidate.part_count) return pass();
        ++several;
        Kernel kernel(fixture);
        CONFORM_TRY(create(fixture, call, c.name(), &kernel));
        const std::vector<Named> inputs = inputs_of(call.part());
        std::vector<Named> expected, got;
        if (call.part().expected(inputs, &expected).verdict != Verdict::kPass) return pass();
        std::vector<uint32_t> turned = in_order(count), mixed = turned;
        std::reverse(turned.begin(), turned.end());
        for (uint32_t i = 0; i < count; ++i) std::swap(mixed[i], mixed[(i * 7 + 3) % count]);
        for (const std::vector<uint32_t>& order : {turned, mixed}) {
          KernelRun run(fixture, call);
          CONFORM_TRY(run.prepare(inputs, candidate, 0x77));
          CONFORM_TRY(run_parts(run, kernel.kernel, order, c.name()));
          CONFORM_TRY(run.outputs(&got));
          CONFORM_TRY(same_tensors(got, expected, "parts in another order of " + c.name()));
        }
        for (int round = 0; round < 8; ++round) {
          KernelRun run(fixture, call);
          CONFORM_TRY(run.prepare(inputs, candidate, 0x66));
          std::atomic<tenon_code_t> first{TENON_OK};
          {
            std::vector<std::jthread> threads;
            for (uint32_t i = 0; i < std::min(count, 8u); ++i)
              threads.emplace_back([&, i] {
                for (uint32_t part = i; part < count; part += 8) {
                  const tenon_code_t code = run.run(kernel.kernel, part, count);
                  if (code != TENON_OK) first = code;
                }
              });
          }
          CONFORM_EXPECT(first == TENON_OK, "parts of {} at once give {}", c.name(),
                         code_text(first));
          CONFORM_TRY(run.outputs(&got));
          CONFORM_TRY(same_tensors(got, expected, "parts at once of " + c.name()));
        }
        return pass();
      }));
  return several == 0 ? skipped("its kernels have one part") : pass();
}

Outcome damaged_fail(KernelFixture& fixture, const Bytes& good) {
  const tenon_kernels_api_t& k = fixture.kernels();
  for (size_t way = 0; way < 24; ++way) {
    Bytes bad = good;
    if (way < 8)
      bad.resize(good.size() * way / 8);
    else
      bad[(way - 8) * good.size() / 16] ^= 0x10;
    fixture.session().step("restoring damaged bytes");
    tenon_kernel_t* kernel = nullptr;
    forget_failure();
    const tenon_code_t code =
        k.restore(k.self, fixture.device().device(), bad.data(), bad.size(), &kernel);
    CONFORM_EXPECT(code != TENON_OK, "restore of {} gives OK",
                   way < 8 ? fmt::format("the first {} of {} bytes", bad.size(), good.size())
                           : fmt::format("{} bytes, of which one is damaged", bad.size()));
    CONFORM_EXPECT(heard_failure().any, "restore of damaged bytes fails without a reason");
  }
  return pass();
}

Outcome save_restore(Session& s) {
  KernelFixture fixture(s);
  CONFORM_TRY(fixture.open());
  const tenon_kernels_api_t& k = fixture.kernels();
  if (k.save == nullptr || k.restore == nullptr) return not_offered("save and restore");
  size_t saved = 0;
  CONFORM_TRY(each_taken(
      fixture, 40,
      [&](const OpCase& c, const KernelCall& call,
          const tenon_kernel_candidate_t& candidate) -> Outcome {
        Kernel kernel(fixture), restored(fixture);
        CONFORM_TRY(create(fixture, call, c.name(), &kernel));
        Bytes bytes;
        const tenon_sink_t sink = sink_to(&bytes);
        fixture.session().step("saving a kernel for " + c.name());
        const tenon_code_t code = k.save(k.self, kernel.kernel, &sink);
        if (code == TENON_UNIMPLEMENTED) return pass();
        CONFORM_EXPECT(code == TENON_OK, "save gives {}", code_text(code));
        ++saved;
        const tenon_code_t back = k.restore(k.self, fixture.device().device(), bytes.data(),
                                            bytes.size(), &restored.kernel);
        CONFORM_EXPECT(back == TENON_OK, "restore of what save wrote gives {}", code_text(back));
        const std::vector<Named> inputs = inputs_of(call.part());
        std::vector<Named> first, second;
        for (auto [of, out] :
             {std::pair(kernel.kernel, &first), std::pair(restored.kernel, &second)}) {
          KernelRun run(fixture, call);
          CONFORM_TRY(run.prepare(inputs, candidate, 0));
          CONFORM_TRY(run_parts(run, of, in_order(candidate.part_count), c.name()));
          CONFORM_TRY(run.outputs(out));
        }
        CONFORM_TRY(same_bits(second, first, "a restored kernel for " + c.name()));
        return saved == 1 ? damaged_fail(fixture, bytes) : pass();
      }));
  return saved == 0 ? not_offered("save of its kernels") : pass();
}

constexpr Check kChecks[] = {
    {"R-F01", "query", answers},
    {"R-F02", "create", creates},
    {"R-F08", "guards", writes_alone},
    {"R-F11", "parts", any_order},
    {"R-F12", "save-restore", save_restore},
};

}  // namespace

std::span<const Check> kernel_call_checks() {
  return kChecks;
}

}  // namespace tenon::conform
