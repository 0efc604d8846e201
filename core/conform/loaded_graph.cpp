#include "core/conform/loaded_graph.h"

#include <fmt/format.h>

namespace tenon::conform {

Outcome each_taken(Session& session, const std::vector<std::string>& texts,
                   const std::function<Outcome(Loaded&)>& check) {
  size_t tried = 0;
  for (const std::string& text : texts) {
    Loaded loaded(session);
    const Outcome made = loaded.make(text);
    if (made.verdict == Verdict::kSkip) continue;
    CONFORM_TRY(made);
    CONFORM_TRY(check(loaded));
    ++tried;
  }
  return tried == 0 ? skipped("the device does not take the graphs") : pass();
}

Outcome right_needs(Loaded& l, const Symbols& symbols) {
  Needs needs;
  l.bench.session().step(fmt::format("needs for {}", fmt::join(symbols, ", ")));
  const tenon_code_t code = needs_code(l.bench, l.compiled.executable, *l.part, symbols, &needs);
  CONFORM_EXPECT(code == TENON_OK, "needs for symbols [{}] gives {}", fmt::join(symbols, ", "),
                 code_text(code));
  for (uint32_t i = 0; i < l.part->main().yield_count; ++i) {
    const tenon_value_t yield = l.part->main().yields[i];
    tools::Dense tensor;
    tensor.dtype = l.part->value(yield).type.dtype;
    tensor.dims = l.part->dims_of(yield, symbols).value_or(Symbols());
    CONFORM_EXPECT(needs.dims[i] == tensor.dims,
                   "for symbols [{}] needs says that output {} is [{}], and it is [{}]",
                   fmt::join(symbols, ", "), i, fmt::join(needs.dims[i], ", "),
                   fmt::join(tensor.dims, ", "));
    const uint64_t size = needs.outputs[i].size_bytes_max;
    CONFORM_EXPECT(size == tensor.size_bytes(),
                   "for symbols [{}] needs says that output {} has {} bytes, and it has {}",
                   fmt::join(symbols, ", "), i, size, tensor.size_bytes());
    const uint32_t alias = needs.outputs[i].alias_input;
    CONFORM_EXPECT(alias == TENON_NO_ALIAS || alias < l.part->main().argument_count,
                   "needs says that output {} may share input {} of {}", i, alias,
                   l.part->main().argument_count);
  }
  CONFORM_EXPECT(needs.needs.lower_bound_bytes <= needs.needs.workspace_bytes,
                 "needs says that {} bytes live at once in a workspace of {}",
                 needs.needs.lower_bound_bytes, needs.needs.workspace_bytes);
  return pass();
}

}  // namespace tenon::conform
