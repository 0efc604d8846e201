// Group F: compares what the device computes with the reference, on cases made from op
// declarations.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include <tenon/abi/compile.h>
#include <tenon/abi/kernels.h>
#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/checks/kernels/case_run.h"
#include "sdk/tools/conform/checks/kernels/float_values.h"
#include "sdk/tools/conform/checks/kernels/op_variants.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/fixtures/graphs/attribute_text.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"
#include "sdk/tools/support/tensors.h"

namespace tenon::conform {
namespace {

constexpr std::string_view kFloats[] = {"f32", "f64", "f16", "bf16"};
constexpr std::string_view kIntegers[] = {"i32", "i64", "i8", "i16", "u8", "u16", "u32", "u64"};

// The example in every element type that may replace its own.
std::vector<OpCase> in_all_dtypes(const OpCase& example) {
  std::vector<OpCase> out = {example};
  const std::string own = dtype_of(example);
  auto add_all = [&](std::span<const std::string_view> dtypes) {
    if (std::find(dtypes.begin(), dtypes.end(), own) == dtypes.end()) return;
    for (std::string_view dtype : dtypes) {
      if (dtype != own) out.push_back(with_dtype(example, own, dtype));
    }
  };
  add_all(kFloats);
  add_all(kIntegers);
  return out;
}

// ---- Checks ----

// The kind of the first device; not offered if the plugin computes nothing.
Outcome computing_device(Session& s, std::string* kind) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  if (s.offered(TENON_KERNELS_ID) == nullptr && s.offered(TENON_COMPILE_ID) == nullptr) {
    return not_offered(TENON_KERNELS_ID " and " TENON_COMPILE_ID);
  }
  auto info = sized<tenon_device_info_t>();
  if (api->info(api->self, 0, &info) != TENON_OK) return skipped("info fails, as C.info reports");
  *kind = std::string(view(info.kind));
  return pass();
}

// Runs lists of cases, each with its fills.
struct CaseList {
  std::vector<OpCase> cases;
  std::vector<Fill> fills;
};
using MakeLists = std::function<std::vector<CaseList>(const tenon_host_t* host)>;
Outcome compare_lists(Session& s, const MakeLists& make, CaseOptions options = {}) {
  CONFORM_TRY(computing_device(s, &options.device));
  s.step("making cases from the declarations of ops");
  CaseTally tally;
  size_t made = 0;
  for (const CaseList& list : make(s.host())) {
    made += list.cases.size();
    CONFORM_TRY(run_cases(s, list.cases, list.fills, options, &tally));
  }
  if (tally.on_device == 0) return skipped(fmt::format("the device takes none of {} cases", made));
  for (const auto& [kernel, count] : tally.kernels)
    s.note(fmt::format("kernel {} {} {}", kernel.first, kernel.second, count));
  return {Verdict::kPass, fmt::format("{} cases of {} ops; {} cases run elsewhere", tally.on_device,
                                      tally.ops.size(), tally.elsewhere)};
}

Outcome compare_cases(Session& s, const Vary& vary, const Fill& fill, unsigned threads = 1,
                      Judge judge = Judge::kTolerance) {
  return compare_lists(s,
                       [&](const tenon_host_t* host) {
                         return std::vector<CaseList>{{generate_cases(host, vary), {fill}}};
                       },
                       {"", threads, judge});
}

// Every example; other element types only for the first of each op, so that a compiling device has
// few kernels to build.
Outcome usual_values(Session& s) {
  std::string last;
  const Vary vary = [&](const OpCase& example, std::vector<OpCase>* out) {
    if (example.op == last) return out->push_back(example);
    last = example.op;
    *out = in_all_dtypes(example);
  };
  return compare_lists(s, [&](const tenon_host_t* host) {
    return std::vector<CaseList>{{generate_cases(host, vary), {fill_usual, fill_halves}}};
  });
}

// A file of the installation, since the program names no op. Empty if it cannot be read.
std::string conform_file(std::string_view name) {
  const std::string own = folder_of(real_path("/proc/self/exe").value_or("/nowhere/tenon"));
  for (std::string_view folder : {"../../share/tenon/conform", "../share/tenon/conform"}) {
    Result<std::string> read =
        read_file(join_path(join_path(own, folder), name), 1 << 20, "a file of the runner");
    if (read.ok()) return std::move(*read);
  }
  return {};
}

// Whether the case's op is named in such a file, one op per line.
bool is_named(const OpCase& c, const std::string& text) {
  const std::vector<std::string_view> names = split(text, '\n');
  return std::find(names.begin(), names.end(), c.op) != names.end();
}

// The example in other attributes, ranks and shapes.
Outcome arguments(Session& s) {
  return compare_lists(s, [](const tenon_host_t* host) {
    return std::vector<CaseList>{{argument_cases(host), {fill_usual, fill_halves}}};
  });
}

std::vector<Fill> sparse_fills() {
  std::vector<Fill> out;
  for (int round = 0; round < kSparseRounds; ++round)
    out.push_back(
        [round](tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
          fill_sparse(round, dtype, stream, count, bytes);
        });
  return out;
}

// Every pair of special values.
Outcome special_values(Session& s) {
  return compare_cases(
      s,
      [](const OpCase& example, std::vector<OpCase>* out) {
        if (!is_elementwise(example) || !is_float_case(example)) return;
        for (OpCase& c : in_all_dtypes(example)) out->push_back(with_shape(c, "16, 16"));
      },
      fill_special);
}

// Few special values among usual ones, in the graphs of `arguments` and in some of `conversions`,
// which a device that caches its builds has already built.
Outcome special_arguments(Session& s) {
  // Ops whose declarations leave open what zeros that come from no operand make of non-finite
  // values in operands after the first.
  const std::string finite = conform_file("finite_weights.txt");
  if (finite.empty())
    return skipped("share/tenon/conform/finite_weights.txt of this installation cannot be read");
  return compare_lists(s, [&](const tenon_host_t* host) {
    std::vector<OpCase> cases = argument_cases(host), converted = conversion_cases(host);
    for (OpCase& c : cases)
      if (is_named(c, finite)) c.special_operands = 1;
    std::erase_if(converted, [](const OpCase& c) { return dtype_of(c) != "f32"; });
    return std::vector<CaseList>{{std::move(cases), sparse_fills()},
                                 {std::move(converted), {fill_special}}};
  });
}

// Numbers that every other type can hold, and numbers at the types' boundaries.
Outcome conversions(Session& s) {
  return compare_lists(s,
                       [](const tenon_host_t* host) {
                         return std::vector<CaseList>{
                             {conversion_cases(host), {fill_usual, fill_integer_boundaries}}};
                       },
                       {"", 1, Judge::kExact});
}

Outcome denormals(Session& s) {
  return compare_cases(
      s,
      [](const OpCase& example, std::vector<OpCase>* out) {
        if (!is_elementwise(example) || !is_float_case(example)) return;
        for (OpCase& c : in_all_dtypes(example)) out->push_back(with_shape(c, "16, 16"));
      },
      fill_denormal, 1, Judge::kDenormals);
}

// Ops whose zeros have a sign that IEEE 754 defines.
Outcome zero_signs(Session& s) {
  const std::string text = conform_file("zero_signs.txt");
  if (text.empty())
    return skipped("share/tenon/conform/zero_signs.txt of this installation cannot be read");
  return compare_cases(
      s,
      [&](const OpCase& example, std::vector<OpCase>* out) {
        if (!is_named(example, text) || !is_float_case(example)) return;
        for (OpCase& c : in_all_dtypes(example))
          out->push_back(is_elementwise(c) ? with_shape(c, "16, 16") : c);
      },
      fill_zeros, 1, Judge::kZeroSigns);
}

// In every integer type if the example is of one, else in three. If an attribute chooses among
// functions, those are tried in one signed and one unsigned type.
Outcome integer_values(Session& s) {
  return compare_cases(
      s,
      [](const OpCase& example, std::vector<OpCase>* out) {
        Attributes own;
        if (!is_elementwise(example) || !Attributes::read(example.attributes, &own)) return;
        const OpCase shaped = with_shape(example, "16, 16");
        if (!is_float_case(example)) *out = in_all_dtypes(shaped);
        const std::string dtype = dtype_of(shaped);
        for (std::string_view integer : {"i32", "u8", "i64"})
          if (is_float_case(example)) out->push_back(with_dtype(shaped, dtype, integer));
        const tenon_op_def_t& op = *example.declaration;
        for (uint32_t i = 0; i < op.attr_count; ++i)
          for (int64_t value = 0; tenon_op_attr(&op, i)->kind == TENON_ATTR_I64 && value < 6;
               ++value)
            for (std::string_view integer : {"i32", "u8"}) {
              out->push_back(with_dtype(shaped, dtype, integer));
              out->back().attributes =
                  own.with(view(op.attrs[i].name), std::to_string(value)).text();
            }
      },
      fill_ends);
}

// For ops that are not elementwise, operands without elements.
Outcome empty_and_one(Session& s) {
  return compare_cases(
      s,
      [](const OpCase& example, std::vector<OpCase>* out) {
        if (!is_elementwise(example)) {
          OpCase& empty = out->emplace_back(example);
          for (std::string& type : empty.operands)
            if (!dims_of(type).empty()) type = changed_dims(type, "2, 0, 3");
          return;
        }
        for (std::string_view dims : {"0", "", "1, 1, 1", "3, 0, 2"})
          out->push_back(with_shape(example, dims));
      },
      fill_usual);
}

Outcome odd_sizes(Session& s) {
  return compare_cases(
      s,
      [](const OpCase& example, std::vector<OpCase>* out) {
        if (!is_elementwise(example)) return;
        for (std::string_view dims : {"17, 3", "1023", "3, 5, 67"})
          out->push_back(with_shape(example, dims));
        // A few cases need more than 16 bits of index.
        if ((example.traits & TENON_TRAIT_COMMUTATIVE) != 0 && is_float_case(example))
          out->push_back(with_shape(example, "3, 21851"));
      },
      fill_usual);
}

Outcome one_buffer_twice(Session& s) {
  return compare_cases(
      s,
      [](const OpCase& example, std::vector<OpCase>* out) {
        const bool equal =
            std::all_of(example.operands.begin(), example.operands.end(),
                        [&](const std::string& type) { return type == example.operands[0]; });
        if (!is_elementwise(example) || example.operands.size() < 2 || !equal) return;
        out->push_back(with_shape(example, "33"));
        out->back().same_operands = true;
      },
      fill_usual);
}

Outcome in_threads(Session& s) {
  return compare_cases(
      s,
      [](const OpCase& example, std::vector<OpCase>* out) {
        if (is_elementwise(example)) out->push_back(with_shape(example, "257"));
      },
      fill_usual, 4);
}

// The graph is in a file, since the program names no op.
Outcome core_set(Session& s) {
  std::string kind;
  CONFORM_TRY(computing_device(s, &kind));
  const std::string text = conform_file("core_set.tir");
  if (text.empty())
    return skipped("share/tenon/conform/core_set.tir of this installation cannot be read");
  return run_whole_graph(s, text, kind);
}

Outcome same_as_reference(Session& s, const Program& program, const Program& reference,
                          const Fill& fill) {
  const std::vector<Named> inputs = make_inputs(program.info(), fill);
  std::vector<Named> expected;
  std::string why;
  if (!run_program(reference, inputs, &expected, &why))
    return skipped("the reference does not run it: " + why);
  return same_outputs(s, program, inputs, expected, "running a model with the set's kernels");
}

Outcome set_model(Session& s, const Api& api, std::string_view kind, const std::string& path) {
  s.step("compiling " + path);
  Program program(api), reference(api);
  CONFORM_EXPECT(program.compile_file(path, kind) == TENON_OK, "{} does not compile: {}", path,
                 last_failure(api));
  const tenon_model_info_t info = program.info();
  for (uint32_t i = 0; i < info.input_count; ++i) {
    const tenon_port_t& port = info.inputs[i];
    if (std::any_of(port.dims, port.dims + port.rank, [](int64_t d) { return d < 0; }))
      return skipped(fmt::format("{} has dims that are known at the run only", path));
  }
  const std::vector<std::string> makers = program.makers();
  const std::string name(view(s.record()->name));
  CONFORM_EXPECT(std::count(makers.begin(), makers.end(), name) != 0,
                 "the set takes no node of {}; `tenon ops OP --explain --model {}` shows why", path,
                 path);
  if (reference.compile_file(path, kReference) != TENON_OK)
    return skipped("the reference does not compile it: " + last_failure(api));
  for (const Fill& fill : {Fill(fill_usual), Fill(fill_special), Fill(fill_ends)})
    CONFORM_TRY(same_as_reference(s, program, reference, fill));
  return pass();
}

// Kernels for another plugin's device cannot be tried alone, and only their author knows which
// shapes they are for.
Outcome set_models(Session& s) {
  CONFORM_TRY(s.load());
  const auto* kernels = static_cast<const tenon_kernels_api_t*>(s.table(TENON_KERNELS_ID));
  if (kernels == nullptr || s.offered(TENON_DEVICE_ID) != nullptr)
    return not_offered("kernels for a device of another plugin");
  if (s.examples().empty())
    return skipped("there is no model that its kernels are for: name one with --example");
  Api api;
  CONFORM_TRY(find_api(&api));
  for (const std::string& path : s.examples())
    CONFORM_TRY(set_model(s, api, view(kernels->device_kind), path));
  return {Verdict::kPass, fmt::format("{} models", s.examples().size())};
}

constexpr Check kChecks[] = {
    {"R-F03", "values", usual_values},         {"R-F04", "special-floats", special_values},
    {"R-F05", "integer-ends", integer_values}, {"R-F06", "empty-and-one", empty_and_one},
    {"R-F07", "odd-sizes", odd_sizes},         {"R-F09", "one-buffer-twice", one_buffer_twice},
    {"R-F10", "threads", in_threads},          {"R-F13", "core-set", core_set, true},
    {"R-F14", "set-models", set_models},       {"R-F15", "denormals", denormals},
    {"R-F16", "zero-signs", zero_signs},       {"R-F03", "arguments", arguments},
    {"R-F03", "conversions", conversions},     {"R-F04", "special-arguments", special_arguments},
};

}  // namespace

std::span<const Check> kernel_checks() {
  static const auto* all = new std::vector<Check>(
      joined({kChecks, kernel_call_checks(), kernel_epilogue_checks(), kernel_queue_checks()}));
  return *all;
}

}  // namespace tenon::conform
