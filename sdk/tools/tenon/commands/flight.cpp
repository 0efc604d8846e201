// tenon flight: what several processes did last, from the files of their flight recorders.
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include <algorithm>
#include <memory>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/commands/flight_story.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

constexpr std::string_view kExtension = ".flight";

// Files of an earlier job with more processes are left where the folder was used again.
void drop_older_jobs(std::map<uint32_t, Flight>& flights) {
  const auto newest = std::ranges::max_element(
      flights, {}, [](const auto& one) { return one.second.head.wall_ns; });
  if (newest == flights.end()) return;
  const uint32_t count = newest->second.head.rank_count;
  std::erase_if(flights, [&](const auto& one) { return one.second.head.rank_count != count; });
}

// Reads all files of a folder. One that cannot be read is named on stderr.
int read_folder(const std::string& folder, std::map<uint32_t, Flight>& flights) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  if (open == nullptr) {
    return fail(
        kUsage, "T0101",
        fmt::format("the folder {} cannot be read: {}.", in_quotes(folder), strerror(errno)));
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(open.get())) {
    if (std::string_view(entry->d_name).ends_with(kExtension)) names.emplace_back(entry->d_name);
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    Flight flight;
    const std::string path = folder + "/" + name;
    if (const std::string wrong = read_flight(path, &flight); !wrong.empty()) {
      talk("tenon: warning: {}: {}\n", in_quotes(path), wrong);
      continue;
    }
    flights[flight.head.rank] = std::move(flight);
  }
  drop_older_jobs(flights);
  if (!flights.empty()) return kOk;
  return fail(kUsage, "T0101",
              fmt::format("the folder {} has no file of a flight recorder.", in_quotes(folder)),
              "TENON_FLIGHT=DIR keeps the files of all processes; a message about a transfer that "
              "did not end names their folder.");
}

}  // namespace

int command_flight(const FlightOptions& options) {
  std::map<uint32_t, Flight> flights;
  if (int s = read_folder(options.folder, flights)) return s;
  write_out(options.json ? story_json(flights) : story(flights));
  if (options.trace.empty()) return kOk;
  Host host;
  if (int s = host_open(host)) return s;
  return write_file(host, options.trace, trace_json(flights));
}

}  // namespace tenon::tools
