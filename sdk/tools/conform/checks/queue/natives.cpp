// Group D: queues and fences as native handles, and native handles as queues and fences.
#include <string>
#include <vector>

#include <tenon/abi/exchange.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/queue_fixture.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

constexpr size_t kRounds = 64;
constexpr std::string_view kNone = "nobody.handle";

struct Natives {
  const tenon_exchange_api_t* api = nullptr;
  tenon_device_t* device = nullptr;
  std::vector<std::string> streams, fences;  // kinds

  tenon_code_t export_queue(tenon_queue_t* queue, std::string_view kind,
                            tenon_native_handle_t* out) const {
    *out = {};
    out->size_bytes = sizeof *out;
    return api->export_queue(api->self, queue, {kind.data(), kind.size()}, out);
  }
  tenon_code_t export_fence(tenon_fence_t* fence, uint64_t value, std::string_view kind,
                            tenon_native_handle_t* out) const {
    *out = {};
    out->size_bytes = sizeof *out;
    return api->export_fence(api->self, fence, value, {kind.data(), kind.size()}, out);
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

Outcome split_kinds(std::string_view text, std::vector<std::string>* out) {
  std::string rest(text);
  for (size_t comma = 0; comma != std::string::npos;) {
    comma = rest.find(',');
    out->push_back(rest.substr(0, comma));
    CONFORM_EXPECT(out->back().find('.') != std::string::npos, "the kinds are {}", quoted(text));
    if (comma != std::string::npos) rest.erase(0, comma + 1);
  }
  return pass();
}

Outcome natives_of(Session& s, OpenQueues& d, Natives* out) {
  out->api = static_cast<const tenon_exchange_api_t*>(s.table(TENON_EXCHANGE_ID));
  out->device = d.memory().device();
  if (out->api == nullptr || out->api->queue_kinds == nullptr)
    return not_offered("exchange of queues");
  CONFORM_EXPECT(out->api->import_queue != nullptr && out->api->export_queue != nullptr &&
                     out->api->import_fence != nullptr && out->api->export_fence != nullptr,
                 "queue_kinds is there, and not all of the four slots behind it");
  tenon_str_t streams = {}, fences = {};
  const tenon_code_t code = out->api->queue_kinds(out->api->self, out->device, &streams, &fences);
  CONFORM_EXPECT(code == TENON_OK, "queue_kinds gives {}", code_text(code));
  CONFORM_TRY(split_kinds(view(streams), &out->streams));
  return fences.size == 0 ? pass() : split_kinds(view(fences), &out->fences);
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
  return same_bytes(got, *last, "what an imported queue reads behind the stream's own work");
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
  for (const std::string& kind : n.streams) CONFORM_TRY(one_stream(s, d, n, b, kind, &value));
  return pass();
}

// ---- Fences ----

// A native fence for a point of `fence`, and a fence that was imported of it. `refused`: null if
// the work that signals the point is with the device and held by nothing; else it may be too early.
Outcome there_and_back(const Natives& n, tenon_fence_t* fence, uint64_t value,
                       const std::string& kind, tenon_native_handle_t* native,
                       tenon_fence_point_t* point, bool* refused = nullptr) {
  tenon_code_t code = n.export_fence(fence, value, kind, native);
  if (refused != nullptr) *refused = code == TENON_UNIMPLEMENTED;
  if (refused != nullptr && *refused) return pass();
  CONFORM_EXPECT(code == TENON_OK, "export_fence as {} gives {}{}", quoted(kind), code_text(code),
                 said());
  CONFORM_EXPECT(view(native->kind) == kind, "a handle of the kind {} says {}", quoted(kind),
                 quoted(view(native->kind)));
  code = n.import_fence(*native, false, point);
  CONFORM_EXPECT(code == TENON_OK && point->fence != nullptr,
                 "import_fence of a handle that it gave gives {}{}", code_text(code), said());
  return pass();
}

Outcome passes_on(Session& s, OpenQueues& d, const Natives& n, const QueueFixture& b,
                  const std::string& kind) {
  s.step(fmt::format("fences of the kind {}", kind));
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(0, &fence));
  tenon_native_handle_t native;
  tenon_fence_point_t early = {}, held = {}, sent = {}, late = {};
  bool too_early = false, is_held = false;
  CONFORM_TRY(there_and_back(n, fence, 3, kind, &native, &early, &too_early));
  CONFORM_TRY(
      d.submit(b.first, async_fill(b.buffer, 0, kFixtureBytes, 0x77, 1), {b.gate, 3}, {fence, 3}));
  CONFORM_TRY(there_and_back(n, fence, 3, kind, &native, &held, &is_held));
  CONFORM_TRY(d.signal(fence, 2));
  for (const tenon_fence_point_t& p : {early, held})
    if (p.fence != nullptr)
      CONFORM_TRY(d.stays_below(p.fence, p.value, "an imported fence, before its point"));
  CONFORM_TRY(d.signal(b.gate, 3));
  CONFORM_TRY(d.reaches(fence, 3, "a fence with exports"));
  CONFORM_TRY(
      d.submit(b.first, async_fill(b.buffer, 0, kFixtureBytes, 0x78, 1), kNoPoint, {fence, 4}));
  CONFORM_TRY(there_and_back(n, fence, 4, kind, &native, &sent));
  CONFORM_TRY(d.reaches(sent.fence, sent.value, "a fence imported of submitted work"));
  CONFORM_TRY(d.memory().holds(b.buffer, Bytes(kFixtureBytes, 0x78),
                               "a buffer, once an imported fence was reached"));
  CONFORM_TRY(there_and_back(n, fence, 1, kind, &native, &late));
  for (const tenon_fence_point_t& p : {early, held, sent, late}) {
    if (p.fence == nullptr) continue;
    CONFORM_TRY(d.reaches(p.fence, p.value, "an imported fence"));
    CONFORM_TRY(d.destroy(p.fence));
  }
  return d.destroy(fence);
}

Outcome is_signalled(Session& s, OpenQueues& d, const Natives& n, const QueueFixture& b,
                     const std::string& kind) {
  s.step(fmt::format("signalling fences of the kind {}", kind));
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(0, &fence));
  tenon_native_handle_t native;
  tenon_fence_point_t seen = {}, given = {};
  bool too_early = false;
  CONFORM_TRY(there_and_back(n, fence, 1, kind, &native, &seen, &too_early));
  if (too_early) return d.destroy(fence);  // there is none that somebody else could signal
  const tenon_code_t code = n.import_fence(native, true, &given);
  if (code == TENON_INVALID_ARGUMENT) return pass();  // only its owner signals it
  CONFORM_EXPECT(code == TENON_OK && given.fence != nullptr, "import_fence to signal it gives {}{}",
                 code_text(code), said());
  CONFORM_TRY(d.stays_below(seen.fence, seen.value, "a native fence that work is to signal"));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, given));
  CONFORM_TRY(d.reaches(seen.fence, seen.value, "a native fence that work signalled"));
  for (const tenon_fence_point_t& p : {seen, given}) CONFORM_TRY(d.destroy(p.fence));
  return d.destroy(fence);
}

Outcome fences(Session& s, OpenQueues& d) {
  Natives n;
  CONFORM_TRY(natives_of(s, d, &n));
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  for (const std::string& kind : n.fences) {
    CONFORM_TRY(passes_on(s, d, n, b, kind));
    CONFORM_TRY(is_signalled(s, d, n, b, kind));
  }
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
                     "export_queue as nobody's"));
  CONFORM_TRY(expect(n.export_fence(b.done, 1, kNone, &native), TENON_UNIMPLEMENTED,
                     "export_fence as nobody's"));
  native.kind = {kNone.data(), kNone.size()};
  native.handle = 1;
  CONFORM_TRY(
      expect(n.import_queue(native, &queue), TENON_UNIMPLEMENTED, "import_queue of nobody's"));
  CONFORM_TRY(expect(n.import_fence(native, false, &point), TENON_UNIMPLEMENTED,
                     "import_fence of nobody's"));
  if (n.fences.empty()) return pass();
  s.step("fences of 0");
  native.handle = 0;
  native.kind = {n.fences.front().data(), n.fences.front().size()};
  CONFORM_TRY(expect(n.import_fence(native, false, &point), TENON_INVALID_ARGUMENT,
                     "import_fence of the handle 0"));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-D28", "native-queues", with_queues<streams>},
    {"R-D29", "native-fences", with_queues<fences>},
    {"R-D30", "native-refuses", with_queues<refuses>},
};

}  // namespace

std::span<const Check> queue_native_checks() {
  return kChecks;
}

}  // namespace tenon::conform
