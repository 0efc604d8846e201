// The .npy format: a header with element type, order and shape, then the elements. Nothing here
// depends on the host: bytes in, bytes or an error text out.
#ifndef FRONTENDS_NPY_FORMAT_H_
#define FRONTENDS_NPY_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/base.h>

namespace tenon::npy {

// A longer header is refused: a shape of the highest rank needs less than one kilobyte.
inline constexpr uint64_t kMaxHeaderBytes = 64 << 10;

struct Header {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> dims;
  uint64_t element_bytes = 0;
  uint64_t data_offset = 0;
  uint64_t data_bytes = 0;  // product of dims times element_bytes, checked against the file's size
};

// Reads the header of a whole file. Returns an empty text, or the error as "T01nn: sentence",
// without the file's name. `file` may hold anything.
std::string parse_header(std::string_view file, Header* out);

// Converts elements to row-major order and the machine's byte order, where the header differs.
std::vector<char> to_row_major(std::string_view data, const Header& header);

// The header, padded so that the data begins at a multiple of 64 bytes. Returns an empty text for
// element types that .npy has no name for (i4, u4, f8).
std::string make_header(tenon_dtype_t dtype, const int64_t* dims, uint32_t rank);

// Bytes of one element; 0 for types that .npy cannot hold.
uint64_t element_bytes(tenon_dtype_t dtype);

}  // namespace tenon::npy

#endif  // FRONTENDS_NPY_FORMAT_H_
