// Which processes have ended. Each one tells all others before it ends, so that none waits for data
// that nobody will send.
#ifndef TENON_PLUGINS_MESH_FAREWELL_H_
#define TENON_PLUGINS_MESH_FAREWELL_H_

#include <cstdint>
#include <list>

#include "line.h"
#include "tenon/abi/collective.h"

namespace tenon::mesh {

// The line's mutex guards it.
class Farewell {
 public:
  // Jobs of more processes than this do without: every pair has a message.
  static constexpr uint32_t kRanksMax = 256;

  ~Farewell();
  Status open(const tenon_collective_api_t& api, tenon_comm_t* world, uint32_t rank,
              uint32_t rank_count);
  // Looks for news.
  Status look();
  bool has_ended(int64_t rank) const;
  // Tells the others.
  Status send(Line& line);
  // Waits until all have told this one.
  Status wait(Line& line);

 private:
  struct Message {
    int64_t rank = 0;
    char byte = 0;
    tenon_work_t* work = nullptr;  // null: it has arrived
  };
  Status start(Message& message, uint32_t transfer);
  Status test(std::list<Message>& messages, bool* out_done);

  const tenon_collective_api_t* api_ = nullptr;
  tenon_comm_t* world_ = nullptr;
  std::list<Message> from_, to_;
};

}  // namespace tenon::mesh

#endif
