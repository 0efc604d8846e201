// Loops: carried values swap buffers between iterations, so that values which the body writes in
// their final place are not copied.
#include <array>
#include <cstring>
#include <utility>

#include "control/control_run.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

// A value carried between iterations, in two buffers; the operand's own memory is never written.
struct Carried {
  bool stays = false;           // The body yields its own argument.
  bool data_dependent = false;  // Its size may change.
  bool direct = false;          // A part of the body writes it in its final place.
  char* current = nullptr;
  char* next = nullptr;    // Address of this iteration's value.
  char* spare = nullptr;   // The other buffer, while the operand is current.
  char* final = nullptr;   // Required address of the result; null: anywhere.
  GrowingBlock blocks[2];  // For a data-dependent one, in iterations.
  int block = 0;
};

using Dims = std::array<int64_t, TENON_RANK_MAX>;

// Values of all iterations, one after another.
struct Collected {
  GrowingBlock block;
  uint64_t bytes = 0;  // Of one iteration.
};

}  // namespace

// One loop over a body; the part's first operands and results are carried.
class ControlRun::Loop {
 public:
  Loop(ControlRun& run, const ControlPart& part, uint32_t body, size_t carried)
      : run_(run),
        sizes_(run.sizes_),
        values_(run.values_),
        part_(part),
        index_(body),
        body_(run.program_.regions[body]),
        direct_(run.loaded_.direct[body]),
        carried_(carried) {}

  const ControlRegion& body() const { return body_; }

  // iterations: their number if it is known, so that the last one writes the result in place; else
  // 0.
  Status begin(int64_t iterations) {
    for (size_t i = 0; i < carried_.size(); ++i) {
      Carried& c = carried_[i];
      c.stays = body_.yields[i] == body_.arguments[i];
      c.data_dependent = run_.value(body_.arguments[i]).data_dependent ||
                         run_.value(body_.yields[i]).data_dependent;
      c.direct = direct_[i] != 0 && !c.data_dependent;
      c.current = values_[part_.inputs[i]];
      c.final = values_.take_wanted(part_.outputs[i]);
      if (c.stays || c.data_dependent) continue;
      const uint64_t bytes = sizes_.bytes(part_.outputs[i]);
      TENON_TRY(values_.arena().take(bytes, &c.next));
      c.spare = c.final;
      if (c.spare == nullptr) TENON_TRY(values_.arena().take(bytes, &c.spare));
      if (iterations % 2 == 1) std::swap(c.next, c.spare);
    }
    return {};
  }

  // Binds the carried values to a region's arguments.
  void bind(const ControlRegion& region) {
    for (size_t i = 0; i < carried_.size(); ++i) values_[region.arguments[i]] = carried_[i].current;
  }

  // Runs one iteration. where(i, &to) gives the address of yield i, for those that are not carried.
  template <class Where>
  Status iterate(Where&& where) {
    const ControlArena::Mark mark = values_.arena().mark();
    bind(body_);
    char* to = nullptr;
    for (size_t i = 0; i < body_.yields.size(); ++i) {
      if (i < carried_.size()) {
        if (carried_[i].direct) values_.want(body_.yields[i], carried_[i].next);
      } else if (direct_[i] != 0) {
        TENON_TRY(where(i, &to));
        values_.want(body_.yields[i], to);
      }
    }
    TENON_TRY(run_.run_region(index_));
    for (size_t i = carried_.size(); i < body_.yields.size(); ++i) {
      if (direct_[i] != 0) continue;
      TENON_TRY(where(i, &to));
      values_.copy(to, body_.yields[i]);
    }
    TENON_TRY(check());
    TENON_TRY(advance());
    values_.arena().release(mark);
    return {};
  }

  Status end() {
    for (size_t i = 0; i < carried_.size(); ++i) {
      Carried& c = carried_[i];
      const uint32_t out = part_.outputs[i];
      const bool in_block = c.current == c.blocks[0].data() || c.current == c.blocks[1].data();
      // Blocks are freed with the loop.
      if (c.final == nullptr && in_block)
        TENON_TRY(values_.arena().take(sizes_.bytes(out), &c.final));
      if (c.final != nullptr && c.current != c.final) {
        if (const uint64_t bytes = sizes_.bytes(out); bytes != 0) memcpy(c.final, c.current, bytes);
        c.current = c.final;
      }
      values_[out] = c.current;
    }
    return {};
  }

 private:
  Status check() {
    if (cancelled()) return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
    for (const ControlSize& s : body_.checks) {
      const int64_t was = sizes_.dim(body_.arguments[s.index], s.dim);
      const int64_t is = sizes_.dim(body_.yields[s.index], s.dim);
      if (was != is) {
        return fail(TENON_INVALID_ARGUMENT,
                    cat("T0324: ", part_.place, ": dim ", s.dim, " of carried value ", s.index,
                        " was ", was, " and became ", is,
                        " in an iteration; only dims that are symbols of the body may change."));
      }
    }
    return {};
  }

  // Advances all at once: values that are not written in place are copied before buffers are
  // swapped.
  Status advance() {
    for (size_t i = 0; i < carried_.size(); ++i) {
      Carried& c = carried_[i];
      if (!c.stays && !c.data_dependent && !c.direct) values_.copy(c.next, body_.yields[i]);
    }
    for (size_t i = 0; i < carried_.size(); ++i) {
      Carried& c = carried_[i];
      if (c.stays) continue;
      if (c.data_dependent) {
        TENON_TRY(keep_data_dependent(c, body_.yields[i]));
        continue;
      }
      char* const used = c.current;
      c.current = c.next;
      c.next = c.spare != nullptr ? std::exchange(c.spare, nullptr) : used;
    }
    return {};
  }

  Status keep_data_dependent(Carried& c, uint32_t yield) {
    GrowingBlock& block = c.blocks[c.block ^= 1];
    const uint64_t bytes = sizes_.bytes(yield);
    TENON_TRY(block.reserve(bytes));
    if (bytes != 0) memcpy(block.data(), values_[yield], bytes);
    c.current = block.data();
    return {};
  }

  ControlRun& run_;
  RunSizes& sizes_;
  RunValues& values_;
  const ControlPart& part_;
  const uint32_t index_;
  const ControlRegion& body_;
  const std::vector<uint8_t>& direct_;
  std::vector<Carried> carried_;
};

Status ControlRun::run_while(const ControlPart& part) {
  const uint32_t condition_index = part.regions[0];
  const ControlRegion& condition = program_.regions[condition_index];
  const size_t count = part.inputs.size();
  Loop loop(*this, part, part.regions[1], count);
  const ControlRegion& body = loop.body();
  TENON_TRY(loop.begin(0));
  std::vector<Collected> collected(part.outputs.size() - count);
  for (size_t k = 0; k < collected.size(); ++k)
    collected[k].bytes = sizes_.bytes(body.yields[count + k]);
  // Dims that the iteration leaves open, from the values carried into it.
  std::vector<Dims> dims(body.opens.empty() ? 0 : count);
  const auto measure = [&](const std::vector<uint32_t>& carried) {
    for (const ControlSize& s : body.opens)
      dims[s.index][s.dim] = sizes_.dim(carried[s.index], s.dim);
  };
  const auto learn_open = [&](const ControlRegion& region) -> Status {
    for (const ControlSize& s : region.opens) sizes_.forget(s.symbol);
    sizes_.forget(region);
    for (const ControlSize& s : region.opens)
      TENON_TRY(sizes_.learn(s.symbol, dims[s.index][s.dim]));
    return {};
  };
  measure(part.inputs);
  int64_t trips = 0;
  for (; part.max_trip < 0 || trips < part.max_trip; ++trips) {
    const ControlArena::Mark mark = values_.arena().mark();
    TENON_TRY(learn_open(condition));
    loop.bind(condition);
    TENON_TRY(run_region(condition_index));
    const bool holds = *values_[condition.yields[0]] != 0;
    values_.arena().release(mark);
    if (!holds) break;
    TENON_TRY(learn_open(body));
    TENON_TRY(loop.iterate([&](size_t i, char** to) -> Status {
      Collected& c = collected[i - count];
      const uint64_t before = c.bytes * static_cast<uint64_t>(trips);
      TENON_TRY(c.block.reserve(before + c.bytes));
      *to = c.block.data() + before;
      return {};
    }));
    measure(body.yields);
  }
  for (const ControlSize& s : part.defines)
    TENON_TRY(sizes_.learn(s.symbol, s.index < count ? dims[s.index][s.dim] : trips));
  TENON_TRY(loop.end());
  for (size_t k = 0; k < collected.size(); ++k) {
    const uint32_t v = part.outputs[count + k];
    TENON_TRY(values_.place(v));
    if (trips != 0)
      memcpy(values_[v], collected[k].block.data(),
             collected[k].bytes * static_cast<uint64_t>(trips));
  }
  return {};
}

Status ControlRun::run_scan(const ControlPart& part) {
  const int64_t length = part.length.evaluate(sizes_.symbols());
  Loop loop(*this, part, part.regions[0], part.carried);
  const ControlRegion& body = loop.body();
  TENON_TRY(loop.begin(length));
  for (size_t i = part.carried; i < part.outputs.size(); ++i)
    TENON_TRY(values_.place(part.outputs[i]));
  for (int64_t iteration = 0; iteration < length; ++iteration) {
    const auto at = static_cast<uint64_t>(part.reverse ? length - 1 - iteration : iteration);
    for (size_t i = part.carried; i < part.inputs.size(); ++i) {
      values_[body.arguments[i]] = values_[part.inputs[i]] + at * sizes_.bytes(body.arguments[i]);
    }
    TENON_TRY(loop.iterate([&](size_t i, char** to) -> Status {
      *to = values_[part.outputs[i]] + at * sizes_.bytes(body.yields[i]);
      return {};
    }));
  }
  return loop.end();
}

}  // namespace tenon::cpu
