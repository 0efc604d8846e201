#include "core/pass/diff.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon::pass {
namespace {

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Change {
  char sign;  // '-', '+' or ' '
  std::string_view line;
};

// Myers' greedy search for the shortest list of changes. Texts that differ in more than this many
// lines are taken as different throughout: the memory grows with the square.
constexpr int64_t kChangesMax = 2000;

class Search {
 public:
  Search(const Lines& a, const Lines& b)
      : a_(a), b_(b), n_(static_cast<int64_t>(a.size())), m_(static_cast<int64_t>(b.size())) {}

  std::vector<Change> changes() {
    const int64_t found = forward();
    if (found < 0) return all();
    std::vector<Change> out;
    back(found, &out);
    std::reverse(out.begin(), out.end());
    return out;
  }

 private:
  // reached_[d][k + d]: the furthest line of `a` on diagonal k with d changes.
  int64_t at(int64_t d, int64_t k) const {
    return reached_[static_cast<size_t>(d)][static_cast<size_t>(k + d)];
  }
  bool comes_down(int64_t d, int64_t k) const {
    return k == -d || (k != d && at(d - 1, k - 1) < at(d - 1, k + 1));
  }

  int64_t forward() {
    for (int64_t d = 0; d <= std::min(n_ + m_, kChangesMax); ++d) {
      reached_.emplace_back(static_cast<size_t>(2 * d + 1));
      for (int64_t k = -d; k <= d; k += 2) {
        int64_t x = 0;
        if (d != 0) x = comes_down(d, k) ? at(d - 1, k + 1) : at(d - 1, k - 1) + 1;
        while (x < n_ && x - k < m_ && x - k >= 0 &&
               a_[static_cast<size_t>(x)] == b_[static_cast<size_t>(x - k)])
          ++x;
        reached_.back()[static_cast<size_t>(k + d)] = x;
        if (x >= n_ && x - k >= m_) return d;
      }
    }
    return -1;
  }

  void back(int64_t d, std::vector<Change>* out) const {
    int64_t x = n_, y = m_;
    for (; d > 0; --d) {
      const int64_t k = x - y;
      const bool down = comes_down(d, k);
      const int64_t from_x = at(d - 1, down ? k + 1 : k - 1),
                    from_y = from_x - (down ? k + 1 : k - 1);
      const int64_t start = down ? from_x : from_x + 1;
      for (; x > start; --x, --y) out->push_back({' ', a_[static_cast<size_t>(x - 1)]});
      if (down)
        out->push_back({'+', b_[static_cast<size_t>(from_y)]});
      else
        out->push_back({'-', a_[static_cast<size_t>(from_x)]});
      x = from_x;
      y = from_y;
    }
    for (; x > 0; --x) out->push_back({' ', a_[static_cast<size_t>(x - 1)]});
  }

  std::vector<Change> all() const {
    std::vector<Change> out;
    for (const std::string_view line : a_) out.push_back({'-', line});
    for (const std::string_view line : b_) out.push_back({'+', line});
    return out;
  }

  const Lines &a_, &b_;
  const int64_t n_, m_;
  std::vector<std::vector<int64_t>> reached_;
};

}  // namespace

std::string line_diff(std::string_view before, std::string_view after, size_t context) {
  if (before == after) return "";
  const Lines a = lines_of(before), b = lines_of(after);
  const std::vector<Change> changes = Search(a, b).changes();
  std::vector<bool> shown(changes.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i].sign == ' ') continue;
    const size_t end = std::min(i + context + 1, changes.size());
    for (size_t j = i - std::min(i, context); j < end; ++j) shown[j] = true;
  }
  std::string out;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (shown[i]) {
      out += changes[i].sign;
      out += std::string(changes[i].line) + "\n";
    } else if (i == 0 || shown[i - 1]) {
      out += "...\n";
    }
  }
  return out;
}

}  // namespace tenon::pass
