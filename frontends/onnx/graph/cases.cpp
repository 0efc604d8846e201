// Conditions that follow from sizes. The host is asked for the truth of each, loads the model again
// with it, and guards the compiled program by it: one program for each case that occurs.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/onnx/graph/importer_internal.h"

namespace tenon::onnx {
namespace {

constexpr size_t kMostCases = 8;

std::optional<tenon_dim_view_t> view_of(Dim dim) {
  auto view = sized<tenon_dim_view_t>();
  if (graph_api().dim_view(graph_api().self, dim.graph(), dim.raw(), &view) != TENON_OK) return {};
  return view;
}

// A dim of one graph in another, with symbols replaced; invalid if one has no replacement.
Dim rewritten(Dim dim, tenon_graph_t* to, const std::unordered_map<tenon_dim_t, Dim>& symbols,
              size_t depth) {
  if (dim.is_constant()) return Dim(to, dim.constant());
  if (const auto at = symbols.find(dim.raw()); at != symbols.end()) return at->second;
  const auto view = view_of(dim);
  if (!view || view->op == TENON_DIM_SYMBOL || depth > limits().depth) return Dim::invalid();
  if (view->op == TENON_DIM_CONSTANT) return Extent::of(view->constant).signed_dim(to);
  return Dim::make(view->op, rewritten(Dim(dim.graph(), view->a), to, symbols, depth + 1),
                   rewritten(Dim(dim.graph(), view->b), to, symbols, depth + 1));
}

}  // namespace

// Whether it is over the dims of inputs alone, which the host knows before a run.
bool Importer::is_of_inputs(Dim dim, size_t depth) const {
  if (dim.is_constant() || input_dims_.contains(dim.raw())) return true;
  const auto view = view_of(dim);
  if (!view || view->op == TENON_DIM_SYMBOL || depth > limits().depth) return false;
  return view->op == TENON_DIM_CONSTANT || (is_of_inputs(Dim(dim.graph(), view->a), depth + 1) &&
                                            is_of_inputs(Dim(dim.graph(), view->b), depth + 1));
}

// The truth of a condition on sizes. Nothing if it is known only at run time, or if the host is
// being asked for it.
std::optional<bool> Importer::decide(Dim truth, std::string why) {
  if (!plan_.may_ask || !is_of_inputs(truth, 0)) return {};
  if (const auto at = decided_.find(truth.raw()); at != decided_.end()) return at->second;
  if (asked_ == plan_.cases.size()) {
    question_ = Question{truth, std::move(why)};
    postponed_ |= unknown_ == Unknown::kPostpone;
    return {};
  }
  return decided_.emplace(truth.raw(), plan_.cases[asked_++] != 0).first->second;
}

// The types of the outputs; symbolic dims are -1.
std::vector<OutputType> Importer::output_types() const {
  std::vector<OutputType> out;
  for (const Value v : region_.yields()) {
    OutputType& type = out.emplace_back(OutputType{v.dtype(), {}});
    for (const Dim d : v.dims()) type.dims.push_back(d.is_constant() ? d.constant() : -1);
  }
  return out;
}

// The question as a dim of the outline, in which the inputs have the dims of `scope`.
Dim Importer::question_in(const Scope& scope, const InputDims& from) const {
  std::unordered_map<tenon_dim_t, Dim> symbols;
  for (const auto& [raw, place] : from)
    symbols.emplace(raw, scope.find(place.first->name)->second->dims()[place.second]);
  return rewritten(question_->truth, graph_.get(), symbols, 0);
}

// What the outputs are in all cases together. False with a problem if one has several ranks.
static bool join(const ModelProto& model, const std::vector<OutputType>& more,
                 std::vector<OutputType>* all, std::string_view why, Problems* problems) {
  if (all->empty()) {
    *all = more;
    return true;
  }
  for (size_t i = 0; i < more.size(); ++i) {
    OutputType& type = (*all)[i];
    if (type.dtype != more[i].dtype || type.dims.size() != more[i].dims.size()) {
      return problems->add(
          "T0714", fmt::format("by {}, which follows from sizes, the output {} is {} of rank {} or "
                               "{} of rank {}, and an output has one type; fix the sizes, as with "
                               "--dim L=N",
                               why, quote(model.graph->outputs[i].name), dtype_name(type.dtype),
                               type.dims.size(), dtype_name(more[i].dtype), more[i].dims.size()));
    }
    for (size_t d = 0; d < type.dims.size(); ++d) {
      if (type.dims[d] != more[i].dims[d]) type.dims[d] = -1;
    }
  }
  return true;
}

// The types of the outputs in all cases: imports the model for each. A case that cannot be imported
// is an error where it occurs.
class CaseWalk {
 public:
  CaseWalk(const ModelProto& model, const Source& source, const Plan& plan, std::string_view why)
      : model_(model), source_(source), plan_(plan), why_(why) {}

  bool run(std::vector<OutputType>* out, Problems* problems) {
    if (!both(plan_.cases, problems)) return false;
    if (types_.empty() && !unknown_) {
      *problems = std::move(*first_failed_);
      return false;
    }
    if (!unknown_) *out = std::move(types_);
    return true;
  }

 private:
  bool both(const std::vector<int64_t>& answers, Problems* problems) {
    for (const int64_t answer : {0, 1}) {
      std::vector<int64_t> more = answers;
      more.push_back(answer);
      if (!one(more, problems)) return false;
    }
    return true;
  }

  bool one(const std::vector<int64_t>& answers, Problems* problems) {
    Plan plan = plan_;
    plan.cases = answers;
    Problems found;
    Graph graph;
    const Imported done = import_once(model_, source_, Unknown::kSymbols, plan, &found, &graph);
    if (done.question && found.empty()) return both(answers, problems);
    if (++cases_ > kMostCases) {
      return problems->add("T0714", fmt::format("there are more than {} cases of conditions that "
                                                "follow from sizes; one is {}",
                                                kMostCases, why_));
    }
    if (done.done) return join(model_, done.outputs, &types_, why_, problems);
    unknown_ |= done.by_value;
    if (!first_failed_) first_failed_ = std::move(found);
    return true;
  }

  const ModelProto& model_;
  const Source& source_;
  const Plan& plan_;
  std::string_view why_;
  std::vector<OutputType> types_;
  std::optional<Problems> first_failed_;
  bool unknown_ = false;  // in a case, values of inputs decide them
  size_t cases_ = 0;
};

bool types_of_cases(const ModelProto& model, const Source& source, const Plan& plan,
                    std::string_view why, std::vector<OutputType>* out, Problems* problems) {
  return CaseWalk(model, source, plan, why).run(out, problems);
}

}  // namespace tenon::onnx
