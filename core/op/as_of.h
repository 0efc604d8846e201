// What a name without a version means while a function of a registered definition builds nodes:
// the definitions of the time when that definition was registered, not those of now. So programs
// and models keep their answers (docs/adr/0031-plugins-at-run-time.md).
#pragma once
#include <cstdint>

#include "core/op/registry.h"

namespace tenon::op {

// While one exists, lookups of its thread are as of this registration. Scopes nest; 0 is now.
class AsOf {
 public:
  explicit AsOf(uint64_t registration);
  ~AsOf();
  AsOf(const AsOf&) = delete;
  AsOf& operator=(const AsOf&) = delete;
  // That of the calling thread.
  static uint64_t now();

 private:
  uint64_t before_;
};

// True if functions of the declaration build nodes.
bool builds_nodes(const tenon_op_def_t& def);

// Puts a scope around each function of a registered definition that builds nodes. `record` has its
// registration, and stays where its vectors are.
void build_as_of(OpRecord* record);

}  // namespace tenon::op
