// Inputs and outputs of runs of one program.
//
// Threads: one at a time per binding. The table of sessions refuses a second one (T0622).
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tenon/abi/session.h>

#include "core/runtime/run/run.h"
#include "core/session/compile/variants.h"

namespace tenon::session {

class Binding {
 public:
  explicit Binding(AnyProgram program);
  ~Binding();

  // T0602 with did-you-mean; T0603 to T0606, T0613 for an array that does not fit.
  Status bind_input(std::string_view name, const tenon_array_t& array);
  // T0602.
  Status bind_size(std::string_view name, int64_t value);
  // T0601 naming all missing inputs; T0605 to T0608 for sizes that disagree; failures of devices.
  Status run();
  // T0602, T0614. Borrowed until the next run.
  Status output(std::string_view name, tenon_array_t* out) const;
  // From then on runs are timed; before, only those that are not as the one before.
  tenon_run_info_t run_info();

  void enable_profile(bool on);
  const runtime::Trace& trace() const { return *trace_; }

 private:
  struct Input {
    tenon_array_t array{};
    std::vector<int64_t> dims, strides;
    bool bound = false;
  };
  // A runner and the variant that it runs, if the program has variants.
  struct Chosen {
    std::shared_ptr<Variant> variant;
    std::unique_ptr<runtime::Runner> runner;
  };
  // Runners kept for variants that recur; each keeps the buffers of its last run.
  static constexpr size_t kRunnersMost = 4;

  std::optional<Status> run_again();
  Status check_against_bound(size_t index, const tenon_array_t& array) const;
  void note_places(size_t index);
  void unbind(size_t index);
  Status run_chosen(const Variants& variants, std::span<const tenon_array_t* const> arrays);
  Status run_variant(Variants& variants, std::span<const tenon_array_t* const> arrays);
  Status run_with(std::span<const tenon_array_t* const> arrays,
                  std::span<const runtime::GivenSize> sizes);
  Status load();  // where executables take their constants from the inputs
  runtime::Runner* runner_of(std::shared_ptr<Variant> variant);

  const AnyProgram program_;
  const runtime::Shapes& shapes_;  // of the program
  std::deque<Input> inputs_;
  std::unordered_map<tenon_dim_t, std::pair<size_t, uint32_t>>
      places_;  // before the first run: a bound input, and which of its dims has this size
  runtime::Runner* runner_ =
      nullptr;                  // of the last run; null before the first if there are variants
  std::vector<Chosen> chosen_;  // latest first; without variants one entry, whose variant is null
  std::string scratch_;
  std::vector<runtime::Argument> arguments_;
  std::map<std::string, int64_t, std::less<>> given_sizes_;
  std::vector<runtime::GivenSize> sizes_;  // the same, for the runner
  bool profile_ = false;
  std::shared_ptr<runtime::Trace> trace_ = std::make_shared<runtime::Trace>();
  bool ran_ = false;
  bool timed_ = false;
};

}  // namespace tenon::session
