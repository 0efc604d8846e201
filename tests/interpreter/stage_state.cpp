#include "tests/interpreter/stage_state.h"

#include <algorithm>

namespace tenon::interpreter {

using kernelgen::Buffer;
using kernelgen::Kernel;

StageState::StageState(const Kernel& kernel, std::span<const int64_t> extents,
                       std::span<const Place> places, const RunOptions& options,
                       const std::vector<int64_t>* temp_elements, Report* report)
    : k_(kernel),
      extents_(extents),
      report_(*report),
      clock_(options.clock != nullptr ? options.clock : &own_clock_),
      flat_(temp_elements != nullptr) {
  const size_t n = k_.buffers.size();
  for (const kernelgen::Axis& a : k_.pool.axes())
    axes_.push_back(a.extent == kNone ? 0 : size(a.extent));
  for (uint32_t b = 0; b < n; ++b) forms_.push_back(form_of(b));
  memory_.resize(n);
  own_.resize(n);
  touches_.resize(n);
  first_point_ = *clock_ + 1;
  for (uint32_t b = 0; b < n; ++b) {
    const Buffer& buffer = k_.buffers[b];
    const bool own = places[b].memory == nullptr;
    names_.push_back(places[b].name);
    rewritten_.push_back(places[b].rewritten);
    temp_.push_back(own);
    if (own && temp_elements != nullptr && (*temp_elements)[b] >= 0)
      forms_[b].elements = (*temp_elements)[b];
    if (own && buffer.alias_of < 0)
      own_[b] = std::make_unique<Memory>(Memory::unwritten(buffer.type, forms_[b].elements));
    memory_[b] = own ? own_[b].get() : places[b].memory;
  }
  for (uint32_t b = 0; b < n; ++b) {
    const int32_t alias = k_.buffers[b].alias_of;
    if (!temp_[b] || alias < 0) continue;
    memory_[b] = memory_[static_cast<size_t>(alias)];
    // It has the layout of the buffer whose memory it shares.
    Form form = forms_[static_cast<size_t>(alias)];
    form.dims = forms_[b].dims;
    forms_[b] = std::move(form);
  }
}

int64_t StageState::size(ExprId e) const {
  const auto known = k_.pool.value(e);
  return known ? *known : k_.pool.evaluate(e, extents_);
}

Form StageState::form_of(uint32_t b) const {
  const Buffer& buffer = k_.buffers[b];
  Form form;
  form.offset = buffer.offset == kNone ? 0 : size(buffer.offset);
  form.elements = 1;
  for (ExprId d : buffer.dims) {
    form.dims.push_back(size(d));
    form.elements *= form.dims.back();
  }
  for (ExprId s : buffer.strides) form.strides.push_back(size(s));
  return form;
}

int64_t StageState::offset(uint32_t buffer, std::span<const R> index, const Reg* registers) const {
  const Form& form = forms_[buffer];
  if (flat_) {
    const int64_t at = registers[index[0]].i;
    return at >= 0 && at < form.elements ? at : -1;
  }
  int64_t at = form.offset;
  for (size_t d = 0; d < index.size(); ++d) {
    const int64_t i = registers[index[d]].i;
    if (i < 0 || i >= form.dims[d]) return -1;
    at += i * form.strides[d];
  }
  return at < static_cast<int64_t>(memory_[buffer]->cells.size()) ? at : -1;
}

// Whether the element was stored by the current point, or before the kernel and not by a temp of
// it.
bool StageState::current(uint32_t buffer, const Cell& cell) const {
  return cell.name == names_[buffer] &&
         (cell.point == point_ || (!temp_[buffer] && cell.point < first_point_));
}

Reg StageState::load(const Load& l, const Reg* registers) {
  if (l.guard != kNoReg && registers[l.guard].i == 0) return registers[l.other];
  const int64_t at = offset(l.buffer, l.index, registers);
  if (at < 0) {
    std::string index;
    for (R r : l.index) index += (index.empty() ? "" : ", ") + std::to_string(registers[r].i);
    fact("loads b" + std::to_string(l.buffer) + "[" + index + "], which is outside of it");
    return Reg{.i = 0};
  }
  Cell& cell = memory_[l.buffer]->cells[static_cast<size_t>(at)];
  if (!current(l.buffer, cell)) report_load(l.buffer, at, cell);
  if (watched_ != nullptr && (*watched_)[l.buffer]) touch_load(l.buffer, at);
  return cell.value;
}

void StageState::report_load(uint32_t buffer, int64_t at, const Cell& cell) {
  const std::string what = "loads " + element_text(buffer, at);
  if (cell.name == kNotStored || (temp_[buffer] && cell.point < first_point_))
    return fact(what + ", which was never stored");
  if (cell.name != names_[buffer]) return fact(what + ", where another value lies by now");
  fact(what + ", which another point of the lead axes stored");
}

Cell* StageState::element(const CodeView& view, const Reg* registers) {
  if (view.guard != kNoReg && registers[view.guard].i == 0) return nullptr;
  const int64_t at = offset(view.buffer, view.index, registers);
  if (at >= 0) return &memory_[view.buffer]->cells[static_cast<size_t>(at)];
  std::string index;
  for (R r : view.index) index += (index.empty() ? "" : ", ") + std::to_string(registers[r].i);
  fact("stores to b" + std::to_string(view.buffer) + "[" + index + "], which is outside of it");
  return nullptr;
}

void StageState::store(const CodeView& view, const Reg* registers, Reg value, bool again) {
  Cell* cell = element(view, registers);
  if (cell == nullptr) return;
  const uint32_t b = view.buffer;
  const int64_t at = cell - memory_[b]->cells.data();
  const bool same_point = cell->point == point_, earlier = cell->point < first_point_;
  if (cell->name == names_[b] && !rewritten_[b] && !again &&
      (same_point || (!temp_[b] && earlier))) {
    fact("stores " + element_text(b, at) + " a second time");
  } else if (cell->name != kNotStored && !same_point && !earlier && !own_[b]) {
    fact("stores " + element_text(b, at) + ", which another point of the lead axes stored");
  }
  if (watched_ != nullptr && (*watched_)[b]) touch_store(b, at);
  *cell = {value, point_, names_[b]};
}

Reg StageState::old_value(const CodeView& view, Cell* cell) {
  if (!current(view.buffer, *cell))
    report_load(view.buffer, cell - memory_[view.buffer]->cells.data(), *cell);
  return cell->value;
}

StageState::Touch& StageState::touch(uint32_t buffer, int64_t at) {
  const int32_t alias = k_.buffers[buffer].alias_of;
  std::vector<Touch>& list = touches_[alias >= 0 ? static_cast<size_t>(alias) : buffer];
  if (list.empty()) list.resize(memory_[buffer]->cells.size());
  return list[static_cast<size_t>(at)];
}

void StageState::touch_load(uint32_t buffer, int64_t at) {
  Touch& t = touch(buffer, at);
  if (t.wrote >= first_moment_ && t.wrote != moment_)
    fact("loads " + element_text(buffer, at) + ", which another point of the same loops stores");
  if (t.read_last < first_moment_) t.read_first = moment_;
  t.read_last = moment_;
}

void StageState::touch_store(uint32_t buffer, int64_t at) {
  Touch& t = touch(buffer, at);
  if (t.read_last >= first_moment_ && (t.read_first != moment_ || t.read_last != moment_)) {
    fact("stores " + element_text(buffer, at) + ", which another point of the same loops loads");
  }
  t.wrote = moment_;
}

std::string StageState::element_text(uint32_t buffer, int64_t at) const {
  return "element " + std::to_string(at) + " of b" + std::to_string(buffer);
}

void StageState::fact(const std::string& text) {
  static constexpr const char* kKinds[] = {"Map",     "Reduce", "Contract", "Scan",
                                           "Scatter", "Sort",   "Attention"};
  const std::string kind =
      stage_ < k_.stages.size() ? kKinds[static_cast<size_t>(k_.stages[stage_].kind)] : "?";
  report_.add("stage " + std::to_string(stage_) + " (" + kind + ") " + text);
}

void execute(StageState& state, StageCode& code, uint32_t level) {
  Reg* r = code.registers.data();
  for (uint32_t n = code.levels[level]; n < code.levels[level + 1]; ++n) {
    const Instruction& i = code.instructions[n];
    if (i.load) {
      r[i.dst] = state.load(code.loads[i.a], r);
    } else {
      apply(i.operation, r + i.dst, r + i.a, r + i.b, r + i.c, 1);
    }
  }
}

}  // namespace tenon::interpreter
