#include "tenon/kernelgen/device/generate.h"

#include <algorithm>
#include <set>

#include "tenon/kernelgen/loops/loop_ir.h"
#include "tenon/kernelgen/print/print.h"
#include "tenon/kernelgen/schedule/prepare.h"

namespace tenon::kernelgen {
namespace {

// Names the code: the kernel's hash, and the order of its arguments in terms of the hash's order.
// Code of another process is found by the hash, and its name tells whether its arguments agree.
std::string entry_name(const Kernel& k, const LoopTree& tree) {
  std::vector<uint32_t> buffers, extents;
  Hash128 h = structural_hash(k, &buffers, &extents);
  for (const LoopTree::Argument& b : tree.buffers) {
    add_word(&h, static_cast<uint64_t>(std::ranges::find(buffers, b.buffer) - buffers.begin()));
  }
  for (uint32_t e : extents) add_word(&h, e);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string s = "k_";
  for (int i = 15; i >= 0; --i) s += kDigits[h.hi >> (4 * i) & 15];
  for (int i = 15; i >= 0; --i) s += kDigits[h.lo >> (4 * i) & 15];
  return s;
}

int64_t shared_bytes_of(const LoopTree& tree) {
  int64_t bytes = 0;
  for (const LoopTree::Shared& s : tree.shared) bytes += s.elements * size_of(s.type);
  return bytes;
}

bool to_tree(Kernel& kernel, const Target& target, Schedule* schedule, LoopTree* tree,
             std::string* why) {
  if (!verify(kernel, why)) return false;
  // With groups that are small enough for the memory that they share.
  for (Target t = target;; t.group /= 2) {
    *schedule = {};
    *tree = {};
    Prepared prepared = prepare(kernel);
    if (!schedule_kernel(prepared.kernel, t, schedule, why)) return false;
    if (!lower(prepared, *schedule, tree, why)) return false;
    const int64_t shared = shared_bytes_of(*tree);
    if (t.shared_bytes == 0 || shared <= t.shared_bytes) break;
    if (t.group / 2 < std::max(t.warp, 1u)) {
      *why = "groups of " + std::to_string(t.group) + " share " + std::to_string(shared) +
             " bytes, and the device has " + std::to_string(t.shared_bytes);
      return false;
    }
  }
  tree->name = entry_name(kernel, *tree);
  return true;
}

}  // namespace

bool generate(std::span<Kernel> kernels, const Target& target, Module* out, std::string* why,
              std::vector<std::string>* texts) {
  Prelude prelude(target);
  std::string bodies;
  std::set<std::string> printed;
  out->launches.clear();
  for (Kernel& k : kernels) {
    LoopTree tree;
    Schedule schedule;
    std::string reason;
    const bool ok = to_tree(k, target, &schedule, &tree, &reason);
    if (ok && printed.insert(tree.name).second) {
      bodies += print(tree, target.dialect, prelude);
    }
    if (ok && texts != nullptr) {
      Prelude own(target);
      const std::string body = print(tree, target.dialect, own);
      texts->push_back(own.text() + body);
    }
    if (ok) reason = prelude.why();
    if (!ok || !reason.empty()) {
      *why = "kernel " + std::to_string(out->launches.size()) + ": " + reason;
      return false;
    }
    Launch& l = out->launches.emplace_back();
    l.entry = tree.name;
    for (const auto& b : tree.buffers) {
      l.buffers.push_back(b.buffer);
      l.written.push_back(b.written);
    }
    l.extent_count = tree.extent_count;
    l.range = tree.range;
    l.scratch_bytes = tree.scratch_bytes;
    l.grain = tree.grain;
    l.group = tree.group;
    l.together = tree.together;
  }
  out->text = prelude.text() + bodies;
  return true;
}

bool explain(Kernel& kernel, const Target& target, std::string* out, std::string* why) {
  *out = to_text(kernel);
  LoopTree tree;
  Schedule schedule;
  if (!to_tree(kernel, target, &schedule, &tree, why)) return false;
  *out += to_text(schedule) + to_text(tree);
  return true;
}

}  // namespace tenon::kernelgen
