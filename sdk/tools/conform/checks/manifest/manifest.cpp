// Group A, first half: what the manifest states, and whether the library agrees.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include <tenon/cpp/sha256.hpp>

#include "core/host/discovery/places.h"
#include "core/host/loading/tables.h"
#include "sdk/tools/conform/checks/abi/boundary.h"
#include "sdk/tools/conform/checks/manifest/packaging.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/subject/elf_file.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

using Json = nlohmann::json;

// The first key that occurs twice in one object; the parser itself would keep the last.
std::string repeated_key(const std::string& text) {
  std::vector<std::set<std::string>> open;
  std::string found;
  auto look = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      found = value.get<std::string>();
    return true;
  };
  (void)Json::parse(text, look, false);
  return found;
}

Outcome manifest_json(Session& s) {
  const Subject& subject = s.subject();
  CONFORM_EXPECT(subject.manifest_path.ends_with(".plugin.json"), "the file is called {}",
                 quoted(file_name_of(subject.manifest_path)));
  const std::string& code = subject.manifest_error.code;
  CONFORM_EXPECT(
      !subject.manifest_text.empty() && code != "P0201" && code != "P0202" && code != "P0203", "{}",
      subject.manifest_text.empty() ? "it is empty or too large" : subject.manifest_error.message);
  const std::string twice = repeated_key(subject.manifest_text);
  CONFORM_EXPECT(twice.empty(), "the key {} is given twice in one object", quoted(twice));
  return pass();
}

Outcome manifest_keys(Session& s) {
  const Error& error = s.subject().manifest_error;
  CONFORM_EXPECT(!error.failed(), "{}", error.text());
  return pass();
}

Outcome needs_manifest(Session& s) {
  return s.subject().manifest_error.failed()
             ? skipped("the manifest cannot be read, as A.manifest-keys reports")
             : pass();
}

Outcome needs_library(Session& s) {
  CONFORM_TRY(needs_manifest(s));
  return s.subject().library_path.empty()
             ? skipped("there is no library, as A.library-path reports")
             : pass();
}

Outcome name_agrees(Session& s) {
  CONFORM_TRY(needs_manifest(s));
  CONFORM_TRY(s.load());
  const std::string_view name = view(s.record()->name);
  CONFORM_EXPECT(name == s.subject().manifest.name, "the manifest says {}, and the library {}",
                 quoted(s.subject().manifest.name), quoted(name));
  return pass();
}

// MAJOR.MINOR.PATCH[-part][+part]
bool is_semver(std::string_view text) {
  const size_t tail = text.find_first_of("-+");
  const std::vector<std::string_view> numbers = split(text.substr(0, tail), '.');
  for (std::string_view number : numbers) {
    uint64_t value = 0;
    if (!parse_u64(number, &value) || (number.size() > 1 && number[0] == '0')) return false;
  }
  return numbers.size() == 3 && (tail == std::string_view::npos || tail + 1 < text.size());
}

Outcome version_agrees(Session& s) {
  CONFORM_TRY(needs_manifest(s));
  CONFORM_EXPECT(is_semver(s.subject().manifest.version), "{} is not of the form MAJOR.MINOR.PATCH",
                 quoted(s.subject().manifest.version));
  CONFORM_TRY(s.load());
  const std::string_view version = view(s.record()->version);
  CONFORM_EXPECT(version == s.subject().manifest.version,
                 "the manifest says {}, and the library {}", quoted(s.subject().manifest.version),
                 quoted(version));
  return pass();
}

Outcome library_place(Session& s) {
  CONFORM_TRY(needs_manifest(s));
  const Error& error = s.subject().library_error;
  CONFORM_EXPECT(!error.failed() || error.code == "P0102", "{}", error.text());
  CONFORM_EXPECT(!s.subject().manifest.library.starts_with('/'),
                 "{} is absolute, and a package that is moved breaks",
                 quoted(s.subject().manifest.library));
  return pass();
}

Outcome trusted_files(Session& s) {
  const Subject& subject = s.subject();
  std::vector<std::string> paths = {subject.manifest_path, folder_of(subject.manifest_path)};
  if (!subject.library_path.empty())
    paths.insert(paths.end(), {subject.library_path, folder_of(subject.library_path)});
  for (const std::string& path : paths) {
    const tenon::Status status = host::check_trusted(path);
    CONFORM_EXPECT(status.ok(), "{}", status.message());
  }
  return pass();
}

Outcome platform_agrees(Session& s) {
  CONFORM_TRY(needs_library(s));
  const host::Manifest& manifest = s.subject().manifest;
  CONFORM_EXPECT(manifest.os.empty() || manifest.os == "linux",
                 "the manifest says {}, and the library is for linux", quoted(manifest.os));
  Result<ElfFile> elf = read_elf(s.subject().library_path);
  if (!elf.ok()) return skipped("the library is not an ELF file, as A.exports reports");
  CONFORM_EXPECT(manifest.arch.empty() || manifest.arch == elf->arch,
                 "the manifest says {}, and the library is for {}", quoted(manifest.arch),
                 elf->arch);
  return pass();
}

Outcome abi_agrees(Session& s) {
  CONFORM_TRY(needs_manifest(s));
  CONFORM_TRY(s.load());
  const host::Manifest& manifest = s.subject().manifest;
  if (!manifest.has_abi) return skipped("the manifest says nothing of its ABI");
  const uint32_t abi = s.record()->abi;
  CONFORM_EXPECT(manifest.abi_major == abi >> 16 && manifest.abi_min_minor == (abi & 0xffff),
                 "the manifest says ABI {}.{}, and the library {}.{}", manifest.abi_major,
                 manifest.abi_min_minor, abi >> 16, abi & 0xffff);
  return pass();
}

std::string join_sorted(const std::set<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + printable(text);
  return out.empty() ? "none" : out;
}

Outcome interfaces_agree(Session& s) {
  CONFORM_TRY(needs_manifest(s));
  CONFORM_TRY(s.load());
  if (s.subject().manifest.interfaces.empty()) return skipped("the manifest lists no interfaces");
  std::set<std::string> said, offered;
  for (const host::InterfaceId& id : s.subject().manifest.interfaces)
    said.insert(fmt::format("{} minor {}", id.id, id.minor));
  for (uint64_t i = 0; i < s.record()->interface_count; ++i) {
    offered.insert(fmt::format("{} minor {}", view(s.record()->interfaces[i].id),
                               s.record()->interfaces[i].minor));
  }
  CONFORM_EXPECT(said == offered, "the manifest lists {}; the library offers {}", join_sorted(said),
                 join_sorted(offered));
  return pass();
}

// What the tables offer, or why that cannot be determined.
Outcome offered_of(Session& s, std::set<std::string>* names, std::set<std::string>* interfaces) {
  CONFORM_TRY(needs_manifest(s));
  CONFORM_TRY(s.load());
  auto plugin = host::adopt_plugin(s.record(), "");
  if (!plugin.ok())
    return skipped(fmt::format("the host refuses its tables: {}", plugin.status().text()));
  for (const host::OfferedName& offered : host::offered_names(*plugin))
    names->insert(offered.kind + " " + offered.name);
  for (const host::AdoptedInterface& interface : plugin->interfaces)
    interfaces->insert(interface.id);
  return pass();
}

std::set<std::string> provided(const host::Manifest& manifest) {
  std::set<std::string> names;
  for (const host::Provided& p : manifest.provides) names.insert(p.kind + " " + p.name);
  return names;
}

Outcome provides_all(Session& s) {
  std::set<std::string> offered, interfaces;
  CONFORM_TRY(offered_of(s, &offered, &interfaces));
  for (const std::string& name : provided(s.subject().manifest)) offered.erase(name);
  CONFORM_EXPECT(offered.empty(), "the tables offer what `provides` does not name: {}",
                 join_sorted(offered));
  return pass();
}

Outcome provides_no_more(Session& s) {
  std::set<std::string> offered, interfaces, surplus;
  CONFORM_TRY(offered_of(s, &offered, &interfaces));
  for (const std::string& name : provided(s.subject().manifest)) {
    if (name.starts_with("device ") && interfaces.count(TENON_DEVICE_ID) != 0)
      continue;  // may be absent from this machine
    if (offered.count(name) == 0) surplus.insert(name);
  }
  CONFORM_EXPECT(surplus.empty(), "`provides` names what the tables do not offer: {}",
                 join_sorted(surplus));
  return pass();
}

Outcome digest_agrees(Session& s) {
  CONFORM_TRY(needs_library(s));
  if (s.subject().manifest.sha256.empty()) return not_offered("sha256 in the manifest");
  Result<MappedFile> file = MappedFile::open(s.subject().library_path);
  if (!file.ok()) return skipped(file.error().message);
  const std::string digest = digest::sha256_hex(file->bytes());
  CONFORM_EXPECT(digest == s.subject().manifest.sha256,
                 "the manifest says {}, and the library has {}",
                 quoted(s.subject().manifest.sha256), digest);
  return pass();
}

constexpr Check kChecks[] = {
    {"R-A01", "manifest-json", manifest_json},
    {"R-A02", "manifest-keys", manifest_keys},
    {"R-A03", "name", name_agrees},
    {"R-A04", "version", version_agrees},
    {"R-A05", "library-path", library_place},
    {"R-A06", "trusted-files", trusted_files},
    {"R-A07", "platform", platform_agrees},
    {"R-A08", "abi-version", abi_agrees},
    {"R-A09", "interfaces", interfaces_agree},
    {"R-A10", "provides-all", provides_all},
    {"R-A11", "provides-no-more", provides_no_more},
    {"R-A12", "digest", digest_agrees},
    {"R-A13", "exports", exports},
    {"R-A14", "no-private-door", no_private_door},
    {"R-A15", "opens", opens, true},
    {"R-A16", "binds-now", binds_now},
    {"R-A17", "stack", stack},
    {"R-A18", "segments", segments},
    {"R-A19", "search-paths", search_paths},
    {"R-A20", "needed-names", needed_names},
    {"R-A21", "sanitizer", sanitizer},
    {"R-A22", "opens-fast", opens_fast},
    {"R-A23", "quiet", quiet},
    {"R-A24", "no-threads", no_threads},
    {"R-A25", "process-state", process_state},
    {"R-A26", "descriptors", descriptors},
    {"R-A29", "own-variables", own_variables},
    {"R-A30", "lists-without-libraries", lists_without_libraries},
};

}  // namespace

std::span<const Check> manifest_checks() {
  return kChecks;
}

}  // namespace tenon::conform
