// Group G, layers: each is put in front of the runner's own devices and queues, which record what
// reaches them.
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>

#include <tenon/abi/device.h>
#include <tenon/abi/layer.h>
#include <tenon/abi/queue.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr unsigned kThreads = 4;
constexpr std::string_view kBelow = "conform: this comes from below";

// ---- What lies below the layer ----

// A plugin that only records calls. Its tables occupy as many bytes as a layer may read.
struct Below {
  struct Seen {
    std::string slot;
    const void* self = nullptr;
    uint64_t arguments[5] = {};
  };
  const tenon_host_t* host = nullptr;
  tenon_code_t answer = TENON_OK;
  std::mutex mutex;
  std::vector<Seen> seen;
  std::atomic<uint64_t> calls{0}, buffers{0};
  bool remember = true;
  std::string calling;  // the slot that the runner calls through the layer
  // Whether this call is the layer's own, and makes an object of its own.
  bool makes_own(std::string_view slot) const {
    return remember && !calling.empty() && calling != slot;
  }
  alignas(16) unsigned char device_bytes[TENON_LAYER_TABLE_BYTES] = {};
  alignas(16) unsigned char queue_bytes[TENON_LAYER_TABLE_BYTES] = {};
  tenon_interface_t interfaces[3] = {};

  tenon_device_api_t& device() { return *reinterpret_cast<tenon_device_api_t*>(device_bytes); }
  tenon_queue_api_t& queue() { return *reinterpret_cast<tenon_queue_api_t*>(queue_bytes); }
};

template <typename T>
uint64_t number(T value) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<uint64_t>(value);
  else if constexpr (std::is_same_v<T, tenon_fence_point_t>)
    return value.value;
  else
    return static_cast<uint64_t>(value);
}

template <typename... Args>
tenon_code_t reached(void* self, const char* slot, Args... args) {
  auto& below = *static_cast<Below*>(self);
  ++below.calls;
  if (below.remember) {
    std::lock_guard lock(below.mutex);
    below.seen.push_back({slot, self, {number(args)...}});
  }
  if (below.answer == TENON_OK) return TENON_OK;
  return below.host->fail(below.host->self, below.answer, {kBelow.data(), kBelow.size()}, nullptr,
                          0);
}

// Outputs that the calls below return, to be recognised above.
auto* const kDevice = reinterpret_cast<tenon_device_t*>(0x1000);
auto* const kBuffer = reinterpret_cast<tenon_buffer_t*>(0x2000);
auto* const kImported = reinterpret_cast<tenon_buffer_t*>(0x2800);
auto* const kQueue = reinterpret_cast<tenon_queue_t*>(0x3000);
auto* const kFence = reinterpret_cast<tenon_fence_t*>(0x4000);
// What a layer makes for itself during other calls.
auto* const kOwnQueue = reinterpret_cast<tenon_queue_t*>(0x3800);
auto* const kOwnFence = reinterpret_cast<tenon_fence_t*>(0x4800);
unsigned char g_host_bytes[64];
void* const kMapped = g_host_bytes;
constexpr uint32_t kCount = 3;
constexpr uint64_t kUsed = 77, kPeak = 99, kValue = 12345;

template <typename T>
tenon_code_t give(tenon_code_t code, T* out, T value) {
  if (code == TENON_OK) *out = value;
  return code;
}

void fill_device(Below* below, bool optional) {
  tenon_device_api_t& d = below->device();
  d.size_bytes = sizeof(d);
  d.self = below;
  d.count = [](void* s, uint32_t* out) { return give(reached(s, "count"), out, kCount); };
  d.info = [](void* s, uint32_t ordinal, tenon_device_info_t* out) {
    const tenon_code_t code = reached(s, "info", ordinal);
    if (code == TENON_OK) {
      *out = {};
      out->size_bytes = sizeof(*out);
      out->kind = {"below", 5};
      out->alignment_bytes = 64;
      out->threading = TENON_THREADING_FREE;
    }
    return code;
  };
  d.open = [](void* s, uint32_t ordinal, tenon_device_t** out) {
    return give(reached(s, "open", ordinal), out, kDevice);
  };
  d.close = [](void* s, tenon_device_t* device) { return reached(s, "close", device); };
  d.alloc = [](void* s, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
    const tenon_code_t code = reached(s, "alloc", device, size);
    auto& below = *static_cast<Below*>(s);
    // Different values for objects that are alive at once.
    return give(code, out,
                below.remember
                    ? kBuffer
                    : reinterpret_cast<tenon_buffer_t*>(0x100000 + 16 * ++below.buffers));
  };
  d.free = [](void* s, tenon_device_t* device, tenon_buffer_t* buffer) {
    return reached(s, "free", device, buffer);
  };
  d.copy = [](void* s, tenon_device_t* device, const tenon_copy_t* copy) {
    return reached(s, "copy", device, copy->direction, copy->length_bytes, copy->to);
  };
  if (!optional) return;
  d.map = [](void* s, tenon_device_t* device, tenon_buffer_t* buffer, void** out) {
    return give(reached(s, "map", device, buffer), out, kMapped);
  };
  d.import = [](void* s, tenon_device_t* device, const tenon_memory_import_t* memory,
                tenon_buffer_t** out) {
    return give(reached(s, "import", device, memory->data, memory->length_bytes, memory->flags),
                out, kImported);
  };
  d.memory = [](void* s, tenon_device_t* device, uint64_t* used, uint64_t* peak) {
    const tenon_code_t code = reached(s, "memory", device);
    if (code == TENON_OK) *used = kUsed, *peak = kPeak;
    return code;
  };
  d.alloc_pinned = [](void* s, tenon_device_t* device, uint64_t size, void** out) {
    return give(reached(s, "alloc_pinned", device, size), out, kMapped);
  };
  d.free_pinned = [](void* s, tenon_device_t* device, void* data) {
    return reached(s, "free_pinned", device, data);
  };
  d.free_behind = [](void* s, tenon_device_t* device, tenon_buffer_t* buffer,
                     const tenon_fence_point_t* points, uint32_t count) {
    return reached(s, "free_behind", device, buffer, points[0].fence, points[0].value, count);
  };
}

void fill_queue(Below* below) {
  tenon_queue_api_t& q = below->queue();
  q.size_bytes = sizeof(q);
  q.self = below;
  q.queue_create = [](void* s, tenon_device_t* device, tenon_queue_t** out) {
    const bool own = static_cast<Below*>(s)->makes_own("queue_create");
    return give(reached(s, "queue_create", device), out, own ? kOwnQueue : kQueue);
  };
  q.queue_destroy = [](void* s, tenon_queue_t* queue) {
    return reached(s, "queue_destroy", queue);
  };
  q.copy_async = [](void* s, tenon_queue_t* queue, const tenon_copy_t* copy,
                    const tenon_fence_point_t*, uint32_t count, tenon_fence_point_t signal) {
    return reached(s, "copy_async", queue, copy->length_bytes, count, signal);
  };
  q.fence_create = [](void* s, tenon_device_t* device, uint64_t initial, tenon_fence_t** out) {
    const bool own = static_cast<Below*>(s)->makes_own("fence_create");
    return give(reached(s, "fence_create", device, initial), out, own ? kOwnFence : kFence);
  };
  q.fence_destroy = [](void* s, tenon_fence_t* fence) {
    return reached(s, "fence_destroy", fence);
  };
  q.fence_query = [](void* s, tenon_fence_t* fence, uint64_t* out) {
    return give(reached(s, "fence_query", fence), out, kValue);
  };
  q.fence_signal = [](void* s, tenon_fence_t* fence, uint64_t value) {
    return reached(s, "fence_signal", fence, value);
  };
  q.fence_wait = [](void* s, tenon_fence_t* fence, uint64_t value, uint64_t timeout) {
    return reached(s, "fence_wait", fence, value, timeout);
  };
  q.reaches = [](void* s, tenon_queue_t* queue, tenon_device_t* from, uint32_t* out) {
    return give(reached(s, "reaches", queue, from), out, kCount);
  };
}

std::unique_ptr<Below> make_below(Session& s, bool optional = true) {
  auto below = std::make_unique<Below>();
  below->host = s.host();
  fill_device(below.get(), optional);
  fill_queue(below.get());
  constexpr std::string_view kDeviceId = TENON_DEVICE_ID, kQueueId = TENON_QUEUE_ID,
                             kOwn = "conform.unknown/1";
  below->interfaces[0] = {{kDeviceId.data(), kDeviceId.size()}, 0, 0, below->device_bytes};
  below->interfaces[1] = {{kQueueId.data(), kQueueId.size()}, 0, 0, below->queue_bytes};
  below->interfaces[2] = {{kOwn.data(), kOwn.size()}, 0, 0, below->queue_bytes};
  return below;
}

// ---- The layer ----

struct Layer {
  const tenon_layer_api_t* api = nullptr;
  std::string name;
};

Outcome find_layer(Session& s, Layer* out) {
  CONFORM_TRY(s.load());
  out->api = static_cast<const tenon_layer_api_t*>(s.table(TENON_LAYER_ID));
  if (out->api == nullptr) return not_offered(TENON_LAYER_ID);
  if (out->api->attach == nullptr)
    return skipped("a required slot is null, as B.required-slots reports");
  out->name = view(out->api->name);
  return pass();
}

// What the layer puts in front: full-size tables, with the slots of the table below where it has
// none.
struct Attached {
  tenon_code_t code = TENON_OK;
  const void* tables[4] = {};
  tenon_device_api_t device = {};
  tenon_queue_api_t queue = {};
};

template <typename Table>
void merge(const void* above, const Table& below, Table* out) {
  *out = below;
  if (above == nullptr) return;
  uint32_t size = 0;
  std::memcpy(&size, above, sizeof(size));
  void* self = nullptr;
  std::memcpy(&self, static_cast<const char*>(above) + offsetof(Table, self), sizeof(self));
  for (uint32_t at = offsetof(Table, self) + sizeof(void*);
       at + sizeof(void*) <= std::min<uint32_t>(size, sizeof(Table)); at += sizeof(void*)) {
    void *mine = nullptr, *theirs = nullptr;
    std::memcpy(&mine, static_cast<const char*>(above) + at, sizeof(mine));
    std::memcpy(&theirs, reinterpret_cast<const char*>(&below) + at, sizeof(theirs));
    // Only slots that the table below has are ever called.
    if (mine != nullptr && theirs != nullptr)
      std::memcpy(reinterpret_cast<char*>(out) + at, &mine, sizeof(mine));
    else
      std::memset(reinterpret_cast<char*>(out) + at, 0, sizeof(void*));
  }
  out->self = self;
}

Attached attach(const Layer& layer, Below& below, const char* plugin,
                std::span<const tenon_key_value_t> options = {}) {
  Attached out;
  out.tables[3] = &out;  // past the last entry
  auto subject = sized<tenon_layer_subject_t>();
  subject.plugin = {plugin, std::strlen(plugin)};
  subject.version = {"1.0.0", 5};
  subject.options = options.data();
  subject.option_count = static_cast<uint32_t>(options.size());
  // As a newer host gives them: with fields after those that the layer knows.
  struct Longer {
    tenon_interface_t known;
    uint64_t newer[2];
  };
  Longer longer[3];
  for (uint32_t i = 0; i < 3; ++i) longer[i] = {below.interfaces[i], {UINT64_MAX, UINT64_MAX}};
  subject.interfaces = &longer[0].known;
  subject.interface_count = 3;
  subject.interface_bytes = sizeof longer[0];
  forget_failure();
  out.code = layer.api->attach(layer.api->self, &subject, out.tables);
  if (out.code != TENON_OK) return out;
  merge(out.tables[0], below.device(), &out.device);
  merge(out.tables[1], below.queue(), &out.queue);
  return out;
}

Outcome attach_well(Session& s, const Layer& layer, Below& below, Attached* out,
                    const char* plugin = "conform") {
  s.step("attaching the layer");
  *out = attach(layer, below, plugin);
  if (out->code == TENON_OK) return pass();
  return skipped("it does not attach without options: " + printable(heard_failure().text));
}

// ---- Calls through it ----

struct Call {
  std::string slot;
  bool there = false;  // the layer implements the slot itself
  std::function<tenon_code_t()> run;
  std::vector<uint64_t> arguments;
  std::function<bool()> gave;  // the outputs are those from below
};

// One call of every slot. Objects are those that earlier calls returned.
std::vector<Call> calls_of(Attached& a) {
  static tenon_copy_t copy;
  copy = {};
  copy.size_bytes = sizeof(copy);
  copy.direction = TENON_COPY_FILL;
  copy.to = kBuffer;
  copy.length_bytes = 16;
  copy.pattern_bytes = 4;
  struct Outputs {
    uint32_t count;
    tenon_device_info_t info;
    tenon_device_t* device;
    tenon_buffer_t* buffer;
    tenon_queue_t* queue;
    tenon_fence_t* fence;
    void* mapped;
    uint64_t used, peak, value;
  };
  auto o = std::make_shared<Outputs>();
  o->info.size_bytes = sizeof(o->info);
  tenon_device_api_t& d = a.device;
  tenon_queue_api_t& q = a.queue;
  const auto n = [](auto value) { return number(value); };
  std::vector<Call> calls;
  const auto add = [&](const char* slot, bool there, std::function<tenon_code_t()> run,
                       std::vector<uint64_t> arguments, std::function<bool()> gave) {
    calls.push_back({slot, there, std::move(run), std::move(arguments), std::move(gave)});
  };
  add(
      "count", d.count != nullptr, [&d, o] { return d.count(d.self, &o->count); }, {},
      [o] { return o->count == kCount; });
  add(
      "info", d.info != nullptr, [&d, o] { return d.info(d.self, 2, &o->info); }, {2},
      [o] { return o->info.alignment_bytes == 64; });
  add(
      "open", d.open != nullptr, [&d, o] { return d.open(d.self, 1, &o->device); }, {1},
      [o] { return o->device == kDevice; });
  add(
      "alloc", d.alloc != nullptr, [&d, o] { return d.alloc(d.self, kDevice, 640, &o->buffer); },
      {n(kDevice), 640}, [o] { return o->buffer == kBuffer; });
  add(
      "copy", d.copy != nullptr, [&d] { return d.copy(d.self, kDevice, &copy); },
      {n(kDevice), TENON_COPY_FILL, 16, n(kBuffer)}, nullptr);
  add(
      "map", d.map != nullptr, [&d, o] { return d.map(d.self, kDevice, kBuffer, &o->mapped); },
      {n(kDevice), n(kBuffer)}, [o] { return o->mapped == kMapped; });
  add(
      "memory", d.memory != nullptr,
      [&d, o] { return d.memory(d.self, kDevice, &o->used, &o->peak); }, {n(kDevice)},
      [o] { return o->used == kUsed && o->peak == kPeak; });
  add(
      "queue_create", q.queue_create != nullptr,
      [&q, o] { return q.queue_create(q.self, kDevice, &o->queue); }, {n(kDevice)},
      [o] { return o->queue == kQueue; });
  add(
      "fence_create", q.fence_create != nullptr,
      [&q, o] { return q.fence_create(q.self, kDevice, 5, &o->fence); }, {n(kDevice), 5},
      [o] { return o->fence == kFence; });
  add(
      "copy_async", q.copy_async != nullptr,
      [&q] { return q.copy_async(q.self, kQueue, &copy, nullptr, 0, {kFence, 6}); },
      {n(kQueue), 16, 0, 6}, nullptr);
  add(
      "fence_signal", q.fence_signal != nullptr, [&q] { return q.fence_signal(q.self, kFence, 7); },
      {n(kFence), 7}, nullptr);
  add(
      "fence_query", q.fence_query != nullptr,
      [&q, o] { return q.fence_query(q.self, kFence, &o->value); }, {n(kFence)},
      [o] { return o->value == kValue; });
  add(
      "fence_wait", q.fence_wait != nullptr, [&q] { return q.fence_wait(q.self, kFence, 7, 1000); },
      {n(kFence), 7, 1000}, nullptr);
  add(
      "reaches", q.reaches != nullptr,
      [&q, o] { return q.reaches(q.self, kQueue, kDevice, &o->count); }, {n(kQueue), n(kDevice)},
      [o] { return o->count == kCount; });
  add(
      "import", d.import != nullptr,
      [&d, o] {
        const tenon_memory_import_t memory = {sizeof memory, TENON_IMPORT_WRITE, g_host_bytes, 64};
        return d.import(d.self, kDevice, &memory, &o->buffer);
      },
      {n(kDevice), n(&g_host_bytes[0]), 64, TENON_IMPORT_WRITE},
      [o] { return o->buffer == kImported; });
  add(
      "free_behind", d.free_behind != nullptr && d.import != nullptr,
      [&d] {
        const tenon_fence_point_t point = {kFence, 7};
        return d.free_behind(d.self, kDevice, kImported, &point, 1);
      },
      {n(kDevice), n(kImported), n(kFence), 7, 1}, nullptr);
  add(
      "fence_destroy", q.fence_destroy != nullptr, [&q] { return q.fence_destroy(q.self, kFence); },
      {n(kFence)}, nullptr);
  add(
      "queue_destroy", q.queue_destroy != nullptr, [&q] { return q.queue_destroy(q.self, kQueue); },
      {n(kQueue)}, nullptr);
  add(
      "free", d.free != nullptr, [&d] { return d.free(d.self, kDevice, kBuffer); },
      {n(kDevice), n(kBuffer)}, nullptr);
  add(
      "import", d.import != nullptr,
      [&d, o] {
        const tenon_memory_import_t memory = {sizeof memory, TENON_IMPORT_WRITE, g_host_bytes, 64};
        return d.import(d.self, kDevice, &memory, &o->buffer);
      },
      {n(kDevice), n(&g_host_bytes[0]), 64, TENON_IMPORT_WRITE},
      [o] { return o->buffer == kImported; });
  add(
      "free", d.free != nullptr && d.import != nullptr,
      [&d] { return d.free(d.self, kDevice, kImported); }, {n(kDevice), n(kImported)}, nullptr);
  add(
      "alloc_pinned", d.alloc_pinned != nullptr,
      [&d, o] { return d.alloc_pinned(d.self, kDevice, 4096, &o->mapped); }, {n(kDevice), 4096},
      [o] { return o->mapped == kMapped; });
  add(
      "free_pinned", d.free_pinned != nullptr,
      [&d] { return d.free_pinned(d.self, kDevice, kMapped); }, {n(kDevice), n(kMapped)}, nullptr);
  add(
      "close", d.close != nullptr, [&d] { return d.close(d.self, kDevice); }, {n(kDevice)},
      nullptr);
  return calls;
}

// The call arrives below once, as it was. The layer may add waits to work, and make calls of its
// own on objects that it made.
Outcome arrived_once(Below& below, const Call& call) {
  const std::lock_guard lock(below.mutex);
  std::vector<Below::Seen> same;
  std::copy_if(below.seen.begin(), below.seen.end(), std::back_inserter(same),
               [&](const Below::Seen& seen) {
                 return seen.slot == call.slot && seen.arguments[0] != number(kOwnQueue) &&
                        seen.arguments[0] != number(kOwnFence);
               });
  CONFORM_EXPECT(same.size() == 1, "{} reaches the table below {} times", call.slot, same.size());
  constexpr size_t kWaits = 2;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const uint64_t found = same[0].arguments[i], given = call.arguments[i];
    const bool more_waits = call.slot == "copy_async" && i == kWaits && found > given;
    CONFORM_EXPECT(found == given || more_waits, "argument {} of {} is {:#x} below, and was {:#x}",
                   i, call.slot, found, given);
  }
  return pass();
}

// Makes every call that the layer sees, and checks that it arrives below.
Outcome pass_through(Session& s, Below& below, Attached& attached, size_t* tried) {
  for (const Call& call : calls_of(attached)) {
    if (!call.there) continue;
    {
      const std::lock_guard lock(below.mutex);
      below.seen.clear();
      below.calling = call.slot;
    }
    s.step("calling " + call.slot + " through the layer");
    const tenon_code_t code = call.run();
    CONFORM_EXPECT(code == TENON_OK, "{} gives {}, and below it gave OK: {}", call.slot,
                   code_text(code), printable(heard_failure().text));
    CONFORM_TRY(arrived_once(below, call));
    CONFORM_EXPECT(!call.gave || call.gave(), "what {} gave below does not come back", call.slot);
    ++*tried;
  }
  below.calling.clear();
  return pass();
}

// ---- The checks ----

constexpr std::string_view kUnknownOption = "conform_nonesuch";

Attached attach_with_unknown_option(Session& s, const Layer& layer, Below& below) {
  const tenon_key_value_t options[] = {{{kUnknownOption.data(), kUnknownOption.size()}, {"1", 1}}};
  s.step("attaching with an unknown option");
  return attach(layer, below, "conform", options);
}

Outcome layer_options(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  auto below = make_below(s);
  const Attached attached = attach_with_unknown_option(s, layer, *below);
  CONFORM_EXPECT(attached.code == TENON_INVALID_ARGUMENT, "an unknown option gives {}",
                 code_text(attached.code));
  CONFORM_EXPECT(heard_failure().code == attached.code &&
                     heard_failure().text.find(kUnknownOption) != std::string::npos,
                 "the text of the refusal does not name the option: {}",
                 printable(heard_failure().text));
  return pass();
}

// Its refusal of an option: the one error that every layer can produce.
Outcome layer_error_text(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  auto below = make_below(s);
  if (attach_with_unknown_option(s, layer, *below).code == TENON_OK)
    return skipped("it takes any option, as G.layer-options reports");
  const std::string name(view(layer.api->name));
  const std::string text = heard_failure().text;
  CONFORM_EXPECT(text.starts_with(name) &&
                     !std::isalnum(static_cast<unsigned char>(text.c_str()[name.size()])),
                 "an error of the layer {} begins with {}", quoted(name),
                 quoted(text.substr(0, 40)));
  return pass();
}

Outcome layer_attach(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  CONFORM_EXPECT(!layer.name.empty(), "it has no name");
  auto below = make_below(s);
  Attached attached;
  CONFORM_TRY(attach_well(s, layer, *below, &attached));
  CONFORM_EXPECT(below->calls == 0, "attach calls {} of the tables below",
                 below->seen.empty() ? "something" : below->seen[0].slot);
  CONFORM_EXPECT(attached.tables[2] == nullptr,
                 "attach sets the entry of an interface that it cannot know");
  CONFORM_EXPECT(attached.tables[3] != nullptr && attached.tables[3] != attached.tables[0],
                 "attach sets an entry past the last");
  for (int i = 0; i < 2; ++i) {
    if (attached.tables[i] == nullptr) continue;
    uint32_t size = 0;
    std::memcpy(&size, attached.tables[i], sizeof(size));
    CONFORM_EXPECT(size >= 16 && size <= TENON_LAYER_TABLE_BYTES,
                   "its table of {} says that it has {} bytes", view(below->interfaces[i].id),
                   size);
  }
  return pass();
}

Outcome layer_passes_on(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  auto below = make_below(s);
  Attached attached;
  CONFORM_TRY(attach_well(s, layer, *below, &attached));
  if (attached.tables[0] == nullptr && attached.tables[1] == nullptr)
    return not_offered("a table of devices or queues");
  size_t tried = 0;
  CONFORM_TRY(pass_through(s, *below, attached, &tried));
  // Each call fails once and then succeeds, so that the next has the objects that it needs.
  for (const Call& call : calls_of(attached)) {
    if (!call.there) continue;
    s.step("calling " + call.slot + " through the layer, to fail below");
    below->answer = TENON_UNAVAILABLE;
    forget_failure();
    const tenon_code_t code = call.run();
    CONFORM_EXPECT(code == TENON_UNAVAILABLE, "{} gives {}, and below it failed with UNAVAILABLE",
                   call.slot, code_text(code));
    CONFORM_EXPECT(heard_failure().text == kBelow,
                   "{} fails with the text {}, and not with that from below", call.slot,
                   quoted(heard_failure().text));
    below->answer = TENON_OK;
    (void)call.run();
  }
  return tried == 0 ? not_offered("a slot of devices or queues") : pass();
}

Outcome layer_fewer_slots(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  auto below = make_below(s, false);
  Attached attached;
  CONFORM_TRY(attach_well(s, layer, *below, &attached));
  size_t tried = 0;
  return pass_through(s, *below, attached, &tried);
}

Outcome layer_other_sizes(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  for (const bool longer : {true, false}) {
    auto below = make_below(s, longer);
    if (longer) {
      below->device().size_bytes += 64;
      below->queue().size_bytes += 64;
      void (*unknown)() = [] { std::abort(); };
      for (size_t at = sizeof(tenon_device_api_t); at < sizeof(tenon_device_api_t) + 64;
           at += sizeof(void*))
        std::memcpy(below->device_bytes + at, &unknown, sizeof(unknown));
    } else {
      below->device().size_bytes = offsetof(tenon_device_api_t, map);
    }
    Attached attached;
    CONFORM_TRY(attach_well(s, layer, *below, &attached));
    size_t tried = 0;
    const Outcome outcome = pass_through(s, *below, attached, &tried);
    CONFORM_EXPECT(outcome.verdict == Verdict::kPass, "with tables below that are {}: {}",
                   longer ? "longer" : "shorter", outcome.text);
  }
  return pass();
}

Outcome layer_several(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  auto first = make_below(s), second = make_below(s);
  Attached a, b;
  CONFORM_TRY(attach_well(s, layer, *first, &a, "conform-a"));
  CONFORM_TRY(attach_well(s, layer, *second, &b, "conform-b"));
  const std::vector<Call> of_a = calls_of(a), of_b = calls_of(b);
  for (size_t i = 0; i < of_a.size(); ++i) {
    for (const bool is_a : {true, false}) {
      const Call& call = is_a ? of_a[i] : of_b[i];
      Below& mine = is_a ? *first : *second;
      Below& other = is_a ? *second : *first;
      if (!call.there) continue;
      const uint64_t before = other.calls, own = mine.calls;
      s.step("calling " + call.slot + " through the layer in front of two plugins");
      CONFORM_EXPECT(call.run() == TENON_OK, "{} fails with two plugins below: {}", call.slot,
                     printable(heard_failure().text));
      CONFORM_EXPECT(other.calls == before && mine.calls > own,
                     "{} of one plugin reaches the other", call.slot);
    }
  }
  return pass();
}

Outcome layer_threads(Session& s) {
  Layer layer;
  CONFORM_TRY(find_layer(s, &layer));
  auto below = make_below(s);
  Attached attached;
  CONFORM_TRY(attach_well(s, layer, *below, &attached));
  tenon_device_t* device = nullptr;
  tenon_fence_t* fence = nullptr;
  if (attached.device.open != nullptr) (void)attached.device.open(attached.device.self, 0, &device);
  if (attached.queue.fence_create != nullptr)
    (void)attached.queue.fence_create(attached.queue.self, kDevice, 0, &fence);
  below->remember = false;
  // Fences are safe from every thread and, with FREE threading, so are devices.
  std::vector<std::string> problems(kThreads);
  constexpr int kRounds = 2000;
  const auto rounds = [&](unsigned t) {
    for (int round = 0; round < kRounds && problems[t].empty(); ++round) {
      tenon_buffer_t* buffer = nullptr;
      uint64_t value = 0;
      tenon_device_api_t& d = attached.device;
      tenon_queue_api_t& q = attached.queue;
      if (d.alloc != nullptr && d.alloc(d.self, kDevice, 64 + t, &buffer) != TENON_OK)
        problems[t] = "alloc fails";
      if (d.free != nullptr && buffer != nullptr && d.free(d.self, kDevice, buffer) != TENON_OK)
        problems[t] = "free fails";
      if (q.fence_query != nullptr && q.fence_query(q.self, kFence, &value) != TENON_OK)
        problems[t] = "fence_query fails";
    }
  };
  // A layer may add calls of its own: as many as it makes for one thread after the other.
  s.step("calling through the layer from one thread");
  below->calls = 0;
  for (unsigned t = 0; t < kThreads; ++t) rounds(t);
  const uint64_t alone = below->calls;
  s.step("calling through the layer from several threads");
  below->calls = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(rounds, t);
  }
  for (const std::string& problem : problems)
    CONFORM_EXPECT(problem.empty(), "in one of several threads {}", problem);
  const uint64_t slots = (attached.device.alloc != nullptr) + (attached.device.free != nullptr) +
                         (attached.queue.fence_query != nullptr);
  CONFORM_EXPECT(alone >= slots * kThreads * kRounds, "{} calls from one thread become {} below",
                 slots * kThreads * kRounds, alone);
  CONFORM_EXPECT(below->calls == alone,
                 "{} calls from several threads become {} below, and {} from one",
                 slots * kThreads * kRounds, below->calls.load(), alone);
  return pass();
}

constexpr Check kChecks[] = {
    {"R-G17", "layer-options", layer_options},
    {"R-G18", "layer-attach", layer_attach},
    {"R-G19", "layer-passes-on", layer_passes_on},
    {"R-G20", "layer-fewer-slots", layer_fewer_slots},
    {"R-G21", "layer-other-sizes", layer_other_sizes},
    {"R-G22", "layer-several", layer_several},
    {"R-G23", "layer-threads", layer_threads},
    {"R-G24", "layer-error-text", layer_error_text},
};

}  // namespace

std::span<const Check> layer_checks() {
  return kChecks;
}

}  // namespace tenon::conform
