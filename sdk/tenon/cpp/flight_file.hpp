// The file of a flight recorder: a head, and a ring of records. One process writes it through a
// mapping, so what it has written survives its end, whatever ended it. `tenon flight` reads it.
// Numbers are those of the machine.
#ifndef TENON_CPP_FLIGHT_FILE_HPP_
#define TENON_CPP_FLIGHT_FILE_HPP_

#include <cstdint>

namespace tenon::flight {

inline constexpr char kMagic[8] = {'T', 'N', 'F', 'L', 'I', 'G', 'H', 'T'};
inline constexpr uint32_t kVersion = 1, kRecords = 4096;

struct Head {
  char magic[8];
  uint32_t version, record_bytes, record_count;
  uint32_t rank, rank_count, process;
  int64_t wall_ns;  // of the clock of the day, when the steady clock was steady_ns
  uint64_t steady_ns;
  uint64_t written;  // records so far; number n is in place (n - 1) % record_count
  char engine[32];
  char reserved[40];
};

struct Record {
  uint64_t number;    // from 1; 0: never written
  uint64_t sequence;  // of the communicator
  uint32_t group;     // the number of the communicator
  uint32_t transfer, combine, dtype;
  uint64_t elements;
  uint64_t begin_ns, end_ns;  // of the steady clock; end 0: not done
  char name[24];              // both cut, and filled with zeros
  char place[88];
};

static_assert(sizeof(Head) == 128 && sizeof(Record) == 168);

}  // namespace tenon::flight

#endif
