// The C table of packages: checks arguments and records failures.
#include "core/base/str.h"
#include "core/session/api/handles.h"
#include "core/session/api/options.h"
#include "core/session/package/package.h"

namespace tenon::session {
namespace {

Status refuse_by_value(const Model& model) {
  if (model.size_case()) {
    return error(
        TENON_UNIMPLEMENTED, "T0520",
        "a program for each case of the sizes cannot be put in a file, since it is compiled "
        "as the sizes are known; fix the sizes that decide it: {}",
        model.size_case()->why);
  }
  if (model.value_inputs().empty()) return {};
  const ValueInput& input = model.value_inputs().front();
  return error(TENON_UNIMPLEMENTED, "T0520",
               "a program whose sizes, axes or counts depend on the values of inputs cannot be put "
               "in a file, since it is compiled as they are known; input {} decides them: {}",
               quoted(input.name), input.why);
}

tenon_code_t save(void*, tenon_model_t* model, const tenon_package_options_t* options,
                  tenon_str_t path) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(model);
    tenon_package_options_t given{};
    if (options != nullptr) {
      TENON_ASSIGN_OR_RETURN(given, prefix_of(options));
    }
    TENON_ASSIGN_OR_RETURN(CompileOptions o, read_options(given.session));
    TENON_RETURN_IF_ERROR(refuse_by_value(*model->model));
    // Before the work, so that a wrong folder is reported first.
    TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(from_abi_str(path)));
    o.for_file = true;
    o.target = from_abi_str(given.target);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Program> program,
                           Program::compile(*model->model->graph(), o));
    return save_package(*program, std::move(file));
  });
}

tenon_code_t load(void*, tenon_str_t path, const tenon_package_load_options_t* options,
                  tenon_program_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(out, "out_program");
    tenon_package_load_options_t given{};
    if (options != nullptr) {
      TENON_ASSIGN_OR_RETURN(given, prefix_of(options));
    }
    if ((given.flags & ~TENON_PACKAGE_CHECK_CONSTANTS) != 0) {
      return error(TENON_INVALID_ARGUMENT, "T0616", "loading a package has no flags {:#x}",
                   given.flags);
    }
    TENON_ASSIGN_OR_RETURN(
        std::shared_ptr<Program> program,
        load_package(from_abi_str(path), (given.flags & TENON_PACKAGE_CHECK_CONSTANTS) != 0));
    give_program(std::move(program), out);
    return {};
  });
}

tenon_code_t describe(void*, tenon_str_t path, const tenon_sink_t* json) {
  return slot([&]() -> Status {
    TENON_REQUIRE(json, "sink");
    TENON_ASSIGN_OR_RETURN(const std::string text, describe_package(from_abi_str(path)));
    return from_abi(json->write(json->self, text.data(), text.size()), "writing to the caller");
  });
}

tenon_code_t ports(void*, tenon_program_t* program, tenon_model_info_t* out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(out, "out_info");
    return give_record(out, std::visit([](const auto& p) { return p->ports(); }, program->program));
  });
}

tenon_code_t signature(void*, tenon_program_t* program, tenon_graph_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(out, "out_graph");
    auto graph = std::visit([](const auto& p) { return p->signature(); }, program->program);
    *out = graph.detach()->abi();
    return {};
  });
}

}  // namespace

const tenon_host_package_t* host_package_table() {
  static const tenon_host_package_t table = {
      sizeof(tenon_host_package_t), nullptr, save, load, describe, ports, signature};
  return &table;
}

}  // namespace tenon::session
