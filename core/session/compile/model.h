// A loaded model: a frozen graph and its ports. And the ways to load one.
//
// Threads: immutable; safe.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/session.h>

#include "core/ir/graph.h"
#include "core/runtime/values/shapes.h"
#include "core/session/compile/ports.h"

namespace tenon::session {

class SourceOfModel;

// An input whose values decide sizes, axes or counts.
struct ValueInput {
  uint32_t index = 0;
  std::string name, why;  // why: what needs the values, and where
};

// A dim of a model's graph whose value decides which graph there is.
struct SizeCase {
  tenon_dim_t dim = 0;
  std::string why;
};

class Model {
 public:
  // Limit on an input's values, since they are compared at every run.
  static constexpr uint64_t kValuesMax = 4096;

  // Verifies and freezes; the graph must not be changed afterwards.
  static Result<std::shared_ptr<Model>> create(ir::Ref<ir::Graph> graph);
  // Loads any file that a frontend or .tir accepts.
  static Result<std::shared_ptr<Model>> load(std::string_view path,
                                             std::span<const tenon_key_value_t> options);
  // name: for diagnostics and the extension; folder: for files beside it, may be empty.
  static Result<std::shared_ptr<Model>> load_bytes(ir::Ref<ir::Blob> bytes, std::string_view name,
                                                   std::string_view folder,
                                                   std::span<const tenon_key_value_t> options);

  const ir::Ref<ir::Graph>& graph() const { return graph_; }
  const runtime::Shapes& shapes() const { return shapes_; }  // of graph()
  // Inputs for whose values by_value() makes a graph of its own; often none.
  const std::vector<ValueInput>& value_inputs() const { return value_inputs_; }
  // Why graph() cannot run and only graphs by value can; empty if graph() serves all values.
  const std::string& only_by_value() const { return only_by_value_; }
  // What a run has to give before there is a graph, other than values; then only_by_value() is not
  // empty.
  const std::optional<SizeCase>& size_case() const { return size_case_; }
  // Its value for inputs of these dims. T0605 to T0608.
  Result<int64_t> evaluate_case(std::span<const tenon_array_t* const> arrays) const;
  // The model for runs in which the named inputs have these values, and the dims that it and those
  // loaded from it asked for these: the same ports, loaded again. values: one per name; borrowed.
  Result<std::shared_ptr<Model>> by_value(std::span<const std::string> names,
                                          std::span<const tenon_array_t* const> values,
                                          std::span<const int64_t> cases) const;
  const tenon_model_info_t& info() const { return ports_->info(); }  // borrows from this

 private:
  Model() = default;

  friend class SourceOfModel;
  std::shared_ptr<const SourceOfModel> source_;  // null: made from a graph
  std::vector<ValueInput> value_inputs_;
  std::string only_by_value_;

  ir::Ref<ir::Graph> graph_;
  runtime::Shapes shapes_;
  std::unique_ptr<const PortRecords> ports_;
  std::optional<SizeCase> size_case_;
};

// Tensors of a file, read through the frontends, in file order.
Status read_tensors(std::string_view path, const tenon_file_tensor_sink_t& sink);
// Writes a file in the format of its extension.
Status write_tensor(std::string_view path, const tenon_file_tensor_t& tensor);

}  // namespace tenon::session
