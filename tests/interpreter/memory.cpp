#include "tests/interpreter/memory.h"

namespace tenon::interpreter {

Memory Memory::holding(DType type, int64_t elements, const void* bytes, Name name) {
  Memory m = unwritten(type, elements);
  const uint32_t size = kernelgen::size_of(type);
  const auto* from = static_cast<const unsigned char*>(bytes);
  for (Cell& c : m.cells) {
    c = {read_element(type, from), 0, name};
    from += size;
  }
  return m;
}

std::vector<unsigned char> Memory::bytes() const {
  const uint32_t size = kernelgen::size_of(type);
  std::vector<unsigned char> out(cells.size() * size);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].name != kNotStored) write_element(type, out.data() + i * size, cells[i].value);
  }
  return out;
}

}  // namespace tenon::interpreter
