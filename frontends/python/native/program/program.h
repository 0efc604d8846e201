// Models and programs: loading, compiling, and calls by position.
#ifndef FRONTENDS_PYTHON_NATIVE_PROGRAM_PROGRAM_H_
#define FRONTENDS_PYTHON_NATIVE_PROGRAM_PROGRAM_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontends/python/native/arrays/arrays.h"
#include "frontends/python/native/arrays/tensor.h"
#include "tenon/abi/call.h"

namespace tenon::python {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using Size = std::pair<std::string, int64_t>;  // of a symbol, by its name
using Sizes = std::vector<Size>;

// How a model is compiled.
struct CompileOptions {
  std::string device;
  bool no_fallback = false, deterministic = false;
  Pairs options;
  std::vector<uint32_t> stable_inputs = {};  // positions of inputs whose values rarely change
  bool autotune = false;                     // measured costs where kernel sets compete
};

// The passes of all later compilations; empty: the standard ones. With the GIL.
void set_pipeline(const std::string& passes);

// A loaded graph. Immutable; safe.
class Graph {
 public:
  static Graph load(const std::string& path, const Pairs& options);
  static Graph of_bytes(std::string_view bytes, const std::string& name);
  static Graph of_model(tenon_model_t* model) { return Graph(model); }  // takes it
  Graph(Graph&& other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
  ~Graph();
  tenon_model_t* get() const { return model_; }
  std::string write() const;  // binary .tir, with its constants
  void save(const std::string& path, const CompileOptions& options,
            const std::string& target) const;

 private:
  explicit Graph(tenon_model_t* model) : model_(model) {}
  tenon_model_t* model_;
};

struct Port {
  std::string name;
  tenon_dtype_t dtype;
  std::vector<int64_t> dims;  // -1: symbolic
  std::vector<std::string> dim_texts;
  Expected expected;
  // A result that is small and of a size that is known before the call: memory of NumPy's own, or a
  // block of ours, is there sooner than a tensor of the host. 0: none.
  size_t small_bytes = 0;
};

// The records of one call. Kept by the program, so that a call allocates none.
struct Call {
  explicit Call(const class Program& program);
  Call(const Call&) = delete;
  ~Call() { clear(); }
  std::unique_ptr<Argument[]> arguments;
  std::vector<tenon_input_t> inputs;
  std::unique_ptr<Argument[]> given;  // memory for results
  std::vector<tenon_output_t> outputs;
  std::vector<tenon_array_t> results;
  std::vector<PyObject*> fresh;              // NumPy's arrays that a call fills, or null
  std::vector<Block> blocks;                 // the same for other libraries
  std::vector<tenon_size_t> sizes;           // where a call gives some
  std::span<PyObject* const> given_objects;  // borrowed
  std::vector<PyObject*> held;               // references to arguments
  // The streams of arguments in other libraries' memory.
  std::vector<tenon_native_handle_t> stream_handles;
  std::vector<tenon_call_native_t> streams;
  tenon_program_call_t record{};
  // Of the arguments: the kind that results have, an array of that kind, and the bytes of all.
  Kind kind = Kind::kNone;
  PyObject* of_user = nullptr;  // borrowed
  uint64_t bytes = 0;
  // Takes note of the arguments, once all are read.
  void look_at_arguments();
  void find_streams();
  void follow(const WorkStream& stream, uint64_t handle);
  // Ends the use of arguments.
  void clear();
};

// What the last call of a program did.
struct LastRun {
  uint64_t repacked_bytes = 0, transferred_bytes = 0, copied_out_bytes = 0;
  double ms = 0;
};

// Memory of the caller for results: one entry for each (null or None: none), or empty. in_place:
// it may be written while inputs are read that are the same memory.
struct Given {
  std::span<PyObject* const> memory;
  bool in_place = false;
};

// A compiled program. Any thread may call it.
class Program {
 public:
  Program(const Graph& graph, const CompileOptions& options, const Sizes& sizes);
  // From a package.
  Program(const std::string& package, const Sizes& sizes);
  Program(const Program&) = delete;
  ~Program();

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  PyObject* output_names() const { return output_names_.ptr(); }
  tenon_program_t* get() const { return program_; }
  const LastRun& last_run() const { return last_; }

  // Kinds of results: what the arguments were, unless said.
  enum class As : uint8_t { kUsers, kNumpy, kTensor, kDevice };
  // A call with `count` arguments by position, then by name from `names` (a dict or null). New
  // reference to Results. `sizes`: symbols of this call that follow from no input. Raises.
  PyObject* call(PyObject* const* values, size_t count, PyObject* names, As as,
                 const Given& given = {}, std::span<const Size> sizes = {});

  // The parts of a call, for one that runs elsewhere: the call with its arguments, the program kept
  // until give_back, which ends their use; the results as Results, new reference.
  std::unique_ptr<Call> begin(const nanobind::args& values, const nanobind::kwargs& names);
  void give_back(std::unique_ptr<Call> call);
  PyObject* results_of(Call& call, As as);

  // At most so many threads compute a call; 0: no limit. For calls that begin from now on.
  void limit_threads(uint32_t count) { threads_ = count; }
  uint32_t thread_limit() const { return threads_; }

  // Releases the program once no call uses it; later calls are refused (T0626).
  void close();
  bool closed() const { return closed_; }

  // What is known of it. All of these are refused when the program is closed (T0626).
  std::string placement();
  std::string summary();
  std::string dump(const std::string& what);
  nanobind::dict info();
  // Runs once with these inputs. (trace, table), both JSON.
  nanobind::tuple profile(const nanobind::args& values, const nanobind::kwargs& names);

 private:
  friend struct Call;
  // Keeps the program from being released. Raises T0626 if it is closed.
  struct Use {
    explicit Use(Program& used) : program(used) { program.enter(); }
    Use(const Use&) = delete;
    ~Use() { program.leave(); }
    Program& program;
  };
  void enter();
  void leave();
  void describe();
  void set_sizes(const Sizes& sizes);
  void release();
  std::unique_ptr<Call> take_call();
  void read_arguments(Call& call, PyObject* const* values, size_t count, PyObject* names);
  void read_named(Call& call, size_t count, PyObject* names);
  void read_given(Call& call, const Given& given, As as);
  void* memory_for(Call& call, size_t i, As as);
  void ask_for_result(Call& call, size_t i, As as);
  void set_sizes_of(Call& call, std::span<const Size> sizes) const;
  void execute(Call& call);
  tenon_code_t bind(tenon_binding_t* binding, const Call& call) const;
  PyObject* result_of(Call& call, size_t i, As as);
  [[noreturn]] void refuse_count(size_t given) const;
  std::string signature() const;
  size_t index_of(const std::string& name) const;

  tenon_program_t* program_ = nullptr;
  std::vector<Port> inputs_, outputs_;
  nanobind::object output_names_;
  Sizes given_sizes_;
  std::vector<std::string> symbols_;
  std::vector<tenon_size_t> sizes_;
  std::vector<std::unique_ptr<Call>> spare_;  // with the GIL
  size_t active_ = 0;                         // calls that use the program; with the GIL
  bool closed_ = false;
  uint32_t threads_ = 0;
  LastRun last_;
  // Of the last call: decides whether the next one keeps the GIL.
  double last_us_ = 1e9;
  uint64_t last_bytes_ = 0;
  bool by_value_ = false;  // it may compile when it is called
};

void bind_program(nanobind::module_& module);

}  // namespace tenon::python

#endif
