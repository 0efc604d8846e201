// One loaded graph and the walk over it.
#ifndef TENON_PLUGINS_REFERENCE_INTERPRETER_H_
#define TENON_PLUGINS_REFERENCE_INTERPRETER_H_

#include <memory>
#include <span>
#include <vector>

#include <tenon/abi/compile.h>
#include <tenon/abi/host.h>
#include <tenon/cpp/graph.hpp>

#include "artifact.h"

namespace tenon::reference {

const tenon_host_registry_t& registry();

// Immutable once loaded. Threads: executions may run at the same time.
class Interpreter {
 public:
  // Reads the graph of an artifact. constants: of the compiled graph, in order; those that it needs
  // are retained. Empty: only checks that the artifact can be read.
  static Status load(const ArtifactView& artifact, std::span<tenon_blob_t* const> constants,
                     std::unique_ptr<Interpreter>* out);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;

  Status needs(tenon_symbols_t symbols, tenon_needs_t* out) const;
  Status execute(const tenon_call_t& call) const;
  uint32_t node_count() const { return main_.node_count; }
  uint64_t constant_bytes() const { return constant_bytes_; }

 private:
  struct Values;  // the arrays of one execution
  Interpreter() = default;
  Status read(tenon_blob_t* bytes);
  Status check_call(const tenon_call_t& call) const;
  void find_last_uses();
  std::vector<tenon_value_t> reads_of(const tenon_node_view_t& node) const;
  Status run_node(uint32_t position, std::vector<int64_t>* symbols, Values* values,
                  const tenon_profile_sink_t* profile) const;
  Status bind_symbols(const tenon_node_view_t& node, std::span<const tenon_array_t> results,
                      std::vector<int64_t>* symbols) const;
  Status dims_of(const tenon_type_t& type, const std::vector<int64_t>& symbols,
                 std::vector<int64_t>* out) const;
  bool mentions(const tenon_type_t& type, const std::vector<bool>& symbols) const;
  bool mixes(const tenon_type_t& type, const std::vector<bool>& symbols) const;
  std::vector<bool> data_dependent_symbols() const;
  std::vector<int64_t> symbol_values(tenon_symbols_t symbols) const;

  tenon_graph_t* graph_ = nullptr;
  tenon_graph_view_t whole_{};
  tenon_region_view_t main_{};
  std::vector<uint32_t> last_use_;           // by value: position of the last node that reads it
  std::vector<tenon_symbol_t> out_symbols_;  // defined inside the graph, mentioned by yields
  uint64_t constant_bytes_ = 0;
  uint32_t input_count_ = 0;  // arguments of a call; the constants follow them
  std::vector<Blob> given_;   // these constants
};

}  // namespace tenon::reference

#endif
