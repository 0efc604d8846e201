#include "tests/interpreter/tree_run.h"

#include <algorithm>

namespace tenon::interpreter {

using kernelgen::Bind;
using kernelgen::kNoValue;
using kernelgen::LoopTree;
using kernelgen::Node;
using kernelgen::NodeKind;

bool make_steps(const LoopTree& tree, const std::vector<Node>& nodes, std::vector<TreeStep>* out,
                std::string* why) {
  for (const Node& n : nodes) {
    TreeStep& s = out->emplace_back();
    s.node = &n;
    if (n.kind == NodeKind::kOp && !make_operation(n.op, n.ref, tree.values[n.dst].type,
                                                   tree.values[n.args[0]].type, &s.operation)) {
      *why = "there is no " + std::string(kernelgen::name_of_op(n.op)) + " of " +
             std::string(kernelgen::name_of(tree.values[n.dst].type));
      return false;
    }
    if (!make_steps(tree, n.body, &s.body, why) || !make_steps(tree, n.other, &s.other, why))
      return false;
  }
  return true;
}

TreeRun::TreeRun(const LoopTree& tree, const std::vector<TreeStep>& steps,
                 std::span<const int64_t> extents, const TreeOptions& options,
                 std::vector<TreeBuffer>* buffers, std::vector<uint32_t> buffer_of, Report* report)
    : tree_(tree),
      steps_(steps),
      extents_(extents),
      options_(options),
      buffers_(*buffers),
      buffer_of_(std::move(buffer_of)),
      report_(*report) {
  items_ = tree.together ? tree.group : 1;
  active_.assign(items_, 1);
  size_t at = 0;
  for (const kernelgen::Value& v : tree.values) {
    offset_.push_back(at);
    at += size_t{v.lanes} * items_;
  }
  regs_.resize(at);
  known_.resize(at);
}

void TreeRun::call(int64_t begin, int64_t end) {
  // With a single item, the code before the items belongs to it.
  item_of_range_ = end - begin == 1 ? static_cast<uint32_t>(begin) : ~0u;
  number_of_item_ = 1;
  scratch_.reset(static_cast<size_t>(tree_.scratch_bytes.evaluate(extents_)), items_ > 1);
  scratch_.begin_item(1);
  std::fill(active_.begin(), active_.end(), 1);
  shared_.clear();
  for (const LoopTree::Shared& s : tree_.shared) {
    TreeArray& a = shared_.emplace_back();
    a.type = s.type;
    a.elements.resize(static_cast<size_t>(s.elements));
    a.touches.reset(a.elements.size());
  }
  each_item([&](uint32_t k) {
    set_number(tree_.begin, k, begin);
    set_number(tree_.end, k, end);
  });
  run(steps_);
}

void TreeRun::fact(const std::string& text) {
  report_.add((doing_ == nullptr ? "" : *doing_ + " ") + text);
}

int64_t TreeRun::number(ValueId v, uint32_t item, const char* what) {
  const Lane x = lane(v, item);
  if (!x.known) fact(std::string(what) + " is not known");
  return x.known ? x.value.i : 0;
}

bool TreeRun::condition(ValueId v, uint32_t item, uint32_t l, const char* what) {
  const Lane x = lane(v, item, l);
  if (!x.known) fact(std::string(what) + " is not known");
  return x.known && x.value.i != 0;
}

bool TreeRun::any_active() const {
  return std::ranges::any_of(active_, [](uint8_t a) { return a != 0; });
}

void TreeRun::run(const std::vector<TreeStep>& steps) {
  for (const TreeStep& s : steps) {
    if (report_.full()) return;
    step(s);
  }
}

void TreeRun::step(const TreeStep& s) {
  const Node& n = *s.node;
  switch (n.kind) {
    case NodeKind::kLoop:
      return n.bind == Bind::kRange ? range(s) : loop(s);
    case NodeKind::kIf:
      return branch(s);
    case NodeKind::kConst:
      return each_item([&](uint32_t k) { set(n.dst, k, 0, {constant(n.type, n.bits), true}); });
    case NodeKind::kExt:
      return each_item([&](uint32_t k) { set_number(n.dst, k, extents_[n.ref]); });
    case NodeKind::kOp:
      return operation(s);
    case NodeKind::kSplat:
      return splat(n);
    case NodeKind::kIota:
      return iota(n);
    case NodeKind::kShuffle:
      return shuffle(n);
    case NodeKind::kLane:
      return each_item([&](uint32_t k) { set(n.dst, k, 0, lane(n.args[0], k, n.ref)); });
    case NodeKind::kJoin:
      return join(n);
    case NodeKind::kLoad:
      return load(n);
    case NodeKind::kStore:
      return store(n);
    case NodeKind::kVar:
    case NodeKind::kSet:
      return copy(n.dst, n.args[0]);
    case NodeKind::kLocal:
      return declare_local(n);
    case NodeKind::kTranspose:
      return transpose(n);
    case NodeKind::kInterleave:
      return interleave(n);
    case NodeKind::kMma:
      return mma(n);
    case NodeKind::kDots:
      return dots(n);
    case NodeKind::kDigits:
      return digits(n);
    case NodeKind::kAddress:
      return address_of(n);
    case NodeKind::kTaps:
      return n.full ? channels(n) : taps(n);
    case NodeKind::kSort:
      return sort(n);
    case NodeKind::kAnyNan:
      return any_nan(n);
    case NodeKind::kLaneId:
      return each_item([&](uint32_t k) { set_number(n.dst, k, k); });
    case NodeKind::kFromLane:
      return from_lane(n);
    case NodeKind::kBarrier:
      return barrier(n);
    case NodeKind::kFence:
    case NodeKind::kPrefetch:
      return;
    case NodeKind::kComment:
      doing_ = &n.text;
      return;
  }
}

// ---- Values ----

void TreeRun::operation(const TreeStep& s) {
  const Node& n = *s.node;
  const size_t count = size_t{lanes(n.dst)} * items_, dst = offset_[n.dst];
  const auto arg = [&](int i) { return n.args[i] == kNoValue ? size_t{0} : offset_[n.args[i]]; };
  if (n.bits == 1) check_plain_words(n);
  apply(s.operation, &regs_[dst], &regs_[arg(0)], &regs_[arg(1)], &regs_[arg(2)], count);
  for (size_t i = 0; i < count; ++i) {
    bool known = known_[arg(0) + i] != 0;
    if (s.operation.code == Code::kSelect) {
      known = known && known_[(regs_[arg(0) + i].i != 0 ? arg(1) : arg(2)) + i] != 0;
    } else {
      for (int a = 1; a < 3 && n.args[a] != kNoValue; ++a) known = known && known_[arg(a) + i] != 0;
    }
    known_[dst + i] = known;
  }
}

// Checks division that is printed as that of the language, which rounds towards zero.
void TreeRun::check_plain_words(const Node& n) {
  if (n.op != kernelgen::kFloorDiv && n.op != kernelgen::kMod) return;
  each_item([&](uint32_t k) {
    const Lane a = lane(n.args[0], k), b = lane(n.args[1], k);
    if (!a.known || !b.known || (a.value.i >= 0 && b.value.i > 0)) return;
    fact("divides " + std::to_string(a.value.i) + " by " + std::to_string(b.value.i) +
         " in plain words");
  });
}

void TreeRun::splat(const Node& n) {
  each_item([&](uint32_t k) {
    for (uint32_t l = 0; l < lanes(n.dst); ++l) set(n.dst, k, l, lane(n.args[0], k));
  });
}

void TreeRun::iota(const Node& n) {
  const DType t = tree_.values[n.dst].type;
  each_item([&](uint32_t k) {
    const Lane base = lane(n.args[0], k);
    for (uint32_t l = 0; l < lanes(n.dst); ++l)
      set(n.dst, k, l, {Reg{.i = op::scalar_wrap(t, base.value.i + l)}, base.known});
  });
}

void TreeRun::shuffle(const Node& n) {
  const uint32_t w = lanes(n.dst);
  std::vector<Lane> from(w);
  each_item([&](uint32_t k) {
    for (uint32_t l = 0; l < w; ++l)
      from[l] = lane(n.args[0], k, n.list.empty() ? (l + n.ref) % w : n.list[l]);
    for (uint32_t l = 0; l < w; ++l) set(n.dst, k, l, from[l]);
  });
}

void TreeRun::join(const Node& n) {
  each_item([&](uint32_t k) {
    for (uint32_t l = 0; l < lanes(n.dst); ++l) set(n.dst, k, l, lane(n.list[l], k));
  });
}

void TreeRun::copy(ValueId dst, ValueId from) {
  each_item([&](uint32_t k) {
    for (uint32_t l = 0; l < lanes(dst); ++l) set(dst, k, l, lane(from, k, l));
  });
}

// ---- Control ----

void TreeRun::range(const TreeStep& s) {
  const Node& n = *s.node;
  if (options_.opencl) {
    each_item([&](uint32_t k) { set_number(n.dst, k, item_of_range_); });
    return run(s.body);
  }
  const int64_t end = number(n.args[1], 0, "the end of the range");
  for (int64_t i = number(n.args[0], 0, "the begin of the range"); i < end && !report_.full();
       i += n.bits) {
    item_of_range_ = static_cast<uint32_t>(i);
    scratch_.begin_item(++number_of_item_);
    set_number(n.dst, 0, i);
    run(s.body);
  }
}

void TreeRun::loop(const TreeStep& s) {
  const Node& n = *s.node;
  const std::vector<uint8_t> before = active_;
  std::vector<int64_t> at(items_);
  each_item([&](uint32_t k) {
    at[k] = number(n.args[0], k, "the begin of a loop") + (n.bind == Bind::kLanes ? k * n.bits : 0);
  });
  while (!report_.full()) {
    for (uint32_t k = 0; k < items_; ++k) {
      if (!active_[k]) continue;
      const int64_t end = n.bind == Bind::kHalving ? 0 : number(n.args[1], k, "the end of a loop");
      active_[k] = n.bind == Bind::kHalving ? at[k] > 0
                   : n.full                 ? at[k] + n.bits <= end
                                            : at[k] < end;
    }
    if (!any_active()) break;
    each_item([&](uint32_t k) { set_number(n.dst, k, at[k]); });
    run(s.body);
    each_item([&](uint32_t k) {
      at[k] = n.bind == Bind::kHalving
                  ? at[k] / 2
                  : at[k] + n.bits * (n.bind == Bind::kLanes ? tree_.group : 1);
    });
  }
  active_ = before;
}

void TreeRun::branch(const TreeStep& s) {
  const Node& n = *s.node;
  const std::vector<uint8_t> before = active_;
  std::vector<uint8_t> other = active_;
  each_item([&](uint32_t k) {
    const bool taken = condition(n.args[0], k, 0, "a condition");
    active_[k] = taken;
    other[k] = !taken;
  });
  if (any_active()) run(s.body);
  active_ = std::move(other);
  if (any_active()) run(s.other);
  active_ = before;
}

void TreeRun::barrier(const Node& n) {
  if (std::ranges::any_of(active_, [](uint8_t a) { return a == 0; }))
    fact("meets a barrier that not all items of the group reach");
  ++barriers_;
  global_barriers_ += n.bits != 0;
}

void TreeRun::from_lane(const Node& n) {
  if (std::ranges::any_of(active_, [](uint8_t a) { return a == 0; }))
    fact("exchanges values of a warp that not all items of the group reach");
  each_item([&](uint32_t k) {
    const uint32_t first = k / n.ref * n.ref,
                   from = n.full ? first : k + static_cast<uint32_t>(n.bits);
    const bool inside = from < first + n.ref && from < items_;
    set(n.dst, k, 0, inside ? lane(n.args[0], from) : Lane{{}, false});
  });
}

}  // namespace tenon::interpreter
