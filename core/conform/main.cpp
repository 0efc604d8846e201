// tenon-conform PATH: does this plugin do what docs/spec/plugin.md demands? Needs the plugin's
// files and an installed Tenon.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/conform/report.h"
#include "core/conform/runner.h"
#include "core/host/sha256.h"

namespace {

using namespace tenon::conform;

// The statuses of the tenon command.
constexpr int kConforms = 0, kFailures = 1, kUsage = 2;

struct Options {
  std::string path, json, junit, html, badge, known;
  RunOptions run;
  bool list = false, verbose = false;
  bool level_given = false;  // then less is a failure
};

int usage_error(const std::string& text) {
  std::fprintf(stderr, "tenon: error: %s\n`tenon conform --help` shows what it takes.\n",
               text.c_str());
  return kUsage;
}

// What the machine refuses: no help about the command would help.
int plain_error(const std::string& text) {
  std::fprintf(stderr, "tenon: error: %s\n", text.c_str());
  return kUsage;
}

std::string digest_of(const std::string& path) {
  if (path.empty()) return "";
  tenon::Result<tenon::File> file = tenon::open_user_file(path);
  if (!file.ok()) return "";
  auto region = tenon::map_file(*file);
  return region.ok() ? tenon::host::sha256_hex((*region)->bytes()) : "";
}

tenon::Status write_reports(const Options& options, const RunRecord& record) {
  if (!options.json.empty())
    TENON_RETURN_IF_ERROR(tenon::write_file(options.json, json_report(record)));
  if (!options.junit.empty())
    TENON_RETURN_IF_ERROR(tenon::write_file(options.junit, junit_report(record)));
  if (!options.html.empty())
    TENON_RETURN_IF_ERROR(tenon::write_file(options.html, html_report(record)));
  if (!options.badge.empty())
    TENON_RETURN_IF_ERROR(tenon::write_file(options.badge, badge_svg(record.level)));
  return tenon::Status();
}

bool all_well(const Options& options, const RunRecord& record) {
  if (options.level_given && !record.partial && record.level < options.run.level) return false;
  for (const Finding& finding : record.findings) {
    if (finding.counts() || finding.stale()) return false;
  }
  for (const KnownFailure& known : record.known) {
    if (!known.used) return false;
  }
  return true;
}

bool is_kernel_set(const tenon::host::Manifest& manifest) {
  const auto provides = [&](std::string_view kind) {
    return std::any_of(manifest.provides.begin(), manifest.provides.end(),
                       [&](const tenon::host::Provided& p) { return p.kind == kind; });
  };
  return provides("kernels") && !provides("device");
}

int conform(Options options) {
  if (options.list) {
    std::fputs((options.json.empty() ? list_text() : list_json()).c_str(), stdout);
    return kConforms;
  }
  if (options.path.empty())
    return usage_error("T0004: PATH is required: a manifest, a library or a folder.");
  tenon::Result<Subject> subject = find_subject(options.path);
  if (!subject.ok()) return usage_error(subject.status().text());
  options.run.kernel_set = is_kernel_set(subject->manifest);
  if (select_checks(options.run).empty()) {
    return usage_error(fmt::format("T0008: no check matches {}; `tenon conform --list` names them.",
                                   tenon::quoted(options.run.filter)));
  }
  RunRecord record;
  if (!options.known.empty()) {
    tenon::Result<std::vector<KnownFailure>> known = read_known_failures(options.known);
    if (!known.ok()) return usage_error(known.status().text());
    record.known = std::move(known).value();
  }
  const auto begin = std::chrono::steady_clock::now();
  record.path = options.path;
  record.subject = std::move(subject).value();
  record.library_sha256 = digest_of(record.subject.library_path);
  record.level_asked = options.run.level;
  record.partial = !options.run.filter.empty();
  tenon::Result<std::vector<Finding>> findings = run_checks(record.subject, options.run);
  if (!findings.ok()) return plain_error(findings.status().text());
  record.findings = std::move(findings).value();
  apply_known_failures(record.known, record.findings);
  record.level = level_of(record.findings);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::fputs(text_report(record, options.verbose).c_str(), stdout);
  if (tenon::Status status = write_reports(options, record); !status.ok())
    return usage_error(status.text());
  return all_well(options, record) ? kConforms : kFailures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 4 && std::string_view(argv[1]) == "--child")
    return run_child(argv[2], argv[3], {argv + 4, argv + argc});
  Options options;
  options.run.level = highest_level();
  options.run.jobs = std::max(1u, std::thread::hardware_concurrency());
  CLI::App app("Checks a plugin against the requirements of spec/plugin.md (share/doc/Tenon, docs/spec).", "tenon conform");
  app.get_formatter()->column_width(26);
  app.add_option("PATH", options.path, "manifest, library or folder of one plugin")->type_name("");
  app.add_option("--level", options.run.level, "this level, and no more: 1 loads, 2 memory, 3 compute, 4 asynchronous")
      ->check(CLI::Range(1, kWholeLevels).description(""))
      ->type_name("N");
  app.add_option("--filter", options.run.filter, "only checks whose names match: 'C.copy-*'")
      ->type_name("GLOB");
  app.add_flag("--list", options.list, "list the checks; as JSON with --json -");
  app.add_option("--json", options.json, "write the results as JSON")->type_name("FILE");
  app.add_option("--junit", options.junit, "write the results for a CI system")->type_name("FILE");
  app.add_option("--html", options.html, "write the results as one page")->type_name("FILE");
  app.add_option("--badge", options.badge, "write the level as an SVG picture")->type_name("FILE");
  app.add_option("--known", options.known, "known failures, lines of GLOB REASON")
      ->type_name("FILE");
  app.add_option("--example", options.run.examples,
                 "a file of a frontend's format, or a model that a kernel set is for; may be repeated")
      ->type_name("FILE");
  app.add_option("--jobs", options.run.jobs, "checks at once")
      ->check(CLI::Range(1u, 256u).description(""))
      ->type_name("N");
  app.add_option("--limit", options.run.limit_seconds,
                 "seconds that one check may take (30 to 300)")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("S");
  app.add_flag("-v,--verbose", options.verbose, "print what passes too");
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
