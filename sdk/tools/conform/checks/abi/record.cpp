// Group B: the record and the tables, hosts of other versions, and what holds for every call.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/frontend.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/ops.h>
#include <tenon/abi/pass.h>
#include <tenon/abi/toolchain.h>

#include "sdk/tools/conform/checks/abi/boundary.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/exercise.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr double kQuerySecondsMax = 1.0;

uint32_t size_of(const void* table) {
  uint32_t size = 0;
  std::memcpy(&size, table, sizeof(size));
  return size;
}

// Whether a text is a single line, like a name, or may have several, like documentation.
enum class Lines { kOne, kMany };

bool sound_text(tenon_str_t text, Lines lines) {
  if (text.data == nullptr) return text.size == 0;
  if (text.size > (1u << 20) || !is_valid_utf8({text.data, text.size})) return false;
  return std::none_of(text.data, text.data + text.size, [lines](char c) {
    const bool layout = c == '\n' || c == '\t';
    return (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) &&
           !(layout && lines == Lines::kMany);
  });
}

// ---- The query ----

Outcome query_answers(Session& s) {
  tenon_code_t code = TENON_OK;
  CONFORM_TRY(s.ask({}, TENON_ABI_VERSION, &code));
  if (code == TENON_OK) {
    CONFORM_EXPECT(s.record() != nullptr && s.record() != untouched_record(),
                   "it gives OK and no record");
    return pass();
  }
  CONFORM_EXPECT(code <= kLastCode, "it gives the code {}, which does not exist", code);
  CONFORM_EXPECT(
      heard_failure().any && heard_failure().code == code && !heard_failure().text.empty(),
      "it gives {} and reported no reason with that code to the host", code_text(code));
  return skipped("it refuses on this machine: " + printable(heard_failure().text));
}

// By the clock, since a query may sleep, but without the time that the thread waits for a
// processor. The best of several tries, each in a process of its own: on a busy machine one alone
// says little.
Outcome query_time(Session& s) {
  std::string why;
  if (installed_host(&why) == nullptr) return skipped("the installed host does not start: " + why);
  double best = HUGE_VAL;
  for (int time = 0; time < 6 && best > kQuerySecondsMax; ++time) {
    const Outcome outcome = s.apart([&]() -> Outcome {
      if (s.open().verdict != Verdict::kPass)
        return skipped("the library does not open, as A.opens reports");
      const double queued = seconds_queued();
      const auto begin = std::chrono::steady_clock::now();
      CONFORM_TRY(s.load());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      return {Verdict::kPass, fmt::format("{:.6f}", took.count() - (seconds_queued() - queued))};
    });
    CONFORM_TRY(outcome);
    best = std::min(best, std::strtod(outcome.text.c_str(), nullptr));
  }
  CONFORM_EXPECT(best <= kQuerySecondsMax, "it took {:.2f} s, and longer at other times", best);
  return pass();
}

// The answer as text, for comparison between processes.
std::string description(const tenon_plugin_t* record) {
  std::string text =
      fmt::format("{} {} abi {} ", view(record->name), view(record->version), record->abi);
  for (uint64_t i = 0; i < std::min(record->interface_count, kInterfacesMax); ++i) {
    const tenon_interface_t& interface = record->interfaces[i];
    text += fmt::format("{} minor {} of {} bytes; ", view(interface.id), interface.minor,
                        interface.table == nullptr ? 0 : size_of(interface.table));
  }
  return text;
}

// The query's answer under a host of this shape: its description, or "refused: ...".
Outcome answer_under(Session& s, const HostShape& shape, uint32_t max_abi) {
  return s.apart([&] {
    tenon_code_t code = TENON_OK;
    CONFORM_TRY(s.ask(shape, max_abi, &code));
    if (code != TENON_OK) {
      CONFORM_EXPECT(code <= kLastCode, "it gives the code {}, which does not exist", code);
      CONFORM_EXPECT(heard_failure().any && !heard_failure().text.empty(),
                     "it refuses with {} and without a reason", code_text(code));
      CONFORM_EXPECT(s.record() == untouched_record(), "it fails and changes its output");
      return Outcome{Verdict::kPass, "refused: " + heard_failure().text};
    }
    CONFORM_EXPECT(s.record() != nullptr && s.record() != untouched_record(),
                   "it gives OK and no record");
    return Outcome{Verdict::kPass, description(s.record())};
  });
}

Outcome same_under(Session& s, const HostShape& shape, uint32_t max_abi, std::string_view host) {
  const Outcome usual = answer_under(s, {}, TENON_ABI_VERSION);
  if (usual.verdict != Verdict::kPass)
    return skipped("the query does not answer this host, as B.query reports");
  s.step(fmt::format("asking the query under {}", host));
  const Outcome other = answer_under(s, shape, max_abi);
  CONFORM_EXPECT(other.verdict == Verdict::kPass, "under {}: {}", host, other.text);
  CONFORM_EXPECT(other.text == usual.text, "under {} it says: {}; otherwise: {}", host,
                 printable(other.text, 400), printable(usual.text, 400));
  return pass();
}

Outcome newer_host(Session& s) {
  constexpr uint32_t kNewer[] = {TENON_ABI_VERSION + 1, TENON_ABI_VERSION + 40,
                                 (TENON_ABI_MAJOR << 16) | 0xffffu};
  for (uint32_t version : kNewer) {
    HostShape shape;
    shape.abi = version;
    CONFORM_TRY(same_under(s, shape, version,
                           fmt::format("a host of ABI {}.{}", version >> 16, version & 0xffff)));
  }
  return pass();
}

Outcome older_host(Session& s) {
  HostShape shape;
  shape.abi = 0;
  s.step("asking the query under a host of ABI 0.0");
  const Outcome answer = answer_under(s, shape, 0);
  return answer.verdict == Verdict::kPass ? pass() : answer;
}

Outcome longer_host(Session& s) {
  HostShape shape;
  shape.longer = true;
  return same_under(s, shape, TENON_ABI_VERSION, "a host with longer tables");
}

// The interfaces that the query requests from the host.
Outcome asked_interfaces(Session& s, std::vector<std::string>* ids) {
  const Outcome asked = s.apart([&] {
    tenon_code_t code = TENON_OK;
    CONFORM_TRY(s.ask({}, TENON_ABI_VERSION, &code));
    std::string text;
    for (const std::string& id : heard().asked) text += id + "\n";
    return Outcome{Verdict::kPass, text};
  });
  CONFORM_TRY(asked);
  for (std::string_view id : split(asked.text, '\n')) ids->emplace_back(id);
  return pass();
}

Outcome poorer_host(Session& s) {
  std::vector<std::string> ids;
  CONFORM_TRY(asked_interfaces(s, &ids));
  for (const std::string& id : ids) {
    HostShape shape;
    shape.missing = id;
    s.step("asking the query under a host without " + id);
    const Outcome answer = answer_under(s, shape, TENON_ABI_VERSION);
    CONFORM_EXPECT(answer.verdict == Verdict::kPass, "under a host without {}: {}", id,
                   answer.text);
  }
  return pass();
}

// Every way the runner has to make the query fail; the first that does shows whether the output was
// kept.
Outcome query_keeps_output(Session& s) {
  std::vector<std::string> ids;
  CONFORM_TRY(asked_interfaces(s, &ids));
  for (const std::string& id : ids) {
    HostShape shape;
    shape.missing = id;
    const Outcome answer = s.apart([&] {
      tenon_code_t code = TENON_OK;
      CONFORM_TRY(s.ask(shape, TENON_ABI_VERSION, &code));
      if (code == TENON_OK) return not_offered("");
      CONFORM_EXPECT(s.record() == untouched_record(), "without {} it fails and changes its output",
                     shape.missing);
      return pass();
    });
    if (answer.verdict != Verdict::kNotOffered) return answer;
  }
  return skipped("its query does not fail, whatever the host lacks");
}

// ---- The record and the tables ----

Outcome record_version(Session& s) {
  CONFORM_TRY(s.load());
  const uint32_t abi = s.record()->abi;
  CONFORM_EXPECT(abi >= TENON_ABI_OLDEST && abi <= TENON_ABI_VERSION,
                 "the record says ABI {}.{}, and this host takes 0.{} to {}.{}", abi >> 16,
                 abi & 0xffff, TENON_ABI_OLDEST & 0xffff, TENON_ABI_MAJOR, TENON_ABI_MINOR);
  return pass();
}

Outcome table_sizes(Session& s) {
  CONFORM_TRY(s.load());
  const tenon_plugin_t& record = *s.record();
  CONFORM_EXPECT(record.size_bytes == sizeof(record),
                 "the record says that it has {} bytes, and the type has {}", record.size_bytes,
                 sizeof(record));
  CONFORM_EXPECT(record.interface_count <= kInterfacesMax &&
                     (record.interface_count == 0 || record.interfaces != nullptr),
                 "the record says that it has {} interfaces at {}", record.interface_count,
                 static_cast<const void*>(record.interfaces));
  CONFORM_EXPECT(record.interface_count == 0 || record.interface_bytes == sizeof(tenon_interface_t),
                 "the record says that one of its interfaces has {} bytes, and the type has {}",
                 record.interface_bytes, sizeof(tenon_interface_t));
  for (uint64_t i = 0; i < record.interface_count; ++i) {
    const tenon_interface_t& interface = record.interfaces[i];
    if (interface.table == nullptr) continue;
    const uint32_t size = size_of(interface.table);
    CONFORM_EXPECT(size >= sizeof(uint32_t) && size <= kTableBytesMax,
                   "{} says that it has {} bytes", view(interface.id), size);
    for (const SlotList& list : slot_lists()) {
      if (list.id != view(interface.id)) continue;
      CONFORM_EXPECT(size <= list.size_bytes,
                     "{} says that it has {} bytes, and the type of ABI {}.{} has {}", list.id,
                     size, TENON_ABI_MAJOR, TENON_ABI_MINOR, list.size_bytes);
      const auto last = std::max_element(list.required.begin(), list.required.end());
      const size_t least = last == list.required.end() ? sizeof(uint32_t) : *last + sizeof(void*);
      CONFORM_EXPECT(size >= least,
                     "{} says that it has {} bytes, and its last required slot ends at {}", list.id,
                     size, least);
    }
  }
  return pass();
}

Outcome required_slots(Session& s) {
  CONFORM_TRY(walkable(s));
  for (const SlotList& list : slot_lists()) {
    const tenon_interface_t* interface = s.offered(list.id);
    if (interface == nullptr || interface->table == nullptr) continue;
    for (size_t i = 0; i < list.required.size(); ++i) {
      const uint32_t offset = list.required[i];
      const std::string& name = list.required_names[i];
      if (offset + sizeof(void*) > size_of(interface->table))
        return failed("{} ends before its required slot {}", list.id, name);
      void* slot = nullptr;
      std::memcpy(&slot, static_cast<const char*>(interface->table) + offset, sizeof(slot));
      CONFORM_EXPECT(slot != nullptr, "{} has null in its required slot {}", list.id, name);
    }
  }
  return pass();
}

bool sound_id(std::string_view id) {
  const size_t slash = id.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return false;
  uint64_t major = 0;
  const bool name_fine =
      std::all_of(id.begin(), id.begin() + static_cast<ptrdiff_t>(slash), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
      });
  return name_fine && parse_u64(id.substr(slash + 1), &major) && major > 0;
}

Outcome interface_ids(Session& s) {
  CONFORM_TRY(walkable(s));
  std::set<std::string_view> seen;
  for (uint64_t i = 0; i < s.record()->interface_count; ++i) {
    const tenon_interface_t& interface = s.record()->interfaces[i];
    const std::string_view id = view(interface.id);
    CONFORM_EXPECT(sound_id(id), "{} is not of the form NAME/MAJOR", quoted(id));
    CONFORM_EXPECT(seen.insert(id).second, "{} is offered twice", id);
    CONFORM_EXPECT(interface.table != nullptr, "{} has no table", id);
  }
  return pass();
}

Outcome check_texts(std::string_view owner, std::initializer_list<tenon_str_t> texts,
                    Lines lines = Lines::kOne) {
  for (const tenon_str_t& text : texts) {
    CONFORM_EXPECT(sound_text(text, lines), "a text of {} is {} bytes at {}: {}", owner, text.size,
                   static_cast<const void*>(text.data),
                   text.data != nullptr && text.size < 4096 ? quoted(view(text)) : "");
  }
  return pass();
}

Outcome device_texts(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  if (find_devices(s, &api, &count).verdict != Verdict::kPass) return pass();
  for (uint32_t ordinal = 0; ordinal < std::min(count, 64u); ++ordinal) {
    auto info = sized<tenon_device_info_t>();
    if (api->info(api->self, ordinal, &info) != TENON_OK) continue;
    CONFORM_TRY(
        check_texts(fmt::format("device {}", ordinal), {info.kind, info.description, info.target}));
  }
  return pass();
}

Outcome list_texts(Session& s) {
  if (const auto* ops = static_cast<const tenon_ops_t*>(s.table(TENON_OPS_ID))) {
    for (uint64_t i = 0; i < ops->op_count; ++i) {
      const tenon_op_def_t& op = *ops->ops[i];
      CONFORM_TRY(check_texts(fmt::format("op {}", i), {op.name, op.summary}));
      CONFORM_TRY(check_texts(fmt::format("op {}", i), {op.doc}, Lines::kMany));
    }
  }
  if (const auto* passes = static_cast<const tenon_passes_t*>(s.table(TENON_PASS_ID))) {
    for (uint64_t i = 0; i < passes->pass_count; ++i) {
      const tenon_pass_def_t& pass_def = *passes->passes[i];
      CONFORM_TRY(check_texts(fmt::format("pass {}", i), {pass_def.name, pass_def.summary}));
      CONFORM_TRY(check_texts(fmt::format("pass {}", i),
                              {pass_def.description, pass_def.before, pass_def.after},
                              Lines::kMany));
    }
  }
  return pass();
}

Outcome texts(Session& s) {
  CONFORM_TRY(walkable(s));
  const tenon_plugin_t& record = *s.record();
  CONFORM_TRY(check_texts("the record", {record.name, record.version, record.build_id}));
  for (uint64_t i = 0; i < record.interface_count; ++i)
    CONFORM_TRY(check_texts("an interface", {record.interfaces[i].id}));
  if (const auto* kernels = static_cast<const tenon_kernels_api_t*>(s.table(TENON_KERNELS_ID))) {
    CONFORM_TRY(check_texts(TENON_KERNELS_ID, {kernels->device_kind}));
  }
  if (const auto* frontend = static_cast<const tenon_frontend_api_t*>(s.table(TENON_FRONTEND_ID))) {
    CONFORM_TRY(check_texts(TENON_FRONTEND_ID, {frontend->name, frontend->extensions}));
  }
  if (const auto* toolchain =
          static_cast<const tenon_toolchain_api_t*>(s.table(TENON_TOOLCHAIN_ID))) {
    CONFORM_TRY(check_texts(TENON_TOOLCHAIN_ID, {toolchain->name, toolchain->dialects}));
  }
  CONFORM_TRY(list_texts(s));
  return device_texts(s);
}

Outcome reserved_fields(Session& s) {
  CONFORM_TRY(walkable(s));
  for (uint64_t i = 0; i < s.record()->interface_count; ++i) {
    CONFORM_EXPECT(s.record()->interfaces[i].reserved == 0, "`reserved` of {} is {}",
                   view(s.record()->interfaces[i].id), s.record()->interfaces[i].reserved);
  }
  return pass();
}

// ---- Use ----

std::string bytes_of(const tenon_plugin_t& record) {
  std::string bytes(reinterpret_cast<const char*>(&record), sizeof(record));
  for (uint64_t i = 0; i < record.interface_count; ++i) {
    const tenon_interface_t& interface = record.interfaces[i];
    bytes.append(reinterpret_cast<const char*>(&interface), sizeof(interface));
    if (interface.table != nullptr)
      bytes.append(static_cast<const char*>(interface.table), size_of(interface.table));
  }
  return bytes;
}

Outcome static_tables(Session& s) {
  CONFORM_TRY(walkable(s));
  const std::string before = bytes_of(*s.record());
  const Outcome used = exercise(s);
  if (used.verdict == Verdict::kFail)
    return skipped("its memory does not work, as group C reports");
  const std::string after = bytes_of(*s.record());
  CONFORM_EXPECT(before == after, "the record or a table changed after the query");
  return pass();
}

// For every offered interface, tries its first n optional slots alone; `all`: for every n, else for
// none.
Outcome with_cut_tables(Session& s, bool all) {
  CONFORM_TRY(walkable(s));
  size_t tried = 0;
  for (const SlotList& list : slot_lists()) {
    if (s.offered(list.id) == nullptr || list.optional.empty()) continue;
    for (size_t slots = 0; slots <= (all ? list.optional.size() : 0); ++slots) {
      s.step(fmt::format("using it with {} of {} optional slots of {}", slots, list.optional.size(),
                         list.id));
      const Outcome used = exercise(s, {list.id, slots});
      if (used.verdict == Verdict::kNotOffered) continue;
      CONFORM_EXPECT(used.verdict != Verdict::kFail, "with {} of {} optional slots of {}: {}",
                     slots, list.optional.size(), list.id, used.text);
      CONFORM_TRY(used);
      ++tried;
    }
  }
  return tried == 0 ? not_offered("an interface with optional slots that could be used alone")
                    : pass();
}

Outcome without_optional(Session& s) {
  return with_cut_tables(s, false);
}

Outcome cut_tables(Session& s) {
  return with_cut_tables(s, true);
}

// ---- Old and future hosts ----

// Queries the plugin under a host of this shape, and exercises it.
Outcome works_under(Session& s, const HostShape& shape, const std::string& what) {
  const Outcome outcome = s.apart([&] {
    tenon_code_t code = TENON_OK;
    CONFORM_TRY(s.ask(shape, shape.abi, &code));
    if (code != TENON_OK) {
      CONFORM_EXPECT(heard_failure().any && !heard_failure().text.empty(),
                     "the query refuses with {} and without a reason", code_text(code));
      return pass();
    }
    CONFORM_EXPECT(s.record() != nullptr && s.record() != untouched_record(),
                   "the query gives OK and no record");
    const Outcome used = exercise(s);
    return used.verdict == Verdict::kFail ? used : pass();
  });
  CONFORM_EXPECT(outcome.verdict != Verdict::kFail, "under {}: {}", what, outcome.text);
  return outcome;
}

// Each layout, and each with records in arrays that are longer than today's: a plugin that walks
// them by sizeof reads garbage.
Outcome every_layout(Session& s) {
  for (const AbiLayout& layout : abi_layouts()) {
    for (const uint32_t grown : {0u, 16u, 40u}) {
      HostShape shape;
      shape.abi = layout.major << 16 | layout.minor;
      shape.layout = &layout;
      shape.grown_record_bytes = grown;
      const std::string what = fmt::format(
          "a host of ABI {}.{} with layout {}{}", layout.major, layout.minor, layout.digest,
          grown == 0 ? "" : fmt::format(", whose records in arrays are {} bytes longer", grown));
      s.step("using it under " + what);
      CONFORM_TRY(works_under(s, shape, what));
    }
  }
  return pass();
}

Outcome future_host(Session& s) {
  for (uint32_t version : {TENON_ABI_VERSION, TENON_ABI_VERSION + 1}) {
    HostShape shape;
    shape.abi = version;
    shape.longer = true;
    const std::string what =
        fmt::format("a host of ABI {}.{} with longer tables", version >> 16, version & 0xffff);
    s.step("using it under " + what);
    CONFORM_TRY(works_under(s, shape, what));
  }
  return pass();
}

Outcome shutdown_works(Session& s) {
  CONFORM_TRY(walkable(s));
  if (s.record()->size_bytes < sizeof(tenon_plugin_t) || s.record()->shutdown == nullptr)
    return not_offered("shutdown");
  (void)exercise(s);
  s.step("shutdown");
  forget_failure();
  const tenon_code_t code = s.record()->shutdown(s.record()->self);
  CONFORM_EXPECT(code == TENON_OK, "it gives {}: {}", code_text(code),
                 printable(heard_failure().text));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-B01", "query", query_answers, true},
    {"R-B02", "record-version", record_version},
    {"R-B03", "sizes", table_sizes},
    {"R-B04", "required-slots", required_slots},
    {"R-B05", "interface-ids", interface_ids},
    {"R-B06", "texts", texts},
    {"R-B07", "reserved", reserved_fields},
    {"R-B08", "newer-host", newer_host},
    {"R-B09", "older-host", older_host},
    {"R-B10", "longer-host", longer_host},
    {"R-B11", "poorer-host", poorer_host},
    {"R-B12", "query-time", query_time},
    {"R-B13", "query-output", query_keeps_output},
    {"R-B14", "static-tables", static_tables},
    {"R-B15", "no-optional-slots", without_optional},
    {"R-B16", "cut-tables", cut_tables},
    {"R-B20", "shutdown", shutdown_works},
    {"R-B27", "every-layout", every_layout},
    {"R-B28", "future-host", future_host},
    {"R-B23", "no-exceptions", no_exceptions},
    {"R-B24", "frees-its-own", frees_its_own},
    {"R-B25", "keeps-no-pointers", keeps_no_pointers},
};

}  // namespace

std::span<const Check> abi_checks() {
  static const auto* all = new std::vector<Check>(joined({kChecks, abi_call_checks()}));
  return *all;
}

}  // namespace tenon::conform
