// One work of an engine: started, asked about until it is done, and given up after the time limit.
#ifndef TENON_PLUGINS_MESH_TRANSFER_H_
#define TENON_PLUGINS_MESH_TRANSFER_H_

#include <span>
#include <string>

#include "ranks.h"

namespace tenon::mesh {

// The record of a transfer of dense host memory.
tenon_transfer_t transfer_of(uint32_t kind, tenon_dtype_t dtype, const void* from,
                             uint64_t from_elements, void* to, uint64_t to_elements);

// Small transfers that run along with another one.
struct Side {
  tenon_comm_t* comm = nullptr;
  std::span<const tenon_transfer_t> transfers;
};

class Transfer {
 public:
  Transfer(Ranks& ranks, Members& members, std::string_view place)
      : ranks_(ranks), members_(members), place_(place) {}
  ~Transfer();
  Transfer(const Transfer&) = delete;

  // name: for messages and records, "all_reduce". place: the user's node.
  Status start(std::string_view name, std::span<const tenon_transfer_t> transfers,
               const Side& side = {});
  // Counts a transfer in which this process has no part, as the others count it.
  void skip();
  bool is_started() const { return work_ != nullptr || side_ != nullptr; }
  // Whether the transfers at the side are over, or there are none.
  bool is_side_done() const { return side_ == nullptr; }
  // Waits until the work may be over, for a millisecond at most. False if its engine cannot.
  bool linger();
  // Done once all is. T0904 after the time limit; the communicator is then aborted.
  Status test(bool* out_done);

 private:
  Status begin(tenon_comm_t* comm, std::span<const tenon_transfer_t> transfers, tenon_work_t** out);
  // Makes *work null if it is done.
  Status look_at(tenon_work_t** work);
  Status failed(tenon_code_t code);
  Status give_up();
  Status look_around(uint64_t now);
  Status check(int64_t rank, uint64_t now);
  std::string what() const;
  // Ends what this process waits for, with a reason.
  Status fail_with(tenon_code_t code, std::string_view text);

  Ranks& ranks_;
  Members& members_;
  const std::string place_;
  std::string name_;
  tenon_work_t *work_ = nullptr, *side_ = nullptr;
  // waited_ns_ is how long this process has waited; it warns when that reaches warn_ns_.
  uint64_t waited_ns_ = 0, last_ns_ = 0, warn_ns_ = 0;
  uint64_t sequence_ = 0, ended_ns_ = 0;
  bool has_told_ = false;
  uint32_t tests_ = 0;
  Recorder::Entry* entry_ = nullptr;
};

}  // namespace tenon::mesh

#endif
