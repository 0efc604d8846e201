#include "core/session/compile/model.h"

#include <tenon/cpp/record.hpp>

#include <algorithm>

#include "core/base/errors/guard.h"
#include "core/base/file.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/ir/host_graph.h"
#include "core/ir/serial/serial.h"
#include "core/runtime/values/arrays.h"
#include "core/session/compile/plugins.h"

namespace tenon::session {
namespace {

constexpr size_t kHeadBytes = 4096;

// Text of the host's own form begins with its name, after blanks and comments.
bool is_tir_text(std::string_view text) {
  while (true) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
    if (!text.starts_with("//")) break;
    text.remove_prefix(std::min(text.size(), text.find('\n')));
  }
  return text.starts_with("tenon.tir ");
}

// By its name, or by its content whatever the name: bytes in memory may have any.
bool is_tir(std::string_view path, std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  return path.ends_with(".tir") || path.ends_with(".tirb") || text.starts_with(ir::kBinaryMagic) ||
         is_tir_text(text);
}

Result<std::span<const std::byte>> bytes_of(ir::Blob& blob) {
  TENON_ASSIGN_OR_RETURN(const void* data, blob.data());
  return std::span(static_cast<const std::byte*>(data), blob.size_bytes());
}

Result<ir::Ref<ir::Blob>> map_user_file(std::string_view path) {
  TENON_ASSIGN_OR_RETURN(const File file, open_user_file(path));
  TENON_ASSIGN_OR_RETURN(auto region, map_file(file));
  return ir::blob_mapped(std::move(region));
}

// FILE.tir.bin next to FILE.tir; null if there is none. The reader then reports an error if it
// needs it.
Result<ir::Ref<ir::Blob>> sidecar_of(std::string_view name, std::string_view folder) {
  if (folder.empty()) return ir::Ref<ir::Blob>();
  Result<File> file = open_beneath(folder, std::string(file_name_of(name)) + ".bin");
  if (!file.ok()) {
    if (file.status().code() == TENON_NOT_FOUND) return ir::Ref<ir::Blob>();
    return std::move(file).status();
  }
  TENON_ASSIGN_OR_RETURN(auto region, map_file(*file));
  return ir::blob_mapped(std::move(region));
}

// The frontend that is most confident that `head` is its format.
Result<Frontend> choose(std::string_view path, std::span<const std::byte> head, bool tensors) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Frontend> all, frontends_for(path));
  const Frontend* best = nullptr;
  uint32_t best_answer = 0;
  std::string names, unable;
  for (const Frontend& frontend : all) {
    const bool able =
        tensors ? frontend.api->read_tensors != nullptr : frontend.api->load != nullptr;
    std::string& list = able ? names : unable;
    list += (list.empty() ? "" : ", ") + frontend.name;
    if (!able) continue;
    const uint32_t answer = frontend.api->accepts(frontend.api->self, to_abi_str(path), head.data(),
                                                  std::min(head.size(), kHeadBytes));
    if (answer > best_answer) {
      best = &frontend;
      best_answer = answer;
    }
  }
  if (best != nullptr) return *best;
  return error(TENON_INVALID_ARGUMENT, "T0791", "no frontend takes {} as {} ({}{})", quoted(path),
               tensors ? "tensors" : "a model", names.empty() ? "none could: " : "asked: ",
               names.empty() ? unable + (tensors ? " reads models" : " reads tensors") : names);
}

// What a frontend reports about inputs by value while it loads.
struct LoadReport {
  std::vector<ValueInput> inputs;
  std::string only;
  std::optional<SizeCase> size_case;

  tenon_value_sink_t sink() {
    auto s = sized<tenon_value_sink_t>();
    s.self = this;
    s.input = [](void* self, tenon_str_t input, tenon_str_t why) -> tenon_code_t {
      return guarded([&]() -> tenon_code_t {
        static_cast<LoadReport*>(self)->inputs.push_back(
            {0, std::string(from_abi_str(input)), std::string(from_abi_str(why))});
        return TENON_OK;
      });
    };
    s.only_by_value = [](void* self, tenon_str_t why) -> tenon_code_t {
      return guarded([&]() -> tenon_code_t {
        static_cast<LoadReport*>(self)->only = from_abi_str(why);
        return TENON_OK;
      });
    };
    s.size_case = [](void* self, tenon_dim_t dim, tenon_str_t why) -> tenon_code_t {
      return guarded([&]() -> tenon_code_t {
        static_cast<LoadReport*>(self)->size_case = SizeCase{dim, std::string(from_abi_str(why))};
        return TENON_OK;
      });
    };
    return s;
  }
};

tenon_source_t source_of(std::string_view name, std::string_view folder, ir::Blob& bytes,
                         std::span<const tenon_key_value_t> options) {
  auto source = sized<tenon_source_t>();
  source.name = to_abi_str(name);
  source.folder = to_abi_str(folder);
  source.bytes = bytes.abi();
  source.options = options.data();
  source.option_count = static_cast<uint32_t>(options.size());
  return source;
}

}  // namespace

// The file that a frontend loaded a model from, to load it again.
class SourceOfModel : public std::enable_shared_from_this<SourceOfModel> {
 public:
  SourceOfModel(Frontend frontend, ir::Ref<ir::Blob> bytes, std::string_view name,
                std::string_view folder, std::span<const tenon_key_value_t> options)
      : frontend_(std::move(frontend)), bytes_(std::move(bytes)), name_(name), folder_(folder) {
    for (const tenon_key_value_t& option : options) {
      options_.emplace_back(from_abi_str(option.key), from_abi_str(option.value));
    }
  }

  Result<std::shared_ptr<Model>> load(std::span<const tenon_file_tensor_t> values,
                                      std::span<const int64_t> cases) const {
    std::vector<tenon_key_value_t> options;
    for (const auto& [key, value] : options_)
      options.push_back({to_abi_str(key), to_abi_str(value)});
    tenon_source_t source = source_of(name_, folder_, *bytes_, options);
    LoadReport report;
    const tenon_value_sink_t sink = report.sink();
    source.values = values.data();
    source.value_count = static_cast<uint32_t>(values.size());
    source.value_sink = &sink;
    source.cases = cases.data();
    source.case_count = static_cast<uint32_t>(cases.size());
    tenon_graph_t* graph = nullptr;
    clear_failure();
    TENON_RETURN_IF_ERROR(from_abi(frontend_.api->load(frontend_.api->self, &source, &graph),
                                   fmt::format("frontend {}: load", quoted(frontend_.name))));
    if (graph == nullptr)
      return error(TENON_INTERNAL, "T0792", "frontend {} loaded nothing", quoted(frontend_.name));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<Model> model,
                           Model::create(ir::Ref<ir::Graph>::adopt(ir::Graph::from(graph))));
    TENON_RETURN_IF_ERROR(keep(std::move(report), model.get()));
    return model;
  }

 private:
  Status check_case(const SizeCase& asked, std::string_view only, const Model& model) const {
    const bool known = model.graph()->dims().valid(asked.dim);
    if (known && !only.empty()) return {};
    return error(TENON_INTERNAL, "T0792", "frontend {} asked for {}", quoted(frontend_.name),
                 known ? "a size, and says that its graph serves all sizes"
                       : "a size that is not a dim of the model that it loaded");
  }

  Status keep(LoadReport report, Model* model) const {
    for (ValueInput& input : report.inputs) {
      const std::vector<runtime::Port>& ports = model->shapes_.inputs();
      const auto port = std::find_if(ports.begin(), ports.end(),
                                     [&](const runtime::Port& p) { return p.name == input.name; });
      if (port == ports.end()) {
        return error(
            TENON_INTERNAL, "T0792",
            "frontend {} needs the values of {}, which is not an input of the model that it loaded",
            quoted(frontend_.name), quoted(input.name));
      }
      input.index = static_cast<uint32_t>(port - ports.begin());
    }
    if (report.size_case) TENON_RETURN_IF_ERROR(check_case(*report.size_case, report.only, *model));
    // If it is not loaded again, the file need not stay mapped.
    if (report.inputs.empty() && !report.size_case) return {};
    model->size_case_ = std::move(report.size_case);
    model->value_inputs_ = std::move(report.inputs);
    model->only_by_value_ = std::move(report.only);
    model->source_ = shared_from_this();
    return {};
  }

  Frontend frontend_;
  ir::Ref<ir::Blob> bytes_;
  std::string name_, folder_;
  std::vector<std::pair<std::string, std::string>> options_;
};

namespace {

// The host's own form has no options; an option given for it is an error.
Status refuse_options(std::string_view name, const Model& model,
                      std::span<const tenon_key_value_t> options) {
  for (const tenon_key_value_t& option : options) {
    const std::string_view key = from_abi_str(option.key);
    constexpr std::string_view kValue = "value.";
    if (!key.starts_with(kValue)) {
      return error(TENON_INVALID_ARGUMENT, "T0793",
                   "{} is in Tenon's own form, which has no option {}", quoted(name), quoted(key));
    }
    const std::string_view wanted = key.substr(kValue.size());
    std::vector<std::string> names;
    for (const runtime::Port& port : model.shapes().inputs()) names.push_back(port.name);
    if (std::find(names.begin(), names.end(), wanted) == names.end()) {
      return error(TENON_INVALID_ARGUMENT, "T0793",
                   "{} has no input {} to give a value{} (inputs: {})", quoted(name),
                   quoted(wanted), did_you_mean(wanted, std::span<const std::string>(names)),
                   names.empty() ? "none" : join_names(names));
    }
    return error(TENON_INVALID_ARGUMENT, "T0793",
                 "{} is in Tenon's own form, where no input becomes a constant by a value: give {} "
                 "as a file, or write a constant",
                 quoted(name), quoted(wanted));
  }
  return Status();
}

}  // namespace

Result<int64_t> Model::evaluate_case(std::span<const tenon_array_t* const> arrays) const {
  std::vector<std::span<const int64_t>> dims;
  for (const tenon_array_t* array : arrays) dims.emplace_back(array->dims, array->rank);
  std::vector<int64_t> symbols, answer;
  TENON_RETURN_IF_ERROR(shapes_.solve(dims, {}, {}, &symbols));
  const tenon_dim_t asked[] = {size_case_->dim};
  TENON_RETURN_IF_ERROR(shapes_.evaluate(asked, symbols, &answer));
  return answer[0];
}

Result<std::shared_ptr<Model>> Model::by_value(std::span<const std::string> names,
                                               std::span<const tenon_array_t* const> values,
                                               std::span<const int64_t> cases) const {
  std::vector<ir::Ref<ir::Blob>> blobs;
  std::vector<tenon_file_tensor_t> tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    const tenon_array_t& array = *values[i];
    TENON_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, runtime::dense_bytes(array));
    blobs.push_back(ir::blob_adopt(std::move(bytes)));
    tenon_file_tensor_t& tensor = tensors.emplace_back();
    tensor.size_bytes = sizeof(tensor);
    tensor.dtype = array.dtype;
    tensor.rank = array.rank;
    tensor.dims = array.dims;
    tensor.name = to_abi_str(names[i]);
    tensor.blob = blobs.back()->abi();
  }
  return source_->load(tensors, cases);
}

Result<std::shared_ptr<Model>> Model::create(ir::Ref<ir::Graph> graph) {
  if (!graph->frozen()) {
    TENON_RETURN_IF_ERROR(graph->verify());
    graph->freeze();
  }
  std::shared_ptr<Model> model(new Model());
  model->graph_ = std::move(graph);
  TENON_ASSIGN_OR_RETURN(
      model->shapes_, runtime::Shapes::create(*ir::host_graph_table(), model->graph_->abi(), {}));
  model->ports_ = std::make_unique<PortRecords>(PortRecords::of(*model->graph_, model->shapes_));
  return model;
}

Result<std::shared_ptr<Model>> Model::load(std::string_view path,
                                           std::span<const tenon_key_value_t> options) {
  TENON_ASSIGN_OR_RETURN(ir::Ref<ir::Blob> bytes, map_user_file(path));
  return load_bytes(std::move(bytes), path, folder_of(path), options);
}

Result<std::shared_ptr<Model>> Model::load_bytes(ir::Ref<ir::Blob> bytes, std::string_view name,
                                                 std::string_view folder,
                                                 std::span<const tenon_key_value_t> options) {
  TENON_ASSIGN_OR_RETURN(const std::span<const std::byte> head, bytes_of(*bytes));
  if (is_tir(name, head)) {
    TENON_RETURN_IF_ERROR(check_limit(Limit::kTextBytes, bytes->size_bytes(), quoted(name)));
    TENON_ASSIGN_OR_RETURN(ir::Ref<ir::Blob> sidecar, sidecar_of(name, folder));
    TENON_ASSIGN_OR_RETURN(ir::Ref<ir::Graph> graph,
                           ir::read_graph(std::move(bytes), name, std::move(sidecar)));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<Model> model, create(std::move(graph)));
    TENON_RETURN_IF_ERROR(refuse_options(name, *model, options));
    return model;
  }
  TENON_ASSIGN_OR_RETURN(const Frontend frontend, choose(name, head, false));
  return std::make_shared<const SourceOfModel>(frontend, std::move(bytes), name, folder, options)
      ->load({}, {});
}

Status read_tensors(std::string_view path, const tenon_file_tensor_sink_t& sink) {
  TENON_ASSIGN_OR_RETURN(const ir::Ref<ir::Blob> bytes, map_user_file(path));
  TENON_ASSIGN_OR_RETURN(const std::span<const std::byte> head, bytes_of(*bytes));
  TENON_ASSIGN_OR_RETURN(const Frontend frontend, choose(path, head, true));
  const tenon_source_t source = source_of(path, folder_of(path), *bytes, {});
  clear_failure();
  return from_abi(frontend.api->read_tensors(frontend.api->self, &source, &sink),
                  fmt::format("frontend {}: read_tensors", quoted(frontend.name)));
}

Status write_tensor(std::string_view path, const tenon_file_tensor_t& tensor) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Frontend> all, frontends_for(path));
  for (const Frontend& frontend : all) {
    if (frontend.api->write_tensor == nullptr) continue;
    std::string bytes;
    const tenon_sink_t sink = sink_into(bytes);
    clear_failure();
    TENON_RETURN_IF_ERROR(
        from_abi(frontend.api->write_tensor(frontend.api->self, &tensor, &sink),
                 fmt::format("frontend {}: write_tensor", quoted(frontend.name))));
    return write_file(path, bytes);
  }
  return error(TENON_INVALID_ARGUMENT, "T0791", "no frontend writes tensors as {}", quoted(path));
}

}  // namespace tenon::session
