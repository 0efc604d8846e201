// The engine over one binary interface of MPI: only nonblocking functions after `open`.
#ifndef TENON_PLUGINS_MPI_ENGINE_H_
#define TENON_PLUGINS_MPI_ENGINE_H_

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "functions.h"
#include "launcher.h"
#include "tenon/abi/collective.h"
#include "tenon/cpp/dtype.hpp"

// Base classes, so that one table serves all interfaces.
struct tenon_comm_t {
  virtual ~tenon_comm_t() = default;
  virtual tenon::Status create(const uint32_t* members, uint32_t count, tenon_comm_t** out) = 0;
  virtual tenon::Status start(const tenon_transfer_t* transfers, uint32_t count,
                              tenon_work_t** out) = 0;
  virtual void abort(int exit_status) = 0;
};
struct tenon_work_t {
  virtual ~tenon_work_t() = default;
  virtual tenon::Status test(bool* out_done) = 0;
};
struct tenon_engine_t {
  virtual ~tenon_engine_t() = default;
  virtual tenon::Status open(uint32_t* out_flags, tenon_comm_t** out_world) = 0;
  virtual tenon::Status close() = 0;
};

namespace tenon::mpi {

inline constexpr std::chrono::seconds kAbortPatience{3};

inline bool fits(uint64_t elements) {
  return elements <= static_cast<uint64_t>(std::numeric_limits<int>::max());
}

template <class Abi>
struct Work final : tenon_work_t {
  explicit Work(const Functions<Abi>& mpi) : mpi(mpi) {}
  Status test(bool* out_done) override {
    int done = 0;
    const int code = mpi.Testall(static_cast<int>(requests.size()), requests.data(), &done,
                                 reinterpret_cast<void*>(Abi::kStatusesIgnore));
    *out_done = done != 0;
    return code == 0 ? Status() : mpi.check(code, "MPI_Testall");
  }
  const Functions<Abi>& mpi;
  std::vector<typename Abi::Request> requests;
};

template <class Abi>
class Communicator final : public tenon_comm_t {
 public:
  using Comm = typename Abi::Comm;
  using Datatype = typename Abi::Datatype;

  Communicator(const Functions<Abi>& mpi, Comm comm) : mpi_(mpi), comm_(comm) {
    (void)mpi_.Comm_rank(comm_, &rank_);
    (void)mpi_.Comm_size(comm_, &size_);
  }
  ~Communicator() override {
    int is_over = 0;
    if (mpi_.Finalized(&is_over) == 0 && is_over == 0) (void)mpi_.Comm_free(&comm_);
  }

  Status create(const uint32_t* members, uint32_t count, tenon_comm_t** out) override {
    typename Abi::Group all = {}, some = {};
    const std::vector<int> ranks(members, members + count);
    TENON_TRY(mpi_.check(mpi_.Comm_group(comm_, &all), "MPI_Comm_group"));
    TENON_TRY(mpi_.check(mpi_.Group_incl(all, static_cast<int>(count), ranks.data(), &some),
                         "MPI_Group_incl"));
    Comm made = {};
    const int code =
        mpi_.Comm_create_group(comm_, some, static_cast<int>(created_++ % 1024), &made);
    (void)mpi_.Group_free(&some);
    (void)mpi_.Group_free(&all);
    TENON_TRY(mpi_.check(code, "MPI_Comm_create_group"));
    TENON_TRY(mpi_.check(mpi_.Comm_set_errhandler(made, Abi::errors_return(mpi_.library)),
                         "MPI_Comm_set_errhandler"));
    *out = new Communicator(mpi_, made);
    return {};
  }

  Status start(const tenon_transfer_t* transfers, uint32_t count, tenon_work_t** out) override {
    int is_over = 0;
    TENON_TRY(mpi_.check(mpi_.Finalized(&is_over), "MPI_Finalized"));
    if (is_over != 0) return fail(TENON_ABORTED, "T0906: the program has ended MPI");
    auto work = std::make_unique<Work<Abi>>(mpi_);
    for (uint32_t i = 0; i < count; ++i) {
      const auto* one = static_cast<const tenon_transfer_t*>(
          tenon_record_at(transfers, i, transfers->size_bytes));
      work->requests.emplace_back();
      TENON_TRY(mpi_.check(begin(*one, &work->requests.back()), "a transfer"));
    }
    *out = work.release();
    return {};
  }
  // Of all processes: for a part of them, MPICH waits for the others. Some libraries never come
  // back.
  void abort(int exit_status) override {
    std::thread([exit_status] {
      std::this_thread::sleep_for(kAbortPatience);
      ::_exit(exit_status);
    }).detach();
    (void)mpi_.Abort(Abi::world(mpi_.library), exit_status);
  }

 private:
  static std::byte* address(const tenon_native_memory_t& memory) {
    return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(memory.handle)) +
           memory.offset_bytes;
  }
  // Elements that are moved and not combined are bit patterns; one of 16 bytes is two of 8.
  Datatype pattern(tenon_dtype_t dtype) const {
    const uint32_t bytes = dtype_bytes(dtype);
    return Abi::type(mpi_.library, bytes == 1   ? Types::kU8
                                   : bytes == 2 ? Types::kU16
                                   : bytes == 4 ? Types::kU32
                                                : Types::kU64);
  }
  Datatype number(tenon_dtype_t dtype) const {
    constexpr std::pair<tenon_dtype_t, Types::Name> kNumbers[] = {
        {TENON_U8, Types::kU8},   {TENON_U16, Types::kU16}, {TENON_U32, Types::kU32},
        {TENON_U64, Types::kU64}, {TENON_I8, Types::kI8},   {TENON_I16, Types::kI16},
        {TENON_I32, Types::kI32}, {TENON_I64, Types::kI64}, {TENON_F32, Types::kF32},
        {TENON_F64, Types::kF64}};
    for (const auto& [type, name] : kNumbers) {
      if (type == dtype) return Abi::type(mpi_.library, name);
    }
    return Abi::type(mpi_.library, Types::kU8);  // `takes` refuses other types
  }
  typename Abi::Op op(uint32_t combine) const {
    return combine == TENON_COMBINE_MIN   ? Abi::min(mpi_.library)
           : combine == TENON_COMBINE_MAX ? Abi::max(mpi_.library)
                                          : Abi::sum(mpi_.library);
  }

  int begin(const tenon_transfer_t& t, typename Abi::Request* request) {
    std::byte *const from = address(t.from), *const to = address(t.to);
    const uint64_t width = dtype_bytes(t.dtype) == 16 ? 2 : 1;
    const auto give = static_cast<int>(t.from_elements * width),
               take = static_cast<int>(t.to_elements * width);
    const auto peer = static_cast<int>(t.peer), tag = static_cast<int>(t.tag);
    const Datatype bits = pattern(t.dtype);
    switch (t.transfer) {
      case TENON_TRANSFER_ALL_REDUCE:
        return mpi_.Iallreduce(from, to, take, number(t.dtype), op(t.combine), comm_, request);
      case TENON_TRANSFER_REDUCE_SCATTER:
        return mpi_.Ireduce_scatter_block(from, to, take, number(t.dtype), op(t.combine), comm_,
                                          request);
      case TENON_TRANSFER_ALL_GATHER:
        return mpi_.Iallgather(from, give, bits, to, give, bits, comm_, request);
      case TENON_TRANSFER_ALL_TO_ALL:
        return mpi_.Ialltoall(from, give / size_, bits, to, give / size_, bits, comm_, request);
      case TENON_TRANSFER_BROADCAST:
        if (rank_ == peer) std::memcpy(to, from, t.to_elements * dtype_bytes(t.dtype));
        return mpi_.Ibcast(to, take, bits, peer, comm_, request);
      case TENON_TRANSFER_SEND:
        return mpi_.Isend(from, give, bits, peer, tag, comm_, request);
      default:
        return mpi_.Irecv(to, take, bits, peer, tag, comm_, request);
    }
  }

  const Functions<Abi>& mpi_;
  Comm comm_;
  int rank_ = 0, size_ = 1;
  uint32_t created_ = 0;
};

template <class Abi>
class Engine final : public tenon_engine_t {
 public:
  Status find(void* library) { return mpi_.find(library); }

  Status open(uint32_t* out_flags, tenon_comm_t** out_world) override {
    int is_up = 0, level = 0, rank = 0, count = 0;
    TENON_TRY(mpi_.check(mpi_.Initialized(&is_up), "MPI_Initialized"));
    if (is_up == 0) {
      TENON_TRY(mpi_.check(mpi_.Init_thread(nullptr, nullptr, Abi::kThreadMultiple, &level),
                           "MPI_Init_thread"));
      is_ours_ = true;
    }
    const auto all = Abi::world(mpi_.library);
    TENON_TRY(mpi_.check(mpi_.Comm_rank(all, &rank), "MPI_Comm_rank"));
    TENON_TRY(mpi_.check(mpi_.Comm_size(all, &count), "MPI_Comm_size"));
    TENON_TRY(compare(rank, count));
    typename Abi::Comm world = {};
    TENON_TRY(duplicate(all, &world));
    world_ = std::make_unique<Communicator<Abi>>(mpi_, world);
    *out_world = world_.get();
    *out_flags = TENON_COLLECTIVE_ABORT_ENDS |
                 (level == Abi::kThreadMultiple ? TENON_COLLECTIVE_FREE_THREADED : 0u);
    return {};
  }

  // A program that has initialised MPI itself also ends it.
  Status close() override {
    world_ = nullptr;
    int is_over = 0;
    TENON_TRY(mpi_.check(mpi_.Finalized(&is_over), "MPI_Finalized"));
    return is_ours_ && is_over == 0 ? mpi_.check(mpi_.Finalize(), "MPI_Finalize") : Status();
  }

 private:
  // A library under the launcher of another one sees one process, without any error.
  Status compare(int rank, int count) const {
    const Launcher& by = launcher();
    if (by.name.empty() || (by.rank == rank && by.rank_count == count)) return {};
    return fail(TENON_FAILED_PRECONDITION,
                cat("T0902: ", by.name, " has started ", by.rank_count,
                    " processes, and the MPI library sees ", count,
                    ": the two are of different kinds. Set TENON_MPI_LIBRARY to the library of "
                    "this launcher, or use `tenon launch`"));
  }
  Status duplicate(typename Abi::Comm from, typename Abi::Comm* out) {
    Work<Abi> work(mpi_);
    work.requests.emplace_back();
    TENON_TRY(mpi_.check(mpi_.Comm_idup(from, out, work.requests.data()), "MPI_Comm_idup"));
    for (bool done = false; !done;) {
      TENON_TRY(work.test(&done));
      if (cancelled()) return fail(TENON_CANCELLED, "T0001: stopped");
      (void)sched_yield();
    }
    return mpi_.check(mpi_.Comm_set_errhandler(*out, Abi::errors_return(mpi_.library)),
                      "MPI_Comm_set_errhandler");
  }

  Functions<Abi> mpi_;
  std::unique_ptr<Communicator<Abi>> world_;
  bool is_ours_ = false;
};

}  // namespace tenon::mpi

#endif
