// tenon new KIND NAME: copies a template of share/tenon/templates. The kinds are the templates
// found there.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/host/helpers.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlaceholder = "@NAME@";
constexpr size_t kNameMax = 40;  // keeps lines of the templates short

struct Template {
  std::string kind, language;
};

std::vector<Template> templates_in(const fs::path& folder) {
  std::vector<Template> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const size_t dash = name.rfind('-');
    if (entry.is_directory(error) && dash != std::string::npos)
      found.push_back({name.substr(0, dash), name.substr(dash + 1)});
  }
  std::sort(found.begin(), found.end(), [](const Template& a, const Template& b) {
    return a.kind + a.language < b.kind + b.language;
  });
  return found;
}

bool is_name(const std::string& name) {
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  return letters && !name.empty() && name.size() <= kNameMax && name[0] >= 'a' && name[0] <= 'z';
}

std::string replaced(std::string text, const std::string& name) {
  for (size_t at = 0; (at = text.find(kPlaceholder, at)) != std::string::npos; at += name.size())
    text.replace(at, kPlaceholder.size(), name);
  return text;
}

// The requested template, or a message and an exit status.
int choose(const NewOptions& o, const fs::path& folder, Template* out) {
  std::set<std::string> kinds;
  std::vector<std::string> languages;
  for (const Template& t : templates_in(folder)) {
    kinds.insert(t.kind);
    if (t.kind == o.kind) languages.push_back(t.language);
  }
  if (languages.empty()) {
    return fail(kUsage, "T0008",
                fmt::format("there is no template for {}{}; there are {}", in_quotes(o.kind),
                            did_you_mean(o.kind, kinds), list_names(kinds)),
                "For example `tenon new device acme --language c`.");
  }
  const bool given = std::find(languages.begin(), languages.end(), o.language) != languages.end();
  if (!o.language.empty() && !given) {
    return fail(kUsage, "T0008",
                fmt::format("{} in {} has no template; there are {}", in_quotes(o.kind),
                            in_quotes(o.language), list_names(languages)),
                fmt::format("Leave --language out to get {}.", languages.front()));
  }
  *out = {o.kind, o.language.empty() ? languages.front() : o.language};
  return kOk;
}

int unwritable(const fs::path& path, std::string_view why, std::string_view advice = "") {
  return fail(kUsage, "T0107",
              fmt::format("{} cannot be written: {}", in_quotes(path.string()), why), advice);
}

// Copies a folder's files with the name inserted. Returns an exit status.
int copy_folder(const fs::path& from, const fs::path& to, const std::string& name) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(from, error)) {
    if (!entry.is_regular_file(error)) continue;
    const fs::path target = to / replaced(fs::relative(entry.path(), from, error).string(), name);
    fs::create_directories(target.parent_path(), error);
    if (error) return unwritable(target.parent_path(), error.message());
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    std::ofstream file(target);
    file << replaced(text.str(), name);
    if (!file.flush()) return unwritable(target, "the disk is full or the folder is not yours");
  }
  return error ? unwritable(to, error.message()) : kOk;
}

// Warns if something of this name exists already. Not an error: two checkouts of one plugin may be
// made this way.
int warn_of_same_name(const std::string& kind, const std::string& name) {
  Host host;
  std::string text;
  if (int s = host_open(host)) return s;
  if (int s = explain(host, "plugins", "", text)) return s;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  for (const auto& plugin : json.value("plugins", nlohmann::json::array())) {
    const auto provides = plugin.value("provides", nlohmann::json::object());
    const auto names =
        provides.value(kind == "engine" ? "collective" : kind, std::vector<std::string>());
    const bool same = plugin.value("name", "") == name;
    if (!same && std::find(names.begin(), names.end(), name) == names.end()) continue;
    talk("note: there is {} {} already ({}); of two the one that is found first is used\n",
         same ? "a plugin" : "the " + kind, in_quotes(name), safe(plugin.value("manifest", "")));
    return kOk;
  }
  return kOk;
}

// Prints how to build in `target`, against the installation that holds `templates`.
void tell_next(const fs::path& templates, const std::string& target) {
  std::error_code error;
  const fs::path prefix =
      (templates / "../../..").lexically_normal().parent_path();  // not through links
  bool installed = false;
  for (const char* lib : {"lib", "lib64"})
    installed |= fs::exists(prefix / lib / "cmake/Tenon", error);
  talk(
      "next: cmake -S {0} -B {0}/build -DCMAKE_PREFIX_PATH={1} && cmake --build {0}/build && ctest "
      "--test-dir {0}/build\n",
      safe(target), installed ? safe(prefix.string(), 1024) : "PREFIX");
  if (!installed) {
    talk("PREFIX is where Tenon is installed: cmake --install {} --prefix PREFIX\n",
         safe(prefix.string(), 1024));
  }
}

}  // namespace

int command_new(const NewOptions& options) {
  const std::string folder = data_folder("templates");
  if (folder.empty())
    return fail(kDevice, "T0101", "the templates are not in share/tenon of this installation.");
  if (!is_name(options.name)) {
    return fail(kUsage, "T0004",
                fmt::format("{} is not a plugin name: a lower-case letter, then letters, digits "
                            "and _, at most {}",
                            in_quotes(options.name), kNameMax),
                "The name becomes that of the plugin, of its file and of its folder.");
  }
  Template chosen;
  if (int s = choose(options, folder, &chosen)) return s;
  const fs::path target = (fs::path(options.directory) / options.name).lexically_normal();
  std::error_code error;
  // A dangling link exists as well.
  if (fs::exists(fs::symlink_status(target, error)))
    return unwritable(target, "it exists already",
                      "Nothing was changed; take another NAME or another --directory.");
  for (const std::string& part : {std::string("common"), chosen.kind + "-" + chosen.language}) {
    if (int s = copy_folder(fs::path(folder) / part, target, options.name)) return s;
  }
  out("{}\n", target.string());
  tell_next(folder, target.string());
  return warn_of_same_name(chosen.kind, options.name);
}

}  // namespace tenon::tools
