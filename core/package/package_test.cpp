#include <gtest/gtest.h>

#include <tenon/abi/graph.h>
#include <tenon/cpp/elements.hpp>

#include "core/base/limits.h"
#include "core/package/bytes.h"
#include "core/package/record.h"

namespace tenon::package {
namespace {

constexpr int64_t kFirst = ~int64_t{0};

// y = f(x): x and y are f32[n]; one device, one segment with one constant.
ProgramRecord sample() {
  ProgramRecord p;
  p.abi = 1;
  p.node_count = 2;
  p.places = {"m.tir:3"};
  p.symbols = {{"n", 1, 64, 1, -1, 1, 0, 0}};
  p.of_inputs = {0};
  p.dims = {{TENON_DIM_SYMBOL, 0, 0}, {TENON_DIM_ADD, kFirst, 1}};
  p.inputs = {{"x", TENON_F32, {kFirst}}};
  p.outputs = {{"y", TENON_F32, {kFirst}}};
  p.facts = {{TENON_REL_LE, kFirst, 64, 1}};
  p.nodes = {{1, {{kFirst}}, {{kFirst}}, {}}};
  p.plugins = {{"p", "1.0", "00"}};
  p.devices = {{"d", "any", 0}};
  p.blobs = {{0, 5, {1, 2}}};
  p.segments = {{0, "", 0, 3, true, {0}, {1}}};
  p.slots = {{0, 0, TENON_F32, {kFirst}, 1}, {1, 0, TENON_F32, {kFirst}, kNothing}};
  p.steps = {{true, 0, 0, 0, {}, {}, {}, {}},
             {false, 0, 0, 0, {0}, {1}, {0}, {}},
             {true, kNothing, 1, 0, {}, {}, {}, {}}};
  p.output_slots = {1};
  return p;
}

Content content(const std::string& bytes) {
  return {bytes.size(), [bytes](const auto& take) { return take(bytes); }};
}

std::string file_of(const ProgramRecord& record) {
  std::string file;
  const Status written = write_container(
      {content(to_bytes(record)), content("report"), content("cod"), content("const")},
      [&](std::string_view bytes) {
        file += bytes;
        return Status();
      });
  EXPECT_TRUE(written.ok()) << written.text();
  return file;
}

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

// As a load that checks constants reads a file.
Result<ProgramRecord> read(const std::string& file) {
  TENON_ASSIGN_OR_RETURN(const Extents extents, read_container(bytes_of(file), "a.tpk"));
  for (size_t i = 0; i < kSections; ++i) {
    TENON_RETURN_IF_ERROR(check_section(bytes_of(file), extents, static_cast<Section>(i), "a.tpk"));
  }
  return from_bytes(bytes_of(bytes_of(file), extents[0]), extents, "a.tpk");
}

TEST(Package, ReadsWhatItWrote) {
  const std::string file = file_of(sample());
  const Result<ProgramRecord> record = read(file);
  ASSERT_TRUE(record.ok()) << record.status().text();
  EXPECT_EQ(to_bytes(*record), to_bytes(sample()));
  const Result<Extents> extents = read_container(bytes_of(file), "a.tpk");
  EXPECT_EQ(extents->at(3).offset % kPageBytes, 0u);
  EXPECT_EQ(bytes_of(bytes_of(file), extents->at(3)), "const");
}

TEST(Package, EveryCutIsAnError) {
  const std::string file = file_of(sample());
  for (size_t size = 0; size < file.size(); ++size) {
    const Result<ProgramRecord> record = read(file.substr(0, size));
    ASSERT_FALSE(record.ok()) << size;
    ASSERT_EQ(record.status().error_code(), "T0521") << size;
  }
  EXPECT_EQ(read(file + '\0').status().error_code(), "T0521");
}

TEST(Package, EveryAlteredByteIsAnError) {
  const std::string file = file_of(sample());
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string altered = file;
      altered[at] = static_cast<char>(altered[at] ^ change);
      const Result<ProgramRecord> record = read(altered);
      ASSERT_FALSE(record.ok()) << at;
      ASSERT_TRUE(record.status().error_code() == "T0521" ||
                  record.status().error_code() == "T0522")
          << at << record.status().text();
    }
  }
}

TEST(Package, TellsAnotherVersionFromDamage) {
  std::string file = file_of(sample());
  file[8] = 2;
  const Status status = read(file).status();
  EXPECT_EQ(status.error_code(), "T0522");
  EXPECT_EQ(status.message(),
            "`a.tpk` has version 2 of the format, and this libtenon reads version 1");
}

// Digests find accidents. Records are checked as if an attacker had made the digests fit.
TEST(Package, RecordsOfAnyBytesAreRefusedOrSound) {
  const std::string bytes = to_bytes(sample());
  Extents extents;
  for (Extent& extent : extents) extent = {0, 5, {}};
  size_t sound = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int change = 1; change < 256; change += 7) {
      std::string altered = bytes;
      altered[at] = static_cast<char>(altered[at] ^ change);
      const Result<ProgramRecord> record = from_bytes(altered, extents, "a.tpk");
      if (record.ok())
        ++sound;  // a name, a size, a digest
      else
        ASSERT_EQ(record.status().error_code(), "T0521");
    }
    ASSERT_FALSE(from_bytes(bytes.substr(0, at), extents, "a.tpk").ok());
  }
  EXPECT_GT(sound, 0u);
}

void expect_refused(const ProgramRecord& record, std::string_view what) {
  Extents extents;
  for (Extent& extent : extents) extent = {0, 5, {}};
  const Status status = from_bytes(to_bytes(record), extents, "a.tpk").status();
  EXPECT_EQ(status.message(), fmt::format("`a.tpk` is damaged: its {} do not fit together", what));
}

TEST(Package, RefusesRecordsThatDoNotFit) {
  ProgramRecord p = sample();
  p.dims[0] = {TENON_DIM_ADD, kFirst, 1};  // of itself
  expect_refused(p, "dims");
  p = sample();
  p.of_inputs = {1};
  expect_refused(p, "symbols");
  p = sample();
  p.inputs[0].dims = {~int64_t{2}};
  expect_refused(p, "inputs and outputs");
  p = sample();
  p.facts[0].place = 2;
  expect_refused(p, "relations of sizes");
  p = sample();
  p.devices[0].plugin = 1;
  expect_refused(p, "devices");
  p = sample();
  p.blobs[0].offset = UINT64_MAX - 63;
  expect_refused(p, "constants");
  p = sample();
  p.segments[0].size = 6;
  expect_refused(p, "segments");
  p = sample();
  p.slots[1].last_step = 3;
  expect_refused(p, "slots");
}

// A run takes as many bytes as slots say.
TEST(Package, RefusesSlotsOfAnotherTypeThanTheirPorts) {
  ProgramRecord p = sample();
  p.slots[0].dtype = TENON_F64;
  expect_refused(p, "slots");
  p = sample();
  p.slots[0].dims = {~int64_t{1}};
  expect_refused(p, "slots");
  p = sample();
  p.slots[1].dtype = TENON_F64;  // of the output
  expect_refused(p, "slots");
  p = sample();
  p.slots[1].dims = {4096};
  expect_refused(p, "slots");
  for (const uint32_t none :
       {uint32_t{TENON_DTYPE_NONE}, uint32_t{elements::kDtypeEnd}, 1u << 16}) {
    p = sample();
    p.inputs[0].dtype = none;
    expect_refused(p, "inputs and outputs");
    p = sample();
    p.slots.push_back({1, 0, none, {}, 0});
    expect_refused(p, "slots");
  }
}

TEST(Package, RefusesConstantsBeyondTheirBytes) {
  const auto with = [](uint32_t dtype, std::vector<DimRef> dims) {
    ProgramRecord p = sample();
    p.slots.push_back({2, 0, dtype, std::move(dims), 0});  // the blob has 5 bytes
    return p;
  };
  Extents extents;
  for (Extent& extent : extents) extent = {0, 5, {}};
  for (const ProgramRecord& p :
       {with(TENON_U8, {5}), with(TENON_F32, {1}), with(TENON_F32, {0, INT64_MAX, INT64_MAX})})
    EXPECT_TRUE(from_bytes(to_bytes(p), extents, "a.tpk").ok());
  for (const ProgramRecord& p :
       {with(TENON_U8, {6}), with(TENON_F32, {2}), with(TENON_U8, {kFirst}),
        with(TENON_U8, {INT64_MAX, INT64_MAX}), with(TENON_F64, {INT64_MAX / 2})})
    expect_refused(p, "slots");
}

TEST(Package, RefusesStepsThatReadWhatIsNotThere) {
  ProgramRecord p = sample();
  std::swap(p.steps[0], p.steps[1]);  // runs before its input is there
  expect_refused(p, "steps");
  p = sample();
  p.slots[0].last_step = 0;  // its buffer is given away before it is read
  expect_refused(p, "steps");
  p = sample();
  p.steps.pop_back();  // the output is never brought to the host
  expect_refused(p, "steps");
  p = sample();
  p.slots[1].last_step = 2;  // the output does not last
  expect_refused(p, "steps");
  p = sample();
  p.segments[0].output_ranks = {2};
  expect_refused(p, "steps");
}

TEST(Package, ListsClaimNoMoreThanTheyHold) {
  Writer writer;
  writer.u64(UINT64_MAX);
  const std::string bytes = writer.take();
  Reader reader(bytes);
  EXPECT_TRUE(reader.numbers64().empty());
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace tenon::package
