// The options of launch and flight.
#include "sdk/tools/tenon/cli/cli.h"

namespace tenon::tools {

void add_launch(CLI::App& app, LaunchOptions& o) {
  CLI::App* launch =
      app.add_subcommand("launch", "start a program as several processes that an engine connects");
  launch->add_option("-n,--processes", o.processes, "how many processes")
      ->required()
      ->check(quiet(CLI::Range(int64_t{1}, int64_t{1} << 20)))
      ->type_name("N");
  launch->add_option("--engine", o.engine, "the engine (default: the first that can)")
      ->check(not_empty())
      ->type_name("NAME");
  launch->add_option("COMMAND", o.command, "the program and its arguments, after `--`")
      ->required()
      ->type_name("");
}

void add_flight(CLI::App& app, FlightOptions& o) {
  CLI::App* flight = app.add_subcommand(
      "flight", "what each of several processes did last: who is missing, at which transfer");
  flight->add_option("DIR", o.folder, "the folder that TENON_FLIGHT or a message names")
      ->required()
      ->type_name("");
  flight->add_option("--trace", o.trace, "write a timeline for Perfetto, a row for each process")
      ->check(not_empty())
      ->type_name("FILE");
  flight->add_flag("--json", o.json, "one JSON object on stdout");
}

}  // namespace tenon::tools
