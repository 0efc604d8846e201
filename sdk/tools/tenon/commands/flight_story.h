// What the files of several flight recorders say together.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <tenon/cpp/flight_file.hpp>

namespace tenon::tools {

// One process.
struct Flight {
  flight::Head head = {};
  std::vector<flight::Record> records;  // the last ones, oldest first
};

// The file of a recorder. Returns what is wrong with it; empty if nothing.
std::string read_flight(const std::string& path, Flight* out);

// "all_reduce of 24 f32 (sum) at model.tir:5".
std::string describe(const flight::Record& record);

// One line for each process, then for each group of processes the last transfer that all have
// finished, who is in the next one, who is missing there, and what differs.
std::string story(const std::map<uint32_t, Flight>& flights);
// The same as JSON: {"schema":1,"ranks":[{"rank","process","engine","written",
//  "last":{...},"open":[{...}]}],"missing":[ranks]}.
std::string story_json(const std::map<uint32_t, Flight>& flights);
// All records as trace events, a row for each process.
std::string trace_json(const std::map<uint32_t, Flight>& flights);

}  // namespace tenon::tools
