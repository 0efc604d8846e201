#include <fmt/core.h>
#include <chrono>
#include <cstdlib>
#include <map>
#include <tenon/cpp/session.hpp>
#include "tests/random/fusion_graphs.h"
#include "tests/random/device_runner.h"
using namespace tenon::random_tests;
std::string text_of(const Generated& generated) {
  std::string text;
  const tenon_sink_t sink = tenon::sink_to(&text);
  (void)tenon::graph_api().graph_write(tenon::graph_api().self, generated.graph.get(), TENON_FORMAT_TEXT, &sink);
  return text;
}
int main(int argc, char** argv) {
  tenon::Session session; if (!session.open().ok()) return 3;
  const uint64_t first = std::strtoull(argv[1],0,10), count = std::strtoull(argv[2],0,10);
  const std::string device = argv[3]; int show = argc>4?atoi(argv[4]):0;
  Runner r = device_runner(session, device); uint64_t nodes=0, failed=0, sym=0; std::map<std::string,uint64_t> ops;
  for (uint64_t s = first; s < first+count; ++s) {
    Generated g; if (!fusion_graph(s,&g).ok()) { fmt::print("seed {} gen: {}\n", s, tenon::failure_text()); continue; }
    nodes += g.nodes; sym += g.bindings.size()>1;
    for (auto n : tenon::main_region(g.graph.get()).nodes()) ops[std::string(n.op())]++;
    if (show > 0) { --show; fmt::print("{}\n", text_of(g)); }
    if (device == "none") continue;
    auto p = r(g); if (!p.empty()) { ++failed; fmt::print("seed {}: {}\n{}\n", s, p, failed<=20?text_of(g):""); }
  }
  fmt::print("{} graphs {} nodes {} symbolic {} failed\n", count, nodes, sym, failed);
  for (auto&[k,v]:ops) fmt::print("{}={} ",k,v); fmt::print("\n");
}
