// The operators of the process: declarations copied from plugins, looked up by name and version,
// and the rules that hold for all of them (operand counts, element types, ranks, attributes) before
// an op's own inference.
//
// Threads: safe, unless said otherwise.
#pragma once
#include <tenon/abi/ops.h>

#include <atomic>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/errors/status.h"
#include "core/ir/graph.h"

namespace tenon::op {

// A rewrite of a registered definition, as the plugin gave it (as_of.h).
struct BoundRewrite {
  uint64_t registration;
  void* self;
  decltype(tenon_rewrite_t::match_and_build) match_and_build;
};

// A declaration, full-size: fields unknown to the plugin are zero.
struct OpRecord {
  tenon_op_def_t def = {};
  tenon_sym_t name = 0;
  std::string provider;
  std::vector<tenon_rewrite_t> rewrites;  // full-size copies if the plugin's are older

  // ---- Of plugins that the program registers ----
  std::vector<uint64_t> registrations;  // those that had this definition. Empty: of a file
  uint64_t first = 0;                   // of them; never changes, so it is read without a lock
  std::string meaning;                  // what the number stands for
  std::string content;                  // all that the declaration says
  // As the plugin gave them; the functions of `def` run these as of the first registration.
  decltype(tenon_op_def_t::decompose) decompose = nullptr;
  decltype(tenon_op_def_t::decompose_complex) decompose_complex = nullptr;
  decltype(tenon_op_def_t::fold) fold = nullptr;
  decltype(tenon_op_def_t::stack) stack = nullptr;
  std::vector<BoundRewrite> bound;
};

// Loads ops that manifests promise but that are not loaded yet. Implemented by core/host. Threads:
// safe.
class OpLoader {
 public:
  virtual ~OpLoader() = default;
  // Registers the ops of the plugin that provides `name`, if there is one. If that plugin fails,
  // returns its failure; if no plugin provides the name, NOT_FOUND with an empty message.
  virtual Status load(std::string_view name) = 0;
  // Names that load() knows, for suggestions.
  virtual void names(std::vector<std::string>* out) = 0;
  // Loads everything.
  virtual void load_all() = 0;
  // The name spaces of notes that plugins have, each once: see tenon/abi/graph_notes.h. Loads
  // nothing.
  virtual void note_spaces(std::vector<std::string>* out) { out->clear(); }
};

class Registry final : public ir::OpSet {
 public:
  // The registry of the process. The first call makes it the OpSet of all graphs.
  static Registry& instance();

  // Copies the declarations of one table. A bad declaration (T0320) or a taken name and version
  // (T0320, ALREADY_EXISTS) refuses that op only; the others are registered. The Status lists all
  // refusals.
  Status register_ops(const tenon_ops_t& ops, std::string_view provider);
  // The ops of a plugin that the program registers, all or none: they become the current
  // definitions of their names, and the others of `provider` have none any more. Definitions stay
  // for those who ask with a version. `ops`: null for none. T0320 if a declaration is bad or its
  // name or version is taken. See docs/adr/0031-plugins-at-run-time.md.
  Status define(const tenon_ops_t* ops, std::string_view provider, uint64_t registration);
  // Grows with every change of the current definitions. Threads: safe.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // False if (name, version) was registered, and another definition of the name was current when
  // this registration took place: code that came with it does not fit.
  bool suits(tenon_sym_t name, uint32_t version, uint64_t registration);
  // `loader` must live as long as the process; null for none.
  void set_loader(OpLoader* loader);

  // ---- OpSet ----
  // Version 0: the current definition; while a function of a registered definition builds nodes,
  // that of the time when it was registered (as_of.h).
  const tenon_op_def_t* find(tenon_sym_t name, uint32_t version) override;
  Status unknown(tenon_sym_t name, uint32_t version) override;
  std::string meant_by(std::string_view name);
  Result<ir::Inferred> infer(ir::Graph& graph, const ir::NodeDraft& draft) override;
  Status check_note_space(std::string_view space) override;

  const OpRecord* record(tenon_sym_t name, uint32_t version);
  // The definitions in force, sorted by name, then version. Loads nothing.
  std::vector<const OpRecord*> records();
  // The same after loading all ops that manifests promise.
  std::vector<const OpRecord*> all_records();

 private:
  struct Definitions {
    std::vector<OpRecord*> all;  // highest version first; of one version, the newest first
    OpRecord* current = nullptr;
    // The registered definition that was the last up to a registration; the first one if all came
    // after it. Null if none was registered.
    OpRecord* as_of(uint64_t registration) const;
  };
  struct Draft;
  const OpRecord* lookup(tenon_sym_t name, uint32_t version);
  OpRecord* store(OpRecord record);
  void put_first(OpRecord* record);
  bool settle(Draft* draft, const std::vector<Draft>& drafts) const;
  void take(Draft draft, uint64_t registration);
  bool resolves_alike(const OpRecord& known, const std::vector<Draft>& drafts) const;

  std::shared_mutex mutex_;
  std::deque<OpRecord> records_;
  std::unordered_map<tenon_sym_t, Definitions> by_name_;
  std::atomic<uint64_t> changes_{0};
  std::unordered_set<tenon_sym_t> note_spaces_;  // those that were found
  OpLoader* loader_ = nullptr;
};

// A full-size record of a declaration, without a name yet. T0320 if it is shorter than any version
// of the table.
Result<OpRecord> copy_declaration(const tenon_op_def_t* given, uint64_t index,
                                  std::string_view provider);
// Sets `meaning` and `content`, and numbers the meaning (definitions.cpp).
void number_by_content(OpRecord* record);
// True if the number stands for functions of this process, and means nothing to another one.
bool of_this_process(const OpRecord& record);

// T0320 with what is wrong, or OK. `def` is full-size.
Status check_declaration(const tenon_op_def_t& def);

// The attributes of a node in the op's declared order, with defaults; entries borrow from the node.
std::vector<tenon_attr_t> declared_attrs(const tenon_op_def_t& def,
                                         std::span<const tenon_attr_t> attrs);

// Elements of an integer value that is known at compile time, as dims of its graph: constants, and
// shape arithmetic through value_of. Empty if it is not known, or has more than 4096 elements. May
// intern dims, so not for frozen graphs that other threads read.
std::optional<std::vector<ir::Dim>> known_value(ir::Graph& graph, ir::Value value);

}  // namespace tenon::op
