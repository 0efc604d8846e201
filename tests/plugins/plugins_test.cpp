// The host with right, odd and broken plugins: for each bad one it reports the gate that stopped it
// and a stable code, and no plugin stops the others. Covers groups 6 and 10 of the hostile inputs,
// as far as they concern the host.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/base/process/log.h"
#include "core/base/process/settings.h"
#include "core/host/discovery/places.h"
#include "core/host/discovery/probe.h"
#include "core/host/host_interfaces.h"
#include "core/host/plugin_host.h"

#include <tenon/abi/pass.h>

namespace tenon::host {
namespace {

class PluginsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    char pattern[] = "/tmp/tenon_plugins_cache.XXXXXX";
    setenv("TENON_CACHE_DIR", mkdtemp(pattern), 1);
  }
  static void TearDownTestSuite() { ASSERT_EQ(system("rm -rf \"$TENON_CACHE_DIR\""), 0); }
  void SetUp() override {
    char pattern[] = "/tmp/tenon_plugins_test.XXXXXX";
    folder_ = mkdtemp(pattern);
    set_log_receiver(
        [](void* self, std::string_view, LogLevel, std::string_view line) {
          static_cast<PluginsTest*>(self)->log_ += std::string(line) + "\n";
        },
        this);
  }
  void TearDown() override {
    set_log_receiver(nullptr, nullptr);
    for (const char* name : {"TENON_PLUGINS_SELECT", "TENON_PLUGINS_DISABLE", "TENON_PLUGIN_ADD",
                             "TENON_PLUGIN_FILES", "TENON_PLUGIN_AUTOLOAD", "TENON_PLUGIN_STRICT",
                             "TENON_PLUGIN_PROBE", "TENON_PLUGIN_LOCK", "TENON_PLUGIN_NO_CACHE"}) {
      unsetenv(name);
    }
    ASSERT_EQ(system(("rm -rf " + folder_).c_str()), 0);
  }

  // Installs a fake with a manifest. `more`: additional keys, "" for none.
  std::string install(const std::string& fake, const std::string& more = "",
                      const std::string& name = "") {
    std::string plugin = name.empty() ? fake : name;
    EXPECT_EQ(system(("cp " TENON_FAKES "/fake_" + fake + ".so " + folder_ + "/").c_str()), 0);
    return write_manifest(plugin, R"("library": "./fake_)" + fake +
                                      R"(.so", "provides": {"passes": ["fake-pass"]})" +
                                      (more.empty() ? "" : ", " + more));
  }
  std::string write_manifest(const std::string& name, const std::string& rest) {
    std::string path = folder_ + "/" + name + ".plugin.json";
    EXPECT_TRUE(write_file(path, R"({"schema": 1, "name": ")" + name +
                                     R"(", "version": "1.0.0", )" + rest + "}")
                    .ok());
    return path;
  }
  PluginHost::Options here() { return {{folder_}, nullptr, true}; }
  // Loads one fake and returns "GATE CODE", or "loaded".
  std::string outcome(const std::string& fake, const std::string& more = "") {
    install(fake, more);
    PluginHost host(here());
    Result<const Plugin*> plugin = host.load(fake);
    const Candidate& candidate = *host.candidates().at(0);
    Gate gate{};
    const GateResult* stopped = candidate.stopped_by(&gate);
    EXPECT_EQ(plugin.ok(), stopped == nullptr) << host.explain_text(fake);
    last_ = stopped == nullptr ? "" : stopped->text;
    return stopped == nullptr ? "loaded" : std::string(gate_name(gate)) + " " + stopped->code;
  }
  std::string folder_, log_, last_;
};

TEST_F(PluginsTest, GoodOneLoadsOnFirstUseOnly) {
  install("good");
  PluginHost host(here());
  ASSERT_EQ(host.candidates().size(), 1u);
  EXPECT_EQ(host.candidates()[0]->state, State::kAvailable);
  EXPECT_EQ(host.provided_names("pass"), std::vector<std::string>{"fake-pass"});
  const auto* table = host.find<tenon_passes_t>("pass", "fake-pass", TENON_PASS_ID).value();
  EXPECT_EQ(table->pass_count, 1u);
  EXPECT_EQ(host.candidates()[0]->state, State::kLoaded);
  EXPECT_EQ(host.load_all("pass").size(), 1u);
  // A vendor's own interface is passed on unchanged.
  EXPECT_EQ(static_cast<const int*>(host.load("good").value()->interface("vendor.feature/1"))[3],
            3);
  EXPECT_EQ(host.find_interface("pass", "fake-pass", "tenon.nothing/1").status().error_code(),
            "P0904");
  EXPECT_TRUE(host.shutdown().ok());
  EXPECT_TRUE(host.shutdown().ok());
  EXPECT_EQ(log_, "");
}

TEST_F(PluginsTest, BrokenOnesAreNamedAndSurvived) {
  const std::pair<const char*, const char*> cases[] = {
      {"refuses", "initialised P0801"},
      {"refuses_silently", "initialised P0801"},
      {"crashes", "probe P0601"},
      {"exits", "probe P0601"},
      {"aborts_when_opened", "probe P0601"},
      {"null_slot", "initialised P0805"},
      {"null_table", "initialised P0805"},
      {"null_record", "initialised P0802"},
      {"garbage_count", "initialised P0806"},
      {"garbage_size", "initialised P0806"},
      {"garbage_interfaces", "initialised P0806"},
      {"no_symbol", "loaded P0702"},
      {"data_symbol", "loaded P0703"},
      {"newer_major", "initialised P0305"},
      {"newer_minor", "initialised P0305"},
      {"older_minor", "initialised P0304"},
      {"garbage_vendor_size", "initialised P0806"},
      {"null_vendor_table", "initialised P0805"},
      {"wrong_name", "initialised P0803"},
      {"pass_without_run", "initialised P0805"},
      {"throws", "initialised P0807"},
      {"short_tables", "loaded"},
      {"long_tables", "loaded"},
      {"shutdown_fails", "loaded"},
      {"long_records", "loaded"},
      {"no_stride", "initialised P0806"},
      {"needs_minor", "initialised P0305"},
  };
  for (const auto& [fake, expected] : cases) {
    EXPECT_EQ(outcome(fake), expected) << last_;
    ASSERT_EQ(system(("rm -f " + folder_ + "/*").c_str()), 0);
  }
}

TEST_F(PluginsTest, HangingQueryIsAbandoned) {
  EXPECT_EQ(outcome("hangs"), "probe P0602");
  // Quarantined: the next attempt costs nothing.
  PluginHost again(here());
  EXPECT_EQ(again.load("hangs").status().error_code(), "P0602");
}

TEST_F(PluginsTest, RefusalGivesTheReason) {
  EXPECT_EQ(outcome("refuses"), "initialised P0801");
  EXPECT_EQ(last_, "it refused: there is no card in this machine");
  EXPECT_NE(log_.find("the plugin `refuses`"), std::string::npos);
}

TEST_F(PluginsTest, RefusalIsAskedAgain) {
  EXPECT_EQ(outcome("refuses"), "initialised P0801");
  // The card is there now, though the file did not change.
  setenv("FAKE_CARD", "1", 1);
  PluginHost again(here());
  EXPECT_TRUE(again.load("refuses").ok()) << log_;
  unsetenv("FAKE_CARD");
}

TEST_F(PluginsTest, ManifestToolOnOtherMachines) {
  auto complete = [&](const std::string& fake, const std::string& more, std::string* said) {
    std::string input = write_manifest(fake, R"("library": "./fake_)" + fake + R"(.so")" + more);
    int code = system((TENON_MANIFEST " --library " TENON_FAKES "/fake_" + fake + ".so --input " +
                       input + " --output " + folder_ + "/out.json 2> " + folder_ + "/said")
                          .c_str());
    *said = read_all(*open_user_file(folder_ + "/said"), 1 << 16, "the log").value();
    return code;
  };
  std::string said;
  // A refusal stops the build, unless the handwritten manifest states what the plugin provides.
  EXPECT_NE(complete("refuses", "", &said), 0);
  EXPECT_EQ(complete("refuses", R"(, "provides": {"devices": ["card"]})", &said), 0);
  EXPECT_NE(said.find("warning: P0801: it refused: there is no card"), std::string::npos) << said;
  const std::string text =
      read_all(*open_user_file(folder_ + "/out.json"), 1 << 16, "a manifest").value();
  Manifest manifest = parse_manifest(text, "/x/out.json").value();
  ASSERT_EQ(manifest.provides.size(), 1u);
  EXPECT_EQ(manifest.provides[0].name, "card");
  EXPECT_FALSE(manifest.has_abi);
  // A device table without a device names no kind.
  EXPECT_EQ(complete("no_device", "", &said), 0);
  EXPECT_NE(said.find("warning: the plugin has tenon.device/1 and finds no device"),
            std::string::npos)
      << said;
  EXPECT_EQ(complete("no_device", R"(, "provides": {"devices": ["card"]})", &said), 0);
  EXPECT_EQ(said, "");
}

TEST_F(PluginsTest, AbiThatTheManifestDoesNotStateIsTheRecords) {
  install("newer_minor");
  PluginHost host(here());
  EXPECT_NE(
      host.explain_text("newer_minor").find("not stated; the library is asked when it is loaded"),
      std::string::npos);
  EXPECT_FALSE(host.load("newer_minor").ok());
}

TEST_F(PluginsTest, ShortTablesAreFilledWithNull) {
  install("short_tables");
  PluginHost host(here());
  const Plugin* plugin = host.load("short_tables").value();
  const auto* passes = plugin->table<tenon_passes_t>(TENON_PASS_ID);
  EXPECT_EQ(passes->passes[0]->size_bytes, sizeof(tenon_pass_def_t));
  EXPECT_EQ(passes->passes[0]->rewrites, nullptr);  // bytes beyond the plugin's size are not read
  EXPECT_NE(passes->passes[0]->run, nullptr);
}

TEST_F(PluginsTest, UnknownHostInterfaceIsAnswered) {
  // The helper process answers for every interface; the real host refuses this id.
  EXPECT_EQ(outcome("asks_too_much"), "initialised P0801");
  EXPECT_NE(last_.find("tenon.host.nonsense/1"), std::string::npos) << last_;
}

TEST_F(PluginsTest, OneBadManifestDoesNotStopTheOthers) {
  install("good");
  ASSERT_TRUE(write_file(folder_ + "/a.plugin.json", "not json").ok());
  ASSERT_TRUE(write_file(folder_ + "/b.plugin.json", std::string(10 << 20, ' ')).ok());
  ASSERT_TRUE(write_file(folder_ + "/c.plugin.json", std::string(10000, '[')).ok());
  ASSERT_EQ(mkfifo((folder_ + "/d.plugin.json").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((folder_ + "/e.plugin.json").c_str(), 0700), 0);
  ASSERT_TRUE(write_file(folder_ + "/ignored.json", "not json").ok());
  PluginHost host(here());
  EXPECT_EQ(host.candidates().size(), 6u);
  EXPECT_TRUE(host.load("good").ok());
  std::string report = host.explain_json("");
  for (const char* code : {"P0201", "P0202", "P0203"})
    EXPECT_NE(report.find(code), std::string::npos) << code;
  setenv("TENON_PLUGIN_STRICT", "1", 1);
  EXPECT_EQ(host.strict_status().error_code(), "P0905");
}

TEST_F(PluginsTest, LibraryPaths) {
  install("good");
  ASSERT_TRUE(make_folders(folder_ + "/sub").ok());
  ASSERT_EQ(symlink((folder_ + "/fake_good.so").c_str(), (folder_ + "/sub/escape.so").c_str()), 0);
  const std::pair<const char*, const char*> cases[] = {{"../../x.so", "P0208"},
                                                       {"fake_good.so", "P0207"},
                                                       {"./missing.so", "P0208"},
                                                       {"", "P0207"},
                                                       {"/tmp", "P0207"},
                                                       {"/etc/passwd", "P0207"},
                                                       {"./../../etc/passwd", "P0207"}};
  for (const auto& [library, code] : cases) {
    EXPECT_EQ(library_path(folder_ + "/good.plugin.json", library).status().error_code(), code)
        << library;
  }
  EXPECT_EQ(library_path(folder_ + "/sub/x.plugin.json", "./escape.so").status().error_code(),
            "P0207");
  EXPECT_TRUE(library_path(folder_ + "/good.plugin.json", "./fake_good.so").ok());
  EXPECT_TRUE(library_path(folder_ + "/good.plugin.json", folder_ + "/fake_good.so").ok());
}

TEST_F(PluginsTest, PlacesThatOthersMayWriteToAreSkipped) {
  install("good");
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  {
    PluginHost host(here());
    EXPECT_EQ(host.load("good").status().error_code(), "P0902");
    EXPECT_NE(log_.find("P0102"), std::string::npos);
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chmod((folder_ + "/fake_good.so").c_str(), 0666), 0);
  EXPECT_FALSE(PluginHost(here()).load("good").ok());
  ASSERT_EQ(chmod((folder_ + "/fake_good.so").c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder_ + "/good.plugin.json").c_str(), 0646), 0);
  EXPECT_FALSE(PluginHost(here()).load("good").ok());
  if (geteuid() == 0) {
    ASSERT_EQ(chmod((folder_ + "/good.plugin.json").c_str(), 0644), 0);
    ASSERT_EQ(chown((folder_ + "/fake_good.so").c_str(), 12345, 12345), 0);
    EXPECT_FALSE(PluginHost(here()).load("good").ok());
  }
}

TEST_F(PluginsTest, SelectThenDisable) {
  install("good");
  install("refuses");
  setenv("TENON_PLUGINS_SELECT", "goo*,nonsense", 1);
  {
    PluginHost host(here());
    EXPECT_EQ(host.load("refuses").status().text().find(
                  "P0902: the plugin `refuses` cannot be used: P0402"),
              0u);
    EXPECT_TRUE(host.load("good").ok());
    EXPECT_NE(log_.find("P0404: `nonsense` in TENON_PLUGINS_SELECT matches no plugin"),
              std::string::npos)
        << log_;
  }
  setenv("TENON_PLUGINS_DISABLE", "GOOD", 1);
  PluginHost host(here());
  EXPECT_EQ(host.load_provider("pass", "fake-pass").status().error_code(), "P0902");
  EXPECT_NE(host.load("good").status().text().find("TENON_PLUGINS_DISABLE=GOOD matches it"),
            std::string::npos);
  EXPECT_NE(host.explain_text("good").find("Unset TENON_PLUGINS_DISABLE"), std::string::npos);
}

TEST_F(PluginsTest, SearchOrderAndShadowing) {
  std::string first = install("good");
  ASSERT_TRUE(make_folders(folder_ + "/second", 0755).ok());
  ASSERT_EQ(
      system(("cp " + folder_ + "/*.so " + folder_ + "/*.json " + folder_ + "/second/").c_str()),
      0);
  setenv("TENON_PLUGIN_ADD", (folder_ + "/second::relative:" + folder_).c_str(), 1);
  {
    PluginHost host({});
    ASSERT_GE(host.candidates().size(), 2u);
    EXPECT_EQ(host.candidates()[0]->manifest_path, folder_ + "/second/good.plugin.json");
    EXPECT_EQ(host.candidates()[1]->stopped_by()->code, "P0406");
    EXPECT_NE(log_.find("an empty part"), std::string::npos);
    EXPECT_NE(log_.find("`relative`"), std::string::npos);
  }
  setenv("TENON_PLUGIN_FILES", (first + ":" + folder_ + "/missing.plugin.json").c_str(), 1);
  PluginHost host({});
  ASSERT_EQ(host.candidates().size(), 2u);
  EXPECT_EQ(host.candidates()[0]->origin, "TENON_PLUGIN_FILES");
  EXPECT_EQ(host.candidates()[1]->stopped_by()->code, "P0103");
}

TEST_F(PluginsTest, CurrentFolderIsNeverSearched) {
  install("good");
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
  ASSERT_EQ(chdir(folder_.c_str()), 0);
  PluginHost host({});
  EXPECT_FALSE(host.load("good").ok());
  setenv("TENON_PLUGIN_ADD", ":.:./good.plugin.json:", 1);
  PluginHost added({});
  EXPECT_FALSE(added.load("good").ok());
  ASSERT_EQ(chdir(before), 0);
}

TEST_F(PluginsTest, AutoloadAndLock) {
  install("good");
  setenv("XDG_DATA_HOME", folder_.c_str(), 1);
  ASSERT_TRUE(make_folders(folder_ + "/tenon/plugins.d", 0755).ok());
  ASSERT_EQ(
      system(("mv " + folder_ + "/*.so " + folder_ + "/*.json " + folder_ + "/tenon/plugins.d/")
                 .c_str()),
      0);
  EXPECT_TRUE(PluginHost({}).load("good").ok());
  setenv("TENON_PLUGIN_AUTOLOAD", "0", 1);
  EXPECT_NE(PluginHost({}).load("good").status().text().find("P0403"), std::string::npos);
  unsetenv("TENON_PLUGIN_AUTOLOAD");
  std::string lock = folder_ + "/lock.json";
  setenv("TENON_PLUGIN_LOCK", lock.c_str(), 1);
  EXPECT_NE(PluginHost({}).load("good").status().text().find("P0407"), std::string::npos);
  // A lock file with an unknown key would otherwise admit everything.
  const std::string digests = R"("sha256": ")" + std::string(64, '0') +
                              R"(", "manifest_sha256": ")" + std::string(64, '0') + '"';
  const std::string good = R"({"name": "good", "version": "1.0.0", )";
  const std::pair<std::string, const char*> wrong[] = {
      {R"({"schema": 99, "plugins": []})", "its schema is 99"},
      {R"({"plugins": []})", "lacks the key `schema`"},
      {R"({"schema": 1, "plugins": [{"name": "good", "version": "1.0.0"}]})",
       "lacks the key `sha256`"},
      {R"({"schema": 1, "plugins": [)" + good + R"("sha265": "0"}]})",
       "the key `sha265`, which this Tenon does not know; did you mean `sha256`?"},
      {R"({"schema": 1, "plugins": [)" + good + R"("sha256": "", "manifest_sha256": ""}]})",
       "is not a sha256"},
      {R"({"schema": 1, "plugins": [)" + good + digests + "}, " + good + digests + "}]}",
       "names the plugin `good` twice"},
      {R"({"schema": 1, "plugins": [)" + good + digests + R"(, "sha256": "00"}]})",
       "occurs twice in one object"},
      {R"({"schema": 1, "plugins": {}})", "is not a list"}};
  for (const auto& [text, expected] : wrong) {
    ASSERT_TRUE(write_file(lock, text).ok());
    const std::string status = PluginHost({}).load("good").status().text();
    EXPECT_NE(status.find("P0407"), std::string::npos) << text << status;
    EXPECT_NE(status.find(expected), std::string::npos) << text << status;
  }
  ASSERT_TRUE(
      write_file(lock, R"({"schema": 1, "plugins": [{"name": "good", "version": "2.0.0", )" +
                           digests + "}]}")
          .ok());
  EXPECT_NE(PluginHost({}).load("good").status().text().find("P0405"), std::string::npos);
  // The output of `tenon plugins lock` admits the same library and manifest, and no other.
  ASSERT_EQ(unsetenv("TENON_PLUGIN_LOCK"), 0);
  Result<std::string> locked = PluginHost({}).lock_json("good");
  ASSERT_TRUE(locked.ok()) << locked.status().text();
  setenv("TENON_PLUGIN_LOCK", lock.c_str(), 1);
  ASSERT_TRUE(write_file(lock, *locked).ok());
  EXPECT_TRUE(PluginHost({}).load("good").ok());
  // The manifest decides what is opened, so a changed one is detected even if the library is the
  // same.
  const std::string manifest = folder_ + "/tenon/plugins.d/good.plugin.json";
  const std::string text = read_all(*open_user_file(manifest), 1 << 20, "a manifest").value();
  ASSERT_TRUE(write_file(manifest, text + "\n").ok());
  const std::string changed = PluginHost({}).load("good").status().text();
  EXPECT_NE(changed.find("P0604"), std::string::npos) << changed;
  EXPECT_NE(changed.find("the manifest's sha256"), std::string::npos) << changed;
  ASSERT_TRUE(write_file(manifest, text).ok());
  EXPECT_TRUE(PluginHost({}).load("good").ok());
  locked->replace(locked->find(" \"sha256\": \"") + 12, 4, "0123");
  ASSERT_TRUE(write_file(lock, *locked).ok());
  EXPECT_NE(PluginHost({}).load("good").status().text().find("P0604"), std::string::npos);
  ASSERT_TRUE(write_file(lock, "{").ok());
  EXPECT_FALSE(PluginHost({}).load("good").ok());
  unsetenv("XDG_DATA_HOME");
}

TEST_F(PluginsTest, PlatformAbiAndRequirements) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("platform": {"os": "plan9"})", "platform P0301"},
      {R"("platform": {"arch": "vax"})", "platform P0301"},
      {R"("platform": {"libc_min": "99.1"})", "platform P0302"},
      {R"("build": {"sanitizer": "hwaddress"})", "platform P0303"},
      {R"("abi": {"major": 9})", "abi P0305"},
      {R"("abi": {"major": 0, "min_minor": 999})", "abi P0305"},
      {R"("requires": {"plugins": ["missing"]})", "requirements P0501"},
      {R"("requires": {"cpu_features": ["quantum"]})", "requirements P0502"},
      {R"("probe": {"paths": ["/dev/tenon-no-such"]})", "requirements P0503"},
      {R"("probe": {"pci": ["ffff:ffff"]})", "requirements P0504"},
      {R"("requires": {"libraries": ["libno-such-library.so.9"]})", "requirements P0505"},
      {R"("sha256": "00")", "probe P0604"},
      {R"("platform": {"os": "linux", "libc_min": "2.2.5"}, "probe": {"paths": ["/"]})", "loaded"},
  };
  for (const auto& [more, expected] : cases) {
    EXPECT_EQ(outcome("good", more), expected) << more;
    ASSERT_EQ(system(("rm -f " + folder_ + "/*").c_str()), 0);
  }
}

TEST_F(PluginsTest, RequiredLibrariesAreOpenedAfterDigestAndProbe) {
  const std::string missing = R"("requires": {"libraries": ["libno-such-library.so.9"]})";
  EXPECT_EQ(outcome("good", missing + R"(, "sha256": "00")"), "probe P0604");
  ASSERT_EQ(system(("rm -f " + folder_ + "/*").c_str()), 0);
  EXPECT_EQ(outcome("crashes", R"("requires": {"libraries": ["libm.so.6"]})"), "probe P0601");
  ASSERT_EQ(system(("rm -f " + folder_ + "/*").c_str()), 0);
  // If a plugin cannot be opened because a library is missing, the error says so. Here that library
  // is one for another processor.
  install("good", missing);
  std::string library =
      read_all(*open_user_file(folder_ + "/fake_good.so"), 1 << 24, "a library").value();
  library[18] = static_cast<char>(~library[18]);  // e_machine
  ASSERT_TRUE(write_file(folder_ + "/fake_good.so", library).ok());
  PluginHost host(here());
  EXPECT_NE(host.load("good").status().text().find("P0505"), std::string::npos) << log_;
  EXPECT_NE(log_.find("libno-such-library.so.9"), std::string::npos);
}

// A plugin whose probe the system killed, for lack of memory, used to be excluded permanently.
TEST_F(PluginsTest, WhatTheMachineDidIsAskedAgain) {
  setenv("FAKE_KILL", "1", 1);
  EXPECT_EQ(outcome("killed"), "probe P0601");
  unsetenv("FAKE_KILL");
  EXPECT_EQ(outcome("killed"), "loaded");
}

// A library that replaced another during the probe used to run, although only the first had the
// right digest.
TEST_F(PluginsTest, LibraryThatIsReplacedWhileItIsProbedIsCheckedAgain) {
  const std::string own = folder_ + "/fake_replaced.so", other = folder_ + "/other.so";
  ASSERT_EQ(system(("cp " TENON_FAKES "/fake_aborts_when_opened.so " + other).c_str()), 0);
  setenv("FAKE_OTHER_LIBRARY", other.c_str(), 1);
  setenv("FAKE_OWN_LIBRARY", own.c_str(), 1);
  const std::string digest = file_digest(TENON_FAKES "/fake_replaced.so").value();
  EXPECT_EQ(outcome("replaced", R"("sha256": ")" + digest + '"'), "probe P0604");
  EXPECT_FALSE(identify(other).ok());
  unsetenv("FAKE_OTHER_LIBRARY");
  unsetenv("FAKE_OWN_LIBRARY");
}

TEST_F(PluginsTest, FolderWithoutManifestsIsReported) {
  install("good");
  ASSERT_EQ(system(("mkdir " + folder_ + "/empty").c_str()), 0);
  setenv("TENON_PLUGIN_FILES", (folder_ + "/empty").c_str(), 1);
  PluginHost host({});
  EXPECT_NE(log_.find("P0105: TENON_PLUGIN_FILES names the folder `" + folder_ +
                      "/empty`, which holds no *.plugin.json"),
            std::string::npos)
      << log_;
  log_.clear();
  ASSERT_EQ(
      system(("mkdir " + folder_ + "/source && mv " + folder_ + "/empty " + folder_ +
              "/source/build && mv " + folder_ + "/good.plugin.json " + folder_ + "/source/build/")
                 .c_str()),
      0);
  setenv("TENON_PLUGIN_FILES", (folder_ + "/source").c_str(), 1);
  PluginHost source({});
  EXPECT_NE(log_.find("`" + folder_ + "/source/build` does"), std::string::npos) << log_;
}

TEST_F(PluginsTest, RequiredLibraryIsNoFileOfTheManifestsChoice) {
  install("good",
          R"("requires": {"libraries": [")" TENON_FAKES R"(/fake_aborts_when_opened.so"]})");
  PluginHost host(here());
  EXPECT_NE(host.load("good").status().text().find("P0206"), std::string::npos) << log_;
}

TEST_F(PluginsTest, KeysThatDoNothingAreReported) {
  install(
      "good",
      R"("threading": "free", "signature": "00", "min_driver": "1", "deprecates": ["x"], "experimental": true)");
  PluginHost host(here());
  EXPECT_TRUE(host.load("good").ok());
  const std::string text = host.explain_text("good"), json = host.explain_json("good");
  EXPECT_NE(text.find("not acted upon by this host: "), std::string::npos) << text;
  EXPECT_NE(json.find("\"idle_keys\""), std::string::npos) << json;
  for (const char* key : {"threading", "signature", "min_driver", "deprecates", "experimental"}) {
    EXPECT_NE(text.find(key), std::string::npos) << key;
    EXPECT_NE(json.find(key), std::string::npos) << key;
  }
}

TEST_F(PluginsTest, UnknownNamesGetSuggestions) {
  install("good");
  PluginHost host(here());
  EXPECT_EQ(host.load("god").status().text(),
            "P0903: there is no plugin `god`; did you mean `good`?; there are good");
  EXPECT_EQ(host.load_provider("pass", "fake-pas").status().text(),
            "P0901: no plugin provides the pass `fake-pas`; did you mean `fake-pass`?; there are "
            "fake-pass");
  EXPECT_EQ(host.load_provider("device", "x").status().text(),
            "P0901: no plugin provides the device `x`; no plugin provides any device");
}

TEST_F(PluginsTest, ProbeModes) {
  // In this process, an exception of a query is still caught; `off` trusts plugins as well.
  for (const char* mode : {"inproc", "off", "nonsense"}) {
    setenv("TENON_PLUGIN_PROBE", mode, 1);
    setenv("TENON_PLUGIN_NO_CACHE", "1", 1);
    EXPECT_EQ(outcome("throws"), "initialised P0807") << mode;
    ASSERT_EQ(system(("rm -f " + folder_ + "/*").c_str()),
              0);  // written in place, a mapped library would crash
  }
  EXPECT_NE(log_.find("TENON_PLUGIN_PROBE=`nonsense`"), std::string::npos);
}

TEST_F(PluginsTest, ChangedLibraryIsProbedAgain) {
  EXPECT_EQ(outcome("crashes"), "probe P0601");
  // The same name now has a good library, as after an update.
  ASSERT_EQ(system(("cp " TENON_FAKES "/fake_good.so " + folder_ + "/fake_crashes.so").c_str()), 0);
  ASSERT_EQ(
      system(("mv " + folder_ + "/crashes.plugin.json " + folder_ +
              "/x.plugin.json && sed -i 's/\"crashes\"/\"good\"/' " + folder_ + "/x.plugin.json")
                 .c_str()),
      0);
  PluginHost host(here());
  EXPECT_TRUE(host.load("good").ok()) << log_;
}

TEST_F(PluginsTest, ManyThreadsAskAtOnce) {
  install("good");
  install("short_tables");
  install("crashes");
  PluginHost host(here());
  std::vector<std::thread> threads;
  std::atomic<const Plugin*> seen{nullptr};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const Plugin* plugin = host.load("good").value();
        const Plugin* before = seen.exchange(plugin);
        EXPECT_TRUE(before == nullptr || before == plugin);
        EXPECT_FALSE(host.load("crashes").ok());
        EXPECT_TRUE(host.load_provider("pass", "fake-pass").ok());
        EXPECT_FALSE(host.explain_json("*").empty());
        EXPECT_GE(host.providers("pass").size(), 2u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PluginsTest, HostTable) {
  const tenon_host_t* host = host_table();
  const void* table = nullptr;
  tenon_str_t id = {TENON_HOST_ID, sizeof(TENON_HOST_ID) - 1};
  EXPECT_EQ(host->query(host->self, id, 0, &table), TENON_OK);
  EXPECT_EQ(table, host);
  EXPECT_EQ(host->query(host->self, id, 99, &table), TENON_NOT_FOUND);
  tenon_failure_t failure = {.size_bytes = sizeof failure};
  ASSERT_EQ(host->last_failure(host->self, &failure), TENON_OK);
  EXPECT_EQ(std::string(failure.id.data, failure.id.size), "P0906");
  EXPECT_GT(failure.message.size, 10u);
  set_settings({{"TENON_CPU_ISA", "baseline"}});
  tenon_str_t value = host->setting(host->self, {"TENON_CPU_ISA", 13});
  EXPECT_EQ(std::string(value.data, value.size), "baseline");
  set_settings({});
  EXPECT_EQ(host->setting(host->self, {"TENON_CPU_ISA", 13}).size, 0u);
}

}  // namespace
}  // namespace tenon::host
