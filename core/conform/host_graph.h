// Graphs of the installed host as checks work with them: read from text, evaluated node by node,
// compared. All of it through the tables that a plugin has too.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/host.h>
#include <tenon/abi/session.h>

#include "core/conform/check.h"

namespace tenon::conform {

struct HostTables {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
  const tenon_host_registry_t* registry = nullptr;
  const tenon_host_session_t* session = nullptr;
};
// Found once per process; skipped when the installed host does not start.
Outcome find_host(HostTables* out);

// The host's last failure.
struct Failure {
  tenon_code_t code = TENON_OK;
  std::string id, text, constraint;  // constraint: the label that inference gave, or empty
};
Failure last_failure(const HostTables& host);

class GraphRef {
 public:
  GraphRef() = default;
  GraphRef(const HostTables& host, tenon_graph_t* graph) : host_(&host), graph_(graph) {}
  GraphRef(GraphRef&& other) noexcept { *this = std::move(other); }
  GraphRef& operator=(GraphRef&& other) noexcept {
    std::swap(host_, other.host_);
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~GraphRef() {
    if (graph_ != nullptr) host_->graph->release(host_->graph->self, graph_);
  }
  tenon_graph_t* get() const { return graph_; }

 private:
  const HostTables* host_ = nullptr;
  tenon_graph_t* graph_ = nullptr;
};

// A dense array.
struct Array {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;  // NONE: an operand that is absent
  std::vector<int64_t> dims;
  std::vector<unsigned char> bytes;
  int64_t count() const;
};
// Zeros.
Array make_array(tenon_dtype_t dtype, std::vector<int64_t> dims);
// Floats in (0, 1), integers below 4, so that hardly an op leaves its domain.
void fill_tame(Array* array, uint64_t seed);
// Floats of both signs, integers of both signs where they have one.
void fill_signed(Array* array, uint64_t seed);

// False with the reason when the host does not take the text.
bool read_graph(const HostTables& host, const std::string& text, GraphRef* out, Failure* why);
// The text form; empty when it cannot be written.
std::string write_graph(const HostTables& host, tenon_graph_t* graph);
GraphRef clone_graph(const HostTables& host, tenon_graph_t* graph);
// Whether both have the same structure, whatever their names are.
bool same_structure(const HostTables& host, tenon_graph_t* a, tenon_graph_t* b);

tenon_node_view_t node_view(const HostTables& host, tenon_graph_t* graph, tenon_node_t node);
tenon_value_view_t value_view(const HostTables& host, tenon_graph_t* graph, tenon_value_t value);
tenon_region_view_t main_region(const HostTables& host, tenon_graph_t* graph);
std::string_view op_name(const HostTables& host, const tenon_node_view_t& node);
// "f32[2, n]"-like, for comparing and for messages.
std::string type_text(const HostTables& host, tenon_graph_t* graph, const tenon_type_t& type);

// A constant's elements.
bool constant_array(const HostTables& host, tenon_graph_t* graph, tenon_value_t value, Array* out);
// Replaces every use of `node`'s results and removes it.
bool replace_node(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
                  std::span<const tenon_value_t> results);

// Evaluates the main region; `inputs` are its arguments in order. Symbols are learned from shapes.
bool evaluate_graph(const HostTables& host, tenon_graph_t* graph, std::span<const Array> inputs,
                    std::vector<Array>* outputs, std::string* why);

// Empty when equal within `factor` times the tolerance of the element type, else what differs.
// Floats of another element type are compared as numbers, by the tolerance of the narrower.
std::string difference(const Array& found, const Array& expected, double factor);

}  // namespace tenon::conform
