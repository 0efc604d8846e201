// RNN, GRU and LSTM as scans. One product outside computes the input's part of the gates; the body
// adds the state's part. Sequences that end early keep their state; in the reverse direction they
// begin at their end.
#include <array>
#include <string>

#include "frontends/onnx/ops/quantise/quantise.h"

namespace tenon::onnx {
namespace {

struct Recurrence {
  int64_t gates = 1;   // RNN 1, GRU 3, LSTM 4
  int64_t hidden = 0;  // the size of the state
  int64_t directions = 1;
  double clip = 0;  // 0: none
  bool linear_before_reset = false, batch_first = false;
  bool coupled = false;                  // the input gate of an LSTM is what the forget gate leaves
  bool quantises = false;                // the state is quantised dynamically before each product
  std::vector<std::string> activations;  // one direction after another
  Dim length, batch;
  Value x, lengths;  // [length, batch, features]; i64[batch] or invalid
};

// The operands of one direction.
struct Direction {
  Value inputs;     // [length, batch, gates * hidden]
  Value r, r_bias;  // [gates * hidden, hidden], [gates * hidden] or invalid
  Value h, c;       // the initial state
  Value peepholes;  // [3 * hidden] or invalid
  std::vector<std::string> activations;
  bool reverse = false;
};

Value index0(Builder& b, Value v, int64_t i) {
  if (!v.valid()) return v;
  const Dims d = v.dims();
  Dims start(d.size(), b.dim(0)), limit = d;
  start[0] = b.dim(i);
  limit[0] = b.dim(i + 1);
  const Value one = b.build("slice", {v}, {{"start", start}, {"limit", limit}});
  return b.build("reshape", {one}, {{"shape", Dims(d.begin() + 1, d.end())}});
}
// Part i of `count` along the last dim.
Value part(Builder& b, Value v, int64_t i, int64_t size) {
  if (!v.valid()) return v;
  Dims start(v.rank(), b.dim(0)), limit = v.dims();
  start.back() = b.dim(i * size);
  limit.back() = b.dim((i + 1) * size);
  return b.build("slice", {v}, {{"start", start}, {"limit", limit}});
}
Value add(Builder& b, Value x, Value y) {
  return b.build("add", {x, y});
}
Value mul(Builder& b, Value x, Value y) {
  return b.build("mul", {x, y});
}
Value over_rows(Builder& b, Value bias, Value like) {
  const int64_t last = static_cast<int64_t>(like.rank()) - 1;
  return b.broadcast(bias, like.dims(), std::vector<int64_t>{last});
}

constexpr std::pair<std::string_view, std::string_view> kActivations[] = {
    {"Sigmoid", "logistic"},  {"Tanh", "tanh"},         {"Relu", "relu"},
    {"Softsign", "softsign"}, {"Softplus", "softplus"}, {"HardSigmoid", "hard_sigmoid"}};

// Clamps to [-clip, clip], then applies the activation.
Value activate(Builder& b, Value x, const std::string& name, double clip) {
  if (clip > 0) x = b.build("clamp", {x}, {{"min", -clip}, {"max", clip}});
  for (const auto& [theirs, ours] : kActivations) {
    if (theirs == name) return b.build(ours, {x});
  }
  return x;
}

struct State {
  Value h, c;
};

// The next state of each of the three kinds of cells; `x` is the input's part of the gates.
State step(Builder& b, const Recurrence& r, const Direction& d, Value x, State s) {
  const int64_t n = r.hidden;
  const auto gate = [&](Value v, size_t i) { return activate(b, v, d.activations[i], r.clip); };
  const Value h = r.quantises ? through_dynamic(b, s.h) : s.h;
  Value from_state = b.build("linear", {h, d.r}, {{"transpose_w", 1}});
  if (r.gates == 1) return {gate(add(b, x, from_state), 0), s.c};
  if (r.gates == 3) {
    const Value z = gate(add(b, part(b, x, 0, n), part(b, from_state, 0, n)), 0);
    const Value reset = gate(add(b, part(b, x, 1, n), part(b, from_state, 1, n)), 0);
    Value hidden;
    if (r.linear_before_reset) {
      Value own = part(b, from_state, 2, n);
      if (d.r_bias.valid()) own = add(b, own, over_rows(b, part(b, d.r_bias, 2, n), own));
      hidden = mul(b, reset, own);
    } else {
      Dims start = {b.dim(2 * n), b.dim(0)}, limit = {b.dim(3 * n), b.dim(n)};
      const Value rows = b.build("slice", {d.r}, {{"start", start}, {"limit", limit}});
      hidden = b.build("linear", {mul(b, reset, s.h), rows}, {{"transpose_w", 1}});
    }
    const Value fresh = gate(add(b, part(b, x, 2, n), hidden), 1);
    // (1 - z) fresh + z h
    return {add(b, fresh, mul(b, z, b.build("sub", {s.h, fresh}))), s.c};
  }
  const Value all = add(b, x, from_state);
  const auto peeped = [&](Value v, int64_t i, Value c) {
    return d.peepholes.valid() ? add(b, v, mul(b, over_rows(b, part(b, d.peepholes, i, n), c), c))
                               : v;
  };
  const Value in = gate(peeped(part(b, all, 0, n), 0, s.c), 0);
  const Value forget = r.coupled ? b.build("sub", {b.full_like(in, 1), in})
                                 : gate(peeped(part(b, all, 2, n), 2, s.c), 0);
  const Value c = add(b, mul(b, forget, s.c), mul(b, in, gate(part(b, all, 3, n), 1)));
  const Value out = gate(peeped(part(b, all, 1, n), 1, c), 0);
  return {mul(b, out, activate(b, c, d.activations[2], 0)), c};
}

// Results of the scan: the last h, the last c if there is one, and h of every step.
std::vector<Value> run(NodeContext& n, const Recurrence& r, const Direction& d) {
  if (!n.ok() || !n.builder().status().ok()) return {};
  const bool cell = r.gates == 4, masked = r.lengths.valid();
  std::vector<Value> operands = {d.h};
  if (cell) operands.push_back(d.c);
  const int64_t carry = static_cast<int64_t>(operands.size());
  operands.push_back(d.inputs);
  if (masked) {
    operands.push_back(n.builder().build(
        "iota", {}, {{"shape", Dims{r.length}}, {"dim", 0}, {"dtype", dtype(TENON_I64)}}));
  }
  const tenon_host_graph_t& api = graph_api();
  tenon_region_t id = 0;
  n.builder().note(api.region_begin(api.self, &n.builder().raw(), &id));
  const Region region(n.graph(), id);
  std::vector<Value> arguments;
  for (size_t i = 0; i < operands.size() && n.builder().status().ok(); ++i) {
    Dims dims = operands[i].dims();
    if (static_cast<int64_t>(i) >= carry) dims.erase(dims.begin());
    Value v;
    n.builder().note(argument(region, Type{operands[i].dtype(), dims}, "", &v));
    arguments.push_back(v);
  }
  if (!n.builder().status().ok()) return {};
  Builder b(n.graph(), id);
  b.set_loc(n.builder().raw().loc);
  const State before = {arguments[0], cell ? arguments[1] : Value()};
  State after = step(b, r, d, arguments[carry], before);
  Value y = after.h;
  if (masked) {
    const Value place = b.splat(arguments[carry + 1], {r.batch});
    const Value inside = b.build("compare", {place, r.lengths}, {{"direction", 2}});
    const auto choose = [&](Value yes, Value no) {
      return b.build("select", {b.broadcast(inside, yes.dims(), std::vector<int64_t>{0}), yes, no});
    };
    y = choose(after.h, b.full_like(after.h, 0));
    after.h = choose(after.h, before.h);
    if (cell) after.c = choose(after.c, before.c);
  }
  n.builder().note(b.status());
  if (!b.status().ok()) return {};
  std::vector<Value> yields = {after.h};
  if (cell) yields.push_back(after.c);
  yields.push_back(y);
  n.builder().note(yield(region, yields));
  const std::vector<Attr> attrs = {Attr("carry", carry), Attr("reverse", d.reverse ? 1 : 0)};
  const Node node =
      n.builder().build_node("scan", operands, attrs, std::span<const Region>(&region, 1));
  std::vector<Value> out;
  for (uint32_t i = 0; i < yields.size(); ++i) out.push_back(node.result(i));
  return n.builder().status().ok() ? out : std::vector<Value>();
}

bool read_attributes(NodeContext& n, Recurrence* r) {
  const std::string_view op = n.op();
  r->gates = op == "RNN" ? 1 : op == "GRU" ? 3 : 4;
  const std::string_view direction = n.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return n.fail("T0708", "attribute 'direction' must be forward, reverse or bidirectional");
  r->directions = direction == "bidirectional" ? 2 : 1;
  r->clip = n.number("clip", 0);
  r->linear_before_reset = op == "GRU" && n.integer("linear_before_reset", 0) != 0;
  r->batch_first = n.version() >= 14 && n.integer("layout", 0) != 0;
  r->coupled = op == "LSTM" && n.integer("input_forget", 0) != 0;
  if (!n.numbers("activation_alpha").empty() || !n.numbers("activation_beta").empty())
    return n.fail("T0714", "activations with parameters are not supported");
  const std::vector<std::string> usual = r->gates == 1 ? std::vector<std::string>{"Tanh"}
                                         : r->gates == 3
                                             ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                             : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
  r->activations = n.texts("activations");
  if (r->activations.empty()) {
    for (int64_t i = 0; i < r->directions; ++i)
      r->activations.insert(r->activations.end(), usual.begin(), usual.end());
  }
  if (r->activations.size() != usual.size() * static_cast<size_t>(r->directions))
    return n.fail("T0708", "attribute 'activations' has a wrong number of entries");
  for (const std::string& a : r->activations) {
    bool known = false;
    for (const auto& [theirs, ours] : kActivations) known |= theirs == a;
    if (!known) return n.fail("T0714", cat("the activation ", a, " is not supported"));
  }
  return n.ok();
}

// The lengths of the sequences as i64, none of them longer than the steps that there are.
Value checked_lengths(NodeContext& n, Value lengths, Dim steps) {
  const Value wide = n.convert(lengths, TENON_I64);
  const Value most = n.number_of(Extent::of(steps));
  if (!n.ok() || !wide.valid() || !most.valid()) return Value();
  const auto holds = [&](int64_t direction, Value bound) {
    return n.build("compare", {wide, bound}, {{"direction", direction}});
  };
  const Value fits = n.build("and", {holds(TENON_CMP_GE, n.full_like(wide, 0)),
                                     holds(TENON_CMP_LE, n.broadcast_to(most, wide.dims()))});
  return n.checked(wide, fits, "a length of sequence_lens is negative, or beyond its steps");
}

bool recurrent(NodeContext& n, bool quantises) {
  const bool lstm = n.op() == "LSTM";
  if (!n.arity(3, lstm ? 8 : 6, lstm ? 3 : 2)) return false;
  Recurrence r;
  if (!read_attributes(n, &r)) return false;
  r.quantises = quantises;
  constexpr int64_t kRanks[] = {3, 3, 3, 2, 1, 3, 3, 2};  // x, w, r, bias, lengths, h, c, peepholes
  for (size_t i = 0; i < n.input_count(); ++i) {
    if (n.has(i) && n.rank(i) != kRanks[i])
      return n.fail("T0713",
                    cat("its input ", i, " has rank ", n.rank(i), ", and needs ", kRanks[i]));
  }
  if (!n.dims(2)[2].is_constant())
    return n.fail("T0714", "states of symbolic size are not supported");
  r.hidden = n.dims(2)[2].constant();
  if (const int64_t said = n.integer("hidden_size", r.hidden); said != r.hidden)
    return n.fail("T0713",
                  cat("its attribute 'hidden_size' is ", said, ", its weights have ", r.hidden));
  if (!n.require_equal(n.dims(1)[0], n.dim(r.directions),
                       "its directions and those of its weights") ||
      !n.require_equal(n.dims(1)[1], n.dim(r.gates * r.hidden),
                       "the rows of its weights and its gates"))
    return false;
  const auto turned = [&](Value v) {
    return r.batch_first && v.valid() ? n.transpose(v, {1, 0, 2}) : v;
  };
  r.x = turned(n.value(0));
  if (!n.ok() || !r.x.valid()) return n.ok();
  r.length = r.x.dims()[0];
  r.batch = r.x.dims()[1];
  if (n.has(4)) r.lengths = checked_lengths(n, n.value(4), r.length);
  const tenon_dtype_t type = n.dtype(0);
  const Dims state = {r.batch, n.dim(r.hidden)};
  Builder& b = n.builder();
  std::vector<Value> last_h, last_c, all;
  for (int64_t i = 0; i < r.directions; ++i) {
    Direction d;
    d.reverse = i == 1 || n.text("direction", "forward") == "reverse";
    const size_t count = r.activations.size() / static_cast<size_t>(r.directions);
    d.activations.assign(r.activations.begin() + i * static_cast<int64_t>(count),
                         r.activations.begin() + (i + 1) * static_cast<int64_t>(count));
    d.r = index0(b, n.value(2), i);
    d.inputs = b.build("linear", {r.x, index0(b, n.value(1), i)}, {{"transpose_w", 1}});
    if (n.has(3) && d.inputs.valid()) {
      const Value both = index0(b, n.value(3), i);
      const int64_t rows = r.gates * r.hidden;
      Value bias = part(b, both, 0, rows);
      d.r_bias = part(b, both, 1, rows);
      if (r.linear_before_reset) {
        // The hidden gate's own bias is added to the state before the reset gate applies.
        const Value none = b.full(type, {n.dim(r.hidden)}, 0);
        const Value gates = b.build(
            "slice", {d.r_bias}, {{"start", Dims{n.dim(0)}}, {"limit", Dims{n.dim(2 * r.hidden)}}});
        bias = add(b, bias, b.build("concat", std::vector<Value>{gates, none}, {{"dim", 0}}));
      } else {
        bias = add(b, bias, d.r_bias);
      }
      d.inputs = add(b, d.inputs, over_rows(b, bias, d.inputs));
    }
    const auto initial = [&](size_t operand) {
      return n.has(operand) ? index0(b, turned(n.value(operand)), i) : b.full(type, state, 0);
    };
    d.h = initial(5);
    if (lstm) d.c = initial(6);
    if (lstm && n.has(7)) d.peepholes = index0(b, n.value(7), i);
    const std::vector<Value> found = run(n, r, d);
    if (found.empty()) return n.ok();
    last_h.push_back(n.reshape(found[0], {n.dim(1), r.batch, n.dim(r.hidden)}));
    if (lstm) last_c.push_back(n.reshape(found[1], {n.dim(1), r.batch, n.dim(r.hidden)}));
    all.push_back(n.reshape(found.back(), {r.length, n.dim(1), r.batch, n.dim(r.hidden)}));
  }
  const auto joined = [&](const std::vector<Value>& v, int64_t dim) {
    return v.size() == 1 ? v[0] : n.build("concat", v, {{"dim", dim}});
  };
  Value y = joined(all, 1);
  if (r.batch_first && y.valid()) y = n.transpose(y, {2, 0, 1, 3});
  n.set(0, y);
  n.set(1, turned(joined(last_h, 0)));
  if (lstm) n.set(2, turned(joined(last_c, 0)));
  return n.ok();
}

bool in_floats(NodeContext& n) {
  return recurrent(n, false);
}
bool in_quantised_states(NodeContext& n) {
  return recurrent(n, true);
}

// Weights [directions, features, rows] of 8 bits, with a scale for each direction or each row, as
// real numbers [directions, rows, features].
Item real_weights(NodeContext& n, size_t w, size_t scale, size_t zero) {
  if (!check_scale(n, scale, ScaleUse::kDequantise)) return Item();
  if (n.rank(w) != 3 || n.rank(scale) < 1 || n.rank(scale) > 2 || n.rank(zero) != n.rank(scale)) {
    n.fail("T0713", cat("its input ", w, " needs rank 3, its scale and zero point rank 1 or 2"));
    return Item();
  }
  const auto wide = [&](size_t i) {
    Dims shape = n.dims(i);
    if (shape.size() == 1) shape.push_back(n.dim(1));
    shape.insert(shape.begin() + 1, n.dim(1));
    return n.broadcast_to(n.reshape(n.value(i), shape), n.dims(w));
  };
  const Value real = dequantised(n, n.value(w), wide(scale), wide(zero));
  return real.valid() ? Item::of(n.transpose(real, {0, 2, 1})) : Item();
}

// The integer products of the op, times their scales, are the products of these real numbers.
bool dynamic_quantize_lstm(NodeContext& n) {
  for (const size_t i : {0, 1, 2, 8, 9, 10, 11}) n.item(i);
  if (!n.ok()) return false;
  const Value x = n.value(0);
  if (!x.valid()) return n.ok();
  std::vector<Item> operands = {Item::of(through_dynamic(n.builder(), x)), real_weights(n, 1, 8, 9),
                                real_weights(n, 2, 10, 11)};
  for (size_t i = 3; i < 8; ++i) operands.push_back(n.has(i) ? n.item(i) : Item());
  const std::vector<Item> results = n.as("LSTM", 7, std::move(operands), in_quantised_states);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].dtype() != TENON_DTYPE_NONE) n.set(i, results[i]);
  }
  return n.ok();
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"RNN", 7, in_floats},
    {"GRU", 7, in_floats},
    {"LSTM", 7, in_floats},
    {"DynamicQuantizeLSTM", 1, dynamic_quantize_lstm, "com.microsoft"},
});

}  // namespace

std::span<const OpImporter> recurrent_importers() {
  return kTable;
}

}  // namespace tenon::onnx
