#include "codegen/compile_graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <vector>

#include "artifact.h"
#include "tenon/abi/form.h"
#include "tenon/abi/host.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/kernelgen/device/device_program.h"
#include "tenon/kernelgen/ir/general.h"
#include "toolchain/compiler_client.h"
#include "toolchain/object_cache.h"

namespace tenon::cpu {
namespace {

using kernelgen::BuiltProgram;
using kernelgen::DeviceProgram;

// Larger batches share the cost of the prelude; smaller ones keep all cores busy and are reused by
// other models kernel by kernel.
constexpr uint32_t kMaxBatch = 8;

// Operations plus bytes. A kernel with less work than this runs code for any sizes when the cache
// has it: compiling it would pay off only after some hundred runs.
constexpr int64_t kSmallWork = int64_t{1} << 22;

struct Batch {
  uint32_t begin = 0, end = 0;
  bool ready = false;    // The code of its kernels is in the cache: only the launches are needed.
  bool general = false;  // One size-independent kernel, linked by itself.
  std::string text, object, object_key, messages, why;
  tenon_code_t code = TENON_OK;
  uint32_t failed = ~0u;  // The kernel that no code could be generated for.
  bool from_cache = false;
};

struct Work {
  const CompileSettings& settings;
  BuiltProgram built;
  std::vector<bool> general;  // By kernel: it is in its form for any sizes.
  std::vector<std::string> kernel_keys;
  std::vector<std::string> kernel_objects;  // By kernel: the key of the object that was found.
  std::vector<Batch> batches;
  std::atomic<uint64_t> kernels_done = 0;      // Of the batches that are built.
  std::map<std::string, std::string> objects;  // By key: found in the cache.
  std::map<std::string, std::string> modules;  // By key: general kernels.

  std::string options() const { return cat("O", settings.opt_level); }
};

// The places of all nodes in the user's model, which kernels and errors name. The structural hash
// leaves them out.
std::string places_of(tenon_graph_t* graph) {
  const tenon_host_graph_t& api = *context().graph;
  std::string out;
  const tenon_sink_t sink = sink_to(&out);
  auto view = sized<tenon_graph_view_t>();
  if (api.graph_view(api.self, graph, &view) != TENON_OK) {
    return {};
  }
  for (tenon_node_t i = 0; i < view.node_limit; ++i) {
    auto node = sized<tenon_node_view_t>();
    if (api.node_view(api.self, graph, i, &node) == TENON_OK && node.loc != 0) {
      (void)api.loc_text(api.self, graph, node.loc, &sink);
    }
    out += '\n';
  }
  return out;
}

// The key of an artifact covers what its code is generated from, and the places that it names. So
// messages about a model never name the nodes of another one that computes the same. An artifact
// holds no constants and refers to them by position; its code depends only on the constants written
// out in it. So a start with a warm cache reads no weights to find its code, and retrained weights
// find it too.
std::string artifact_key(tenon_graph_t* graph, const CompileSettings& settings) {
  static const auto* form = context().query<tenon_host_form_t>(TENON_HOST_FORM_ID);
  uint64_t hash[2] = {};
  if (!form ||
      form->hash(form->self, graph, kernelgen::kMostInlineConstantBytes, hash) != TENON_OK) {
    return {};
  }
  return cache_key(
      CacheKind::kArtifact, settings.isa, cat("O", settings.opt_level),
      cat(std::string_view(reinterpret_cast<const char*>(hash), sizeof hash), places_of(graph)));
}

// Looks for a kernel's object; true when it is in work.objects.
bool find_kernel(Work& work, uint32_t index) {
  const kernelgen::Hash128& hash = work.built.program.kernels[index].hash;
  work.kernel_keys[index] = cache_key(CacheKind::kKernel, work.settings.isa, work.options(),
                                      {reinterpret_cast<const char*>(&hash), sizeof hash});
  std::optional<std::string> object_key = cache_get(CacheKind::kKernel, work.kernel_keys[index]);
  if (!object_key) {
    return false;
  }
  work.kernel_objects[index] = *object_key;
  if (work.objects.contains(*object_key)) {
    return true;
  }
  std::optional<std::string> object = cache_get(CacheKind::kObject, *object_key);
  if (object) {
    work.objects.emplace(std::move(*object_key), std::move(*object));
  }
  return object.has_value();
}

std::string general_key(const Work& work, const kernelgen::Kernel& kernel) {
  const kernelgen::Hash128 hash = kernelgen::structural_hash(kernel);
  return cache_key(CacheKind::kGeneral, work.settings.isa, work.options(),
                   {reinterpret_cast<const char*>(&hash), sizeof hash});
}

// True when the module is in work.modules.
bool find_general(Work& work, const std::string& key) {
  if (!work.modules.contains(key)) {
    std::optional<std::string> module = cache_get(CacheKind::kGeneral, key);
    if (!module) {
      return false;
    }
    work.modules.emplace(key, std::move(*module));
  }
  return true;
}

bool is_small(Work& work, uint32_t index) {
  kernelgen::Pool& pool = work.built.kernels[index].pool;
  std::vector<int64_t> sizes;
  for (uint32_t i = 0; i < pool.extents().size(); ++i) {
    sizes.push_back(pool.likely(pool.extent(i)));
  }
  const kernelgen::ProgramKernel& kernel = work.built.program.kernels[index];
  const int64_t flops = kernel.flops.evaluate(sizes), bytes = kernel.bytes.evaluate(sizes);
  return flops <= kSmallWork && bytes <= kSmallWork - flops;
}

// Uses size-independent code for all kernels that lack code, but only if the cache has it for every
// one of them: then no compiler is needed.
void take_what_is_at_hand(Work& work, const std::vector<bool>& found) {
  std::map<uint32_t, kernelgen::General> forms;
  for (uint32_t i = 0; i < found.size(); ++i) {
    if (found[i] || work.general[i]) {
      continue;
    }
    kernelgen::General form;
    if (!is_small(work, i) || !generalise(work.built.kernels[i], &form) ||
        !find_general(work, general_key(work, form.kernel))) {
      return;
    }
    forms.emplace(i, std::move(form));
  }
  for (auto& [i, form] : forms) {
    take_general(&work.built, i, std::move(form));
    work.general[i] = true;
  }
}

// Adds a kernel as a batch of its own. Equal kernels share one compilation.
void add_general(Work& work, uint32_t index) {
  Batch& batch = work.batches.emplace_back();
  batch.begin = index;
  batch.end = index + 1;
  batch.general = true;
  batch.object_key = general_key(work, work.built.kernels[index]);
  const auto same = [&](const Batch& other) {
    return &other != &batch && other.general && other.object_key == batch.object_key;
  };
  batch.ready = find_general(work, batch.object_key) ||
                std::any_of(work.batches.begin(), work.batches.end(), same);
}

void make_batches(Work& work, uint32_t threads) {
  work.kernel_keys.clear();
  work.kernel_objects.clear();
  work.batches.clear();
  work.objects.clear();
  work.modules.clear();
  const uint32_t count = static_cast<uint32_t>(work.built.program.kernels.size());
  work.kernel_keys.resize(count);
  work.kernel_objects.resize(count);
  std::vector<bool> found(count);
  for (uint32_t i = 0; i < count; ++i) {
    found[i] = !work.general[i] && find_kernel(work, i);
  }
  take_what_is_at_hand(work, found);
  uint32_t missing = 0;
  for (uint32_t i = 0; i < count; ++i) {
    missing += found[i] || work.general[i] ? 0 : 1;
  }
  const uint32_t size = std::clamp((missing + threads - 1) / std::max(1u, threads), 1u, kMaxBatch);
  for (uint32_t i = 0; i < count; ++i) {
    if (work.general[i]) {
      add_general(work, i);
      continue;
    }
    Batch* last = work.batches.empty() ? nullptr : &work.batches.back();
    if (!last || last->general || last->ready != found[i] || last->end - last->begin >= size) {
      work.batches.push_back({});
      last = &work.batches.back();
      last->begin = i;
      last->ready = found[i];
    }
    last->end = i + 1;
  }
}

// Whether the code that was found is that of the batch's kernels. Their entries decide it: code of
// another process with the same hash could take its arguments in another order.
bool has_code(const Work& work, const Batch& batch) {
  if (batch.general) {
    const auto it = work.modules.find(batch.object_key);
    return it == work.modules.end() ||  // another batch builds it
           it->second.find(work.built.program.kernels[batch.begin].entry) != std::string::npos;
  }
  for (uint32_t i = batch.begin; i < batch.end; ++i) {
    const auto object = work.objects.find(work.kernel_objects[i]);
    if (object == work.objects.end() ||
        object->second.find(work.built.program.kernels[i].entry) == std::string::npos) {
      return false;
    }
  }
  return true;
}

void build_batch(Work& work, Batch& batch) {
  std::string why;
  if (!generate_batch(&work.built, batch.begin, batch.end, target_of(work.settings.isa),
                      &batch.text, &batch.failed, &why)) {
    batch.code = TENON_INTERNAL;
    batch.why = why;
    batch.messages = cat("No code could be generated: ", why, ".");
    return;
  }
  if (batch.ready && has_code(work, batch)) {
    return;
  }
  batch.ready = false;
  if (!batch.general) {
    batch.object_key = cache_key(CacheKind::kObject, work.settings.isa, work.options(), batch.text);
    if (std::optional<std::string> object = cache_get(CacheKind::kObject, batch.object_key)) {
      batch.object = std::move(*object);
      batch.from_cache = true;
      return;
    }
  }
  BuildRequest request;
  request.isa = work.settings.isa;
  request.opt_level = work.settings.opt_level;
  request.text = batch.text;
  // A mark without an object: the last process that compiled this text died before it stored the
  // object. The second attempt runs where a crash of the compiler does no harm.
  request.isolated = cache_get(CacheKind::kAttempt, batch.object_key).has_value();
  if (!request.isolated) {
    cache_put(CacheKind::kAttempt, batch.object_key, "1");
  }
  BuildResult result = build_unit(request);
  if (result.code == TENON_OK && batch.general) {
    result = link_units({&result.bytes, 1});
  }
  if (result.code != TENON_OK) {
    // Generated text that does not compile is this project's error, not the user's.
    const bool wrong_text = result.code == TENON_INVALID_ARGUMENT;
    batch.code = wrong_text ? TENON_INTERNAL : result.code;
    batch.messages =
        cat(wrong_text ? "Generated code does not compile: " : "", result.messages.substr(0, 4000));
    return;
  }
  batch.object = std::move(result.bytes);
  cache_put(batch.general ? CacheKind::kGeneral : CacheKind::kObject, batch.object_key,
            batch.object);
}

tenon_code_t build_range(void* context_pointer, uint32_t, int64_t begin, int64_t end) {
  Work& work = *static_cast<Work*>(context_pointer);
  return detail::guarded(context().host, [&]() -> Status {
    for (int64_t i = begin; i < end; ++i) {
      if (cancelled()) {
        return TENON_CANCELLED;
      }
      Batch& batch = work.batches[static_cast<size_t>(i)];
      build_batch(work, batch);
      const uint32_t kernels = batch.end - batch.begin;
      progress("kernels", work.kernels_done.fetch_add(kernels) + kernels,
               work.kernel_objects.size());
    }
    return {};
  });
}

Status build_batches(Work& work, const tenon_host_threads_t* threads) {
  const auto count = static_cast<int64_t>(work.batches.size());
  TENON_TRY(threads ? threads->parallel(threads->self, &build_range, &work, count, 1)
                    : build_range(&work, 0, 0, count));
  for (const Batch& batch : work.batches) {
    if (batch.code != TENON_OK) {
      return fail(batch.code, batch.messages);
    }
  }
  return {};
}

// Whether kernels that no code could be generated for are taken apart in the next program.
bool take_failed_apart(const kernelgen::HostTables& host, Work& work) {
  bool taken = false;
  for (const Batch& batch : work.batches) {
    taken |= batch.failed != ~0u && take_apart(host, &work.built, batch.failed, batch.why);
  }
  return taken;
}

// Links the code of all batches into shared objects.
Status link(Work& work, CompiledGraph& out, std::vector<std::string>& code) {
  std::vector<std::string> objects;
  for (auto& [key, object] : work.objects) {
    objects.push_back(std::move(object));
  }
  for (Batch& batch : work.batches) {
    const uint32_t kernels = batch.end - batch.begin;
    (batch.ready || batch.from_cache ? out.kernels_from_cache : out.kernels_compiled) += kernels;
    if (const auto it = work.modules.find(batch.object_key);
        batch.general && it != work.modules.end()) {
      code.push_back(std::move(it->second));
      work.modules.erase(it);
    }
    if (batch.ready) {
      continue;
    }
    if (batch.general) {
      code.push_back(std::move(batch.object));
      continue;
    }
    for (uint32_t i = batch.begin; i < batch.end; ++i) {
      cache_put(CacheKind::kKernel, work.kernel_keys[i], batch.object_key);
    }
    objects.push_back(std::move(batch.object));
  }
  if (objects.empty()) {
    return {};
  }
  BuildResult linked = link_units(objects);
  if (linked.code != TENON_OK) {
    return fail(linked.code,
                cat("Generated code does not link: ", linked.messages.substr(0, 4000)));
  }
  code.push_back(std::move(linked.bytes));
  return {};
}

Status lower_and_fuse(const kernelgen::HostTables& host, tenon_graph_t* graph, Isa isa,
                      BuiltProgram& out, std::vector<bool>& general) {
  std::string why;
  if (!build_program(host, graph, target_of(isa), &out, &why)) {
    return fail(out.broken ? TENON_INTERNAL : TENON_UNIMPLEMENTED,
                cat("The cpu device cannot compile this subgraph: ", why, "."));
  }
  // Kernels that do not depend on their sizes are the same for all ranks.
  general.resize(out.kernels.size());
  for (uint32_t i = 0; i < out.kernels.size(); ++i) {
    kernelgen::General form;
    general[i] = generalise(out.kernels[i], &form) && form.was_open;
    if (general[i]) {
      take_general(&out, i, std::move(form));
    }
  }
  return {};
}

// As compile_graph() does, without a compiler.
Status lower_and_generate(const kernelgen::HostTables& host, tenon_graph_t* graph, Isa isa,
                          BuiltProgram& out, std::string& text) {
  for (;;) {
    std::vector<bool> general;
    TENON_TRY(lower_and_fuse(host, graph, isa, out, general));
    std::string why;
    uint32_t failed = 0;
    const auto count = static_cast<uint32_t>(out.program.kernels.size());
    if (generate_batch(&out, 0, count, target_of(isa), &text, &failed, &why)) {
      return {};
    }
    if (!take_apart(host, &out, failed, why)) {
      return fail(TENON_INTERNAL, why);
    }
  }
}

// From the graph to the code of all batches.
Status build(const kernelgen::HostTables& host, tenon_graph_t* graph, Work& work) {
  const auto* threads = context().query<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
  for (;;) {
    TENON_TRY(lower_and_fuse(host, graph, work.settings.isa, work.built, work.general));
    make_batches(work, threads ? threads->count(threads->self) : 1);
    Status done = build_batches(work, threads);
    if (done.ok() || !take_failed_apart(host, work)) {
      return done;
    }
  }
}

std::string plan_text(const DeviceProgram& program) {
  std::string out =
      cat("symbols ", program.symbol_count, ", inputs ", program.input_count, ", outputs ",
          program.output_count, ", constants ", program.constant_count, "\n");
  constexpr std::string_view kinds[] = {"input", "output", "constant", "temp", "persistent"};
  const std::vector<bool> used = kernelgen::used_by_steps(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const kernelgen::ProgramBuffer& buffer = program.buffers[i];
    if (buffer.kind == kernelgen::BufferKind::kTemp && !used[i]) continue;
    const bool fixed = buffer.bytes.extent_limit() == 0;
    out += cat("buffer ", i, ": ", kinds[static_cast<size_t>(buffer.kind)], " ", buffer.index, " ",
               kernelgen::name_of(buffer.type),
               fixed ? cat(", ", buffer.bytes.evaluate({}), " bytes") : "", "\n");
  }
  for (const auto* steps : {&program.load_steps, &program.steps}) {
    for (size_t i = 0; i < steps->size(); ++i) {
      const kernelgen::ProgramStep& step = (*steps)[i];
      out += cat(steps == &program.steps ? "step " : "load step ", i, ": ",
                 program.kernels[step.kernel].entry, " (", step.name, ")");
      for (size_t b = 0; b < step.buffers.size(); ++b) {
        out += cat(" ", b < step.written.size() && step.written[b] ? "=" : "", step.buffers[b]);
      }
      for (size_t p = 0; p + 1 < step.in_place.size(); p += 2) {
        out += cat(", ", step.in_place[p], step.copies ? " copied from " : " in place of ",
                   step.in_place[p + 1]);
      }
      for (uint32_t part : step.parts) {
        out += cat(", part of ", part);
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace

kernelgen::Target target_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Bf16:
      return kernelgen::Target::avx512_bf16();
    case Isa::kAvx512Vnni:
      return kernelgen::Target::avx512_vnni();
    case Isa::kAvx512:
      return kernelgen::Target::avx512();
    case Isa::kAvx2Vnni:
      return kernelgen::Target::avx2_vnni();
    case Isa::kAvx2:
      return kernelgen::Target::avx2();
    case Isa::kNeon:
      return kernelgen::Target::neon();
    case Isa::kBaseline:
      break;
  }
  return kernelgen::Target::baseline();
}

Status compile_graph(const kernelgen::HostTables& host, tenon_graph_t* graph,
                     const CompileSettings& settings, CompiledGraph& out) {
  const std::string key = artifact_key(graph, settings);
  if (!key.empty()) {
    if (std::optional<std::string> cached = cache_get(CacheKind::kArtifact, key)) {
      ArtifactParts parts;
      DeviceProgram program;
      std::string why;
      // The cache has checked the bytes; the record says how many kernels were not compiled.
      if (artifact_unpack(*cached, parts).ok() &&
          DeviceProgram::read(parts.program.data(), parts.program.size(), &program, &why)) {
        out.kernels_from_cache = static_cast<uint32_t>(program.kernels.size());
        out.artifact = std::move(*cached);
        return {};
      }
    }
  }
  Work work = {settings, {}, {}, {}, {}, {}, {}, {}};
  TENON_TRY(build(host, graph, work));
  std::vector<std::string> code;
  TENON_TRY(link(work, out, code));
  const std::string program = work.built.program.bytes();
  out.artifact = artifact_pack({settings.isa, program, {code.begin(), code.end()}});
  log("cpu", TENON_LOG_DEBUG, "compiled ", out.kernels_compiled, " kernels and found ",
      out.kernels_from_cache, " for ", name_of(settings.isa), " in ", work.batches.size(),
      " batches, ", out.artifact.size() - program.size(), " bytes of code");
  if (!key.empty()) {
    cache_put(CacheKind::kArtifact, key, out.artifact);
  }
  return {};
}

Status explain_graph(const kernelgen::HostTables& host, tenon_graph_t* graph,
                     const CompileSettings& settings, std::string_view what, std::string& out) {
  constexpr std::string_view kDumps[] = {"stages", "loops", "source", "kernels", "asm", "plan"};
  if (std::ranges::find(kDumps, what) == std::end(kDumps)) {
    return fail(TENON_NOT_FOUND,
                cat("The cpu device can show stages, loops, source, kernels, asm and plan, not ",
                    quoted(what), "."));
  }
  BuiltProgram built;
  std::string text;
  TENON_TRY(lower_and_generate(host, graph, settings.isa, built, text));
  if (what == "stages" || what == "loops") {
    std::string why;
    if (!explain_program(&built, target_of(settings.isa), &out, &why)) {
      return fail(TENON_INTERNAL, why);
    }
    return {};
  }
  if (what == "plan") {
    out = plan_text(built.program);
    return {};
  }
  if (what == "kernels") {
    out = kernels_json(built.program);
    return {};
  }
  if (what == "source") {
    out = std::move(text);
    return {};
  }
  BuildRequest request;
  request.isa = settings.isa;
  request.opt_level = settings.opt_level;
  request.output = TENON_CLANG_ASSEMBLY;
  request.text = text;
  BuildResult result = build_unit(request);
  if (result.code != TENON_OK) {
    return fail(TENON_INTERNAL, result.messages);
  }
  out = std::move(result.bytes);
  return {};
}

}  // namespace tenon::cpu
