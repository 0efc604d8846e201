// The parts of the command line. Only the files cli*.cpp use CLI11.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "sdk/tools/tenon/cli/options.h"

namespace tenon::tools {

// A validator that does not show in the help: its error states what it expects.
CLI::Validator quiet(CLI::Validator validator);
// An empty text means an unset variable of a script, not a wish for the default.
CLI::Validator not_empty();
CLI::Validator tolerance_number();
CLI::Validator seed_number();
// An option that may be repeated and takes one value each time.
void repeatable(CLI::App* command, const char* name, std::vector<std::string>& values,
                const char* type, const char* doc);
// How a model is compiled.
void add_compilation(CLI::App* command, RunOptions& o);

// The commands that look inside.
CLI::App* add_report(CLI::App& app, ReportOptions& o);
CLI::App* add_bisect(CLI::App& app, BisectOptions& o);
void add_launch(CLI::App& app, LaunchOptions& o);
void add_flight(CLI::App& app, FlightOptions& o);
CLI::App* add_cache(CLI::App& app, CacheOptions& o);

// Examples for the end of each command's help.
void add_examples(CLI::App& app);
// "run MODEL [options]": a command with its parents' names.
std::string command_path(const CLI::App& app);

// From the table of commands: a completion script for "bash", "zsh" or "fish" (else empty), and the
// manual page.
std::string completion_script(const CLI::App& app, const std::string& shell);
std::string manual_page(const CLI::App& app, const std::string& version);

}  // namespace tenon::tools
