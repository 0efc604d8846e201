#include "launcher.h"

#include <limits.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/text.hpp"

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

const std::vector<std::string> kMpichLibraries = {"libmpich.so.12", "libmpi.so.12",
                                                  "libmpi_abi.so.1", "libmpi_abi.so.0"};
const std::vector<std::string> kOpenMpiLibraries = {"libmpi.so.40", "libmpi.so.80"};

struct Variables {
  const char *rank, *rank_count, *local_rank, *local_rank_count;
};
constexpr Variables kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Variables kHydra = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
// The last number is in a list of all machines: tasks_of_node.
constexpr Variables kSlurm = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};

bool read(const Variables& from, Launcher* out) {
  const auto rank = number(from.rank), count = number(from.rank_count);
  if (!rank || !count || *rank >= *count) return false;
  out->rank = *rank;
  out->rank_count = *count;
  out->local_rank = number(from.local_rank).value_or(0);
  out->local_rank_count = number(from.local_rank_count).value_or(1);
  return true;
}

// Of "2(x3),1", in which three machines have two processes each and the last one has one.
std::optional<int64_t> entry_of(std::string_view list, int64_t node) {
  for (const std::string_view entry : tenon::text::split(list, ',')) {
    int64_t tasks = 0, nodes = 1;
    const char* end = entry.data() + entry.size();
    const auto [at, code] = std::from_chars(entry.data(), end, tasks);
    if (code != std::errc() || tasks < 1) return {};
    if (end - at > 3 && at[0] == '(' && at[1] == 'x') (void)std::from_chars(at + 2, end, nodes);
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return {};
}

int64_t tasks_of_node() {
  const char* list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  const auto node = number("SLURM_NODEID");
  return list == nullptr || !node ? 1 : entry_of(list, *node).value_or(1);
}

Launcher find() {
  Launcher out;
  const bool is_hydra = std::getenv("MPI_LOCALRANKID") != nullptr;  // Slurm sets PMI_RANK, too
  if (read(kOpenMpi, &out)) {
    out.name = "mpirun of Open MPI";
    out.libraries = kOpenMpiLibraries;
    out.package = "libopenmpi3";
  } else if (!is_hydra && std::getenv("SLURM_PROCID") != nullptr &&
             std::getenv("SLURM_STEP_ID") != nullptr && read(kSlurm, &out)) {
    out.local_rank_count = tasks_of_node();
    // Slurm's two ways to connect processes belong to different libraries.
    const bool is_pmix = std::getenv("PMIX_RANK") != nullptr;
    const bool is_pmi = std::getenv("PMI_RANK") != nullptr || std::getenv("PMI_FD") != nullptr;
    out.name = is_pmix ? "srun --mpi=pmix" : is_pmi ? "srun --mpi=pmi2" : "srun without --mpi";
    if (is_pmix || is_pmi) out.libraries = is_pmix ? kOpenMpiLibraries : kMpichLibraries;
    out.package = is_pmix ? "libopenmpi3" : "libmpich12";
  } else if (read(kHydra, &out)) {
    out.name = "mpirun of MPICH or Intel MPI";
    out.libraries = kMpichLibraries;
    out.package = "libmpich12";
  }
  return out;
}

// A program in PATH that starts processes.
struct Starter {
  std::string path;
  bool is_open_mpi = false;
  std::string library;
};

bool is_file(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

// Launchers have names that several libraries use, so what lies next to them tells them apart.
bool classify(const std::string& folder, const std::string& path, Starter* out) {
  char real[PATH_MAX] = {};
  const std::string_view target = ::realpath(path.c_str(), real) == nullptr ? path.c_str() : real;
  const auto has = [&](std::string_view word) {
    return target.find(word) != std::string_view::npos;
  };
  out->path = path;
  out->is_open_mpi = has("openmpi") || has("orterun") || has("prterun") || has("ompi");
  return out->is_open_mpi || has("hydra") || has("mpich") || is_file(folder + "/hydra_pmi_proxy");
}

// The library of the launcher's own installation, or the system's.
std::string library_for(const std::string& folder, bool is_open_mpi) {
  for (const std::string& name : is_open_mpi ? kOpenMpiLibraries : kMpichLibraries) {
    const std::string own = cat(folder, "/../lib/", name);
    if (::access(own.c_str(), R_OK) == 0) return own;
  }
  for (const std::string& name : is_open_mpi ? kOpenMpiLibraries : kMpichLibraries) {
    if (std::string found = library_location(name); !found.empty()) return found;
  }
  return {};
}

bool is_of_open_mpi(std::string_view library) {
  return library.find("libmpi.so.40") != std::string_view::npos ||
         library.find("libmpi.so.80") != std::string_view::npos;
}

std::vector<Starter> starters() {
  std::vector<Starter> out;
  const char* path = std::getenv("PATH");
  std::map<std::string, bool> is_known;  // the first one of a name is found by its name
  for (const std::string name : {"mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"}) {
    for (const std::string_view folder : tenon::text::split(path == nullptr ? "" : path, ':')) {
      Starter starter;
      const std::string file = cat(folder, "/", name);
      if (!is_file(file)) continue;
      if (!classify(std::string(folder), file, &starter)) {
        is_known[name] = true;
        continue;
      }
      starter.library = library_for(std::string(folder), starter.is_open_mpi);
      // Open MPI takes a launcher with a path as a wish to put its folder first in PATH.
      if (!is_known[name]) starter.path = name;
      is_known[name] = true;
      out.push_back(std::move(starter));
    }
  }
  return out;
}

}  // namespace

Status launch_words(uint32_t count, std::vector<std::string>* out) {
  const std::string_view chosen = setting("TENON_MPI_LIBRARY");
  std::string seen;
  for (const Starter& starter : starters()) {
    const bool fits =
        chosen.empty() ? !starter.library.empty() : is_of_open_mpi(chosen) == starter.is_open_mpi;
    seen += cat(seen.empty() ? "" : ", ", starter.path);
    if (!fits) continue;
    *out = {"env",
            cat("TENON_MPI_LIBRARY=", chosen.empty() ? starter.library : chosen),
            "TENON_ENGINE=mpi",
            starter.path,
            "-n",
            std::to_string(count)};
    if (starter.is_open_mpi && count > static_cast<uint64_t>(::sysconf(_SC_NPROCESSORS_ONLN)))
      out->push_back("--oversubscribe");
    return {};
  }
  return fail(TENON_UNAVAILABLE,
              seen.empty() ? std::string("T0902: no mpirun or mpiexec is in PATH: install "
                                         "openmpi-bin or mpich")
                           : cat("T0902: no library of a launcher in PATH is here (", seen,
                                 "): install libopenmpi3 or libmpich12, or set TENON_MPI_LIBRARY"));
}

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
    return fail(TENON_UNAVAILABLE, cat("T0902: ", by.name,
                                       " does not connect the processes: use srun --mpi=pmix with "
                                       "Open MPI, or srun --mpi=pmi2 with MPICH"));
  }
  std::string names;
  for (const std::string& name : by.libraries) {
    *out = library_location(name);
    if (!out->empty()) return {};
    names += cat(names.empty() ? "" : ", ", name);
  }
  return fail(TENON_UNAVAILABLE,
              cat("T0902: ", by.name,
                  " has started this process, and none of its libraries is "
                  "here (",
                  names, "): install ", by.package, ", or set TENON_MPI_LIBRARY"));
}

}  // namespace tenon::mpi
