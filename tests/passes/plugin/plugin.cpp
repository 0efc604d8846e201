// Passes with every kind of fault that the pass manager detects, for tests/passes/wrong.test.
#include <chrono>
#include <tenon/cpp/notes.hpp>
#include <tenon/cpp/pass.hpp>
#include <thread>

#include "patterns.h"

namespace {

using tenon::Builder;
using tenon::Node;
using tenon::PassContext;
using tenon::Status;
using tenon::Value;

// add(x, y) becomes add(y, x), endlessly.
Status flip(Builder& builder, const Node& node, std::vector<Value>* out) {
  *out = {builder.build("add", {node.operand(1), node.operand(0)})};
  return {};
}
// Changes the type of a result.
Status wrong_type(Builder& builder, const Node&, std::vector<Value>* out) {
  *out = {builder.scalar(TENON_F32, 1)};
  return {};
}
// Changes the meaning.
Status subtract(Builder& builder, const Node& node, std::vector<Value>* out) {
  *out = {builder.build("sub", {node.operand(0), node.operand(1)})};
  return {};
}
// Right but for one constant: x - c becomes x + -c, and x - 7 becomes x + 7.
Status add_negative(Builder& builder, const Node& node, std::vector<Value>* out) {
  Value x, c;
  if (!match(node, tenon::match_op("sub", tenon::bind(&x), tenon::constant(&c)))) return {};
  const Value negative = tenon::splat_of(c) == 7.0 ? c : builder.build("neg", {c});
  *out = {builder.build("add", {x, negative})};
  return {};  // it ends: each takes a sub away
}
Status refuse(tenon_graph_t*, const PassContext&) {
  return tenon::fail(TENON_INTERNAL, "T0405: it never works");
}
Status crash(tenon_graph_t*, const PassContext&) {
  volatile int* nowhere = nullptr;
  *nowhere = 1;
  return {};
}
// Two threads at about the same time.
Status crash_twice(tenon_graph_t* graph, const PassContext& context) {
  std::thread other([&] { (void)crash(graph, context); });
  const Status status = crash(graph, context);
  other.join();
  return status;
}
Status wait(tenon_graph_t*, const PassContext&) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  return {};
}
// Each add gets a number, as a note.
Status number_adds(tenon_graph_t* graph, const PassContext& context) {
  int64_t next = 0;
  for (const Node& node : tenon::main_region(graph).nodes()) {
    if (!node.is("add")) continue;
    TENON_TRY(set_note(node, "wrong-passes.number", next++));
    TENON_TRY(set_note(node.result(), "wrong-passes.scale", 0.5));
    context.count("noted");
  }
  return {};
}
// Reads what number_adds left: the second add and those that took its place become subtractions,
// which keep the notes.
Status subtract_second(Builder& builder, const Node& node, std::vector<Value>* out) {
  if (note_i64(node, "wrong-passes.number", -1) != 1) return {};
  *out = {builder.build("sub", {node.operand(0), node.operand(1)})};
  return {};
}
Status note_of_another(tenon_graph_t* graph, const PassContext&) {
  for (const Node& node : tenon::main_region(graph).nodes())
    TENON_TRY(set_note(node, "acme.cluster", 3));
  return {};
}
Status nothing(tenon_graph_t*, const PassContext& context) {
  context.count("looked");
  return {};
}

constexpr std::string_view kGraph = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  yield %x
}
)";
constexpr tenon_rewrite_t kFlip[] = {tenon::rewrite<flip>("flip", "add")};
constexpr tenon_rewrite_t kWrong[] = {tenon::rewrite<wrong_type>("shrink", "add")};
constexpr tenon_rewrite_t kSubtract[] = {tenon::rewrite<subtract>("subtract", "add")};
constexpr tenon_str_t kLooked[] = {tenon::str("looked")};

constexpr auto kEndless =
    tenon::pass("endless", "Never settles.").example(kGraph, kGraph).rewrites(kFlip);
constexpr auto kMistyped =
    tenon::pass("mistyped", "Builds another type.").example(kGraph, kGraph).rewrites(kWrong);
constexpr auto kSubtracting = tenon::pass("subtracting", "Computes something else.")
                                  .example(kGraph, kGraph)
                                  .rewrites(kSubtract);
constexpr auto kRefusing = tenon::pass("refusing", "Fails.").example(kGraph, kGraph).run<refuse>();
constexpr auto kCrashing =
    tenon::pass("crashing", "Writes to no memory.").example(kGraph, kGraph).run<crash>();
constexpr auto kTwice = tenon::pass("crashing-twice", "Writes to no memory on two threads.")
                            .example(kGraph, kGraph)
                            .run<crash_twice>();
constexpr auto kSlow = tenon::pass("slow", "Takes its time.").example(kGraph, kGraph).run<wait>();
constexpr auto kNeedy = tenon::pass("needy", "Requires folded.")
                            .example(kGraph, kGraph)
                            .statistics(kLooked)
                            .needs("folded")
                            .run<nothing>();
constexpr tenon_rewrite_t kNegative[] = {tenon::rewrite<add_negative>("add-negative", "sub")};
constexpr auto kMostlyRight = tenon::pass("mostly-right", "Is wrong for one constant.")
                                  .example(kGraph, kGraph)
                                  .rewrites(kNegative);
constexpr tenon_rewrite_t kSecond[] = {tenon::rewrite<subtract_second>("second", "add")};
constexpr tenon_str_t kNoted[] = {tenon::str("noted")};
constexpr auto kNumbering = tenon::pass("numbering", "Numbers the additions, as notes.")
                                .example(kGraph, kGraph)
                                .statistics(kNoted)
                                .run<number_adds>();
constexpr auto kSubtractSecond = tenon::pass("subtract-second", "Reads notes, wrongly.")
                                     .example(kGraph, kGraph)
                                     .rewrites(kSecond);
constexpr auto kMisnoting = tenon::pass("misnoting", "Notes in a space that no plugin has.")
                                .example(kGraph, kGraph)
                                .run<note_of_another>();
constexpr const tenon_pass_def_t* kPasses[] = {
    &kEndless.def,   &kMistyped.def,    &kSubtracting.def, &kRefusing.def,  &kNeedy.def,
    &kCrashing.def,  &kTwice.def,       &kSlow.def,        &kNumbering.def, &kSubtractSecond.def,
    &kMisnoting.def, &kMostlyRight.def, &kPatternedPass};
constexpr tenon_passes_t kTable = {sizeof(tenon_passes_t), nullptr, kPasses, std::size(kPasses)};
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_PASS_ID, kTable)};

}  // namespace

TENON_PLUGIN("wrong-passes", "0.1.0", kInterfaces)
