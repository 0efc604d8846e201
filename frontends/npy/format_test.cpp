#include "format.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tenon::npy {
namespace {

std::string file_of(const std::string& header_text, const std::string& data, int version = 1) {
  std::string header = header_text + "\n";
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + data;
}

std::string with_shape(const std::string& descr, const std::string& shape,
                       const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

TEST(NpyFormat, ReadsWhatItWrites) {
  const int64_t dims[] = {2, 3, 1};
  for (const tenon_dtype_t dtype : {TENON_PRED, TENON_I8, TENON_I64, TENON_U16, TENON_F16,
                                    TENON_BF16, TENON_F32, TENON_F64, TENON_C64}) {
    for (uint32_t rank = 0; rank <= 3; ++rank) {
      std::string file = make_header(static_cast<tenon_dtype_t>(dtype), dims, rank);
      EXPECT_EQ(file.size() % 64, 0u);
      uint64_t bytes = element_bytes(static_cast<tenon_dtype_t>(dtype));
      for (uint32_t i = 0; i < rank; ++i) bytes *= dims[i];
      file += std::string(bytes, '\1');
      Header header;
      ASSERT_EQ(parse_header(file, &header), "");
      EXPECT_EQ(header.dtype, dtype);
      EXPECT_EQ(header.dims, std::vector<int64_t>(dims, dims + rank));
      EXPECT_EQ(header.data_bytes, bytes);
    }
  }
  EXPECT_EQ(make_header(TENON_I4, dims, 1), "");
}

TEST(NpyFormat, ReadsAllVersionsAndOrders) {
  Header header;
  for (const int version : {1, 2, 3}) {
    ASSERT_EQ(
        parse_header(file_of(with_shape("<i2", "(2, 3)"), std::string(12, 'x'), version), &header),
        "");
  }
  const int16_t columns[] = {1, 4, 2, 5, 3, 6};
  const std::string data(reinterpret_cast<const char*>(columns), sizeof columns);
  const std::string file = file_of(with_shape("<i2", "(2, 3)", "True"), data);
  ASSERT_EQ(parse_header(file, &header), "");
  const std::vector<char> rows =
      to_row_major(std::string_view(file).substr(header.data_offset), header);
  int16_t values[6];
  std::memcpy(values, rows.data(), sizeof values);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values[i], i + 1);

  ASSERT_EQ(parse_header(file_of(with_shape(">i2", "(1,)"), std::string("\x01\x02", 2)), &header),
            "");
  EXPECT_EQ(to_row_major(std::string_view("\x01\x02", 2), header), (std::vector<char>{2, 1}));
}

TEST(NpyFormat, RefusesWithTheRightCode) {
  const struct {
    std::string file, code;
  } cases[] = {
      {"", "T0121"},
      {"text", "T0121"},
      {std::string("\x93NUMPY", 6), "T0122"},
      {file_of(with_shape("<f4", "(2,)"), "1234567"), "T0125"},
      {file_of(with_shape("<f4", "(2,)"), "123456789"), "T0125"},
      {file_of(with_shape("<f4", "(4294967296, 4294967296)"), "x"), "T0102"},
      {file_of(with_shape("<f4", "(99999999999999999999,)"), "x"), "T0102"},
      {file_of(with_shape("<f4", "(-1,)"), ""), "T0123"},
      {file_of(with_shape("<f4", "[1]"), "1234"), "T0123"},
      {file_of(with_shape("|O", "(1,)"), "x"), "T0124"},
      {file_of(with_shape("<U4", "(1,)"), "x"), "T0124"},
      {file_of("__import__('os')", ""), "T0123"},
      {file_of("{'descr': '<f4'}", ""), "T0123"},
      {file_of(with_shape("<f4", "(1,)") + "x", "1234"), "T0123"},
  };
  for (const auto& c : cases) {
    Header header;
    EXPECT_EQ(parse_header(c.file, &header).substr(0, 5), c.code) << c.file;
  }
}

TEST(NpyFormat, AnyCutIsAnswered) {
  const std::string file = file_of(with_shape("<f4", "(2, 3)"), std::string(24, 'x'));
  for (size_t i = 0; i < file.size(); ++i) {
    Header header;
    EXPECT_NE(parse_header(std::string_view(file).substr(0, i), &header), "");
  }
}

}  // namespace
}  // namespace tenon::npy
