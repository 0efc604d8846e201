// Programs of one model specialised by the values of inputs that decide its sizes, axes or counts:
// one for each recent tuple of values, guarded by the values, and, if one graph can serve all
// values, a general one for the rest (docs/adr/0018). For a device that compiles concrete sizes
// alone there is one for each recent tuple of sizes, too (docs/adr/0045).
//
// Threads: safe.
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/session/compile/model.h"
#include "core/session/compile/program.h"

namespace tenon::session {

// What the sizes of a call have to be: the case that a model asked for has this value.
struct AnsweredCase {
  std::shared_ptr<const Model> asked;
  int64_t value = 0;
};

// One compiled program and the values that it serves.
struct Variant {
  std::vector<uint32_t> inputs;  // whose values are compared; empty: it is the general one
  std::string key;               // their dims and bytes; by shape, the dims of all inputs before
  bool by_shape = false;         // for the sizes of one call
  std::string text;              // the same, for messages: "shape = [2, 3]"
  std::mutex compiling;
  std::shared_ptr<const Program> program;  // null until compiled
  std::atomic<uint64_t> runs{0};
  bool by_case = false;  // for one case of the sizes, which is known once it is compiled
  std::vector<AnsweredCase> cases;

  bool general() const { return inputs.empty() && !by_shape && !by_case; }
  // Whether it serves these inputs by value. scratch: memory reused from call to call.
  bool serves(std::span<const tenon_array_t* const> arrays, std::string* scratch) const;
};

class Variants {
 public:
  // After this many new tuples in a row, values are taken to keep changing: the general variant
  // takes over, if there is one.
  static constexpr uint32_t kNewMost = 4;

  // by_shape: a device takes concrete sizes alone.
  Variants(std::shared_ptr<const Model> model, CompileOptions options, bool by_shape = false);

  const runtime::Shapes& shapes() const { return model_->shapes(); }  // the ports
  const tenon_model_info_t& ports() const { return model_->info(); }
  ir::Ref<ir::Graph> signature() const { return model_->graph(); }
  // The variant for these inputs, compiled now when it is new. arrays: one per input, checked.
  // Fails with what loading and compiling fail with; T0619. by_value: not the general one.
  Result<std::shared_ptr<Variant>> choose(std::span<const tenon_array_t* const> arrays,
                                          bool by_value);
  // The given sizes as the variant's program takes them. By shape, they are constants in it: they
  // must agree with the arrays (T0605 to T0608), and those that the program has not are left out.
  Result<std::vector<runtime::GivenSize>> sizes_for(
      const Variant& variant, std::span<const tenon_array_t* const> arrays,
      std::span<const runtime::GivenSize> sizes) const;
  // Whether values of inputs may be compared, and not their dims alone.
  bool by_value() const { return !model_->value_inputs().empty() || model_->size_case(); }
  // Called when a variant was reused, which shows that values do not keep changing.
  void repeated() {
    if (new_in_a_row_.load(std::memory_order_relaxed) != 0)
      new_in_a_row_.store(0, std::memory_order_relaxed);
  }
  // The variants compiled now, latest first.
  std::vector<std::shared_ptr<Variant>> all() const;
  // Sums over the variants; other fields describe the variant that ran last.
  tenon_program_info_t info() const;
  std::string placement_json() const;  // and how many there are, for which values and why
  std::string placement_summary() const;
  Result<std::string> dump(std::string_view what) const;

 private:
  Result<std::shared_ptr<Variant>> pick(std::span<const tenon_array_t* const> arrays,
                                        bool by_value);
  Result<std::shared_ptr<Variant>> compiled(std::shared_ptr<Variant> variant,
                                            std::span<const tenon_array_t* const> arrays);
  Status compile(Variant* variant, std::span<const tenon_array_t* const> arrays);
  Result<std::shared_ptr<const Model>> specialised(Variant* variant,
                                                   std::span<const tenon_array_t* const> arrays);
  Status ask_values(const Model& loaded, std::span<const tenon_array_t* const> arrays,
                    Variant* variant);
  Status ask_case(std::shared_ptr<const Model> loaded, std::span<const tenon_array_t* const> arrays,
                  Variant* variant);
  Status compile_at(const Model& model, std::span<const tenon_array_t* const> arrays,
                    Variant* variant) const;
  std::shared_ptr<Variant> add(std::span<const tenon_array_t* const> arrays,
                               std::span<const uint32_t> inputs);
  Status check_sizes(std::span<const tenon_array_t* const> arrays,
                     std::span<const runtime::GivenSize> sizes) const;
  Status check(std::span<const tenon_array_t* const> arrays,
               std::span<const uint32_t> inputs) const;
  void forget(const std::shared_ptr<Variant>& variant);
  std::string json() const;
  std::string_view input_name(uint32_t index) const;

  const std::shared_ptr<const Model> model_;
  const CompileOptions options_;
  const bool by_shape_;
  const size_t most_;  // TENON_VARIANTS_KEPT
  mutable std::mutex mutex_;
  std::vector<uint32_t> inputs_;                  // whose values are known to matter; may grow
  std::list<std::shared_ptr<Variant>> variants_;  // by value, the latest first
  std::shared_ptr<Variant> general_;
  std::string no_general_;  // why there is none
  uint64_t compiled_ = 0, dropped_ = 0;
  std::atomic<uint32_t> new_in_a_row_{0};
};

// What compiling a model gives: a program, or, where shapes follow from values of inputs, the
// programs that are compiled as these are known, at its runs.
using AnyProgram = std::variant<std::shared_ptr<Program>, std::shared_ptr<Variants>>;
Result<AnyProgram> compile_model(std::shared_ptr<const Model> model, const CompileOptions& options);

}  // namespace tenon::session
