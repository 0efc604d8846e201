// The engine `mpi`: one table over the three binary interfaces of MPI.
#include <dlfcn.h>

#include <memory>

#include "engine.h"
#include "launcher.h"
#include "tenon/cpp/record.hpp"

namespace tenon::mpi {
namespace {

Status launched(void*, tenon_launch_t* out) {
  static const std::string* library = nullptr;
  const Launcher& by = launcher();
  auto made = sized<tenon_launch_t>();
  if (!by.name.empty()) {
    auto chosen = std::make_unique<std::string>();
    TENON_TRY(choose_library(chosen.get()));
    if (library == nullptr) library = chosen.release();  // for the life of the process
    made.is_launched = 1;
    made.rank = static_cast<uint32_t>(by.rank);
    made.rank_count = static_cast<uint32_t>(by.rank_count);
    made.local_rank = static_cast<uint32_t>(by.local_rank);
    made.local_rank_count = static_cast<uint32_t>(by.local_rank_count);
    made.launcher = str(by.name);
    made.library = str(*library);
  }
  return give_record(out, made);
}

template <class Abi>
Status make(void* library, std::unique_ptr<tenon_engine_t>* out) {
  auto engine = std::make_unique<Engine<Abi>>();
  TENON_TRY(engine->find(library));
  *out = std::move(engine);
  return {};
}

// Its parts, which it opens itself, look for its symbols in the whole process.
Status open(void*, const tenon_gather_t* gather, uint32_t* out_flags, tenon_engine_t** out,
            tenon_comm_t** out_world) {
  if (gather != nullptr && launcher().name.empty()) {
    return fail(TENON_FAILED_PRECONDITION,
                "T0902: MPI's processes are brought together by its launcher, such as mpirun");
  }
  std::string name;
  TENON_TRY(choose_library(&name));
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return fail(TENON_UNAVAILABLE,
                cat("T0902: ", name, " cannot be opened: ", why == nullptr ? "" : why));
  }
  std::unique_ptr<tenon_engine_t> engine;
  if (::dlsym(library, "ompi_mpi_comm_world") != nullptr) {
    TENON_TRY(make<OpenMpiAbi>(library, &engine));
  } else if (::dlsym(library, "MPI_Abi_get_version") != nullptr &&
             name.find("libmpi_abi") != std::string::npos) {
    TENON_TRY(make<StandardAbi>(library, &engine));
  } else {
    TENON_TRY(make<MpichAbi>(library, &engine));
  }
  TENON_TRY(engine->open(out_flags, out_world));
  *out = engine.release();
  return {};
}

Status close(void*, tenon_engine_t* engine) {
  const std::unique_ptr<tenon_engine_t> owned(engine);
  return engine->close();
}
Status comm_create(void*, tenon_comm_t* comm, const uint32_t* members, uint32_t count,
                   tenon_comm_t** out) {
  return comm->create(members, count, out);
}
Status comm_release(void*, tenon_comm_t* comm) {
  delete comm;
  return {};
}

// MPI has no f16 and bf16, and leaves open what a minimum or maximum with a NaN is.
Status takes(void*, tenon_comm_t*, const tenon_transfer_kind_t* kind) {
  const uint64_t width = dtype_bytes(kind->dtype) == 16 ? 2 : 1;
  if (kind->transfer < TENON_TRANSFER_ALL_REDUCE || kind->transfer > TENON_TRANSFER_RECEIVE)
    return fail(TENON_UNIMPLEMENTED, cat("mpi has no transfer ", kind->transfer));
  if (dtype_bytes(kind->dtype) == 0)
    return fail(TENON_UNIMPLEMENTED, "MPI moves elements of whole bytes");
  if (!fits(kind->elements) || !fits(kind->elements * width))
    return fail(TENON_UNIMPLEMENTED, "MPI counts elements in 31 bits");
  if (kind->transfer != TENON_TRANSFER_ALL_REDUCE &&
      kind->transfer != TENON_TRANSFER_REDUCE_SCATTER)
    return {};
  const bool is_known = kind->combine >= TENON_COMBINE_SUM && kind->combine <= TENON_COMBINE_MAX;
  const bool is_wide_float = kind->dtype == TENON_F32 || kind->dtype == TENON_F64;
  if (!is_known || (!is_int(kind->dtype) && !is_wide_float) ||
      (is_wide_float && kind->combine != TENON_COMBINE_SUM))
    return fail(TENON_UNIMPLEMENTED, "MPI has no such combination of these elements");
  return {};
}

Status start(void*, tenon_comm_t* comm, const tenon_transfer_t* transfers, uint32_t count,
             const tenon_native_handle_t* stream, const tenon_work_info_t*, tenon_work_t** out) {
  if (stream != nullptr) return fail(TENON_UNIMPLEMENTED, "mpi takes no streams");
  for (uint32_t i = 0; i < count; ++i) {
    const auto* one =
        static_cast<const tenon_transfer_t*>(tenon_record_at(transfers, i, transfers->size_bytes));
    const uint64_t width = dtype_bytes(one->dtype) == 16 ? 2 : 1;
    if (fits(one->from_elements * width) && fits(one->to_elements * width)) continue;
    return fail(TENON_UNIMPLEMENTED,
                "T0906: MPI counts elements in 31 bits, and this transfer has more");
  }
  return comm->start(transfers, count, out);
}

Status test(void*, tenon_work_t* work, uint32_t* out_done) {
  bool done = false;
  TENON_TRY(work->test(&done));
  *out_done = done ? 1 : 0;
  return {};
}
Status work_release(void*, tenon_work_t* work) {
  delete work;
  return {};
}
Status abort(void*, tenon_comm_t* comm, uint32_t exit_status, tenon_str_t) {
  comm->abort(static_cast<int>(exit_status));
  return {};
}

Status launcher_words(void*, uint32_t count, const tenon_sink_t* words) {
  std::vector<std::string> list;
  TENON_TRY(launch_words(count, &list));
  for (const std::string& word : list)
    TENON_TRY(words->write(words->self, word.c_str(), word.size() + 1));
  return {};
}

constexpr tenon_collective_api_t make_table() {
  tenon_collective_api_t table = {};
  table.size_bytes = sizeof table;
  table.name = str("mpi");
  table.memory_kinds = str("host");
  table.launched = entry<launched>;
  table.open = entry<open>;
  table.close = entry<close>;
  table.comm_create = entry<comm_create>;
  table.comm_release = entry<comm_release>;
  table.takes = entry<takes>;
  table.start = entry<start>;
  table.test = entry<test>;
  table.work_release = entry<work_release>;
  table.abort = entry<abort>;
  table.launcher = entry<launcher_words>;
  return table;
}
constexpr tenon_collective_api_t kTable = make_table();
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_COLLECTIVE_ID, kTable)};

}  // namespace
}  // namespace tenon::mpi

TENON_PLUGIN("mpi", "0.1.0", tenon::mpi::kInterfaces)
