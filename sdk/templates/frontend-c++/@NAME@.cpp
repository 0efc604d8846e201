// The frontend `@NAME@`, for an example format; replace parse and build. A file has a line
// `@NAME@ N`, then lines with names of unary ops, which are applied in order to an input of f32[N].
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/frontend.h>
#include <tenon/cpp/graph.hpp>
#include <tenon/cpp/plugin.hpp>

namespace {

using tenon::Builder;
using tenon::fail;
using tenon::Status;
using tenon::str;
using tenon::Value;
using tenon::view;

constexpr std::string_view kMagic = "@NAME@ ";
constexpr int64_t kElementsMax = int64_t{1} << 30;

std::string_view next_line(std::string_view* rest) {
  const size_t end = rest->find('\n');
  std::string_view line = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Reports an error and its line. T0701 is the code for files that are not valid models.
Status wrong(std::string_view name, size_t line, std::string_view why) {
  return fail(TENON_INVALID_ARGUMENT, tenon::cat("T0701: ", name, ":", line, ": ", why));
}

// 0: not this format. Any file with its extension is accepted: load refuses it with a reason.
uint32_t accepts(void*, tenon_str_t name, const void* head, uint64_t head_bytes) {
  if (std::string_view(static_cast<const char*>(head), head_bytes).starts_with(kMagic)) return 100;
  return view(name).ends_with(".@NAME@") ? 50 : 0;
}

Status parse(std::string_view text, std::string_view name, int64_t* out_size,
             std::vector<std::string_view>* out_ops) {
  std::string_view first = next_line(&text);
  if (!first.starts_with(kMagic)) return wrong(name, 1, "the file does not begin with `@NAME@ N`");
  first.remove_prefix(kMagic.size());
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), *out_size);
  if (error != std::errc() || end != first.data() + first.size() || *out_size < 0 ||
      *out_size > kElementsMax)
    return wrong(name, 1, tenon::cat("N is a number from 0 to ", kElementsMax));
  while (!text.empty()) out_ops->push_back(next_line(&text));
  return {};
}

Status build(std::string_view name, int64_t size, const std::vector<std::string_view>& ops,
             tenon::Graph* out) {
  TENON_TRY(tenon::Graph::create("@NAME@", out));
  const tenon::Region main = tenon::main_region(out->get());
  Value x;
  TENON_TRY(tenon::argument(main, {TENON_F32, {size}}, "x", &x));
  Builder builder(out->get(), main.id());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].empty()) continue;
    builder.set_loc(name, static_cast<uint32_t>(i + 2));  // errors about the node name this line
    x = builder.build(ops[i], {x});
  }
  TENON_TRY(builder.status());  // the first failure: it names the op that no plugin has
  const std::string names[] = {"y"};
  return tenon::yield(main, std::span<const Value>(&x, 1), names);
}

Status load(void*, const tenon_source_t* source, tenon_graph_t** out) {
  const void* data = nullptr;
  uint64_t bytes = 0;
  int64_t size = 0;
  std::vector<std::string_view> ops;
  tenon::Graph graph;
  if (source->option_count != 0) return wrong(view(source->name), 1, "the format has no options");
  TENON_TRY(tenon::graph_api().blob_data(tenon::graph_api().self, source->bytes, &data, &bytes));
  TENON_TRY(parse({static_cast<const char*>(data), bytes}, view(source->name), &size, &ops));
  TENON_TRY(build(view(source->name), size, ops, &graph));
  *out = graph.release();
  return {};
}

constexpr tenon_frontend_api_t kFrontend = {.size_bytes = sizeof(tenon_frontend_api_t),
                                            .self = nullptr,
                                            .name = str("@NAME@"),
                                            .extensions = str(".@NAME@"),
                                            .accepts = accepts,
                                            .load = tenon::entry<load>,
                                            .read_tensors = nullptr,
                                            .write_tensor = nullptr};
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_FRONTEND_ID, kFrontend)};

}  // namespace

TENON_PLUGIN("@NAME@", "0.1.0", kInterfaces)
