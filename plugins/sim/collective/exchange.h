// What ranks in one process exchange: each leaves the addresses of its memory, and copies from the
// others once all are there.
#ifndef TENON_PLUGINS_SIM_COLLECTIVE_EXCHANGE_H_
#define TENON_PLUGINS_SIM_COLLECTIVE_EXCHANGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "tenon/abi/collective.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {

// One transfer of all members.
struct Meeting {
  std::vector<std::optional<tenon_transfer_t>> sides;  // by place
  uint32_t arrived = 0, copied = 0;
  uint64_t ready_ns = 0;  // nothing arrives earlier
};

// A send that its receiver has not copied yet.
struct Letter {
  tenon_transfer_t side;
  uint64_t ready_ns = 0;
  bool copied = false;
};

// From one member to another one, with one tag. The first receive gets the first letter, whichever
// work is looked at first.
struct Mail {
  std::map<uint64_t, std::shared_ptr<Letter>> letters;  // by number
  uint64_t sent = 0, asked = 0;
};

// What the members of a communicator share. The mutex guards all of it.
struct Shared {
  std::mutex mutex;
  std::vector<uint32_t> members;  // ranks of the world
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Mail> mail;  // by sender, receiver and tag
  bool aborted = false;
};

// Moves what `place` gets; all sides are there. INVALID_ARGUMENT if they do not fit together.
Status copy_for(const Meeting& meeting, uint32_t place);
Status copy_letter(const Letter& letter, const tenon_transfer_t& to);

// TENON_SIM_LINK=MICROSECONDS,GIGABYTES_PER_SECOND: when a transfer that starts now arrives.
uint64_t arrival_ns(uint64_t now_ns, uint64_t bytes);
uint64_t steady_ns();

}  // namespace tenon::sim

#endif
