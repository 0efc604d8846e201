// Loading, compiling and binding for run and bench.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/tools/host.h"
#include "core/tools/inputs.h"
#include "core/tools/options.h"

namespace tenon::tools {

// --threads becomes the setting that the host reads when it starts: call it before host_open.
void apply_threads(const RunOptions& options);
int load(const Host& host, const RunOptions& options, Model& model);
// Compiles for `device` (empty: by cost or TENON_DEVICE).
int compile(const Host& host, const Model& model, const RunOptions& options, std::string_view device, Program& program);
int bind(const Host& host, const Program& program, const Inputs& inputs, Binding& binding);

// The names of the model's outputs.
int output_names(const Host& host, const Model& model, std::vector<std::string>& names);
// An output of the last run; the data is the binding's.
int output(const Host& host, const Binding& binding, const std::string& name, Dense& tensor);

// The placement as JSON text, and the names of the devices that took part, as "cpu" or "sim,cpu".
int placement(const Host& host, const Program& program, std::string& json);
std::string devices_of(std::string_view placement_json);
// Number of nodes in a placement.
uint64_t nodes_of(std::string_view placement_json);

// "kernel table" of a profile for people: the `n` costliest.
int kernel_table(const Host& host, const Binding& binding, int64_t n, std::string& text);

}  // namespace tenon::tools
