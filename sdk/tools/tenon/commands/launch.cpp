// tenon launch: starts a program as several processes, by the launcher that belongs to the library
// that will connect them.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <tenon/abi/collective.h>
#include <tenon/cpp/engines.hpp>

#include <vector>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

// Words that are each ended by a zero byte.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size(); at += words.back().size() + 1)
    words.emplace_back(text.c_str() + at);
  return words;
}

// The launcher's words, of the engine of this name or of the first that has one. The failures of
// all are printed if there is none.
class Launcher {
 public:
  explicit Launcher(const Host& host) : host_(host) {}

  int find(const LaunchOptions& options) {
    const std::vector<std::string> names = options.engine.empty()
                                               ? engines::names(*host_.registry)
                                               : std::vector<std::string>{options.engine};
    for (const std::string& name : names) {
      if (ask(name, static_cast<uint32_t>(options.processes))) return kOk;
    }
    return fail(kDevice, "T0902", fmt::format("no engine can start processes{}.", reasons_),
                "Start the program by a launcher of your system, such as mpirun or srun.");
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  bool ask(const std::string& name, uint32_t count) {
    const tenon_collective_api_t* api = engines::find(*host_.registry, name);
    if (api != nullptr && api->launcher == nullptr) {
      reasons_ += fmt::format("; {} has no launcher", safe(name));
      return false;
    }
    Text text;
    const tenon_sink_t sink = text.sink();
    if (api != nullptr && api->launcher(api->self, count, &sink) == TENON_OK) {
      words_ = words_of(text.text);
      return !words_.empty();
    }
    auto failure = sized<tenon_failure_t>();
    (void)host_.host->last_failure(host_.host->self, &failure);
    reasons_ += fmt::format("; {}: {}", safe(name), safe(view(failure.message), 1000));
    return false;
  }

  const Host& host_;
  std::vector<std::string> words_;
  std::string reasons_;
};

}  // namespace

int command_launch(const LaunchOptions& options) {
  std::vector<std::string> words;
  {
    Host host;
    if (int s = host_open(host)) return s;
    Launcher launcher(host);
    if (int s = launcher.find(options)) return s;
    words = launcher.words();
  }
  words.insert(words.end(), options.command.begin(), options.command.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  flush_out();
  (void)::execvp(argv[0], argv.data());
  return fail(kDevice, "T0902",
              fmt::format("{} cannot be started: {}.", in_quotes(words[0]), strerror(errno)));
}

}  // namespace tenon::tools
