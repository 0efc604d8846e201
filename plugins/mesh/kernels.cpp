#include "kernels.h"

#include <map>
#include <mutex>

#include "collective.h"
#include "device.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/record.hpp"
#include "tenon/cpp/value.hpp"

struct tenon_kernel_t {
  tenon::mesh::Collective what;
  tenon_device_t* device = nullptr;
  tenon::mesh::Members* members = nullptr;
  uint32_t from_rank = 0, to_rank = 0;  // dims of the operand and of the result
  std::mutex mutex;
  std::map<std::vector<int64_t>, std::shared_ptr<const tenon::mesh::Said>> agreed;  // by sizes
};

namespace tenon::mesh {
namespace {

// Guesses for the placement: no other device competes for these ops.
constexpr double kCallNs = 5000, kByteNs = 0.2;
constexpr int64_t kLikelyElements = 65536;
constexpr size_t kAgreedMax = 1024;

struct Named {
  std::string_view name;
  Op op;
  const char* dim;  // the attribute that must be 0: engines move whole rows
};
constexpr Named kOps[] = {{"all_reduce", Op::kAllReduce, nullptr},
                          {"all_gather", Op::kAllGather, "dim"},
                          {"reduce_scatter", Op::kReduceScatter, "dim"},
                          {"all_to_all", Op::kAllToAll, "split_dim"},
                          {"permute", Op::kPermute, nullptr},
                          {"broadcast_from", Op::kBroadcastFrom, nullptr},
                          {"axis_index", Op::kAxisIndex, nullptr}};

const Named* named(const Node& node) {
  for (const Named& known : kOps) {
    if (node.is(known.name)) return &known;
  }
  return nullptr;
}

double cost_of(const Value& v) {
  double bytes = dtype_bytes(v.dtype());
  for (const Dim d : v.dims())
    bytes *= d.is_constant() ? static_cast<double>(d.constant()) : kLikelyElements;
  return kCallNs + kByteNs * bytes;
}

Status query(void*, tenon_str_t, const tenon_kernel_call_t* call, tenon_kernel_candidate_t* out) {
  const Node node(call->graph, call->anchor);
  const Named* op = named(node);
  if (op == nullptr) return fail(TENON_UNIMPLEMENTED, "only ops of several processes");
  if (op->dim != nullptr &&
      (node.i64(op->dim) != 0 || (op->op == Op::kAllToAll && node.i64("concat_dim") != 0)))
    return fail(TENON_UNIMPLEMENTED, "dim 0 only: the pass canonicalize moves other dims there");
  if (dtype_bits(node.result().dtype()) < 8)
    return fail(TENON_UNIMPLEMENTED, "elements of whole bytes only");
  auto made = sized<tenon_kernel_candidate_t>();
  made.part_count = 1;
  made.cost_ns = cost_of(node.result());
  made.name = str(op->name);
  return give_record(out, made);
}

std::string place_of(const Node& node) {
  std::string text;
  const tenon_sink_t sink = sink_to(&text);
  if (const tenon_loc_t loc = node.view().loc; loc != 0)
    (void)graph_api().loc_text(graph_api().self, node.graph(), loc, &sink);
  return text;
}

uint32_t combine_of(std::string_view kind) {
  return kind == "min" ? TENON_COMBINE_MIN : kind == "max" ? TENON_COMBINE_MAX : TENON_COMBINE_SUM;
}

// Which operations are checked, apart from the first ones with their sizes.
enum class Check : uint8_t {
  kNone,     // TENON_COLLECTIVE_CHECK=sizes
  kCompare,  // each: members compare what they do while it runs
  kAgree     // always: they agree before it runs
};
Check check() {
  static const Check chosen = [] {
    const std::string_view text = setting("TENON_COLLECTIVE_CHECK");
    if (!text.empty() && text != "always" && text != "sizes" && text != "each")
      log("mesh", TENON_LOG_WARN, "TENON_COLLECTIVE_CHECK=", quoted(text),
          " is none of each, sizes and always; each is used");
    return text == "always" ? Check::kAgree : text == "sizes" ? Check::kNone : Check::kCompare;
  }();
  return chosen;
}

// "f32 along data of data=2 (sum)": all but the op's name, the sizes and the place.
std::string text_of(const Collective& what) {
  std::string out = cat(dtype_name(what.dtype), " along ", what.axes, " of ", what.mesh);
  if (what.combine != TENON_COMBINE_NONE)
    out += what.combine == TENON_COMBINE_SUM   ? " (sum)"
           : what.combine == TENON_COMBINE_MIN ? " (min)"
                                               : " (max)";
  if (what.op == Op::kBroadcastFrom) out += cat(" (root ", what.root, ")");
  for (size_t i = 0; i < what.pairs.size(); ++i) out += cat(i % 2 == 0 ? " " : ">", what.pairs[i]);
  return out;
}

// "all_reduce of [2, 3] ".
std::string sized_name(const Collective& what, const std::vector<int64_t>& dims) {
  std::string out = cat(what.name, " of [");
  for (size_t i = 0; i < dims.size(); ++i) out += cat(i == 0 ? "" : ", ", dims[i]);
  return out + "] ";
}

Collective read(const tenon_kernel_call_t& call) {
  const Node node(call.graph, call.anchor);
  const Named* op = named(node);
  Collective what;
  what.op = op->op;
  what.name = op->name;
  what.dtype = node.result().dtype();
  if (op->op == Op::kAllReduce || op->op == Op::kReduceScatter)
    what.combine = combine_of(node.text("kind"));
  if (op->op == Op::kBroadcastFrom) what.root = node.i64("root");
  if (op->op == Op::kPermute) what.pairs = node.i64s("pairs");
  what.mesh = node.text("mesh");
  what.axes = node.text("axes");
  what.text = text_of(what);
  const std::string place = place_of(node);
  what.text_here = place.empty() ? what.text : cat(what.text, " at ", place);
  what.is_deterministic = (call.flags & TENON_KERNEL_CALL_DETERMINISTIC) != 0;
  return what;
}

Status create(void*, tenon_device_t* device, const tenon_kernel_call_t* call,
              tenon_kernel_t** out) {
  auto made = std::make_unique<tenon_kernel_t>();
  made->what = read(*call);
  made->device = device;
  const Node node(call->graph, call->anchor);
  if (node.operand_count() != 0) made->from_rank = node.operand(0).rank();
  made->to_rank = node.result().rank();
  TENON_TRY(device->ranks.members(made->what.mesh, made->what.axes, &made->members));
  *out = made.release();
  return {};
}

void destroy(void*, tenon_kernel_t* kernel) noexcept {
  delete kernel;
}

// All processes must have the first text in common. The second one is for people.
struct Texts {
  std::string all, here;
};
Texts texts_of(const Collective& what, const std::vector<int64_t>& dims) {
  const std::string start = sized_name(what, dims);
  return {start + what.text, start + what.text_here};
}

// Nothing is agreed on: in a group of one process, and in one that the program has made.
bool is_alone(const tenon_kernel_t& kernel) {
  return kernel.members->control == nullptr || kernel.what.op == Op::kAxisIndex;
}

// What this process says of sizes that ran before. Null: they are new.
std::shared_ptr<const Said> agreed(tenon_kernel_t& kernel, const std::vector<int64_t>& dims) {
  const std::lock_guard lock(kernel.mutex);
  const auto found = kernel.agreed.find(dims);
  return found == kernel.agreed.end() ? nullptr : found->second;
}
void keep_agreed(tenon_kernel_t& kernel, const std::vector<int64_t>& dims) {
  const Texts texts = texts_of(kernel.what, dims);
  const std::lock_guard lock(kernel.mutex);
  if (kernel.agreed.size() >= kAgreedMax) kernel.agreed.clear();
  kernel.agreed[dims] = std::make_shared<const Said>(said(texts.all, texts.here));
}

std::unique_ptr<Job> job_of(tenon_kernel_t& kernel, const std::vector<int64_t>& dims, Range from,
                            Range to) {
  Ranks& ranks = kernel.device->ranks;
  std::shared_ptr<const Said> known;
  std::unique_ptr<Job> agreement;
  if (!is_alone(kernel)) {
    known = agreed(kernel, dims);
    if (known == nullptr || check() == Check::kAgree) {
      const Texts texts = texts_of(kernel.what, dims);
      agreement = ranks.agreement(*kernel.members, texts.all, texts.here);
    }
    if (check() != Check::kCompare) known = nullptr;
  }
  return std::make_unique<CollectiveJob>(
      kernel.what, ranks, *kernel.members, from, to, std::move(agreement),
      [&kernel, dims] { keep_agreed(kernel, dims); }, std::move(known));
}

uint64_t bytes_of(tenon_dtype_t dtype, const int64_t* dims, uint32_t rank) {
  uint64_t bytes = dtype_bytes(dtype);
  for (uint32_t i = 0; i < rank; ++i) bytes *= static_cast<uint64_t>(dims[i]);
  return bytes;
}

Status run(void*, tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  const tenon_dtype_t dtype = kernel->what.dtype;
  Range from, to;
  std::vector<int64_t> dims;
  if (args->input_count != 0) {
    dims.assign(args->input_dims[0], args->input_dims[0] + kernel->from_rank);
    from = {args->inputs[0]->data + args->input_offsets_bytes[0],
            bytes_of(dtype, args->input_dims[0], kernel->from_rank)};
  }
  to = {args->outputs[0]->data + args->output_offsets_bytes[0],
        bytes_of(dtype, args->output_dims[0], kernel->to_rank)};
  tenon_device_t& device = *kernel->device;
  std::unique_ptr<Job> job = job_of(*kernel, dims, from, to);
  if (args->queue == nullptr) return device.line.run(*job);
  return device.line.submit(args->queue->queue, std::move(job), args->waits, args->wait_count,
                            args->signal);
}

constexpr tenon_kernels_api_t make_table() {
  tenon_kernels_api_t table = {};
  table.size_bytes = sizeof table;
  table.flags = TENON_KERNELS_ON_QUEUE;
  table.device_kind = str("mesh");
  table.query = entry<query>;
  table.create = entry<create>;
  table.destroy = destroy;
  table.run = entry<run>;
  return table;
}

}  // namespace

const tenon_kernels_api_t kKernelsTable = make_table();

}  // namespace tenon::mesh
