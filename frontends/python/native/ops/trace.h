// A graph that Python builds node by node, through the table of graphs: what tenon/builder/trace.py
// is made of. Types are inferred by the ops themselves.
#ifndef FRONTENDS_PYTHON_NATIVE_OPS_TRACE_H_
#define FRONTENDS_PYTHON_NATIVE_OPS_TRACE_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "frontends/python/native/program/program.h"
#include "tenon/abi/graph.h"

namespace tenon::python {

// A graph under construction: its own, or a place in one that the host lent. One thread at a time.
// Values and dims are the numbers of the table of graphs. All functions raise tenon.Error.
class Trace {
 public:
  explicit Trace(const std::string& name);
  // Appends where the host says; valid until the call of the host returns, and then closed.
  explicit Trace(const tenon_builder_t& at);
  Trace(const Trace&) = delete;
  ~Trace();

  const tenon_builder_t& at() const { return at_; }
  void close() { closed_ = true; }
  // Of the pass that works on it, for the message to one who keeps a part of the graph.
  void name_pass(const std::string& name) { pass_ = name; }

  int64_t symbol(const std::string& name, int64_t hint);
  uint32_t argument(const std::string& dtype, const std::vector<int64_t>& dims,
                    const std::string& name);
  // `bytes`: the elements in row-major order, or one element for all.
  uint32_t constant(const std::string& dtype, const std::vector<int64_t>& dims,
                    nanobind::bytes bytes);
  // (value, dtype, dims) of each result. `attrs`: (name, kind, value), kind as in ATTR_KINDS of
  // tenon/builder/trace.py. An operand None is absent. `regions` are complete, and no other node's.
  nanobind::list node(const std::string& op, const nanobind::sequence& operands,
                      const nanobind::sequence& attrs, const std::vector<uint32_t>& regions);
  // From here to end_region, arguments and nodes go into a new region, whose number this is. They
  // may use values from outside.
  uint32_t begin_region();
  // The region's results, or none of it: a region without results belongs to no node.
  void end_region(const std::vector<uint32_t>& values);
  nanobind::tuple type_of(uint32_t value) const;
  // Of the nodes that follow: a line of a program, and a name with modules, "/layer/0/add".
  void location(const std::string& source, uint32_t line, const std::string& name);

  int64_t dim(uint32_t op, int64_t a, int64_t b);
  uint32_t compare(uint32_t relation, int64_t a, int64_t b) const;
  // (op, a, b, constant, symbol's name).
  nanobind::tuple dim_parts(int64_t dim) const;
  // Outputs in order; the graph is complete then and becomes a model's.
  Graph finish(const std::vector<uint32_t>& values, const std::vector<std::string>& names);
  std::string text() const;
  // An input of the whole graph, also while a region is built.
  uint32_t input(const std::string& dtype, const std::vector<int64_t>& dims,
                 const std::string& name);
  // Sets the outputs and runs passes on the graph, which may add inputs and outputs. Nothing can be
  // added afterwards.
  void transform(const std::vector<uint32_t>& values, const std::vector<std::string>& names,
                 const std::string& passes);
  // The graph as it is now, with the same numbers of values; Python owns it.
  Trace* copy() const;
  // Copies the nodes of a graph that was transformed to this one. `values`: its inputs, in order.
  // Returns (value, dtype, dims) of each output.
  nanobind::list inline_graph(const Trace& other, const std::vector<uint32_t>& values);
  // The outputs of a graph that goes to the host, which take() hands over. Nothing can be added
  // afterwards.
  void finish_for_host(const std::vector<uint32_t>& values, const std::vector<std::string>& names);
  tenon_graph_t* take();

  // ---- For passes ----
  // Nodes in order, those of nested regions after their owner.
  std::vector<uint32_t> nodes() const;
  // (op, operands, results, attributes by name).
  nanobind::tuple node_parts(uint32_t node) const;
  // The node that a value is a result of; None for an argument or a constant.
  nanobind::object producer(uint32_t value) const;
  // The number that all elements of a constant equal; None for other values.
  nanobind::object number(uint32_t value) const;
  // New nodes go before this one.
  void before(uint32_t node);
  void replace(uint32_t from, uint32_t to);
  void erase(uint32_t node);
  // (node or None, region of a yield or None, index) of each use of a value.
  nanobind::list uses(uint32_t value) const;
  // A constant as an array of NumPy over its memory; None for other values.
  nanobind::object constant_array(uint32_t value) const;
  bool is_constant(uint32_t value) const;
  // (region, index) of an argument; None for other values.
  nanobind::object argument_place(uint32_t value) const;
  // (region that contains it or None, regions inside, place in the user's file).
  nanobind::tuple node_place(uint32_t node) const;
  // (node that owns it or None, arguments, nodes, yields).
  nanobind::tuple region_parts(uint32_t region) const;
  uint32_t main_region() const;
  // By name. noted: TENON_NOTED_NODE or VALUE.
  nanobind::dict notes(uint32_t noted, uint32_t index) const;
  void set_note(uint32_t noted, uint32_t index, const std::string& name, uint32_t kind,
                const nanobind::object& value);
  void erase_note(uint32_t noted, uint32_t index, const std::string& name);
  void take_notes(uint32_t noted, uint32_t index, uint32_t from);

 private:
  Trace() = default;
  void yield(const std::vector<uint32_t>& values, const std::vector<std::string>& names);
  void ask_graph(const std::function<tenon_code_t(const tenon_host_graph_t&)>& work) const;

  tenon_builder_t at_ = {};
  std::vector<tenon_builder_t>
      outer_;  // Where the nodes of the regions under construction will be.
  bool owned_ = false, closed_ = false, finished_ = false;
  std::string pass_;
};

// A trace over a graph that the host lends for the time of a call. It is closed when this goes,
// also after an exception: what Python keeps of it must not lead to a graph that has gone.
class LentTrace {
 public:
  explicit LentTrace(const tenon_builder_t& at)
      : trace_(nanobind::cast(new Trace(at), nanobind::rv_policy::take_ownership)) {}
  LentTrace(const LentTrace&) = delete;
  ~LentTrace() { get().close(); }
  Trace& get() const { return nanobind::cast<Trace&>(trace_); }
  const nanobind::object& object() const { return trace_; }

 private:
  nanobind::object trace_;
};

// Attributes by name, as Python's values.
nanobind::dict attributes_of(const tenon_attr_t* attrs, uint32_t count);

void bind_trace(nanobind::module_& module);
void bind_trace_pass(nanobind::class_<Trace>& trace);

}  // namespace tenon::python

#endif
