// The layer `replay`: compares what a device computes with what `record` saved for the same graph
// and inputs.
#include <atomic>
#include <cmath>
#include <cstring>

#include "../record/segments.h"

namespace tenon::record {
namespace {

constexpr uint64_t kRunsMax = 1000;  // the most recorded runs of one graph to search

struct Totals {
  std::atomic<uint64_t> equal = 0, different = 0, unknown = 0;
  std::atomic<bool> asked =
      false;  // a folder was named: a plugin that is only loaded reports nothing
};
Totals& totals() {
  static auto* instance = new Totals;
  return *instance;
}

// The largest difference of two f32 or f64 arrays; NaN where there is none to compute.
double difference(const Array& a, const Array& b) {
  double most = 0;
  auto walk = [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i + sizeof(T) <= a.bytes.size(); i += sizeof(T)) {
      T x, y;
      std::memcpy(&x, &a.bytes[i], sizeof x);
      std::memcpy(&y, &b.bytes[i], sizeof y);
      const bool same = std::memcmp(&x, &y, sizeof x) == 0 || (std::isnan(x) && std::isnan(y));
      const double apart = same ? 0 : std::abs(static_cast<double>(x) - static_cast<double>(y));
      if (!(apart <= most)) most = apart;
      if (std::isnan(most)) return;
    }
  };
  if (a.dtype == TENON_F32) return walk(0.0f), most;
  if (a.dtype == TENON_F64) return walk(0.0), most;
  return std::nan("");
}

class Replay : public Segments {
 public:
  // The result of a replay. Any difference is a failure, and so is a replay that compared nothing:
  // `tenon` then exits with status 1.
  static Status shutdown() {
    const Totals& t = totals();
    if (!t.asked) return {};
    log("replay", t.different != 0 || t.equal == 0 ? TENON_LOG_ERROR : TENON_LOG_WARN,
        t.equal.load(), " runs as recorded, ", t.different.load(), " different, ", t.unknown.load(),
        " not recorded");
    if (t.different != 0)
      return fail(TENON_DATA_LOSS,
                  cat("replay: ", t.different.load(), " runs differ from what was recorded"));
    if (t.equal == 0) return fail(TENON_NOT_FOUND, "replay: no run was compared");
    return {};
  }

 private:
  Status read_options(LayerSubject& subject) override {
    folder_ = subject.option("dir");
    TENON_TRY(subject.each_option("tolerance", [&](std::string_view text) -> Status {
      const auto [end, problem] =
          std::from_chars(text.data(), text.data() + text.size(), tolerance_);
      return problem == std::errc() && end == text.data() + text.size() && tolerance_ >= 0
                 ? Status()
                 : subject.refuse(cat("the option tolerance is a number, and not ", quoted(text)));
    }));
    TENON_TRY(subject.options_done());
    if (folder_.empty())
      return subject.refuse("the option dir names the folder that `record` wrote");
    totals().asked = true;
    return {};
  }
  Status compiled(Segment&) override { return {}; }
  bool wants(const Segment&, uint64_t) override { return true; }

  // The recorded tensor of this name; nothing if the folder has none, or something other than one
  // tensor. The host's readers limit its size.
  std::optional<Array> recorded(const Segment& segment, std::string_view name) const {
    std::optional<Array> array;
    const tenon_file_tensor_sink_t sink = {
        sizeof sink, 0, &array, [](void* self, const tenon_file_tensor_t* tensor) -> tenon_code_t {
          const tenon_host_graph_t* host = context().graph;
          auto& out = *static_cast<std::optional<Array>*>(self);
          const void* data = nullptr;
          uint64_t size = 0;
          if (const tenon_code_t code = host->blob_data(host->self, tensor->blob, &data, &size);
              code != TENON_OK)
            return code;
          out = Array{tensor->dtype,
                      {tensor->dims, tensor->dims + tensor->rank},
                      {static_cast<const unsigned char*>(data),
                       static_cast<const unsigned char*>(data) + size}};
          return TENON_OK;
        }};
    if (session()->tensors_read(session()->self, str(file(segment, name)), &sink) != TENON_OK)
      return std::nullopt;
    return array;
  }

  static bool equal(const Array& a, const Array& b) {
    return a.dtype == b.dtype && a.dims == b.dims && a.bytes == b.bytes;
  }

  void executed(const Segment& segment, uint64_t, const std::vector<std::optional<Array>>& inputs,
                const std::vector<std::optional<Array>>& outputs, tenon_code_t code) override {
    for (uint64_t run = 0; run < kRunsMax; ++run) {
      bool same = true, any = false;
      for (size_t i = 0; i < inputs.size() && same; ++i) {
        const std::optional<Array> was =
            recorded(segment, cat(".run", run, ".in", static_cast<uint64_t>(i), ".npy"));
        any = any || was.has_value();
        same = was.has_value() == inputs[i].has_value() && (!was || equal(*was, *inputs[i]));
      }
      if (!any && !inputs.empty()) break;  // there are no more runs
      if (same) return compare(segment, run, outputs, code);
      if (inputs.empty()) break;
    }
    ++totals().unknown;
    log("replay", TENON_LOG_WARN, plugin(), ": a run of graph ", segment.hash,
        " was not recorded with these inputs");
  }

  void compare(const Segment& segment, uint64_t run,
               const std::vector<std::optional<Array>>& outputs, tenon_code_t code) {
    std::string wrong = code == TENON_OK ? "" : cat("it fails with code ", code);
    uint64_t compared = 0;
    for (size_t i = 0; i < outputs.size() && wrong.empty(); ++i) {
      const std::optional<Array> was =
          recorded(segment, cat(".run", run, ".out", static_cast<uint64_t>(i), ".npy"));
      if (!was || !outputs[i]) continue;
      ++compared;
      if (equal(*was, *outputs[i])) continue;
      if (was->dtype != outputs[i]->dtype || was->dims != outputs[i]->dims ||
          was->bytes.size() != outputs[i]->bytes.size()) {
        wrong = cat("output ", static_cast<uint64_t>(i), " has another type or shape");
        continue;
      }
      const double apart = difference(*was, *outputs[i]);
      if (apart <= tolerance_) continue;
      size_t at = 0;
      while (was->bytes[at] == outputs[i]->bytes[at]) ++at;
      wrong = cat("output ", static_cast<uint64_t>(i), " differs from byte ",
                  static_cast<uint64_t>(at), " on, by at most ", apart);
    }
    if (wrong.empty() && compared == 0 && !outputs.empty()) {
      ++totals().unknown;
      return log("replay", TENON_LOG_WARN, plugin(), ": run ", run, " of graph ", segment.hash,
                 " has no outputs that can be read");
    }
    ++(wrong.empty() ? totals().equal : totals().different);
    if (!wrong.empty())
      log("replay", TENON_LOG_ERROR, plugin(), ": run ", run, " of graph ", segment.hash, ": ",
          wrong);
  }

  double tolerance_ = 0;
};

}  // namespace
}  // namespace tenon::record

TENON_LAYER("replay", "0.1.0", tenon::record::Replay)
