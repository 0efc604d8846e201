// What TENON_LAYERS accepts, and where calls go if layer, host and plugin know different numbers of
// slots.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include <tenon/abi/device.h>
#include <tenon/abi/pass.h>

#include "core/base/errors/failure.h"
#include "core/host/host_interfaces.h"
#include "core/host/loading/layers.h"

namespace tenon::host {
namespace {

TEST(ParseLayers, PartsAndOptions) {
  auto layers = parse_layers(" validation ,faults:alloc=3, device=sim:1,,trace:file=/tmp/a:b=c");
  ASSERT_TRUE(layers.ok()) << layers.status().text();
  ASSERT_EQ(layers->size(), 3u);
  EXPECT_EQ((*layers)[0].text(), "validation");
  EXPECT_EQ((*layers)[1].text(), "faults:alloc=3,device=sim:1");
  EXPECT_EQ((*layers)[2].text(), "trace:file=/tmp/a:b=c");
  EXPECT_TRUE(parse_layers("")->empty());
}

TEST(ParseLayers, Malformed) {
  std::string many = "a";
  for (int i = 0; i < 16; ++i) many += ",a";
  std::string options = "a:x=1";
  for (int i = 0; i < 64; ++i) options += ",x=1";
  for (const std::string& text :
       {std::string("a=1"), std::string(":a=1"), std::string("a:b"), std::string("a:=1"),
        std::string("a,=1"), std::string(" : "), many, options}) {
    const auto layers = parse_layers(text);
    ASSERT_FALSE(layers.ok()) << text;
    EXPECT_EQ(layers.status().error_code(), "P1001") << text;
  }
}

// ---- Routing ----

// A device whose slots all log that they were called with their own self, and what preceded.
struct Log {
  std::string text;
};
tenon_code_t below_count(void* self, uint32_t* out) {
  static_cast<Log*>(self)->text += "count ";
  *out = 7;
  return TENON_OK;
}
tenon_code_t below_close(void* self, tenon_device_t*) {
  static_cast<Log*>(self)->text += "close ";
  return TENON_NOT_FOUND;
}
tenon_code_t below_memory(void* self, tenon_device_t*, uint64_t* used, uint64_t* peak) {
  static_cast<Log*>(self)->text += "memory ";
  *used = 1;
  *peak = 2;
  return TENON_OK;
}
struct Vendor {
  uint32_t size_bytes;
  void* self;
};

// A layer that adds its name to the log, and a table of some length.
struct TestLayer {
  const char* name;
  uint32_t table_bytes = sizeof(tenon_device_api_t);
  Log* log = nullptr;
  const tenon_device_api_t* next = nullptr;
  tenon_device_api_t table = {};
  Vendor vendor = {sizeof(Vendor), nullptr};
  bool refuses = false;
  std::string options = "";
  std::string ids = "";

  static TestLayer& of(void* self) { return *static_cast<TestLayer*>(self); }
  static tenon_code_t count(void* self, uint32_t* out) {
    of(self).log->text += std::string(of(self).name) + " ";
    return of(self).next->count(of(self).next->self, out);
  }
  static tenon_code_t map(void*, tenon_device_t*, tenon_buffer_t*, void**) { return TENON_OK; }
  static tenon_code_t memory(void* self, tenon_device_t*, uint64_t*, uint64_t*) {
    of(self).log->text += "beyond ";
    return TENON_OK;
  }
  static tenon_code_t attach(void* self, const tenon_layer_subject_t* subject, const void** out) {
    TestLayer& l = of(self);
    if (l.refuses)
      return host_table()->fail(nullptr, TENON_INVALID_ARGUMENT, to_abi_str("not today"), nullptr,
                                0);
    for (uint32_t i = 0; i < subject->option_count; ++i) {
      l.options += std::string(from_abi_str(subject->options[i].key)) + "=" +
                   std::string(from_abi_str(subject->options[i].value)) + ";";
    }
    for (uint32_t i = 0; i < subject->interface_count; ++i) {
      const std::string_view id = from_abi_str(tenon_layer_interface(subject, i)->id);
      l.ids += std::string(id) + " ";
      if (id == "vendor.x/1") out[i] = &l.vendor;
      if (id != TENON_DEVICE_ID) continue;
      l.next = static_cast<const tenon_device_api_t*>(tenon_layer_interface(subject, i)->table);
      l.table.size_bytes = l.table_bytes;
      l.table.self = self;
      l.table.count = count;
      l.table.map = map;        // which the device below lacks
      l.table.memory = memory;  // which lies beyond the end of a short table
      out[i] = &l.table;
    }
    return TENON_OK;
  }
  tenon_layer_api_t api() { return {sizeof(tenon_layer_api_t), 0, this, to_abi_str(name), attach}; }
};

class LayersTest : public testing::Test {
 protected:
  LayersTest() {
    device_.size_bytes = sizeof(device_);
    device_.self = &log_;
    device_.count = below_count;
    device_.close = below_close;
    device_.memory = below_memory;
    plugin_.name = "below";
    plugin_.interfaces = {
        {TENON_DEVICE_ID, 0, &device_}, {"vendor.x/1", 3, &vendor_}, {TENON_PASS_ID, 0, &passes_}};
  }
  Status apply(TestLayer& layer, const LayerChoice& choice = {"l", {}}) {
    layer.log = &log_;
    const tenon_layer_api_t api = layer.api();
    return apply_layer(api, choice, 0, &plugin_);
  }
  const tenon_device_api_t& table() const {
    return *static_cast<const tenon_device_api_t*>(plugin_.interfaces[0].table);
  }
  Log log_;
  tenon_device_api_t device_ = {};
  Vendor vendor_ = {sizeof(Vendor), nullptr};
  tenon_passes_t passes_ = {};
  AdoptedPlugin plugin_;
};

TEST_F(LayersTest, SlotsGoThroughOrPast) {
  TestLayer layer{"layer"};
  layer.table_bytes = offsetof(tenon_device_api_t, memory);  // older than the host
  ASSERT_TRUE(apply(layer, {"l", {{"a", "1"}, {"b", ""}}}).ok());
  EXPECT_EQ(layer.options, "a=1;b=;");
  EXPECT_EQ(layer.ids, TENON_DEVICE_ID " vendor.x/1 ");  // records are not calls
  uint32_t count = 0;
  EXPECT_EQ(table().count(table().self, &count), TENON_OK);
  EXPECT_EQ(count, 7u);
  EXPECT_EQ(table().close(table().self, nullptr), TENON_NOT_FOUND);
  uint64_t used = 0, peak = 0;
  EXPECT_EQ(table().memory(table().self, nullptr, &used, &peak),
            TENON_OK);  // around the layer, with the device's self
  EXPECT_EQ(peak, 2u);
  EXPECT_EQ(log_.text, "layer count close memory ");
  EXPECT_EQ(table().map, nullptr);   // a layer adds nothing
  EXPECT_EQ(table().open, nullptr);  // nor does the host
  EXPECT_EQ(table().size_bytes, sizeof(tenon_device_api_t));
  EXPECT_EQ(plugin_.interfaces[1].table, &layer.vendor);
  EXPECT_EQ(plugin_.interfaces[2].table, &passes_);
}

TEST_F(LayersTest, LayersStandBehindEachOther) {
  TestLayer inner{"inner"}, outer{"outer"}, same{"same"};
  ASSERT_TRUE(apply(inner).ok());
  ASSERT_TRUE(apply(outer).ok());
  ASSERT_TRUE(apply(same).ok());
  uint32_t count = 0;
  EXPECT_EQ(table().count(table().self, &count), TENON_OK);
  EXPECT_EQ(log_.text, "same outer inner count ");
  log_.text.clear();
  EXPECT_EQ(table().close(table().self, nullptr), TENON_NOT_FOUND);
  EXPECT_EQ(log_.text, "close ");
}

// A layer of a newer minor reads slots that neither the host nor the plugin knows.
TEST_F(LayersTest, TablesLieInZeroedRoom) {
  TestLayer inner{"inner"}, outer{"outer"};
  ASSERT_TRUE(apply(inner).ok());
  ASSERT_TRUE(apply(outer).ok());
  for (const tenon_device_api_t* next : {inner.next, outer.next}) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(next);
    for (size_t i = sizeof(tenon_device_api_t); i < TENON_LAYER_TABLE_BYTES; ++i)
      ASSERT_EQ(bytes[i], 0u) << i;
  }
}

TEST_F(LayersTest, RefusalsAndNonsense) {
  TestLayer refusing{"refusing"};
  refusing.refuses = true;
  Status status = apply(refusing);
  EXPECT_EQ(status.error_code(), "P1002");
  EXPECT_NE(status.text().find("not today"), std::string::npos) << status.text();
  for (uint32_t size : {0u, 4u, 15u, TENON_LAYER_TABLE_BYTES + 1, UINT32_MAX}) {
    TestLayer odd{"odd"};
    odd.table_bytes = size;
    EXPECT_EQ(apply(odd).error_code(), "P1003") << size;
    TestLayer vendor{"vendor"};
    vendor.vendor.size_bytes = size;
    EXPECT_EQ(apply(vendor).error_code(), "P1003") << size;
  }
  EXPECT_EQ(&table(), &device_);  // nothing was partly applied
}

TEST_F(LayersTest, WhatHasCalls) {
  EXPECT_TRUE(has_layered_interfaces(plugin_));
  plugin_.interfaces = {{TENON_PASS_ID, 0, &passes_}};
  EXPECT_FALSE(has_layered_interfaces(plugin_));
}

}  // namespace
}  // namespace tenon::host
