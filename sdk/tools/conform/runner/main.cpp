// tenon-conform PATH: does this plugin do what docs/spec/plugin.md demands? Needs the plugin's
// files and an installed Tenon.
#include <signal.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <tenon/cpp/sha256.hpp>

#include "sdk/tools/conform/runner/report.h"
#include "sdk/tools/conform/runner/runner.h"
#include "sdk/tools/conform/subject/names.h"

namespace {

using namespace tenon::conform;

// The same statuses as the tenon command's.
constexpr int kConforms = 0, kFailures = 1, kUsage = 2;

struct Options {
  std::string path, json, junit, html, badge, known;
  RunOptions run;
  bool list = false, verbose = false;
  bool level_given = false;  // a lower level is then a failure
  int to_stdout() const { return (json == "-") + (junit == "-") + (html == "-") + (badge == "-"); }
};

int usage_error(const std::string& text) {
  std::fprintf(stderr, "tenon: error: %s\n`tenon conform --help` shows what it takes.\n",
               text.c_str());
  return kUsage;
}

// A failure of the machine: help about the command would not help.
int plain_error(const std::string& text) {
  std::fprintf(stderr, "tenon: error: %s\n", text.c_str());
  return kUsage;
}

std::string digest_of(const std::string& path) {
  if (path.empty()) return "";
  Result<MappedFile> file = MappedFile::open(path);
  return file.ok() ? tenon::digest::sha256_hex(file->bytes()) : "";
}

// To a file, or to standard output for `-`.
Error write_to(const std::string& path, const std::string& text) {
  if (path.empty()) return {};
  if (path != "-") return write_file(path, text);
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return {};
  return {"T0107", fmt::format("standard output cannot be written: {}", std::strerror(errno)), {}};
}

// The text is printed first, on the other stream if reports go to standard output.
Error write_reports(const Options& options, const RunRecord& record) {
  const std::string text = text_report(record, options.verbose);
  if (options.to_stdout()) {
    std::fputs(text.c_str(), stderr);
  } else {
    if (Error error = write_to("-", text); error.failed()) return error;
  }
  using Writer = std::string (*)(const RunRecord&);
  const std::pair<const std::string&, Writer> reports[] = {{options.json, json_report},
                                                           {options.junit, junit_report},
                                                           {options.html, html_report},
                                                           {options.badge, badge_svg}};
  for (const auto& [path, writer] : reports) {
    if (path.empty()) continue;
    if (Error error = write_to(path, writer(record)); error.failed()) return error;
  }
  return {};
}

bool all_well(const Options& options, const RunRecord& record) {
  if (options.level_given && !record.partial && record.reached.level < options.run.level)
    return false;
  for (const Finding& finding : record.findings) {
    if (finding.counts() || finding.stale()) return false;
  }
  for (const KnownFailure& known : record.known) {
    if (!known.used) return false;
  }
  return true;
}

bool provides(const tenon::host::Manifest& manifest, std::string_view kind) {
  return std::any_of(manifest.provides.begin(), manifest.provides.end(),
                     [&](const tenon::host::Provided& p) { return p.kind == kind; });
}

bool is_kernel_set(const tenon::host::Manifest& manifest) {
  return provides(manifest, "kernels") && !provides(manifest, "device");
}

// The message for a pattern that matches no check, so that a typing error does not silently skip
// anything.
Error each_filter_chooses(const RunOptions& options) {
  for (const std::string& filter : options.filters) {
    RunOptions one = options;
    one.filters = {filter};
    if (!select_checks(one).empty()) continue;
    one.level = highest_level();
    const std::vector<Selected> beyond = select_checks(one);
    if (beyond.empty()) {
      return {
          "T0008",
          fmt::format("no check and no requirement matches {}; `tenon conform --list` names them.",
                      quoted(filter)),
          {}};
    }
    int lowest = highest_level();
    for (const Selected& selected : beyond) lowest = std::min(lowest, selected.group->level);
    return {"T0008",
            fmt::format(
                "{} matches checks of level {} and higher alone, and --level {} leaves them out.",
                quoted(filter), lowest, options.level),
            {}};
  }
  return {};
}

int list(const Options& options) {
  if (Error none = each_filter_chooses(options.run); none.failed()) return usage_error(none.text());
  const std::vector<Selected> checks = select_checks(options.run);
  const Error error = options.json.empty() ? write_to("-", list_text(checks))
                                           : write_to(options.json, list_json(checks));
  return error.failed() ? plain_error(error.text()) : kConforms;
}

// A missing file would otherwise be skipped silently, and so would one that no check reads.
Error examples_are_read(const RunOptions& options, const tenon::host::Manifest& manifest) {
  if (!options.examples.empty() && !options.kernel_set && !provides(manifest, "frontend") &&
      !provides(manifest, "device")) {
    return {"T0004",
            fmt::format("--example is for frontends, devices and kernel sets, and {} is none.",
                        quoted(manifest.name)),
            {}};
  }
  const bool of_device = !options.kernel_set && !provides(manifest, "frontend");
  const std::vector<Selected> checks = select_checks(options);
  if (of_device && !options.examples.empty() &&
      std::none_of(checks.begin(), checks.end(),
                   [](const Selected& selected) { return selected.group->letter == 'E'; })) {
    return {"T0004",
            "the checks of a device that read an --example are those of group E, of level 3, and "
            "the other options leave them out.",
            {}};
  }
  for (const std::string& path : options.examples) {
    if (Error error = check_readable(path); error.failed()) return error;
  }
  return {};
}

int conform(Options options) {
  if (options.to_stdout() > 1)
    return usage_error("T0004: one report at most goes to standard output.");
  if (options.list) return list(options);
  if (options.path.empty())
    return usage_error("T0004: PATH is required: a manifest, a library or a folder.");
  Result<Subject> subject = find_subject(options.path);
  if (!subject.ok()) return usage_error(subject.error().text());
  options.run.kernel_set = is_kernel_set(subject->manifest);
  if (Error none = each_filter_chooses(options.run); none.failed()) return usage_error(none.text());
  if (Error absent = examples_are_read(options.run, subject->manifest); absent.failed())
    return plain_error(absent.text());
  RunRecord record;
  if (!options.known.empty()) {
    Result<std::vector<KnownFailure>> known = read_known_failures(options.known);
    if (!known.ok()) return usage_error(known.error().text());
    record.known = std::move(*known);
  }
  const auto begin = std::chrono::steady_clock::now();
  record.path = options.path;
  record.subject = std::move(*subject);
  record.library_sha256 = digest_of(record.subject.library_path);
  record.level_asked = options.run.level;
  record.level_given = options.level_given;
  record.date = date_text();
  record.machine = machine_text();
  record.partial = !options.run.filters.empty();
  Result<std::vector<Finding>> findings = run_checks(record.subject, options.run);
  if (!findings.ok()) return plain_error(findings.error().text());
  record.findings = std::move(*findings);
  apply_known_failures(record.known, record.findings);
  record.reached = level_reached(record.findings, options.run.level);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (Error error = write_reports(options, record); error.failed())
    return plain_error(error.text());
  return all_well(options, record) ? kConforms : kFailures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 4 && std::string_view(argv[1]) == "--child")
    return run_child(argv[2], argv[3], {argv + 4, argv + argc});
  // Errors of a closed pipe, from the report's reader or a check that died at once, are returned by
  // the call.
  ::signal(SIGPIPE, SIG_IGN);
  // A broken rule of code generation then fails a check instead of writing a line to the log.
  ::setenv("TENON_VERIFY", "strict", 0);
  Options options;
  options.run.level = highest_level();
  options.run.jobs = std::max(1u, std::thread::hardware_concurrency());
  CLI::App app(
      "Checks a plugin against the requirements of spec/plugin.md (share/doc/Tenon, docs/spec).",
      "tenon conform");
  app.get_formatter()->column_width(26);
  app.add_option("PATH", options.path, "manifest, library or folder of one plugin")->type_name("");
  app.add_option("--level", options.run.level,
                 "this level, and no more: 1 loads, 2 memory, 3 compute, 4 asynchronous")
      ->check(CLI::Range(1, kWholeLevels).description(""))
      ->type_name("N");
  app.add_option("--filter", options.run.filters,
                 "only checks whose names or requirements match one: 'C.copy-*', 'R-D1?,R-C2'")
      ->type_name("GLOB,...")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--list", options.list,
               "list the checks that the other options choose; as JSON with --json -");
  app.add_option("--json", options.json, "write the results as JSON, to standard output for -")
      ->type_name("FILE");
  app.add_option("--junit", options.junit, "write the results for a CI system")->type_name("FILE");
  app.add_option("--html", options.html, "write the results as one page")->type_name("FILE");
  app.add_option("--badge", options.badge, "write the level as an SVG picture")->type_name("FILE");
  app.add_option("--known", options.known, "known failures, lines of GLOB REASON")
      ->type_name("FILE");
  app.add_option(
         "--example", options.run.examples,
         "a file of a frontend's format, or a model that a device or a kernel set is for; may be "
         "repeated")
      ->type_name("FILE");
  app.add_option("--jobs", options.run.jobs, "checks at once")
      ->check(CLI::Range(1u, 256u).description(""))
      ->type_name("N");
  app.add_option("--limit", options.run.limit_seconds, "time limit per check (default: 30 to 300)")
      ->check(CLI::Range(0.001, 1e6).description(""))
      ->check([](const std::string& text) {
        return std::isfinite(std::strtod(text.c_str(), nullptr))
                   ? ""
                   : text + " is not a number of seconds";
      })
      ->type_name("S");
  app.add_flag("-v,--verbose", options.verbose, "also print checks that pass");
  app.footer(
      "\nExit status: 0 no failure, 1 some check failed or the level was not reached, 2 usage "
      "error.");
  try {
    app.parse(argc, argv);
    options.level_given = app.count("--level") > 0;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return kConforms;
  } catch (const CLI::ParseError& error) {
    return usage_error(std::string("T0004: ") + error.what());
  }
  return conform(options);
}
