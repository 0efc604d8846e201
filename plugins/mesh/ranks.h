// The processes of the job, as one of them sees it: the engine that connects them, communicators
// of groups of them, and what all must agree on.
#ifndef TENON_PLUGINS_MESH_RANKS_H_
#define TENON_PLUGINS_MESH_RANKS_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "line.h"
#include "news.h"
#include "recorder.h"
#include "tenon/abi/collective.h"
#include "tenon/cpp/mesh.hpp"

namespace tenon::mesh {

// How many ranks live in this process: TENON_MESH_SIMULATE, or 1.
uint32_t simulated_ranks();

// Some processes in order, and the communicator of a mesh's group of this process. Without a
// communicator the group is this process alone.
struct Members {
  const tenon_collective_api_t* api = nullptr;  // of the engine that connects them
  tenon_comm_t* comm = nullptr;
  std::unique_ptr<Members> control;  // the same processes, for agreements alone
  // The program has made the group (`group` in collective.h): no agreements and no news.
  bool is_given = false;
  std::vector<int64_t> ranks;
  int64_t position = 0;   // of this process
  uint64_t sequence = 0;  // of the last work; guarded by the line
  uint32_t number = 0;    // of the communicator, the same in all its processes
  int64_t count() const { return static_cast<int64_t>(ranks.size()); }
};

class Ranks {
 public:
  Ranks(uint32_t ordinal, Line& line) : ordinal_(ordinal), line_(line) {}
  ~Ranks();
  Ranks(const Ranks&) = delete;

  // Opens the engine once. T0902 with the reason of each engine if none connects this process.
  Status open();
  // The group of this process along axes of a mesh. All processes ask for the same groups in the
  // same order. T0901 if the job has another number of processes than the mesh.
  // A mesh whose only axis is a group that the program has made is found at once, without others.
  Status members(std::string_view mesh, std::string_view axes, Members** out);
  // Fails in all processes with T0905 unless all say the same. It names the first difference.
  Status agree(std::string_view text);
  // The same for a group, as a job for work on a queue. shown: more than `text`, for the message.
  std::unique_ptr<Job> agreement(Members& members, std::string_view text, std::string_view shown);

  // Tells the others that this process ends.
  Status begin_end();
  // Closes the engine once all processes end, so that the library can end in order.
  Status end(bool* out_ended);
  // A communicator was aborted: nothing ends in order any more. `abort` of an engine may end the
  // process from inside, where `end` is called too.
  void give_up() { gave_up_ = true; }
  // A transfer failed while the engine may still read and write its memory. From now on none
  // begins, since it could be taken for the lost one, and the device frees no memory.
  void abandon() { abandoned_ = true; }
  bool is_abandoned() const { return abandoned_; }
  News& news() { return news_; }

  uint32_t rank() const { return rank_; }
  uint32_t count() const { return count_; }
  uint32_t flags() const { return flags_; }
  Recorder& recorder() { return recorder_; }

 private:
  Status choose();
  Status connect(const tenon_collective_api_t& api, const tenon_launch_t& launch);
  Status create(Members* members);
  Status create(const Members& members, tenon_comm_t** out);
  Status connected(const Mesh& mesh, std::string_view text);

  const uint32_t ordinal_;
  Line& line_;
  std::mutex mutex_;  // of open and members
  bool opened_ = false;
  Fault failed_;
  const tenon_collective_api_t* api_ = nullptr;
  tenon_engine_t* engine_ = nullptr;
  uint32_t flags_ = 0, rank_ = 0, count_ = 1;
  Members world_;  // carries agreements and news only
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Members>> groups_;
  uint32_t given_count_ = 0;  // of them
  Recorder recorder_;
  News news_;
  int process_ = 0;  // that opened the engine; a forked child has no part in it
  std::atomic<bool> gave_up_ = false, abandoned_ = false;
};

}  // namespace tenon::mesh

#endif
