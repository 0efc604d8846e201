// Records of the ABI, which begin with their size (abi/base.h), and sinks that collect.
#ifndef TENON_CPP_RECORD_HPP_
#define TENON_CPP_RECORD_HPP_

#include <exception>

#include "tenon/abi/base.h"

namespace tenon {

// A record of zeros that says how large it is.
template <class Record>
constexpr Record sized() {
  Record record = {};
  record.size_bytes = sizeof record;
  return record;
}

// Appends to a string, or to a vector of bytes. No exception may pass through the frames of the
// caller: without memory it fails.
template <class Bytes>
tenon_sink_t sink_to(Bytes* out) {
  return {out, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
            try {
              auto& bytes = *static_cast<Bytes*>(self);
              const auto* from = static_cast<const typename Bytes::value_type*>(data);
              bytes.insert(bytes.end(), from, from + size);
            } catch (const std::exception&) {
              return TENON_RESOURCE_EXHAUSTED;
            }
            return TENON_OK;
          }};
}

}  // namespace tenon

#endif
