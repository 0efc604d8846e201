#include "farewell.h"

#include <algorithm>

#include "tenon/cpp/record.hpp"
#include "transfer.h"

namespace tenon::mesh {
namespace {
constexpr uint32_t kTag = 32000;
}

Farewell::~Farewell() {
  for (std::list<Message>* messages : {&from_, &to_}) {
    for (const Message& message : *messages) {
      if (message.work != nullptr) (void)api_->work_release(api_->self, message.work);
    }
  }
}

Status Farewell::start(Message& message, uint32_t transfer) {
  const bool sends = transfer == TENON_TRANSFER_SEND;
  tenon_transfer_t side =
      transfer_of(transfer, TENON_U8, &message.byte, sends ? 1 : 0, &message.byte, sends ? 0 : 1);
  side.peer = static_cast<uint32_t>(message.rank);
  side.tag = kTag;
  auto info = sized<tenon_work_info_t>();
  return api_->start(api_->self, world_, &side, 1, nullptr, &info, &message.work);
}

Status Farewell::open(const tenon_collective_api_t& api, tenon_comm_t* world, uint32_t rank,
                      uint32_t rank_count) {
  api_ = &api;
  world_ = world;
  if (rank_count > kRanksMax) return {};
  for (uint32_t other = 0; other < rank_count; ++other) {
    if (other == rank) continue;
    from_.push_back({other, 0, nullptr});
    TENON_TRY(start(from_.back(), TENON_TRANSFER_RECEIVE));
  }
  return {};
}

Status Farewell::test(std::list<Message>& messages, bool* out_done) {
  *out_done = true;
  for (Message& message : messages) {
    if (message.work == nullptr) continue;
    uint32_t done = 0;
    TENON_TRY(api_->test(api_->self, message.work, &done));
    if (done == 0) {
      *out_done = false;
      continue;
    }
    (void)api_->work_release(api_->self, std::exchange(message.work, nullptr));
  }
  return {};
}

Status Farewell::look() {
  bool done = false;
  return test(from_, &done);
}

bool Farewell::has_ended(int64_t rank) const {
  return std::any_of(from_.begin(), from_.end(), [&](const Message& message) {
    return message.rank == rank && message.work == nullptr;
  });
}

Status Farewell::send(Line& line) {
  const std::lock_guard lock(line.mutex());
  if (!to_.empty()) return {};
  for (const Message& other : from_) {
    to_.push_back({other.rank, 0, nullptr});
    TENON_TRY(start(to_.back(), TENON_TRANSFER_SEND));
  }
  return {};
}

Status Farewell::wait(Line& line) {
  for (Patience patience;; patience.pause()) {
    const std::lock_guard lock(line.mutex());
    bool sent = false, heard = false;
    TENON_TRY(test(to_, &sent));
    TENON_TRY(test(from_, &heard));
    if (sent && heard) return {};
  }
}

}  // namespace tenon::mesh
