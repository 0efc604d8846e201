#include <fmt/core.h>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tenon/cpp/session.hpp>
#include "tests/random/fusion_graphs.h"
#include "tests/random/model_graph.h"
#include "tests/random/stage_check.h"
using namespace tenon::random_tests;
static std::string text_of(const Generated& generated) {
  std::string text;
  const tenon_sink_t sink = tenon::sink_to(&text);
  (void)tenon::graph_api().graph_write(tenon::graph_api().self, generated.graph.get(), TENON_FORMAT_TEXT, &sink);
  return text;
}
int main(int argc, char** argv) {
  tenon::Session session; if (!session.open().ok()) return 3;
  StageCheckOptions o; std::vector<std::string> targets; std::map<std::string,std::string> inputs; std::string model; uint64_t seed=1,count=100; bool all=false;
  for (int i=1;i<argc;++i) { std::string a=argv[i]; 
    if (a=="--seed") seed=strtoull(argv[++i],0,10); else if (a=="--count") count=strtoull(argv[++i],0,10); else if (a=="--target") targets.push_back(argv[++i]);
    else if (a=="--model") model=argv[++i]; else if (a=="--texts") o.texts=true; else if (a=="--all") all=true; else if (a=="--trees") o.trees_every=atoi(argv[++i]);
    else if (a=="--input") { std::string s=argv[++i]; auto p=s.find('='); inputs[s.substr(0,p)]=s.substr(p+1);} }
  if (!choose_targets(targets,&o.targets)) return 2;
  if (all) o.targets_per_graph = o.targets.size();
  tenon::kernelgen::LiftHost host; if (!open_lift_host(&host).ok()) return 3;
  StageCheck check(host,o);
  using clk=std::chrono::steady_clock; double gen=0,chk=0; uint64_t failed=0;
  auto secs=[](auto d){return std::chrono::duration<double>(d).count();};
  if (!model.empty()) { Generated g; auto w=model_graph(session,model,inputs,{},seed,&g); if(!w.empty()){fmt::print("model: {}\n",w);return 2;} 
    auto p=check(g); fmt::print("{}\n", p.empty()?"ok":p); for(auto&[k,v]:check.statistics().left_out) fmt::print("left out {}: {}\n",v,k); return !p.empty(); }
  for (uint64_t s=seed;s<seed+count;++s) { Generated g; auto t0=clk::now(); if(!fusion_graph(s,&g).ok()){fmt::print("gen {}\n",s);continue;} auto t1=clk::now(); auto p=check(g); auto t2=clk::now(); gen+=secs(t1-t0); chk+=secs(t2-t1);
    if(!p.empty()){++failed; fmt::print("seed {}: {}\n{}\n",s,p,failed<=5?text_of(g):"");} }
  fmt::print("{} graphs, {} failed; {:.2f} s generate, {:.2f} s check; {} kernels {} trees\n",count,failed,gen,chk,check.statistics().kernels,check.statistics().trees);
  for(auto&[k,v]:check.statistics().left_out) fmt::print("left out {}: {}\n",v,k);
  return failed!=0;
}
