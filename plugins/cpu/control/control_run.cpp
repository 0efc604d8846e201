#include "control/control_run.h"

#include <algorithm>
#include <cstring>

#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {

using Kind = ControlPart::Kind;

Status ControlRun::run() {
  TENON_TRY(bind_values());
  const ControlRegion& main = program_.regions[0];
  for (size_t i = 0; i < main.yields.size(); ++i) {
    // A data-dependent value has its exact size only when it is known, so it goes through the
    // arena.
    if (loaded_.direct[0][i] && !value(main.yields[i]).data_dependent)
      values_.want(main.yields[i], output(i));
  }
  TENON_TRY(run_region(0));
  for (size_t i = 0; i < main.yields.size(); ++i) {
    const uint64_t bytes = sizes_.bytes(main.yields[i]);
    tenon_span_t span = *tenon_call_output(&call_, static_cast<uint32_t>(i));
    if (span.buffer == nullptr && call_.output != nullptr) {
      TENON_TRY(call_.output(call_.output_self, static_cast<uint32_t>(i), bytes, &span.buffer,
                             &span.offset_bytes));
    }
    if (span.buffer == nullptr || bytes > span.buffer->size_bytes - span.offset_bytes) {
      return fail(TENON_INTERNAL,
                  cat("Output ", i, " has ", bytes, " bytes, more than its buffer."));
    }
    values_.copy(span.buffer->data + span.offset_bytes, main.yields[i]);
  }
  for (uint32_t i = 0; i < call_.out_symbol_count && i < program_.out_symbols.size(); ++i) {
    call_.out_symbols[i] = sizes_.symbol(program_.out_symbols[i]);
  }
  return {};
}

Status ControlRun::bind_values() {
  for (uint32_t v = 0; v < program_.values.size(); ++v) {
    const ControlValue& it = value(v);
    if (it.kind == ControlValue::Kind::kConstant) {
      values_[v] = static_cast<char*>(const_cast<void*>(loaded_.constant_data[it.index]));
    } else if (it.kind == ControlValue::Kind::kInput) {
      const tenon_span_t& span = *tenon_call_input(&call_, it.index);
      if (!span.buffer || span.offset_bytes > span.buffer->size_bytes ||
          sizes_.bytes(v) > span.buffer->size_bytes - span.offset_bytes) {
        return fail(TENON_OUT_OF_RANGE, cat("The buffer of an input is smaller than the ",
                                            sizes_.bytes(v), " bytes it needs."));
      }
      values_[v] = span.buffer->data + span.offset_bytes;
    }
  }
  for (size_t i = 0; i < program_.regions[0].yields.size(); ++i) {
    const tenon_span_t& span = *tenon_call_output(&call_, static_cast<uint32_t>(i));
    const uint32_t v = program_.regions[0].yields[i];
    if (!span.buffer && value(v).data_dependent) continue;
    if (!span.buffer || span.offset_bytes > span.buffer->size_bytes ||
        (!value(v).data_dependent &&
         sizes_.bytes(v) > span.buffer->size_bytes - span.offset_bytes)) {
      return fail(TENON_OUT_OF_RANGE, cat("The buffer of an output is smaller than the ",
                                          sizes_.bytes(v), " bytes it needs."));
    }
  }
  return {};
}

Status ControlRun::run_region(uint32_t index) {
  sizes_.forget(program_.regions[index]);
  for (const ControlPart& part : program_.regions[index].parts) {
    switch (part.kind) {
      case Kind::kKernels:
        TENON_TRY(kernels_.run(part));
        break;
      case Kind::kSwitch:
        TENON_TRY(run_switch(part));
        break;
      case Kind::kWhile:
        TENON_TRY(run_while(part));
        break;
      case Kind::kScan:
        TENON_TRY(run_scan(part));
        break;
      case Kind::kNative:
        TENON_TRY(run_native(part));
        break;
      case Kind::kBarrier:
        run_barrier(part);
        break;
    }
  }
  return {};
}

void ControlRun::run_barrier(const ControlPart& part) {
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    char* const wanted = values_.take_wanted(part.outputs[i]);
    if (wanted != nullptr) values_.copy(wanted, part.inputs[i]);
    values_[part.outputs[i]] = wanted != nullptr ? wanted : values_[part.inputs[i]];
  }
}

// The number that selects a branch: an integer, or a predicate.
int64_t ControlRun::index_of(uint32_t v) {
  int64_t number = 0;
  if (value(v).element_bytes == 8) {
    memcpy(&number, values_[v], 8);
  } else if (value(v).element_bytes == 4) {
    int32_t narrow = 0;
    memcpy(&narrow, values_[v], 4);
    number = narrow;
  } else {
    number = *values_[v] != 0;
  }
  return number;
}

Status ControlRun::run_switch(const ControlPart& part) {
  const int64_t last = static_cast<int64_t>(part.regions.size()) - 1;
  const uint32_t chosen =
      part.regions[static_cast<size_t>(std::clamp<int64_t>(index_of(part.inputs[0]), 0, last))];
  const ControlRegion& region = program_.regions[chosen];
  for (size_t i = 0; i < region.arguments.size(); ++i)
    values_[region.arguments[i]] = values_[part.inputs[i + 1]];
  for (size_t i = 0; i < region.yields.size(); ++i) {
    if (loaded_.direct[chosen][i]) values_.want(region.yields[i], values_.wanted(part.outputs[i]));
  }
  TENON_TRY(run_region(chosen));
  for (const ControlSize& s : part.defines) {
    TENON_TRY(sizes_.learn(s.symbol, sizes_.dim(region.yields[s.index], s.dim)));
  }
  for (size_t i = 0; i < region.yields.size(); ++i) {
    char* wanted = values_.take_wanted(part.outputs[i]);
    if (wanted != nullptr) values_.copy(wanted, region.yields[i]);
    values_[part.outputs[i]] = wanted != nullptr ? wanted : values_[region.yields[i]];
  }
  return {};
}

}  // namespace tenon::cpu
