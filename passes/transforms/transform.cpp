#include "transform.h"

#include <algorithm>

namespace tenon::passes {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return out;
}

Status unknown(std::string_view option, std::string_view kind, std::string_view name,
               const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  return fail(TENON_INVALID_ARGUMENT, cat("T0405: ", option, ": the graph has no ", kind, " ", name,
                                          "; it has ", list.empty() ? "none with a name" : list));
}

}  // namespace

Ports::Ports(tenon_graph_t* graph) : main_(main_region(graph)), yields_(main_.yields()) {
  const tenon_region_view_t view = main_.view();
  for (uint32_t i = 0; i < view.yield_count; ++i) {
    names_.emplace_back(view.output_names == nullptr ? std::string_view()
                                                     : sym_text(view.output_names[i]));
  }
}

Status Ports::inputs(std::string_view names, std::string_view what, std::vector<Value>* out) const {
  std::vector<std::string> known;
  for (const Value v : main_.arguments()) known.emplace_back(sym_text(v.view().name));
  const std::vector<Value> arguments = main_.arguments();
  if (words(names).empty()) {
    for (const Value v : arguments) {
      if (is_differentiable(v)) out->push_back(v);
    }
    return {};
  }
  for (const std::string_view name : words(names)) {
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) return unknown(what, "input", name, known);
    out->push_back(arguments[static_cast<size_t>(at - known.begin())]);
  }
  return {};
}

Status Ports::outputs(std::string_view names, std::string_view what,
                      std::vector<size_t>* out) const {
  if (words(names).empty()) {
    if (yields_.empty()) return fail(TENON_INVALID_ARGUMENT, "T0405: the graph has no output");
    out->push_back(0);
    return {};
  }
  for (const std::string_view name : words(names)) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) return unknown(what, "output", name, names_);
    out->push_back(static_cast<size_t>(at - names_.begin()));
  }
  return {};
}

static std::string free_name(std::string_view name, const std::vector<std::string>& taken) {
  std::string own(name);
  for (int n = 2; std::find(taken.begin(), taken.end(), own) != taken.end(); ++n)
    own = cat(name, "_", n);
  return own;
}

Status Ports::add_input(std::string_view name, const Type& type, Value* out) const {
  std::vector<std::string> taken;
  for (const Value v : main_.arguments()) taken.emplace_back(sym_text(v.view().name));
  return argument(main_, type, free_name(name, taken), out);
}

void Ports::add_output(std::string_view name, Value v) {
  names_.push_back(free_name(name, names_));
  added_.push_back(v);
}

Status Ports::finish(tenon_node_t first) {
  std::vector<Value> outputs = main_.yields();  // loops may have been replaced
  outputs.insert(outputs.end(), added_.begin(), added_.end());
  TENON_TRY(yield(main_, outputs, names_));
  erase_unused(nodes_since(main_.graph(), main_.id(), first));
  return {};
}

Status require_variable(Value v, std::string_view name) {
  if (is_float(v.dtype()) || is_complex(v.dtype())) return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat("T0410: ", name, " has elements of ", dtype_name(v.dtype()),
                  ", and derivatives exist for floats and complex numbers only: convert it"));
}

}  // namespace tenon::passes
