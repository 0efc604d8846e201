// What the tests read of a code object: AMDGPU's ELF with kernel descriptors.
#ifndef TENON_TESTS_FAKES_HIP_CODE_OBJECT_H_
#define TENON_TESTS_FAKES_HIP_CODE_OBJECT_H_

#include <set>
#include <string>

struct CodeObject {
  std::string architecture;       // "gfx942"
  std::set<std::string> kernels;  // that have a descriptor, NAME.kd
  std::string ptx;                // after the image, if the tests' toolchain made it
  // False, with a reason, for what no HIP runtime loads.
  bool parse(const unsigned char* image, std::string* why);
};

#endif
