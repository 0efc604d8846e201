// tenon bisect: which pass, and then which node, makes a result wrong or the compilation fail.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fmt/format.h>
#include <tenon/abi/extract.h>
#include <tenon/abi/inspect.h>
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "sdk/tools/tenon/commands/verdict.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;
using Nodes = std::vector<tenon_node_t>;

// Compilation needs this pass, whatever else runs: it decomposes what no device takes whole.
constexpr std::string_view kNeeded = "legalize";
// The option of passes of rewrites by which this bisects them.
constexpr std::string_view kApply = "apply=";

// "a,b{x=1,y=2}" as its calls.
std::vector<std::string> calls_of(std::string_view pipeline) {
  std::vector<std::string> calls(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : pipeline) {
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 0 && !quoted) {
      calls.emplace_back();
    } else if (c != ' ') {
      calls.back() += c;
    }
  }
  std::erase(calls, "");
  return calls;
}

// The first `count` passes, and what compilation needs.
std::string prefix(const std::vector<std::string>& passes, size_t count) {
  std::vector<std::string> taken(passes.begin(),
                                 passes.begin() + static_cast<std::ptrdiff_t>(count));
  const auto is_needed = [](const std::string& call) { return call.starts_with(kNeeded); };
  if (std::ranges::none_of(taken, is_needed)) taken.emplace_back(kNeeded);
  return fmt::format("{}", fmt::join(taken, ","));
}

// A call of a pass of rewrites that makes its first `count` applications.
std::string first_rewrites(const std::string& call, uint64_t count) {
  if (!call.ends_with('}')) return fmt::format("{}{{apply=1-{}}}", call, count);
  return fmt::format("{},apply=1-{}}}", call.substr(0, call.size() - 1), count);
}

std::string file_stem(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  name = name.substr(0, name.rfind('.'));
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  return name.empty() ? "model" : name;
}

// bisect-MODEL.tir here, with a number if there is such a file.
std::string free_name(const std::string& model) {
  const std::string stem = "bisect-" + file_stem(model);
  std::string name = stem + ".tir";
  for (int i = 2; access(name.c_str(), F_OK) == 0; ++i) name = fmt::format("{}-{}.tir", stem, i);
  return name;
}

class Bisect {
 public:
  Bisect(const Host& host, const BisectOptions& options)
      : host_(host), options_(options), model_(host) {}
  ~Bisect() {
    if (!folder_.empty()) {
      (void)unlink(part_file().c_str());
      (void)rmdir(folder_.c_str());
    }
  }

  int all() {
    if (int s = load(host_, options_.model, model_)) return s;
    if (int s = tables()) return s;
    if (int s = list_passes()) return s;
    if (int s = make_folder()) return s;
    Verdict verdict;
    if (int s = ask(options_.model.model, prefix(passes_, passes_.size()), true, verdict)) return s;
    if (verdict.kind == Verdict::Kind::kRight) {
      out("nothing is wrong: {} agrees with {}\n", safe(options_.model.model),
          safe(options_.model.check));
      return kOk;
    }
    if (!verdict.misuse.empty()) {
      write_err(verdict.misuse);
      return kUsage;
    }
    fault_ = verdict;
    out("fault   {}\n", safe(verdict.message, 600));
    flush_out();
    if (int s = find_pass()) return s;
    if (int s = find_rewrite()) return s;
    return find_nodes();
  }

 private:
  int tables() {
    const void *inspect = nullptr, *extract = nullptr;
    tenon_code_t code =
        host_.host->query(host_.host->self, str(TENON_HOST_INSPECT_ID), 0, &inspect);
    if (code == TENON_OK)
      code = host_.host->query(host_.host->self, str(TENON_HOST_EXTRACT_ID), 0, &extract);
    if (code != TENON_OK) return report(host_, code);
    inspect_ = static_cast<const tenon_host_inspect_t*>(inspect);
    extract_ = static_cast<const tenon_host_extract_t*>(extract);
    return kOk;
  }

  // The passes by name; "standard" stands for its own.
  int list_passes() {
    std::string text;
    if (int s = explain(host_, "passes", "", text)) return s;
    const Json json = Json::parse(text, nullptr, false);
    const std::string standard = json.is_object() ? json.value("standard", "") : "";
    const std::string& given = options_.model.pipeline;
    for (const std::string& call : calls_of(given.empty() ? "standard" : given)) {
      if (call == "none") continue;
      const std::vector<std::string> inner =
          call == "standard" ? calls_of(standard) : std::vector<std::string>{call};
      passes_.insert(passes_.end(), inner.begin(), inner.end());
    }
    return kOk;
  }

  int make_folder() {
    const char* base = getenv("TMPDIR");
    std::string pattern =
        std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/tenon-bisect.XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr)
      return fail(kUsage, "T0107",
                  fmt::format("no folder can be made for parts of the model: {}.", strerror(errno)),
                  "TMPDIR names another place.");
    folder_ = pattern;
    // Processes that fail would otherwise fill the cache with reproducers of every step.
    setenv("TENON_REPRODUCER_DIR", "/dev/null", 1);
    return kOk;
  }
  std::string part_file() const { return folder_ + "/part.tir"; }

  int ask(const std::string& file, const std::string& passes, bool with_inputs, Verdict& out) {
    int status = kOk;
    ++asked_;
    out = verdict_of(options_, file, passes, with_inputs, status);
    return status;
  }

  // The smallest count of passes that fails. Sets passes_of_part_ for the search of nodes.
  int find_pass() {
    size_t right = 0, wrong = passes_.size();
    Verdict verdict;
    if (int s = ask(options_.model.model, prefix(passes_, 0), true, verdict)) return s;
    if (verdict.same(fault_)) {
      out("pass    none: it fails without passes, so the device or the model is at fault\n");
      passes_of_part_ = passes_of_model_ = kNeeded;
      return kOk;
    }
    while (wrong - right > 1) {
      const size_t middle = (right + wrong) / 2;
      if (int s = ask(options_.model.model, prefix(passes_, middle), true, verdict)) return s;
      (verdict.same(fault_) ? wrong : right) = middle;
    }
    out("pass    {} is the first with which it fails ({} of {})\n", in_quotes(passes_[wrong - 1]),
        wrong, passes_.size());
    flush_out();
    before_ = std::vector<std::string>(passes_.begin(),
                                       passes_.begin() + static_cast<std::ptrdiff_t>(wrong - 1));
    faulty_ = passes_[wrong - 1];
    passes_of_part_ = prefix({passes_[wrong - 1]}, 1);
    passes_of_model_ = prefix(passes_, wrong);
    return kOk;
  }

  // ---- Rewrites ----

  // What the faulty pass reports of itself on the model when it is called like this.
  int report_of(const std::string& call, Json& found) {
    Graph start(host_), graph(host_);
    if (tenon_code_t code =
            host_.session->model_graph(host_.session->self, model_.get(), start.out()))
      return report(host_, code);
    std::vector<std::string> calls = before_;
    calls.push_back(call);
    auto record = sized<tenon_passes_options_t>();
    Text text;
    const tenon_sink_t sink = text.sink();
    tenon_code_t code = host_.graph->clone(host_.graph->self, start.get(), graph.out());
    if (code == TENON_OK)
      code = inspect_->passes_run(inspect_->self, graph.get(),
                                  str(fmt::format("{}", fmt::join(calls, ","))), &record, nullptr,
                                  &sink);
    // The pass itself may be what fails: there is no rewrite to name then.
    if (code != TENON_OK) return kOk;
    const Json json = Json::parse(text.text, nullptr, false);
    if (json.is_object() && json.contains("passes") && !json["passes"].empty())
      found = json["passes"].back();
    return kOk;
  }

  // The first `count` rewrites of the faulty pass, in the whole model.
  int rewrites_fail(uint64_t count, bool& fails) {
    std::vector<std::string> calls = before_;
    calls.push_back(first_rewrites(faulty_, count));
    Verdict verdict;
    if (int s = ask(options_.model.model, prefix(calls, calls.size()), true, verdict)) return s;
    fails = verdict.same(fault_);
    return kOk;
  }

  // Whether the pass itself may have crashed or never ended, so that it must not run in this
  // process.
  bool may_end_process() const {
    if (fault_.kind == Verdict::Kind::kHangs || fault_.code.starts_with("signal ")) return true;
    return fault_.code == "T0650" && fault_.message.find("the pass ") != std::string::npos;
  }

  // Which application of a rewrite is the first with which it fails, where the pass consists of
  // rewrites.
  int find_rewrite() {
    if (faulty_.empty() || faulty_.find(std::string(kApply)) != std::string::npos) return kOk;
    if (may_end_process()) return kOk;
    Json found = Json::object();
    if (int s = report_of(faulty_, found)) return s;
    const uint64_t all = found.value("rewrites", uint64_t{0});
    if (all == 0) return kOk;
    bool fails = false;
    if (int s = rewrites_fail(all, fails)) return s;
    if (!fails) return kOk;  // what else the pass changes is at fault
    uint64_t right = 0, wrong = all;
    while (wrong - right > 1) {
      const uint64_t middle = right + (wrong - right) / 2;
      if (int s = rewrites_fail(middle, fails)) return s;
      (fails ? wrong : right) = middle;
    }
    if (int s = report_of(first_rewrites(faulty_, wrong), found)) return s;
    out("rewrite {} of {}: {}\n", wrong, all, safe(found.value("last", ""), 600));
    flush_out();
    return kOk;
  }

  // ---- Nodes ----

  // The graph in front of the faulty pass; the model itself if that does not show the fault.
  int start_graph(Graph& graph) {
    if (tenon_code_t code =
            host_.session->model_graph(host_.session->self, model_.get(), graph.out()))
      return report(host_, code);
    if (before_.empty()) return kOk;
    Graph changed(host_);
    const std::string passes = fmt::format("{}", fmt::join(before_, ","));
    auto record = sized<tenon_passes_options_t>();
    tenon_code_t code = host_.graph->clone(host_.graph->self, graph.get(), changed.out());
    if (code == TENON_OK)
      code = inspect_->passes_run(inspect_->self, changed.get(), str(passes), &record, nullptr,
                                  nullptr);
    if (code != TENON_OK) return report(host_, code);
    host_.graph->freeze(host_.graph->self, changed.get());
    bool fails = false;
    if (int s = part_fails(changed.get(), fails)) return s;
    if (fails) {
      std::swap(*graph.out(), *changed.out());
    } else {
      passes_of_part_ = passes_of_model_;
    }
    return kOk;
  }

  int part_fails(tenon_graph_t* graph, bool& fails) {
    Text bytes;
    const tenon_sink_t sink = bytes.sink();
    if (tenon_code_t code =
            host_.graph->graph_write(host_.graph->self, graph, TENON_FORMAT_BINARY, &sink))
      return report(host_, code);
    if (int s = write_file(host_, part_file(), bytes.text)) return s;
    Verdict verdict;
    if (int s = ask(part_file(), passes_of_part_, false, verdict)) return s;
    fails = verdict.same(fault_);
    if (fails) found_ = std::move(bytes.text);
    return kOk;
  }

  // Whether these nodes by themselves fail, with `yields` as outputs.
  int nodes_fail(const Nodes& nodes, const std::vector<tenon_value_t>& yields, bool& fails) {
    auto spec = sized<tenon_extract_spec_t>();
    spec.node_count = static_cast<uint32_t>(nodes.size());
    spec.nodes = nodes.data();
    spec.yield_count = static_cast<uint32_t>(yields.size());
    spec.yields = yields.data();
    spec.name = str("part");
    auto part = sized<tenon_extracted_t>();
    fails = false;
    // Parts that cannot be cut out, such as between an op and its token, are passed over.
    if (extract_->extract(extract_->self, graph_, &spec, &part) != TENON_OK) return kOk;
    const int status = part_fails(part.graph, fails);
    extract_->release(extract_->self, &part);
    return status;
  }

  tenon_node_view_t node(tenon_node_t n) const {
    auto seen = sized<tenon_node_view_t>();
    (void)host_.graph->node_view(host_.graph->self, graph_, n, &seen);
    return seen;
  }

  // Results of the first `count` nodes that later nodes or the outputs read.
  std::vector<tenon_value_t> read_later(size_t count) const {
    std::set<tenon_value_t> made, read(outputs_.begin(), outputs_.end());
    for (size_t i = 0; i < all_.size(); ++i) {
      const tenon_node_view_t n = node(all_[i]);
      if (i < count) made.insert(n.results, n.results + n.result_count);
      if (i < count) continue;
      read.insert(n.operands, n.operands + n.operand_count);
      for (uint32_t r = 0; r < n.region_count; ++r) {
        auto region = sized<tenon_region_view_t>();
        (void)host_.graph->region_view(host_.graph->self, graph_, n.regions[r], &region);
        read.insert(region.captures, region.captures + region.capture_count);
      }
    }
    std::vector<tenon_value_t> both;
    std::set_intersection(made.begin(), made.end(), read.begin(), read.end(),
                          std::back_inserter(both));
    return both;
  }

  int find_nodes() {
    Graph graph(host_);
    if (int s = start_graph(graph)) return s;
    graph_ = graph.get();
    auto all = sized<tenon_graph_view_t>();
    auto main = sized<tenon_region_view_t>();
    tenon_code_t code = host_.graph->graph_view(host_.graph->self, graph_, &all);
    if (code == TENON_OK)
      code = host_.graph->region_view(host_.graph->self, graph_, all.main, &main);
    if (code != TENON_OK) return report(host_, code);
    all_.assign(main.nodes, main.nodes + main.node_count);
    outputs_.assign(main.yields, main.yields + main.yield_count);
    if (all_.empty()) return without_nodes();
    bool fails = false;
    if (int s = nodes_fail(all_, read_later(all_.size()), fails)) return s;
    if (!fails) return without_nodes();
    size_t last = 0;
    if (int s = find_last(last)) return s;
    Nodes window;
    if (int s = find_window(last, window)) return s;
    return print_fault(last, window);
  }

  // The fault shows only in the whole model: with its own inputs, or only with all of its nodes.
  int without_nodes() {
    out("node    not found: no part of the model shows the fault with random inputs\n");
    tell_command(options_.model.model, passes_of_model_, true);
    return kWrongResult;
  }

  // The command that shows the fault again, as a shell takes it.
  void tell_command(const std::string& file, const std::string& passes, bool with_inputs) const {
    std::string line;
    for (const std::string& word : trial_command(options_, file, passes, with_inputs))
      line += (line.empty() ? "" : " ") + shell_word(word);
    out("try     {}\n", safe(line, 1 << 16));
  }

  // The smallest number of first nodes that fail together: the last of them is at fault.
  int find_last(size_t& last) {
    size_t right = 0, wrong = all_.size();
    while (wrong - right > 1) {
      const size_t middle = (right + wrong) / 2;
      bool fails = false;
      const Nodes some(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(middle));
      if (int s = nodes_fail(some, read_later(middle), fails)) return s;
      (fails ? wrong : right) = middle;
    }
    last = wrong - 1;
    return kOk;
  }

  // What the node reads, up to `depth` nodes away, in the order of the program.
  Nodes around(size_t last, size_t depth) const {
    std::set<tenon_node_t> chosen = {all_[last]};
    std::vector<tenon_node_t> edge = {all_[last]};
    for (size_t d = 0; d < depth && !edge.empty(); ++d) {
      std::vector<tenon_node_t> next;
      for (const tenon_node_t n : edge) {
        const tenon_node_view_t seen = node(n);
        for (uint32_t i = 0; i < seen.operand_count; ++i) {
          auto value = sized<tenon_value_view_t>();
          if (seen.operands[i] == TENON_NONE ||
              host_.graph->value_view(host_.graph->self, graph_, seen.operands[i], &value) !=
                  TENON_OK ||
              value.kind != TENON_VALUE_RESULT)
            continue;
          if (chosen.insert(value.node).second) next.push_back(value.node);
        }
      }
      edge = std::move(next);
    }
    Nodes ordered;
    for (const tenon_node_t n : all_) {
      if (chosen.contains(n)) ordered.push_back(n);
    }
    return ordered;
  }

  int find_window(size_t last, Nodes& window) {
    const tenon_node_view_t end = node(all_[last]);
    const std::vector<tenon_value_t> results(end.results, end.results + end.result_count);
    size_t before = 0;
    for (size_t depth = 0;; depth = depth == 0 ? 1 : depth * 2) {
      window = around(last, depth);
      if (depth > 0 && window.size() == before) break;  // it has all there is
      before = window.size();
      bool fails = false;
      if (int s = nodes_fail(window, results, fails)) return s;
      if (fails) return kOk;
    }
    // Only together with nodes that it does not read.
    window.assign(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    bool fails = false;
    return nodes_fail(window, read_later(last + 1), fails);
  }

  // ---- What was found ----

  std::string node_text(tenon_node_t n) const {
    const tenon_node_view_t seen = node(n);
    Text place;
    const tenon_sink_t sink = place.sink();
    if (seen.loc != 0) (void)host_.graph->loc_text(host_.graph->self, graph_, seen.loc, &sink);
    return fmt::format("{}{}", in_quotes(view(host_.host->sym_text(host_.host->self, seen.op))),
                       place.text.empty() ? "" : " at " + safe(place.text, 400));
  }

  int print_fault(size_t last, const Nodes& window) {
    out("node    {}\n", node_text(all_[last]));
    if (window.size() > 1) {
      out("with    ");
      for (size_t i = 0; i + 1 < window.size() && i < 8; ++i)
        out("{}{}", i == 0 ? "" : ", ",
            safe(view(host_.host->sym_text(host_.host->self, node(window[i]).op))));
      out("{}\n", window.size() > 9 ? fmt::format(" and {} more", window.size() - 9) : "");
    }
    const std::string file =
        options_.output.empty() ? free_name(options_.model.model) : options_.output;
    if (int s = write_file(host_, file, readable())) return s;
    out("wrote   {}: {} of {} nodes, after {} trials\n", safe(file, 4096), window.size(),
        all_.size(), asked_);
    tell_command(file, passes_of_part_, false);
    return kWrongResult;
  }

  // The part as text, which a person reads; in the binary form if its constants are large.
  std::string readable() const {
    tenon_blob_t* blob = nullptr;
    Graph graph(host_);
    Text text;
    const tenon_sink_t sink = text.sink();
    tenon_code_t code =
        host_.graph->blob_bytes(host_.graph->self, found_.data(), found_.size(), &blob);
    if (code != TENON_OK) return found_;
    code = host_.graph->graph_read(host_.graph->self, blob, str("part.tir"), nullptr, graph.out());
    host_.graph->blob_release(host_.graph->self, blob);
    if (code == TENON_OK)
      code = host_.graph->graph_write(host_.graph->self, graph.get(), TENON_FORMAT_TEXT, &sink);
    // Constants that lie outside of the text would need a second file.
    return code != TENON_OK || text.text.find(" @ ") != std::string::npos
               ? found_
               : "// " + std::string(safe(fault_.message, 400)) + "\n" + text.text;
  }

  const Host& host_;
  const BisectOptions& options_;
  Model model_;
  const tenon_host_inspect_t* inspect_ = nullptr;
  const tenon_host_extract_t* extract_ = nullptr;
  tenon_graph_t* graph_ = nullptr;  // in whose nodes the fault is sought
  std::vector<std::string> passes_, before_;
  std::string faulty_;  // the call of the faulty pass; empty if no pass is at fault
  std::string passes_of_part_, passes_of_model_, folder_;
  std::string found_;  // the smallest graph that fails, in the binary form
  Verdict fault_;
  Nodes all_;
  std::vector<tenon_value_t> outputs_;
  size_t asked_ = 0;
};

}  // namespace

int command_bisect(const BisectOptions& options) {
  apply_threads(options.model);
  Host host;
  if (int s = host_open(host)) return s;
  if (int s = check_layers(host)) return s;
  if (int s = refuse_package(options.model.model)) return s;
  if (int s = check_made(options.output, ".tir", options.model.model)) return s;
  return Bisect(host, options).all();
}

}  // namespace tenon::tools
