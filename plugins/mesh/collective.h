// One execution of an op that processes compute together: an agreement where its sizes are new,
// then one transfer or two, with what this process computes between them. Where its sizes are not
// new, the members compare what they do while the first transfer is on its way.
#ifndef TENON_PLUGINS_MESH_COLLECTIVE_H_
#define TENON_PLUGINS_MESH_COLLECTIVE_H_

#include <functional>
#include <memory>
#include <vector>

#include "said.h"
#include "transfer.h"

namespace tenon::mesh {

enum class Op : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute,
  kBroadcastFrom,
  kAxisIndex
};

// What a node says, apart from its operands.
struct Collective {
  Op op = Op::kAllReduce;
  std::string name;  // of the op
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  uint32_t combine = TENON_COMBINE_NONE;
  int64_t root = 0;
  std::vector<int64_t> pairs;
  std::string mesh, axes;
  std::string text;       // the rest of this, for messages
  std::string text_here;  // text and the place of the user's node, if it is known
  // The order of sums is that of the ranks, whatever the engine does.
  bool is_deterministic = false;
};

class CollectiveJob : public Job {
 public:
  // agreement: null where the processes have agreed before; agreed: called once they have. said: if
  // it is not null, it is compared with that of other members.
  CollectiveJob(const Collective& what, Ranks& ranks, Members& members, Range from, Range to,
                std::unique_ptr<Job> agreement, std::function<void()> agreed,
                std::shared_ptr<const Said> said);
  ~CollectiveJob() override;

  Status advance(bool* out_done) override;
  bool may_start() const override { return !has_started_last_; }
  std::vector<Range> reads() const override { return {from_}; }
  std::vector<Range> writes() const override { return {to_}; }
  bool transfers() const override { return true; }
  bool linger() override { return transfer_.linger(); }

 private:
  Status begin(bool* out_done);
  Status end(bool* out_done);
  Status begin_move(uint32_t kind);
  Status begin_permute(bool* out_done);
  Status begin_parts();
  Status begin_whole();
  Status start(std::span<const tenon_transfer_t> transfers, int64_t target, int64_t source);
  Status start_whole_group(const tenon_transfer_t& transfer);
  Status compare();
  bool takes(uint32_t kind) const;
  uint64_t elements(const Range& range) const;
  std::byte* to() const { return static_cast<std::byte*>(const_cast<void*>(to_.data)); }

  const Collective& what_;
  Ranks& ranks_;
  Members& members_;
  const Range from_, to_;
  std::unique_ptr<Job> agreement_;
  const std::function<void()> agreed_;
  // What this process does; what the member `source_` does, which comes along with the transfer.
  // Null: it is not compared, or was equal.
  std::shared_ptr<const Said> said_;
  std::unique_ptr<Said> heard_;
  int64_t source_ = -1;
  Transfer transfer_;
  bool has_started_last_ = false;
  // Of a composed combination: parts of all members, and the part that this process combines.
  enum class Stage : uint8_t { kFirst, kParts, kWhole, kLast } stage_ = Stage::kFirst;
  uint64_t part_elements_ = 0;
  std::vector<std::byte> padded_, parts_, part_;
};

}  // namespace tenon::mesh

#endif
