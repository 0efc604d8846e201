// A program whose executables were loaded for given values of the inputs that rarely change
// (docs/adr/0051), and the one of the last call, which serves the next calls with the same values.
//
// Threads: safe. Calls with new values load in turn.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/runtime/run/plan.h"
#include "core/runtime/run/runner_pool.h"
#include "core/runtime/values/tensor.h"

namespace tenon::session {

struct CompiledSegment;

// A constant of a segment whose bytes are those of an input.
struct LateConstant {
  uint32_t segment = 0;  // and its executable
  uint32_t constant = 0;
  uint32_t input = 0;
};

struct Loading {
  Loading(std::vector<std::shared_ptr<runtime::Tensor>> given,
          std::shared_ptr<const runtime::Plan> loaded)
      : tensors(std::move(given)), plan(std::move(loaded)), runners(plan) {}
  const std::vector<std::shared_ptr<runtime::Tensor>> tensors;  // by Loadings::inputs()
  const std::shared_ptr<const runtime::Plan> plan;
  runtime::RunnerPool runners;
};

class Loadings {
 public:
  Loadings(std::shared_ptr<const runtime::Plan> plan, std::vector<LateConstant> constants);
  ~Loadings();
  Loadings(const Loadings&) = delete;
  Loadings& operator=(const Loadings&) = delete;

  // The inputs that are constants of segments, each once.
  const std::vector<uint32_t>& inputs() const { return inputs_; }
  // What serves these inputs; *out_packed_bytes grows by the bytes of what was loaded now. Fails as
  // loading does, with T0696 for a tensor that is donated, T0621 for one that was given up.
  Result<std::shared_ptr<Loading>> choose(std::span<const CompiledSegment> segments,
                                          std::span<const runtime::Argument> inputs,
                                          uint64_t* out_packed_bytes);
  std::shared_ptr<Loading> last() const;

 private:
  bool serves(const Loading& loading, std::span<const runtime::Argument> inputs) const;
  Result<std::shared_ptr<Loading>> load(std::span<const CompiledSegment> segments,
                                        std::vector<std::shared_ptr<runtime::Tensor>> tensors);

  const std::shared_ptr<const runtime::Plan> plan_;  // without the executables that come late
  const std::vector<LateConstant> constants_;        // by segment
  std::vector<uint32_t> inputs_;
  // Returns the loading that `made` replaces.
  std::unique_ptr<const std::shared_ptr<Loading>> replace_last(std::shared_ptr<Loading> made);

  std::mutex loading_;  // held while executables are loaded, and to change last_
  // Calls read it without a lock: replace_last() returns once no call reads the old one.
  std::atomic<const std::shared_ptr<Loading>*> last_{nullptr};
  mutable std::atomic<uint32_t> readers_{0};
};

}  // namespace tenon::session
