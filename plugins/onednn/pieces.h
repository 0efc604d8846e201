// A problem cut into pieces that run at once, each a primitive of the library with its arrays and
// its part of the workspace.
#ifndef TENON_PLUGINS_ONEDNN_PIECES_H_
#define TENON_PLUGINS_ONEDNN_PIECES_H_

#include <memory>
#include <vector>

#include "onednn_symbols.h"
#include "problem.h"

namespace tenon::onednn {

// Objects of the library.
struct DescRelease {
  const Library* l;
  void operator()(dnnl_primitive_desc_t d) const { l->dnnl_primitive_desc_destroy(d); }
};
struct PrimitiveRelease {
  const Library* l;
  void operator()(dnnl_primitive_t p) const { l->dnnl_primitive_destroy(p); }
};
using Desc = std::unique_ptr<dnnl_primitive_desc, DescRelease>;
using Primitive = std::unique_ptr<dnnl_primitive, PrimitiveRelease>;

// UNIMPLEMENTED, RESOURCE_EXHAUSTED or INTERNAL for a code of the library. what: as "a product".
Status check(dnnl_status_t status, std::string_view what);

// An array of a piece: where it is in the call's array, and how the primitive wants it.
struct Operand {
  View view;                       // what the piece reads or writes of the call's array
  uint64_t offset_bytes = 0;       // of its first element in that array
  dnnl_memory_desc_t given = {};   // the view as a descriptor
  dnnl_memory_desc_t wanted = {};  // what the primitive takes
  bool direct = true;              // given is wanted
  uint64_t workspace_bytes = 0;    // where the reordered form is, if not direct...
  uint64_t workspace_offset = 0;
  Primitive reorder;  // ...and what makes it (of the result: unmakes it)
};

struct Piece {
  Operand src, weights, dst;
  dnnl_memory_desc_t bias = {}, residual = {};  // as given
  uint64_t bias_offset_bytes = 0, packed_offset = 0;
  dnnl_memory_desc_t scratch = {};
  uint64_t scratch_offset = 0;
  Desc desc;
  Primitive primitive, add_residual;  // add_residual: copies the residual to where dst is made
};

struct Pieces {
  std::vector<Piece> pieces;
  uint64_t workspace_bytes = 0;
  uint64_t packed_bytes = 0;  // 0: the weights are not packed
  double moved_bytes = 0;     // by reorders in one run
};

// The pieces for `threads` threads. Each has its description; with `create` its primitives, too.
// UNIMPLEMENTED with a reason if the library has no implementation.
Status make_pieces(const Library& l, const Problem& problem, uint32_t threads, bool create,
                   Pieces* out);

}  // namespace tenon::onednn

#endif
