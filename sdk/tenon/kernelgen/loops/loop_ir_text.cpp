#include "tenon/kernelgen/loops/loop_ir.h"

namespace tenon::kernelgen {
namespace {

struct Writer {
  const LoopTree& t;
  std::string out;
  int depth = 1;

  std::string v(ValueId x) const {
    if (x == kNoValue) return "-";
    if (x == t.begin) return "begin";
    if (x == t.end) return "end";
    return "%" + std::to_string(x);
  }
  std::string typed(ValueId x) const {
    const Value& y = t.values[x];
    std::string s(name_of(y.type));
    return y.lanes > 1 ? s + "x" + std::to_string(y.lanes) : s;
  }
  void line(const std::string& s) {
    out += std::string(static_cast<size_t>(depth) * 2, ' ') + s + "\n";
  }

  std::string place(const Node& n) const {
    const char* space = n.space == Space::kBuffer   ? "b"
                        : n.space == Space::kLocal  ? "local"
                        : n.space == Space::kShared ? "shared"
                                                    : "scratch";
    std::string s = space;
    if (n.space != Space::kScratch) s += std::to_string(n.ref);
    s += "[" + v(n.args[0]);
    if (n.stride != kNoValue) s += " by " + v(n.stride);
    return s + "]";
  }

  void loop(const Node& n) {
    static constexpr const char* kBinds[] = {"serial", "range", "vector", "lanes", "halving"};
    line("loop " + v(n.dst) + " from " + v(n.args[0]) + " to " + v(n.args[1]) + " step " +
         std::to_string(n.bits) + " " + kBinds[static_cast<int>(n.bind)] + (n.full ? " full" : "") +
         " {");
    ++depth;
    for (const Node& c : n.body) node(c);
    --depth;
    line("}");
  }

  void node(const Node& n) {
    auto def = [&](const std::string& s) { line(v(n.dst) + " = " + s + " : " + typed(n.dst)); };
    switch (n.kind) {
      case NodeKind::kLoop:
        loop(n);
        break;
      case NodeKind::kIf:
        line("if " + v(n.args[0]) + " {");
        ++depth;
        for (const Node& c : n.body) node(c);
        --depth;
        if (!n.other.empty()) {
          line("} else {");
          ++depth;
          for (const Node& c : n.other) node(c);
          --depth;
        }
        line("}");
        break;
      case NodeKind::kConst:
        def("const " + std::to_string(n.bits));
        break;
      case NodeKind::kExt:
        def("ext " + std::to_string(n.ref));
        break;
      case NodeKind::kOp: {
        std::string s(name_of_op(n.op));
        if (n.op == TENON_S_CMP) {
          static constexpr const char* kRelations[] = {"eq", "ne", "lt", "le", "gt", "ge"};
          s += std::string(".") + kRelations[n.ref % 6];
        }
        for (int i = 0; i < 3 && n.args[i] != kNoValue; ++i) s += (i ? ", " : " ") + v(n.args[i]);
        def(s);
        break;
      }
      case NodeKind::kSplat:
        def("splat " + v(n.args[0]));
        break;
      case NodeKind::kIota:
        def("iota " + v(n.args[0]));
        break;
      case NodeKind::kShuffle:
        if (n.list.empty()) {
          def("rotate " + v(n.args[0]) + " by " + std::to_string(n.ref));
        } else {
          std::string from;
          for (ValueId l : n.list) from += " " + std::to_string(l);
          def("lanes" + from + " of " + v(n.args[0]));
        }
        break;
      case NodeKind::kLane:
        def("lane " + (n.ref != 0 ? std::to_string(n.ref) + " of " : std::string()) + v(n.args[0]));
        break;
      case NodeKind::kJoin: {
        std::string all;
        for (ValueId x : n.list) all += (all.empty() ? "" : ", ") + v(x);
        def("join " + all);
        break;
      }
      case NodeKind::kLoad: {
        std::string s = "load " + place(n);
        if (n.args[1] != kNoValue) s += " if " + v(n.args[1]) + " else " + v(n.args[2]);
        def(s);
        break;
      }
      case NodeKind::kFence:
        line("fence" + (n.args[0] != kNoValue ? " if " + v(n.args[0]) : std::string()));
        break;
      case NodeKind::kStore:
        line(std::string(!n.stream               ? "store "
                         : n.args[3] == kNoValue ? "stream "
                                                 : "stream if " + v(n.args[3]) + " ") +
             place(n) + " = " + v(n.args[1]) +
             (n.args[2] != kNoValue ? " if " + v(n.args[2]) : ""));
        break;
      case NodeKind::kVar:
        def("var " + v(n.args[0]));
        break;
      case NodeKind::kSet:
        line("set " + v(n.dst) + " = " + v(n.args[0]));
        break;
      case NodeKind::kLocal:
        line("local" + std::to_string(n.ref) + " " + std::string(name_of(n.type)) + "[" +
             std::to_string(n.bits) + "]");
        break;
      case NodeKind::kTranspose:
        line("transpose " + place(n) + " to scratch[" + v(n.args[1]) + " by " + v(n.args[2]) + "]");
        break;
      case NodeKind::kPrefetch:
        line("prefetch " + place(n) + ", " + std::to_string(n.bits) + " elements");
        break;
      case NodeKind::kInterleave: {
        std::string all;
        for (ValueId x : n.list) all += (all.empty() ? "" : ", ") + v(x);
        line("interleave " + place(n) + " = " + all);
        break;
      }
      case NodeKind::kMma:
        line("mma " + std::to_string(n.list.size()) + " rows x " + std::to_string(n.bits) +
             " vectors of " + std::string(name_of(n.type)) + "x" + std::to_string(n.lanes) + ", " +
             v(n.args[2]) + " steps" +
             (n.read != TENON_DTYPE_NONE ? " of " + std::string(name_of(n.read)) : std::string()) +
             (n.digits != 0 ? ", in digits of " + std::to_string(n.digits) : std::string()) +
             ", to local" + std::to_string(n.op));
        break;
      case NodeKind::kDots:
        line("dots of " + std::to_string(n.list.size()) + " rows with " + v(n.args[1]) +
             " keys of b" + std::to_string(n.b_buffer) + ", " + v(n.args[2]) + " features of " +
             std::string(name_of(n.type)) + "x" + std::to_string(n.lanes) + ", to local" +
             std::to_string(n.op));
        break;
      case NodeKind::kDigits:
        line("digits of " + v(n.args[2]) + " at " + place(n) + " in blocks of " +
             std::to_string(n.bits) + ", to scratch[" + v(n.args[1]) + "] and scratch[" +
             v(n.args[3]) + "]");
        break;
      case NodeKind::kAddress:
        def("address of " + place(n));
        break;
      case NodeKind::kTaps:
        line(std::string(n.full ? "depthwise" : "mma") + " taps " + v(n.args[2]) + ", " +
             std::to_string(n.ref) + " rows x " + std::to_string(n.bits) + " vectors of " +
             std::string(name_of(n.type)) + "x" + std::to_string(n.lanes) + ", " + v(n.list[0]) +
             (n.full ? " columns" : " steps") +
             (n.run != 0
                  ? " in runs of " + std::to_string(n.run) + " by " + std::to_string(n.run_step)
                  : std::string()) +
             ", to local" + std::to_string(n.op));
        break;
      case NodeKind::kSort:
        line("sort scratch[" + v(n.args[0]) + "] of " + v(n.stride) + " " +
             std::string(name_of(n.type)) + " with scratch[" + v(n.args[1]) + "]");
        break;
      case NodeKind::kAnyNan:
        def("any nan in " + std::to_string(n.ref) + " rows x " + v(n.args[0]) + " of local" +
            std::to_string(n.op));
        break;
      case NodeKind::kLaneId:
        def("lane id");
        break;
      case NodeKind::kFromLane:
        def(v(n.args[0]) + (n.full ? " of the first lane of the warp"
                                   : " of the lane " + std::to_string(n.bits) + " further on"));
        break;
      case NodeKind::kBarrier:
        line(n.bits != 0 ? "barrier of all memory" : "barrier");
        break;
      case NodeKind::kComment:
        line("do " + n.text);
        break;
    }
  }
};

}  // namespace

std::string to_text(const LoopTree& tree) {
  Writer w{tree, {}, 1};
  w.out = "tree " + tree.name + " {\n";
  if (tree.together) w.line("group of " + std::to_string(tree.group));
  for (size_t i = 0; i < tree.shared.size(); ++i) {
    w.line("shared" + std::to_string(i) + " " + std::string(name_of(tree.shared[i].type)) + "[" +
           std::to_string(tree.shared[i].elements) + "]");
  }
  for (const Node& n : tree.body) w.node(n);
  return w.out + "}\n";
}

}  // namespace tenon::kernelgen
