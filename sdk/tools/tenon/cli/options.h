// The command line as plain values, and the commands that take them. Only cli.cpp uses CLI11.
#pragma once
#include <stdint.h>

#include <string>
#include <vector>

namespace tenon::tools {

struct RunOptions {  // run and bench
  std::string model;
  std::string device;
  std::vector<std::string> inputs;          // NAME=FILE, or FILE alone for a model with one input
  std::vector<std::string> dims;            // NAME=N
  std::vector<std::string> values;          // NAME=1,2,3: integers of inputs that become constants
  std::vector<std::string> device_options;  // KEY=VALUE, "cpu.opt=2"
  std::string pipeline;
  std::string output_dir;
  std::string check;
  std::string profile;
  std::string dump;
  uint64_t seed = 0;
  bool seed_given = false;
  double tolerance = 0;
  bool tolerance_given = false;
  bool no_fallback = false;
  bool autotune = false;
  bool json = false;
  int64_t top = 0;
  int64_t threads = 0;
  int64_t runs = 0;                    // bench: exactly this many; 0: limited by time
  std::string peaks;                   // bench --top: "GFLOPS,GB/S"; empty: measured
  bool serve = false;                  // bench: further rounds on request
  std::vector<std::string> overrides;  // initializers that are given as inputs
  bool collectives = false;            // bench: transfers between processes, and no model
  bool simulate = false;               // run: all processes of the mesh in this one
  std::string mesh;                    // for simulate; empty: that of the model's ops
};

struct LaunchOptions {
  int64_t processes = 0;
  std::string engine;                // empty: the first that can
  std::vector<std::string> command;  // the program and its arguments
};

struct FlightOptions {
  std::string folder;
  std::string trace;  // a file for Perfetto
  bool json = false;
};

struct PackageOptions {
  RunOptions model;    // compile: what is compiled, and how
  std::string target;  // compile: what the device compiles for; empty: this machine
  std::string file;    // compile: the package to write; info: the one to read
  bool json = false;
};

struct ReportOptions {
  RunOptions model;
  std::string output = "report.html";
  std::string against;  // a model, or a page that was written before
  std::string against_device, against_passes;
  bool no_run = false;
};

struct BisectOptions {
  BisectOptions() { model.check = "reference"; }
  RunOptions model;
  std::string output;  // empty: bisect-MODEL.tir
  int64_t timeout_seconds = 300;
};

struct CacheOptions {
  RunOptions model;  // why
  std::string action = "size";
  std::string max_bytes;  // prune: "500M"; empty: the bound
  bool json = false;
};

struct OptOptions {
  std::string file;
  std::string passes;
  std::string print_before;
  std::string print_after;
  std::string output;
  bool print_changed = false;
  bool print_diff = false;
  bool dot = false;
  bool verify_each = false;
  bool timing = false;
  bool list = false;
  bool json = false;
  bool binary = false;
  bool split_input = false;
};

struct OpsOptions {
  std::string name;
  std::string model;       // --explain: explain its nodes, instead of the op's first example
  std::string output_dir;  // --markdown: write one page per op here
  bool explain = false;
  bool autotune = false;
  bool markdown = false;
  bool json = false;
};

struct PluginsOptions {
  std::string name;
  std::vector<std::string> names;  // lock: plugins or globs; empty: all
  std::string output;              // lock: the file to write; empty: stdout
  bool explain = false;
  bool lock = false;
  bool json = false;
};

struct ExplainOptions {
  std::string code;
  bool json = false;
};

struct HelpOptions {
  std::string word;                   // a word that is not a command, to be looked up
  std::vector<std::string> commands;  // for a suggestion
};

struct NewOptions {
  std::string kind, name;
  std::string language;   // empty: the only one, or C if there are several
  std::string directory;  // where to create the folder NAME
};

struct Command {
  enum class Kind {
    Done,
    Run,
    Bench,
    Seed,
    Compile,
    Info,
    Report,
    Bisect,
    Cache,
    Opt,
    Ops,
    Plugins,
    Explain,
    Doctor,
    Conform,
    New,
    Launch,
    Flight,
    Help
  } kind = Kind::Done;
  int status = 0;  // Done: the exit status; help or a usage error has been printed
  bool json = false;
  bool verbose = false;
  RunOptions run, seed;
  PackageOptions package;
  ReportOptions report;
  BisectOptions bisect;
  CacheOptions cache;
  OptOptions opt;
  OpsOptions ops;
  PluginsOptions plugins;
  ExplainOptions explain;
  NewOptions scaffold;
  LaunchOptions launch;
  FlightOptions flight;
  HelpOptions help;
  std::vector<std::string> conform;  // passed on unchanged to the helper program
};

// The commit that the command was built from, as short as git prints it; empty if unknown.
const char* build_commit();

Command parse_command_line(int argc, char** argv);

// The commands. Each opens the host, does its work and returns the exit status; messages have been
// printed.
int command_run(const RunOptions& options);
int command_bench(const RunOptions& options);
int command_seed(const RunOptions& options);  // inputs: the names of ops; empty: all
int command_compile(const PackageOptions& options);
int command_info(const PackageOptions& options);
int command_report(const ReportOptions& options);
int command_bisect(const BisectOptions& options);
int command_cache(const CacheOptions& options);
int command_opt(const OptOptions& options);
int command_ops(const OpsOptions& options);
int command_plugins(const PluginsOptions& options);
int command_explain(const ExplainOptions& options);
int command_doctor(bool json, bool verbose);
int command_help(const HelpOptions& options);  // an operator or an error code
int command_new(const NewOptions& options);
int command_launch(const LaunchOptions& options);
int command_flight(const FlightOptions& options);

}  // namespace tenon::tools
