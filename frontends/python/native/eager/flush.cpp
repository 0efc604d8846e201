// A flush: the waiting operations that a value needs, as a program that is found by their
// structure, and its run.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/python/native/eager/eager.h"
#include "frontends/python/native/host/host.h"
#include "frontends/python/native/host/keys.h"
#include "frontends/python/native/program/program.h"
#include "frontends/python/native/program/results.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

constexpr size_t kProgramsMax = 4096;
constexpr int64_t kResultsMax = 4096;  // of one operation, in its number

KeyMap<nb::object>& programs() {
  static auto* map = new KeyMap<nb::object>;  // outlives the interpreter
  return *map;
}

uint64_t g_flush = 0;

// Of tenon._eager.flush, which has what is slow.
nb::object function(const char* name) {
  return nb::module_::import_("tenon._eager.flush").attr(name);
}

// The number of the device of arrays (TENON_DEVICE), which may change.
uint64_t device_number() {
  static auto* numbers = new std::unordered_map<std::string, uint64_t>;
  static auto* last = new std::string;
  static uint64_t last_number = 0;
  const char* name = std::getenv("TENON_DEVICE");
  if (name == nullptr) name = "";
  if (last_number == 0 || *last != name) {
    *last = name;
    last_number = numbers->try_emplace(name, numbers->size() + 1).first->second;
  }
  return last_number;
}

nb::object borrowed(Value* value) {
  return nb::borrow(reinterpret_cast<PyObject*>(value));
}

// What is computed: operations in order, what they read, and the results that arrays still name.
// Holds all that a run needs, since other threads may compute the same meanwhile.
class Plan {
 public:
  explicit Plan(std::span<Value* const> wanted) : flush_(++g_flush) {
    for (Value* value : wanted) visit(value);
    find_outputs(wanted);
    write_key();
  }
  const Key& key() const { return key_; }
  size_t operations() const { return nodes_.size(); }
  nb::object describe() const;
  nb::tuple data() const;
  void run(Program& program);
  void take(nb::handle results);

 private:
  void visit(Value* root);
  bool add_leaf(Value* value);
  void place(Node* node);
  void find_outputs(std::span<Value* const> wanted);
  void write_key();

  uint64_t flush_;
  std::vector<Node*> nodes_;  // valid until the GIL is given back
  std::vector<Value*> leaves_, stack_;
  std::vector<nb::object> inputs_;
  std::vector<nb::object> outputs_;
  Key key_;
};

bool Plan::add_leaf(Value* value) {
  if (value->data == nullptr && value->node != nullptr) return false;
  if (value->flush == flush_) return true;
  value->flush = flush_;
  value->number = -1 - static_cast<int64_t>(leaves_.size());
  leaves_.push_back(value);
  inputs_.push_back(nb::borrow(value->data == nullptr ? Py_None : value->data));
  return true;
}

// Operands before operations, without recursion.
void Plan::visit(Value* root) {
  stack_.push_back(root);
  while (!stack_.empty()) {
    Value* value = stack_.back();
    if (add_leaf(value) || value->node->flush == flush_) {
      stack_.pop_back();
      continue;
    }
    const size_t before = stack_.size();
    for (Value* operand : value->node->operands())
      if (operand != nullptr && operand->flush != flush_ && !add_leaf(operand))
        stack_.push_back(operand);
    if (stack_.size() != before) continue;
    place(value->node);
    stack_.pop_back();
  }
}

void Plan::place(Node* node) {
  node->flush = flush_;
  node->place = static_cast<int64_t>(nodes_.size());
  for (Value* result : node->results()) {
    if (result == nullptr) continue;
    result->flush = flush_;
    result->number = node->place * kResultsMax + result->index;
  }
  nodes_.push_back(node);
}

void Plan::find_outputs(std::span<Value* const> wanted) {
  for (Node* node : nodes_) {
    for (Value* result : node->results()) {
      if (result == nullptr) continue;
      if (result->handles > 0 || std::ranges::find(wanted, result) != wanted.end())
        outputs_.push_back(borrowed(result));
    }
  }
}

void Plan::write_key() {
  key_.reserve(4 + nodes_.size() * 5 + leaves_.size() + outputs_.size());
  key_ = {device_number(), nodes_.size(), leaves_.size()};
  for (Node* node : nodes_) {
    key_.push_back(node->operation->id);
    key_.push_back(node->spread == nullptr ? 0 : node->spread->id);
    key_.push_back(node->operand_count);
    for (const Value* operand : node->operands())
      key_.push_back(static_cast<uint64_t>(operand == nullptr ? INT64_MAX : operand->number));
  }
  for (const Value* leaf : leaves_) key_.push_back(leaf->type->id);
  for (const nb::object& output : outputs_)
    key_.push_back(static_cast<uint64_t>(reinterpret_cast<Value*>(output.ptr())->number));
}

nb::object number_of(const Value* value) {
  if (value == nullptr) return nb::none();
  if (value->number < 0) return nb::int_(value->number);
  return nb::make_tuple(value->number / kResultsMax, value->number % kResultsMax);
}

// (nodes, leaves, outputs, shapes), as programs.Flush has them.
nb::object Plan::describe() const {
  nb::list nodes, leaves, outputs, shapes;
  for (Node* node : nodes_) {
    nb::list operands;
    for (const Value* operand : node->operands()) operands.append(number_of(operand));
    const nb::object spread =
        node->spread == nullptr ? nb::none() : nb::borrow(node->spread->shape);
    nodes.append(nb::make_tuple(nb::borrow(node->operation->op), nb::borrow(node->operation->attrs),
                                spread, nb::tuple(operands)));
  }
  for (const Value* leaf : leaves_)
    leaves.append(nb::make_tuple(nb::borrow(leaf->type->dtype), nb::borrow(leaf->type->shape)));
  for (const nb::object& output : outputs_) {
    const auto* value = reinterpret_cast<Value*>(output.ptr());
    outputs.append(number_of(value));
    shapes.append(nb::borrow(value->type->shape));
  }
  return nb::make_tuple(nodes, leaves, outputs, shapes);
}

nb::tuple Plan::data() const {
  nb::list list;
  for (const nb::object& input : inputs_) list.append(input);
  return nb::tuple(list);
}

void Plan::take(nb::handle results) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    PyObject* data = PySequence_GetItem(results.ptr(), static_cast<Py_ssize_t>(i));
    if (data == nullptr) throw nb::python_error();
    set_data(reinterpret_cast<Value*>(outputs_[i].ptr()), data);
  }
}

void Plan::run(Program& program) {
  std::vector<PyObject*> values(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) values[i] = inputs_[i].ptr();
  take(nb::steal(program.call(values.data(), values.size(), nullptr, Program::As::kTensor)));
}

nb::object key_bytes(const Key& key) {
  return nb::bytes(key.data(), key.size() * sizeof key[0]);
}

void keep_program(const nb::bytes& key, const nb::object& program) {
  if (programs().size() >= kProgramsMax) forget_programs();
  const auto* words = reinterpret_cast<const uint64_t*>(key.c_str());
  programs().insert_or_assign(Key(words, words + key.size() / sizeof *words), program);
}

// True if a logger wants messages about flushes. There is none before logging is imported.
bool is_heard() {
  static PyObject* logger = nullptr;  // for the process
  if (logger == nullptr) {
    const nb::object module = nb::steal(PyImport_GetModule(nb::str("logging").ptr()));
    if (!module.is_valid()) return PyErr_Clear(), false;
    logger = module.attr("getLogger")("tenon.eager").release().ptr();
  }
  static const auto* name = new nb::str("isEnabledFor");
  static const auto* level = new nb::int_(10);
  const nb::object heard = nb::steal(PyObject_CallMethodOneArg(logger, name->ptr(), level->ptr()));
  if (!heard.is_valid()) throw nb::python_error();
  return heard.ptr() == Py_True;
}

// Compiles, or computes without the program. How, for the log.
nb::object run_cold(Plan& plan) {
  const nb::tuple made =
      nb::cast<nb::tuple>(function("cold")(key_bytes(plan.key()), plan.describe(), plan.data()));
  const nb::object program = made[0], results = made[1];
  if (!results.is_none()) {
    plan.take(results);
    return made[2];
  }
  keep_program(nb::cast<nb::bytes>(key_bytes(plan.key())), program);
  plan.run(*nb::inst_ptr<Program>(program));
  return made[2];
}

}  // namespace

void forget_programs() {
  KeyMap<nb::object> old;
  old.swap(programs());
}

void evaluate(std::span<Value* const> values) {
  std::vector<Value*> pending;
  for (Value* value : values) {
    if (value->data != nullptr && value->data != Py_None) continue;
    if (value->trace != nullptr && value->trace != Py_None) {
      const nb::object error =
          nb::module_::import_("tenon.builder.trace").attr("unknown")(borrowed(value));
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
      throw nb::python_error();
    }
    pending.push_back(value);
  }
  if (pending.empty()) return;
  if (is_in_pass()) nb::module_::import_("tenon.builder.trace").attr("refuse_in_pass")();
  Plan plan(pending);
  const auto found = programs().find(plan.key());
  nb::object how;
  if (found != programs().end()) {
    const nb::object program = found->second;
    plan.run(*nb::inst_ptr<Program>(program));
  } else {
    how = run_cold(plan);
  }
  if (is_heard()) function("log_flush")(plan.operations(), how.is_valid() ? how : nb::none());
}

void bind_flush(nb::module_& m) {
  m.def(
      "evaluate",
      [](const nb::sequence& sequence) {
        std::vector<Value*> values;
        std::vector<nb::object> held;
        for (const nb::handle item : sequence) {
          values.push_back(as_value(item.ptr()));
          held.push_back(nb::borrow(item));
        }
        evaluate(values);
      },
      "values"_a, nb::sig("def evaluate(values: Sequence[Value]) -> None"));
  m.def("keep_program", keep_program, "key"_a, "program"_a,
        nb::sig("def keep_program(key: bytes, program: Program) -> None"));
  m.def("programs_kept", [] { return programs().size(); });
  m.def("flushes", [] { return g_flush; });
}

}  // namespace tenon::python
