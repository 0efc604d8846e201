// What launchers say in environment variables, and which library belongs to each.
#ifndef TENON_PLUGINS_MPI_LAUNCHER_H_
#define TENON_PLUGINS_MPI_LAUNCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/cpp/status.hpp"

namespace tenon::mpi {

// Three binary interfaces: that of Open MPI, that of MPICH (and Intel's library), and the one that
// MPI 5 defines.
enum class Flavour : uint8_t { kOpenMpi, kMpich, kStandard };

struct Launcher {
  std::string name;  // empty: no launcher has started this process
  int64_t rank = 0, rank_count = 1, local_rank = 0, local_rank_count = 1;
  std::vector<std::string> libraries;  // that belong to it, the best one first
  std::string package;                 // of Debian, with such a library
};

// Reads the environment. Opens nothing.
const Launcher& launcher();

// The library to open: TENON_MPI_LIBRARY, or the first of the launcher's that the system has.
// UNAVAILABLE with what is missing.
Status choose_library(std::string* out);

// The words that start `count` processes, and the library for them: the first launcher in PATH of
// whose kind there is a library, or of the kind of TENON_MPI_LIBRARY. UNAVAILABLE with what is
// missing.
Status launch_words(uint32_t count, std::vector<std::string>* out);

}  // namespace tenon::mpi

#endif
