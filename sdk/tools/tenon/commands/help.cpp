// tenon help WORD, if WORD is not a command: an operator's page, or the meaning of an error code.
#include <algorithm>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

// A letter and four digits, "T0401".
bool is_code(std::string_view word) {
  return word.size() == 5 && isalpha(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin() + 1, word.end(), [](unsigned char c) { return isdigit(c); });
}

}  // namespace

int command_help(const HelpOptions& options) {
  if (is_code(options.word)) return command_explain({.code = options.word});
  Host host;
  if (int s = host_open(host)) return s;
  std::vector<std::string> names = options.commands;
  const auto collect = [](void* self, const tenon_op_def_t* op, tenon_str_t) {
    static_cast<std::vector<std::string>*>(self)->emplace_back(view(op->name));
  };
  if (tenon_code_t code = host.registry->op_each(host.registry->self, &names, collect))
    return report(host, code);
  if (std::find(names.begin(), names.end(), options.word) != names.end())
    return command_ops({.name = options.word});
  return fail(
      kUsage, "T0008",
      fmt::format("{} is not a command, operator or error code{}", in_quotes(options.word),
                  did_you_mean(options.word, names)),
      "`tenon --help` lists the commands, `tenon ops` the operators, `tenon explain` the codes.");
}

}  // namespace tenon::tools
