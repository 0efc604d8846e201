// Notes: what they are, where they stay, and what they leave alone.
#include <gtest/gtest.h>

#include "core/base/errors/failure.h"
#include "core/ir/graph.h"
#include "core/ir/host_notes.h"
#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::ir {
namespace {

constexpr std::string_view kNoted = R"(tenon.tir 1
graph @g(%x: f32[2] {a.scale = 0.5}) -> (f32[2]) {
  %c = const f32[2] {a.layout = "rows"} [1, 2]
  %0 = plus(%x, %c) {a.cluster = 3, a.names = ["p", "q"], b.f = 2.0, b.none = []} : f32[2] {a.r = [1.0, -2.5]}
  %1 = every(%0) {i = 1, "my-npu.core" = 1, user.deep.er = [1, 2]} : f32[2]
  %2 = plus(%0, %1) : f32[2]
  yield %2
}
)";

class NotesTest : public testing::Test {
 protected:
  void SetUp() override {
    test::use_test_ops();
    g = parse(kNoted);
    ASSERT_TRUE(g);
  }
  static Ref<Graph> parse(std::string_view text) {
    Result<Ref<Graph>> read = read_text(text, "t.tir", {});
    EXPECT_TRUE(read.ok()) << read.status().text();
    return read.ok() ? *read : Ref<Graph>();
  }
  static std::string print(const Graph& graph) { return write_text(graph)->text; }
  static tenon_attr_t number(std::string_view name, int64_t value) {
    return {intern(name), TENON_ATTR_I64, 1, {.i = value}};
  }
  static std::string names(std::span<const tenon_attr_t> notes) {
    std::string out;
    for (const tenon_attr_t& note : notes) out += std::string(sym_text(note.name)) + " ";
    return out;
  }
  std::string at_node(Node n) const { return names(g->notes(Noted::kNode, n)); }
  std::string at_value(Value v) const { return names(g->notes(Noted::kValue, v)); }
  Node plus(Value a, Value b) {  // at the end
    const Value operands[] = {a, b};
    NodeDraft d;
    d.op = intern("plus");
    d.operands = operands;
    return *g->build({}, d);
  }
  Value result(size_t node) const { return g->results(g->nodes(0)[node])[0]; }
  static Status refused(std::string_view notes) {
    const std::string text =
        "tenon.tir 1\ngraph @g(%x: f32[2]) -> (f32[2]) {\n  %0 = plus(%x, %x) {" +
        std::string(notes) + "}\n  yield %0\n}\n";
    Result<Ref<Graph>> read = read_text(text, "t.tir", {});
    EXPECT_FALSE(read.ok()) << notes;
    return read.ok() ? Status() : read.status();
  }

  Ref<Graph> g;
};

TEST_F(NotesTest, TextAndBinaryKeepThem) {
  const std::string first = print(*g);
  EXPECT_EQ(first, kNoted);
  EXPECT_EQ(print(*parse(first)), first);
  EXPECT_EQ(print(*g->clone()), first);
  const std::string bytes = *write_binary(*g);
  Result<Ref<Graph>> back = read_graph(*blob_bytes(std::as_bytes(std::span(bytes))), "b", {});
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(print(**back), first);
  EXPECT_NE(write_json(*g)->find("a.cluster = 3"), std::string::npos);
}

TEST_F(NotesTest, TheHashLeavesThemOut) {
  const Digest before = *g->structural_hash();
  ASSERT_TRUE(g->set_note(Noted::kNode, g->nodes(0)[0], number("a.more", 1)).ok());
  EXPECT_EQ(*g->structural_hash(), before);
}

TEST_F(NotesTest, SettingReplacesAndErasingRemoves) {
  const Node n = g->nodes(0)[0];
  ASSERT_TRUE(g->set_note(Noted::kNode, n, number("a.cluster", 9)).ok());
  EXPECT_EQ(g->notes(Noted::kNode, n)[0].u.i, 9);
  EXPECT_EQ(at_node(n), "a.cluster a.names b.f b.none ");
  ASSERT_TRUE(g->erase_note(Noted::kNode, n, intern("a.names")).ok());
  ASSERT_TRUE(g->erase_note(Noted::kNode, n, intern("a.absent")).ok());
  EXPECT_EQ(at_node(n), "a.cluster b.f b.none ");
  g->freeze();
  EXPECT_EQ(g->set_note(Noted::kNode, n, number("a.cluster", 1)).error_code(), "T0302");
  EXPECT_EQ(g->erase_note(Noted::kNode, n, intern("a.cluster")).error_code(), "T0302");
}

TEST_F(NotesTest, AFreshNodeInThePlaceOfAnotherTakesThem) {
  const Value old = result(0);
  const Node other = *g->build({0, g->nodes(0)[1]}, [&] {
    NodeDraft d;
    d.op = intern("every");
    static Value x;
    x = g->region(0).arguments[0];
    d.operands = {&x, 1};
    return d;
  }());
  ASSERT_TRUE(g->set_note(Noted::kNode, other, number("a.cluster", 7)).ok());
  ASSERT_TRUE(g->replace(old, g->results(other)[0]).ok());
  EXPECT_EQ(at_node(other), "a.cluster a.names b.f b.none ");
  EXPECT_EQ(g->notes(Noted::kNode, other)[0].u.i, 7);  // its own stays
  EXPECT_EQ(at_value(g->results(other)[0]), "a.r ");
  const Node gone = g->value(old).node;
  ASSERT_TRUE(g->erase(gone).ok());
  EXPECT_EQ(at_node(gone), "");
  EXPECT_EQ(at_value(old), "");
}

TEST_F(NotesTest, AnOlderValueTakesThoseOfTheValueOnly) {
  const Value inner = result(0), outer = result(1);
  ASSERT_TRUE(g->set_note(Noted::kValue, outer, number("a.seen", 1)).ok());
  ASSERT_TRUE(g->replace(outer, inner).ok());
  EXPECT_EQ(at_value(inner), "a.r a.seen ");
  EXPECT_EQ(at_node(g->nodes(0)[0]), "a.cluster a.names b.f b.none ");
}

TEST_F(NotesTest, MergedNodesKeepTheNotesOfBoth) {
  const Value x = g->region(0).arguments[0];
  const Node a = plus(x, x), b = plus(x, x);
  ASSERT_TRUE(g->set_note(Noted::kNode, a, number("a.one", 1)).ok());
  ASSERT_TRUE(g->set_note(Noted::kNode, a, number("a.both", 1)).ok());
  ASSERT_TRUE(g->set_note(Noted::kNode, b, number("a.both", 2)).ok());
  ASSERT_TRUE(g->set_note(Noted::kNode, b, number("a.two", 2)).ok());
  const Node user = plus(g->results(a)[0], g->results(b)[0]);
  ASSERT_TRUE(g->replace(g->results(b)[0], g->results(a)[0]).ok());
  EXPECT_EQ(at_node(a), "a.both a.one a.two ");
  EXPECT_EQ(g->notes(Noted::kNode, a)[0].u.i, 1);
  EXPECT_EQ(at_node(user), "");
}

TEST_F(NotesTest, CopiedBodiesKeepThem) {
  Ref<Graph> to = Graph::create("to");
  const Value x = *to->add_argument(0, g->type(g->region(0).arguments[0]), "x");
  Value out = kNone;
  ASSERT_TRUE(to->clone_region({}, *g, 0, {&x, 1}, {&out, 1}).ok());
  ASSERT_TRUE(to->set_yields(0, {&out, 1}, {}).ok());
  EXPECT_EQ(names(to->notes(Noted::kNode, to->nodes(0)[0])), "a.cluster a.names b.f b.none ");
  EXPECT_NE(print(*to).find("{a.layout = \"rows\"} [1, 2]"), std::string::npos) << print(*to);
}

TEST_F(NotesTest, WrongOnesAreLocated) {
  for (const char* bad : {"a. = 1", "a..b = 1", "\".a\" = 1", "\"A.b\" = 1", "a.b = f32",
                          "a.b = dims [2]", "a.b = hex \"00\"", "a.b = 1, a.b = 2"}) {
    const Status s = refused(bad);
    EXPECT_EQ(s.error_code(), "T0327") << bad << ": " << s.text();
    EXPECT_NE(s.text().find("t.tir:3:"), std::string::npos) << s.text();
  }
  EXPECT_EQ(refused("cluster = 1").error_code(), "T0311");  // no note: the op has no such attribute
  EXPECT_EQ(refused("a.b 1").error_code(), "T0201");
  EXPECT_EQ(refused("a.b = ").error_code(), "T0201");
}

TEST_F(NotesTest, TheTableRefusesWhatIsNotThere) {
  const tenon_host_notes_t& api = *host_notes_table();
  const tenon_attr_t* list = nullptr;
  uint32_t count = 0;
  const Node n = g->nodes(0)[0];
  ASSERT_EQ(api.notes(api.self, g->abi(), TENON_NOTED_NODE, n, &list, &count), TENON_OK);
  EXPECT_EQ(count, 4u);
  const tenon_attr_t note = number("a.b", 1);
  EXPECT_EQ(api.notes(api.self, g->abi(), 2, n, &list, &count), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(api.note_set(api.self, g->abi(), TENON_NOTED_NODE, 99, &note), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(api.notes_take(api.self, g->abi(), TENON_NOTED_VALUE, result(0), 99),
            TENON_INVALID_ARGUMENT);
  const std::string long_text(TENON_NOTE_BYTES_MAX + 1, 'a');
  const tenon_attr_t large = {intern("a.b"), TENON_ATTR_STRING, 1, {.s = to_abi_str(long_text)}};
  EXPECT_EQ(api.note_set(api.self, g->abi(), TENON_NOTED_NODE, n, &large),
            TENON_RESOURCE_EXHAUSTED);
  ASSERT_EQ(api.notes_take(api.self, g->abi(), TENON_NOTED_NODE, g->nodes(0)[2], n), TENON_OK);
  EXPECT_EQ(at_node(g->nodes(0)[2]), at_node(n));
  ASSERT_EQ(api.note_erase(api.self, g->abi(), TENON_NOTED_NODE, n, intern("a.cluster")), TENON_OK);
  EXPECT_EQ(at_node(n), "a.names b.f b.none ");
}

}  // namespace
}  // namespace tenon::ir
