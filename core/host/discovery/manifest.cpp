#include "core/host/discovery/manifest.h"

#include <nlohmann/json.hpp>

#include "core/base/limits.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kSchema = 1;

bool has_only_name_characters(std::string_view name, std::string_view punctuation) {
  for (char c : name) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      punctuation.find(c) != std::string_view::npos;
    if (!fine) return false;
  }
  return true;
}
bool is_plugin_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && has_only_name_characters(name, "._-");
}
// A name that the system's loader searches for. With a slash it would be a file of the manifest's
// choice; an empty one would be the program itself.
bool is_soname(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '-' &&
         has_only_name_characters(name, "._+-");
}

// Bounds the parser's recursion, and ours, by counting brackets first.
uint32_t nesting(std::string_view text) {
  uint32_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

// Records the first problem, instead of returning a Status from every getter.
class Reader {
 public:
  explicit Reader(Manifest& manifest) : manifest_(manifest) {}
  Status status() && { return std::move(status_); }

  void wrong(std::string_view key, std::string_view expected, const Json& value) {
    if (!status_.ok()) return;
    std::string found = value.is_structured()
                            ? value.type_name()
                            : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    status_ = error(TENON_INVALID_ARGUMENT, "P0206", "the key {} must be {}, and is {}",
                    quoted(key), expected, quoted(found));
  }
  void missing(std::string_view key) {
    if (status_.ok())
      status_ = error(TENON_INVALID_ARGUMENT, "P0205", "the key {} is missing", quoted(key));
  }
  void text(std::string_view key, const Json& value, std::string* out) {
    if (!value.is_string()) return wrong(key, "text", value);
    *out = value.get_ref<const std::string&>();
    if (out->size() > 4096 || out->find('\0') != std::string::npos) wrong(key, "short text", value);
  }
  void number(std::string_view key, const Json& value, uint32_t* out) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) {
      return wrong(key, "a whole number from 0", value);
    }
    *out = value.get<uint32_t>();
  }
  void flag(std::string_view key, const Json& value, bool* out) {
    if (!value.is_boolean()) return wrong(key, "true or false", value);
    *out = value.get<bool>();
  }
  void texts(std::string_view key, const Json& value, std::vector<std::string>* out) {
    if (!value.is_array() || value.size() > kManifestListMax)
      return wrong(key, "a list of texts", value);
    for (const Json& item : value) text(key, item, &out->emplace_back());
  }
  // Things to look up: few, since each costs time at every start.
  void wants(std::string_view key, const Json& value, std::vector<std::string>* out) {
    if (value.is_array() && value.size() > kManifestWantsMax) {
      return wrong(key, fmt::format("a list of at most {} texts", kManifestWantsMax), value);
    }
    texts(key, value, out);
  }
  // Looked-up entries that are names of one kind.
  void names(std::string_view key, std::string_view expected, bool (*is_name)(std::string_view),
             const Json& value, std::vector<std::string>* out) {
    wants(key, value, out);
    for (const std::string& name : *out) {
      if (!is_name(name)) return wrong(key, expected, Json(name));
    }
  }
  // "2.35".
  void version(std::string_view key, const Json& value, std::string* out) {
    text(key, value, out);
    bool digit_before = false;
    for (char c : *out) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit && !(c == '.' && digit_before)) return wrong(key, "numbers between dots", value);
      digit_before = digit;
    }
    if (!digit_before) wrong(key, "numbers between dots", value);
  }
  // Calls visit(key, value) for each member; visit returns false for a key that it does not know.
  template <typename Visit>
  void members(const std::string& prefix, const Json& object, Visit visit) {
    if (!object.is_object()) return wrong(prefix, "an object", object);
    for (const auto& [key, value] : object.items()) {
      std::string path = prefix.empty() ? key : prefix + "." + key;
      if (!visit(key, path, value)) manifest_.unknown_keys.push_back(path);
    }
  }

 private:
  Manifest& manifest_;
  Status status_;
};

struct ProvidesKey {
  std::string_view key, kind;
};
constexpr ProvidesKey kProvides[] = {{"devices", "device"},
                                     {"kernels", "kernels"},
                                     {"ops", "op"},
                                     {"passes", "pass"},
                                     {"toolchains", "toolchain"},
                                     {"layers", "layer"},
                                     {"collectives", "collective"},
                                     {"importers", "importer"}};

void read_frontends(Reader& reader, const Json& value, Manifest& manifest) {
  if (!value.is_array() || value.size() > kManifestListMax)
    return reader.wrong("provides.frontends", "a list", value);
  for (const Json& item : value) {
    Provided frontend{"frontend", {}};
    std::vector<std::string> extensions;
    if (item.is_object()) {
      reader.members("provides.frontends", item,
                     [&](const std::string& key, const std::string& path, const Json& v) {
                       if (key == "name") return reader.text(path, v, &frontend.name), true;
                       if (key == "extensions") return reader.texts(path, v, &extensions), true;
                       return false;
                     });
    } else {
      reader.text("provides.frontends", item, &frontend.name);
    }
    if (frontend.name.empty()) reader.missing("provides.frontends.name");
    manifest.provides.push_back(std::move(frontend));
    for (std::string& extension : extensions)
      manifest.provides.push_back({"extension", std::move(extension)});
  }
}

void read_provides(Reader& reader, const Json& value, Manifest& manifest) {
  reader.members("provides", value,
                 [&](const std::string& key, const std::string& path, const Json& v) {
                   if (key == "frontends") return read_frontends(reader, v, manifest), true;
                   for (const ProvidesKey& known : kProvides) {
                     if (known.key != key) continue;
                     std::vector<std::string> names;
                     reader.texts(path, v, &names);
                     for (std::string& name : names)
                       manifest.provides.push_back({std::string(known.kind), std::move(name)});
                     return true;
                   }
                   return false;
                 });
}

void read_interfaces(Reader& reader, const std::string& path, const Json& value,
                     Manifest& manifest) {
  if (!value.is_array() || value.size() > kManifestListMax)
    return reader.wrong(path, "a list", value);
  for (const Json& item : value) {
    InterfaceId& interface = manifest.interfaces.emplace_back();
    reader.members(path, item,
                   [&](const std::string& key, const std::string& inner, const Json& v) {
                     if (key == "id") return reader.text(inner, v, &interface.id), true;
                     if (key == "minor") return reader.number(inner, v, &interface.minor), true;
                     return false;
                   });
  }
}

void read_abi(Reader& reader, const Json& value, Manifest& manifest) {
  bool has_major = false;
  reader.members("abi", value, [&](const std::string& key, const std::string& path, const Json& v) {
    if (key == "major") return has_major = true, reader.number(path, v, &manifest.abi_major), true;
    if (key == "min_minor") return reader.number(path, v, &manifest.abi_min_minor), true;
    if (key == "interfaces") return read_interfaces(reader, path, v, manifest), true;
    return false;
  });
  manifest.has_abi = true;
  if (!has_major) reader.missing("abi.major");
}

void read_objects(Reader& reader, const std::string& key, const Json& value, Manifest& m) {
  reader.members(key, value, [&](const std::string&, const std::string& path, const Json& v) {
    auto text_into = [&](std::string* out) { return reader.text(path, v, out), true; };
    auto wants_into = [&](std::vector<std::string>* out) {
      return reader.wants(path, v, out), true;
    };
    auto names_into = [&](std::string_view expected, bool (*is_name)(std::string_view),
                          std::vector<std::string>* out) {
      return reader.names(path, expected, is_name, v, out), true;
    };
    if (path == "platform.os") return text_into(&m.os);
    if (path == "platform.arch") return text_into(&m.arch);
    if (path == "platform.libc_min") return reader.version(path, v, &m.libc_min), true;
    if (path == "build.compiler") return text_into(&m.compiler);
    if (path == "build.sanitizer") return text_into(&m.sanitizer);
    if (path == "build.build_id") return text_into(&m.build_id);
    if (path == "requires.plugins")
      return names_into("a list of names of plugins", is_plugin_name, &m.required_plugins);
    if (path == "requires.libraries") {
      return names_into("a list of names of libraries without folders", is_soname,
                        &m.required_libraries);
    }
    if (path == "requires.cpu_features") return wants_into(&m.required_cpu_features);
    if (path == "probe.paths") return wants_into(&m.probe_paths);
    if (path == "probe.pci") return wants_into(&m.probe_pci);
    return false;
  });
}

// Keys that are read and shown but have no effect: the report says so to their author.
bool read_idle_key(Reader& reader, const std::string& key, const Json& value, Manifest& m) {
  if (key == "threading") {
    reader.text(key, value, &m.threading);
  } else if (key == "min_driver") {
    reader.text(key, value, &m.min_driver);
  } else if (key == "signature") {
    reader.text(key, value, &m.signature);
  } else if (key == "deprecates") {
    reader.texts(key, value, &m.deprecates);
  } else if (key == "experimental") {
    reader.flag(key, value, &m.experimental);
  } else {
    return false;
  }
  m.idle_keys.push_back(key);
  return true;
}

bool read_key(Reader& reader, const std::string& key, const Json& value, Manifest& m) {
  auto text_into = [&](std::string* out) { return reader.text(key, value, out), true; };
  if (key == "schema") return reader.number(key, value, &m.schema), true;
  if (key == "name") return text_into(&m.name);
  if (key == "version") return text_into(&m.version);
  if (key == "vendor") return text_into(&m.vendor);
  if (key == "license") return text_into(&m.license);
  if (key == "homepage") return text_into(&m.homepage);
  if (key == "summary") return text_into(&m.summary);
  if (key == "library") return text_into(&m.library);
  if (key == "sha256") return text_into(&m.sha256);
  if (key == "environment") return reader.texts(key, value, &m.environment), true;
  if (key == "priority" || key == "score") {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
      return reader.wrong(key, "a whole number of 64 bits", value), true;
    }
    return m.priority = value.get<int64_t>(), true;
  }
  if (key == "abi") return read_abi(reader, value, m), true;
  if (key == "provides") return read_provides(reader, value, m), true;
  if (key == "platform" || key == "build" || key == "requires" || key == "probe") {
    return read_objects(reader, key, value, m), true;
  }
  return read_idle_key(reader, key, value, m);
}

Result<Json> parse_json(std::string_view text) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const std::exception& problem) {
    std::string_view what = problem.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": keep the place and
    // the rest.
    size_t begin = what.find("] ");
    return error(TENON_INVALID_ARGUMENT, "P0201", "it is not JSON: {}",
                 printable(begin == std::string_view::npos ? what : what.substr(begin + 2)));
  }
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, std::string_view path, ManifestOf of) {
  const std::string where = "reading the manifest " + quoted(path);
  if (text.size() > limit(Limit::kManifestBytes)) {
    return error(TENON_RESOURCE_EXHAUSTED, "P0202",
                 "it has {} bytes, and the limit is {} (set by {})", text.size(),
                 limit(Limit::kManifestBytes), limit_info(Limit::kManifestBytes).variable)
        .with_context(where);
  }
  if (uint32_t depth = nesting(text); depth > kManifestDepthMax) {
    return error(TENON_RESOURCE_EXHAUSTED, "P0203",
                 "it is nested {} levels deep, and the limit is {}", depth, kManifestDepthMax)
        .with_context(where);
  }
  TENON_ASSIGN_OR_RETURN(Json json, parse_json(text), "reading the manifest {}", quoted(path));
  Manifest manifest;
  Reader reader(manifest);
  if (!json.is_object()) {
    return error(TENON_INVALID_ARGUMENT, "P0206", "it is {}, and must be an object",
                 json.type_name())
        .with_context(where);
  }
  if (!json.contains("schema")) reader.missing("schema");
  reader.members("", json, [&](const std::string& key, const std::string&, const Json& value) {
    return read_key(reader, key, value, manifest);
  });
  if (manifest.schema != kSchema && json.contains("schema")) {
    return error(TENON_UNIMPLEMENTED, "P0204", "its schema is {}, and this Tenon reads schema {}",
                 manifest.schema, kSchema)
        .with_context(where);
  }
  for (std::string_view key : {"name", "version"}) {
    if (!json.contains(key)) reader.missing(key);
  }
  if (of == ManifestOf::kLibrary && !json.contains("library")) reader.missing("library");
  Status status = std::move(reader).status();
  if (status.ok() && of == ManifestOf::kProgram && !(manifest.library + manifest.sha256).empty()) {
    status = error(TENON_INVALID_ARGUMENT, "P0206",
                   "a plugin that a program registers has neither `library` nor `sha256`");
  }
  if (status.ok() && !is_plugin_name(manifest.name)) {
    status = error(TENON_INVALID_ARGUMENT, "P0206",
                   "the key `name` must be 1 to 128 of A-Z a-z 0-9 . _ -, and is {}",
                   quoted(manifest.name));
  }
  if (!status.ok()) return std::move(status).with_context(where);
  return manifest;
}

}  // namespace tenon::host
