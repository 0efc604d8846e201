// Registration and lookup.
#include "core/op/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <mutex>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/op/as_of.h"

namespace tenon::op {

// Name spaces of notes of no plugin: of people, and of passes in Python, whose graphs are also read
// where those passes are not.
constexpr std::string_view kUserNotes = "user", kPythonNotes = "python";

Registry& Registry::instance() {
  static Registry* const registry = [] {
    Registry* r = new Registry();  // lives as long as the process: plugins' records point into it
    ir::set_op_set(r);
    return r;
  }();
  return *registry;
}

void Registry::set_loader(OpLoader* loader) {
  std::unique_lock lock(mutex_);
  loader_ = loader;
}

Result<OpRecord> copy_declaration(const tenon_op_def_t* given, uint64_t index,
                                  std::string_view provider) {
  if (given == nullptr || given->size_bytes < offsetof(tenon_op_def_t, value_of)) {
    return error(TENON_INVALID_ARGUMENT, "T0320",
                 "declaration {} of {} is shorter than the first version of the table", index,
                 quoted(provider));
  }
  OpRecord record;
  std::memcpy(&record.def, given, std::min<size_t>(given->size_bytes, sizeof record.def));
  record.def.size_bytes = sizeof record.def;
  record.provider = provider;
  const uint64_t rewrites = record.def.rewrites == nullptr ? 0 : record.def.rewrite_count;
  if (rewrites != 0 && record.def.rewrites->size_bytes != sizeof(tenon_rewrite_t)) {
    const auto* at = reinterpret_cast<const std::byte*>(record.def.rewrites);
    const size_t stride = record.def.rewrites->size_bytes;
    for (uint64_t k = 0; k < rewrites; ++k) {
      tenon_rewrite_t full = {};
      std::memcpy(&full, at + k * stride, std::min(stride, sizeof full));
      full.size_bytes = sizeof full;
      record.rewrites.push_back(full);
    }
  }
  return record;
}

Status Registry::register_ops(const tenon_ops_t& ops, std::string_view provider) {
  std::string refused;
  tenon_code_t code = TENON_OK;
  auto refuse = [&](const Status& s) {
    if (code == TENON_OK) code = s.code();
    refused += (refused.empty() ? "" : "\n") + std::string(s.message());
  };
  for (uint64_t i = 0; i < ops.op_count; ++i) {
    Result<OpRecord> record = copy_declaration(ops.ops[i], i, provider);
    const Status checked = record.ok() ? check_declaration(record->def) : record.status();
    if (!checked.ok()) {
      refuse(checked);
      continue;
    }
    record->name = intern(from_abi_str(record->def.name));
    std::unique_lock lock(mutex_);
    Definitions& versions = by_name_[record->name];
    const bool taken =
        std::any_of(versions.all.begin(), versions.all.end(),
                    [&](const OpRecord* r) { return r->def.version == record->def.version; });
    if (taken) {
      refuse(error(TENON_ALREADY_EXISTS, "T0320",
                   "{} declares the op {}@{}, which {} provides already", quoted(provider),
                   from_abi_str(record->def.name), record->def.version,
                   quoted(versions.all[0]->provider)));
      continue;
    }
    store(std::move(*record));
    versions.current = versions.all.front();
    changes_.fetch_add(1, std::memory_order_release);
  }
  return code == TENON_OK ? Status() : Status(code, "T0320", refused);
}

// Under the lock.
OpRecord* Registry::store(OpRecord record) {
  records_.push_back(std::move(record));
  OpRecord& stored = records_.back();
  if (!stored.rewrites.empty()) stored.def.rewrites = stored.rewrites.data();
  put_first(&stored);
  return &stored;
}

// Makes it the one that lookups of its version find. Under the lock.
void Registry::put_first(OpRecord* record) {
  std::vector<OpRecord*>& all = by_name_[record->name].all;
  std::erase(all, record);
  const auto at = std::find_if(all.begin(), all.end(), [&](const OpRecord* r) {
    return r->def.version <= record->def.version;
  });
  all.insert(at, record);
}

const OpRecord* Registry::lookup(tenon_sym_t name, uint32_t version) {
  std::shared_lock lock(mutex_);
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return nullptr;
  if (version == 0) {
    const OpRecord* then = AsOf::now() == 0 ? nullptr : it->second.as_of(AsOf::now());
    return then != nullptr ? then : it->second.current;
  }
  for (const OpRecord* r : it->second.all) {
    if (r->def.version == version) return r;
  }
  return nullptr;
}

const OpRecord* Registry::record(tenon_sym_t name, uint32_t version) {
  if (const OpRecord* found = lookup(name, version)) return found;
  OpLoader* loader;
  {
    std::shared_lock lock(mutex_);
    loader = loader_;
  }
  if (loader == nullptr || !loader->load(sym_text(name)).ok()) return nullptr;
  return lookup(name, version);
}

const tenon_op_def_t* Registry::find(tenon_sym_t name, uint32_t version) {
  const OpRecord* r = record(name, version);
  return r == nullptr ? nullptr : &r->def;
}

// The op that has `name` as an alias, in any case; empty if none has.
std::string Registry::meant_by(std::string_view name) {
  const auto same = [&](std::string_view other) {
    return std::ranges::equal(
        name, other, {}, [](unsigned char c) { return std::tolower(c); },
        [](unsigned char c) { return std::tolower(c); });
  };
  std::shared_lock lock(mutex_);
  for (const auto& [sym, definitions] : by_name_) {
    if (definitions.current == nullptr) continue;
    const tenon_op_def_t& def = definitions.current->def;
    for (uint64_t i = 0; i < def.foreign_name_count; ++i) {
      if (from_abi_str(def.foreign_names[i].format) == TENON_FOREIGN_ALIAS &&
          same(from_abi_str(def.foreign_names[i].name)))
        return std::string(sym_text(sym));
    }
  }
  return "";
}

Status Registry::unknown(tenon_sym_t name, uint32_t version) {
  const std::string_view text = sym_text(name);
  if (const OpRecord* other = record(name, 0)) {
    return error(TENON_NOT_FOUND, "T0308", "the op {} has no version {} here; the newest is {}",
                 quoted(text), version, other->def.version);
  }
  std::vector<std::string> names;
  OpLoader* loader;
  {
    std::shared_lock lock(mutex_);
    loader = loader_;
    for (const auto& [sym, definitions] : by_name_) {
      if (definitions.current != nullptr) names.emplace_back(sym_text(sym));
    }
  }
  std::string why;
  if (loader != nullptr) {
    loader->names(&names);
    const Status s = loader->load(text);
    if (!s.ok() && !s.message().empty()) why = "; " + s.text();
  }
  // Aliases are known once a plugin is loaded, and there is time for that in an error.
  for (const std::string& other : names) {
    if (loader != nullptr && other != text) (void)loader->load(other);
  }
  if (const std::string meant = meant_by(text); !meant.empty())
    return error(TENON_NOT_FOUND, "T0308", "there is no op {}; it is called {} here{}",
                 quoted(text), quoted(meant), why);
  std::erase(names, text);  // a manifest may promise an op that the plugin does not declare
  return error(TENON_NOT_FOUND, "T0308", "there is no op {}{}{}", quoted(text),
               did_you_mean(text, names), why);
}

Status Registry::check_note_space(std::string_view space) {
  const tenon_sym_t sym = intern(space);
  OpLoader* loader;
  {
    std::shared_lock lock(mutex_);
    loader = loader_;
    const bool open = space == kUserNotes || space == kPythonNotes;
    if (open || loader == nullptr || note_spaces_.contains(sym)) return {};
  }
  std::vector<std::string> spaces;
  loader->note_spaces(&spaces);
  if (std::find(spaces.begin(), spaces.end(), space) == spaces.end()) {
    spaces.emplace_back(kUserNotes);
    return error(TENON_INVALID_ARGUMENT, "T0327",
                 "no plugin has the name space {} for notes (notes of no plugin are in {}){}",
                 quoted(space), quoted(kUserNotes), did_you_mean(space, spaces));
  }
  std::unique_lock lock(mutex_);
  note_spaces_.insert(sym);
  return {};
}

std::vector<const OpRecord*> Registry::records() {
  std::vector<const OpRecord*> out;
  std::shared_lock lock(mutex_);
  for (const OpRecord& r : records_) {
    // Of what programs register, only the last definition is in force.
    if (r.registrations.empty() || by_name_.at(r.name).current == &r) out.push_back(&r);
  }
  std::sort(out.begin(), out.end(), [](const OpRecord* a, const OpRecord* b) {
    const std::string_view x = sym_text(a->name), y = sym_text(b->name);
    return x != y ? x < y : a->def.version < b->def.version;
  });
  return out;
}

std::vector<const OpRecord*> Registry::all_records() {
  OpLoader* loader;
  {
    std::shared_lock lock(mutex_);
    loader = loader_;
  }
  if (loader != nullptr) loader->load_all();
  return records();
}

// ---- Declarations ----

namespace {

bool is_op_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || name[0] < 'a' || name[0] > 'z') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

bool has_choice(std::string_view choices, std::string_view wanted) {
  for (std::string_view one : split(choices, '|')) {
    if (one == wanted) return true;
  }
  return false;
}

}  // namespace

// scalar_check.cpp. partial: null for the program of the op itself.
Status check_scalar(const tenon_op_def_t& def, const tenon_partial_t* partial);

namespace {

bool fits_role(uint32_t role, uint32_t kind) {
  switch (role) {
    case TENON_ROLE_OTHER:
      return true;
    case TENON_ROLE_AXIS:
      return kind == TENON_ATTR_I64;
    case TENON_ROLE_AXES:
      return kind == TENON_ATTR_I64S;
    case TENON_ROLE_PER_DIM:
      return kind == TENON_ATTR_I64S || kind == TENON_ATTR_DIMS;
    case TENON_ROLE_SHAPE:
      return kind == TENON_ATTR_DIMS;
    default:
      return false;
  }
}

constexpr tenon_dtypes_t kDifferentiable =
    TENON_DTYPE_BIT(TENON_F16) | TENON_DTYPE_BIT(TENON_BF16) | TENON_DTYPE_BIT(TENON_F32) |
    TENON_DTYPE_BIT(TENON_F64) | TENON_DTYPE_BIT(TENON_C64) | TENON_DTYPE_BIT(TENON_C128);

// The record of derivatives and batches.
Status check_rules(const tenon_op_def_t& def) {
  const tenon_op_rules_t& rules = *def.rules;
  const auto bad = [&](std::string why) {
    return Status(TENON_INVALID_ARGUMENT, "T0320",
                  fmt::format("op {}: {}", quoted(from_abi_str(def.name)), why));
  };
  if ((rules.linear != 0 || rules.bilinear != 0) != (rules.transpose != nullptr))
    return bad("a mask of linearity and the rule for its cotangents go together");
  if ((rules.linear & rules.bilinear) != 0)
    return bad("an operand is in one mask of linearity, not in both");
  const uint32_t beyond = def.operand_count >= 32 ? 0 : ~((1u << def.operand_count) - 1);
  if (((rules.linear | rules.bilinear | rules.batched) & beyond) != 0)
    return bad("a mask of its rules names an operand that it does not have");
  const uint32_t masks = rules.linear | rules.bilinear;
  for (uint32_t i = 0; masks != 0 && i < def.operand_count; ++i) {
    const bool differentiable = (def.operands[i].dtypes & kDifferentiable) != 0;
    if (differentiable && (masks >> i & 1) == 0)
      return bad(
          fmt::format("operand {} may hold floats and is in no mask of linearity, so that its "
                      "derivative would be 0: use the rule jvp",
                      quoted(from_abi_str(def.operands[i].name))));
  }
  for (uint32_t i = 0; i < rules.partial_count; ++i) {
    if (def.scalar == nullptr || rules.partials[i].operand >= def.operand_count)
      return bad("partial derivatives are those of its scalar program, by its operands");
    TENON_RETURN_IF_ERROR(check_scalar(def, &rules.partials[i]));
  }
  for (uint32_t i = 0; rules.roles != nullptr && i < def.attr_count; ++i) {
    if (!fits_role(rules.roles[i], def.attrs[i].kind))
      return bad(fmt::format("attribute {} has a role that its kind cannot have",
                             quoted(from_abi_str(def.attrs[i].name))));
  }
  return {};
}

}  // namespace

Status check_declaration(const tenon_op_def_t& def) {
  const std::string_view name = from_abi_str(def.name);
  auto bad = [&](std::string why) {
    return Status(TENON_INVALID_ARGUMENT, "T0320", fmt::format("op {}: {}", quoted(name), why));
  };
  if (!is_op_name(name)) return bad("a name is a lower-case word of letters, digits, `_` and `.`");
  if (def.version == 0 || def.version >= TENON_OP_VERSION_BY_CONTENT)
    return bad("versions begin at 1 and end before 2^31");
  if (def.infer == nullptr) return bad("it has no inference");
  if (def.reference == nullptr && def.scalar == nullptr && def.decompose == nullptr) {
    return bad("it has neither reference, scalar program nor decomposition");
  }
  if ((def.traits & TENON_TRAIT_ELEMENTWISE) && def.scalar == nullptr)
    return bad("it is element-wise without a scalar program");
  if ((def.traits & TENON_TRAIT_COMPOSITE) && def.decompose == nullptr)
    return bad("it is composite without a decomposition");
  // Not `< 0`: a NaN is not a bound either.
  if (!(def.ulp_f32 >= 0 && def.ulp_f64 >= 0) || (def.ulp_f32 == 0) != (def.ulp_f64 == 0) ||
      def.ulp_of > TENON_ULP_OF_ONE) {
    return bad(
        "its accuracy is a number of ulp of f32 and of f64, both or neither, of what "
        "TENON_ULP_OF_* names");
  }
  for (uint32_t i = 0; i < def.operand_count; ++i) {
    const tenon_operand_def_t& o = def.operands[i];
    const bool last = i + 1 == def.operand_count;
    if (o.name.size == 0) return bad(fmt::format("operand {} has no name", i));
    if ((o.flags & TENON_OPERAND_VARIADIC) && !last)
      return bad("only the last operand may be variadic");
    if (!last && (o.flags & TENON_OPERAND_OPTIONAL) && !(def.operands[i + 1].flags & 3)) {
      return bad("optional operands come last");
    }
    if (o.dtypes == 0 || o.rank_min > o.rank_max || o.rank_max > TENON_RANK_MAX) {
      return bad(fmt::format("operand {} accepts nothing", quoted(from_abi_str(o.name))));
    }
    for (uint32_t k = 0; k < i; ++k) {
      if (from_abi_str(def.operands[k].name) == from_abi_str(o.name)) {
        return bad(fmt::format("two operands are named {}", quoted(from_abi_str(o.name))));
      }
    }
  }
  for (uint32_t i = 0; i < def.attr_count; ++i) {
    const tenon_attr_def_t& a = def.attrs[i];
    const std::string_view attr = from_abi_str(a.name);
    if (attr.empty() || a.kind < TENON_ATTR_I64 || a.kind > TENON_ATTR_DTYPE) {
      return bad(fmt::format("attribute {} {} has the unknown kind {}", i, quoted(attr), a.kind));
    }
    for (uint32_t k = 0; k < i; ++k) {
      if (from_abi_str(def.attrs[k].name) == attr)
        return bad(fmt::format("two attributes are named {}", quoted(attr)));
    }
    const std::string_view choices = from_abi_str(a.choices);
    if (choices.empty()) continue;
    if (a.kind != TENON_ATTR_STRING && a.kind != TENON_ATTR_I64)
      return bad(
          fmt::format("attribute {} has choices but is neither text nor a number", quoted(attr)));
    const std::string otherwise = a.kind == TENON_ATTR_I64 ? std::to_string(a.default_i)
                                                           : std::string(from_abi_str(a.default_s));
    if (!(a.flags & TENON_ATTR_REQUIRED) && !has_choice(choices, otherwise)) {
      return bad(fmt::format("the default of {} is none of its choices", quoted(attr)));
    }
  }
  for (uint32_t i = 0; i < def.constraint_count; ++i) {
    for (uint32_t k = 0; k < i; ++k) {
      if (from_abi_str(def.constraints[k].label) == from_abi_str(def.constraints[i].label)) {
        return bad(fmt::format("two constraints are labelled {}",
                               quoted(from_abi_str(def.constraints[i].label))));
      }
    }
  }
  if (def.scalar != nullptr) TENON_RETURN_IF_ERROR(check_scalar(def, nullptr));
  return def.rules == nullptr ? Status() : check_rules(def);
}

}  // namespace tenon::op
