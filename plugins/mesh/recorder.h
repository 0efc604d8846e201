// The flight recorder: what this process has started and finished, in a file that outlives it.
#ifndef TENON_PLUGINS_MESH_RECORDER_H_
#define TENON_PLUGINS_MESH_RECORDER_H_

#include <string>
#include <string_view>

#include "tenon/abi/collective.h"
#include "tenon/cpp/flight_file.hpp"

namespace tenon::mesh {

// Not safe: the line's mutex guards it. Without a file, because there is none or TENON_FLIGHT=off,
// it records nothing.
class Recorder {
 public:
  using Entry = flight::Record;

  Recorder() = default;
  ~Recorder() { close(); }
  Recorder(const Recorder&) = delete;

  // The file is TENON_FLIGHT/rank-RANK.flight. If that is not set, the folder is one of this job in
  // the folder for temporary files, and the file is removed when the process ends in order.
  void open(uint32_t rank, uint32_t rank_count, std::string_view engine);
  // Null if nothing is recorded. Overwritten after kflight::Records further ones.
  Entry* begin(uint32_t group, uint64_t sequence, std::string_view name,
               const tenon_transfer_t& transfer, std::string_view place, uint64_t now_ns);
  void end(Entry* entry, uint64_t now_ns) {
    if (entry != nullptr) entry->end_ns = now_ns;
  }
  // "; `tenon flight DIR` shows ..."; empty without a file.
  std::string advice() const;
  // Removes the file, unless it is to stay.
  void close();
  // The file stays, since something went wrong.
  void keep() { keeps_ = true; }

 private:
  bool map(const std::string& path);

  std::string folder_, path_;
  bool keeps_ = false;
  flight::Head* head_ = nullptr;
  flight::Record* records_ = nullptr;
};

}  // namespace tenon::mesh

#endif
