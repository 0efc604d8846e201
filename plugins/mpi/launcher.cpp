#include "launcher.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::mpi {
namespace {

std::optional<int64_t> number(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return {};
  const std::string_view all = text;
  int64_t value = 0;
  const auto [end, code] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (code != std::errc() || end != all.data() + all.size() || value < 0) return {};
  return value;
}

struct Variables {
  const char *rank, *rank_count, *local_rank, *local_rank_count;
};
constexpr Variables kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Variables kHydra = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Variables kSlurm = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                              "SLURM_NTASKS_PER_NODE"};

bool read(const Variables& from, Launcher* out) {
  const auto rank = number(from.rank), count = number(from.rank_count);
  if (!rank || !count || *rank >= *count) return false;
  out->rank = *rank;
  out->rank_count = *count;
  out->local_rank = number(from.local_rank).value_or(0);
  out->local_rank_count = number(from.local_rank_count).value_or(1);
  return true;
}

Launcher find() {
  Launcher out;
  const std::vector<std::string> mpich = {"libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.1",
                                          "libmpi_abi.so.0"};
  const std::vector<std::string> open_mpi = {"libmpi.so.40", "libmpi.so.80"};
  if (read(kOpenMpi, &out)) {
    out.name = "mpirun of Open MPI";
    out.libraries = open_mpi;
    out.package = "libopenmpi3";
  } else if (std::getenv("SLURM_PROCID") != nullptr && std::getenv("SLURM_STEP_ID") != nullptr &&
             read(kSlurm, &out)) {
    // Slurm's two ways to connect processes belong to different libraries.
    const bool is_pmix = std::getenv("PMIX_RANK") != nullptr;
    const bool is_pmi = std::getenv("PMI_RANK") != nullptr || std::getenv("PMI_FD") != nullptr;
    out.name = is_pmix ? "srun --mpi=pmix" : is_pmi ? "srun --mpi=pmi2" : "srun without --mpi";
    if (is_pmix || is_pmi) out.libraries = is_pmix ? open_mpi : mpich;
    out.package = is_pmix ? "libopenmpi3" : "libmpich12";
  } else if (read(kHydra, &out)) {
    out.name = "mpirun of MPICH or Intel MPI";
    out.libraries = mpich;
    out.package = "libmpich12";
  }
  return out;
}

}  // namespace

const Launcher& launcher() {
  static const Launcher found = find();
  return found;
}

Status choose_library(std::string* out) {
  if (const std::string_view chosen = setting("TENON_MPI_LIBRARY"); !chosen.empty()) {
    *out = chosen;
    return {};
  }
  const Launcher& by = launcher();
  if (by.name.empty()) {
    return fail(TENON_UNAVAILABLE,
                "T0902: no launcher of MPI has started this process: use mpirun or srun, or set "
                "TENON_MPI_LIBRARY");
  }
  if (by.libraries.empty()) {
    return fail(TENON_UNAVAILABLE,
                cat("T0902: ", by.name, " does not connect the processes: use srun --mpi=pmix with "
                                        "Open MPI, or srun --mpi=pmi2 with MPICH"));
  }
  std::string names;
  for (const std::string& name : by.libraries) {
    *out = library_location(name);
    if (!out->empty()) return {};
    names += cat(names.empty() ? "" : ", ", name);
  }
  return fail(TENON_UNAVAILABLE,
              cat("T0902: ", by.name, " has started this process, and none of its libraries is "
                                      "here (",
                  names, "): install ", by.package, ", or set TENON_MPI_LIBRARY"));
}

}  // namespace tenon::mpi
