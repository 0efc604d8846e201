// The device: host memory, and one line of work.
#ifndef TENON_PLUGINS_MESH_DEVICE_H_
#define TENON_PLUGINS_MESH_DEVICE_H_

#include "line.h"
#include "ranks.h"
#include "tenon/abi/device.h"

struct tenon_device_t {
  explicit tenon_device_t(uint32_t ordinal) : ranks(ordinal, line) {}
  tenon::mesh::Line line;
  tenon::mesh::Ranks ranks;
};

struct tenon_buffer_t {
  std::byte* data = nullptr;
  uint64_t size_bytes = 0;
  bool is_owned = true;
};

namespace tenon::mesh {
extern const tenon_device_api_t kDeviceTable;
extern const tenon_queue_api_t kQueueTable;
// Ends the engines of all open devices, as the process ends.
Status end_devices(void*);
}  // namespace tenon::mesh

#endif
