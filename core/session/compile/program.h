// A model compiled for devices: placement, segments, executables and the plan that ties them.
//
// Threads: immutable once made; safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/session.h>

#include "core/dispatch/placement/extract.h"
#include "core/dispatch/placement/placement.h"
#include "core/runtime/run/plan.h"
#include "core/runtime/run/runner_pool.h"
#include "core/session/compile/loading.h"
#include "core/session/compile/ports.h"

namespace tenon::session {

struct CompileOptions : dispatch::CompileSettings {
  std::string device, pipeline;
  bool no_fallback = false;
  bool for_file = false;  // compiled only: opens no device, loads no code
  std::string target;     // for_file: what `device` compiles for; empty: as this machine's
  std::vector<uint32_t> stable_inputs;  // whose values rarely change; for_file: of no use
};

// One segment with what the device made of it.
struct CompiledSegment {
  uint32_t device = 0;  // of the plan
  std::shared_ptr<runtime::Device> owner;
  uint32_t by = 0;  // who of the device compiled it
  const tenon_compile_api_t* compiler() const { return owner->apis().compiler(by); }
  std::vector<ir::Node> nodes;
  dispatch::Subgraph subgraph;
  tenon_artifact_t* artifact = nullptr;  // kept for dumps
  tenon_artifact_info_t info{};
  std::string bytes;                     // of the artifact: for_file, or to be loaded later
  std::vector<tenon_blob_t*> constants;  // that it is loaded with; the subgraph keeps them
  std::vector<uint32_t> output_ranks;
};

// A copy between places, for the report.
struct CopyRecord {
  ir::Value value = ir::kNone;
  std::string from, to;
  double bytes = 0;  // at likely sizes
};

// What a program from a package has in place of its graph and its compilation.
struct Packaged {
  std::string placement, summary;
  uint64_t node_count = 0, copy_count = 0, code_bytes = 0;
  std::vector<ir::Ref<ir::Blob>> blobs;  // ranges of the file, and the file itself
};

class Program {
 public:
  // Passes, placement, compilation and loading. Errors of each with what was being done.
  static Result<std::shared_ptr<Program>> compile(const ir::Graph& model,
                                                  const CompileOptions& options);
  ~Program();
  Program(const Program&) = delete;

  const runtime::Shapes& shapes() const { return plan_->shapes; }  // the ports

  const tenon_model_info_t& ports() const { return ports_->info(); }
  ir::Ref<ir::Graph> signature() const { return graph_; }

  // Without nodes if it came from a package.
  const ir::Graph& graph() const { return *graph_; }
  const std::shared_ptr<const runtime::Plan>& plan() const { return plan_; }
  runtime::RunnerPool& runners() const { return *runners_; }  // of the plan, if it is loaded
  // Null: all is loaded. Otherwise the plan is one to load for each call's inputs.
  Loadings* loadings() const { return loadings_.get(); }
  const dispatch::Placement& placement() const { return placement_; }
  const std::vector<CompiledSegment>& segments() const { return segments_; }
  const std::vector<CopyRecord>& copies() const { return copies_; }
  double compile_ms() const { return compile_ms_; }
  double load_ms() const { return load_ms_; }  // of compile_ms

  tenon_program_info_t info() const;
  std::string placement_json(std::string_view more = "") const;  // more: further fields
  std::string placement_summary() const;
  // T0508 listing what there is.
  Result<std::string> dump(std::string_view what) const;

 private:
  friend class ProgramBuilder;
  friend class PackageLoader;
  Program() = default;
  Result<std::string> dump_device(std::string_view device, std::string_view what) const;
  Result<std::string> report_json() const;  // the dump "report"
  std::vector<ir::Node> nodes_on(uint32_t device) const;

  ir::Ref<ir::Graph> graph_;
  dispatch::Placement placement_;
  std::vector<CompiledSegment> segments_;
  std::vector<CopyRecord> copies_;
  std::shared_ptr<const runtime::Plan> plan_;
  std::unique_ptr<runtime::RunnerPool> runners_;
  std::unique_ptr<Loadings> loadings_;
  std::unique_ptr<const PortRecords> ports_;
  std::unique_ptr<const Packaged> packaged_;  // null: compiled here
  double compile_ms_ = 0, load_ms_ = 0;
};

}  // namespace tenon::session
