// libFuzzer target: the .npy reader on any bytes. Accepted data must lie inside the file.
#include <cstdlib>

#include "format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon::npy;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  Header header;
  if (!parse_header(file, &header).empty()) return 0;
  if (header.data_offset + header.data_bytes != size) std::abort();
  const auto rows = to_row_major(file.substr(header.data_offset), header);
  if (rows.size() != header.data_bytes) std::abort();
  return 0;
}
