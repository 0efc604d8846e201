#include "sdk/tools/conform/runner/report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <map>
#include <span>

#include <tenon/abi/base.h>
#include <tenon/cpp/dtype.hpp>

#include <tenon/cpp/sha256.hpp>

#include "sdk/tools/conform/runner/requirements.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Finding& f) {
  return full_name(*f.group, *f.check);
}

// The word in the column of verdicts.
std::string word_of(const Finding& f) {
  if (f.stale()) return "stale";
  if (f.group->letter == kSpeed && f.outcome.verdict == Verdict::kPass) return "reported";
  if (f.outcome.verdict == Verdict::kFail && f.group->letter == kSpeed) return "skip";
  if (f.outcome.verdict == Verdict::kFail) return f.known.empty() ? "FAIL" : "known";
  return std::string(verdict_name(f.outcome.verdict));
}

std::string line_of(const Finding& f) {
  std::string text = f.outcome.text;
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (f.stale()) text = "listed as a known failure (" + f.known + "), and it passes";
  if (!f.known.empty() && !f.stale()) text += " (known: " + f.known + ")";
  std::string line = fmt::format("{:<12} {} {}{}{}\n", word_of(f), f.check->requirement, name_of(f),
                                 text.empty() ? "" : ": ", text);
  if (f.counts())
    line += fmt::format("{:<12} {}\n", "", requirement_sentence(f.check->requirement));
  return line;
}

std::string sums(const RunRecord& r) {
  const Counts c = count(r);
  std::string text = fmt::format("{} passed, {} failed", c.passed, c.failed);
  if (c.known != 0) text += fmt::format(", {} known failures", c.known);
  if (c.stale != 0) text += fmt::format(", {} stale known failures", c.stale);
  return text +
         fmt::format(", {} skipped, {} not offered, {:.1f} s", c.skipped, c.not_offered, r.seconds);
}

// For HTML and XML alike; printable() has already escaped characters that neither allows.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A sentence of the specification, with its code marks turned into those of HTML.
std::string sentence_html(std::string_view id) {
  std::string out;
  bool code = false;
  for (char c : escaped(requirement_sentence(id))) {
    if (c == '`')
      out += (code = !code) ? "<code>" : "</code>";
    else
      out += c;
  }
  return out;
}

std::string digest_of(std::string_view text) {
  return digest::sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

std::string manifest_digest(const RunRecord& record) {
  return digest_of(record.subject.manifest_text);
}

// Identifies the set of checks: reports with the same digest come from the same checks.
std::string checks_digest() {
  return digest_of(list_json(all_checks()));
}

Json check_json(const Finding& f) {
  Json json = {{"check", name_of(f)},
               {"requirement", f.check->requirement},
               {"sentence", requirement_sentence(f.check->requirement)},
               {"result", verdict_name(f.outcome.verdict)}};
  if (!f.outcome.text.empty()) json["text"] = f.outcome.text;
  if (!f.known.empty()) json["known"] = f.known;
  if (f.stale()) json["stale"] = true;
  if (!f.notes.empty()) json["notes"] = f.notes;
  json["seconds"] = f.seconds;
  return json;
}

// Cases that agreed with the reference, by op and element type, over all checks.
using KernelTable = std::map<std::string, std::map<std::string, size_t>>;
KernelTable kernels_of(const RunRecord& record) {
  KernelTable table;
  for (const Finding& f : record.findings) {
    for (const std::string& note : f.notes) {
      const std::vector<std::string_view> words = split(note, ' ');
      uint64_t cases = 0;
      if (words.size() == 4 && words[0] == "kernel" && parse_u64(words[3], &cases))
        table[std::string(words[1])][std::string(words[2])] += cases;
    }
  }
  return table;
}

// What was computed of one pattern that the device claims, as E.variations notes it.
struct PatternRow {
  std::string ops, from, inputs, computed, not_claimed, tolerance;
};
std::vector<PatternRow> patterns_of(const RunRecord& record) {
  std::vector<PatternRow> rows;
  for (const Finding& f : record.findings) {
    for (const std::string& note : f.notes) {
      const std::vector<std::string_view> parts = split(note, '|');
      if (!note.starts_with("pattern ") || parts.size() != 6) continue;
      const auto part = [&](size_t i) { return std::string(trim(parts[i])); };
      rows.push_back({part(0).substr(8), part(1), part(2), part(3), part(4), part(5)});
    }
  }
  return rows;
}

std::string patterns_html(const RunRecord& record) {
  const std::vector<PatternRow> rows = patterns_of(record);
  if (rows.empty()) return "";
  std::string text =
      "<h2>What was computed</h2>\n<p>Each distinct pattern that the device claims, in variations "
      "of sizes, strides, constants and element types, and compared with the reference. What it "
      "does not claim in a variation runs elsewhere.</p>\n<table><tr><th>Pattern</th><th>From</th>"
      "<th>Inputs</th><th>Computed</th><th>Not claimed</th><th>Largest difference</th></tr>\n";
  for (const PatternRow& row : rows) {
    text +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                    escaped(row.ops), escaped(row.from), escaped(row.inputs), escaped(row.computed),
                    escaped(row.not_claimed), escaped(row.tolerance));
  }
  return text + "</table>\n";
}

// Rows are ops, columns element types in the order of the ABI.
std::string kernel_rows(const KernelTable& table) {
  std::vector<std::string> dtypes;
  for (tenon_dtype_t dtype = TENON_PRED; dtype < elements::kDtypeEnd; ++dtype) {
    const std::string name(dtype_name(dtype));
    if (std::any_of(table.begin(), table.end(),
                    [&](const auto& row) { return row.second.contains(name); }))
      dtypes.push_back(name);
  }
  std::string rows = "<tr><th>Op</th>";
  for (const std::string& dtype : dtypes) rows += fmt::format("<th>{}</th>", dtype);
  rows += "</tr>\n";
  for (const auto& [op, cells] : table) {
    rows += fmt::format("<tr><td>{}</td>", escaped(op));
    for (const std::string& dtype : dtypes) {
      const auto cell = cells.find(dtype);
      rows += cell == cells.end() ? "<td></td>"
                                  : fmt::format("<td class=\"yes\">{}</td>", cell->second);
    }
    rows += "</tr>\n";
  }
  return rows;
}

// Devices, as reported by C.info.
std::vector<std::string> devices_of(const RunRecord& record) {
  std::vector<std::string> devices;
  for (const Finding& f : record.findings) {
    for (const std::string& note : f.notes) {
      if (note.starts_with("device ")) devices.push_back(note);
    }
  }
  return devices;
}

// "R-D10, R-D17"
std::string unchecked_text(const RunRecord& record) {
  std::string text;
  for (const Finding* f : unchecked(record.findings, record.reached.level))
    text += (text.empty() ? "" : ", ") + std::string(f->check->requirement);
  return text;
}

// "A, B, I, and C except R-C26": the groups that hold; empty if none does.
std::string groups_text(const RunRecord& record) {
  std::string whole, partly;
  for (const GroupResult& result : group_results(record.findings)) {
    if (!result.holds()) continue;
    if (result.open.empty()) {
      whole += fmt::format("{}{}", whole.empty() ? "" : ", ", result.group->letter);
      continue;
    }
    std::string open;
    for (size_t i = 0; i < result.open.size(); ++i) {
      open += i == 0 ? "" : i + 1 == result.open.size() ? " and " : ", ";
      open += result.open[i]->check->requirement;
    }
    partly += fmt::format("{}{} except {}", partly.empty() ? "" : "; ", result.group->letter, open);
  }
  return whole + (whole.empty() || partly.empty() ? "" : "; ") + partly;
}

// The verdict in a sentence, which every report begins with.
std::string verdict_text(const RunRecord& record) {
  const std::string subject =
      fmt::format("{} {}: ", record.subject.manifest.name, record.subject.manifest.version);
  const Counts c = count(record);
  if (record.partial)
    return subject + (c.failed == 0 ? "some checks were run, and none failed"
                                    : fmt::format("some checks were run, and {} failed", c.failed));
  std::string text = record.reached.level == 0
                         ? "no level was reached"
                         : fmt::format("level {} was reached", record.reached.level);
  if (record.reached.of_patterns) text += ", as a device that takes patterns alone";
  if (const std::string groups = groups_text(record); !groups.empty())
    text += fmt::format("; these groups hold: {}", groups);
  return subject + text;
}

// What is missing for the next level, line by line.
std::vector<std::string> needs_of(const RunRecord& record) {
  constexpr size_t kMost = 8;
  std::vector<std::string> lines;
  const auto& missing = record.reached.missing;
  for (const Finding* f : missing) {
    if (lines.size() == kMost) {
      lines.push_back(fmt::format("and {} checks more", missing.size() - kMost));
      break;
    }
    const Verdict verdict = f->outcome.verdict;
    lines.push_back(fmt::format("level {} needs {} ({}), which {}{}{}", record.reached.level + 1,
                                name_of(*f), f->check->requirement,
                                verdict == Verdict::kFail   ? "fails"
                                : verdict == Verdict::kSkip ? "was skipped"
                                                            : "is not offered",
                                f->outcome.text.empty() ? "" : ": ", f->outcome.text));
  }
  if (!record.reached.why.empty() && (record.reached.level < 2 || record.level_given))
    lines.push_back(record.reached.why);
  return lines;
}

// The level as a label of two fields, drawn without a font of its own.
std::string badge(const RunRecord& record) {
  const int level = record.reached.level;
  const std::string open = unchecked_text(record);
  // What could not be checked counts against the badge: it is another colour, and says how much.
  const size_t open_count = unchecked(record.findings, level).size();
  const char* colour = level == 0 ? "#b03030" : open_count != 0 ? "#8a6d00" : "#2e7d32";
  std::string right = level == 0 ? "not conforming" : fmt::format("level {}", level);
  for (const GroupResult& result : group_results(record.findings)) {
    if (level != 0 && result.group->level > level && result.holds())
      right += fmt::format(" + {}", result.group->letter);
  }
  if (level != 0 && open_count != 0) right += fmt::format(", {} unchecked", open_count);
  const size_t left_width = 110, right_width = 16 + 7 * right.size();
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"22\" role=\"img\" "
      "aria-label=\"Tenon: {3}\"><title>Tenon: {3}{6}</title>"
      "<rect width=\"{1}\" height=\"22\" fill=\"#444\"/><rect x=\"{1}\" width=\"{2}\" "
      "height=\"22\" fill=\"{4}\"/>"
      "<g fill=\"#fff\" font-family=\"sans-serif\" font-size=\"12\"><text x=\"8\" y=\"15\">Tenon "
      "conform</text>"
      "<text x=\"{5}\" y=\"15\">{3}</text></g></svg>",
      left_width + right_width, left_width, right_width, right, colour, left_width + 8,
      open.empty() ? "" : ", without " + open + ", which could not be checked");
}

std::string rows_of_group(const RunRecord& record, const Group& group) {
  std::string rows;
  for (const Finding& f : record.findings) {
    if (f.group != &group) continue;
    std::string kind = word_of(f);
    std::replace(kind.begin(), kind.end(), ' ', '-');
    rows += fmt::format(
        "<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", kind,
        f.check->requirement, sentence_html(f.check->requirement), escaped(f.check->name),
        word_of(f), escaped(f.outcome.text));
  }
  return rows;
}

std::string needs_html(const RunRecord& record) {
  std::string text;
  for (const std::string& line : needs_of(record))
    text += fmt::format("<p>{}</p>\n", escaped(line));
  if (const std::string open = unchecked_text(record); !open.empty())
    text += fmt::format("<p>Requirements that could not be checked here: {}.</p>\n", open);
  return text;
}

// Date, machine and devices.
std::string facts_html(const RunRecord& record) {
  std::string rows =
      fmt::format("<tr><td>Date</td><td>{}</td></tr><tr><td>Machine</td><td>{}</td></tr>",
                  escaped(record.date), escaped(record.machine));
  for (const std::string& device : devices_of(record))
    rows += fmt::format("<tr><td>Device</td><td>{}</td></tr>", escaped(device.substr(7)));
  return rows;
}

std::string legend_html() {
  return "<h2>What the words mean</h2>\n<table>"
         "<tr><td>level 1</td><td>The plugin loads: groups A and B hold.</td></tr>"
         "<tr><td>level 2</td><td>Its device memory works, or what else it offers: C and I, G, or "
         "F of "
         "a kernel set.</td></tr>"
         "<tr><td>level 3</td><td>The device computes: E and F.</td></tr>"
         "<tr><td>level 4</td><td>It works asynchronously and survives faults: D and J.</td></tr>"
         "<tr><td>pass, FAIL</td><td>The requirement was seen to be met, or to be broken.</td></tr>"
         "<tr><td>skip</td><td>It could not be tried here, for the reason next to it.</td></tr>"
         "<tr><td>not offered</td><td>The plugin does not have this interface or slot, which is "
         "not a "
         "fault.</td></tr>"
         "<tr><td>known, stale</td><td>A failure on the list of known ones, or one of that list "
         "that "
         "passes.</td></tr>"
         "<tr><td>reported</td><td>A figure that is never judged.</td></tr></table>\n";
}

}  // namespace

Counts count(const RunRecord& record) {
  Counts counts;
  for (const Finding& f : record.findings) {
    counts.stale += f.stale();
    switch (f.outcome.verdict) {
      case Verdict::kPass:
        ++counts.passed;
        break;
      case Verdict::kFail:
        ++(f.group->letter == kSpeed ? counts.skipped
           : f.known.empty()         ? counts.failed
                                     : counts.known);
        break;
      case Verdict::kSkip:
        ++counts.skipped;
        break;
      case Verdict::kNotOffered:
        ++counts.not_offered;
        break;
    }
  }
  return counts;
}

std::string text_report(const RunRecord& record, bool verbose) {
  std::string text = verdict_text(record) + "\n";
  if (!record.partial) {
    for (const std::string& line : needs_of(record)) text += "  " + line + "\n";
    if (const std::string open = unchecked_text(record); !open.empty())
      text += fmt::format("  not checked here, for the reasons below: {}\n", open);
  }
  for (const Finding& f : record.findings) {
    const bool quiet = f.outcome.verdict == Verdict::kNotOffered ||
                       (f.outcome.verdict == Verdict::kPass && f.group->letter != kSpeed);
    if (verbose || !quiet || f.stale()) text += line_of(f);
  }
  for (const KnownFailure& k : record.known) {
    if (!k.used)
      text += fmt::format("{:<12} {} matches no check that was run\n", "stale", quoted(k.glob));
  }
  return text + sums(record) + "\n";
}

std::string json_report(const RunRecord& record) {
  const Counts c = count(record);
  Json checks = Json::array();
  for (const Finding& f : record.findings) checks.push_back(check_json(f));
  Json json = {{"schema", 1},
               {"plugin",
                {{"name", record.subject.manifest.name},
                 {"version", record.subject.manifest.version},
                 {"manifest", record.subject.manifest_path},
                 {"library", record.subject.library_path},
                 {"sha256", record.library_sha256},
                 {"manifest_sha256", manifest_digest(record)}}},
               {"tenon", TENON_VERSION},
               {"date", record.date},
               {"machine", record.machine},
               {"devices", devices_of(record)},
               {"level_asked", record.level_asked},
               {"level", record.reached.level},
               {"counts",
                {{"passed", c.passed},
                 {"failed", c.failed},
                 {"known", c.known},
                 {"stale", c.stale},
                 {"skipped", c.skipped},
                 {"not_offered", c.not_offered}}},
               {"seconds", record.seconds},
               {"checks_sha256", checks_digest()},
               {"checks", checks}};
  json["verdict"] = verdict_text(record);
  for (const GroupResult& result : group_results(record.findings)) {
    Json open = Json::array();
    for (const Finding* f : result.open) open.push_back(f->check->requirement);
    json["groups"].push_back({{"group", std::string(1, result.group->letter)},
                              {"holds", result.holds()},
                              {"passed", result.passed},
                              {"failed", result.failed},
                              {"skipped", result.skipped},
                              {"not_offered", result.not_offered},
                              {"unchecked", open}});
  }
  json["level_needs"] = Json::array();
  for (const Finding* f : record.reached.missing) json["level_needs"].push_back(name_of(*f));
  json["unchecked"] = Json::array();
  for (const Finding* f : unchecked(record.findings, record.reached.level))
    json["unchecked"].push_back(f->check->requirement);
  for (const auto& [op, cells] : kernels_of(record)) {
    for (const auto& [dtype, cases] : cells)
      json["kernels"].push_back({{"op", op}, {"dtype", dtype}, {"cases", cases}});
  }
  for (const PatternRow& row : patterns_of(record)) {
    json["patterns"].push_back({{"ops", row.ops},
                                {"from", row.from},
                                {"inputs", row.inputs},
                                {"computed", row.computed},
                                {"not_claimed", row.not_claimed},
                                {"largest_difference", row.tolerance}});
  }
  json["of_patterns"] = record.reached.of_patterns;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string junit_report(const RunRecord& record) {
  const Counts c = count(record);
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" "
      "failures=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n",
      escaped(record.subject.manifest.name), record.findings.size(), c.failed + c.stale,
      c.skipped + c.not_offered + c.known, record.seconds);
  for (const Finding& f : record.findings) {
    text += fmt::format("  <testcase classname=\"{}\" name=\"{} {}\" time=\"{:.3f}\">",
                        f.group->letter, f.check->requirement, f.check->name, f.seconds);
    if (f.counts())
      text += fmt::format("<failure message=\"{}\">{}</failure>", escaped(f.outcome.text),
                          escaped(requirement_sentence(f.check->requirement)));
    else if (f.stale())
      text += fmt::format("<failure message=\"known failure that passes: {}\"/>", escaped(f.known));
    else if (f.outcome.verdict != Verdict::kPass)
      text += fmt::format("<skipped message=\"{}\"/>", escaped(f.outcome.text));
    text += "</testcase>\n";
  }
  return text + "</testsuite>\n";
}

std::string html_report(const RunRecord& record) {
  const host::Manifest& m = record.subject.manifest;
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0} {1}: "
      "conformance</title>\n<style>"
      "body{{font:14px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 "
      "1em}}table{{border-collapse:collapse;width:100%}}"
      "td,th{{text-align:left;padding:.2em .6em;border-bottom:1px solid "
      "#ddd;vertical-align:top}}code{{font-size:12px}}"
      ".yes{{background:#dfd}}.FAIL,.stale{{background:#fdd}}.known{{background:#fed}}.skip,.not-"
      "offered{{color:#666}}</"
      "style></head><body>\n"
      "<h1>{0} {1}</h1>\n<p>{12}.</p>\n<p>{2}</p>\n<p>{3}</p>\n{10}<p>Tenon {4}, ABI {5}.{6}. "
      "</p>\n<table>{11}<tr><td>Library, "
      "sha256</td><td><code>{7}</code></td></tr><tr><td>Manifest, "
      "sha256</td><td><code>{8}</code></td></tr><tr><td>Checks, "
      "sha256</td><td><code>{9}</code></td></tr></table>\n",
      escaped(m.name), escaped(m.version), badge(record), escaped(sums(record)), TENON_VERSION,
      TENON_ABI_MAJOR, TENON_ABI_MINOR,
      record.library_sha256.empty() ? "unknown" : record.library_sha256, manifest_digest(record),
      checks_digest(), needs_html(record), facts_html(record), escaped(verdict_text(record)));
  text += patterns_html(record);
  if (const KernelTable kernels = kernels_of(record); !kernels.empty()) {
    text += fmt::format(
        "<h2>Kernels</h2>\n<p>Cases that agree with the reference, by op and element type of the "
        "first operand.</p>\n<table>{}</table>\n",
        kernel_rows(kernels));
  }
  text += legend_html();
  for (const Group& group : groups()) {
    const std::string rows = rows_of_group(record, group);
    if (rows.empty()) continue;
    text += fmt::format(
        "<h2>{} "
        "{}</h2>\n<table><tr><th>Requirement</th><th></th><th>Check</th><th>Result</th><th></th></"
        "tr>\n{}</"
        "table>\n",
        group.letter, group.title, rows);
  }
  return text + "</body></html>\n";
}

std::string badge_svg(const RunRecord& record) {
  return badge(record) + "\n";
}

std::string list_text(const std::vector<Selected>& checks) {
  std::string text;
  const Group* group = nullptr;
  for (const Selected& selected : checks) {
    if (selected.group != group) {
      group = selected.group;
      text += fmt::format("{} {} (level {})\n", group->letter, group->title, group->level);
    }
    const Check& check = *selected.check;
    text += fmt::format("  {} {}: {}\n", check.requirement, full_name(*group, check),
                        requirement_sentence(check.requirement));
  }
  return text;
}

std::string list_json(const std::vector<Selected>& checks) {
  Json list = Json::array();
  for (const Selected& selected : checks) {
    list.push_back({{"check", full_name(*selected.group, *selected.check)},
                    {"requirement", selected.check->requirement},
                    {"sentence", requirement_sentence(selected.check->requirement)},
                    {"level", selected.group->level}});
  }
  return Json({{"schema", 1}, {"checks", list}}).dump(2) + "\n";
}

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string machine_text() {
  utsname names = {};
  (void)::uname(&names);
  std::string model;
  const std::string cpus = read_system_file("/proc/cpuinfo");
  for (std::string_view line : split(cpus, '\n')) {
    const size_t colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string_view::npos) continue;
    model = trim(line.substr(colon + 1));
    break;
  }
  return printable(fmt::format("{} {} {}, {} processors{}{}", names.sysname, names.release,
                               names.machine, ::sysconf(_SC_NPROCESSORS_ONLN),
                               model.empty() ? "" : ": ", model));
}

}  // namespace tenon::conform
