#include "native/native_ops.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tenon/abi/host.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {

float number(Half h) {
  return f16_to(h.bits);
}
float number(Brain b) {
  return bf16_to(b.bits);
}

const NativeOp* find_native(std::string_view name) {
  for (const std::span<const NativeOp> table :
       {native_choosing(), native_unique(), native_regions()}) {
    for (const NativeOp& op : table) {
      if (op.name == name) return &op;
    }
  }
  return nullptr;
}

NativeSignature native_signature(const NativeOp& op, const Node& node) {
  NativeSignature out;
  const auto type_of = [](const Value& v) {
    const tenon_type_t type = v.view().type;
    return NativeType{type.kind == TENON_KIND_TENSOR ? type.dtype : tenon_dtype_t{TENON_DTYPE_NONE},
                      type.rank};
  };
  for (const Value& v : node.operands()) out.inputs.push_back(type_of(v));
  for (uint32_t i = 0; i < node.result_count(); ++i) out.outputs.push_back(type_of(node.result(i)));
  out.parameters = op.parameters(node);
  return out;
}

Status native_take(const NativeArray& x, size_t dim, std::span<const int64_t> chosen, char* out) {
  constexpr int64_t kChunkBytes = int64_t{1} << 16;
  int64_t outer = 1, bytes = dtype_bytes(x.dtype);
  for (size_t d = 0; d < dim; ++d) outer *= x.dims[d];
  for (size_t d = dim + 1; d < x.dims.size(); ++d) bytes *= x.dims[d];
  const int64_t length = x.dims[dim], total = static_cast<int64_t>(chosen.size());
  if (bytes == 0) return {};
  return native_parallel(
      outer * total, std::max<int64_t>(1, kChunkBytes / bytes),
      [&](int64_t begin, int64_t end) -> Status {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t from = i / total * length + chosen[static_cast<size_t>(i % total)];
          memcpy(out + i * bytes, x.data + from * bytes, static_cast<size_t>(bytes));
        }
        return {};
      });
}

Status native_parallel(int64_t n, int64_t grain,
                       const std::function<Status(int64_t, int64_t)>& body) {
  static const auto* threads = context().query<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
  const auto run = [](void* self, uint32_t, int64_t begin, int64_t end) -> tenon_code_t {
    return detail::guarded(context().host, [&]() -> Status {
      if (cancelled()) return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
      return (*static_cast<const std::function<Status(int64_t, int64_t)>*>(self))(begin, end);
    });
  };
  if (n <= 0) return {};
  void* self = const_cast<std::function<Status(int64_t, int64_t)>*>(&body);
  if (threads == nullptr || n <= grain) return run(self, 0, 0, n);
  return threads->parallel(threads->self, run, self, n, grain);
}

}  // namespace tenon::cpu
