// Manifests as bytes: group 6 of the hostile inputs, cases 90 to 92 and similar ones.
#include <gtest/gtest.h>

#include "core/host/discovery/manifest.h"

namespace tenon::host {
namespace {

std::string refusal(std::string_view text) {
  Result<Manifest> manifest = parse_manifest(text, "/x/y.plugin.json");
  return manifest.ok() ? "read" : std::string(manifest.status().error_code());
}
std::string with(std::string_view more) {
  return R"({"schema": 1, "name": "x", "version": "1", "library": "./x.so", )" + std::string(more) +
         "}";
}

TEST(Manifest, ReadsAllOfIt) {
  Manifest m =
      parse_manifest(with(R"("platform": {"os": "linux", "libc_min": "2.36"}, "experimental": true,
      "abi": {"major": 0, "min_minor": 1, "interfaces": [{"id": "tenon.device/1", "minor": 2}]},
      "provides": {"devices": ["sim"], "frontends": ["tiny", {"name": "big", "extensions": [".big"]}], "ops": ["a", "b"]},
      "requires": {"plugins": ["ops"], "libraries": ["libx.so.1"]}, "probe": {"paths": ["/dev/x"], "pci": ["10de:*"]},
      "environment": ["TENON_X"], "priority": -3, "something": {"new": 1}, "sha256": "00")"),
                     "p")
          .value();
  EXPECT_EQ(m.name, "x");
  EXPECT_EQ(m.interfaces.at(0).minor, 2u);
  EXPECT_EQ(m.provides.size(), 6u);
  EXPECT_EQ(m.provides[3].kind, "extension");
  EXPECT_EQ(m.unknown_keys, std::vector<std::string>{"something"});
  EXPECT_EQ(m.idle_keys, std::vector<std::string>{"experimental"});
  EXPECT_EQ(m.required_libraries.at(0), "libx.so.1");
  EXPECT_EQ(m.priority, -3);
}

TEST(Manifest, NotJson) {
  for (std::string_view text :
       {"", "hello", "{", "{\"schema\": 1", "[1,",
        "\x7f"
        "ELF",
        "{\"a\": 1} trailing", "\xff\xfe", "{\"schema\": 1e999999}", "{\"a\": \"\xff\"}"}) {
    EXPECT_EQ(refusal(text), "P0201") << text;
  }
}

TEST(Manifest, DepthAndSize) {
  EXPECT_EQ(refusal(std::string(10000, '[')), "P0203");
  EXPECT_EQ(refusal(with("\"x\": " + std::string(10000, '[') + std::string(10000, ']'))), "P0203");
  EXPECT_EQ(refusal(std::string(10 << 20, ' ')), "P0202");
  EXPECT_EQ(refusal(with(R"("x": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[")")), "read");
}

TEST(Manifest, KeysAndTypes) {
  EXPECT_EQ(refusal("[]"), "P0206");
  EXPECT_EQ(refusal("3"), "P0206");
  EXPECT_EQ(refusal("{}"), "P0205");
  EXPECT_EQ(refusal(R"({"schema": 2, "name": "x", "version": "1", "library": "./x.so"})"), "P0204");
  EXPECT_EQ(refusal(R"({"schema": "1", "name": "x", "version": "1", "library": "./x.so"})"),
            "P0204");
  EXPECT_EQ(refusal(R"({"schema": 1, "name": "x", "version": "1"})"), "P0205");
  EXPECT_EQ(refusal(R"({"schema": 1, "name": "../x", "version": "1", "library": "./x.so"})"),
            "P0206");
  EXPECT_EQ(refusal(R"({"schema": 1, "name": "", "version": "1", "library": "./x.so"})"), "P0206");
  EXPECT_EQ(refusal(R"({"schema": 1, "name": 7, "version": "1", "library": "./x.so"})"), "P0206");
  EXPECT_EQ(refusal(R"({"schema": -1, "name": "x", "version": "1", "library": "./x.so"})"),
            "P0204");
  for (std::string_view more :
       {R"("abi": 3)", R"("abi": {"major": -1})", R"("abi": {"major": 4294967296})",
        R"("provides": [])", R"("provides": {"devices": "cpu"})", R"("provides": {"devices": [1]})",
        R"("platform": {"os": 1})", R"("environment": {"a": 1})", R"("experimental": "yes")",
        R"("priority": 1.5)", R"("requires": {"libraries": ["/tmp/libx.so"]})",
        R"("requires": {"libraries": ["libx.so.1", "./y.so"]})",
        R"("requires": {"libraries": [""]})", R"("provides": {"frontends": [[]]})",
        R"("sha256": null)"}) {
    EXPECT_EQ(refusal(with(more)), "P0206") << more;
  }
  EXPECT_EQ(refusal(with(R"("abi": {})")), "P0205");
  EXPECT_EQ(refusal(with(R"("provides": {"frontends": [{}]})")), "P0205");
}

TEST(Manifest, EveryCutAndFlipIsAnswered) {
  const std::string whole =
      with(R"("provides": {"devices": ["sim"], "frontends": [{"name": "b", "extensions": [".b"]}]},
      "abi": {"major": 0, "min_minor": 1, "interfaces": [{"id": "tenon.device/1", "minor": 2}]})");
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(refusal(whole.substr(0, i)), "P0201") << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      (void)parse_manifest(flipped, "p");  // any result, but no crash
    }
  }
}

TEST(Manifest, MessagesNameFileAndKey) {
  EXPECT_EQ(parse_manifest(with(R"("abi": {"major": "one"})"), "/x/y.plugin.json").status().text(),
            "P0206: the key `abi.major` must be a whole number from 0, and is `\"one\"` (while "
            "reading the manifest "
            "`/x/y.plugin.json`)");
}

}  // namespace
}  // namespace tenon::host
