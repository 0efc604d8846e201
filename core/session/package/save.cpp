// A compiled program as the records of a package.
#include <algorithm>
#include <map>
#include <unordered_map>

#include <tenon/cpp/record.hpp>

#include "core/base/checked.h"
#include "core/base/errors/guard.h"
#include "core/base/file.h"
#include "core/base/intern.h"
#include "core/base/process/float_state.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/ir/host_graph.h"
#include "core/package/bytes.h"
#include "core/runtime/values/culprit.h"
#include "core/session/compile/plugins.h"
#include "core/session/package/package.h"

namespace tenon::session {
namespace {

using package::DimRef;
using package::ProgramRecord;

// Constants, each once by content, one after the other.
class BlobStore {
 public:
  explicit BlobStore(ProgramRecord* record) : record_(record) {}

  Result<uint32_t> add(ir::Ref<ir::Blob> blob) {
    TENON_ASSIGN_OR_RETURN(const ir::Digest digest, blob->digest());
    const auto key = std::make_tuple(digest.lo, digest.hi, blob->size_bytes());
    const auto [known, fresh] = known_.try_emplace(key, static_cast<uint32_t>(blobs_.size()));
    if (!fresh) return known->second;
    const uint64_t alignment = blob->size_bytes() >= package::kPageBytes ? package::kPageBytes : 64;
    package::BlobRecord place{0, blob->size_bytes(), {digest.lo, digest.hi}};
    if (!checked_align_up(size_, alignment, &place.offset) ||
        !checked_add(place.offset, place.size, &size_))
      return error(TENON_RESOURCE_EXHAUSTED, "T0110", "the constants do not fit in 64 bits");
    record_->blobs.push_back(place);
    blobs_.push_back(std::move(blob));
    return known->second;
  }

  package::Content content() const {
    return {size_, [this](const auto& take) -> Status {
              static constexpr char kZeros[package::kPageBytes] = {};
              uint64_t at = 0;
              for (size_t i = 0; i < blobs_.size(); ++i) {
                const package::BlobRecord& place = record_->blobs[i];
                TENON_RETURN_IF_ERROR(take(std::string_view(kZeros, place.offset - at)));
                TENON_ASSIGN_OR_RETURN(const void* data, blobs_[i]->data());
                TENON_RETURN_IF_ERROR(
                    take(std::string_view(static_cast<const char*>(data), place.size)));
                at = place.offset + place.size;
              }
              return {};
            }};
  }

 private:
  ProgramRecord* record_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> known_;
  std::vector<ir::Ref<ir::Blob>> blobs_;
  uint64_t size_ = 0;
};

// Dims, symbols and places of a graph as records.
class SizeWriter {
 public:
  SizeWriter(const Program& program, ProgramRecord* record)
      : graph_(program.graph()),
        reader_{ir::host_graph_table(), const_cast<ir::Graph&>(graph_).abi()},
        shapes_(program.shapes()),
        p_(*record) {}

  void all() {
    symbols();
    for (ir::Symbol s : graph_.region(graph_.main()).symbols) {
      p_.of_inputs.push_back(s);
      if (graph_.symbol_uses(s) != 0) p_.needed.push_back(s);
    }
    ports(shapes_.inputs(), &p_.inputs);
    ports(shapes_.outputs(), &p_.outputs);
    for (const runtime::Assertion& fact : shapes_.assertions())
      p_.facts.push_back({fact.rel, dim(fact.a), dim(fact.b), place(fact.loc)});
    if (p_.symbols.empty()) return;  // no size can be wrong
    for (const runtime::SizedNode& node : runtime::sized_nodes(reader_)) {
      p_.nodes.push_back(
          {place(node.loc), lists(node.operands), lists(node.results), lists(node.dim_attrs)});
    }
  }
  std::vector<DimRef> dims(std::span<const tenon_dim_t> from) {
    std::vector<DimRef> out;
    for (tenon_dim_t d : from) out.push_back(dim(d));
    return out;
  }

 private:
  void symbols() {
    const ir::DimTable& table = graph_.dims();
    for (ir::Symbol s = 0; s < table.symbol_count(); ++s) {
      const ir::SymbolData& data = table.symbol(s);
      const runtime::BoundPlaces by =
          s < shapes_.bounds().size() ? shapes_.bounds()[s] : runtime::BoundPlaces{};
      // One that is not used any more may have lost its name to another.
      const std::string name(sym_text(data.name));
      p_.symbols.push_back({table.symbol_find(name) == s ? name : std::string(), data.lo, data.hi,
                            data.multiple_of, data.hint, place(by.lo), place(by.hi),
                            place(by.multiple_of)});
    }
  }
  void ports(const std::vector<runtime::Port>& from, std::vector<package::PortRecord>* out) {
    for (const runtime::Port& port : from) out->push_back({port.name, port.dtype, dims(port.dims)});
  }
  std::vector<std::vector<DimRef>> lists(const std::vector<std::vector<tenon_dim_t>>& from) {
    std::vector<std::vector<DimRef>> out;
    for (const auto& list : from) out.push_back(dims(list));
    return out;
  }
  // Parts before the whole. Its depth is bounded by the limits of DimTable.
  DimRef dim(tenon_dim_t d) {
    if (d >= 0) return d;
    if (const auto known = dims_.find(d); known != dims_.end()) return known->second;
    const tenon_dim_view_t view = reader_.dim(d);
    package::DimRecord record{view.op, 0, 0};
    if (view.op == TENON_DIM_CONSTANT) {
      record.a = view.constant;
    } else if (view.op == TENON_DIM_SYMBOL) {
      record.a = view.symbol;
    } else {
      record.a = dim(view.a);
      record.b = dim(view.b);
    }
    p_.dims.push_back(record);
    return dims_[d] = ~static_cast<DimRef>(p_.dims.size() - 1);
  }
  uint32_t place(tenon_loc_t loc) {
    if (loc == 0) return 0;
    const auto [known, fresh] = places_.try_emplace(loc, 0);
    if (!fresh) return known->second;
    const std::string text = runtime::text_of_place(reader_, nullptr, loc);
    if (text.empty()) return 0;
    p_.places.push_back(text);
    return known->second = static_cast<uint32_t>(p_.places.size());
  }

  const ir::Graph& graph_;
  const runtime::GraphReader reader_;
  const runtime::Shapes& shapes_;
  ProgramRecord& p_;
  std::unordered_map<tenon_dim_t, DimRef> dims_;
  std::unordered_map<tenon_loc_t, uint32_t> places_;
};

class Saver {
 public:
  explicit Saver(const Program& program) : program_(program), sizes_(program, &record_) {}

  Status save(AtomicFile file) {
    TENON_RETURN_IF_ERROR(check_portable(program_));
    const FloatScope floats(region_float_control());  // packing computes
    record_.abi = TENON_ABI_VERSION;
    const tenon_program_info_t info = program_.info();
    record_.node_count = info.node_count;
    record_.copy_count = info.copy_count;
    sizes_.all();
    TENON_RETURN_IF_ERROR(devices());
    for (const CompiledSegment& segment : program_.segments())
      TENON_RETURN_IF_ERROR(add_segment(segment));
    TENON_RETURN_IF_ERROR(slots());
    for (const runtime::Step& step : program_.plan()->steps) add_step(step);
    record_.output_slots = program_.plan()->output_slots;
    return write(std::move(file));
  }

 private:
  Result<uint32_t> plugin(const std::string& name) {
    for (uint32_t i = 0; i < record_.plugins.size(); ++i) {
      if (record_.plugins[i].name == name) return i;
    }
    TENON_ASSIGN_OR_RETURN(PluginIdentity found, plugin_identity(name, true));
    record_.plugins.push_back(
        {std::move(found.name), std::move(found.version), std::move(found.sha256)});
    return static_cast<uint32_t>(record_.plugins.size() - 1);
  }

  Status devices() {
    for (const auto& device : program_.plan()->devices) {
      TENON_ASSIGN_OR_RETURN(const uint32_t from, plugin(device->apis().plugin));
      record_.devices.push_back(
          {device->name(), std::string(from_abi_str(device->target())), from});
    }
    return {};
  }

  Status add_segment(const CompiledSegment& segment) {
    TENON_RETURN_IF_ERROR(check_cancelled());
    package::SegmentRecord out;
    out.device = segment.device;
    if (segment.by != 0) {
      out.by = segment.owner->apis().kernel_sets->at(segment.by - 1).plugin;
      TENON_RETURN_IF_ERROR(plugin(out.by).status());
    }
    code_.resize((code_.size() + 63) / 64 * 64, '\0');
    out.offset = code_.size();
    out.size = segment.bytes.size();
    code_ += segment.bytes;
    out.output_ranks = segment.output_ranks;
    TENON_ASSIGN_OR_RETURN(out.packed, pack(segment, &out.blobs));
    for (size_t i = 0; !out.packed && i < segment.constants.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(
          const uint32_t blob,
          blobs_.add(ir::Ref<ir::Blob>::share(ir::Blob::from(segment.constants[i]))));
      out.blobs.push_back(blob);
    }
    record_.segments.push_back(std::move(out));
    return {};
  }

  struct Packing {
    BlobStore* blobs;
    std::vector<uint32_t>* out;
    Status failure;
    static tenon_code_t take(void* self, const void* data, uint64_t size) {
      auto& packing = *static_cast<Packing*>(self);
      return guarded([&]() -> Status {
        TENON_ASSIGN_OR_RETURN(
            ir::Ref<ir::Blob> blob,
            ir::blob_bytes({static_cast<const std::byte*>(data), static_cast<size_t>(size)}));
        TENON_ASSIGN_OR_RETURN(const uint32_t index, packing.blobs->add(std::move(blob)));
        packing.out->push_back(index);
        return {};
      });
    }
  };

  // False if the device takes constants as they are, or cannot pack them here.
  Result<bool> pack(const CompiledSegment& segment, std::vector<uint32_t>* out) {
    const tenon_compile_api_t* api = segment.compiler();
    if (api->pack == nullptr || api->load_packed == nullptr) return false;
    Packing packing{&blobs_, out, {}};
    const tenon_packed_sink_t sink = {sizeof sink, 0, &packing, Packing::take};
    auto guard = segment.owner->serialise();
    clear_failure();
    const tenon_code_t code =
        api->pack(api->self, segment.owner->target(), segment.bytes.data(), segment.bytes.size(),
                  segment.constants.data(), static_cast<uint32_t>(segment.constants.size()), &sink);
    if (code == TENON_UNIMPLEMENTED) {
      clear_failure();
      out->clear();
      return false;
    }
    TENON_RETURN_IF_ERROR(segment.owner->check(code, "pack"));
    return true;
  }

  Status slots() {
    for (const runtime::Slot& slot : program_.plan()->slots) {
      package::SlotRecord out;
      out.source = slot.source == runtime::Slot::Source::kInput     ? 0
                   : slot.source == runtime::Slot::Source::kSegment ? 1
                                                                    : 2;
      out.index = slot.input;
      if (slot.constant != nullptr) {
        TENON_ASSIGN_OR_RETURN(out.index,
                               blobs_.add(ir::Ref<ir::Blob>::share(ir::Blob::from(slot.constant))));
      }
      out.dtype = slot.dtype;
      out.dims = sizes_.dims(slot.dims);
      out.last_step = slot.last_step;
      record_.slots.push_back(std::move(out));
    }
    return {};
  }

  void add_step(const runtime::Step& step) {
    package::StepRecord out;
    out.copies = step.kind == runtime::Step::Kind::kCopy;
    out.device = step.device;
    out.slot = step.slot;
    out.segment = step.executable;
    out.inputs = step.inputs;
    out.outputs = step.outputs;
    out.symbols = step.symbols;
    out.out_symbols = step.out_symbols;
    record_.steps.push_back(std::move(out));
  }

  Status write(AtomicFile file) {
    static_assert(runtime::kHostPlace == package::kNothing);
    package::Writer report;
    report.text(program_.placement_summary());
    report.text(program_.placement_json());
    const std::string records = package::to_bytes(record_), report_bytes = report.take();
    const auto whole = [](const std::string& bytes) -> package::Content {
      return {bytes.size(), [&bytes](const auto& take) { return take(bytes); }};
    };
    TENON_RETURN_IF_ERROR(package::write_container(
        {whole(records), whole(report_bytes), whole(code_), blobs_.content()},
        [&](std::string_view bytes) { return file.write(bytes); }));
    return file.commit();
  }

  const Program& program_;
  ProgramRecord record_;
  BlobStore blobs_{&record_};
  SizeWriter sizes_;
  std::string code_;
};

}  // namespace

Status save_package(const Program& program, AtomicFile file) {
  return Saver(program).save(std::move(file));
}

}  // namespace tenon::session
