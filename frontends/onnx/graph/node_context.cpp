#include <fmt/format.h>

#include <algorithm>

#include "frontends/onnx/graph/importer_internal.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {

Builder& NodeContext::builder() {
  return *importer_->builder_;
}
tenon_graph_t* NodeContext::graph() {
  return importer_->graph_.get();
}

int64_t NodeContext::channel_block() {
  return importer_->channel_block();
}

std::string NodeContext::place() const {
  std::string out(node_.name);
  for (const Text output : node_.outputs) out += cat("/", output);
  return out;
}

bool NodeContext::fail(std::string_view code, std::string_view text) {
  if (ok_) importer_->problems_->add(code, fmt::format("{}: {}", node_text(node_), text));
  ok_ = false;
  return false;
}

int64_t NodeContext::within_limit(__int128 value, std::string_view what) {
  const auto limit = static_cast<__int128>(limits().elements);
  if (value <= limit && value >= -limit) return static_cast<int64_t>(value);
  fail("T0102", fmt::format("{} is beyond the limit of {} elements; TENON_LIMIT_ELEMENTS raises it",
                            what, limits().elements));
  return 0;
}

// ---- Operands ----

bool NodeContext::arity(size_t least, size_t most, size_t most_outputs) {
  if (inputs_.size() < least || inputs_.size() > most) {
    const std::string expected =
        least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
    return fail("T0709", fmt::format("it has {} inputs, and takes {}", inputs_.size(), expected));
  }
  for (size_t i = 0; i < least; ++i) {
    if (inputs_[i] == nullptr)
      return fail("T0709", fmt::format("its required input {} is missing", i));
  }
  if (node_.outputs.empty() || node_.outputs.size() > most_outputs) {
    return fail("T0709", fmt::format("it has {} outputs, and gives 1 to {}", node_.outputs.size(),
                                     most_outputs));
  }
  return ok_;
}

const Item& NodeContext::item(size_t i) {
  static const Item kNone;
  if (has(i)) return *inputs_[i];
  fail("T0709", fmt::format("its required input {} is missing", i));
  return kNone;
}

Value NodeContext::value(size_t i) {
  return has(i) && ok_ ? importer_->value_of(inputs_[i]) : Value();
}

const Extents* NodeContext::known(size_t i) {
  return has(i) ? importer_->known(inputs_[i]) : nullptr;
}

void NodeContext::fail_unknown(size_t i, std::string_view what) {
  if (importer_->postpone(inputs_[i], fmt::format("{} of {}", what, node_text(node_)))) {
    ok_ = false;  // not an error: the node is imported once the values are known
    waits_ = true;
  } else {
    fail("T0714", fmt::format("{} (input {}) is computed when the model runs; it must be a "
                              "constant, follow from shapes, or come "
                              "from inputs of few numbers",
                              what, i));
  }
}

size_t NodeContext::problem_count() const {
  return importer_->problems_->count();
}

void NodeContext::wait_instead(size_t i, std::string_view what, size_t known_problems) {
  if (!importer_->postpone(inputs_[i], fmt::format("{} of {}", what, node_text(node_)))) {
    if (problem_count() > known_problems && !importer_->symbols_.empty())
      importer_->problems_->advise(
          fmt::format("{} of {} may follow from symbolic dims; fix them, as with --dim L=N", what,
                      node_text(node_)));
    return;
  }
  importer_->problems_->forget_after(known_problems);
  waits_ = true;
}

// The same, but computed now if the operand follows from constants through nodes.
const Extents* NodeContext::known_now(size_t i) {
  const Extents* elements = known(i);
  return elements == nullptr && importer_->fold(inputs_[i]) ? known(i) : elements;
}

// Whether the importer has stopped reading. If it waits for values, also notes what else it needs.
bool NodeContext::stopped(size_t i, std::string_view what) {
  item(i);
  if (waits_ && has(i) && known(i) == nullptr)
    importer_->note_inputs(inputs_[i], fmt::format("{} of {}", what, node_text(node_)));
  return !ok_;
}

const Extents* NodeContext::need(size_t i, std::string_view what, int64_t least) {
  if (stopped(i, what)) return nullptr;
  const Extents* elements = known_now(i);
  if (elements == nullptr || importer_->symbolic_.contains(inputs_[i]))
    elements =
        importer_->symbols_of(inputs_[i], fmt::format("{} of {}", what, node_text(node_)), least);
  if (elements == nullptr) fail_unknown(i, what);
  return elements;
}

std::optional<std::vector<int64_t>> NodeContext::need_numbers(size_t i, std::string_view what) {
  if (stopped(i, what)) return {};
  const Extents* elements = known_now(i);
  if (elements == nullptr || importer_->symbolic_.contains(inputs_[i])) {
    fail_unknown(i, what);
    return {};
  }
  std::vector<int64_t> out;
  for (const Extent& element : *elements) {
    if (!element.is_number()) {
      fail("T0714",
           fmt::format("{} (input {}) depends on a symbolic dim; it must be constant", what, i));
      return {};
    }
    out.push_back(element.number);
  }
  return out;
}

std::optional<std::vector<double>> NodeContext::constants(size_t i) {
  if (!has(i)) return {};
  const Item& operand = *inputs_[i];
  std::vector<double> out;
  if (operand.constant() != nullptr && is_in(operand.dtype(), kNumber | kPred)) {
    const std::span<const std::byte> bytes = blob_bytes(operand.constant()->blob.get());
    const size_t width = dtype_bytes(operand.dtype());
    if (bytes.size() / width > kMaxKnownElements) return {};
    for (size_t at = 0; at < bytes.size(); at += width)
      out.push_back(load_double(operand.dtype(), &bytes[at]));
    return out;
  }
  const Extents* elements = known(i);
  if (elements == nullptr) return {};
  for (const Extent& element : *elements) {
    if (!element.is_number()) return {};
    out.push_back(static_cast<double>(element.number));
  }
  return out;
}

std::optional<std::vector<double>> NodeContext::need_constants(size_t i, std::string_view what) {
  if (stopped(i, what)) return {};
  auto numbers = constants(i);
  if (!numbers && importer_->fold(inputs_[i])) numbers = constants(i);
  if (!numbers) fail_unknown(i, what);
  return numbers;
}

bool NodeContext::only_at_run(size_t i, std::string_view what) {
  if (!has(i) || stopped(i, what) || known_now(i) != nullptr || constants(i)) return false;
  return !importer_->note_inputs(inputs_[i], fmt::format("{} of {}", what, node_text(node_)));
}

std::optional<double> NodeContext::computed(size_t i) {
  const auto number = constant(i);
  return !number && has(i) && ok_ && importer_->fold(inputs_[i]) ? constant(i) : number;
}

std::optional<double> NodeContext::constant(size_t i) {
  const auto all = constants(i);
  if (!all.has_value() || all->size() != 1) return {};
  return all->front();
}

// ---- Attributes ----

const AttributeProto* NodeContext::find(std::string_view name) {
  read_attributes_.push_back(name);
  return importer_->attribute(node_, name, importer_->frame_);
}

const AttributeProto* NodeContext::typed(std::string_view name, int32_t type,
                                         std::string_view kind) {
  const AttributeProto* attribute = find(name);
  if (attribute == nullptr || attribute->type == type) return attribute;
  fail("T0708", fmt::format("its attribute {} must be {}", quote(name), kind));
  return nullptr;
}

int64_t NodeContext::integer(std::string_view name, int64_t otherwise) {
  const AttributeProto* attribute = typed(name, kAttrInt, "an integer");
  return attribute == nullptr ? otherwise : attribute->i;
}
double NodeContext::number(std::string_view name, double otherwise) {
  const AttributeProto* attribute = typed(name, kAttrFloat, "a number");
  return attribute == nullptr ? otherwise : static_cast<double>(attribute->f);
}
std::string_view NodeContext::text(std::string_view name, std::string_view otherwise) {
  const AttributeProto* attribute = typed(name, kAttrString, "a text");
  return attribute == nullptr ? otherwise : attribute->s;
}
std::vector<int64_t> NodeContext::integers(std::string_view name) {
  const AttributeProto* attribute = typed(name, kAttrInts, "a list of integers");
  return attribute == nullptr ? std::vector<int64_t>() : attribute->ints;
}
std::vector<int64_t> NodeContext::per_dim(std::string_view name, size_t count, int64_t least,
                                          int64_t otherwise) {
  std::vector<int64_t> out = integers(name);
  if (!has_attribute(name)) out.assign(count, otherwise);
  if (out.size() != count) {
    fail("T0708",
         fmt::format("attribute {} has {} entries, and needs {}", quote(name), out.size(), count));
    out.resize(count, otherwise);
  }
  for (int64_t& v : out) {
    if (v < least) {
      fail("T0708",
           fmt::format("attribute {} has the entry {}, the least is {}", quote(name), v, least));
      v = least;
    }
    v = std::max(least,
                 within_limit(v, fmt::format("the entry {} of attribute {}", v, quote(name))));
  }
  return out;
}
std::vector<double> NodeContext::numbers(std::string_view name) {
  const AttributeProto* attribute = typed(name, kAttrFloats, "a list of numbers");
  return attribute == nullptr
             ? std::vector<double>()
             : std::vector<double>(attribute->floats.begin(), attribute->floats.end());
}
std::vector<std::string> NodeContext::texts(std::string_view name) {
  const AttributeProto* attribute = typed(name, kAttrStrings, "a list of texts");
  return attribute == nullptr
             ? std::vector<std::string>()
             : std::vector<std::string>(attribute->strings.begin(), attribute->strings.end());
}
const TensorProto* NodeContext::tensor(std::string_view name) {
  const AttributeProto* attribute = typed(name, kAttrTensor, "a tensor");
  return attribute == nullptr ? nullptr : attribute->tensor.get();
}

std::vector<const AttributeProto*> NodeContext::all_attributes() {
  std::vector<const AttributeProto*> out;
  for (const AttributeProto& attribute : node_.attributes) {
    if (const AttributeProto* given = find(attribute.name)) out.push_back(given);
  }
  return out;
}

bool NodeContext::read(const TensorProto& tensor, Constant* out) {
  if (!read_tensor(tensor, importer_->source_, fmt::format("{}: its tensor", node_text(node_)),
                   importer_->problems_, out)) {
    ok_ = false;
  }
  return ok_;
}

int64_t NodeContext::axis(int64_t given, int64_t rank, int64_t end) {
  const int64_t bound = rank + end;
  if (given >= -bound && given < bound) return given < 0 ? given + bound : given;
  fail("T0713", fmt::format("axis {} does not exist: the rank is {}", given, rank));
  return -1;
}

std::vector<int64_t> NodeContext::axes(std::vector<int64_t> given, int64_t rank) {
  for (int64_t& a : given) a = axis(a, rank);
  std::sort(given.begin(), given.end());
  if (std::adjacent_find(given.begin(), given.end()) != given.end())
    fail("T0713", "an axis is named twice");
  return ok_ ? given : std::vector<int64_t>();
}

// ---- Building ----

Value NodeContext::build(std::string_view op, std::initializer_list<Value> operands,
                         std::initializer_list<Attr> attrs) {
  return ok_ ? builder().build(op, operands, attrs) : Value();
}
Value NodeContext::build(std::string_view op, const std::vector<Value>& operands,
                         std::initializer_list<Attr> attrs) {
  return ok_ ? builder().build(op, operands, attrs) : Value();
}

Value NodeContext::reshape(Value x, const Dims& shape) {
  if (!ok_ || !x.valid()) return Value();
  const Dims from = x.dims();
  if (from == shape) return x;
  return build("reshape", {x}, {{"shape", shape}});
}

Value NodeContext::transpose(Value x, const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return build("transpose", {x}, {{"perm", perm}});
  }
  return x;
}

Value NodeContext::wide(Value x) {
  const bool narrow = x.valid() && (x.dtype() == TENON_F16 || x.dtype() == TENON_BF16);
  return narrow ? convert(x, TENON_F32) : x;
}

Value NodeContext::checked(Value x, Value holds, std::string_view message) {
  if (!ok_ || !x.valid() || !holds.valid()) return Value();
  const std::string said = fmt::format("{}: {}", node_text(node_), message);
  return build("assert", {holds, x}, {{"message", said}});
}

Dim NodeContext::product(std::span<const Dim> dims) {
  Dim out = dim(1);
  for (const Dim d : dims) out = out * d;
  if (!out.valid()) fail("T0713", "the product of its dims is beyond 64 bits");
  return out;
}

Dim NodeContext::quotient(Dims over, Dims under) {
  for (auto at = under.begin(); at != under.end();) {
    const auto same = std::find(over.begin(), over.end(), *at);
    if (same != over.end() && !at->is(0)) {
      over.erase(same);
      at = under.erase(at);
    } else {
      ++at;
    }
  }
  const Dim total = product(over), known = product(under);
  if (!ok()) return Dim::invalid();
  if (known.is(1)) return total;
  if (known.is(0)) {
    fail("T0713", "a size cannot be computed: a dim of 0 divides it");
    return Dim::invalid();
  }
  const uint32_t fits = compare(TENON_REL_DIVISIBLE, total, known);
  const tenon_host_graph_t& api = graph_api();
  if (fits == TENON_NO || (fits == TENON_MAYBE && known.is_constant() &&
                           api.symbol_assert(api.self, graph(), TENON_REL_DIVISIBLE, total.raw(),
                                             known.raw()) != TENON_OK)) {
    fail("T0713", "its elements cannot be divided into the given dims");
    return Dim::invalid();
  }
  const Dim out = total / known;
  if (!out.valid())
    fail("T0714", "a size cannot be computed: it is divided by symbolic dims that do not cancel");
  return out;
}

bool NodeContext::require_equal(Dim a, Dim b, std::string_view what) {
  if (!ok_) return false;
  if (compare(TENON_REL_EQ, a, b) != TENON_NO) return true;
  const auto shown = [](Dim d) {
    return d.is_constant() ? std::to_string(d.constant()) : std::string("a symbolic dim");
  };
  return fail("T0713", fmt::format("{} differ: {} and {}", what, shown(a), shown(b)));
}

bool NodeContext::require(uint32_t rel, Dim a, Dim b, std::string_view what) {
  if (!ok_) return false;
  if (!a.valid() || !b.valid()) return fail("T0713", fmt::format("{} are beyond 64 bits", what));
  const tenon_host_graph_t& api = graph_api();
  const uint32_t answer = compare(rel, a, b);
  if (answer == TENON_YES) return true;
  if (answer == TENON_MAYBE &&
      api.symbol_assert(api.self, graph(), rel, a.raw(), b.raw()) == TENON_OK)
    return true;
  static constexpr std::string_view kWords[] = {"equal", "in increasing order", "in order",
                                                "divisible"};
  return fail("T0713", fmt::format("{} are not {}", what, kWords[rel]));
}

Value NodeContext::number_of(const Extent& e) {
  if (!ok_) return Value();
  Item item = Item::of(TENON_I64, {}, {e});
  return importer_->value_of(&item);
}

Dim NodeContext::size_from(Value number) {
  const Value extent = build("dim_from_scalar", {number});
  if (!extent.valid()) return Dim::invalid();
  importer_->sources_.try_emplace(extent.dim(0).raw(), extent, 0);
  return extent.dim(0);
}

std::optional<Dims> NodeContext::broadcast_dims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  const size_t lead = longer.size() - shorter.size();
  Dims out = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim x = longer[lead + i], y = shorter[i];
    if (y.is(1) || x == y) continue;
    if (x.is(1)) {
      out[lead + i] = y;
      continue;
    }
    if (!require_equal(x, y, "dims to be broadcast against each other")) return {};
    out[lead + i] = x.is_constant() ? x : y.is_constant() ? y : x;
  }
  return out;
}

Value NodeContext::broadcast_to(Value x, const Dims& shape) {
  if (!ok_ || !x.valid()) return Value();
  const Dims from = x.dims();
  if (from == shape) return x;
  if (from.size() > shape.size()) {
    fail("T0713", fmt::format("a value of rank {} cannot be broadcast to rank {}", from.size(),
                              shape.size()));
    return Value();
  }
  return build("broadcast", {x}, {{"shape", shape}});
}

std::vector<Value> NodeContext::broadcast(std::vector<Value> values) {
  Dims shape;
  for (const Value v : values) {
    if (!v.valid()) return {};
    const auto joined = broadcast_dims(shape, v.dims());
    if (!joined) return {};
    shape = *joined;
  }
  for (Value& v : values) v = broadcast_to(v, shape);
  return ok_ ? values : std::vector<Value>();
}

bool NodeContext::same_types(size_t first) {
  tenon_dtype_t type = TENON_DTYPE_NONE;
  for (size_t i = first; i < inputs_.size(); ++i) {
    if (!has(i)) continue;
    if (type == TENON_DTYPE_NONE) type = dtype(i);
    if (dtype(i) != type) {
      return fail("T0710",
                  fmt::format("its inputs have the element types {} and {}, and must have one",
                              dtype_name(type), dtype_name(dtype(i))));
    }
  }
  return ok_;
}

// ---- Another op in this one's place ----

std::vector<Item> NodeContext::as(std::string_view op, int64_t version, std::vector<Item> operands,
                                  ImportFunction import) {
  if (!ok_ || !builder().status().ok()) return {};
  std::vector<Item*> pointers;
  for (Item& operand : operands) {
    Item* kept = operand.refused() ? nullptr : importer_->new_item();
    if (kept != nullptr) *kept = std::move(operand);
    pointers.push_back(kept);
  }
  NodeContext inner(importer_, node_, version, std::move(pointers));
  inner.op_ = op;
  if (import == nullptr) import = find_importer("", op, version)->import;
  const bool done = import(inner);
  read_attributes_.insert(read_attributes_.end(), inner.read_attributes_.begin(),
                          inner.read_attributes_.end());
  waits_ |= inner.waits_;
  ok_ &= inner.ok_;
  if (!done || !ok_) return {};
  return std::move(inner.outputs_);
}

// ---- Results ----

bool NodeContext::set(size_t i, Value value) {
  if (!ok_ || !value.valid()) return ok_;
  return set(i, Item::of(value));
}

bool NodeContext::set(size_t i, Item item) {
  if (!ok_ || !wants(i)) return ok_;
  if (!importer_->check_elements(item.dims(), node_text(node_))) return ok_ = false;
  outputs_[i] = std::move(item);
  return true;
}

bool NodeContext::set_known(size_t i, Extents elements, Dims dims, tenon_dtype_t dtype) {
  return set(i, Item::of(dtype, std::move(dims), std::move(elements)));
}

bool NodeContext::finish(bool result) {
  const Status status = builder().status();
  if (!status.ok()) {
    std::string id;
    const std::string text = host_failure(&id);
    fail(id.empty() ? "T0715" : id, text);
    Builder fresh(graph(), importer_->region_.id());
    *importer_->builder_ = fresh;
  }
  if (!ok_) return false;
  if (!result) return fail("T0715", "it could not be imported");
  for (const AttributeProto& attribute : node_.attributes) {
    if (std::find(read_attributes_.begin(), read_attributes_.end(), attribute.name) ==
        read_attributes_.end()) {
      return fail("T0708", fmt::format("it has the attribute {}, which opset {} does not know",
                                       quote(attribute.name), version_));
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (wants(i) && outputs_[i].dtype() == TENON_DTYPE_NONE) {
      return fail("T0714",
                  fmt::format("its output {} ({}) is not supported", i, quote(node_.outputs[i])));
    }
  }
  return true;
}

}  // namespace tenon::onnx
