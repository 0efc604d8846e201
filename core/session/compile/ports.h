// The inputs, outputs and symbols of a model or program as the records of the ABI.
//
// Threads: immutable; safe.
#pragma once
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include <tenon/abi/session.h>

#include "core/ir/graph.h"
#include "core/runtime/values/shapes.h"

namespace tenon::session {

class PortRecords {
 public:
  // Borrows from `shapes`. symbols: names that live as long as the process.
  PortRecords(const runtime::Shapes& shapes, std::span<const std::string_view> symbols,
              uint64_t node_count, uint64_t constant_bytes);
  // Of a graph's own ports.
  static PortRecords of(const ir::Graph& graph, const runtime::Shapes& shapes);
  PortRecords(PortRecords&&) = default;
  PortRecords& operator=(PortRecords&&) = default;

  const tenon_model_info_t& info() const { return info_; }  // borrows from this

 private:
  void describe(std::span<const runtime::Port> ports, std::vector<tenon_port_t>* out);
  std::deque<std::vector<tenon_str_t>> dim_texts_;
  std::deque<std::vector<int64_t>> dims_;
  std::vector<tenon_port_t> inputs_, outputs_;
  std::vector<tenon_str_t> symbol_names_;
  tenon_model_info_t info_{};
};

}  // namespace tenon::session
