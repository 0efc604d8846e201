// Intel's offline compiler for the tests: the "binary" is the text, after one line that says for
// which device. The driver in this folder runs that.
#include <cstdint>
#include <cstring>
#include <string>

namespace {
constexpr const char* kMagic = "tests' native code for ";
}

extern "C" __attribute__((visibility("default"))) int oclocInvoke(
    unsigned argument_count, const char* arguments[], uint32_t source_count,
    const uint8_t** sources, const uint64_t* source_bytes, const char**, uint32_t, const uint8_t**,
    const uint64_t*, const char**, uint32_t* output_count, uint8_t*** outputs,
    uint64_t** output_bytes, char*** output_names) {
  std::string device;
  for (unsigned i = 0; i + 1 < argument_count; ++i) {
    if (std::string(arguments[i]) == "-device") device = arguments[i + 1];
  }
  const std::string text(reinterpret_cast<const char*>(sources[0]), source_bytes[0] - 1);
  const bool good = source_count == 1 && !device.empty() && text.find("nonsense") == text.npos &&
                    (device == "pvc" || text.find("double f64") == text.npos);
  const std::string made =
      good ? kMagic + device + "\n" + text : "the text has nonsense, or `double f64`";
  const std::string name = good ? "text_" + device + ".bin" : "stdout.log";
  *output_count = 1;
  *outputs = new uint8_t*[1]{new uint8_t[made.size()]};
  std::memcpy((*outputs)[0], made.data(), made.size());
  *output_bytes = new uint64_t[1]{made.size()};
  *output_names = new char*[1]{new char[name.size() + 1]};
  std::memcpy((*output_names)[0], name.c_str(), name.size() + 1);
  return good ? 0 : 245;
}

extern "C" __attribute__((visibility("default"))) int oclocFreeOutput(uint32_t* count,
                                                                      uint8_t*** outputs,
                                                                      uint64_t** bytes,
                                                                      char*** names) {
  for (uint32_t i = 0; i < *count; ++i) {
    delete[] (*outputs)[i];
    delete[] (*names)[i];
  }
  delete[] *outputs;
  delete[] *bytes;
  delete[] *names;
  return 0;
}
