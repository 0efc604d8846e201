// Numbers, texts and lists as bytes and back. Reading checks every length against what is left, so
// that no bytes make it read outside or allocate more than they hold.
//
// Threads: one at a time per object.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::package {

static_assert(std::endian::native == std::endian::little,
              "packages are written as memory has the numbers");

class Writer {
 public:
  void u8(uint8_t value) { raw(&value, sizeof value); }
  void u32(uint32_t value) { raw(&value, sizeof value); }
  void u64(uint64_t value) { raw(&value, sizeof value); }
  void i64(int64_t value) { raw(&value, sizeof value); }
  void text(std::string_view value) {
    u64(value.size());
    out_.append(value);
  }
  template <class T, class Write>
  void list(const std::vector<T>& values, Write write) {
    u64(values.size());
    for (const T& value : values) write(*this, value);
  }
  void numbers(const std::vector<uint32_t>& values) {
    list(values, [](Writer& w, uint32_t v) { w.u32(v); });
  }
  void numbers(const std::vector<int64_t>& values) {
    list(values, [](Writer& w, int64_t v) { w.i64(v); });
  }
  std::string take() { return std::move(out_); }

 private:
  void raw(const void* data, size_t size) { out_.append(static_cast<const char*>(data), size); }
  std::string out_;
};

// After a failed read ok() is false and everything reads as 0 or empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  uint8_t u8() { return number<uint8_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return number<int64_t>(); }
  std::string text() {
    const uint64_t size = u64();
    if (size > rest_.size()) {
      fail();
      return {};
    }
    std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }
  // Each element takes at least one byte, so a count beyond the rest is damage.
  template <class T, class Read>
  std::vector<T> list(Read read) {
    std::vector<T> out;
    const uint64_t count = u64();
    if (count > rest_.size()) fail();
    for (uint64_t i = 0; i < count && ok_; ++i) out.push_back(read(*this));
    return out;
  }
  std::vector<uint32_t> numbers32() {
    return list<uint32_t>([](Reader& r) { return r.u32(); });
  }
  std::vector<int64_t> numbers64() {
    return list<int64_t>([](Reader& r) { return r.i64(); });
  }

 private:
  template <class T>
  T number() {
    T value{};
    if (sizeof value > rest_.size()) {
      fail();
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tenon::package
