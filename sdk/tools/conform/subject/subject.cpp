#include "sdk/tools/conform/subject/subject.h"

#include <fmt/core.h>

#include "core/host/discovery/places.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

constexpr std::string_view kSuffix = ".plugin.json";
constexpr uint64_t kManifestBytesMax = uint64_t{64} << 10;

// The host's failure, without the host's types.
Error failure_of(const tenon::Status& status) {
  Error error = {std::string(status.error_code()), std::string(status.message()), {}};
  error.context = status.text().substr(error.text().size());
  return error;
}

std::vector<std::string> manifests_of(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : list_folder(folder)) {
    if (name.size() > kSuffix.size() && name.ends_with(kSuffix))
      paths.push_back(join_path(folder, name));
  }
  return paths;
}

Result<std::string> only_one(const std::vector<std::string>& paths, const std::string& folder) {
  if (paths.size() == 1) return paths.front();
  return Error{"P0103",
               fmt::format("{} *{} lies in {}{}", paths.empty() ? "no" : "more than one", kSuffix,
                           quoted(folder), paths.empty() ? "" : ": name it"),
               {}};
}

Result<Subject> read_subject(std::string path) {
  Subject subject;
  subject.manifest_path = std::move(path);
  if (Error error = check_readable(subject.manifest_path); error.failed()) return error;
  Result<std::string> text = read_file(subject.manifest_path, kManifestBytesMax, "a manifest");
  if (!text.ok()) {
    subject.manifest_error = text.error();
    return subject;
  }
  subject.manifest_text = std::move(*text);
  auto manifest = host::parse_manifest(subject.manifest_text, subject.manifest_path);
  if (!manifest.ok()) {
    subject.manifest_error = failure_of(manifest.status());
    return subject;
  }
  subject.manifest = std::move(manifest).value();
  auto library = host::library_path(subject.manifest_path, subject.manifest.library);
  if (library.ok()) {
    subject.library_path = std::move(library).value();
    return subject;
  }
  subject.library_error = failure_of(library.status());
  // A library that the host refuses for its place or its rights can still be examined.
  const std::string written =
      subject.manifest.library.starts_with('/')
          ? subject.manifest.library
          : join_path(folder_of(subject.manifest_path), subject.manifest.library);
  subject.library_path = real_path(written).value_or("");
  return subject;
}

// The manifest in the library's folder that names it.
Result<std::string> manifest_of_library(const std::string& library) {
  const std::string folder = folder_of(library);
  std::vector<std::string> paths;
  for (const std::string& path : manifests_of(folder)) {
    Result<Subject> subject = read_subject(path);
    if (subject.ok() && subject->library_path == library) paths.push_back(path);
  }
  if (paths.empty())
    return Error{"P0103", fmt::format("no manifest next to {} names it", quoted(library)), {}};
  return only_one(paths, folder);
}

}  // namespace

Result<Subject> find_subject(const std::string& path) {
  Result<std::string> manifest = real_path(path);
  if (!manifest.ok()) return manifest.error();
  if (is_folder(*manifest)) {
    manifest = only_one(manifests_of(*manifest), *manifest);
  } else if (manifest->ends_with(".so")) {
    manifest = manifest_of_library(*manifest);
  }
  if (!manifest.ok()) return manifest.error();
  return read_subject(std::move(*manifest));
}

}  // namespace tenon::conform
