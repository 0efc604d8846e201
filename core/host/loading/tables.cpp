#include "core/host/loading/tables.h"

#include <cstddef>
#include <cstring>
#include <mutex>

#include <tenon/abi/collective.h>
#include <tenon/abi/device.h>
#include <tenon/abi/frontend.h>
#include <tenon/abi/importers.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/layer.h>
#include <tenon/abi/ops.h>
#include <tenon/abi/pass.h>
#include <tenon/abi/toolchain.h>
#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

constexpr uint32_t kTableBytesMax = 1u << 16;  // far above any table, far below garbage
constexpr uint64_t kInterfacesMax = 64;
constexpr uint64_t kRecordsMax = 100000;  // ops or passes of one plugin
constexpr uint64_t kTextBytesMax = 1u << 20;

Status check_size(const void* table, std::string_view what, uint32_t least = 16) {
  if (table == nullptr) return error(TENON_INVALID_ARGUMENT, "P0805", "the table {} is null", what);
  uint32_t size = 0;
  std::memcpy(&size, table, sizeof(size));
  if (size < least || size > kTableBytesMax) {
    return error(TENON_INVALID_ARGUMENT, "P0806", "the table {} says that it has {} bytes", what,
                 size);
  }
  return Status();
}

// A zeroed record of `full_bytes` with the prefix that both sides know. Never freed, since
// libraries are never closed.
void* copy_prefix(const void* from, uint32_t full_bytes) {
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  auto* full = static_cast<std::byte*>(::operator new(full_bytes, std::align_val_t{16}));
  keep_for_process(full);
  std::memset(full, 0, full_bytes);
  std::memcpy(full, from, std::min(size, full_bytes));
  std::memcpy(full, &full_bytes, sizeof(full_bytes));
  return full;
}

template <typename T>
T* copy_record(const T* from) {
  return static_cast<T*>(copy_prefix(from, sizeof(T)));
}

bool slot_is_null(const void* table, uint32_t offset) {
  void* slot = nullptr;
  std::memcpy(&slot, static_cast<const std::byte*>(table) + offset, sizeof(slot));
  return slot == nullptr;
}

Status check_text(tenon_str_t text, std::string_view what) {
  if ((text.data == nullptr && text.size != 0) || text.size > kTextBytesMax) {
    return error(TENON_INVALID_ARGUMENT, "P0806", "{} is a text of {} bytes at {}", what, text.size,
                 static_cast<const void*>(text.data));
  }
  return Status();
}

Status check_count(uint64_t count, const void* data, std::string_view what) {
  if (count > kRecordsMax || (count != 0 && data == nullptr)) {
    return error(TENON_INVALID_ARGUMENT, "P0806", "{} says that it has {} entries at {}", what,
                 count, data);
  }
  return Status();
}

// An array of records of the plugin's size, which may be smaller or larger than ours, as one of our
// size: the prefix that both sides know, then zeros. Never freed. `least`: the size that the record
// had in the first version of this edition; P0806 if the plugin's is shorter.
template <typename T>
Result<const T*> adopt_records(const T* from, uint64_t count, uint32_t record_bytes, uint32_t least,
                               const std::string& what) {
  TENON_RETURN_IF_ERROR(check_count(count, from, what));
  if (count == 0) return static_cast<const T*>(nullptr);
  if (record_bytes < least || record_bytes > kTableBytesMax) {
    return error(TENON_INVALID_ARGUMENT, "P0806", "{} are records of {} bytes: set their size",
                 what, record_bytes);
  }
  auto* full = new T[count]();
  keep_for_process(full);
  for (uint64_t i = 0; i < count; ++i)
    tenon_record_read(&full[i], sizeof(T), from, i, record_bytes);
  return static_cast<const T*>(full);
}

// The sizes that records had when this edition began. They never change.
constexpr uint32_t kOperandBytesLeast = 56, kResultBytesLeast = 32, kAttrBytesLeast = 88,
                   kConstraintBytesLeast = 48, kForeignNameBytesLeast = 56, kOptionBytesLeast = 56,
                   kInterfaceBytesLeast = 32, kImporterBytesLeast = 40, kPartialBytesLeast = 16;

// Rewrites begin with their size, and the first one's is the stride.
Result<const tenon_rewrite_t*> adopt_rewrites(const tenon_rewrite_t* from, uint64_t count,
                                              std::string_view owner) {
  TENON_RETURN_IF_ERROR(check_count(count, from, fmt::format("the rewrites of {}", owner)));
  if (count == 0) return static_cast<const tenon_rewrite_t*>(nullptr);
  TENON_RETURN_IF_ERROR(check_size(from, fmt::format("of the rewrites of {}", owner)));
  auto* full = new tenon_rewrite_t[count]();
  keep_for_process(full);
  for (uint64_t i = 0; i < count; ++i) {
    tenon_record_read(&full[i], sizeof(tenon_rewrite_t), from, i, from->size_bytes);
    full[i].size_bytes = sizeof(tenon_rewrite_t);
    TENON_RETURN_IF_ERROR(
        check_text(full[i].name, fmt::format("the name of a rewrite of {}", owner)));
    TENON_RETURN_IF_ERROR(
        check_text(full[i].root, fmt::format("the root of a rewrite of {}", owner)));
    if (full[i].match_and_build == nullptr) {
      return error(TENON_INVALID_ARGUMENT, "P0805", "a rewrite of {} has no match_and_build",
                   owner);
    }
  }
  return full;
}

// The arrays of a declaration as arrays of our records.
Status adopt_arrays(tenon_op_def_t& op, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(op.operands,
                         adopt_records(op.operands, op.operand_count, op.operand_bytes,
                                       kOperandBytesLeast, "the operands of op " + name));
  TENON_ASSIGN_OR_RETURN(op.results, adopt_records(op.results, op.result_count, op.result_bytes,
                                                   kResultBytesLeast, "the results of op " + name));
  TENON_ASSIGN_OR_RETURN(op.attrs, adopt_records(op.attrs, op.attr_count, op.attr_bytes,
                                                 kAttrBytesLeast, "the attributes of op " + name));
  TENON_ASSIGN_OR_RETURN(op.constraints,
                         adopt_records(op.constraints, op.constraint_count, op.constraint_bytes,
                                       kConstraintBytesLeast, "the constraints of op " + name));
  TENON_ASSIGN_OR_RETURN(
      op.foreign_names,
      adopt_records(op.foreign_names, op.foreign_name_count, op.foreign_name_bytes,
                    kForeignNameBytesLeast, "the foreign names of op " + name));
  op.operand_bytes = sizeof(tenon_operand_def_t);
  op.result_bytes = sizeof(tenon_result_def_t);
  op.attr_bytes = sizeof(tenon_attr_def_t);
  op.constraint_bytes = sizeof(tenon_constraint_def_t);
  op.foreign_name_bytes = sizeof(tenon_foreign_name_t);
  return Status();
}

Status adopt_rules(tenon_op_def_t& op, const std::string& name) {
  if (op.rules == nullptr) return Status();
  TENON_RETURN_IF_ERROR(check_size(op.rules, "of the rules of op " + name));
  tenon_op_rules_t* rules = copy_record(op.rules);
  TENON_RETURN_IF_ERROR(
      check_text(rules->no_derivative, "why there is no derivative of op " + name));
  TENON_ASSIGN_OR_RETURN(
      rules->partials, adopt_records(rules->partials, rules->partial_count, rules->partial_bytes,
                                     kPartialBytesLeast, "the partial derivatives of op " + name));
  rules->partial_bytes = sizeof(tenon_partial_t);
  for (uint32_t i = 0; i < rules->partial_count; ++i) {
    TENON_RETURN_IF_ERROR(check_count(rules->partials[i].scalar_words, rules->partials[i].scalar,
                                      "a partial derivative of op " + name));
  }
  op.rules = rules;
  return Status();
}

Status check_operands(const tenon_op_def_t& op, const std::string& name) {
  for (uint32_t i = 0; i < op.operand_count; ++i) {
    TENON_RETURN_IF_ERROR(check_text(op.operands[i].name, "the name of an operand of op " + name));
    TENON_RETURN_IF_ERROR(
        check_text(op.operands[i].doc, "the description of an operand of op " + name));
  }
  for (uint32_t i = 0; i < op.result_count; ++i) {
    TENON_RETURN_IF_ERROR(check_text(op.results[i].name, "the name of a result of op " + name));
    TENON_RETURN_IF_ERROR(
        check_text(op.results[i].doc, "the description of a result of op " + name));
  }
  return Status();
}

Status check_attrs(const tenon_op_def_t& op, const std::string& name) {
  const std::string what = "a text of an attribute of op " + name;
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    const tenon_attr_def_t& attr = op.attrs[i];
    for (tenon_str_t text : {attr.name, attr.doc, attr.default_s, attr.choices})
      TENON_RETURN_IF_ERROR(check_text(text, what));
  }
  return Status();
}

Status check_documentation(const tenon_op_def_t& op, const std::string& name) {
  TENON_RETURN_IF_ERROR(check_text(op.summary, "the summary of op " + name));
  TENON_RETURN_IF_ERROR(check_text(op.doc, "the documentation of op " + name));
  for (uint32_t i = 0; i < op.constraint_count; ++i) {
    const tenon_constraint_def_t& c = op.constraints[i];
    for (tenon_str_t text : {c.label, c.text, c.negative})
      TENON_RETURN_IF_ERROR(check_text(text, "a text of a constraint of op " + name));
  }
  TENON_RETURN_IF_ERROR(check_count(op.example_count, op.examples, "the examples of op " + name));
  for (uint32_t i = 0; i < op.example_count; ++i)
    TENON_RETURN_IF_ERROR(check_text(op.examples[i], "an example of op " + name));
  return Status();
}

Status check_foreign_names(const tenon_op_def_t& op, const std::string& name) {
  const std::string what = "a foreign name of op " + name;
  for (uint64_t i = 0; i < op.foreign_name_count; ++i) {
    const tenon_foreign_name_t& given = op.foreign_names[i];
    for (tenon_str_t text : {given.format, given.domain, given.name})
      TENON_RETURN_IF_ERROR(check_text(text, what));
    if (given.format.size == 0 || given.name.size == 0 || given.since == 0)
      return error(TENON_INVALID_ARGUMENT, "P0806", "{} lacks a format, a name or a version", what);
  }
  return Status();
}

std::string importers_name(const tenon_importers_t& table) {
  return fmt::format("{}:{}", from_abi_str(table.format), from_abi_str(table.domain));
}

// Like rewrites, an array of records of the plugin's size.
Status adopt_importers(tenon_importers_t* table) {
  TENON_RETURN_IF_ERROR(check_text(table->format, "the format of a table of importers"));
  TENON_RETURN_IF_ERROR(check_text(table->domain, "the domain of a table of importers"));
  const std::string owner = "the importers of " + quoted(importers_name(*table));
  TENON_RETURN_IF_ERROR(check_count(table->importer_count, table->importers, owner));
  if (table->format.size == 0)
    return error(TENON_INVALID_ARGUMENT, "P0806", "{} have no format", owner);
  TENON_ASSIGN_OR_RETURN(const tenon_importer_t* full,
                         adopt_records(table->importers, table->importer_count,
                                       table->importer_bytes, kImporterBytesLeast, owner));
  for (uint64_t i = 0; i < table->importer_count; ++i) {
    TENON_RETURN_IF_ERROR(check_text(full[i].op, "a name in " + owner));
    if (full[i].import_node == nullptr || full[i].op.size == 0 || full[i].since == 0)
      return error(TENON_INVALID_ARGUMENT, "P0805", "entry {} of {} lacks op, since or import_node",
                   i, owner);
  }
  table->importers = full;
  table->importer_bytes = sizeof(tenon_importer_t);
  return Status();
}

Status adopt_ops(tenon_ops_t* table) {
  TENON_RETURN_IF_ERROR(check_count(table->op_count, table->ops, "the table " TENON_OPS_ID));
  auto** ops = new const tenon_op_def_t*[table->op_count + 1]();
  keep_for_process(ops);
  for (uint64_t i = 0; i < table->op_count; ++i) {
    TENON_RETURN_IF_ERROR(check_size(table->ops[i], fmt::format("of op {}", i)));
    tenon_op_def_t* op = copy_record(table->ops[i]);
    TENON_RETURN_IF_ERROR(check_text(op->name, "the name of an op"));
    const std::string name = quoted(from_abi_str(op->name));
    TENON_RETURN_IF_ERROR(adopt_arrays(*op, name));
    TENON_RETURN_IF_ERROR(adopt_rules(*op, name));
    TENON_RETURN_IF_ERROR(check_operands(*op, name));
    TENON_RETURN_IF_ERROR(check_attrs(*op, name));
    TENON_RETURN_IF_ERROR(check_documentation(*op, name));
    TENON_RETURN_IF_ERROR(check_foreign_names(*op, name));
    TENON_RETURN_IF_ERROR(
        check_count(op->scalar_words, op->scalar, "the scalar program of op " + name));
    if (op->infer == nullptr)
      return error(TENON_INVALID_ARGUMENT, "P0805", "op {} has no infer", name);
    if (op->scalar_words == 0 && op->reference == nullptr && op->decompose == nullptr) {
      return error(TENON_INVALID_ARGUMENT, "P0805",
                   "op {} has neither a scalar program, a reference nor a decomposition", name);
    }
    TENON_ASSIGN_OR_RETURN(op->rewrites,
                           adopt_rewrites(op->rewrites, op->rewrite_count, "op " + name));
    ops[i] = op;
  }
  table->ops = ops;
  return Status();
}

Status adopt_passes(tenon_passes_t* table) {
  TENON_RETURN_IF_ERROR(check_count(table->pass_count, table->passes, "the table " TENON_PASS_ID));
  auto** passes = new const tenon_pass_def_t*[table->pass_count + 1]();
  keep_for_process(passes);
  for (uint64_t i = 0; i < table->pass_count; ++i) {
    TENON_RETURN_IF_ERROR(check_size(table->passes[i], fmt::format("of pass {}", i)));
    tenon_pass_def_t* pass = copy_record(table->passes[i]);
    TENON_RETURN_IF_ERROR(check_text(pass->name, "the name of a pass"));
    const std::string name = quoted(from_abi_str(pass->name));
    TENON_ASSIGN_OR_RETURN(pass->options,
                           adopt_records(pass->options, pass->option_count, pass->option_bytes,
                                         kOptionBytesLeast, "the options of pass " + name));
    pass->option_bytes = sizeof(tenon_pass_option_def_t);
    TENON_RETURN_IF_ERROR(
        check_count(pass->statistic_count, pass->statistics, "the statistics of pass " + name));
    if (pass->run == nullptr && pass->rewrite_count == 0) {
      return error(TENON_INVALID_ARGUMENT, "P0805", "pass {} has neither run nor rewrites", name);
    }
    TENON_ASSIGN_OR_RETURN(pass->rewrites,
                           adopt_rewrites(pass->rewrites, pass->rewrite_count, "pass " + name));
    passes[i] = pass;
  }
  table->passes = passes;
  return Status();
}

Status check_frontend(const tenon_frontend_api_t* table) {
  TENON_RETURN_IF_ERROR(check_text(table->name, "the name of a frontend"));
  TENON_RETURN_IF_ERROR(check_text(table->extensions, "the extensions of a frontend"));
  if (table->load == nullptr && table->read_tensors == nullptr) {
    return error(TENON_INVALID_ARGUMENT, "P0805",
                 "the table " TENON_FRONTEND_ID " has neither load nor read_tensors");
  }
  return Status();
}

Status check_engine(const tenon_collective_api_t* table) {
  TENON_RETURN_IF_ERROR(check_text(table->name, "the name of an engine"));
  TENON_RETURN_IF_ERROR(check_text(table->memory_kinds, "the kinds of memory of an engine"));
  return check_text(table->stream_kinds, "the kinds of streams of an engine");
}

Result<const void*> adopt_table(const InterfaceInfo& info, const void* from) {
  TENON_RETURN_IF_ERROR(check_size(from, info.id));
  void* table = copy_prefix(from, info.size_bytes);
  for (const RequiredSlot& slot : info.required) {
    if (slot_is_null(table, slot.offset)) {
      return error(TENON_INVALID_ARGUMENT, "P0805", "the table {} lacks the required slot {}",
                   info.id, slot.name);
    }
  }
  if (info.id == TENON_OPS_ID) TENON_RETURN_IF_ERROR(adopt_ops(static_cast<tenon_ops_t*>(table)));
  if (info.id == TENON_PASS_ID)
    TENON_RETURN_IF_ERROR(adopt_passes(static_cast<tenon_passes_t*>(table)));
  if (info.id == TENON_FRONTEND_ID)
    TENON_RETURN_IF_ERROR(check_frontend(static_cast<tenon_frontend_api_t*>(table)));
  if (info.id == TENON_IMPORTERS_ID)
    TENON_RETURN_IF_ERROR(adopt_importers(static_cast<tenon_importers_t*>(table)));
  if (info.id == TENON_COLLECTIVE_ID)
    TENON_RETURN_IF_ERROR(check_engine(static_cast<tenon_collective_api_t*>(table)));
  if (info.id == TENON_LAYER_ID)
    TENON_RETURN_IF_ERROR(
        check_text(static_cast<tenon_layer_api_t*>(table)->name, "the name of a layer"));
  return static_cast<const void*>(table);
}

Status check_record_abi(uint32_t abi) {
  const uint32_t major = abi >> 16;
  if (major > TENON_ABI_MAJOR) {
    return error(TENON_FAILED_PRECONDITION, "P0305",
                 "it was compiled for ABI {}.{} and this host speaks {}.{}", major, abi & 0xffff,
                 TENON_ABI_MAJOR, TENON_ABI_MINOR);
  }
  if (major < TENON_ABI_MAJOR) {
    return error(TENON_FAILED_PRECONDITION, "P0304",
                 "it was compiled for ABI {} and this host speaks {}", major, TENON_ABI_MAJOR);
  }
  const uint32_t minor = abi & 0xffff;
  if (abi < TENON_ABI_OLDEST) {
    return error(TENON_FAILED_PRECONDITION, "P0304",
                 "it was compiled for ABI {}.{}, of the first edition; this host speaks {}.{}",
                 major, minor, TENON_ABI_MAJOR, TENON_ABI_MINOR);
  }
  if (minor > TENON_ABI_MINOR) {
    return error(TENON_FAILED_PRECONDITION, "P0305",
                 "it was compiled for ABI {}.{} and this host speaks {}.{}", major, minor,
                 TENON_ABI_MAJOR, TENON_ABI_MINOR);
  }
  return Status();
}

// What a plugin needs of an interface. Newer slots of its table are no need: they are cut off.
Status check_minor(const InterfaceInfo& known, uint32_t minor) {
  if (minor <= known.minor) return Status();
  return error(TENON_FAILED_PRECONDITION, "P0305",
               "it needs minor {} of {}, and this host has {}: update Tenon", minor, known.id,
               known.minor);
}

}  // namespace

void keep_for_process(const void* memory) {
  static std::mutex mutex;
  static auto* kept = new std::vector<const void*>;
  std::lock_guard lock(mutex);
  kept->push_back(memory);
}

Result<AdoptedPlugin> adopt_plugin(const tenon_plugin_t* record, std::string_view expected_name) {
  if (record == nullptr)
    return error(TENON_INVALID_ARGUMENT, "P0802", "its query said OK and gave no record");
  TENON_RETURN_IF_ERROR(check_size(record, "of the plugin itself"));
  AdoptedPlugin plugin;
  std::memcpy(&plugin.record, record, std::min<size_t>(record->size_bytes, sizeof(tenon_plugin_t)));
  plugin.record.size_bytes = sizeof(tenon_plugin_t);
  TENON_RETURN_IF_ERROR(check_record_abi(plugin.record.abi));
  TENON_RETURN_IF_ERROR(check_text(plugin.record.name, "the plugin's name"));
  TENON_RETURN_IF_ERROR(check_text(plugin.record.version, "the plugin's version"));
  TENON_RETURN_IF_ERROR(check_text(plugin.record.build_id, "the plugin's build id"));
  plugin.name = from_abi_str(plugin.record.name);
  plugin.version = from_abi_str(plugin.record.version);
  plugin.build_id = from_abi_str(plugin.record.build_id);
  if (!expected_name.empty() && plugin.name != expected_name) {
    return error(TENON_FAILED_PRECONDITION, "P0803",
                 "the library calls itself {}, and its manifest {}", quoted(plugin.name),
                 quoted(expected_name));
  }
  if (plugin.record.interface_count > kInterfacesMax ||
      (plugin.record.interface_count != 0 && plugin.record.interfaces == nullptr)) {
    return error(TENON_INVALID_ARGUMENT, "P0806", "it says that it has {} interfaces at {}",
                 plugin.record.interface_count, static_cast<const void*>(plugin.record.interfaces));
  }
  TENON_ASSIGN_OR_RETURN(
      plugin.record.interfaces,
      adopt_records(plugin.record.interfaces, plugin.record.interface_count,
                    plugin.record.interface_bytes, kInterfaceBytesLeast, "its interfaces"));
  plugin.record.interface_bytes = sizeof(tenon_interface_t);
  for (uint64_t i = 0; i < plugin.record.interface_count; ++i) {
    const tenon_interface_t& offered = plugin.record.interfaces[i];
    TENON_RETURN_IF_ERROR(check_text(offered.id, "the id of an interface"));
    std::string id(from_abi_str(offered.id));
    const InterfaceInfo* known = nullptr;
    for (const InterfaceInfo& info : known_interfaces()) known = info.id == id ? &info : known;
    if (known == nullptr) {
      TENON_RETURN_IF_ERROR(check_size(offered.table, id, sizeof(uint32_t)));
      plugin.unknown_interfaces.push_back(std::move(id));
      // Kept unchanged for callers that request this id: a vendor's own interface.
      plugin.interfaces.push_back({plugin.unknown_interfaces.back(), offered.minor, offered.table});
      continue;
    }
    TENON_RETURN_IF_ERROR(check_minor(*known, offered.minor));
    TENON_ASSIGN_OR_RETURN(const void* table, adopt_table(*known, offered.table));
    plugin.interfaces.push_back({std::move(id), offered.minor, table});
  }
  return plugin;
}

namespace {

void add(std::vector<OfferedName>& names, std::string_view kind, std::string_view name) {
  for (const OfferedName& known : names) {
    if (known.kind == kind && known.name == name) return;
  }
  if (!name.empty()) names.push_back({std::string(kind), std::string(name)});
}

void add_list(std::vector<OfferedName>& names, std::string_view kind, tenon_str_t list) {
  for (std::string_view part : split(from_abi_str(list), ',')) add(names, kind, part);
}

void add_devices(std::vector<OfferedName>& names, const tenon_device_api_t* api) {
  uint32_t count = 0;
  if (api->count(api->self, &count) != TENON_OK) count = 0;
  for (uint32_t i = 0; i < count && i < 64; ++i) {
    auto info = sized<tenon_device_info_t>();
    if (api->info(api->self, i, &info) == TENON_OK) add(names, "device", from_abi_str(info.kind));
  }
  clear_failure();  // the plugin has not failed if the machine has no device
}

}  // namespace

std::vector<OfferedName> offered_names(const AdoptedPlugin& plugin) {
  std::vector<OfferedName> names;
  for (const AdoptedInterface& offered : plugin.interfaces) {
    if (offered.id == TENON_DEVICE_ID) {
      add_devices(names, static_cast<const tenon_device_api_t*>(offered.table));
    } else if (offered.id == TENON_KERNELS_ID) {
      add(names, "kernels",
          from_abi_str(static_cast<const tenon_kernels_api_t*>(offered.table)->device_kind));
    } else if (offered.id == TENON_OPS_ID) {
      const auto* ops = static_cast<const tenon_ops_t*>(offered.table);
      for (uint64_t i = 0; i < ops->op_count; ++i)
        add(names, "op", from_abi_str(ops->ops[i]->name));
    } else if (offered.id == TENON_PASS_ID) {
      const auto* passes = static_cast<const tenon_passes_t*>(offered.table);
      for (uint64_t i = 0; i < passes->pass_count; ++i)
        add(names, "pass", from_abi_str(passes->passes[i]->name));
    } else if (offered.id == TENON_FRONTEND_ID) {
      const auto* frontend = static_cast<const tenon_frontend_api_t*>(offered.table);
      add(names, "frontend", from_abi_str(frontend->name));
      add_list(names, "extension", frontend->extensions);
    } else if (offered.id == TENON_TOOLCHAIN_ID) {
      add_list(names, "toolchain",
               static_cast<const tenon_toolchain_api_t*>(offered.table)->dialects);
    } else if (offered.id == TENON_COLLECTIVE_ID) {
      add(names, "collective",
          from_abi_str(static_cast<const tenon_collective_api_t*>(offered.table)->name));
    } else if (offered.id == TENON_LAYER_ID) {
      add(names, "layer", from_abi_str(static_cast<const tenon_layer_api_t*>(offered.table)->name));
    } else if (offered.id == TENON_IMPORTERS_ID) {
      const auto* table = static_cast<const tenon_importers_t*>(offered.table);
      add(names, "importer", importers_name(*table));
    }
  }
  return names;
}

}  // namespace tenon::host
