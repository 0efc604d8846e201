// Group D: queues and fences as native handles, and native handles as queues and fences.
#include <string>
#include <vector>

#include <tenon/abi/exchange.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/exchange_kinds.h"
#include "sdk/tools/conform/fixtures/device/queue_fixture.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

constexpr size_t kRounds = 64;
constexpr std::string_view kNone = "nonesuch.handle";

struct Natives {
  const tenon_exchange_api_t* api = nullptr;
  tenon_device_t* device = nullptr;
  ExchangeKinds kinds;

  tenon_code_t export_queue(tenon_queue_t* queue, std::string_view kind,
                            tenon_native_handle_t* out) const {
    *out = {};
    out->size_bytes = sizeof *out;
    return api->export_queue(api->self, queue, {kind.data(), kind.size()}, out);
  }
  tenon_code_t import_queue(const tenon_native_handle_t& stream, tenon_queue_t** out) const {
    return api->import_queue(api->self, device, &stream, out);
  }
  tenon_code_t import_fence(tenon_native_handle_t native, bool to_signal,
                            tenon_fence_point_t* out) const {
    native.flags = to_signal ? TENON_NATIVE_TO_SIGNAL : 0;
    return api->import_fence(api->self, device, &native, out);
  }
};

Outcome natives_of(Session& s, OpenQueues& d, Natives* out) {
  out->api = static_cast<const tenon_exchange_api_t*>(s.table(TENON_EXCHANGE_ID));
  out->device = d.memory().device();
  if (out->api == nullptr || out->api->queue_kinds == nullptr)
    return not_offered("exchange of queues");
  CONFORM_EXPECT(out->api->import_queue != nullptr && out->api->export_queue != nullptr &&
                     out->api->import_fence != nullptr,
                 "queue_kinds is there, and not all of the three slots after it");
  return ask_kinds(*out->api, d.memory().ordinal(), &out->kinds);
}

// ---- Streams ----

// Copies on the queue, then one on another queue of its stream, with no fence between.
Outcome follows_the_stream(OpenQueues& d, const QueueFixture& b, tenon_queue_t* second,
                           uint64_t value) {
  Bytes& got = d.keep(Bytes(kFixtureBytes, 0x11));
  const Bytes* last = nullptr;
  for (size_t i = 0; i < kRounds; ++i) {
    last = &d.keep(pattern_bytes(kFixtureBytes, static_cast<uint32_t>(100 + i)));
    CONFORM_TRY(d.submit(b.first, async_write(b.buffer, 0, last->data(), last->size()), kNoPoint,
                         kNoPoint));
  }
  CONFORM_TRY(
      d.submit(second, async_read(got.data(), b.buffer, 0, got.size()), kNoPoint, {b.done, value}));
  CONFORM_TRY(d.reaches(b.done, value, "work of an imported queue"));
  return same_bytes(got, *last, "what an imported queue reads after the stream's own work");
}

Outcome one_stream(Session& s, OpenQueues& d, const Natives& n, const QueueFixture& b,
                   const std::string& kind, uint64_t* value) {
  s.step(fmt::format("streams of the kind {}", kind));
  tenon_native_handle_t stream;
  tenon_code_t code = n.export_queue(b.first, kind, &stream);
  CONFORM_EXPECT(code == TENON_OK, "export_queue as {} gives {}{}", quoted(kind), code_text(code),
                 said());
  CONFORM_EXPECT(view(stream.kind) == kind, "a handle of the kind {} says {}", quoted(kind),
                 quoted(view(stream.kind)));
  tenon_queue_t* second = nullptr;
  code = n.import_queue(stream, &second);
  CONFORM_EXPECT(code == TENON_OK && second != nullptr,
                 "import_queue of a handle that it gave gives {}{}", code_text(code), said());
  CONFORM_TRY(follows_the_stream(d, b, second, ++*value));
  s.step("waits and signals of an imported queue");
  const Bytes& late = d.keep(pattern_bytes(kFixtureBytes, 9));
  CONFORM_TRY(d.submit(second, async_write(b.buffer, 0, late.data(), late.size()),
                       {b.gate, *value + 1}, {b.done, *value + 1}));
  ++*value;
  CONFORM_TRY(d.stays_below(b.done, *value, "work of an imported queue that waits"));
  CONFORM_TRY(d.signal(b.gate, *value));
  s.step("destroying an imported queue with work on it");
  code = d.api().queue_destroy(d.api().self, second);
  CONFORM_EXPECT(code == TENON_OK, "queue_destroy of an imported queue gives {}", code_text(code));
  CONFORM_TRY(stands_at(d, b.done, *value, "after an imported queue was destroyed"));
  CONFORM_TRY(d.memory().holds(b.buffer, late, "what an imported queue wrote"));
  s.step("the queue whose stream was imported");
  const Bytes& more = d.keep(pattern_bytes(kFixtureBytes, 10));
  CONFORM_TRY(d.submit(b.first, async_write(b.buffer, 0, more.data(), more.size()), kNoPoint,
                       {b.done, ++*value}));
  CONFORM_TRY(d.reaches(b.done, *value, "work of a queue whose import was destroyed"));
  return d.memory().holds(b.buffer, more, "what a queue wrote whose import was destroyed");
}

Outcome streams(Session& s, OpenQueues& d) {
  Natives n;
  CONFORM_TRY(natives_of(s, d, &n));
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  uint64_t value = 0;
  for (const std::string& kind : n.kinds.streams) CONFORM_TRY(one_stream(s, d, n, b, kind, &value));
  return pass();
}

// ---- Refusals ----

Outcome refuses(Session& s, OpenQueues& d) {
  Natives n;
  CONFORM_TRY(natives_of(s, d, &n));
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  const auto expect = [](tenon_code_t code, tenon_code_t wanted, std::string_view what) -> Outcome {
    CONFORM_EXPECT(code == wanted, "{} gives {}", what, code_text(code));
    return pass();
  };
  tenon_native_handle_t native;
  tenon_queue_t* queue = nullptr;
  tenon_fence_point_t point = {};
  s.step("kinds that are none");
  CONFORM_TRY(expect(n.export_queue(b.first, kNone, &native), TENON_UNIMPLEMENTED,
                     "export_queue as an unknown kind"));
  native.kind = {kNone.data(), kNone.size()};
  native.handle = 1;
  CONFORM_TRY(expect(n.import_queue(native, &queue), TENON_UNIMPLEMENTED,
                     "import_queue of an unknown kind"));
  CONFORM_TRY(expect(n.import_fence(native, false, &point), TENON_UNIMPLEMENTED,
                     "import_fence of an unknown kind"));
  if (n.kinds.fences.empty()) return pass();
  s.step("fences of 0");
  native.handle = 0;
  native.kind = {n.kinds.fences.front().data(), n.kinds.fences.front().size()};
  CONFORM_TRY(expect(n.import_fence(native, false, &point), TENON_INVALID_ARGUMENT,
                     "import_fence of the handle 0"));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-D28", "native-queues", with_queues<streams>},
    {"R-D30", "native-refuses", with_queues<refuses>},
};

}  // namespace

std::span<const Check> queue_native_checks() {
  return kChecks;
}

}  // namespace tenon::conform
