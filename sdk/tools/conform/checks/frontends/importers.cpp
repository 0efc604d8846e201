// Group G, importers: what a plugin's table for a domain says, and what each of its importers makes
// of nodes with any operands and attributes.
#include <algorithm>
#include <random>
#include <set>

#include <tenon/abi/importers.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/graphs/host_graph.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr int kNodes = 300;  // for each importer
constexpr size_t kOperandsMost = 5, kAttributesMost = 4, kResultsMost = 3;
constexpr tenon_value_t kUntouched = 0x7eadbeef;

// Values of several types and ranks, some of which an importer can read.
constexpr std::string_view kOperands = R"(tenon.tir 1
graph @node<n>(%a: f32[2, 3], %b: f32[], %c: i64[n], %d: pred[4], %e: f16[1, n, 2], %f: u8[0]) -> (o0: f32[2, 3], o1: f32[], o2: i64[n], o3: pred[4], o4: f16[1, n, 2], o5: u8[0], o6: i64[2], o7: f32[3], o8: i32[]) {
  %g = const i64[2] [1, -1]
  %h = const f32[3] [0.5, -2, 1e30]
  %i = const i32[] 7
  yield %a, %b, %c, %d, %e, %f, %g, %h, %i
}
)";

struct Importers {
  HostTables host;
  const tenon_importers_t* table = nullptr;
};

Outcome find_importers(Session& s, Importers* out) {
  const void* table = nullptr;
  CONFORM_TRY(find_table(s, "importer", TENON_IMPORTERS_ID, &out->host, &table));
  out->table = static_cast<const tenon_importers_t*>(table);
  return pass();
}

std::string name_of(const tenon_importer_t& importer) {
  return fmt::format("{} since {}", printable(view(importer.op)), importer.since);
}

// The host has refused entries without a name, a version or a function.
Outcome importers_declared(Session& s) {
  Importers found;
  CONFORM_TRY(find_importers(s, &found));
  CONFORM_EXPECT(found.table->importer_count != 0, "the table has no importer");
  std::set<std::pair<std::string, uint32_t>> seen;
  for (uint64_t i = 0; i < found.table->importer_count; ++i) {
    const tenon_importer_t& importer = found.table->importers[i];
    CONFORM_EXPECT(seen.emplace(view(importer.op), importer.since).second,
                   "{} is there twice, and only one of them can be taken", name_of(importer));
  }
  return pass();
}

// ---- One node ----

// A node that no file need have: its arrays end where they end.
struct AnyNode {
  std::vector<tenon_value_t> operands;
  std::vector<tenon_attr_t> attrs;
  std::vector<int64_t> integers = {1, 0, -3};
  std::vector<double> floats = {0.5, -1e300};
  std::vector<tenon_str_t> texts = {{"same", 4}, {nullptr, 0}};
  uint32_t result_count = 0;
  int64_t version = 1;
};

tenon_attr_t any_attribute(const HostTables& host, std::mt19937_64& random, AnyNode& node) {
  constexpr std::string_view kNames[] = {"alpha", "axis",  "axes", "base",  "epsilon", "mode",
                                         "scale", "shape", "size", "times", "to",      "unknown"};
  const std::string_view name = kNames[random() % std::size(kNames)];
  tenon_attr_t attr{};
  attr.name = host.host->intern(host.host->self, {name.data(), name.size()});
  attr.count = 1;
  switch (random() % 6) {
    case 0:
      attr.kind = TENON_ATTR_I64;
      attr.u.i = static_cast<int64_t>(random() % 7) - 3;
      break;
    case 1:
      attr.kind = TENON_ATTR_F64;
      attr.u.f = 1.5;
      break;
    case 2:
      attr.kind = TENON_ATTR_STRING;
      attr.u.s = node.texts[random() % 2];
      break;
    case 3:
      attr.kind = TENON_ATTR_I64S;
      attr.u.is = node.integers.data();
      attr.count = static_cast<uint32_t>(random() % (node.integers.size() + 1));
      break;
    case 4:
      attr.kind = TENON_ATTR_F64S;
      attr.u.fs = node.floats.data();
      attr.count = static_cast<uint32_t>(random() % (node.floats.size() + 1));
      break;
    default:
      attr.kind = TENON_ATTR_STRINGS;
      attr.u.ss = node.texts.data();
      attr.count = static_cast<uint32_t>(random() % (node.texts.size() + 1));
      break;
  }
  return attr;
}

void fill_any(const HostTables& host, const tenon_region_view_t& main, uint32_t since,
              std::mt19937_64& random, AnyNode* node) {
  for (size_t count = random() % (kOperandsMost + 1); node->operands.size() < count;) {
    const size_t which = random() % (main.yield_count + 1);
    node->operands.push_back(which == main.yield_count ? TENON_NONE : main.yields[which]);
  }
  for (size_t count = random() % (kAttributesMost + 1); node->attrs.size() < count;)
    node->attrs.push_back(any_attribute(host, random, *node));
  node->result_count = static_cast<uint32_t>(1 + random() % kResultsMost);
  node->version = since + static_cast<int64_t>(random() % 3);
}

struct Imported {
  tenon_code_t code = TENON_OK;
  Failure failure;
  std::vector<tenon_value_t> results;  // and one more that is not to be written
};

Imported import(const HostTables& host, const tenon_importer_t& importer, AnyNode& node,
                tenon_graph_t* graph) {
  auto whole = sized<tenon_graph_view_t>();
  (void)host.graph->graph_view(host.graph->self, graph, &whole);
  const tenon_builder_t builder = {graph, whole.main, TENON_NONE, 0};
  auto record = sized<tenon_import_t>();
  record.operand_count = static_cast<uint32_t>(node.operands.size());
  record.attr_count = static_cast<uint32_t>(node.attrs.size());
  record.result_count = node.result_count;
  record.version = node.version;
  record.op = importer.op;
  record.builder = &builder;
  record.operands = node.operands.empty() ? nullptr : node.operands.data();
  record.attrs = node.attrs.empty() ? nullptr : node.attrs.data();
  Imported out;
  out.results.assign(node.result_count, TENON_NONE);
  out.results.push_back(kUntouched);
  forget_failure();
  out.code = importer.import_node(importer.self, &record, out.results.data());
  if (out.code != TENON_OK) out.failure = last_failure(host);
  return out;
}

// What a call leaves in the graph, with which the frontend goes on.
Outcome judge(const HostTables& host, const tenon_importer_t& importer, const AnyNode& node,
              const Imported& made, tenon_graph_t* graph) {
  const std::span results(made.results.data(), node.result_count);
  const std::string what = fmt::format("{}, of {} operands and {} attributes", name_of(importer),
                                       node.operands.size(), node.attrs.size());
  CONFORM_EXPECT(made.results.back() == kUntouched, "{}: it gives more than {} results", what,
                 node.result_count);
  if (made.code != TENON_OK) {
    CONFORM_EXPECT(made.failure.code == made.code && !trim(made.failure.text).empty(),
                   "{}: it fails with {} and gives no reason with that code", what,
                   code_text(made.code));
    CONFORM_EXPECT(std::all_of(results.begin(), results.end(),
                               [](tenon_value_t v) { return v == TENON_NONE; }),
                   "{}: it fails and sets a result all the same", what);
    return pass();
  }
  for (uint32_t i = 0; i < node.result_count; ++i) {
    auto value = sized<tenon_value_view_t>();
    CONFORM_EXPECT(
        results[i] == TENON_NONE ||
            host.graph->value_view(host.graph->self, graph, results[i], &value) == TENON_OK,
        "{}: result {} is not a value of the graph", what, i);
  }
  CONFORM_EXPECT(host.graph->verify(host.graph->self, graph) == TENON_OK,
                 "{}: the graph is wrong after it: {}", what, last_failure(host).text);
  return pass();
}

Outcome importers_any_node(Session& s) {
  Importers found;
  CONFORM_TRY(find_importers(s, &found));
  GraphRef base;
  Failure why;
  if (!read_graph(found.host, std::string(kOperands), &base, &why))
    return skipped("the host does not read the graph of this check: " + why.text);
  for (uint64_t i = 0; i < found.table->importer_count; ++i) {
    const tenon_importer_t& importer = found.table->importers[i];
    std::mt19937_64 random(i + 1);
    for (int n = 0; n < kNodes; ++n) {
      const GraphRef first = clone_graph(found.host, base.get());
      const GraphRef second = clone_graph(found.host, base.get());
      AnyNode node;
      fill_any(found.host, main_region(found.host, first.get()), importer.since, random, &node);
      const Imported made = import(found.host, importer, node, first.get());
      CONFORM_TRY(judge(found.host, importer, node, made, first.get()));
      const Imported again = import(found.host, importer, node, second.get());
      CONFORM_EXPECT(made.code == again.code && made.results == again.results &&
                         same_structure(found.host, first.get(), second.get()),
                     "{}: the same node gives another graph the second time", name_of(importer));
    }
  }
  return pass();
}

constexpr Check kChecks[] = {
    {"R-G37", "importers-declared", importers_declared},
    {"R-G38", "importers-any-node", importers_any_node},
};

}  // namespace

std::span<const Check> importer_checks() {
  return kChecks;
}

}  // namespace tenon::conform
