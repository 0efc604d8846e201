// Group B: the record and the tables, hosts of other versions, and what is promised of every call.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>

#include <tenon/abi/compile.h>
#include <tenon/abi/frontend.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/ops.h>
#include <tenon/abi/pass.h>
#include <tenon/abi/toolchain.h>

#include "core/base/str.h"
#include "core/conform/borders.h"
#include "core/conform/compile_bench.h"
#include "core/conform/compile_graphs.h"
#include "core/conform/exercise.h"
#include "core/conform/group_tables.h"
#include "core/conform/open_device.h"
#include "core/conform/open_queue.h"
#include "core/conform/session.h"

namespace tenon::conform {
namespace {

constexpr uint32_t kTableBytesMax = 1u << 16;
constexpr uint64_t kInterfacesMax = 64;
constexpr double kQuerySecondsMax = 1.0;
constexpr uint32_t kLastCode = TENON_DEVICE_LOST;

uint32_t size_of(const void* table) {
  uint32_t size = 0;
  std::memcpy(&size, table, sizeof(size));
  return size;
}

// Whether a text is of one line, as a name, or may have several, as a documentation.
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

// The record is there and its list of interfaces can be walked.
Outcome walkable(Session& s) {
  CONFORM_TRY(s.load());
  if (s.record()->size_bytes < offsetof(tenon_plugin_t, shutdown) ||
      s.record()->size_bytes > kTableBytesMax || s.record()->interface_count > kInterfacesMax ||
      (s.record()->interface_count != 0 && s.record()->interfaces == nullptr)) {
    return skipped("the record makes no sense, as B.sizes tells");
  }
  return pass();
}

// ---- The query
// ------------------------------------------------------------------------------------------------------

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
      "it gives {} and told the host no reason with that code", code_text(code));
  return skipped("it refuses on this machine: " + printable(heard_failure().text));
}

// The best of several times, each in a process of its own: on a busy machine one alone says little.
Outcome query_time(Session& s) {
  std::string why;
  if (installed_host(&why) == nullptr) return skipped("the installed host does not start: " + why);
  double best = HUGE_VAL;
  for (int time = 0; time < 6 && best > kQuerySecondsMax; ++time) {
    const Outcome outcome = s.apart([&]() -> Outcome {
      if (s.open().verdict != Verdict::kPass)
        return skipped("the library does not open, as A.opens tells");
      const auto begin = std::chrono::steady_clock::now();
      CONFORM_TRY(s.load());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      return {Verdict::kPass, fmt::format("{:.6f}", took.count())};
    });
    CONFORM_TRY(outcome);
    best = std::min(best, std::strtod(outcome.text.c_str(), nullptr));
  }
  CONFORM_EXPECT(best <= kQuerySecondsMax, "it took {:.2f} s, and longer at other times", best);
  return pass();
}

// The answer as text, to be compared between processes.
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

// What the query says under a host of this shape: its description, or "refused: ...".
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
    return skipped("the query does not answer this host, as B.query tells");
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

// The interfaces that the query asks the host for.
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

// Every way to make the query fail that the runner has; the first that does shows whether the
// output was kept.
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

// ---- The record and the tables
// -----------------------------------------------------------------------------------------

Outcome record_version(Session& s) {
  CONFORM_TRY(s.load());
  const uint32_t abi = s.record()->abi;
  CONFORM_EXPECT(abi == TENON_ABI_VERSION, "the record says ABI {}.{}, and this host speaks {}.{}",
                 abi >> 16, abi & 0xffff, TENON_ABI_MAJOR, TENON_ABI_MINOR);
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
  for (uint64_t i = 0; i < record.interface_count; ++i) {
    const tenon_interface_t& interface = record.interfaces[i];
    if (interface.table == nullptr) continue;
    const uint32_t size = size_of(interface.table);
    CONFORM_EXPECT(size >= sizeof(uint32_t) && size <= kTableBytesMax,
                   "{} says that it has {} bytes", view(interface.id), size);
    for (const SlotList& list : slot_lists()) {
      if (list.id != view(interface.id)) continue;
      CONFORM_EXPECT(size == list.size_bytes,
                     "{} says that it has {} bytes, and the type of ABI {}.{} has {}", list.id,
                     size, TENON_ABI_MAJOR, TENON_ABI_MINOR, list.size_bytes);
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
    CONFORM_EXPECT(sound_id(id), "{} is no NAME/MAJOR", quoted(id));
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
    tenon_device_info_t info = {};
    info.size_bytes = sizeof(info);
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

// ---- Use
// -----------------------------------------------------------------------------------------------------------------

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
  if (used.verdict == Verdict::kFail) return skipped("its memory does not work, as group C tells");
  const std::string after = bytes_of(*s.record());
  CONFORM_EXPECT(before == after, "the record or a table changed after the query");
  return pass();
}

// Every offered interface with its first n optional slots alone; `all` for every n, else for none.
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

// ---- Hosts of then, and of some day
// --------------------------------------------------------------

// What it says and whether it works under a host of this shape.
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

Outcome every_layout(Session& s) {
  for (const AbiLayout& layout : abi_layouts()) {
    HostShape shape;
    shape.abi = layout.major << 16 | layout.minor;
    shape.layout = &layout;
    const std::string what = fmt::format("a host of ABI {}.{} with layout {}", layout.major,
                                         layout.minor, layout.digest);
    s.step("using it under " + what);
    CONFORM_TRY(works_under(s, shape, what));
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

// A call that has to fail, made and judged: code, reason, outputs.
struct Provoked {
  std::string what;
  tenon_code_t code = TENON_OK;
  HeardFailure heard;
  bool outputs_kept = true;
};

template <typename Call>
Provoked provoke(Session& s, std::string what, Call call) {
  s.step(what);
  forget_failure();
  Provoked provoked{std::move(what), TENON_OK, {}, true};
  provoked.code = call(&provoked.outputs_kept);
  provoked.heard = heard_failure();
  return provoked;
}

void provoke_device(Session& s, std::vector<Provoked>& all) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  if (find_devices(s, &api, &count).verdict != Verdict::kPass) return;
  all.push_back(provoke(s, "info beyond the last device", [&](bool* kept) {
    tenon_device_info_t info, before;
    std::memset(&info, 0x5a, sizeof(info));
    info.size_bytes = sizeof(info);
    before = info;
    const tenon_code_t code = api->info(api->self, count, &info);
    *kept = std::memcmp(&info, &before, sizeof(info)) == 0;
    return code;
  }));
  all.push_back(provoke(s, "open beyond the last device", [&](bool* kept) {
    auto* const mark = reinterpret_cast<tenon_device_t*>(&all);
    tenon_device_t* device = mark;
    const tenon_code_t code = api->open(api->self, count, &device);
    *kept = device == mark;
    return code;
  }));
  static auto* device = new OpenDevice(api, 0);  // stays open: the process ends soon
  tenon_buffer_t* buffer = nullptr;
  if (device->open().verdict != Verdict::kPass ||
      device->alloc(256, &buffer).verdict != Verdict::kPass)
    return;
  all.push_back(provoke(s, "alloc of nearly 2^64 bytes", [&](bool* kept) {
    auto* const mark = reinterpret_cast<tenon_buffer_t*>(&all);
    tenon_buffer_t* out = mark;
    const tenon_code_t code = api->alloc(api->self, device->device(), UINT64_MAX - 8, &out);
    *kept = out == mark;
    return code;
  }));
  all.push_back(provoke(s, "a copy that leaves its buffer", [&](bool* kept) {
    Bytes bytes(512, 0x5a);
    const tenon_code_t code = device->to_host(bytes.data(), buffer, 1, 256);
    *kept = bytes == Bytes(512, 0x5a);
    return code;
  }));
  all.push_back(provoke(s, "a fill with a pattern of 3 bytes",
                        [&](bool*) { return device->fill(buffer, 0, 255, 1, 3); }));
}

// A query of a fence whose work failed. Left out where no work fails: of a device that finds ranges
// at submission.
void provoke_queue(Session& s, std::vector<Provoked>& all) {
  constexpr uint64_t kBytes = 64, kMark = 0x5a5a5a5a5a5a5a5a;
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  uint32_t count = 0;
  if (find_devices(s, &api, &count).verdict != Verdict::kPass ||
      find_queues(s, &queues).verdict != Verdict::kPass)
    return;
  static auto* d = new OpenQueues(api, queues, 0);  // stays open: the process ends soon
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  tenon_buffer_t *from = nullptr, *to = nullptr;
  s.step("work that fails");
  if (d->open().verdict != Verdict::kPass || d->queue(&queue).verdict != Verdict::kPass ||
      d->fence(0, &fence).verdict != Verdict::kPass ||
      d->memory().alloc(kBytes, &from).verdict != Verdict::kPass ||
      d->memory().alloc(kBytes, &to).verdict != Verdict::kPass ||
      d->submit_code(queue, async_between(to, kBytes - 8, from, 0, 16), {}, {fence, 1}) != TENON_OK)
    return;
  (void)d->wait_code(fence, 1, kPatienceNs);
  all.push_back(provoke(s, "fence_query of a fence whose work failed", [&](bool* kept) {
    uint64_t value = kMark;
    const tenon_code_t code = queues->fence_query(queues->self, fence, &value);
    *kept = value == kMark;
    return code;
  }));
}

// Sizes for another number of symbols than the graph has.
void provoke_needs(Session& s, std::vector<Provoked>& all) {
  static auto* bench = new CompileBench(s);  // stays open: the process ends soon
  static auto* compiled = new Compiled;
  static auto* part = new std::unique_ptr<Part>;
  OpenDevice* device = nullptr;
  if (bench->ready(pair_graph(), &device, part).verdict != Verdict::kPass ||
      bench->load(*device, **part, compiled).verdict != Verdict::kPass)
    return;
  all.push_back(provoke(s, "needs with a symbol for a graph that has none", [&](bool* kept) {
    const int64_t symbol = 3;
    int64_t dims[TENON_RANK_MAX];
    std::fill_n(dims, TENON_RANK_MAX, -7);
    tenon_output_need_t output = {77, dims, 78};
    tenon_needs_t record = {sizeof(record), 1, &output, 79, 80};
    const tenon_needs_t before = record;
    const tenon_compile_api_t& c = bench->compiler();
    const tenon_code_t code = c.needs(c.self, compiled->executable, {&symbol, 1}, &record);
    *kept = std::memcmp(&record, &before, sizeof(record)) == 0 && output.size_bytes_max == 77 &&
            output.dims == dims && output.alias_input == 78 &&
            std::all_of(dims, dims + TENON_RANK_MAX, [](int64_t dim) { return dim == -7; });
    return code;
  }));
}

tenon_code_t swallow(void*, const void*, uint64_t) {
  return TENON_OK;
}

void provoke_others(Session& s, std::vector<Provoked>& all) {
  static constexpr std::string_view kGarbage = "no such thing, and no code either";
  const tenon_sink_t sink = {nullptr, swallow};
  if (const auto* toolchain =
          static_cast<const tenon_toolchain_api_t*>(s.table(TENON_TOOLCHAIN_ID));
      toolchain != nullptr && toolchain->build != nullptr) {
    all.push_back(provoke(s, "a build in a dialect that nobody has", [&](bool*) {
      tenon_toolchain_options_t options = {};
      options.size_bytes = sizeof(options);
      return toolchain->build(toolchain->self, {nullptr, 0}, {"nonesuch", 8},
                              {kGarbage.data(), kGarbage.size()}, &options, &sink, &sink);
    }));
  }
  if (const auto* compile = static_cast<const tenon_compile_api_t*>(s.table(TENON_COMPILE_ID));
      compile != nullptr && compile->fits != nullptr) {
    all.push_back(provoke(s, "fits of bytes that are no artifact", [&](bool*) {
      return compile->fits(compile->self, {"", 0}, kGarbage.data(), kGarbage.size());
    }));
  }
}

Outcome provoked_all(Session& s, std::vector<Provoked>* all) {
  CONFORM_TRY(walkable(s));
  provoke_device(s, *all);
  provoke_queue(s, *all);
  provoke_needs(s, *all);
  provoke_others(s, *all);
  return all->empty() ? skipped("it offers no call that is sure to fail") : pass();
}

Outcome failures_say_why(Session& s) {
  std::vector<Provoked> all;
  CONFORM_TRY(provoked_all(s, &all));
  for (const Provoked& p : all) {
    if (p.code == TENON_OK) continue;  // whether it must fail is another check's business
    CONFORM_EXPECT(p.code <= kLastCode, "{} gives the code {}, which does not exist", p.what,
                   p.code);
    CONFORM_EXPECT(p.heard.any, "{} gives {} and does not call the host's fail", p.what,
                   code_text(p.code));
    CONFORM_EXPECT(p.heard.code == p.code, "{} gives {} and told the host {}", p.what,
                   code_text(p.code), code_text(p.heard.code));
    CONFORM_EXPECT(!trim(p.heard.text).empty(), "{} gives {} and an empty text", p.what,
                   code_text(p.code));
  }
  return pass();
}

Outcome failures_keep_outputs(Session& s) {
  std::vector<Provoked> all;
  CONFORM_TRY(provoked_all(s, &all));
  for (const Provoked& p : all)
    CONFORM_EXPECT(p.code == TENON_OK || p.outputs_kept, "{} gives {} and changes its output",
                   p.what, code_text(p.code));
  return pass();
}

// A record that a call fills, as bytes.
struct Filled {
  std::string_view name;
  uint32_t whole, less;  // bytes of the type, and where its last field begins
  std::function<tenon_code_t(void* record)> call;
  Bytes begin = {};  // what the caller sets of it, beside size_bytes
};

// The call with a record of `size` bytes that lies at the end of a page that nothing may be written
// behind; what lies before it is looked at. base: that page, and one behind it. Where the record is
// longer than its type, its end stays as it was and the size becomes that of the type.
Outcome record_at_border(const Filled& f, unsigned char* base, size_t page_bytes, uint32_t size) {
  std::memset(base, 0x5a, page_bytes);
  const uint32_t known = std::min(size, f.whole);
  unsigned char* const record = base + page_bytes - size;
  std::memset(record, 0, known);
  std::copy(f.begin.begin(), f.begin.end(), record);
  std::memcpy(record, &size, sizeof(size));
  forget_failure();
  const tenon_code_t code = f.call(record);
  CONFORM_EXPECT(code == TENON_OK, "{} with a record of {} bytes gives {}{}", f.name, size,
                 code_text(code), said());
  const auto untouched = [](unsigned char byte) { return byte == 0x5a; };
  CONFORM_EXPECT(std::all_of(base, record, untouched),
                 "{} writes before the record that it is given", f.name);
  CONFORM_EXPECT(std::all_of(record + known, base + page_bytes, untouched),
                 "{} writes behind the {} bytes that it knows of a record of {}", f.name, known,
                 size);
  uint32_t told = 0;
  std::memcpy(&told, record, sizeof(told));
  CONFORM_EXPECT(told == known,
                 "{} says that the record has {} bytes, of which the caller has {} and the type {}",
                 f.name, told, size, f.whole);
  return pass();
}

template <typename Record>
Filled filled(std::string_view name, size_t less, std::function<tenon_code_t(Record*)> call) {
  return {name, sizeof(Record), static_cast<uint32_t>(less),
          [call = std::move(call)](void* record) { return call(static_cast<Record*>(record)); }};
}

// A host of the same version may have a record that ends earlier than the plugin's, or later.
Outcome borders_of(Session& s, const Filled& f) {
  constexpr size_t kPage = 1 << 16;
  auto* base = static_cast<unsigned char*>(
      ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED) return skipped("no memory for a guarded record");
  ::mprotect(base + kPage, kPage, PROT_NONE);
  for (uint32_t size : {f.whole, f.less, f.whole + 24}) {
    s.step(fmt::format("{} with a record of {} bytes at the end of a page", f.name, size));
    CONFORM_TRY(record_at_border(f, base, kPage, size));
  }
  ::munmap(base, 2 * kPage);
  return pass();
}

// The records of something compiled.
Outcome borders_of_compiled(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  Compiled compiled;
  if (bench.ready(pair_graph(), &device, &part).verdict != Verdict::kPass ||
      bench.load(*device, *part, &compiled).verdict != Verdict::kPass)
    return pass();  // it compiles nothing, or group E tells
  const tenon_compile_api_t& c = bench.compiler();
  CONFORM_TRY(borders_of(
      s, filled<tenon_artifact_info_t>("artifact_info", offsetof(tenon_artifact_info_t, code_bytes),
                                       [&](tenon_artifact_info_t* out) {
                                         return c.artifact_info(c.self, compiled.artifact, out);
                                       })));
  CONFORM_TRY(
      borders_of(s, filled<tenon_executable_info_t>(
                        "executable_info", offsetof(tenon_executable_info_t, constant_bytes),
                        [&](tenon_executable_info_t* out) {
                          return c.executable_info(c.self, compiled.executable, out);
                        })));
  int64_t dims[TENON_RANK_MAX] = {};
  tenon_output_need_t output = {0, dims, TENON_NO_ALIAS};
  tenon_needs_t asked = {};
  asked.output_count = 1;
  asked.outputs = &output;
  Filled needs = filled<tenon_needs_t>(
      "needs", offsetof(tenon_needs_t, lower_bound_bytes),
      [&](tenon_needs_t* out) { return c.needs(c.self, compiled.executable, {nullptr, 0}, out); });
  const auto* bytes = reinterpret_cast<const unsigned char*>(&asked);
  needs.begin.assign(bytes, bytes + offsetof(tenon_needs_t, workspace_bytes));
  return borders_of(s, needs);
}

Outcome record_borders(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  CONFORM_TRY(
      borders_of(s, filled<tenon_device_info_t>(
                        "info of device 0", offsetof(tenon_device_info_t, copy_latency_ns),
                        [&](tenon_device_info_t* out) { return api->info(api->self, 0, out); })));
  return borders_of_compiled(s);
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

// The first handles of each kind, where a plugin that counts them from 0 gives null.
Outcome handles(Session& s) {
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  tenon_device_t* device = nullptr;
  s.step("open, alloc, queue_create and fence_create");
  if (api->open(api->self, 0, &device) != TENON_OK)
    return skipped("the device does not open, as group C tells");
  CONFORM_EXPECT(device != nullptr, "open gives OK and null");
  tenon_buffer_t* buffer = nullptr;
  CONFORM_EXPECT(api->alloc(api->self, device, 64, &buffer) != TENON_OK || buffer != nullptr,
                 "alloc gives OK and null");
  if (find_queues(s, &queues).verdict != Verdict::kPass) return pass();
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  CONFORM_EXPECT(
      queues->queue_create(queues->self, device, &queue) != TENON_OK || queue != nullptr,
      "queue_create gives OK and null");
  CONFORM_EXPECT(
      queues->fence_create(queues->self, device, 0, &fence) != TENON_OK || fence != nullptr,
      "fence_create gives OK and null");
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
    {"R-B17", "error-text", failures_say_why},
    {"R-B18", "error-outputs", failures_keep_outputs},
    {"R-B19", "record-borders", record_borders},
    {"R-B20", "shutdown", shutdown_works},
    {"R-B23", "no-exceptions", no_exceptions},
    {"R-B24", "frees-its-own", frees_its_own},
    {"R-B25", "keeps-no-pointers", keeps_no_pointers},
    {"R-B27", "every-layout", every_layout},
    {"R-B28", "future-host", future_host},
    {"R-B30", "handles", handles},
};

}  // namespace

std::span<const Check> abi_checks() {
  return kChecks;
}

}  // namespace tenon::conform
