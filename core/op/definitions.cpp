// Definitions of plugins that the program registers: their numbers, and which is current
// (docs/adr/0031-plugins-at-run-time.md).
#include <fmt/format.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>

#include <tenon/cpp/sha256.hpp>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/op/as_of.h"
#include "core/op/registry.h"

namespace tenon::op {
namespace {

constexpr uint32_t kNumberMask = TENON_OP_VERSION_BY_CONTENT - 1;

// Writes values so that unequal lists of values give unequal bytes.
class Writer {
 public:
  template <typename T>
  Writer& number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(tenon_str_t text) {
    number(text.size);
    bytes_ += from_abi_str(text);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

void write_schema(const tenon_op_def_t& def, Writer* out) {
  out->text(def.name).number(def.traits).number(def.cost_class);
  out->number(def.operand_count).number(def.attr_count).number(def.scalar_words);
  for (uint32_t i = 0; i < def.operand_count; ++i) {
    const tenon_operand_def_t& o = def.operands[i];
    out->text(o.name).number(o.dtypes).number(o.flags).number(o.dtype_group);
    out->number(o.rank_min).number(o.rank_max);
  }
  for (uint32_t i = 0; i < def.attr_count; ++i) {
    const tenon_attr_def_t& a = def.attrs[i];
    out->text(a.name).number(a.kind).number(a.flags).number(a.default_i).number(a.default_f);
    out->text(a.default_s).text(a.choices);
  }
  for (uint32_t i = 0; i < def.scalar_words; ++i) out->number(def.scalar[i]);
}

// The functions that decide what an op computes, apart from its scalar program.
bool has_functions(const tenon_op_def_t& def) {
  return def.reference != nullptr || def.decompose != nullptr || def.decompose_complex != nullptr ||
         def.fold != nullptr || def.stack != nullptr || def.value_of != nullptr ||
         def.rewrite_count != 0;
}

void write_functions(const tenon_op_def_t& def, Writer* out) {
  out->number(def.self).number(def.reference).number(def.decompose).number(def.fold);
  out->number(def.decompose_complex).number(def.stack);
  out->number(def.value_of).number(def.rewrite_count);
  for (uint64_t i = 0; i < def.rewrite_count; ++i) {
    const tenon_rewrite_t& r = def.rewrites[i];
    out->text(r.name).text(r.root).number(r.benefit).number(r.self).number(r.match_and_build);
  }
}

void write_documentation(const tenon_op_def_t& def, Writer* out) {
  out->text(def.summary).text(def.doc).number(def.since).number(def.tolerance);
  out->number(def.ulp_f32).number(def.ulp_f64).number(def.ulp_of).number(def.infer);
  out->number(def.self).number(def.rules);
  out->number(def.result_count).number(def.constraint_count).number(def.example_count);
  for (uint32_t i = 0; i < def.operand_count; ++i) out->text(def.operands[i].doc);
  for (uint32_t i = 0; i < def.attr_count; ++i) out->text(def.attrs[i].doc);
  for (uint32_t i = 0; i < def.result_count; ++i)
    out->text(def.results[i].name).text(def.results[i].doc);
  for (uint32_t i = 0; i < def.constraint_count; ++i) {
    const tenon_constraint_def_t& c = def.constraints[i];
    out->text(c.label).text(c.text).text(c.negative);
  }
  for (uint32_t i = 0; i < def.example_count; ++i) out->text(def.examples[i]);
}

// Differs between processes, also after a fork: what one of them cached under a number that stands
// for functions means nothing to another.
uint64_t number_of_process() {
  static const uint64_t drawn = [] {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) == sizeof number) return number;
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000007 ^ static_cast<uint64_t>(now.tv_nsec);
  }();
  return drawn ^ (static_cast<uint64_t>(getpid()) << 40);
}

uint32_t number_of(const std::string& meaning) {
  const std::string hex = digest::sha256_hex(std::as_bytes(std::span(meaning))).substr(0, 8);
  uint32_t number = 0;
  (void)std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
  return TENON_OP_VERSION_BY_CONTENT | (number & kNumberMask);
}

uint32_t next_number(uint32_t number) {
  return TENON_OP_VERSION_BY_CONTENT | ((number + 1) & kNumberMask);
}

Status refused(const OpRecord& record, tenon_code_t code, std::string_view why) {
  return Status(code, "T0320",
                fmt::format("op {}: {}", quoted(from_abi_str(record.def.name)), why));
}

}  // namespace

void number_by_content(OpRecord* record) {
  tenon_op_def_t& def = record->def;
  Writer meaning, functions, all;
  write_schema(def, &meaning);
  write_functions(def, &functions);
  write_documentation(def, &all);
  std::string bytes = meaning.take();
  const std::string functional = functions.take();
  if (has_functions(def)) bytes += functional + Writer().number(number_of_process()).take();
  def.version = number_of(bytes);
  record->content = bytes + all.take();
  record->meaning = std::move(bytes);
}

bool of_this_process(const OpRecord& record) {
  return (record.def.version & TENON_OP_VERSION_BY_CONTENT) != 0 && has_functions(record.def);
}

// A definition that is to be current.
struct Registry::Draft {
  OpRecord record;
  OpRecord* known = nullptr;  // the record that has this content and number already
};

// Whether the functions of `known` find the definitions that those of an equal declaration would
// find if it came now, with `drafts`. Which names they ask for is not known before they run, so
// all names count. Under the lock.
bool Registry::resolves_alike(const OpRecord& known, const std::vector<Draft>& drafts) const {
  if (!builds_nodes(known.def)) return true;
  return std::all_of(by_name_.begin(), by_name_.end(), [&](const auto& entry) {
    const OpRecord* then = entry.second.as_of(known.first);
    if (then == nullptr) return true;
    const OpRecord* now = entry.second.as_of(UINT64_MAX);
    for (const Draft& draft : drafts) now = draft.record.name == entry.first ? &draft.record : now;
    return then->def.version == now->def.version;
  });
}

// Brings the number of a draft to that of an equal meaning, else to the next that is free, and
// finds its record. False if its number changed. Under the lock.
bool Registry::settle(Draft* draft, const std::vector<Draft>& drafts) const {
  uint32_t& number = draft->record.def.version;
  const uint32_t before = number;
  draft->known = nullptr;
  const auto at = by_name_.find(draft->record.name);
  if (at == by_name_.end()) return true;
  const std::vector<OpRecord*>& all = at->second.all;
  for (;; number = next_number(number)) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const OpRecord* r) { return r->def.version == number; });
    if (same == all.end()) return number == before;
    if ((*same)->meaning != draft->record.meaning || !resolves_alike(**same, drafts)) continue;
    const auto equal = std::find_if(same, all.end(), [&](const OpRecord* r) {
      return r->def.version == number && r->content == draft->record.content &&
             r->provider == draft->record.provider;
    });
    draft->known = equal == all.end() ? nullptr : *equal;
    return number == before;
  }
}

namespace {

// The record of one declaration of a plugin that the program registers, checked and numbered.
Result<OpRecord> draft_of(const tenon_op_def_t* given, uint64_t index, std::string_view provider) {
  TENON_ASSIGN_OR_RETURN(OpRecord draft, copy_declaration(given, index, provider));
  if (!draft.rewrites.empty()) draft.def.rewrites = draft.rewrites.data();
  tenon_op_def_t checked = draft.def;
  checked.version = 1;
  TENON_RETURN_IF_ERROR(check_declaration(checked));
  if (draft.def.version != 0) {
    return refused(draft, TENON_INVALID_ARGUMENT,
                   fmt::format("its version is {}; the version of an op that a program registers "
                               "is 0, and the host numbers it",
                               draft.def.version));
  }
  draft.name = intern(from_abi_str(draft.def.name));
  number_by_content(&draft);
  return draft;
}

}  // namespace

Status Registry::define(const tenon_ops_t* ops, std::string_view provider, uint64_t registration) {
  std::vector<Draft> drafts;
  std::set<tenon_sym_t> names;
  for (uint64_t i = 0; ops != nullptr && i < ops->op_count; ++i) {
    TENON_ASSIGN_OR_RETURN(OpRecord record, draft_of(ops->ops[i], i, provider));
    if (!names.insert(record.name).second)
      return refused(record, TENON_INVALID_ARGUMENT, "it is declared twice in one table");
    drafts.push_back({std::move(record), nullptr});
  }
  std::unique_lock lock(mutex_);
  for (const Draft& draft : drafts) {
    const auto at = by_name_.find(draft.record.name);
    const OpRecord* current = at == by_name_.end() ? nullptr : at->second.current;
    if (current != nullptr && current->provider != provider) {
      return refused(draft.record, TENON_ALREADY_EXISTS,
                     fmt::format("the plugin {} provides it already", quoted(current->provider)));
    }
  }
  // The number of one may depend on those of the others. Numbers only grow, so this ends.
  for (bool settled = false; !settled;) {
    settled = true;
    for (Draft& draft : drafts) settled = settle(&draft, drafts) && settled;
  }
  for (auto& [name, definitions] : by_name_) {
    OpRecord* current = definitions.current;
    if (current != nullptr && !current->registrations.empty() && current->provider == provider)
      definitions.current = nullptr;
  }
  for (Draft& draft : drafts) take(std::move(draft), registration);
  changes_.fetch_add(1, std::memory_order_release);
  return {};
}

// Under the lock.
void Registry::take(Draft draft, uint64_t registration) {
  OpRecord* record = draft.known;
  if (record == nullptr) {
    draft.record.first = registration;
    record = store(std::move(draft.record));
    build_as_of(record);
  } else {
    put_first(record);
  }
  record->registrations.push_back(registration);
  by_name_[record->name].current = record;
}

OpRecord* Registry::Definitions::as_of(uint64_t registration) const {
  OpRecord* then = nullptr;
  uint64_t since = 0;
  for (OpRecord* r : all) {
    for (uint64_t n : r->registrations) {
      const bool before = n <= registration, had = then != nullptr && since <= registration;
      if (then != nullptr && (before ? had && n < since : had || n > since)) continue;
      then = r;
      since = n;
    }
  }
  return then;
}

bool Registry::suits(tenon_sym_t name, uint32_t version, uint64_t registration) {
  std::shared_lock lock(mutex_);
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return true;
  const OpRecord* then = at->second.as_of(registration);
  return then == nullptr || then->def.version == version;
}

}  // namespace tenon::op
