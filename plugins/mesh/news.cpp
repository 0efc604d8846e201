#include "news.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tenon/cpp/record.hpp"
#include "transfer.h"

namespace tenon::mesh {
namespace {
constexpr uint32_t kTag = 32000;
}

News::~News() {
  for (const Other& other : others_) {
    if (other.work != nullptr) (void)api_->work_release(api_->self, other.work);
  }
  for (const Sent& sent : sent_) (void)api_->work_release(api_->self, sent.work);
}

Status News::start(Message& message, int64_t rank, uint32_t transfer, tenon_work_t** out) {
  const uint64_t sends = transfer == TENON_TRANSFER_SEND ? sizeof message : 0;
  tenon_transfer_t side =
      transfer_of(transfer, TENON_U8, &message, sends, &message, sizeof message - sends);
  side.peer = static_cast<uint32_t>(rank);
  side.tag = kTag;
  auto info = sized<tenon_work_info_t>();
  return api_->start(api_->self, world_, &side, 1, nullptr, &info, out);
}

Status News::open(const tenon_collective_api_t& api, tenon_comm_t* world, uint32_t rank,
                  uint32_t rank_count) {
  api_ = &api;
  world_ = world;
  if (rank_count > kRanksMax) return {};
  for (uint32_t other = 0; other < rank_count; ++other) {
    if (other == rank) continue;
    Other& made = others_.emplace_back();
    made.rank = other;
    TENON_TRY(start(made.incoming, other, TENON_TRANSFER_RECEIVE, &made.work));
  }
  return {};
}

// Also to processes that have ended: each receives until all others have said that they end.
Status News::send(const Message& message) {
  for (const Other& other : others_) {
    sent_.push_back({message, nullptr});
    TENON_TRY(start(sent_.back().message, other.rank, TENON_TRANSFER_SEND, &sent_.back().work));
  }
  return {};
}

Status News::tell(const Waiting& waiting) {
  Message message;
  message.group = waiting.group;
  message.sequence = waiting.sequence;
  for (const auto& [group, sequence] : started_) {
    if (message.group_count < kGroups) message.groups[message.group_count++] = {group, sequence};
  }
  std::memcpy(message.text, waiting.text.data(), std::min(waiting.text.size(), kTextBytes - 1));
  return send(message);
}

Status News::receive(Other& other) {
  while (other.work != nullptr) {
    uint32_t done = 0;
    TENON_TRY(api_->test(api_->self, other.work, &done));
    if (done == 0) return {};
    (void)api_->work_release(api_->self, std::exchange(other.work, nullptr));
    if (other.incoming.has_ended != 0) return {};
    other.last = other.incoming;
    other.last.group_count = std::min<uint32_t>(other.last.group_count, kGroups);
    other.last.text[kTextBytes - 1] = 0;
    other.has_told = true;
    TENON_TRY(start(other.incoming, other.rank, TENON_TRANSFER_RECEIVE, &other.work));
  }
  return {};
}

Status News::look_at_sent() {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    uint32_t done = 0;
    TENON_TRY(api_->test(api_->self, sent->work, &done));
    if (done == 0) {
      ++sent;
      continue;
    }
    (void)api_->work_release(api_->self, sent->work);
    sent = sent_.erase(sent);
  }
  return {};
}

Status News::look() {
  for (Other& other : others_) TENON_TRY(receive(other));
  return look_at_sent();
}

bool News::has_ended(int64_t rank) const {
  return std::any_of(others_.begin(), others_.end(), [&](const Other& other) {
    return other.rank == rank && other.work == nullptr;
  });
}

bool News::is_stuck_with(int64_t rank, const Waiting& own, std::string* out_text) const {
  for (const Other& other : others_) {
    if (other.rank != rank || !other.has_told) continue;
    const Message& said = other.last;
    const auto here = started_.find(said.group);
    if (here != started_.end() && here->second >= said.sequence) return false;
    for (uint32_t i = 0; i < said.group_count; ++i) {
      if (said.groups[i].group == own.group && said.groups[i].sequence >= own.sequence)
        return false;
    }
    if (said.group_count == kGroups) return false;  // not all of its groups are in the message
    *out_text = static_cast<const char*>(said.text);
    return true;
  }
  return false;
}

Status News::tell_end(Line& line) {
  const std::lock_guard lock(line.mutex());
  if (std::exchange(told_end_, true)) return {};
  Message message;
  message.has_ended = 1;
  return send(message);
}

bool News::all_ended() const {
  return std::all_of(others_.begin(), others_.end(),
                     [](const Other& other) { return other.work == nullptr; });
}

Status News::are_over(Line& line, bool* out_over) {
  const std::lock_guard lock(line.mutex());
  TENON_TRY(look());
  *out_over = all_ended() && sent_.empty();
  return {};
}

}  // namespace tenon::mesh
