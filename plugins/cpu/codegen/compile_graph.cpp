#include "compile_graph.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "../artifact.h"
#include "../compiler_client.h"
#include "../object_cache.h"
#include "tenon/abi/form.h"
#include "tenon/abi/host.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/kernelgen/device_program.h"

namespace tenon::cpu {
namespace {

using kernelgen::BuiltProgram;
using kernelgen::DeviceProgram;

// More kernels to a unit share the cost of the prelude; fewer keep all cores busy and are found
// again by other models one by one.
constexpr uint32_t kMaxBatch = 8;

struct Batch {
  uint32_t begin = 0, end = 0;
  bool ready = false;  // Its kernels' objects are at hand: only the launches are wanted.
  std::string text, object, object_key, messages;
  tenon_code_t code = TENON_OK;
  bool from_cache = false;
};

struct Work {
  const CompileSettings& settings;
  BuiltProgram built;
  std::vector<std::string> kernel_keys;
  std::vector<Batch> batches;
  std::map<std::string, std::string> objects;  // By key: those found in the cache.

  std::string options() const { return cat("O", settings.opt_level); }
};

// What code is generated from: an artifact holds no constants, names them by their place, and its code depends on the values of those
// alone that are written out in it. So a start with a warm cache reads no weights to find its code, and weights that were trained
// further find it too.
std::string artifact_key(tenon_graph_t* graph, const CompileSettings& settings) {
  static const auto* form = context().query<tenon_host_form_t>(TENON_HOST_FORM_ID);
  uint64_t hash[2] = {};
  if (!form || form->hash(form->self, graph, kernelgen::kMostInlineConstantBytes, hash) != TENON_OK) {
    return {};
  }
  return cache_key(CacheKind::kArtifact, settings.isa, cat("O", settings.opt_level),
                   {reinterpret_cast<const char*>(hash), sizeof hash});
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
  if (work.objects.contains(*object_key)) {
    return true;
  }
  std::optional<std::string> object = cache_get(CacheKind::kObject, *object_key);
  if (object) {
    work.objects.emplace(std::move(*object_key), std::move(*object));
  }
  return object.has_value();
}

void make_batches(Work& work, uint32_t threads) {
  const uint32_t count = static_cast<uint32_t>(work.built.program.kernels.size());
  work.kernel_keys.resize(count);
  std::vector<bool> found(count);
  uint32_t missing = 0;
  for (uint32_t i = 0; i < count; ++i) {
    found[i] = find_kernel(work, i);
    missing += found[i] ? 0 : 1;
  }
  const uint32_t size = std::clamp((missing + threads - 1) / std::max(1u, threads), 1u, kMaxBatch);
  for (uint32_t i = 0; i < count; ++i) {
    Batch* last = work.batches.empty() ? nullptr : &work.batches.back();
    if (!last || last->ready != found[i] || last->end - last->begin >= size) {
      work.batches.push_back({});
      last = &work.batches.back();
      last->begin = i;
      last->ready = found[i];
    }
    last->end = i + 1;
  }
}

void build_batch(Work& work, Batch& batch) {
  std::string why;
  if (!generate_batch(&work.built, batch.begin, batch.end, target_of(work.settings.isa),
                      &batch.text, &why)) {
    batch.code = TENON_INTERNAL;
    batch.messages = cat("No code could be generated: ", why, ".");
    return;
  }
  if (batch.ready) {
    return;
  }
  batch.object_key = cache_key(CacheKind::kObject, work.settings.isa, work.options(), batch.text);
  if (std::optional<std::string> object = cache_get(CacheKind::kObject, batch.object_key)) {
    batch.object = std::move(*object);
    batch.from_cache = true;
    return;
  }
  BuildRequest request;
  request.isa = work.settings.isa;
  request.opt_level = work.settings.opt_level;
  request.text = batch.text;
  // A mark without an object: the last process that compiled this text did not live to store it.
  // The second attempt is made where a crash of the compiler harms nobody.
  request.isolated = cache_get(CacheKind::kAttempt, batch.object_key).has_value();
  if (!request.isolated) {
    cache_put(CacheKind::kAttempt, batch.object_key, "1");
  }
  BuildResult result = build_unit(request);
  if (result.code != TENON_OK) {
    // Generated text that does not compile is this project's error, not the user's.
    const bool wrong_text = result.code == TENON_INVALID_ARGUMENT;
    batch.code = wrong_text ? TENON_INTERNAL : result.code;
    batch.messages =
        cat(wrong_text ? "Generated code does not compile: " : "", result.messages.substr(0, 4000));
    return;
  }
  batch.object = std::move(result.bytes);
  cache_put(CacheKind::kObject, batch.object_key, batch.object);
}

tenon_code_t build_range(void* context_pointer, uint32_t, int64_t begin, int64_t end) {
  Work& work = *static_cast<Work*>(context_pointer);
  return detail::guarded(context().host, [&]() -> Status {
    for (int64_t i = begin; i < end; ++i) {
      if (cancelled()) {
        return TENON_CANCELLED;
      }
      build_batch(work, work.batches[static_cast<size_t>(i)]);
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

Status link(Work& work, CompiledGraph& out, std::string& code) {
  std::vector<std::string> objects;
  for (auto& [key, object] : work.objects) {
    objects.push_back(std::move(object));
  }
  for (Batch& batch : work.batches) {
    const uint32_t kernels = batch.end - batch.begin;
    (batch.ready || batch.from_cache ? out.kernels_from_cache : out.kernels_compiled) += kernels;
    if (batch.ready) {
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
  code = std::move(linked.bytes);
  return {};
}

Status lift_and_fuse(const kernelgen::LiftHost& host, tenon_graph_t* graph, Isa isa,
                     BuiltProgram& out) {
  std::string why;
  if (!build_program(host, graph, target_of(isa), &out, &why)) {
    return fail(TENON_UNIMPLEMENTED,
                cat("The cpu device cannot compile this subgraph: ", why, "."));
  }
  return {};
}

std::string plan_text(const DeviceProgram& program) {
  std::string out =
      cat("symbols ", program.symbol_count, ", inputs ", program.input_count, ", outputs ",
          program.output_count, ", constants ", program.constant_count, "\n");
  constexpr std::string_view kinds[] = {"input", "output", "constant", "temp", "persistent"};
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const kernelgen::ProgramBuffer& buffer = program.buffers[i];
    out += cat("buffer ", i, ": ", kinds[static_cast<size_t>(buffer.kind)], " ", buffer.index, " ",
               kernelgen::name_of(buffer.type), "\n");
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
        out += cat(", ", step.in_place[p], " in place of ", step.in_place[p + 1]);
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
    case Isa::kAvx512:
      return kernelgen::Target::avx512();
    case Isa::kAvx2:
      return kernelgen::Target::avx2();
    case Isa::kBaseline:
      break;
  }
  return kernelgen::Target::baseline();
}

Status compile_graph(const kernelgen::LiftHost& host, tenon_graph_t* graph,
                     const CompileSettings& settings, CompiledGraph& out) {
  const std::string key = artifact_key(graph, settings);
  if (!key.empty()) {
    if (std::optional<std::string> cached = cache_get(CacheKind::kArtifact, key)) {
      ArtifactParts parts;
      DeviceProgram program;
      std::string why;
      // The cache checked the bytes; the record says how many kernels were spared.
      if (artifact_unpack(*cached, parts).ok() &&
          DeviceProgram::read(parts.program.data(), parts.program.size(), &program, &why)) {
        out.kernels_from_cache = static_cast<uint32_t>(program.kernels.size());
        out.artifact = std::move(*cached);
        return {};
      }
    }
  }
  Work work = {settings, {}, {}, {}, {}};
  TENON_TRY(lift_and_fuse(host, graph, settings.isa, work.built));
  const auto* threads = context().query<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
  make_batches(work, threads ? threads->count(threads->self) : 1);
  TENON_TRY(build_batches(work, threads));
  std::string code;
  TENON_TRY(link(work, out, code));
  const std::string program = work.built.program.bytes();
  out.artifact = artifact_pack({settings.isa, program, code});
  log("cpu", TENON_LOG_DEBUG, "compiled ", out.kernels_compiled, " kernels and found ",
      out.kernels_from_cache, " for ", name_of(settings.isa), " in ", work.batches.size(),
      " batches, ", code.size(), " bytes of code");
  if (!key.empty()) {
    cache_put(CacheKind::kArtifact, key, out.artifact);
  }
  return {};
}

Status explain_graph(const kernelgen::LiftHost& host, tenon_graph_t* graph,
                     const CompileSettings& settings, std::string_view what, std::string& out) {
  BuiltProgram built;
  TENON_TRY(lift_and_fuse(host, graph, settings.isa, built));
  const kernelgen::Target target = target_of(settings.isa);
  std::string why;
  if (what == "l1" || what == "l2") {
    if (!explain_program(&built, target, &out, &why)) {
      return fail(TENON_INTERNAL, why);
    }
    return {};
  }
  std::string text;
  if (what != "source" && what != "asm" && what != "plan") {
    return fail(TENON_NOT_FOUND, cat("The cpu device can show l1, l2, source, asm and plan, not ",
                                     quoted(what), "."));
  }
  if (!generate_batch(&built, 0, static_cast<uint32_t>(built.program.kernels.size()), target, &text,
                      &why)) {
    return fail(TENON_INTERNAL, why);
  }
  if (what == "plan") {
    out = plan_text(built.program);
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
