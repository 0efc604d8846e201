#include "support.h"

#include "tenon/kernelgen/text_device.h"

namespace tenon::cpu {
namespace {

// Rates of one small server core, for comparing devices only: the order of magnitude decides.
kernelgen::DeviceRates rates_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return {30, 100, 50};
    case Isa::kAvx2:
      return {30, 60, 50};
    case Isa::kBaseline:
      break;
  }
  return {20, 15, 50};
}

}  // namespace

Status claim_nodes(const kernelgen::LiftHost& host, tenon_graph_t* graph, Isa isa,
                   const tenon_claim_sink_t& sink) {
  return kernelgen::claim_nodes(host, graph, {}, rates_of(isa), &sink);
}

}  // namespace tenon::cpu
