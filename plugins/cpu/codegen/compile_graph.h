// From a frozen subgraph to an artifact: kernelgen prints its distinct kernels in batches, clang
// compiles the batches on all cores, lld links them.
#ifndef TENON_PLUGINS_CPU_CODEGEN_COMPILE_GRAPH_H_
#define TENON_PLUGINS_CPU_CODEGEN_COMPILE_GRAPH_H_

#include <cstdint>
#include <string>

#include "isa.h"
#include "tenon/abi/graph.h"
#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/lower/lower_graph.h"
#include "tenon/kernelgen/schedule/schedule.h"

namespace tenon::cpu {

struct CompileSettings {
  Isa isa = Isa::kBaseline;
  uint32_t opt_level = 1;
};

struct CompiledGraph {
  std::string artifact;  // artifact_pack()
  uint32_t kernels_compiled = 0, kernels_from_cache = 0;
};

// Uses the cache without opening the compiler where possible: the whole artifact, or single kernels
// that another subgraph brought. Threads: safe.
Status compile_graph(const kernelgen::HostTables& host, tenon_graph_t* graph,
                     const CompileSettings& settings, CompiledGraph& out);

// Text for people: "stages" and "loops" (kernelgen's explanation), "source", "asm", "plan";
// "kernels" for viewers. NOT_FOUND for other formats.
Status explain_graph(const kernelgen::HostTables& host, tenon_graph_t* graph,
                     const CompileSettings& settings, std::string_view what, std::string& out);

kernelgen::Target target_of(Isa isa);

}  // namespace tenon::cpu
#endif
