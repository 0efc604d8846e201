// The command line. CLI11's exceptions are caught here.
#include "sdk/tools/tenon/cli/cli.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <tenon/abi/base.h>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/console/console.h"

#ifndef TENON_VERSION
#error "the build must define TENON_VERSION"
#endif

namespace tenon::tools {

// A validator that does not show in the help: its error states what it expects.
CLI::Validator quiet(CLI::Validator validator) {
  return validator.description("");
}

// An empty text means an unset variable of a script, not a wish for the default.
CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) {
        return text.find_first_not_of(" ,") == std::string::npos ? std::string("its value is empty")
                                                                 : std::string();
      },
      "");
}

// A finite number of at least 0: a NaN, which compares neither less nor greater, would pass every
// check.
CLI::Validator tolerance_number() {
  return CLI::Validator(
      [](std::string& text) {
        double value = -1;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool all = error == std::errc() && end == text.data() + text.size();
        return all && std::isfinite(value) && value >= 0
                   ? std::string()
                   : fmt::format("{} is not a tolerance: give a number of at least 0, as in 1e-4",
                                 in_quotes(text));
      },
      "");
}

// A whole number that fits in 64 bits; CLI11 would turn -1 or a larger one into the maximum.
CLI::Validator seed_number() {
  return CLI::Validator(
      [](std::string& text) {
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        return error == std::errc() && end == text.data() + text.size()
                   ? std::string()
                   : fmt::format("{} is not a seed: give a whole number from 0 to {}",
                                 in_quotes(text), UINT64_MAX);
      },
      "");
}

// An option that may be repeated and takes one value each time.
void repeatable(CLI::App* command, const char* name, std::vector<std::string>& values,
                const char* type, const char* doc) {
  command->add_option(name, values, doc)->take_all()->allow_extra_args(false)->type_name(type);
}

// How a model is compiled.
void add_compilation(CLI::App* command, RunOptions& o) {
  command->add_option("--device", o.device, "gets every node it claims; several by preference: a,b")
      ->check(not_empty())
      ->type_name("NAME[:N]");
  repeatable(command, "--value", o.values, "NAME=N,...",
             "integers of an input, which becomes a constant of the model; repeatable");
  repeatable(command, "--override", o.overrides, "NAME",
             "an initializer that is an input of the model, too: it is given as one; repeatable");
  repeatable(command, "--dim", o.dims, "NAME=N",
             "size of a symbolic dim: fixed when the model is loaded, if its format can, else that "
             "of random inputs; repeatable");
  repeatable(command, "--option", o.device_options, "DEVICE.KEY=VALUE",
             "option of a device; an unknown KEY lists the known ones; repeatable");
  command
      ->add_option("--passes", o.pipeline,
                   "passes before placement (default: standard); \"none\", \"mine,standard\"")
      ->check(not_empty())
      ->type_name("LIST");
  command->add_option("--threads", o.threads, "size of the thread pool (TENON_NUM_THREADS)")
      ->check(quiet(CLI::Range(int64_t{1}, int64_t{4096})))
      ->type_name("N");
  command->add_flag("--no-fallback", o.no_fallback, "fail if the device does not take every node");
}

namespace {

constexpr const char* kFooter =
    "\nMODEL is a .tir file, or of a format that a plugin reads (`tenon plugins list`); `run` and\n"
    "`bench` take a package (.tpk), too. Exit status: 0 success, 1 wrong result, 2 usage or input\n"
    "error, 3 a plugin or device failed, 130 interrupted.\n"
    "`tenon COMMAND --help` lists the options; `tenon explain CODE` explains an error code.";

void add_shared(CLI::App* command, RunOptions& o) {
  command->add_option("MODEL", o.model, "model file")->required()->type_name("");
  repeatable(command, "--input", o.inputs, "NAME=FILE", "read an input from a file; repeatable");
  add_compilation(command, o);
  command->add_flag(
      "--autotune", o.autotune,
      "measure where kernel sets and a device's own code compete, and take the faster");
  command->add_flag("--json", o.json, "one JSON object on stdout");
}

void add_packages(CLI::App& app, PackageOptions& o) {
  CLI::App* compile =
      app.add_subcommand("compile", "compile a model into a package, which `tenon run` starts");
  compile->add_option("MODEL", o.model.model, "model file")->required()->type_name("");
  compile->add_option("-o,--output", o.file, "the package to write: NAME.tpk")
      ->required()
      ->check(not_empty())
      ->type_name("FILE");
  compile
      ->add_option("--target", o.target,
                   "what the device compiles for, such as \"cpu isa=avx2\" (default: this machine)")
      ->check(not_empty())
      ->type_name("TEXT");
  add_compilation(compile, o.model);
  CLI::App* info =
      app.add_subcommand("info", "what a package holds, checking all of it; what a model takes");
  info->add_option("FILE", o.file, "package or model file")->required()->type_name("");
  info->add_flag("--json", o.json, "one JSON object on stdout");
}

CLI::App* add_run(CLI::App& app, RunOptions& o) {
  CLI::App* run = app.add_subcommand("run", "run a model and print its outputs");
  add_shared(run, o);
  run->add_option("--seed", o.seed, "random values for inputs that have no file")
      ->check(seed_number())
      ->type_name("N");
  run->add_option("--output-dir", o.output_dir,
                  "write each output as a file DIR/NAME" TENON_OUTPUT_EXTENSION)
      ->check(not_empty())
      ->type_name("DIR");
  run->add_option("--check", o.check, "run there too, without passes, and compare")
      ->check(not_empty())
      ->type_name("DEVICE");
  run->add_option("--tolerance", o.tolerance,
                  "for --check, times the largest |value| (default by element type)")
      ->check(tolerance_number())
      ->type_name("T");
  run->add_option("--top", o.top, "the N largest entries of each row of an output")
      ->check(quiet(CLI::Range(int64_t{1}, int64_t{1000000})))
      ->type_name("N");
  run->add_option("--profile", o.profile,
                  "write a timeline for Perfetto; also print the costliest kernels")
      ->check(not_empty())
      ->type_name("FILE");
  run->add_option_function<std::string>(
         "--simulate",
         [&o](const std::string& mesh) {
           o.simulate = true;
           o.mesh = mesh;
         },
         "compute all processes of the mesh in this one: data=2,model=2 (default: the mesh of "
         "the model's ops)")
      ->expected(0, 1)
      ->default_str("")
      ->type_name("[MESH]");
  run->add_option("--dump", o.dump,
                  "print a stage and stop: graph, partition, or DEVICE/ and one of stages, loops, "
                  "source, plan, asm")
      ->check(not_empty())
      ->type_name("STAGE");
  return run;
}

CLI::App* add_bench(CLI::App& app, RunOptions& o) {
  CLI::App* bench = app.add_subcommand("bench", "measure compile, first and repeated runs");
  add_shared(bench, o);
  bench->add_option("--seed", o.seed, "seed of the random inputs")
      ->check(seed_number())
      ->type_name("N");
  bench->add_option("--runs", o.runs, "number of measured runs (default: one second, at least ten)")
      ->check(quiet(CLI::Range(int64_t{1}, int64_t{1000000})))
      ->type_name("N");
  bench->add_flag("--collectives", o.collectives,
                  "measure transfers between processes, as one of several; takes no model");
  bench->get_option("MODEL")->required(false);
  bench->add_flag("--serve", o.serve,
                  "then run a round for each line on stdin (its seconds); print JSON");
  bench->add_option("--top", o.top, "the N costliest kernels, judged by this machine's peaks")
      ->check(quiet(CLI::Range(int64_t{1}, int64_t{1000000})))
      ->type_name("N");
  bench->add_option("--peaks", o.peaks, "peak rates for --top, instead of measuring them")
      ->check(not_empty())
      ->type_name("GFLOPS,GB/S");
  return bench;
}

void add_seed(CLI::App& app, RunOptions& o) {
  CLI::App* seed = app.add_subcommand("seed", "compile every operator by itself into the cache");
  seed->add_option("OP", o.inputs, "operators (default: all)")->type_name("");
  seed->add_option("--device", o.device, "device to compile for")->type_name("NAME")->required();
}

CLI::App* add_opt(CLI::App& app, OptOptions& o) {
  CLI::App* opt = app.add_subcommand("opt", "run passes over a graph and print it");
  opt->add_option("FILE", o.file, "graph, or - for standard input")->type_name("");
  opt->add_option("--passes", o.passes, "as in \"a,b{opt=1},c\"")
      ->check(not_empty())
      ->type_name("LIST");
  opt->add_option("--print-before", o.print_before,
                  "print to stderr before these passes, or \"all\"")
      ->check(not_empty())
      ->type_name("LIST");
  opt->add_option("--print-after", o.print_after, "print to stderr after these passes, or \"all\"")
      ->check(not_empty())
      ->type_name("LIST");
  opt->add_flag("--print-changed", o.print_changed,
                "print to stderr after each pass that changes it");
  opt->add_flag("--print-diff", o.print_diff,
                "print to stderr the lines in which each pass changes it");
  opt->add_option("-o,--output", o.output,
                  "write here instead of stdout; larger constants of text go to FILE.bin")
      ->check(not_empty())
      ->type_name("FILE");
  opt->add_flag("--verify-each", o.verify_each, "verify after each pass");
  opt->add_flag("--timing", o.timing, "statistics and time of each pass, on stderr");
  CLI::Option* binary = opt->add_flag("--binary", o.binary, "write the binary form");
  opt->add_flag("--dot", o.dot, "write text for Graphviz: | dot -Tsvg")->excludes(binary);
  opt->add_flag("--split-input", o.split_input,
                ".tir text of several graphs between lines `// -----`: each by itself")
      ->excludes(binary);
  opt->add_flag("--list", o.list, "list the passes with their options");
  opt->add_flag("--json", o.json, "with --list: one JSON object on stdout");
  return opt;
}

CLI::App* add_ops(CLI::App& app, OpsOptions& o) {
  CLI::App* ops = app.add_subcommand("ops", "list operators, or describe one");
  ops->add_option("NAME", o.name, "operator")->type_name("");
  ops->add_flag("--autotune", o.autotune, "with --explain: measure where several compete");
  ops->add_flag("--explain", o.explain, "which devices take it, and why the others do not");
  ops->add_option("--model", o.model,
                  "with --explain: in this MODEL instead of the operator's example")
      ->check(not_empty())
      ->type_name("MODEL");
  ops->add_flag("--markdown", o.markdown, "as a page; without NAME the table of all");
  ops->add_option("--output-dir", o.output_dir, "with --markdown: write every page here")
      ->check(not_empty())
      ->type_name("DIR");
  ops->add_flag("--json", o.json, "one JSON object on stdout");
  return ops;
}

CLI::App* add_plugins(CLI::App& app, PluginsOptions& o) {
  CLI::App* plugins = app.add_subcommand("plugins", "what was found, what was loaded, and why not");
  CLI::App* list = plugins->add_subcommand("list", "one line per plugin");
  CLI::App* explain = plugins->add_subcommand(
      "explain", "the gates that each plugin passed or failed; opens a named plugin");
  explain->add_option("NAME", o.name, "plugin, or a glob")->type_name("");
  CLI::App* lock =
      plugins->add_subcommand("lock", "what is usable now, with digests, for TENON_PLUGIN_LOCK");
  lock->add_option("NAME", o.names, "plugins, or globs (default: all)")->type_name("");
  lock->add_option("-o,--output", o.output, "write here instead of stdout")
      ->check(not_empty())
      ->type_name("FILE");
  for (CLI::App* command : {plugins, list, explain}) {
    command->add_flag("--json", o.json, "one JSON object on stdout");
  }
  plugins->require_subcommand(0, 1);
  return plugins;
}

void add_new(CLI::App& app, NewOptions& o) {
  CLI::App* make =
      app.add_subcommand("new", "start a plugin: a folder that builds, tests and conforms");
  make->add_option("KIND", o.kind, "device, kernels, op, pass, frontend or layer")
      ->required()
      ->type_name("");
  make->add_option("NAME", o.name, "name of the plugin: lower-case letters, digits and _")
      ->required()
      ->type_name("");
  make->add_option("--language", o.language, "c or c++ (default: c if there are both)")
      ->check(not_empty())
      ->type_name("L");
  make->add_option("--directory", o.directory, "where to create the folder NAME (default: here)")
      ->check(not_empty())
      ->type_name("DIR");
}

CLI::App* add_help(CLI::App& app, std::vector<std::string>& words) {
  CLI::App* help =
      app.add_subcommand("help", "help of a command, or the meaning of an operator or error code");
  help->add_option("WORD", words, "command, operator or error code")->type_name("");
  return help;
}

struct Given {
  const char* name;
  bool given;
};

// "A needs B, which is not given", or "A has no use with B", for the first pair that is so.
std::string idle_in(std::initializer_list<std::pair<Given, Given>> needs,
                    std::initializer_list<std::pair<Given, Given>> excludes) {
  for (const auto& [option, needed] : needs) {
    if (option.given && !needed.given)
      return fmt::format("{} needs {}, which is not given.", option.name, needed.name);
  }
  for (const auto& [option, other] : excludes) {
    if (option.given && other.given)
      return fmt::format("{} has no use with {}.", option.name, other.name);
  }
  return "";
}

// Of `tenon run` and `tenon bench`.
std::string idle_option(const RunOptions& o) {
  const Given dump{"--dump", !o.dump.empty()}, check{"--check", !o.check.empty()};
  const Given top{"--top", o.top != 0};
  return idle_in(
      {{{"--tolerance", o.tolerance_given}, check}, {{"--peaks", !o.peaks.empty()}, top}},
      {{check, dump},
       {top, dump},
       {{"--output-dir", !o.output_dir.empty()}, dump},
       {{"--profile", !o.profile.empty()}, dump},
       {{"--json", o.json}, dump}});
}

// `tenon bench` measures a model, or transfers.
std::string idle_bench(const RunOptions& o) {
  const Given collectives{"--collectives", o.collectives};
  return idle_in({}, {{{"MODEL", !o.model.empty()}, collectives},
                      {{"--input", !o.inputs.empty()}, collectives},
                      {{"--serve", o.serve}, collectives},
                      {{"--top", o.top != 0}, collectives},
                      {{"--runs", o.runs != 0}, collectives}});
}

std::string idle_option(const OptOptions& o) {
  const Given passes{"--passes", !o.passes.empty()}, list{"--list", o.list};
  return idle_in({{{"--print-before", !o.print_before.empty()}, passes},
                  {{"--print-after", !o.print_after.empty()}, passes},
                  {{"--print-changed", o.print_changed}, passes},
                  {{"--print-diff", o.print_diff}, passes},
                  {{"--timing", o.timing}, passes},
                  {{"--json", o.json}, list}},
                 {{{"FILE", !o.file.empty()}, list},
                  {{"--output", !o.output.empty()}, list},
                  {{"--binary", o.binary}, list},
                  {{"--dot", o.dot}, list},
                  {{"--split-input", o.split_input}, list},
                  {{"--verify-each", o.verify_each}, list},
                  {passes, list}});
}

std::string idle_option(const OpsOptions& o) {
  const Given explain{"--explain", o.explain}, markdown{"--markdown", o.markdown};
  const Given folder{"--output-dir", !o.output_dir.empty()};
  return idle_in(
      {{{"--autotune", o.autotune}, explain}, {folder, markdown}},
      {{explain, markdown}, {{"--json", o.json}, markdown}, {folder, {"NAME", !o.name.empty()}}});
}

std::string idle_option(const ReportOptions& o) {
  const Given no_run{"--no-run", o.no_run}, page{"a page", o.against.ends_with(".html")};
  return idle_in({}, {{{"--input", !o.model.inputs.empty()}, no_run},
                      {{"--peaks", !o.model.peaks.empty()}, no_run},
                      {{"--against-device", !o.against_device.empty()}, page},
                      {{"--against-passes", !o.against_passes.empty()}, page}});
}

// What is wrong with options that change nothing of what the others ask for; empty if nothing.
std::string idle_option(const Command& command) {
  for (std::string idle :
       {idle_option(command.run), idle_bench(command.run), idle_option(command.opt),
        idle_option(command.ops), idle_option(command.report),
        idle_in({}, {{{"--json", command.plugins.json}, {"lock", command.plugins.lock}},
                     {{"--json", command.cache.json},
                      {"`dir`, `prune` and `clean`", command.cache.action == "dir" ||
                                                         command.cache.action == "prune" ||
                                                         command.cache.action == "clean"}}})}) {
    if (!idle.empty()) return idle;
  }
  return "";
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The deepest subcommand that was given.
const CLI::App& current(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : current(*parsed.back());
}

// The first argument on the command line that was not used.
std::string first_extra(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> extras = app.remaining(true);
  for (int i = 1; i < argc; ++i) {
    if (std::find(extras.begin(), extras.end(), argv[i]) != extras.end()) return argv[i];
  }
  return extras.empty() ? "" : extras.front();
}

int usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App& at = current(app);
  const std::string advice = fmt::format("`{} --help` shows what it takes.", command_path(at));
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::string extra = first_extra(app, argc, argv);
    if (extra.starts_with("-")) {
      const std::string name = extra.substr(0, extra.find('='));
      return fail(kUsage, "T0004",
                  fmt::format("unknown option {} of `{}`{}", in_quotes(name), command_path(at),
                              did_you_mean(name, option_names(at))),
                  advice);
    }
    const auto commands = subcommand_names(at);
    if (!commands.empty()) {
      return fail(
          kUsage, "T0004",
          fmt::format("unknown command {}{}", in_quotes(extra), did_you_mean(extra, commands)),
          advice);
    }
    return fail(
        kUsage, "T0004",
        fmt::format("`{}` takes no further argument {}.", command_path(at), in_quotes(extra)),
        advice);
  }
  std::string message = error.what();
  // "Could not convert: --seed = x"
  const std::string_view failed = "Could not convert: ";
  if (const size_t equals = message.find(" = ");
      message.starts_with(failed) && equals != std::string::npos) {
    message = fmt::format("{} is not a valid value of `{}`", in_quotes(message.substr(equals + 3)),
                          message.substr(failed.size(), equals - failed.size()));
  }
  if (!message.empty() && message.back() != '.') message += '.';
  return fail(kUsage, "T0004", message, advice);
}

Command::Kind kind_of(const std::string& name) {
  if (name == "run") return Command::Kind::Run;
  if (name == "bench") return Command::Kind::Bench;
  if (name == "seed") return Command::Kind::Seed;
  if (name == "compile") return Command::Kind::Compile;
  if (name == "info") return Command::Kind::Info;
  if (name == "report") return Command::Kind::Report;
  if (name == "bisect") return Command::Kind::Bisect;
  if (name == "cache" || name == "dir" || name == "size" || name == "list" || name == "prune" ||
      name == "clean" || name == "why")
    return Command::Kind::Cache;
  if (name == "opt") return Command::Kind::Opt;
  if (name == "ops") return Command::Kind::Ops;
  if (name == "plugins") return Command::Kind::Plugins;
  if (name == "explain") return Command::Kind::Explain;
  if (name == "new") return Command::Kind::New;
  if (name == "conform") return Command::Kind::Conform;
  if (name == "launch") return Command::Kind::Launch;
  if (name == "flight") return Command::Kind::Flight;
  if (name == "help") return Command::Kind::Help;
  return Command::Kind::Doctor;
}

// `tenon help plugins lock` is `tenon plugins lock --help`; a single word that is not a command is
// looked up by the help command itself.
Command::Kind give_help(const CLI::App& app, const std::vector<std::string>& words,
                        HelpOptions& out) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const auto found =
        at->get_subcommands([&](const CLI::App* command) { return command->get_name() == word; });
    if (found.empty()) {
      out.word = word;
      out.commands = subcommand_names(*at);
      return Command::Kind::Help;
    }
    at = found.front();
  }
  if (at->get_prefix_command()) return kind_of(at->get_name());  // that program prints its help
  // App::help() would print that of the subcommand that was parsed, `help`.
  write_out(at->get_formatter()->make_help(at, command_path(*at), CLI::AppFormatMode::Normal));
  return Command::Kind::Done;
}

}  // namespace

std::string command_path(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return (parent != nullptr ? command_path(*parent) + " " : "") + app.get_name();
}

Command parse_command_line(int argc, char** argv) {
  Command command;
  CLI::App app("Tenon compiles models and runs them, on the devices that its plugins bring.",
               "tenon");
  const std::string version =
      fmt::format("tenon {} (ABI {}.{}{})", TENON_VERSION, TENON_ABI_MAJOR, TENON_ABI_MINOR,
                  build_commit()[0] == 0 ? "" : fmt::format(", commit {}", build_commit()));
  app.set_version_flag("--version", version);
  app.set_help_all_flag("--help-all", "help of every command");
  app.get_formatter()->column_width(26);
  app.get_formatter()->label("REQUIRED", "");
  app.footer(kFooter);
  CLI::App* run = add_run(app, command.run);
  CLI::App* bench = add_bench(app, command.run);
  add_seed(app, command.seed);
  add_packages(app, command.package);
  add_report(app, command.report);
  CLI::App* bisect = add_bisect(app, command.bisect);
  add_cache(app, command.cache);
  add_opt(app, command.opt);
  add_ops(app, command.ops);
  CLI::App* plugins = add_plugins(app, command.plugins);
  CLI::App* explain = app.add_subcommand("explain", "what an error code means and what to do");
  explain->add_option("CODE", command.explain.code, "T0301, P0305; without it, all codes")
      ->type_name("");
  explain->add_flag("--json", command.explain.json, "one JSON object on stdout");
  CLI::App* doctor = app.add_subcommand("doctor", "devices, plugins and settings, and what to fix");
  doctor->add_flag("--verbose", command.verbose, "also list settings at their defaults");
  doctor->add_flag("--json", command.json, "one JSON object on stdout");
  add_new(app, command.scaffold);
  add_launch(app, command.launch);
  add_flight(app, command.flight);
  // A separate program reads the arguments that follow, `--help` included.
  CLI::App* conform = app.add_subcommand("conform", "check a plugin against what plugins must do");
  conform->prefix_command()->set_help_flag();
  std::vector<std::string> words;
  CLI::App* help = add_help(app, words);
  CLI::App* print_version = app.add_subcommand("version", "the same as --version");
  std::string shell;
  CLI::App* completion = app.add_subcommand(
      "completion", "a script that completes this command line, or its manual page");
  completion->add_option("SHELL", shell, "bash, zsh, fish, or man for the manual page")
      ->required()
      ->check(quiet(CLI::IsMember({"bash", "zsh", "fish", "man"})))
      ->type_name("");
  add_examples(app);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    command.run.seed_given = (*run)["--seed"]->count() + (*bench)["--seed"]->count() > 0;
    command.run.tolerance_given = (*run)["--tolerance"]->count() > 0;
    command.bisect.model.tolerance_given = (*bisect)["--tolerance"]->count() > 0;
    const auto parsed = app.get_subcommands();
    if (parsed.empty()) {
      write_err(app.help());
      command.status = kUsage;
      return command;
    }
    if (*print_version) {
      write_out(version + "\n");
      return command;
    }
    if (*completion) {
      write_out(shell == "man" ? manual_page(app, version) : completion_script(app, shell));
      return command;
    }
    if (*help) {
      command.kind = give_help(app, words, command.help);
      if (command.kind == Command::Kind::Conform) command.conform = {"--help"};
      return command;
    }
    command.plugins.explain = plugins->got_subcommand("explain");
    command.plugins.lock = plugins->got_subcommand("lock");
    if (const std::string idle = idle_option(command); !idle.empty()) {
      command.status =
          fail(kUsage, "T0004", idle,
               fmt::format("`{} --help` shows what it takes.", command_path(current(app))));
      return command;
    }
    command.kind = kind_of(parsed.back()->get_name());
    if (command.kind == Command::Kind::Bench && command.run.model.empty() &&
        !command.run.collectives) {
      command.kind = Command::Kind::Done;
      command.status =
          fail(kUsage, "T0004", "MODEL is required.", "`tenon bench --help` shows what it takes.");
      return command;
    }
    command.conform = conform->remaining();
  } catch (const CLI::CallForVersion& version) {
    write_out(std::string(version.what()) + "\n");
  } catch (const CLI::CallForAllHelp&) {
    write_out(app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::CallForHelp&) {
    const CLI::App& at = current(app);
    write_out(at.help(at.get_parent() != nullptr ? command_path(*at.get_parent()) : ""));
  } catch (const CLI::ParseError& error) {
    command.status = usage_error(app, error, argc, argv);
  } catch (const std::exception& error) {
    command.status = fail(kUsage, "T0004", error.what());
  }
  return command;
}

}  // namespace tenon::tools
