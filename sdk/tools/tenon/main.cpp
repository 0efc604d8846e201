// The tenon command. Thin: it parses, calls libtenon through sdk/tenon/abi, and prints.
#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/host/helpers.h"

namespace {

int dispatch(const tenon::tools::Command& command) {
  using Kind = tenon::tools::Command::Kind;
  switch (command.kind) {
    case Kind::Done:
      return command.status;
    case Kind::Run:
      return tenon::tools::command_run(command.run);
    case Kind::Bench:
      return tenon::tools::command_bench(command.run);
    case Kind::Seed:
      return tenon::tools::command_seed(command.seed);
    case Kind::Compile:
      return tenon::tools::command_compile(command.package);
    case Kind::Info:
      return tenon::tools::command_info(command.package);
    case Kind::Report:
      return tenon::tools::command_report(command.report);
    case Kind::Bisect:
      return tenon::tools::command_bisect(command.bisect);
    case Kind::Cache:
      return tenon::tools::command_cache(command.cache);
    case Kind::Opt:
      return tenon::tools::command_opt(command.opt);
    case Kind::Ops:
      return tenon::tools::command_ops(command.ops);
    case Kind::Plugins:
      return tenon::tools::command_plugins(command.plugins);
    case Kind::Explain:
      return tenon::tools::command_explain(command.explain);
    case Kind::Doctor:
      return tenon::tools::command_doctor(command.json, command.verbose);
    case Kind::New:
      return tenon::tools::command_new(command.scaffold);
    case Kind::Launch:
      return tenon::tools::command_launch(command.launch);
    case Kind::Flight:
      return tenon::tools::command_flight(command.flight);
    case Kind::Help:
      return tenon::tools::command_help(command.help);
    case Kind::Conform:
      return tenon::tools::become_helper("tenon-conform", command.conform);
  }
  return command.status;
}

}  // namespace

int main(int argc, char** argv) {
  tenon::tools::console_start();
  const int status = dispatch(tenon::tools::parse_command_line(argc, argv));
  return tenon::tools::console_finish(tenon::tools::interrupted() ? tenon::tools::kInterrupted
                                                                  : status);
}
