#include "sdk/tools/tenon/commands/flight_story.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tenon/abi/collective.h>
#include <tenon/cpp/elements.hpp>

#include <algorithm>
#include <memory>

#include "sdk/tools/tenon/console/console.h"

namespace tenon::tools {
namespace {

constexpr uint32_t kRecordBytesMax = 1u << 16, kRecordCountMax = 1u << 20;

template <size_t N>
std::string text_of(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return out;
}

// The records of one process in one group, by sequence.
using OfGroup = std::map<uint64_t, const flight::Record*>;
struct Group {
  std::map<uint32_t, OfGroup> ranks;
  // The last transfer that every process has finished; 0 if there is none in the files.
  uint64_t common() const {
    uint64_t least = UINT64_MAX;
    for (const auto& [rank, records] : ranks) {
      uint64_t last = 0;
      for (const auto& [sequence, record] : records) {
        if (record->end_ns != 0) last = sequence;
      }
      least = std::min(least, last);
    }
    return least == UINT64_MAX ? 0 : least;
  }
};

std::map<uint32_t, Group> groups_of(const std::map<uint32_t, Flight>& flights) {
  std::map<uint32_t, Group> groups;
  for (const auto& [rank, flight] : flights) {
    for (const flight::Record& record : flight.records)
      groups[record.group].ranks[rank][record.sequence] = &record;
  }
  return groups;
}

std::vector<uint32_t> missing_files(const std::map<uint32_t, Flight>& flights) {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < flights.begin()->second.head.rank_count; ++rank) {
    if (!flights.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

std::string line_of(const Flight& flight) {
  std::string out = fmt::format("rank {} (process {}): {} transfers", flight.head.rank,
                                flight.head.process, flight.head.written);
  if (flight.records.empty()) return out + "\n";
  const flight::Record& last = flight.records.back();
  return out + fmt::format("; {} transfer {} of group {}: {}\n",
                           last.end_ns == 0 ? "it is in" : "the last one it finished is",
                           last.sequence, last.group, describe(last));
}

// What the processes did in the transfer after the last common one.
std::string next_of(uint32_t number, const Group& group, uint64_t next) {
  std::vector<uint32_t> inside, done, absent;
  std::map<std::string, std::vector<uint32_t>> kinds;
  for (const auto& [rank, records] : group.ranks) {
    const auto found = records.find(next);
    if (found == records.end()) {
      absent.push_back(rank);
      continue;
    }
    (found->second->end_ns == 0 ? inside : done).push_back(rank);
    kinds[describe(*found->second)].push_back(rank);
  }
  if (inside.empty() && (done.empty() || absent.empty())) return "";
  std::string out;
  if (!inside.empty())
    out += fmt::format("  {} {} in transfer {}\n", ranks_text(inside),
                       inside.size() == 1 ? "is" : "are", next);
  if (!done.empty())
    out += fmt::format("  {} {} finished transfer {}\n", ranks_text(done),
                       done.size() == 1 ? "has" : "have", next);
  if (!absent.empty())
    out += fmt::format("  {} {} not started transfer {}\n", ranks_text(absent),
                       absent.size() == 1 ? "has" : "have", next);
  if (kinds.size() > 1)
    out += fmt::format("  the processes differ in transfer {} of group {}:\n", next, number);
  for (const auto& [kind, ranks] : kinds) {
    if (kinds.size() > 1) out += fmt::format("    {}: {}\n", ranks_text(ranks), kind);
  }
  return out;
}

std::string record_json(const flight::Record& r) {
  return fmt::format(
      "{{\"group\": {}, \"sequence\": {}, \"name\": {}, \"elements\": {}, \"dtype\": {}, "
      "\"place\": {}, \"done\": {}}}",
      r.group, r.sequence, json_string(text_of(r.name)), r.elements,
      json_string(elements::dtype_name(static_cast<tenon_dtype_t>(r.dtype))),
      json_string(text_of(r.place)), r.end_ns != 0);
}

}  // namespace

std::string read_flight(const std::string& path, Flight* out) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rbe"), fclose);
  if (file == nullptr) return strerror(errno);
  flight::Head& head = out->head;
  if (fread(&head, sizeof head, 1, file.get()) != 1 ||
      memcmp(head.magic, flight::kMagic, sizeof head.magic) != 0)
    return "it is not the file of a flight recorder";
  if (head.version != flight::kVersion || head.record_bytes < sizeof(flight::Record) ||
      head.record_bytes > kRecordBytesMax || head.record_count == 0 ||
      head.record_count > kRecordCountMax)
    return "it is of another version, or damaged";
  std::vector<char> bytes(head.record_bytes);
  for (uint32_t i = 0; i < head.record_count; ++i) {
    if (fread(bytes.data(), bytes.size(), 1, file.get()) != 1) return "it is cut short";
    flight::Record record;
    memcpy(&record, bytes.data(), sizeof record);
    if (record.number != 0) out->records.push_back(record);
  }
  std::ranges::sort(out->records, {}, &flight::Record::number);
  return "";
}

std::string describe(const flight::Record& record) {
  std::string out = fmt::format("{} of {} {}", safe(text_of(record.name)), record.elements,
                                elements::dtype_name(static_cast<tenon_dtype_t>(record.dtype)));
  if (record.combine == TENON_COMBINE_SUM) out += " (sum)";
  if (record.combine == TENON_COMBINE_MIN) out += " (min)";
  if (record.combine == TENON_COMBINE_MAX) out += " (max)";
  const std::string place = text_of(record.place);
  return place.empty() ? out : out + " at " + safe(place);
}

std::string story(const std::map<uint32_t, Flight>& flights) {
  const flight::Head& head = flights.begin()->second.head;
  std::string out =
      fmt::format("{} processes, connected by {}\n", head.rank_count, safe(text_of(head.engine)));
  if (const auto missing = missing_files(flights); !missing.empty())
    out += fmt::format("no file of {}\n", ranks_text(missing));
  for (const auto& [rank, flight] : flights) out += line_of(flight);
  for (const auto& [number, group] : groups_of(flights)) {
    const uint64_t common = group.common();
    const std::string next = next_of(number, group, common + 1);
    if (next.empty()) continue;
    const OfGroup& first = group.ranks.begin()->second;
    const auto last = first.find(common);
    out +=
        last == first.end()
            ? fmt::format("group {}: no transfer that all have finished is in the files\n", number)
            : fmt::format("group {}: all have finished transfer {}: {}\n", number, common,
                          describe(*last->second));
    out += next;
  }
  return out;
}

std::string story_json(const std::map<uint32_t, Flight>& flights) {
  std::string ranks, missing;
  for (const auto& [rank, flight] : flights) {
    std::string open;
    for (const flight::Record& record : flight.records) {
      if (record.end_ns == 0) open += (open.empty() ? "" : ", ") + record_json(record);
    }
    ranks += fmt::format(
        "{}{{\"rank\": {}, \"process\": {}, \"engine\": {}, \"written\": {}, \"last\": {}, "
        "\"open\": [{}]}}",
        ranks.empty() ? "" : ", ", rank, flight.head.process,
        json_string(text_of(flight.head.engine)), flight.head.written,
        flight.records.empty() ? "null" : record_json(flight.records.back()), open);
  }
  for (const uint32_t rank : missing_files(flights))
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  return fmt::format("{{\"schema\": 1, \"ranks\": [{}], \"missing\": [{}]}}\n", ranks, missing);
}

std::string trace_json(const std::map<uint32_t, Flight>& flights) {
  std::string events;
  for (const auto& [rank, flight] : flights) {
    // Machines have steady clocks of their own; that of the day is common.
    const auto microseconds = [&](uint64_t steady) {
      return static_cast<double>(flight.head.wall_ns +
                                 static_cast<int64_t>(steady - flight.head.steady_ns)) /
             1000;
    };
    for (const flight::Record& record : flight.records) {
      const double begin = microseconds(record.begin_ns);
      const double end = record.end_ns == 0 ? begin : microseconds(record.end_ns);
      events += fmt::format(
          "{}\n{{\"name\": {}, \"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, \"dur\": "
          "{:.3f}, \"args\": {}}}",
          events.empty() ? "" : ",", json_string(text_of(record.name)), rank, record.group, begin,
          end - begin, record_json(record));
    }
    events += fmt::format(
        "{}\n{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": {}, \"args\": {{\"name\": "
        "\"rank {}\"}}}}",
        events.empty() ? "" : ",", rank, rank);
  }
  return "{\"traceEvents\": [" + events + "]}\n";
}

}  // namespace tenon::tools
