// tenon cache: what the cache folder holds, and its bound.
#include <time.h>

#include <tenon/abi/inspect.h>
#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/execution.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

// "512M" as bytes: a number with K, M or G, which are powers of 1024 as in TENON_LIMIT_CACHE_BYTES,
// and also as KB or KiB. False for anything else.
bool parse_bytes(std::string_view text, uint64_t& bytes) {
  double number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const std::string_view ending : {"iB", "B"}) {
    if (unit.size() > ending.size() && unit.ends_with(ending)) unit.remove_suffix(ending.size());
  }
  const std::map<std::string_view, double> units = {{"", 1},        {"B", 1},       {"k", 1 << 10},
                                                    {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
  if (error != std::errc() || !units.contains(unit) || !(number >= 0)) return false;
  const double all = number * units.at(unit);
  if (all >= 1e18) return false;
  bytes = static_cast<uint64_t>(all);
  return true;
}

std::string size_text(uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= 1 << 30) return fmt::format("{:.2f} GiB", number / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", number / (1 << 20));
  return fmt::format("{:.1f} KiB", number / (1 << 10));
}

std::string time_text(int64_t ns) {
  const time_t seconds = ns / 1000000000;
  struct tm parts = {};
  char text[32] = "";
  gmtime_r(&seconds, &parts);
  (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

class CacheCommand {
 public:
  CacheCommand(const Host& host, const CacheOptions& options) : host_(host), options_(options) {}

  int run() {
    const void* table = nullptr;
    if (tenon_code_t code =
            host_.host->query(host_.host->self, str(TENON_HOST_INSPECT_ID), 0, &table))
      return report(host_, code);
    inspect_ = static_cast<const tenon_host_inspect_t*>(table);
    if (options_.action == "why") return why();
    if (int s = read_listing()) return s;
    if (!listing_.value("usable", false)) {
      return fail(kUsage, "T0801",
                  fmt::format("there is no cache: {}.", safe(listing_.value("why_not", ""), 1000)),
                  "TENON_CACHE_DIR names a folder.");
    }
    if (options_.action == "dir") {
      out("{}\n", listing_.value("folder", ""));
      return kOk;
    }
    if (options_.action == "list") return list();
    if (options_.action == "prune" || options_.action == "clean") return prune();
    return size();
  }

 private:
  int read_listing() {
    Text text;
    const tenon_sink_t sink = text.sink();
    if (tenon_code_t code = inspect_->cache_list(inspect_->self, &sink)) return report(host_, code);
    text_ = std::move(text.text);
    listing_ = Json::parse(text_, nullptr, false);
    return listing_.is_object() ? kOk
                                : fail(kDevice, "T0003", "the list of the cache is not JSON.");
  }

  int size() {
    if (options_.json) {
      write_out(text_);
      return kOk;
    }
    std::map<std::string, std::pair<size_t, uint64_t>> kinds;
    for (const Json& entry : listing_["entries"]) {
      auto& [count, bytes] = kinds[entry.value("kind", "")];
      ++count;
      bytes += entry.value("bytes", uint64_t{0});
    }
    out("{} of at most {} in {}\n", size_text(listing_.value("bytes", uint64_t{0})),
        size_text(listing_.value("limit_bytes", uint64_t{0})), safe(listing_.value("folder", "")));
    for (const auto& [kind, sums] : kinds)
      out("  {:<12} {:>10}  {} entries\n", safe(kind), size_text(sums.second), sums.first);
    return kOk;
  }

  int list() {
    if (options_.json) {
      write_out(text_);
      return kOk;
    }
    for (const Json& entry : listing_["entries"]) {
      out("{}  {:>10}  {:<12} {}\n", time_text(entry.value("used_ns", int64_t{0})),
          size_text(entry.value("bytes", uint64_t{0})), safe(entry.value("kind", "")),
          safe(entry.value("name", "")));
    }
    return kOk;
  }

  int prune() {
    uint64_t most = options_.action == "clean" ? 0 : listing_.value("limit_bytes", uint64_t{0});
    if (!options_.max_bytes.empty() && !parse_bytes(options_.max_bytes, most)) {
      return fail(kUsage, "T0004",
                  fmt::format("{} is not a number of bytes.", in_quotes(options_.max_bytes)),
                  "As in 500M or 2G.");
    }
    uint64_t removed = 0;
    if (tenon_code_t code = inspect_->cache_prune(inspect_->self, most, &removed))
      return report(host_, code);
    // Listed again: other processes write and remove, too.
    if (int s = read_listing()) return s;
    out("removed {}, {} are left\n", size_text(removed),
        size_text(listing_.value("bytes", uint64_t{0})));
    return kOk;
  }

  struct Asked {
    std::string kind, name, difference;
    uint32_t found = 0;
  };

  // Compiles the model, and shows what was asked of the cache.
  int why() {
    std::vector<Asked> asked;
    const tenon_cache_lookup_sink_t sink = {
        sizeof sink, 0, &asked, [](void* self, const tenon_cache_lookup_t* lookup) {
          static_cast<std::vector<Asked>*>(self)->push_back(
              {std::string(view(lookup->kind)), std::string(view(lookup->name)),
               std::string(view(lookup->difference)), lookup->found});
        }};
    Model model(host_);
    Program program(host_);
    if (int s = load(host_, options_.model, model)) return s;
    if (tenon_code_t code = inspect_->cache_watch(inspect_->self, &sink))
      return report(host_, code);
    const int status = compile(host_, model, options_.model, options_.model.device, program);
    (void)inspect_->cache_watch(inspect_->self, nullptr);
    if (status != kOk) return status;
    options_.json ? print_json(asked) : print_why(asked);
    return kOk;
  }

  static void print_why(const std::vector<Asked>& asked) {
    if (asked.empty()) out("nothing was asked of the cache\n");
    for (const Asked& a : asked) {
      constexpr const char* kWords[] = {"missing", "found", "shipped"};
      out("{:<8} {:<12} {}{}\n", kWords[std::min(a.found, 2u)], safe(a.kind), safe(a.name),
          a.difference.empty() ? "" : ": " + safe(a.difference, 400));
    }
  }
  static void print_json(const std::vector<Asked>& asked) {
    Json rows = Json::array();
    for (const Asked& a : asked)
      rows.push_back({{"kind", a.kind},
                      {"name", a.name},
                      {"found", a.found != 0},
                      {"shipped", a.found == 2},
                      {"difference", a.difference}});
    write_out(Json({{"schema", 1}, {"lookups", rows}})
                  .dump(2, ' ', false, Json::error_handler_t::replace) +
              "\n");
  }

  const Host& host_;
  const CacheOptions& options_;
  const tenon_host_inspect_t* inspect_ = nullptr;
  std::string text_;  // the list of the cache, as JSON
  Json listing_;
};

}  // namespace

int command_cache(const CacheOptions& options) {
  apply_threads(options.model);
  Host host;
  if (int s = host_open(host)) return s;
  return CacheCommand(host, options).run();
}

}  // namespace tenon::tools
