#include "sdk/tools/conform/subject/subject.h"

#include <sys/stat.h>

#include "core/base/file.h"
#include "core/host/places.h"
#include "sdk/tools/conform/subject/text.h"

namespace tenon::conform {
namespace {

constexpr std::string_view kSuffix = ".plugin.json";
constexpr uint64_t kManifestBytesMax = uint64_t{64} << 10;

std::vector<std::string> manifests_of(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : list_folder(folder).value_or({})) {
    if (name.size() > kSuffix.size() && name.ends_with(kSuffix))
      paths.push_back(join_path(folder, name));
  }
  return paths;
}

Result<std::string> only_one(const std::vector<std::string>& paths, const std::string& folder) {
  if (paths.size() == 1) return paths.front();
  return error(TENON_NOT_FOUND, "P0103", "{} {} lies in {}{}",
               paths.empty() ? "no" : "more than one", "*" + std::string(kSuffix), quoted(folder),
               paths.empty() ? "" : ": name it");
}

Result<Subject> read_subject(std::string path) {
  Subject subject;
  subject.manifest_path = std::move(path);
  Result<File> file = open_user_file(subject.manifest_path);
  if (!file.ok()) return file.status();
  Result<std::string> text = read_all(*file, kManifestBytesMax, "a manifest");
  if (!text.ok()) {
    subject.manifest_status = text.status();
    return subject;
  }
  subject.manifest_text = std::move(text).value();
  Result<host::Manifest> manifest =
      host::parse_manifest(subject.manifest_text, subject.manifest_path);
  if (!manifest.ok()) {
    subject.manifest_status = manifest.status();
    return subject;
  }
  subject.manifest = std::move(manifest).value();
  Result<std::string> library = host::library_path(subject.manifest_path, subject.manifest.library);
  if (library.ok()) {
    subject.library_path = std::move(library).value();
    return subject;
  }
  subject.library_status = library.status();
  // What the host refuses for its place or its rights can still be looked at.
  const std::string written =
      subject.manifest.library.starts_with('/')
          ? subject.manifest.library
          : join_path(std::string(folder_of(subject.manifest_path)), subject.manifest.library);
  subject.library_path = real_path(written).value_or("");
  return subject;
}

// The manifest in the library's folder that names it.
Result<std::string> manifest_of_library(const std::string& library) {
  const std::string folder(folder_of(library));
  std::vector<std::string> paths;
  for (const std::string& path : manifests_of(folder)) {
    Result<Subject> subject = read_subject(path);
    if (subject.ok() && subject->library_path == library) paths.push_back(path);
  }
  if (paths.empty())
    return error(TENON_NOT_FOUND, "P0103", "no manifest beside {} names it", quoted(library));
  return only_one(paths, folder);
}

}  // namespace

Result<Subject> find_subject(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(std::string real, real_path(path));
  TENON_ASSIGN_OR_RETURN(FileIdentity identity, identify(real));
  if (S_ISDIR(identity.mode)) {
    TENON_ASSIGN_OR_RETURN(std::string manifest, only_one(manifests_of(real), real));
    return read_subject(std::move(manifest));
  }
  if (real.ends_with(".so")) {
    TENON_ASSIGN_OR_RETURN(std::string manifest, manifest_of_library(real));
    return read_subject(std::move(manifest));
  }
  return read_subject(std::move(real));
}

}  // namespace tenon::conform
