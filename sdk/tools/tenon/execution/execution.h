// Loading, compiling and binding for run and bench.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/execution/inputs.h"
#include "sdk/tools/tenon/execution/peaks.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

// --threads becomes the setting that the host reads at start: call this before host_open.
void apply_threads(const RunOptions& options);
// Checks that every layer of TENON_LAYERS exists, so that a missing one is reported once and not
// for each plugin. Returns an exit status.
int check_layers(const Host& host);
// fixed: the dims of --dim that the format fixed, which were printed; null where all that are given
// must be (a model that is not run has no random inputs).
int load(const Host& host, const RunOptions& options, Model& model,
         std::vector<std::string>* fixed = nullptr);
// What to do after a load failed, with a file that PyTorch alone reads; empty for others.
std::string advice_on(const Host& host, std::string_view path);
// The options of a compilation for `device`. Borrows from both.
struct SessionOptions {
  std::vector<tenon_key_value_t> pairs;
  tenon_session_options_t record = sized<tenon_session_options_t>();
};
// Leaves the options of devices that `device` ("sim:1,cpu") names: for a compilation that is
// compared with the one that the options are for.
void keep_options_of(std::string_view device, RunOptions& options);
int read_options(const RunOptions& options, std::string_view device, SessionOptions& out);
// Compiles for `device` (empty: by cost or TENON_DEVICE).
int compile(const Host& host, const Model& model, const RunOptions& options,
            std::string_view device, Program& program);
// Whether a file can be written there, asked before work whose result it is to hold.
int check_writable(const std::string& path);
// The same for a file that is made from `source`: its name ends in `extension`, and it is another.
int check_made(const std::string& path, std::string_view extension, const std::string& source);
// Whether the name is that of a package: a program in a file.
bool is_package(std::string_view path);
// Fails for a package where a model is needed.
int refuse_package(std::string_view path);
// Fails for --peaks that are not two numbers.
int check_peaks(const std::string& text);
// Loads the program of a package, as far as `options` ask for nothing that was decided before.
int load_package(const Host& host, const RunOptions& options, Program& program);
int bind_inputs(const Host& host, const Program& program, const Inputs& inputs, Binding& binding);

// The names of the outputs.
std::vector<std::string> output_names(const tenon_model_info_t& info);
// An output of the last run; the binding owns the data.
int output(const Host& host, const Binding& binding, const std::string& name, Dense& tensor);

// The placement as JSON text, and the devices that took part, as "cpu" or "sim,cpu".
int placement(const Host& host, const Program& program, std::string& json);
// For a model whose shapes depend on input values: what was compiled for which values, and why;
// else empty.
std::string variants_of(std::string_view placement_json);
std::string devices_of(std::string_view placement_json);
// Number of nodes in a placement.
uint64_t nodes_of(std::string_view placement_json);

// A row of a profile: a kernel with one amount of work, summed over the profiled runs.
struct KernelRow {
  std::string name, device, origins;
  double calls = 0, total_ns = 0, share = 0, flops = 0, bytes = 0;

  double per_ns(double amount) const {
    return total_ns > 0 ? amount / total_ns : 0;
  }  // per second, in units of 1e9
  // The shortest possible time divided by the measured time.
  double of_bound(const Peaks& peaks) const {
    return total_ns > 0 && calls > 0
               ? peaks.bound_ns(flops / calls, bytes / calls) * calls / total_ns
               : 0;
  }
};
// The `n` costliest kernels since profile_enable.
int kernel_rows(const Host& host, const Binding& binding, int64_t n, std::vector<KernelRow>& rows);
// As a table, with nodes of `file` printed without its name, and as a JSON array; times and calls
// are per run, of `runs` runs.
std::string kernel_table(const std::vector<KernelRow>& rows, const Peaks& peaks, int64_t runs,
                         std::string_view file);
std::string kernels_json(const std::vector<KernelRow>& rows, const Peaks& peaks, int64_t runs);

}  // namespace tenon::tools
