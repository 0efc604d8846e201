// The options of report, bisect and cache.
#include "sdk/tools/tenon/cli/cli.h"

namespace tenon::tools {

CLI::App* add_report(CLI::App& app, ReportOptions& o) {
  CLI::App* report = app.add_subcommand("report", "one page about a model: graph, kernels, time");
  report->add_option("MODEL", o.model.model, "model file")->required()->type_name("");
  report->add_option("-o,--output", o.output, "the page to write (default: report.html)")
      ->check(not_empty())
      ->type_name("FILE");
  report
      ->add_option("--against", o.against,
                   "compare with this model, or with a page that was written before (.html)")
      ->check(not_empty())
      ->type_name("FILE");
  report->add_option("--against-device", o.against_device, "compare with a run on this device")
      ->check(not_empty())
      ->type_name("NAME");
  report->add_option("--against-passes", o.against_passes, "compare with a run after these passes")
      ->check(not_empty())
      ->type_name("LIST");
  report->add_flag("--no-run", o.no_run, "compile only: no times");
  repeatable(report, "--input", o.model.inputs, "NAME=FILE",
             "read an input from a file (default: random); repeatable");
  report->add_option("--peaks", o.model.peaks, "peak rates, instead of measuring them")
      ->check(not_empty())
      ->type_name("GFLOPS,GB/S");
  add_compilation(report, o.model);
  return report;
}

CLI::App* add_bisect(CLI::App& app, BisectOptions& o) {
  CLI::App* bisect =
      app.add_subcommand("bisect", "which pass, and which node, makes a model wrong or fail");
  bisect->add_option("MODEL", o.model.model, "model file")->required()->type_name("");
  bisect->add_option("--check", o.model.check, "compare with this device (default: reference)")
      ->check(not_empty())
      ->type_name("DEVICE");
  bisect->add_option("--tolerance", o.model.tolerance, "as of `tenon run`")
      ->check(tolerance_number())
      ->type_name("T");
  bisect->add_option("-o,--output", o.output, "the part to write (default: bisect-MODEL.tir)")
      ->check(not_empty())
      ->type_name("FILE");
  bisect->add_option("--timeout", o.timeout_seconds, "seconds for each trial (default: 300)")
      ->check(quiet(CLI::Range(int64_t{1}, int64_t{86400})))
      ->type_name("N");
  repeatable(bisect, "--input", o.model.inputs, "NAME=FILE",
             "read an input from a file (default: random); repeatable");
  bisect->add_option("--seed", o.model.seed, "seed of the random inputs")
      ->check(seed_number())
      ->type_name("N");
  add_compilation(bisect, o.model);
  bisect->add_flag("--autotune", o.model.autotune, "as of `tenon run`");
  return bisect;
}

CLI::App* add_cache(CLI::App& app, CacheOptions& o) {
  CLI::App* cache = app.add_subcommand("cache", "what was compiled before, and where it is kept");
  const auto action = [&](const char* name, const char* doc) {
    CLI::App* made = cache->add_subcommand(name, doc);
    made->callback([&o, name] { o.action = name; });
    return made;
  };
  action("dir", "print the folder");
  CLI::App* size = action("size", "its size by kind, and its bound");
  CLI::App* list = action("list", "its entries, the least recently used first");
  CLI::App* prune = action("prune", "remove what was not used for longest, down to the bound");
  prune->add_option("--max", o.max_bytes, "down to this size instead: 500M, 2G")
      ->check(not_empty())
      ->type_name("BYTES");
  action("clean", "remove everything");
  CLI::App* why = action("why", "compile a model, and show what was found and what was not");
  why->add_option("MODEL", o.model.model, "model file")->required()->type_name("");
  add_compilation(why, o.model);
  for (CLI::App* command : {cache, size, list, why})
    command->add_flag("--json", o.json, "one JSON object on stdout");
  cache->require_subcommand(0, 1);
  return cache;
}

// ---- Examples ----

void add_examples(CLI::App& app) {
  struct Examples {
    const char *command, *text;
  };
  static constexpr Examples kAll[] = {
      {"run",
       "tenon run net.onnx --input image=cat.npy --top 5\n"
       "  tenon run net.onnx --seed 1 --check reference\n"
       "  tenon run net.onnx --seed 1 --dim batch=8 --profile trace.json\n"
       "  tenon run parts.tir --seed 1 --simulate data=2,model=2"},
      {"bench",
       "tenon bench net.onnx --top 10\n  tenon bench net.onnx --device cpu --threads 4\n"
       "  tenon launch -n 2 -- tenon bench --collectives"},
      {"report",
       "tenon report net.onnx -o net.html\n"
       "  tenon report net.onnx -o net.html --against-device reference\n"
       "  tenon report net.onnx -o now.html --against yesterday.html"},
      {"bisect",
       "tenon bisect net.onnx\n  tenon bisect net.onnx --passes mine,standard --tolerance 1e-3"},
      {"cache", "tenon cache size\n  tenon cache prune --max 500M\n  tenon cache why net.onnx"},
      {"seed", "tenon seed --device cpu\n  tenon seed --device cpu exp log"},
      {"compile",
       "tenon compile net.onnx -o net.tpk\n"
       "  tenon compile net.onnx -o net.tpk --device cpu --target \"cpu isa=avx2\""},
      {"info", "tenon info net.tpk"},
      {"opt",
       "tenon opt net.onnx --passes canonicalize,cse --print-changed\n"
       "  tenon opt graph.tir --passes \"fold{max_bytes=64}\" --verify-each --timing\n"
       "  tenon opt --list"},
      {"ops", "tenon ops\n  tenon ops exp\n  tenon ops exp --explain --model net.onnx"},
      {"plugins", "tenon plugins list\n  tenon plugins explain cpu\n  tenon plugins lock -o lock"},
      {"explain", "tenon explain T0301\n  tenon explain"},
      {"doctor", "tenon doctor --verbose"},
      {"new", "tenon new op softclip\n  tenon new device mine --language c++"},
      {"launch",
       "tenon launch -n 4 -- tenon run model.tir\n"
       "  tenon launch -n 2 --engine mpi -- python3 train.py"},
      {"flight", "tenon flight /tmp/flight\n  tenon flight /tmp/flight --trace flight.json"},
      {"completion",
       "source <(tenon completion bash)\n"
       "  tenon completion fish > ~/.config/fish/completions/tenon.fish"},
      {"help", "tenon help plugins lock\n  tenon help T0301"},
  };
  for (const Examples& examples : kAll) {
    CLI::App* command = app.get_subcommand(examples.command);
    command->footer("\nExamples:\n  " + std::string(examples.text));
  }
}

}  // namespace tenon::tools
