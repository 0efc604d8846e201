#include "collective.h"

#include <array>
#include <cstring>

#include "combine.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/record.hpp"

namespace tenon::mesh {

CollectiveJob::CollectiveJob(const Collective& what, Ranks& ranks, Members& members, Range from,
                             Range to, std::unique_ptr<Job> agreement, std::function<void()> agreed,
                             std::shared_ptr<const Said> said)
    : what_(what),
      ranks_(ranks),
      members_(members),
      from_(from),
      to_(to),
      agreement_(std::move(agreement)),
      agreed_(std::move(agreed)),
      said_(std::move(said)),
      transfer_(ranks, members, what.text_here) {}

// The engine may still use the memory of a transfer that is not over.
CollectiveJob::~CollectiveJob() {
  if (!transfer_.is_started()) return;
  for (std::vector<std::byte>* lost : {&padded_, &parts_, &part_})
    (void)new std::vector<std::byte>(std::move(*lost));
  (void)new std::shared_ptr<const Said>(std::move(said_));
  (void)heard_.release();
}

uint64_t CollectiveJob::elements(const Range& range) const {
  return range.size_bytes / dtype_bytes(what_.dtype);
}

bool CollectiveJob::takes(uint32_t kind) const {
  auto asked = sized<tenon_transfer_kind_t>();
  asked.transfer = kind;
  asked.combine = what_.combine;
  asked.dtype = what_.dtype;
  asked.elements = std::max(elements(from_), elements(to_));
  const tenon_collective_api_t& api = *members_.api;
  return api.takes(api.self, members_.comm, &asked) == TENON_OK;
}

Status CollectiveJob::advance(bool* out_done) {
  if (agreement_ != nullptr) {
    bool agreed = false;
    TENON_TRY(agreement_->advance(&agreed));
    if (!agreed) return {};
    agreement_ = nullptr;
    agreed_();
  }
  if (!transfer_.is_started()) {
    TENON_TRY(begin(out_done));
    if (*out_done) return {};
  }
  bool arrived = false;
  TENON_TRY(transfer_.test(&arrived));
  if (heard_ != nullptr && transfer_.is_side_done()) TENON_TRY(compare());
  return arrived ? end(out_done) : Status();
}

// Members that do different things may have mixed their data, or wait for ever. So this fails while
// the transfer may still be on its way, and this process makes no other.
Status CollectiveJob::compare() {
  const std::unique_ptr<Said> heard = std::move(heard_);
  if (agree(*said_, *heard)) return {};
  ranks_.abandon();
  ranks_.recorder().keep();
  return fail(TENON_FAILED_PRECONDITION,
              cat("T0905: the processes disagree: rank ", ranks_.rank(), " is at ",
                  shown_of(*said_), ", and rank ", members_.ranks[static_cast<size_t>(source_)],
                  " at ", shown_of(*heard), ranks_.recorder().advice()));
}

// The first transfer takes what this process does to the member `target`, and brings what `source`
// does; -1: none.
Status CollectiveJob::start(std::span<const tenon_transfer_t> transfers, int64_t target,
                            int64_t source) {
  if (said_ == nullptr || stage_ == Stage::kWhole) return transfer_.start(what_.name, transfers);
  std::array<tenon_transfer_t, 2> side;
  size_t count = 0;
  if (target >= 0) {
    side[count] = transfer_of(TENON_TRANSFER_SEND, TENON_U8, said_->data(), kSaidBytes, nullptr, 0);
    side[count++].peer = static_cast<uint32_t>(target);
  }
  if (source >= 0) {
    source_ = source;
    heard_ = std::make_unique<Said>();
    side[count] =
        transfer_of(TENON_TRANSFER_RECEIVE, TENON_U8, nullptr, 0, heard_->data(), kSaidBytes);
    side[count++].peer = static_cast<uint32_t>(source);
  }
  return transfer_.start(what_.name, transfers, {members_.control->comm, {side.data(), count}});
}

// In a ring: if any two members differ, so do two neighbours.
Status CollectiveJob::start_whole_group(const tenon_transfer_t& transfer) {
  const int64_t count = members_.count(), here = members_.position;
  return start({&transfer, 1}, (here + 1) % count, (here + count - 1) % count);
}

// Starts the next transfer, or does what needs none.
Status CollectiveJob::begin(bool* out_done) {
  if (stage_ == Stage::kWhole) return begin_whole();
  const bool reduces = what_.op == Op::kAllReduce || what_.op == Op::kReduceScatter;
  if (what_.op == Op::kAxisIndex) {
    std::memcpy(to(), &members_.position, sizeof members_.position);
  } else if (what_.op == Op::kPermute) {
    return begin_permute(out_done);
  } else if (members_.count() == 1 || from_.size_bytes == 0) {
    if (from_.size_bytes != 0) std::memcpy(to(), from_.data, from_.size_bytes);
  } else if (reduces) {
    const uint32_t kind =
        what_.op == Op::kAllReduce ? TENON_TRANSFER_ALL_REDUCE : TENON_TRANSFER_REDUCE_SCATTER;
    return what_.is_deterministic || !takes(kind) ? begin_parts() : begin_move(kind);
  } else {
    return begin_move(what_.op == Op::kAllGather  ? TENON_TRANSFER_ALL_GATHER
                      : what_.op == Op::kAllToAll ? TENON_TRANSFER_ALL_TO_ALL
                                                  : TENON_TRANSFER_BROADCAST);
  }
  has_started_last_ = *out_done = true;
  return {};
}

Status CollectiveJob::begin_move(uint32_t kind) {
  const bool sends = kind != TENON_TRANSFER_BROADCAST || members_.position == what_.root;
  tenon_transfer_t move =
      transfer_of(kind, what_.dtype, from_.data, sends ? elements(from_) : 0, to(), elements(to_));
  move.combine = what_.combine;
  move.peer = static_cast<uint32_t>(what_.root);
  stage_ = Stage::kLast;
  has_started_last_ = true;
  return start_whole_group(move);
}

// At most one send and one receive.
Status CollectiveJob::begin_permute(bool* out_done) {
  int64_t target = -1, source = -1;
  for (size_t i = 0; i < what_.pairs.size(); i += 2) {
    if (what_.pairs[i] == members_.position) target = what_.pairs[i + 1];
    if (what_.pairs[i + 1] == members_.position) source = what_.pairs[i];
  }
  if (source == members_.position && to_.size_bytes != 0)
    std::memcpy(to(), from_.data, to_.size_bytes);
  if (source < 0 && to_.size_bytes != 0) std::memset(to(), 0, to_.size_bytes);
  if (source == members_.position) source = target = -1;
  std::array<tenon_transfer_t, 2> moves;
  size_t count = 0;
  if (target >= 0) {
    moves[count] =
        transfer_of(TENON_TRANSFER_SEND, what_.dtype, from_.data, elements(from_), nullptr, 0);
    moves[count++].peer = static_cast<uint32_t>(target);
  }
  if (source >= 0) {
    moves[count] =
        transfer_of(TENON_TRANSFER_RECEIVE, what_.dtype, nullptr, 0, to(), elements(to_));
    moves[count++].peer = static_cast<uint32_t>(source);
  }
  has_started_last_ = true;
  stage_ = Stage::kLast;
  *out_done = count == 0 || to_.size_bytes == 0;
  if (*out_done) transfer_.skip();
  return *out_done ? Status() : start({moves.data(), count}, target, source);
}

// Member i gets part i of all members and combines it.
Status CollectiveJob::begin_parts() {
  const auto count = static_cast<uint64_t>(members_.count());
  const uint64_t bytes = dtype_bytes(what_.dtype);
  part_elements_ = (elements(from_) + count - 1) / count;
  const uint64_t all = part_elements_ * count;
  const void* from = from_.data;
  if (all != elements(from_)) {
    padded_.resize(all * bytes);
    std::memcpy(padded_.data(), from_.data, from_.size_bytes);
    from = padded_.data();
  }
  parts_.resize(all * bytes);
  const tenon_transfer_t move =
      transfer_of(TENON_TRANSFER_ALL_TO_ALL, what_.dtype, from, all, parts_.data(), all);
  stage_ = Stage::kParts;
  has_started_last_ = what_.op == Op::kReduceScatter;
  return start_whole_group(move);
}

Status CollectiveJob::begin_whole() {
  const auto count = static_cast<uint64_t>(members_.count());
  const bool fits = part_elements_ * count == elements(to_);
  void* whole = fits ? static_cast<void*>(to()) : parts_.data();
  const tenon_transfer_t move = transfer_of(TENON_TRANSFER_ALL_GATHER, what_.dtype, part_.data(),
                                            part_elements_, whole, part_elements_ * count);
  has_started_last_ = true;
  return start_whole_group(move);
}

Status CollectiveJob::end(bool* out_done) {
  if (stage_ == Stage::kParts) {
    const bool is_last = what_.op == Op::kReduceScatter;
    part_.resize(is_last ? 0 : part_elements_ * dtype_bytes(what_.dtype));
    combine_parts(what_.combine, what_.dtype, parts_.data(), members_.count(), part_elements_,
                  is_last ? static_cast<void*>(to()) : part_.data());
    stage_ = Stage::kWhole;
    *out_done = is_last;
    return {};
  }
  if (stage_ == Stage::kWhole &&
      part_elements_ * static_cast<uint64_t>(members_.count()) != elements(to_))
    std::memcpy(to(), parts_.data(), to_.size_bytes);
  *out_done = true;
  return {};
}

}  // namespace tenon::mesh
