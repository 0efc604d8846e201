// Opening the host: options, a second call, a second copy of the library. A process has one host,
// so each case runs in a process of its own, which loads the library as a language binding does.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <tenon/abi/device.h>
#include <tenon/abi/host.h>
#include <tenon/abi/layer.h>
#include <tenon/abi/plugins.h>
#include <tenon/abi/session.h>

namespace {

using Open = decltype(&tenon_host_open);

tenon_str_t str(std::string_view text) {
  return {text.data(), text.size()};
}
std::string view(tenon_str_t text) {
  return {text.data, text.size};
}

struct Library {
  explicit Library(const char* path) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) open = reinterpret_cast<Open>(dlsym(handle, "tenon_host_open"));
    if (open == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  }
  Open open = nullptr;
};

// Options that keep their texts.
struct Options {
  tenon_host_options_t raw{};
  std::vector<tenon_str_t> paths;
  std::vector<tenon_key_value_t> settings;
  Options() { raw.size_bytes = sizeof raw; }
  Options& path(const char* path) { return paths.push_back(str(path)), *this; }
  Options& set(const char* name, const char* value) {
    return settings.push_back({str(name), str(value)}), *this;
  }
  const tenon_host_options_t* get() {
    raw.plugin_paths = paths.data();
    raw.plugin_path_count = paths.size();
    raw.settings = settings.data();
    raw.setting_count = settings.size();
    return &raw;
  }
};

// What a case finds wrong, and how it ends: 0 if nothing.
struct Child {
  Library library{TENON_LIBRARY};
  const tenon_host_t* host = nullptr;
  int wrong = 0;

  void expect(bool holds, std::string_view what) {
    if (holds) return;
    ++wrong;
    std::fprintf(stderr, "not so: %.*s; %s\n", static_cast<int>(what.size()), what.data(),
                 failure().c_str());
  }
  tenon_code_t open(const tenon_host_options_t* options) {
    return library.open(TENON_ABI_VERSION, options, &host);
  }
  std::string failure() const {
    tenon_failure_t failure{};
    failure.size_bytes = sizeof failure;
    if (host == nullptr || host->last_failure(host->self, &failure) != TENON_OK) return "";
    return view(failure.id) + ": " + view(failure.message);
  }
  // The call fails with this code, and the reason names `word`.
  void refused(const tenon_host_options_t* options, tenon_code_t code, std::string_view word) {
    expect(open(options) == code, word);
    expect(failure().find(word) != std::string::npos, word);
  }
  std::string setting(const char* name) const { return view(host->setting(host->self, str(name))); }
  template <class Table>
  const Table* table(const char* id) const {
    const void* found = nullptr;
    return host->query(host->self, str(id), 0, &found) == TENON_OK
               ? static_cast<const Table*>(found)
               : nullptr;
  }
  std::string explain(const char* what) const {
    std::string text;
    const tenon_sink_t sink = {&text, [](void* self, const void* data, uint64_t size) {
                                 static_cast<std::string*>(self)->append(
                                     static_cast<const char*>(data), size);
                                 return TENON_OK;
                               }};
    const auto* session = table<tenon_host_session_t>(TENON_HOST_SESSION_ID);
    (void)session->explain(session->self, str(what), {}, &sink);
    return text;
  }
};

void run(void (*body)(Child&)) {
  EXPECT_EXIT(
      {
        Child child;
        if (child.library.open == nullptr) _exit(2);
        body(child);
        exit(child.wrong);
      },
      testing::ExitedWithCode(0), "");
}

TEST(HostOpen, SettingsOverrideTheEnvironment) {
  ::setenv("TENON_NUM_THREADS", "5", 1);
  ::setenv("TENON_DEVICE", "nothing", 1);
  ::setenv("TENON_CPU_ISA", "other", 1);
  run([](Child& c) {
    Options options;
    options.set("TENON_NUM_THREADS", "3").set("TENON_DEVICE", "").set("TENON_LIMIT_NODES", "77");
    if (TENON_WITH_CPU) options.set("TENON_CPU_ISA", "baseline");
    c.expect(c.open(options.get()) == TENON_OK, "it opens");
    c.expect(c.setting("TENON_NUM_THREADS") == "3", "plugins see the setting");
    c.expect(c.setting("TENON_DEVICE").empty(), "an empty value unsets a variable");
    c.expect(c.setting("TENON_CPU_ISA") == (TENON_WITH_CPU ? "baseline" : "other"),
             "a plugin's own setting");
    const auto* threads = c.table<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
    c.expect(threads->count(threads->self) == 3, "the pool has three threads");
    c.expect(c.explain("settings").find("\"77\"") != std::string::npos, "explained");
  });
  ::unsetenv("TENON_NUM_THREADS");
  ::unsetenv("TENON_DEVICE");
  ::unsetenv("TENON_CPU_ISA");
}

// Each of these was another value in silence, or after a line in the log.
TEST(HostOpen, BadVariablesStartNoHost) {
  run([](Child& c) {
    const struct {
      const char *name, *value, *word;
    } cases[] = {
        {"TENON_VARIANTS_KEPT", "0", "TENON_VARIANTS_KEPT must be a number from 1, and is `0`"},
        {"TENON_VARIANTS_KEPT", "many", "a number from 1"},
        {"TENON_NUM_THREADS", "all", "a number from 1"},
        {"TENON_LIMIT_NODES", "some", "a number from 0"},
        {"TENON_PLUGIN_STRICT", "perhaps", "0 or 1"},
        {"TENON_PLUGIN_PROBE", "maybe", "inproc|child|off"},
        {"TENON_LIBEXEC_DIR", "here", "an absolute path"},
        {"TENON_DEVICE_MEMORY_LIMIT", "cpu:4g", "DEVICE=BYTES"},
        {"TENON_KERNEL_STAGES", "few", "a number from 0"},
    };
    for (const auto& one : cases) {
      ::setenv(one.name, one.value, 1);
      c.refused(nullptr, TENON_INVALID_ARGUMENT, one.word);
      ::unsetenv(one.name);
    }
    ::setenv("TENON_VARIANTS_KEPT", "many", 1);  // the setting is read, and the variable is not
    ::setenv("TENON_DEVICE_MEMORY_LIMIT", "cpu=4g, sim:1=2m,", 1);
    ::setenv("TENON_LIBEXEC_DIR", "", 1);
    c.expect(c.open(Options().set("TENON_VARIANTS_KEPT", "2").get()) == TENON_OK, "it opens then");
  });
}

TEST(HostOpen, BadOptionsStartNoHost) {
  run([](Child& c) {
    tenon_host_options_t none{};
    c.refused(&none, TENON_INVALID_ARGUMENT, "0 bytes");
    Options counts;
    (void)counts.get();
    counts.raw.setting_count = 3;
    counts.raw.settings = nullptr;
    c.refused(&counts.raw, TENON_INVALID_ARGUMENT, "3 settings");
    const struct {
      const char *name, *value, *word;
    } cases[] = {
        {"TENON_NUM_THREADS", "many", "a number from 1"},
        {"TENON_NUM_THREADS", "0", "a number from 1"},
        {"TENON_LIMIT_NODES", "-1", "TENON_LIMIT_NODES"},
        {"TENON_PLUGIN_STRICT", "perhaps", "0 or 1"},
        {"TENON_CACHE_DIR", "here", "an absolute path"},
        {"TENON_VERIFY", "loosely", "0|1|strict"},
        {"TENON_KERNEL_STAGES", "few", "a number from 0"},
        {"TENON_NUM_THREAD", "3", "did you mean `TENON_NUM_THREADS`"},
        {"PATH", "/bin", "is not a setting"},
        {"", "", "is not a setting"},
    };
    for (const auto& one : cases)
      c.refused(Options().set(one.name, one.value).get(), TENON_INVALID_ARGUMENT, one.word);
    c.refused(Options().set("TENON_DEVICE", "a").set("TENON_DEVICE", "b").get(),
              TENON_INVALID_ARGUMENT, "given twice");
    c.refused(Options().path("plugins").get(), TENON_INVALID_ARGUMENT, "not absolute");
    c.refused(Options().path("/nowhere/at/all").get(), TENON_INVALID_ARGUMENT, "/nowhere/at/all");
    // None of them is in the way.
    c.expect(c.open(Options().set("TENON_NUM_THREADS", "2").get()) == TENON_OK, "it opens then");
    c.expect(c.setting("TENON_CACHE_DIR") != "here", "no setting of a refused call is left");
  });
}

TEST(HostOpen, TheSecondCallGetsTheSameHost) {
  run([](Child& c) {
    c.expect(c.open(Options().set("TENON_NUM_THREADS", "2").path("/tmp").get()) == TENON_OK,
             "open");
    const tenon_host_t* first = c.host;
    c.expect(c.open(nullptr) == TENON_OK && c.host == first, "without options");
    c.expect(c.open(Options().set("TENON_NUM_THREADS", "2").get()) == TENON_OK, "with a part");
    c.refused(Options().set("TENON_NUM_THREADS", "4").get(), TENON_FAILED_PRECONDITION,
              "TENON_NUM_THREADS=2");
    c.refused(Options().set("TENON_LAYERS", "trace").get(), TENON_FAILED_PRECONDITION,
              "no value for TENON_LAYERS");
    c.refused(Options().path("/usr").get(), TENON_FAILED_PRECONDITION, "/tmp");
    Options only;
    only.raw.only_plugin_paths = 1;
    c.refused(only.get(), TENON_FAILED_PRECONDITION, "the search path");
    Options sink;
    sink.raw.log = [](void*, uint32_t, tenon_str_t, tenon_str_t) {};
    c.refused(sink.get(), TENON_FAILED_PRECONDITION, "its messages on stderr");
    c.expect(c.setting("TENON_NUM_THREADS") == "2", "nothing changed");
  });
}

TEST(HostOpen, OnlyTheGivenPathsAreSearched) {
  run([](Child& c) {
    Options options;
    options.raw.only_plugin_paths = 1;
    c.expect(c.open(options.get()) == TENON_OK, "it opens");
    c.expect(c.explain("plugins").find("\"name\"") == std::string::npos, "no plugin is found");
  });
  run([](Child& c) {
    Options options;
    options.raw.only_plugin_paths = 1;
    options.path(TENON_PLUGINS "/null.plugin.json");
    c.expect(c.open(options.get()) == TENON_OK, "it opens");
    const std::string text = c.explain("plugins");
    c.expect(text.find("\"null\"") != std::string::npos, "the named plugin is found");
    c.expect(text.find("\"reference\"") == std::string::npos, "no other");
  });
}

TEST(HostOpen, TheLogGoesToTheSink) {
  run([](Child& c) {
    static std::string heard;
    static int self;
    Options options;
    options.set("TENON_LOGS", "demo");
    options.raw.log_self = &self;
    options.raw.log = [](void* given, uint32_t level, tenon_str_t component, tenon_str_t text) {
      if (given == &self && level == TENON_LOG_INFO) heard += view(component) + "=" + view(text);
    };
    c.expect(c.open(options.get()) == TENON_OK, "it opens");
    c.host->log(c.host->self, str("demo"), TENON_LOG_INFO, str("a line"));
    c.host->log(c.host->self, str("silent"), TENON_LOG_INFO, str("not shown"));
    c.expect(heard == "demo=a line", heard);
    c.expect(c.open(options.get()) == TENON_OK, "the same sink again");
  });
}

// Two packages, each with its libtenon.so: the host of both is that of the first.
TEST(HostOpen, ASecondCopyIsTheSameHost) {
  run([](Child& c) {
    const std::string folder = testing::TempDir() + "/tenon_copy_" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
    const std::string path = folder + "/libtenon-other.so";
    std::filesystem::copy_file(TENON_LIBRARY, path);
    const Library second(path.c_str());
    std::filesystem::remove_all(folder);
    c.expect(second.open != nullptr && second.open != c.library.open, "a library of its own");
    const tenon_host_t* other = nullptr;
    Options options;
    options.set("TENON_NUM_THREADS", "2");
    c.expect(second.open(TENON_ABI_VERSION, options.get(), &other) == TENON_OK, "the copy opens");
    c.expect(c.open(nullptr) == TENON_OK && c.host == other, "one host");
    c.expect(c.explain("devices").find("reference") != std::string::npos, "its plugins load");
    options.settings.clear();
    options.set("TENON_NUM_THREADS", "3");
    c.expect(second.open(TENON_ABI_VERSION, options.get(), &other) == TENON_FAILED_PRECONDITION,
             "and one set of options");
  });
}

// A wrapper that was loaded first defines the function too, and calls the library back.
TEST(HostOpen, ALibraryThatPassesTheCallOn) {
  EXPECT_EXIT(
      {
        void* wrapper = dlopen(FORWARDING_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (wrapper == nullptr) _exit(2);
        Child c;
        *static_cast<Open*>(dlsym(wrapper, "forward_to")) = c.library.open;
        c.expect(c.open(nullptr) == TENON_OK, "the library opens");
        const tenon_host_t* other = nullptr;
        const auto open = reinterpret_cast<Open>(dlsym(wrapper, "tenon_host_open"));
        c.expect(open(TENON_ABI_VERSION, nullptr, &other) == TENON_OK, "the wrapper opens");
        c.expect(other == c.host, "one host");
        exit(c.wrong);
      },
      testing::ExitedWithCode(0), "");
}

// A host that is refused is not there: options without the mistake open it.
TEST(HostOpen, AStrictFailureStartsNoHost) {
  run([](Child& c) {
    const std::string folder = testing::TempDir() + "/tenon_strict_" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/bad.plugin.json") << "{";
    Options strict;
    strict.set("TENON_PLUGIN_STRICT", "1").path(folder.c_str());
    c.refused(strict.get(), TENON_FAILED_PRECONDITION, "P0905");
    c.refused(strict.get(), TENON_FAILED_PRECONDITION, "P0905");
    Options right;
    right.set("TENON_PLUGIN_STRICT", "1").path(TENON_PLUGINS);
    c.expect(c.open(right.get()) == TENON_OK, "it opens without the bad manifest");
    c.expect(c.explain("plugins").find("bad.plugin.json") == std::string::npos, "nothing is left");
    std::filesystem::remove_all(folder);
  });
}

// A later open is compared with what held when the host started.
TEST(HostOpen, LaterOptionsAreComparedWithTheStart) {
  ::setenv("TENON_NUM_THREADS", "2", 1);
  run([](Child& c) {
    c.expect(c.open(Options().path("/tmp").path("/usr").get()) == TENON_OK, "open");
    ::setenv("TENON_NUM_THREADS", "5", 1);
    c.expect(c.open(Options().set("TENON_NUM_THREADS", "2").get()) == TENON_OK, "as at the start");
    c.refused(Options().set("TENON_NUM_THREADS", "5").get(), TENON_FAILED_PRECONDITION,
              "TENON_NUM_THREADS=2");
    c.refused(Options().set("TENON_NOBODY_READS", "").get(), TENON_INVALID_ARGUMENT, "P0910");
    c.expect(c.open(Options().path("/usr").get()) == TENON_OK, "one of the paths");
    c.expect(c.open(Options().path("/tmp/").path("/usr/../tmp").get()) == TENON_OK,
             "the same folder by other paths");
    c.refused(Options().path("/tmp").path("/").get(), TENON_FAILED_PRECONDITION, "P0911");
  });
  ::unsetenv("TENON_NUM_THREADS");
}

// The record of a device, as its library gives it, registered by the program: the host treats it as
// it treats one of a file, layers included, but never lets it go.
TEST(HostOpen, ADeviceIsRegistered) {
  run([](Child& c) {
    Options options;
    options.raw.only_plugin_paths = 1;
    for (const char* path :
         {TENON_PLUGINS "/ops.plugin.json", TENON_PLUGINS "/reference.plugin.json",
          TENON_PLUGINS "/validation.plugin.json"})
      options.path(path);
    options.set("TENON_LAYERS", "validation");
    c.expect(c.open(options.get()) == TENON_OK, "it opens");
    void* library = dlopen(TENON_PLUGINS "/null.so", RTLD_NOW | RTLD_LOCAL);
    const auto query = reinterpret_cast<tenon_plugin_query_t>(dlsym(library, "tenon_plugin_query"));
    const tenon_plugin_t* record = nullptr;
    c.expect(query(TENON_ABI_VERSION, c.host, &record) == TENON_OK, "the query answers");
    const std::string manifest =
        R"({"schema": 1, "name": "null", "version": "0.1.0", "priority": -1,
            "provides": {"devices": ["null"], "kernels": ["null"]}})";
    const auto* plugins = c.table<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
    c.expect(plugins->plugin_register(plugins->self, record, str(manifest)) == TENON_OK, "taken");
    c.expect(c.explain("devices").find("\"null\"") != std::string::npos, "a device");
    c.expect(c.explain("plugins").find("behind the layers validation") != std::string::npos,
             "behind the layer");
    c.expect(
        plugins->plugin_register(plugins->self, record, str(manifest)) == TENON_FAILED_PRECONDITION,
        "not replaced");
    c.expect(c.failure().find("P0908") != std::string::npos, "with the reason");
    c.expect(plugins->plugin_unregister(plugins->self, str("null")) == TENON_FAILED_PRECONDITION,
             "nor taken back");
  });
}

// A layer may keep what it gets for as long as the process lives.
TEST(HostOpen, ALayerKeepsTheTextsOfARegisteredPlugin) {
  run([](Child& c) {
    c.expect(c.open(Options().set("TENON_LAYERS", "mine").get()) == TENON_OK, "it opens");
    static std::vector<std::pair<tenon_str_t, tenon_str_t>> seen;
    static tenon_layer_api_t layer{};
    layer.size_bytes = sizeof layer;
    layer.name = str("mine");
    layer.attach = [](void*, const tenon_layer_subject_t* subject, const void**) {
      seen.emplace_back(subject->plugin, subject->version);
      return TENON_OK;
    };
    static uint32_t vendors_own[4] = {sizeof vendors_own};
    const auto add = [&](const char* name, const char* id, const void* table, const char* has) {
      const tenon_interface_t interface{str(id), 0, 0, table};
      tenon_plugin_t record{};
      record.size_bytes = sizeof record;
      record.abi = TENON_ABI_VERSION;
      record.name = str(name);
      record.version = str("1.2");
      record.interfaces = &interface;
      record.interface_count = 1;
      record.interface_bytes = sizeof(tenon_interface_t);
      const std::string manifest = std::string(R"({"schema": 1, "version": "1.2", "name": ")") +
                                   name + R"(", "provides": {)" + has + "}}";
      const auto* plugins = c.table<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
      return plugins->plugin_register(plugins->self, &record, str(manifest));
    };
    c.expect(add("layers", TENON_LAYER_ID, &layer, R"("layers": ["mine"])") == TENON_OK, "layer");
    for (const char* name : {"short", "next"})
      c.expect(add(name, "acme.own/1", vendors_own, "") == TENON_OK, name);
    c.expect(seen.size() == 2, "the layer is in front of both");
    for (const auto& [name, version] : seen)
      c.expect(view(version) == "1.2" && (view(name) == "short" || view(name) == "next"), "texts");
    c.expect(add("short", "acme.own/1", vendors_own, R"("ops": ["a.b"])") == TENON_INVALID_ARGUMENT,
             "refused by a check");
    c.expect(seen.size() == 2, "which comes before layers");
  });
}

// What the user chose holds for plugins of the program too.
TEST(HostOpen, TheUserDisablesARegisteredPlugin) {
  run([](Child& c) {
    c.expect(c.open(Options().set("TENON_PLUGINS_DISABLE", "mine*").get()) == TENON_OK, "it opens");
    tenon_plugin_t record{};
    record.size_bytes = sizeof record;
    record.abi = TENON_ABI_VERSION;
    record.name = str("mine.a");
    record.version = str("1");
    const auto* plugins = c.table<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
    c.expect(plugins->plugin_register(plugins->self, &record,
                                      str(R"({"schema": 1, "name": "mine.a", "version": "1"})")) ==
                 TENON_UNAVAILABLE,
             "refused");
    c.expect(c.failure().find("P0401") != std::string::npos, "with the reason");
  });
}

// Registering is for the program: not from a query, whose thread holds the host's lock.
TEST(HostOpen, NoRegistrationWhileAPluginIsLoaded) {
  run([](Child& c) {
    c.expect(c.open(nullptr) == TENON_OK, "it opens");
    static const tenon_host_plugins_t* plugins;
    static tenon_code_t answer = TENON_OK;
    plugins = c.table<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
    // The host counts the devices of a plugin while it takes it.
    static tenon_device_api_t api{};
    const auto never = [](void*, tenon_device_t*) { return TENON_OK; };
    api.size_bytes = sizeof api;
    api.count = [](void*, uint32_t* out) {
      *out = 0;
      return answer = plugins->plugin_unregister(plugins->self, str("any"));
    };
    api.info = [](void*, uint32_t, tenon_device_info_t*) { return TENON_UNAVAILABLE; };
    // Required, and never called.
    for (void** slot : {reinterpret_cast<void**>(&api.open), reinterpret_cast<void**>(&api.close),
                        reinterpret_cast<void**>(&api.alloc), reinterpret_cast<void**>(&api.free),
                        reinterpret_cast<void**>(&api.copy)})
      *slot = reinterpret_cast<void*>(+never);
    static tenon_interface_t interface{str(TENON_DEVICE_ID), 0, 0, &api};
    tenon_plugin_t record{};
    record.size_bytes = sizeof record;
    record.abi = TENON_ABI_VERSION;
    record.name = str("asks");
    record.version = str("1");
    record.interfaces = &interface;
    record.interface_count = 1;
    record.interface_bytes = sizeof(tenon_interface_t);
    c.expect(plugins->plugin_register(plugins->self, &record,
                                      str(R"({"schema": 1, "name": "asks", "version": "1"})")) ==
                 TENON_OK,
             "taken: it has no device now");
    c.expect(answer == TENON_FAILED_PRECONDITION, "the call from inside is refused");
  });
}

TEST(HostOpen, NullAndAnotherAbi) {
  run([](Child& c) {
    c.expect(c.library.open(TENON_ABI_VERSION, nullptr, nullptr) == TENON_INVALID_ARGUMENT, "null");
    c.expect(c.library.open(7u << 16, nullptr, &c.host) == TENON_FAILED_PRECONDITION, "ABI 7");
    c.expect(c.failure().find("P0305") != std::string::npos, "with a reason");
    c.expect(c.open(nullptr) == TENON_OK, "then this one");
  });
}

}  // namespace
