// Building and changing graphs, and the rules of symbols.
#include "core/ir/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/base/errors/failure.h"
#include "core/ir/form.h"
#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::ir {
namespace {

class GraphTest : public testing::Test {
 protected:
  void SetUp() override {
    test::use_test_ops();
    g = Graph::create("g");
    n = *g->define_symbol(0, "n", 0, INT64_MAX, 1, -1);
    x = arg("x", {g->dims().symbol(n).dim});
  }
  Value arg(std::string_view name, std::vector<Dim> dims, tenon_dtype_t dtype = TENON_F32) {
    const tenon_type_t t{dtype, TENON_KIND_TENSOR, static_cast<uint32_t>(dims.size()), dims.data(),
                         0};
    Result<Value> v = g->add_argument(0, t, name);
    EXPECT_TRUE(v.ok()) << v.status().text();
    return *v;
  }
  Result<Node> try_op(std::string_view op, std::vector<Value> operands, Place place = {}) {
    NodeDraft d;
    d.op = intern(op);
    d.operands = operands;
    return g->build(place, d);
  }
  Value op(std::string_view name, std::vector<Value> operands, Place place = {}) {
    Result<Node> made = try_op(name, operands, place);
    EXPECT_TRUE(made.ok()) << made.status().text();
    return g->results(*made)[0];
  }
  Node def(Value v) { return g->value(v).node; }
  Status yield(std::vector<Value> values) { return g->set_yields(0, values, {}); }

  Ref<Graph> g;
  Symbol n;
  Value x;
};

TEST_F(GraphTest, NodesStandInOrderAndKeepTheirUses) {
  const Value a = op("plus", {x, x}), c = op("plus", {a, x});
  const Value b = op("plus", {a, a}, {0, def(c)});
  EXPECT_EQ(std::vector<Node>(g->nodes(0).begin(), g->nodes(0).end()),
            (std::vector<Node>{def(a), def(b), def(c)}));
  EXPECT_EQ(g->uses(a).size(), 3u);
  ASSERT_TRUE(g->replace(a, x).ok());
  EXPECT_EQ(g->uses(a).size(), 0u);
  EXPECT_EQ(g->uses(x).size(), 6u);
  ASSERT_TRUE(g->erase(def(a)).ok());
  EXPECT_FALSE(g->value_live(a));
  EXPECT_EQ(g->uses(x).size(), 4u);
  ASSERT_TRUE(yield({c}).ok());
  EXPECT_EQ(g->erase(def(c)).error_code(), "T0315");
  EXPECT_TRUE(g->verify().ok()) << g->verify().text();
  EXPECT_EQ(try_op("plus", {c, c}, {0, def(b)}).status().error_code(), "T0314");
}

TEST_F(GraphTest, ManyInsertionsAtOnePlaceStayOrdered) {
  const Value last = op("plus", {x, x});
  std::vector<Node> made;
  for (int i = 0; i < 3000; ++i) {
    const Node before = i % 2 == 0 || made.empty() ? def(last) : made.back();
    const Value v = op("plus", {x, x}, {0, before});
    made.push_back(def(v));
  }
  const std::span<const Node> order = g->nodes(0);
  ASSERT_EQ(order.size(), 3001u);
  for (size_t i = 1; i < order.size(); ++i) ASSERT_TRUE(g->comes_before(order[i - 1], order[i]));
  ASSERT_TRUE(g->move(def(last), order[0]).ok());
  EXPECT_EQ(g->nodes(0)[0], def(last));
}

TEST_F(GraphTest, FrozenGraphsRefuseAndTheirClonesDoNot) {
  const Value a = op("plus", {x, x});
  ASSERT_TRUE(yield({a}).ok());
  g->freeze();
  EXPECT_EQ(try_op("plus", {x, x}).status().error_code(), "T0302");
  EXPECT_EQ(g->replace(a, x).error_code(), "T0302");
  EXPECT_TRUE(g->verify().ok());
  const Ref<Graph> c = g->clone();
  EXPECT_EQ(*c->structural_hash(), *g->structural_hash());
  EXPECT_TRUE(c->replace(a, x).ok());
  EXPECT_NE(*c->structural_hash(), *g->structural_hash());
}

TEST_F(GraphTest, SymbolOfANodeKeepsItAlive) {
  const Value found = op("find", {x});
  ASSERT_EQ(g->symbols(def(found)).size(), 1u);
  const Symbol u = g->symbols(def(found))[0];
  const Dim shape[] = {g->dims().symbol(u).dim};
  tenon_attr_t attr = {intern("shape"), TENON_ATTR_DIMS, 1, {.dims = shape}};
  NodeDraft d;
  d.op = intern("reshape_to");
  d.operands = {&x, 1};
  d.attrs = {&attr, 1};
  const Node user = *g->build({}, d);
  EXPECT_EQ(g->erase(def(found)).error_code(), "T0315");  // no operand uses it, a type does
  ASSERT_TRUE(g->erase(user).ok());
  EXPECT_TRUE(g->erase(def(found)).ok());
}

TEST_F(GraphTest, VerifierFindsASymbolUsedBeforeItsDefinition) {
  const Value found = op("find", {x});
  const Dim shape[] = {g->dims().symbol(g->symbols(def(found))[0]).dim};
  tenon_attr_t attr = {intern("shape"), TENON_ATTR_DIMS, 1, {.dims = shape}};
  NodeDraft d;
  d.op = intern("reshape_to");
  d.operands = {&x, 1};
  d.attrs = {&attr, 1};
  const Node user = *g->build({}, d);
  ASSERT_TRUE(yield({g->results(user)[0]}).ok());
  EXPECT_TRUE(g->verify().ok()) << g->verify().text();
  ASSERT_TRUE(g->move(user, def(found)).ok());
  EXPECT_EQ(g->verify().error_code(), "T0318") << g->verify().text();
}

TEST_F(GraphTest, VerifierCollectsEveryBrokenRule) {
  const Value a = op("plus", {x, x}), b = op("plus", {a, a}), c = op("plus", {b, b});
  ASSERT_TRUE(yield({c}).ok());
  ASSERT_TRUE(g->move(def(c), def(a)).ok());
  ASSERT_TRUE(g->move(def(b), def(a)).ok());
  const Status s = g->verify();
  EXPECT_EQ(s.error_code(), "T0314");
  EXPECT_EQ(s.evidence_value("diagnostics"), "4") << s.text();
}

TEST_F(GraphTest, VerifierWantsTokensInOneLine) {
  const tenon_type_t token{TENON_DTYPE_NONE, TENON_KIND_TOKEN, 0, nullptr, 0};
  const Value t = *g->add_argument(0, token, "t");
  const Value a = op("print", {t, x}), b = op("print", {t, x});
  ASSERT_TRUE(yield({a, b}).ok());
  EXPECT_EQ(g->verify().error_code(), "T0323");
  ASSERT_TRUE(g->set_operand(def(b), 0, a).ok());
  EXPECT_TRUE(g->verify().ok()) << g->verify().text();
}

TEST_F(GraphTest, RegionsCaptureAndCloneRenamesSymbols) {
  const Region r = *g->begin_region({});
  const Symbol k = *g->define_symbol(r, "k", 0, INT64_MAX, 1, -1);
  const Dim kd[] = {g->dims().symbol(k).dim};
  const Value inner = *g->add_argument(r, {TENON_F32, TENON_KIND_TENSOR, 1, kd, 0}, "v");
  const Value sum = op("plus", {inner, inner}, {r, kNone});
  const Value found = op("find", {x}, {r, kNone});
  const Value yields[] = {sum, found};
  ASSERT_TRUE(g->set_yields(r, yields, {}).ok());
  EXPECT_EQ(std::vector<Value>(g->captures(r).begin(), g->captures(r).end()),
            std::vector<Value>{x});
  const Value eight = arg("eight", {8});
  const Value given[] = {eight, x};
  Value out[2];
  ASSERT_TRUE(g->clone_region({}, *g, r, given, out).ok());
  EXPECT_EQ(g->type(out[0]).dims[0], 8);                       // the argument's type decides k
  EXPECT_NE(g->type(out[1]).dims[1], g->type(found).dims[1]);  // the body's symbol is a fresh one
  const Value wrong[] = {x};
  EXPECT_EQ(g->clone_region({}, *g, r, wrong, out).error_code(), "T0317");
  Ref<Graph> other = Graph::create("other");
  const Dim five[] = {5};
  const Value other_x = *other->add_argument(0, {TENON_F32, TENON_KIND_TENSOR, 1, five, 0}, "x");
  const Value other_given[] = {other_x, other_x};
  ASSERT_TRUE(other->clone_region({}, *g, r, other_given, out).ok());
  ASSERT_TRUE(other->set_yields(0, out, {}).ok());
  EXPECT_TRUE(other->verify().ok()) << other->verify().text();
}

TEST_F(GraphTest, AnotherRegionBecomesTheMainOne) {
  const Value old = op("plus", {x, x});
  const std::string_view old_names[] = {"y"};
  ASSERT_TRUE(g->set_yields(0, {&old, 1}, old_names).ok());
  const Region r = *g->begin_region({});
  const Dim dims[] = {8, g->dims().symbol(n).dim};
  const tenon_type_t type{TENON_F32, TENON_KIND_TENSOR, 2, dims, 0};
  const Value now = *g->add_argument(r, type, "x");
  const Value sum = op("plus", {now, now}, {r, kNone});
  const Value uses_old = op("plus", {x, x}, {r, kNone});
  ASSERT_TRUE(g->set_yields(r, {&sum, 1}, {}).ok());
  EXPECT_EQ(g->set_main(r, {}).error_code(), "T0314");  // it uses a value of the main region
  ASSERT_TRUE(g->erase(def(uses_old)).ok());
  const std::string_view names[] = {"z"};
  ASSERT_TRUE(g->set_main(r, names).ok());
  EXPECT_FALSE(g->value_live(x));
  EXPECT_FALSE(g->value_live(old));
  EXPECT_EQ(g->region(0).arguments, std::vector<Value>{now});
  EXPECT_EQ(g->nodes(0).size(), 1u);
  EXPECT_EQ(sym_text(g->region(0).output_names[0]), "z");
  EXPECT_TRUE(g->verify().ok()) << g->verify().text();
  EXPECT_EQ(g->set_main(r, {}).error_code(), "T0317");  // it is gone
  EXPECT_EQ(g->add_argument(0, type, "x").status().error_code(), "T0203");
}

TEST_F(GraphTest, ANodeAndItsSymbolsAreReplaced) {
  const Value found = op("find", {x});
  const Dim old_dim = g->dims().symbol(g->symbols(def(found))[0]).dim;
  const Dim shape[] = {old_dim};
  tenon_attr_t attr = {intern("shape"), TENON_ATTR_DIMS, 1, {.dims = shape}};
  NodeDraft d;
  d.op = intern("reshape_to");
  d.operands = {&x, 1};
  d.attrs = {&attr, 1};
  const Value now = op("find", {x});
  const Node user = *g->build({}, d);
  const Dim new_dim = g->dims().symbol(g->symbols(def(now))[0]).dim;
  ASSERT_TRUE(yield({found, g->results(user)[0]}).ok());
  EXPECT_EQ(g->replace_node(def(found), def(found), {}).error_code(), "T0301");
  // It defines no symbol, and a type mentions that of the old one.
  EXPECT_EQ(g->replace_node(def(found), user, {}).error_code(), "T0315");
  ASSERT_TRUE(g->replace_node(def(found), def(now), {}).ok());
  EXPECT_FALSE(g->value_live(found));
  EXPECT_EQ(g->region(0).yields[0], now);
  EXPECT_EQ(g->type(g->results(user)[0]).dims[0], new_dim);
  EXPECT_EQ(g->attrs(user)[0].u.dims[0], new_dim);
  EXPECT_TRUE(g->verify().ok()) << g->verify().text();
}

TEST_F(GraphTest, HashIgnoresNamesAndSymbolNames) {
  const char* texts[] = {
      "tenon.tir 1 graph @a<n, m>(%x: f32[n, m], %y: f32[m]) -> (o: f32[n, m]) { %0 = plus(%x, %x) "
      "%1 = find(%y) <u> : i64[1, u] yield %0 }",
      "tenon.tir 1 graph @b<k, j>(%p: f32[k, j], %q: f32[j]) -> (f32[k, j]) { %s = plus(%p, %p) "
      "loc(\"f\") %r = find(%q) <k2> : i64[1, k2] yield %s }",
      "tenon.tir 1 graph @b<k, j>(%p: f32[j, k], %q: f32[j]) -> (f32[j, k]) { %s = plus(%p, %p) %r "
      "= find(%q) <k2> : i64[1, k2] yield %s }"};
  Digest h[3];
  for (int i = 0; i < 3; ++i) {
    Result<Ref<Graph>> read = read_text(texts[i], "t", {});
    ASSERT_TRUE(read.ok()) << read.status().text();
    h[i] = *(*read)->structural_hash();
  }
  EXPECT_EQ(h[0], h[1]);
  EXPECT_NE(h[0], h[2]);
}

TEST_F(GraphTest, MaybeEqualDimsAreAssumedAndRemembered) {
  const Symbol m = *g->define_symbol(0, "m", 0, INT64_MAX, 1, -1);
  const Value y = arg("y", {g->dims().symbol(m).dim});
  op("plus", {x, y});
  ASSERT_EQ(g->facts().size(), 1u);
  EXPECT_TRUE(g->replace(y, x).ok());  // provably equal now
  const Value z = arg("z", {3}), w = arg("w", {4});
  EXPECT_EQ(try_op("plus", {z, w}).status().error_code(), "T0312");
}

TEST_F(GraphTest, KnownValuesReachInference) {
  NodeDraft d;
  d.op = intern("size");
  d.operands = {&x, 1};
  const Value size = g->results(*g->build({}, d))[0];
  const Value filled = op("filled", {size});
  EXPECT_EQ(g->type(filled).dims[0], g->dims().symbol(n).dim);
  const Value unknown = arg("u", {}, TENON_I64);
  EXPECT_EQ(try_op("filled", {unknown}).status().error_code(), "T0312");
}

TEST_F(GraphTest, LocationsSurviveFusion) {
  const Loc a = *g->make_loc(Origin{intern("m.net"), intern("a"), 3});
  const Loc b = *g->make_loc(Origin{intern("m.net"), intern("b"), 0});
  const Loc both[] = {a, b, a};
  const Loc fused = *g->fuse_locs(both);
  EXPECT_EQ(g->loc_text(fused), "m.net:3: `a`, m.net: `b`");
  EXPECT_EQ(*g->fuse_locs(both), fused);
  NodeDraft d;
  d.op = intern("plus");
  d.loc = a;
  EXPECT_NE(g->build({}, d).status().text().find("m.net:3: `a`"), std::string::npos);
}

// Asks for a view with a record that is `cut` bytes shorter than this host's, and with one whose
// size was not set.
template <typename Record, typename Ask>
void asks_shorter(size_t cut, Ask ask) {
  constexpr unsigned char kMark = 0x5a;
  Record whole = {};
  whole.size_bytes = sizeof(Record);
  ASSERT_EQ(ask(&whole), TENON_OK);
  const uint32_t size = static_cast<uint32_t>(sizeof(Record) - cut);
  Record shorter;
  std::memset(static_cast<void*>(&shorter), kMark, sizeof(Record));
  shorter.size_bytes = size;
  ASSERT_EQ(ask(&shorter), TENON_OK);
  EXPECT_EQ(shorter.size_bytes, size);
  const auto* given = reinterpret_cast<const unsigned char*>(&shorter);
  EXPECT_EQ(
      std::memcmp(given + sizeof size, reinterpret_cast<const unsigned char*>(&whole) + sizeof size,
                  size - sizeof size),
      0);
  EXPECT_TRUE(std::all_of(given + size, given + sizeof(Record),
                          [](unsigned char byte) { return byte == kMark; }));
  std::memset(static_cast<void*>(&shorter), kMark, sizeof(Record));
  shorter.size_bytes = 0;
  EXPECT_EQ(ask(&shorter), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(shorter.size_bytes, 0u);
  EXPECT_TRUE(std::all_of(given + sizeof size, given + sizeof(Record),
                          [](unsigned char byte) { return byte == kMark; }));
  // A caller newer than this host gets the host's size; the rest of its record is left alone.
  struct Longer {
    Record record;
    uint64_t more;
  } longer = {};
  longer.record.size_bytes = sizeof(Longer);
  longer.more = 77;
  ASSERT_EQ(ask(&longer.record), TENON_OK);
  EXPECT_EQ(longer.record.size_bytes, sizeof(Record));
  EXPECT_EQ(longer.more, 77u);
}

TEST_F(GraphTest, ViewsWriteNoMoreThanTheCallerHas) {
  const tenon_host_graph_t* api = host_graph_table();
  (void)yield({op("plus", {x, x})});
  tenon_graph_t* graph = g->abi();
  const Node node = def(g->region(0).yields[0]);
  asks_shorter<tenon_graph_view_t>(
      8, [&](auto* out) { return api->graph_view(api->self, graph, out); });
  asks_shorter<tenon_node_view_t>(
      8, [&](auto* out) { return api->node_view(api->self, graph, node, out); });
  asks_shorter<tenon_value_view_t>(
      8, [&](auto* out) { return api->value_view(api->self, graph, x, out); });
  asks_shorter<tenon_region_view_t>(
      8, [&](auto* out) { return api->region_view(api->self, graph, 0, out); });
  asks_shorter<tenon_symbol_view_t>(
      8, [&](auto* out) { return api->symbol_view(api->self, graph, n, out); });
  const Dim dim = g->dims().symbol(n).dim;
  asks_shorter<tenon_dim_view_t>(
      8, [&](auto* out) { return api->dim_view(api->self, graph, dim, out); });
}

// A std::length_error left libtenon through its C table.
TEST_F(GraphTest, TheTableRefusesSizesThatNoMemoryHas) {
  const tenon_host_graph_t* api = host_graph_table();
  tenon_blob_t* blob = nullptr;
  EXPECT_EQ(api->blob_bytes(api->self, "x", uint64_t{1} << 63, &blob), TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(last_failure().error_code(), "T0111");
  EXPECT_EQ(api->blob_bytes(api->self, nullptr, 8, &blob), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(blob, nullptr);
}

// The caller's memory is used where it is, and given back once: by the last who used it, or at once
// if it cannot be used.
TEST_F(GraphTest, ForeignBytesAreReleasedOnce) {
  const tenon_host_graph_t* api = host_graph_table();
  const float values[3] = {1, 2, 3};
  int released = 0;
  const auto count = [](void* self) { ++*static_cast<int*>(self); };
  tenon_blob_t* blob = nullptr;
  EXPECT_EQ(api->blob_foreign(api->self, nullptr, 8, &released, count, &blob),
            TENON_INVALID_ARGUMENT);
  EXPECT_EQ(last_failure().error_code(), "T0301");
  EXPECT_EQ(released, 1);
  EXPECT_EQ(blob, nullptr);

  released = 0;
  ASSERT_EQ(api->blob_foreign(api->self, values, sizeof values, &released, count, &blob), TENON_OK);
  const void* data = nullptr;
  uint64_t size = 0;
  ASSERT_EQ(api->blob_data(api->self, blob, &data, &size), TENON_OK);
  EXPECT_EQ(data, values);
  EXPECT_EQ(size, sizeof values);
  tenon_value_t v;
  const tenon_dim_t four[] = {4}, three[] = {3};
  tenon_type_t type{TENON_F32, TENON_KIND_TENSOR, 1, four, 0};
  EXPECT_EQ(api->constant(api->self, g->abi(), &type, blob, &v), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(released, 0);  // the caller still has its reference
  type.dims = three;
  ASSERT_EQ(api->constant(api->self, g->abi(), &type, blob, &v), TENON_OK);
  tenon_blob_t* part = nullptr;
  ASSERT_EQ(api->blob_range(api->self, blob, 4, 4, &part), TENON_OK);
  api->blob_release(api->self, blob);
  Ref<Graph> clone = g->clone();
  g = Ref<Graph>();
  EXPECT_EQ(released, 0);
  clone = Ref<Graph>();
  EXPECT_EQ(released, 0);
  api->blob_release(api->self, part);
  EXPECT_EQ(released, 1);

  // Memory that no call frees, and none at all.
  ASSERT_EQ(api->blob_foreign(api->self, values, sizeof values, nullptr, nullptr, &blob), TENON_OK);
  api->blob_release(api->self, blob);
  ASSERT_EQ(api->blob_foreign(api->self, nullptr, 0, &released, count, &blob), TENON_OK);
  api->blob_release(api->self, blob);
  EXPECT_EQ(released, 2);
}

TEST_F(GraphTest, TheTableRefusesWhatDoesNotExist) {
  const tenon_host_graph_t* api = host_graph_table();
  tenon_node_view_t node = {sizeof node};
  tenon_value_view_t value = {sizeof value};
  EXPECT_EQ(api->node_view(api->self, g->abi(), 99, &node), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(api->value_view(api->self, g->abi(), 99, &value), TENON_INVALID_ARGUMENT);
  tenon_dim_t d;
  EXPECT_EQ(api->dim_make(api->self, g->abi(), TENON_DIM_ADD, -77, 1, &d), TENON_INVALID_ARGUMENT);
  const tenon_type_t bad{77, TENON_KIND_TENSOR, 0, nullptr, 0};
  tenon_value_t v;
  EXPECT_EQ(api->argument_add(api->self, g->abi(), 0, &bad, {}, &v), TENON_INVALID_ARGUMENT);
  const tenon_type_t f32{TENON_F32, TENON_KIND_TENSOR, 0, nullptr, 0};
  EXPECT_EQ(api->argument_add(api->self, g->abi(), 0, &f32, {"x", 1}, &v), TENON_ALREADY_EXISTS);
  tenon_blob_t* blob;
  ASSERT_EQ(api->blob_bytes(api->self, "abc", 3, &blob), TENON_OK);
  EXPECT_EQ(api->constant(api->self, g->abi(), &f32, blob, &v), TENON_INVALID_ARGUMENT);
  tenon_blob_t* part;
  EXPECT_EQ(api->blob_range(api->self, blob, 2, 2, &part), TENON_OUT_OF_RANGE);
  api->blob_release(api->self, blob);
  for (size_t i = 2; i < sizeof *api / sizeof(void*); ++i)
    EXPECT_NE(reinterpret_cast<void* const*>(api)[i], nullptr);
}

// Two graphs `plus(a, b)` of 8 KB constants; `shared`: a is b. form_hash reads none of them.
TEST(FormHash, LargeConstantsCountByPlaceSmallOnesByValue) {
  const auto hash = [](std::byte a, std::byte b, size_t bytes, bool shared) {
    Ref<Graph> g = Graph::create("g");
    const Dim dims[] = {static_cast<Dim>(bytes / 4)};
    const tenon_type_t type{TENON_F32, TENON_KIND_TENSOR, 1, dims, 0};
    std::vector<std::byte> first(bytes, a), second(bytes, b);
    first[0] = second[0] = std::byte{1};  // no splat
    const Value x = *g->add_constant(type, blob_adopt(first), "x");
    const Value y = shared ? x : *g->add_constant(type, blob_adopt(second), "y");
    const Value yields[] = {x, y};
    EXPECT_TRUE(g->set_yields(0, yields, {}).ok());
    return *form_hash(*g, 4096);
  };
  const std::byte p{7}, q{9};
  EXPECT_EQ(hash(p, q, 8192, false), hash(q, p, 8192, false));
  EXPECT_NE(hash(p, p, 8192, false), hash(p, p, 8192, true));
  EXPECT_NE(hash(p, q, 8192, false), hash(p, q, 8196, false));
  EXPECT_NE(hash(p, q, 4096, false), hash(q, p, 4096, false));
}

}  // namespace
}  // namespace tenon::ir
