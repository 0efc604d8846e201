// A device on streams: everything of tenon.device/1 but finding and opening devices, and
// tenon.exchange/1, over a vendor's Runtime.
#ifndef TENON_STREAM_DEVICE_H_
#define TENON_STREAM_DEVICE_H_

#include <memory>
#include <mutex>
#include <vector>

#include "tenon/abi/device.h"
#include "tenon/abi/exchange.h"
#include "tenon/stream/queue.h"
#include "tenon/stream/runtime.h"

namespace tenon::stream {

inline constexpr uint64_t kAlignmentBytes = 256;  // of every allocation

// An open device. The vendor's `open` makes it with start_device and gives it out as the host's
// handle; the `close` of the table deletes it.
struct Device {
  ~Device();

  std::string name;  // of the plugin: prefix of reasons
  std::unique_ptr<Runtime> runtime;
  uint64_t memory_bytes = 0;
  std::shared_ptr<Line> own;  // for blocking calls

  std::mutex mutex;
  std::vector<std::shared_ptr<Line>> lines;  // its own, and those of queues
  std::vector<EventHandle> free_events[2];   // [timed]
  size_t events_made[2] = {};                // likewise, free or not
  std::vector<void*> pages, free_slots;      // pinned memory for small results
  uint64_t used_bytes = 0, peak_bytes = 0;

  Status event(bool timed, EventRef* out);
  // kSlotBytes of pinned memory; given back by give_slot.
  Status slot(void** out);
  void give_slot(void* slot);
};
inline constexpr uint64_t kSlotBytes = 64;

struct Buffer {
  Address address = 0;
  uint64_t size_bytes = 0;
  bool imported = false;
};

inline Device* device_of(tenon_device_t* d) {
  return reinterpret_cast<Device*>(d);
}
inline Buffer* buffer_of(tenon_buffer_t* b) {
  return reinterpret_cast<Buffer*>(b);
}

// Makes the streams and threads that every open device has. Current on the calling thread.
Status start_device(Device& device);

// Checks that a copy lies inside its buffers; puts a copy on a stream.
Status check_copy(const tenon_copy_t& copy);
Status enqueue_copy(Runtime& runtime, StreamHandle stream, const tenon_copy_t& copy);
// Waits until the stream's work has ended. A driver may fail a wait and not have waited, and a
// caller that gets a failure frees memory at once. So a failed wait is done once more. Returns the
// first failure.
Fault wait_out(Runtime& runtime, StreamHandle stream);

using CountSlot = decltype(tenon_device_api_t::count);
using InfoSlot = decltype(tenon_device_api_t::info);
using OpenSlot = decltype(tenon_device_api_t::open);
tenon_device_api_t device_table(CountSlot count, InfoSlot info, OpenSlot open);

// What handles a device takes and gives: "cuda.pointer", "cuda.stream", "cuda.event". Without a
// kind of streams, queues are not exchanged; without one of events, no fences.
//
// An event stands for what was recorded last, once for each record, so
//   an event that is waited for   has been recorded when it is imported, and is neither recorded
//                                 again nor destroyed before the fence is. It may be of any context
//                                 or device of the vendor's. Queues wait for it on the device
//   an event to signal            is of the device's own context. It is recorded on the stream of
//                                 the work that signals the fence, when that is submitted: who
//                                 waits for the event does so later. If that work fails before, it
//                                 never is. A signal of the host records it too
// An event cannot fail. If an index outside or an assertion fails work afterwards, only the fence
// reports it. It fails with the context. Handles may be used on all threads.
struct ExchangeKinds {
  std::string_view memory, stream = {}, event = {};
};
// The kinds must live as long as the process.
tenon_exchange_api_t exchange_table(const ExchangeKinds* kinds);

}  // namespace tenon::stream
#endif
