// Runs one compiled model over many shapes, for the Python tests of this folder.
//
//     model_shapes MODEL DEVICE FOLDER...
//         compiles once, then for each folder reads NAME.npy for each input and writes out.NAME.npy
//         for each output, / in names as _
//     model_shapes MODEL DEVICE --soak RUNS SEED INPUT:AXIS=LOW..HIGH...
//         compiles once, then runs on random f32 inputs of random sizes (axes that are not named
//         have size 1)
//
// Prints one JSON object: runs, how many kernels were compiled and found in the cache, and resident
// memory in kB: after a first quarter of the runs, which fills what is bounded, and at the end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tenon/abi/frontend.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/session.hpp"
#include "tenon/cpp/value.hpp"

namespace {

using tenon::Status;

struct Array {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  std::vector<unsigned char> bytes;
};

tenon_code_t keep(void* self, const tenon_file_tensor_t* tensor) {
  Array& array = *static_cast<Array*>(self);
  const void* data = nullptr;
  uint64_t size = 0;
  const tenon_host_graph_t& graph = *tenon::context().graph;
  const tenon_code_t code = graph.blob_data(graph.self, tensor->blob, &data, &size);
  if (code != TENON_OK) return code;
  array.dims.assign(tensor->dims, tensor->dims + tensor->rank);
  array.dtype = tensor->dtype;
  array.bytes.assign(static_cast<const unsigned char*>(data),
                     static_cast<const unsigned char*>(data) + size);
  return TENON_OK;
}

long resident_kb() {
  std::ifstream file("/proc/self/statm");
  long all = 0, resident = 0;
  file >> all >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

class Runner {
 public:
  Status open(const std::string& path, const std::string& device) {
    TENON_TRY(session_.open());
    TENON_TRY(session_.load(path, &model_));
    TENON_TRY(model_.info(&info_));
    TENON_TRY(model_.compile({.device = device, .no_fallback = true}, &program_));
    return program_.bind(&binding_);
  }

  Status run_folder(const std::string& folder) {
    std::vector<Array> arrays(info_.input_count);
    for (uint32_t i = 0; i < info_.input_count; ++i) {
      const std::string name(tenon::view(info_.inputs[i].name));
      const tenon_file_tensor_sink_t sink{sizeof sink, 0, &arrays[i], keep};
      TENON_TRY(session_.api().tensors_read(session_.api().self,
                                            tenon::str(folder + "/" + name + ".npy"), &sink));
      TENON_TRY(binding_.input(name, {arrays[i].dtype, arrays[i].dims, arrays[i].bytes.data()}));
    }
    TENON_TRY(binding_.run());
    for (uint32_t i = 0; i < info_.output_count; ++i)
      TENON_TRY(write(folder, tenon::view(info_.outputs[i].name)));
    ++runs_;
    return {};
  }

  struct Range {
    int64_t low = 1, high = 1;
  };
  using Ranges = std::map<std::pair<std::string, uint32_t>, Range>;

  Status soak(int count, uint32_t seed, const Ranges& ranges) {
    std::mt19937 random(seed);
    std::vector<float> data;
    for (int i = 0; i < count; ++i) {
      for (uint32_t k = 0; k < info_.input_count; ++k) {
        const tenon_port_t& port = info_.inputs[k];
        const std::string name(tenon::view(port.name));
        std::vector<int64_t> dims(port.dims, port.dims + port.rank);
        int64_t elements = 1;
        for (uint32_t d = 0; d < port.rank; ++d) {
          const auto at = ranges.find({name, d});
          if (at != ranges.end())
            dims[d] =
                std::uniform_int_distribution<int64_t>(at->second.low, at->second.high)(random);
          if (dims[d] < 0) dims[d] = 1;
          elements *= dims[d];
        }
        while (static_cast<int64_t>(data.size()) < elements)
          data.push_back(static_cast<float>(random() % 1000) / 1000.0f);
        TENON_TRY(binding_.input(name, tenon::ArrayView::of(data, dims)));
      }
      TENON_TRY(binding_.run());
      ++runs_;
      if (i + 1 == count / 4) warm_kb_ = resident_kb();
    }
    return {};
  }

  void report() {
    tenon_program_info_t program;
    if (!program_.info(&program).ok()) return;
    // The summary of variants, for a program whose shapes depend on values; it comes last.
    std::string placement, by_value = "null";
    if (program_.placement(&placement).ok()) {
      constexpr std::string_view kKey = "\"by_value\":";
      const size_t at = placement.find(kKey), end = placement.rfind('}');
      if (at != std::string::npos && end > at)
        by_value = placement.substr(at + kKey.size(), end - at - kKey.size());
    }
    std::printf(
        "{\"runs\": %d, \"kernels_compiled\": %llu, \"kernels_from_cache\": %llu, \"compile_ms\": "
        "%.1f, \"warm_kb\": %ld, "
        "\"end_kb\": %ld, \"by_value\": %s}\n",
        runs_, static_cast<unsigned long long>(program.kernels_compiled),
        static_cast<unsigned long long>(program.kernels_from_cache), program.compile_ms, warm_kb_,
        resident_kb(), by_value.c_str());
  }

 private:
  Status write(const std::string& folder, std::string_view name) {
    tenon::ArrayView view;
    TENON_TRY(binding_.output(name, &view));
    const uint64_t bytes =
        (static_cast<uint64_t>(view.element_count()) * tenon::dtype_bits(view.dtype) + 7) / 8;
    const tenon::Blob blob = tenon::Blob::bytes(view.data, bytes);
    tenon_file_tensor_t tensor{};
    tensor.size_bytes = sizeof tensor;
    tensor.dtype = view.dtype;
    tensor.rank = static_cast<uint32_t>(view.dims.size());
    tensor.dims = view.dims.data();
    tensor.blob = blob.get();
    std::string file(name);
    for (char& c : file) c = c == '/' ? '_' : c;
    return session_.api().tensor_write(session_.api().self,
                                       tenon::str(folder + "/out." + file + ".npy"), &tensor);
  }

  tenon::Session session_;
  tenon::Model model_;
  tenon::Program program_;
  tenon::Binding binding_;
  tenon_model_info_t info_ = {};
  int runs_ = 0;
  long warm_kb_ = 0;
};

int usage() {
  std::fprintf(stderr,
               "usage: model_shapes MODEL DEVICE FOLDER... | model_shapes MODEL DEVICE --soak RUNS "
               "SEED INPUT:AXIS=LOW..HIGH...\n");
  return 2;
}

bool read_ranges(int argc, char** argv, Runner::Ranges* out) {
  for (int i = 6; i < argc; ++i) {
    char name[256];
    unsigned axis = 0;
    long low = 0, high = 0;
    if (std::sscanf(argv[i], "%255[^:]:%u=%ld..%ld", name, &axis, &low, &high) != 4 || low > high)
      return false;
    (*out)[{name, axis}] = {low, high};
  }
  return true;
}

int finish(Runner& runner, const Status& status) {
  const std::string failure =
      status.ok() ? "" : tenon::failure_text();  // before other calls of the session overwrite it
  runner.report();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", failure.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return usage();
  Runner runner;
  const Status opened = runner.open(argv[1], argv[2]);
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", tenon::failure_text().c_str());
    return 1;
  }
  if (std::strcmp(argv[3], "--soak") != 0) {
    Status status;
    for (int i = 3; i < argc && status.ok(); ++i) status = runner.run_folder(argv[i]);
    return finish(runner, status);
  }
  Runner::Ranges ranges;
  if (argc < 6 || !read_ranges(argc, argv, &ranges)) return usage();
  return finish(runner,
                runner.soak(std::atoi(argv[4]), static_cast<uint32_t>(std::atoi(argv[5])), ranges));
}
