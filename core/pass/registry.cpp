#include "core/pass/registry.h"

#include <algorithm>
#include <cstring>

#include "core/base/errors/failure.h"
#include "core/base/str.h"
#include "core/pass/pipeline.h"

namespace tenon::pass {
namespace {

std::string_view text(tenon_str_t s) {
  return from_abi_str(s);
}

// Copies the prefix that the plugin knows into a full-size zeroed record.
template <typename Record>
Record full_size(const Record* from) {
  Record record = {};
  std::memcpy(&record, from, std::min<size_t>(from->size_bytes, sizeof record));
  record.size_bytes = sizeof record;
  return record;
}

Status check(const Pass& pass) {
  const std::string name = quoted(text(pass.def.name));
  if ((pass.def.run != nullptr) == !pass.rewrites.empty()) {
    return error(TENON_INTERNAL, "T0402", "the pass {} offers {} of `run` and rewrites", name,
                 pass.def.run != nullptr ? "both" : "neither");
  }
  for (const tenon_rewrite_t& rewrite : pass.rewrites) {
    if (rewrite.match_and_build == nullptr) {
      return error(TENON_INTERNAL, "T0402", "the rewrite {} of the pass {} has no function",
                   quoted(text(rewrite.name)), name);
    }
  }
  return {};
}

std::string string_field(std::string_view key, tenon_str_t value) {
  return fmt::format("\"{}\": {}", key, json_quoted(text(value)));
}

std::string pass_json(const Pass& pass) {
  std::string json = "{" + string_field("name", pass.def.name) + ", " +
                     string_field("summary", pass.def.summary) + ", " +
                     string_field("description", pass.def.description) + ", \"options\": [";
  constexpr std::string_view kKinds[] = {"?", "i64", "f64", "string"};
  for (uint32_t i = 0; i < pass.def.option_count; ++i) {
    const tenon_pass_option_def_t& option = pass.def.options[i];
    json += fmt::format("{}{{{}, {}, \"kind\": \"{}\", {}}}", i == 0 ? "" : ", ",
                        string_field("name", option.name), string_field("doc", option.doc),
                        kKinds[option.kind < 4 ? option.kind : 0],
                        string_field("default", option.default_text));
  }
  json += "], \"statistics\": [";
  for (uint32_t i = 0; i < pass.def.statistic_count; ++i) {
    json += (i == 0 ? "" : ", ") + json_quoted(text(pass.def.statistics[i]));
  }
  return json + "], " + string_field("requires", pass.def.requires_) + ", " +
         string_field("preserves", pass.def.preserves) + ", " +
         string_field("establishes", pass.def.establishes) + ", " +
         string_field("before", pass.def.before) + ", " + string_field("after", pass.def.after) +
         "}";
}

}  // namespace

namespace {
Pass copy_pass(const tenon_pass_def_t* from) {
  Pass pass;
  pass.def = full_size(from);
  const char* record = reinterpret_cast<const char*>(pass.def.rewrites);
  for (uint32_t r = 0; record != nullptr && r < pass.def.rewrite_count; ++r) {
    // The plugin's record size is the stride between its records.
    const auto* rewrite = reinterpret_cast<const tenon_rewrite_t*>(record);
    // Highest benefit first, equal ones as declared.
    const auto at = std::upper_bound(
        pass.rewrites.begin(), pass.rewrites.end(), rewrite->benefit,
        [](uint32_t b, const tenon_rewrite_t& other) { return b > other.benefit; });
    pass.rewrites.insert(at, full_size(rewrite));
    record += rewrite->size_bytes;
  }
  return pass;
}
}  // namespace

Status Registry::check(const tenon_passes_t& table) {
  for (uint64_t i = 0; i < table.pass_count; ++i)
    TENON_RETURN_IF_ERROR(tenon::pass::check(copy_pass(table.passes[i])));
  return {};
}

Status Registry::adopt(const tenon_passes_t& table) {
  TENON_RETURN_IF_ERROR(check(table));
  for (uint64_t i = 0; i < table.pass_count; ++i) {
    Pass& pass = all_.emplace_back(copy_pass(table.passes[i]));
    pass.table = &table;
    pass.def.rewrites = pass.rewrites.data();
    const Pass*& named = passes_[std::string(text(pass.def.name))];
    if (named == nullptr || named->table != &table) named = &pass;
  }
  return {};
}

Result<const Pass*> Registry::find(std::string_view name) {
  Result<const tenon_passes_t*> table = source_.table(name);
  const std::lock_guard lock(mutex_);
  if (table.ok()) {
    auto at = passes_.find(name);
    if (at == passes_.end() || at->second->table != *table) {
      TENON_RETURN_IF_ERROR(adopt(**table));
      at = passes_.find(name);
    }
    if (at != passes_.end() && at->second->table == *table) return at->second;
  } else if (table.status().code() != TENON_NOT_FOUND) {
    return table.status();
  }
  const std::vector<std::string> names = source_.names();
  Status status = error(TENON_NOT_FOUND, "T0401", "there is no pass {}{}", quoted(name),
                        did_you_mean(name, names));
  if (names.empty())
    return std::move(status).with("passes", "no plugin provides any: see `tenon plugins explain`");
  return std::move(status).with("passes", join_names(names));
}

std::vector<const Pass*> Registry::all() {
  std::vector<const Pass*> passes;
  for (const std::string& name : source_.names()) {
    Result<const Pass*> found = find(name);
    if (found.ok()) passes.push_back(*found);
  }
  return passes;
}

std::string Registry::json(std::string_view filter) {
  std::string json = fmt::format("{{\"schema\": 1, \"standard\": {}, \"passes\": [",
                                 json_quoted(kStandardPipeline));
  bool first = true;
  for (const Pass* pass : all()) {
    if (!filter.empty() && !glob_match(filter, text(pass->def.name))) continue;
    json += (first ? "" : ", ") + pass_json(*pass);
    first = false;
  }
  return json + "]}";
}

}  // namespace tenon::pass
