// What the processes tell each other outside of their transfers: that one has ended, and what one
// waits for. So a process that waits for data that will never come finds out long before the limit.
#ifndef TENON_PLUGINS_MESH_NEWS_H_
#define TENON_PLUGINS_MESH_NEWS_H_

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "line.h"
#include "tenon/abi/collective.h"

namespace tenon::mesh {

// The transfer that a process waits for.
struct Waiting {
  uint32_t group = 0;     // the number of the communicator
  uint64_t sequence = 0;  // of the transfer there
  std::string text;       // for people
};

// The line's mutex guards it.
class News {
 public:
  // Larger jobs do without: every pair of processes has messages.
  static constexpr uint32_t kRanksMax = 256;

  ~News();
  Status open(const tenon_collective_api_t& api, tenon_comm_t* world, uint32_t rank,
              uint32_t rank_count);
  // A transfer of a group begins.
  void started(uint32_t group, uint64_t sequence) { started_[group] = sequence; }
  // Tells the others what this process waits for.
  Status tell(const Waiting& waiting);
  // Receives what has come.
  Status look();
  bool has_ended(int64_t rank) const;
  // Whether `rank` waits for a transfer that this process has not started, and has not started the
  // one that this process waits for: then both wait for ever. out_text: what that process waits
  // for.
  bool is_stuck_with(int64_t rank, const Waiting& own, std::string* out_text) const;
  // Tells the others that this process ends.
  Status tell_end(Line& line);
  // Whether all others have said so to this one, and have what this one sent.
  Status are_over(Line& line, bool* out_over);

 private:
  static constexpr size_t kGroups = 16, kTextBytes = 232;
  // One message; its last one says that the process has ended.
  struct Message {
    uint32_t has_ended = 0, group = 0, group_count = 0, reserved = 0;
    uint64_t sequence = 0;
    struct {
      uint64_t group, sequence;  // started last
    } groups[kGroups] = {};
    char text[kTextBytes] = {};
  };
  struct Other {
    int64_t rank = 0;
    Message incoming, last;
    tenon_work_t* work = nullptr;  // null: it has ended
    bool has_told = false;         // `last` is valid
  };
  struct Sent {
    Message message;
    tenon_work_t* work = nullptr;
  };
  Status start(Message& message, int64_t rank, uint32_t transfer, tenon_work_t** out);
  Status send(const Message& message);
  Status receive(Other& other);
  bool all_ended() const;
  Status look_at_sent();

  const tenon_collective_api_t* api_ = nullptr;
  tenon_comm_t* world_ = nullptr;
  bool told_end_ = false;
  std::map<uint32_t, uint64_t> started_;
  std::list<Other> others_;
  std::list<Sent> sent_;
};

}  // namespace tenon::mesh

#endif
