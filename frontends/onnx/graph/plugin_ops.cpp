#include "frontends/onnx/graph/plugin_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <set>

#include <tenon/abi/host.h>
#include <tenon/cpp/text.hpp>

#include "frontends/onnx/graph/not_imported.h"

namespace tenon::onnx {
namespace {

constexpr std::string_view kFormat = "onnx";

const tenon_host_registry_t* registry() {
  static const auto* const table = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  return table;
}

std::string_view written(std::string_view domain) {
  return domain.empty() ? "ai.onnx" : domain;
}

// The importers that a plugin provides for a domain; null if none does.
const tenon_importers_t* importers_of(std::string_view domain) {
  const std::string name = cat(kFormat, ":", written(domain));
  const void* table = nullptr;
  if (registry() == nullptr ||
      registry()->plugin_interface(registry()->self, str("importer"), str(name),
                                   str(TENON_IMPORTERS_ID), &table) != TENON_OK)
    return nullptr;
  return static_cast<const tenon_importers_t*>(table);
}

const tenon_importer_t* importer_of(std::string_view domain, std::string_view type,
                                    int64_t version) {
  const tenon_importers_t* table = importers_of(domain);
  const tenon_importer_t* best = nullptr;
  for (uint64_t i = 0; table != nullptr && i < table->importer_count; ++i) {
    const tenon_importer_t& at = table->importers[i];
    if (view(at.op) == type && at.since <= version && (best == nullptr || at.since > best->since))
      best = &at;
  }
  return best;
}

// The ops that declare names in files of ONNX. They are listed again when ops were registered.
struct Named {
  tenon_foreign_name_t name;
  const tenon_op_def_t* op;
};
std::vector<Named> named_ops() {
  static std::mutex mutex;
  static std::vector<Named> list;
  static std::optional<uint64_t> state;
  std::lock_guard lock(mutex);
  const uint64_t now = registry()->op_changes(registry()->self);
  if (state == now) return list;
  list.clear();
  const auto visit = [](void*, const tenon_op_def_t* op, tenon_str_t) {
    for (uint64_t i = 0; i < op->foreign_name_count; ++i) {
      if (view(op->foreign_names[i].format) == kFormat) list.push_back({op->foreign_names[i], op});
    }
  };
  registry()->op_each(registry()->self, nullptr, visit);
  state = registry()->op_changes(registry()->self);  // visiting loads plugins
  return list;
}

const tenon_op_def_t* op_named(std::string_view domain, std::string_view type, int64_t version) {
  const tenon_op_def_t* best = nullptr;
  uint32_t since = 0;
  for (const Named& at : named_ops()) {
    const std::string_view its = view(at.name.domain);
    if ((its == "ai.onnx" ? "" : its) != domain || view(at.name.name) != type) continue;
    if (at.name.since > version || at.name.since <= since) continue;
    since = at.name.since;
    best = at.op;
  }
  return best;
}

const tenon_op_def_t* op_called(const std::string& name) {
  const tenon_op_def_t* op = nullptr;
  const tenon_sym_t sym = intern(name);
  return registry()->op_find(registry()->self, sym, 0, &op) == TENON_OK ? op : nullptr;
}

// ---- By declaration ----

std::string listed(const tenon_op_def_t& op) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < op.attr_count; ++i)
    names.emplace_back(view(tenon_op_attr(&op, i)->name));
  return names.empty() ? "it has none" : "it has " + text::join_names(names);
}

bool mismatch(NodeContext& n, std::string_view name, std::string_view wanted) {
  return n.fail("T0708", fmt::format("its attribute {} must be {}", quote(name), wanted));
}

// Attributes in the kinds that the op declares. Lists live here as long as the node is built.
class Converted {
 public:
  explicit Converted(NodeContext& n) : n_(n) {}

  bool add(const tenon_attr_def_t& declared, const AttributeProto& given) {
    const std::string_view name = view(declared.name);
    const bool whole = given.type == kAttrInt, real = given.type == kAttrFloat;
    switch (declared.kind) {
      case TENON_ATTR_I64:
        return whole ? put(Attr(name, given.i)) : mismatch(n_, name, "an integer");
      case TENON_ATTR_F64:
        if (!whole && !real) return mismatch(n_, name, "a number");
        return put(Attr(name, whole ? static_cast<double>(given.i) : double{given.f}));
      case TENON_ATTR_STRING:
        return given.type == kAttrString ? put(Attr(name, given.s)) : mismatch(n_, name, "a text");
      case TENON_ATTR_I64S:
        return given.type == kAttrInts ? put(Attr(name, given.ints))
                                       : mismatch(n_, name, "a list of integers");
      case TENON_ATTR_F64S:
        return numbers(name, given);
      case TENON_ATTR_DIMS:
        return dims(name, given);
      case TENON_ATTR_DTYPE:
        return element_type(name, given);
      default:
        return n_.fail("T0708", fmt::format("its attribute {} is of a kind that ONNX nodes cannot "
                                            "give",
                                            quote(name)));
    }
  }
  std::span<const Attr> all() const { return attrs_; }

 private:
  bool put(Attr attr) { return attrs_.push_back(std::move(attr)), true; }

  bool numbers(std::string_view name, const AttributeProto& given) {
    std::vector<double>& list = lists_.emplace_back();
    if (given.type == kAttrInts) {
      list.assign(given.ints.begin(), given.ints.end());
    } else if (given.type == kAttrFloats) {
      list.assign(given.floats.begin(), given.floats.end());
    } else {
      return mismatch(n_, name, "a list of numbers");
    }
    return put(Attr(name, list));
  }
  bool dims(std::string_view name, const AttributeProto& given) {
    if (given.type != kAttrInts) return mismatch(n_, name, "a list of sizes");
    Dims sizes;
    for (const int64_t size : given.ints) {
      if (size < 0) return mismatch(n_, name, "a list of sizes of at least 0");
      sizes.push_back(n_.dim(size));
    }
    return put(Attr(name, sizes));
  }
  bool element_type(std::string_view name, const AttributeProto& given) {
    tenon_dtype_t type = TENON_DTYPE_NONE;
    if (given.type == kAttrInt && given.i > 0 && given.i < 64)
      type = dtype_of_onnx(static_cast<int32_t>(given.i));
    for (uint32_t i = 1; given.type == kAttrString && i < 32; ++i) {
      if (dtype_name(static_cast<tenon_dtype_t>(i)) == given.s)
        type = static_cast<tenon_dtype_t>(i);
    }
    return type != TENON_DTYPE_NONE
               ? put(Attr(name, dtype(type)))
               : mismatch(n_, name, "an element type: ONNX's number or a name such as 'f32'");
  }

  NodeContext& n_;
  Attrs attrs_;
  std::deque<std::vector<double>> lists_;
};

bool convert_attributes(NodeContext& n, const tenon_op_def_t& op, Converted* out) {
  for (const AttributeProto* given : n.all_attributes()) {
    const tenon_attr_def_t* declared = nullptr;
    for (uint32_t i = 0; i < op.attr_count && declared == nullptr; ++i) {
      if (view(tenon_op_attr(&op, i)->name) == given->name) declared = tenon_op_attr(&op, i);
    }
    if (declared == nullptr) {
      return n.fail("T0708", fmt::format("the op {} has no attribute {}; {}", quote(view(op.name)),
                                         quote(given->name), listed(op)));
    }
    if (!out->add(*declared, *given)) return false;
  }
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    const tenon_attr_def_t& attr = *tenon_op_attr(&op, i);
    if ((attr.flags & TENON_ATTR_REQUIRED) != 0 && !n.has_attribute(view(attr.name)))
      return n.fail("T0708", fmt::format("it lacks the attribute {}, which the op {} requires",
                                         quote(view(attr.name)), quote(view(op.name))));
  }
  return true;
}

// Absent operands at the end are left out.
bool declared_operands(NodeContext& n, const tenon_op_def_t& op, std::vector<Value>* out) {
  size_t least = 0;
  bool open = false;
  for (uint32_t i = 0; i < op.operand_count; ++i) {
    const uint32_t flags = tenon_op_operand(&op, i)->flags;
    open |= (flags & TENON_OPERAND_VARIADIC) != 0;
    if ((flags & (TENON_OPERAND_OPTIONAL | TENON_OPERAND_VARIADIC)) == 0) least = i + 1;
  }
  if (!n.arity(least, open ? n.input_count() + least : op.operand_count, n.output_count()))
    return false;
  size_t count = n.input_count();
  while (count > least && !n.has(count - 1)) --count;
  for (size_t i = 0; i < count; ++i) out->push_back(n.value(i));
  return n.ok();
}

bool import_declared(NodeContext& n, const tenon_op_def_t& op) {
  Converted attributes(n);
  std::vector<Value> operands;
  if (!convert_attributes(n, op, &attributes) || !declared_operands(n, op, &operands)) return false;
  const Node node = n.builder().build_node(view(op.name), operands, attributes.all());
  if (!node.valid()) return true;  // the driver reports the builder's failure
  if (n.output_count() > node.result_count()) {
    return n.fail("T0709",
                  fmt::format("it has {} outputs, and the op {} gives {}", n.output_count(),
                              quote(view(op.name)), node.result_count()));
  }
  for (uint32_t i = 0; i < n.output_count(); ++i) n.set(i, node.result(i));
  return true;
}

// ---- By an importer ----

// The attributes of a node as the file has them.
class Given {
 public:
  bool add(NodeContext& n, const AttributeProto& given) {
    const std::string_view name = given.name;
    switch (given.type) {
      case kAttrInt:
        return put(Attr(name, given.i));
      case kAttrFloat:
        return put(Attr(name, double{given.f}));
      case kAttrString:
        return put(Attr(name, given.s));
      case kAttrInts:
        return put(Attr(name, given.ints));
      case kAttrFloats:
        return put(Attr(name, numbers_.emplace_back(given.floats.begin(), given.floats.end())));
      case kAttrStrings:
        return texts(name, given);
      default:
        return n.fail("T0708", fmt::format("its attribute {} is a tensor or a graph, which "
                                           "importers of plugins do not get",
                                           quote(name)));
    }
  }
  const std::vector<tenon_attr_t>& all() const { return attrs_; }

 private:
  bool put(const Attr& attr) { return attrs_.push_back(attr.raw()), true; }
  bool texts(std::string_view name, const AttributeProto& given) {
    std::vector<tenon_str_t>& list = texts_.emplace_back();
    for (const Text one : given.strings) list.push_back(str(one));
    tenon_attr_t attr = {};
    attr.name = intern(name);
    attr.kind = TENON_ATTR_STRINGS;
    attr.count = list.size();
    attr.u.ss = list.data();
    return attrs_.push_back(attr), true;
  }
  std::vector<tenon_attr_t> attrs_;
  std::deque<std::vector<double>> numbers_;
  std::deque<std::vector<tenon_str_t>> texts_;
};

bool is_value(const Value& value) {
  return value.valid() && value.dtype() != TENON_DTYPE_NONE;
}

bool import_with(NodeContext& n, const tenon_importer_t& importer) {
  Given attributes;
  for (const AttributeProto* given : n.all_attributes()) {
    if (!attributes.add(n, *given)) return false;
  }
  std::vector<tenon_value_t> operands, results(n.output_count(), TENON_NONE);
  for (size_t i = 0; i < n.input_count(); ++i) operands.push_back(n.value(i).id());
  if (!n.ok() || !n.builder().status().ok()) return n.ok();
  auto node = sized<tenon_import_t>();
  node.operand_count = static_cast<uint32_t>(operands.size());
  node.attr_count = static_cast<uint32_t>(attributes.all().size());
  node.result_count = static_cast<uint32_t>(results.size());
  node.version = n.version();
  node.op = str(n.op());
  node.builder = &n.builder().raw();
  node.operands = operands.data();
  node.attrs = attributes.all().data();
  if (importer.import_node(importer.self, &node, results.data()) != TENON_OK) {
    std::string id;
    const std::string text = host_failure(&id);
    return n.fail(id.empty() ? "T0715" : id, text);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const Value result(n.graph(), results[i]);
    if (!n.wants(i) || !result.valid()) continue;  // the driver reports missing results
    if (!is_value(result))
      return n.fail("T0715", fmt::format("the plugin's importer gives no value for output {}", i));
    n.set(i, result);
  }
  return true;
}

// ---- Advice ----

// Ops of ONNX that the frontend knows, or that a plugin provides, in a domain.
std::vector<std::string> known_types(std::string_view domain) {
  std::set<std::string> names;
  for (const OpImporter& importer : all_importers()) {
    if (importer.domain == domain) names.emplace(importer.op);
  }
  if (const tenon_importers_t* table = importers_of(domain)) {
    for (uint64_t i = 0; i < table->importer_count; ++i)
      names.emplace(view(table->importers[i].op));
  }
  for (const Named& at : named_ops()) {
    if (view(at.name.domain) == written(domain)) names.emplace(view(at.name.name));
  }
  struct Collect {
    std::string prefix;
    std::set<std::string>* names;
  } collect{cat(domain, "."), &names};
  const auto visit = [](void* self, const tenon_op_def_t* op, tenon_str_t) {
    const auto& c = *static_cast<Collect*>(self);
    if (view(op->name).starts_with(c.prefix))
      c.names->emplace(view(op->name).substr(c.prefix.size()));
  };
  if (!domain.empty()) registry()->op_each(registry()->self, &collect, visit);
  return {names.begin(), names.end()};
}

// The first version of the domain that has the op; 0 if none has.
int64_t first_version(std::string_view domain, std::string_view type) {
  int64_t first = INT64_MAX;
  for (const OpImporter& importer : all_importers()) {
    if (importer.domain == domain && importer.op == type) first = std::min(first, importer.since);
  }
  const tenon_importers_t* table = importers_of(domain);
  for (uint64_t i = 0; table != nullptr && i < table->importer_count; ++i) {
    if (view(table->importers[i].op) == type)
      first = std::min<int64_t>(first, table->importers[i].since);
  }
  for (const Named& at : named_ops()) {
    if (view(at.name.domain) == written(domain) && view(at.name.name) == type)
      first = std::min<int64_t>(first, at.name.since);
  }
  return first == INT64_MAX ? 0 : first;
}

}  // namespace

PluginOp find_plugin_op(std::string_view domain, std::string_view type, int64_t version) {
  PluginOp out;
  if (registry() == nullptr || version < 1) return out;
  out.importer = importer_of(domain, type, version);
  if (out.importer == nullptr) out.op = op_named(domain, type, version);
  if (!out.found() && !domain.empty()) out.op = op_called(cat(domain, ".", type));
  return out;
}

bool import_by_plugin(NodeContext& n, const PluginOp& found) {
  return found.importer != nullptr ? import_with(n, *found.importer)
                                   : import_declared(n, *found.op);
}

std::string unknown_op_advice(std::string_view domain, std::string_view type, int64_t version) {
  if (version == 0)
    return fmt::format("; name the domain in the model's opset_import, {} version 1 for example",
                       quote(domain));
  if (registry() == nullptr) return {};
  if (const int64_t first = first_version(domain, type); first > version)
    return fmt::format("; it is known from opset {} on", first);
  const std::vector<std::string> types = known_types(domain);
  if (types.empty()) {
    return fmt::format(
        "; no plugin here provides ops of this domain. If one exists, name its folder in "
        "TENON_PLUGIN_ADD; `tenon plugins list` shows what was found");
  }
  if (domain.empty()) {
    if (const NotImported* op = not_imported(type)) return cat("; ", op->reason);
  }
  const std::string near = text::did_you_mean(type, types);
  if (domain.empty() && near.empty()) return "; ONNX has no operator of this name";
  if (!near.empty() || types.size() > kMaxListed) return near;
  return "; the domain has " + text::join_names(types);
}

}  // namespace tenon::onnx
