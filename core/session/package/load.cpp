// A program from the records of a package.
#include <algorithm>
#include <set>

#include "core/base/errors/failure.h"
#include "core/base/file.h"
#include "core/base/intern.h"
#include "core/base/process/float_state.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/ir/host_graph.h"
#include "core/package/bytes.h"
#include "core/runtime/run/trace.h"
#include "core/session/compile/devices.h"
#include "core/session/compile/plugins.h"
#include "core/session/package/package.h"

namespace tenon::session {

using package::DimRef;
using package::ProgramRecord;

namespace {

// Names for symbols that lost theirs, unlike all names of the record: also those that come later.
class StandIns {
 public:
  explicit StandIns(const ProgramRecord& record) {
    for (const package::SymbolRecord& s : record.symbols) taken_.insert(s.name);
  }
  std::string next() {
    for (;;) {
      std::string name = fmt::format("unused_{}", ++count_);
      if (!taken_.contains(name)) return name;
    }
  }

 private:
  std::set<std::string_view> taken_;
  uint64_t count_ = 0;
};

}  // namespace

class PackageLoader {
 public:
  explicit PackageLoader(OpenPackage package)
      : package_(std::move(package)),
        p_(package_.record),
        program_(new Program()),
        plan_(std::make_shared<runtime::Plan>()),
        kept_(std::make_unique<Packaged>()) {}

  Result<std::shared_ptr<Program>> run() {
    const uint64_t begin = runtime::now_ns();
    const FloatScope floats(region_float_control());  // a device may pack constants
    plan_->api = ir::host_graph_table();
    TENON_RETURN_IF_ERROR(sizes());
    shapes();
    TENON_RETURN_IF_ERROR(blobs());
    TENON_RETURN_IF_ERROR(devices());
    for (size_t i = 0; i < p_.segments.size(); ++i) {
      TENON_RETURN_IF_ERROR(check_cancelled());
      report_progress("load", i, p_.segments.size());
      TENON_RETURN_IF_ERROR(segment(p_.segments[i]));
    }
    report_progress("load", p_.segments.size(), p_.segments.size());
    plan();
    finish(static_cast<double>(runtime::now_ns() - begin) / 1e6);
    return program_;
  }

 private:
  // ---- Sizes ----
  // Dims are made while symbols have no ranges, so that no law changes what was written.
  Status sizes() {
    program_->graph_ = ir::Graph::create("package");
    ir::DimTable& table = program_->graph_->dims();
    StandIns stand_ins(p_);
    for (const package::SymbolRecord& s : p_.symbols) {
      const std::string name = s.name.empty() ? stand_ins.next() : s.name;
      TENON_RETURN_IF_ERROR(refused(table.symbol_add(name, INT64_MIN, INT64_MAX, 1, -1).status()));
    }
    for (const package::DimRecord& d : p_.dims) {
      Result<ir::Dim> made = d.op == TENON_DIM_CONSTANT ? table.constant(d.a)
                             : d.op == TENON_DIM_SYMBOL
                                 ? Result<ir::Dim>(table.symbol(static_cast<ir::Symbol>(d.a)).dim)
                                 : table.make(d.op, dim(d.a), dim(d.b));
      TENON_RETURN_IF_ERROR(refused(made.status()));
      dims_.push_back(*made);
    }
    for (size_t i = 0; i < p_.symbols.size(); ++i) {
      const package::SymbolRecord& from = p_.symbols[i];
      ir::SymbolData& to = table.symbol(static_cast<ir::Symbol>(i));
      to.lo = from.lo, to.hi = from.hi, to.multiple_of = from.multiple_of, to.hint = from.hint;
    }
    TENON_RETURN_IF_ERROR(refused(arguments()));
    program_->graph_->freeze();
    return {};
  }
  // For those who ask the program for its signature.
  Status arguments() {
    ir::Graph& graph = *program_->graph_;
    for (uint32_t s : p_.of_inputs) TENON_RETURN_IF_ERROR(graph.adopt_symbol(graph.main(), s));
    for (const package::PortRecord& port : p_.inputs) {
      ir::TypeDraft type;
      type.dtype = static_cast<tenon_dtype_t>(port.dtype);
      type.dims = dims(port.dims);
      TENON_RETURN_IF_ERROR(graph.add_argument(graph.main(), type.view(), port.name).status());
    }
    return {};
  }
  Status refused(const Status& status) const {
    if (status.ok()) return {};
    return package::damaged(package_.name, status.message());
  }
  ir::Dim dim(DimRef d) const { return d >= 0 ? d : dims_[static_cast<size_t>(~d)]; }
  std::vector<ir::Dim> dims(const std::vector<DimRef>& from) const {
    std::vector<ir::Dim> out;
    for (DimRef d : from) out.push_back(dim(d));
    return out;
  }
  std::vector<std::vector<ir::Dim>> lists(const std::vector<std::vector<DimRef>>& from) const {
    std::vector<std::vector<ir::Dim>> out;
    for (const auto& list : from) out.push_back(dims(list));
    return out;
  }

  std::vector<runtime::Port> ports(const std::vector<package::PortRecord>& from) const {
    std::vector<runtime::Port> out;
    for (const package::PortRecord& port : from) {
      out.push_back(
          {port.name, TENON_NONE, static_cast<tenon_dtype_t>(port.dtype), dims(port.dims), {}});
    }
    return out;
  }

  void shapes() {
    runtime::Shapes::Parts parts;
    parts.inputs = ports(p_.inputs);
    parts.outputs = ports(p_.outputs);
    parts.of_inputs = p_.of_inputs;
    for (const package::FactRecord& f : p_.facts)
      parts.assertions.push_back({f.rel, dim(f.a), dim(f.b), f.place});
    for (const package::SymbolRecord& s : p_.symbols)
      parts.bounds.push_back({s.lo_place, s.hi_place, s.multiple_place});
    auto blame = std::make_shared<runtime::Blame>();
    for (uint32_t i = 0; i < p_.places.size(); ++i) blame->texts[i + 1] = p_.places[i];
    for (const package::NodeRecord& n : p_.nodes)
      blame->nodes.push_back({n.place, lists(n.operands), lists(n.results), lists(n.dim_attrs)});
    parts.blame = std::move(blame);
    plan_->shapes =
        runtime::Shapes::restore(*plan_->api, program_->graph_->abi(), std::move(parts));
  }

  // ---- Constants ----
  Status blobs() {
    const uint64_t begin =
        package_.extents[static_cast<size_t>(package::Section::kConstants)].offset;
    const ir::Ref<ir::Blob> file = ir::blob_mapped(package_.bytes);
    for (const package::BlobRecord& b : p_.blobs) {
      TENON_ASSIGN_OR_RETURN(ir::Ref<ir::Blob> blob,
                             ir::blob_range(file, begin + b.offset, b.size));
      kept_->blobs.push_back(std::move(blob));
    }
    return {};
  }
  tenon_blob_t* blob(uint32_t index) const { return kept_->blobs[index]->abi(); }

  // ---- Code ----
  const package::PluginRecord& plugin_of(const package::DeviceRecord& device) const {
    return p_.plugins[device.plugin];
  }

  Status devices() {
    for (const package::DeviceRecord& device : p_.devices) {
      const package::PluginRecord& plugin = plugin_of(device);
      TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> found, find_device(device.name),
                             "loading {}, which needs plugin {} {}", quoted(package_.name),
                             quoted(plugin.name), printable(plugin.version));
      plan_->devices.push_back(std::move(found));
    }
    return {};
  }

  // "compiled for `t` by plugin `p` 1.0; here is `u` with version 1.1"
  std::string both_sides(const package::SegmentRecord& segment) const {
    const package::DeviceRecord& was = p_.devices[segment.device];
    const std::string name = segment.by.empty() ? plugin_of(was).name : segment.by;
    const auto plugin = std::ranges::find(p_.plugins, name, &package::PluginRecord::name);
    const Result<PluginIdentity> here = plugin_identity(name, false);
    return fmt::format(
        "it was compiled for {} by version {} of plugin {}; here is {} with version {}",
        quoted(was.target), plugin == p_.plugins.end() ? "?" : printable(plugin->version),
        quoted(name), quoted(from_abi_str(plan_->devices[segment.device]->target())),
        here.ok() ? printable(here->version) : "none");
  }
  Status unsuited(const package::SegmentRecord& segment, std::string_view why) const {
    return error(TENON_FAILED_PRECONDITION, "T0523",
                 "device {} does not take its code in {}: {} ({})",
                 quoted(plan_->devices[segment.device]->name()), quoted(package_.name), why,
                 both_sides(segment));
  }

  Result<uint32_t> compiler_of(const package::SegmentRecord& segment) const {
    if (segment.by.empty()) return 0u;
    // A plugin that was registered again has several sets. Only its last one is in force.
    const std::vector<runtime::KernelSet> sets =
        plan_->devices[segment.device]->apis().kernel_sets->all();
    for (size_t i = sets.size(); i > 0; --i) {
      if (sets[i - 1].in_force && sets[i - 1].plugin == segment.by) return static_cast<uint32_t>(i);
    }
    return unsuited(segment,
                    fmt::format("the kernels of plugin {} are not here", quoted(segment.by)));
  }

  Status fits(const package::SegmentRecord& segment, const tenon_compile_api_t& api,
              std::string_view code) const {
    if (segment.packed && (api.load_packed == nullptr || api.pack == nullptr))
      return unsuited(segment, "the plugin takes no packed constants any more");
    TENON_ASSIGN_OR_RETURN(const std::optional<std::string> refusal,
                           refusal_of(*plan_->devices[segment.device], api, code), "loading {}",
                           quoted(package_.name));
    return refusal ? unsuited(segment, *refusal) : Status();
  }

  Status segment(const package::SegmentRecord& segment) {
    const std::shared_ptr<runtime::Device>& device = plan_->devices[segment.device];
    TENON_ASSIGN_OR_RETURN(const uint32_t by, compiler_of(segment));
    const package::Extent& all = package_.extents[static_cast<size_t>(package::Section::kCode)];
    const std::span<const std::byte> code =
        package_.bytes->bytes().subspan(all.offset + segment.offset, segment.size);
    TENON_RETURN_IF_ERROR(fits(segment, *device->apis().compiler(by),
                               {reinterpret_cast<const char*>(code.data()), code.size()}));
    std::vector<tenon_blob_t*> constants;
    for (uint32_t b : segment.blobs) constants.push_back(blob(b));
    TENON_ASSIGN_OR_RETURN(auto executable,
                           runtime::Executable::load(
                               device, code, {constants, segment.output_ranks, by, segment.packed}),
                           "loading {}", quoted(package_.name));
    plan_->executables.push_back(std::move(executable));
    return {};
  }

  // ---- Plan ----
  void plan() {
    constexpr runtime::Slot::Source kSources[] = {runtime::Slot::Source::kInput,
                                                  runtime::Slot::Source::kSegment,
                                                  runtime::Slot::Source::kConstant};
    for (const package::SlotRecord& from : p_.slots) {
      runtime::Slot& slot = plan_->slots.emplace_back();
      slot.source = kSources[from.source];
      if (slot.source == runtime::Slot::Source::kInput) slot.input = from.index;
      if (slot.source == runtime::Slot::Source::kConstant) slot.constant = blob(from.index);
      slot.dtype = static_cast<tenon_dtype_t>(from.dtype);
      slot.dims = dims(from.dims);
      slot.last_step = from.last_step;
    }
    for (const package::StepRecord& from : p_.steps) {
      runtime::Step& step = plan_->steps.emplace_back();
      step.kind = from.copies ? runtime::Step::Kind::kCopy : runtime::Step::Kind::kExecute;
      step.device = from.device;
      step.slot = from.slot;
      step.executable = from.segment;
      step.inputs = from.inputs;
      step.outputs = from.outputs;
      step.symbols = from.symbols;
      step.out_symbols = from.out_symbols;
    }
    plan_->output_slots = p_.output_slots;
    plan_->needed.assign(p_.needed.begin(), p_.needed.end());
  }

  void finish(double ms) {
    kept_->placement = std::move(package_.placement);
    kept_->summary = std::move(package_.summary);
    kept_->node_count = p_.node_count;
    kept_->copy_count = p_.copy_count;
    for (const package::SegmentRecord& s : p_.segments) kept_->code_bytes += s.size;
    std::vector<std::string_view> symbols;
    for (uint32_t s : p_.of_inputs)
      symbols.push_back(sym_text(program_->graph_->dims().symbol(s).name));
    uint64_t bytes = 0;
    for (const package::BlobRecord& b : p_.blobs) bytes += b.size;
    program_->ports_ = std::make_unique<PortRecords>(plan_->shapes, symbols, p_.node_count, bytes);
    program_->plan_ = plan_;
    program_->runners_ = std::make_unique<runtime::RunnerPool>(plan_);
    program_->packaged_ = std::move(kept_);
    program_->compile_ms_ = program_->load_ms_ = ms;
  }

  OpenPackage package_;
  const ProgramRecord& p_;
  std::shared_ptr<Program> program_;
  std::shared_ptr<runtime::Plan> plan_;
  std::unique_ptr<Packaged> kept_;
  std::vector<ir::Dim> dims_;
};

Result<OpenPackage> open_package(std::string_view path, bool check_constants) {
  OpenPackage out;
  out.name = path;
  TENON_ASSIGN_OR_RETURN(const File file, open_user_file(path));
  TENON_ASSIGN_OR_RETURN(out.bytes, map_file(file));
  const std::span<const std::byte> bytes = out.bytes->bytes();
  TENON_ASSIGN_OR_RETURN(out.extents, package::read_container(bytes, path));
  for (size_t i = 0; i < package::kSections; ++i) {
    const auto section = static_cast<package::Section>(i);
    if (section == package::Section::kConstants && !check_constants) continue;
    TENON_RETURN_IF_ERROR(package::check_section(bytes, out.extents, section, path));
  }
  const auto of = [&](package::Section section) {
    return package::bytes_of(bytes, out.extents[static_cast<size_t>(section)]);
  };
  TENON_ASSIGN_OR_RETURN(out.record,
                         package::from_bytes(of(package::Section::kProgram), out.extents, path));
  package::Reader report(of(package::Section::kReport));
  out.summary = report.text();
  out.placement = report.text();
  if (!report.at_end()) return package::damaged(path, "its section report is not a report");
  return out;
}

Result<std::shared_ptr<Program>> load_package(std::string_view path, bool check_constants) {
  TENON_ASSIGN_OR_RETURN(OpenPackage package, open_package(path, check_constants));
  return PackageLoader(std::move(package)).run();
}

}  // namespace tenon::session
