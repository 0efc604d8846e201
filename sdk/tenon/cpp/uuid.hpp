// The text of a device's own name, as tenon_device_info_t::uuid has it.
#ifndef TENON_CPP_UUID_HPP_
#define TENON_CPP_UUID_HPP_

#include <string>

namespace tenon::inline sdk {

// Of the 16 bytes that a vendor gives. Empty if all are 0: then it gives none.
inline std::string uuid_text(const unsigned char (&bytes)[16]) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  bool any = false;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
    any = any || bytes[i] != 0;
  }
  return any ? text : std::string();
}

}  // namespace tenon::inline sdk
#endif
