// A failing graph for people: as text, and as files for `tenon run`.
#pragma once
#include <string>

#include "tests/random/runner.h"

namespace tenon::random_tests {

std::string text_of(const Generated& generated);

// Writes NAME.tir and, for the first binding, NAME.INPUT.npy into the folder, which is created if
// missing. `command`: what runs them again. Empty, or what could not be written.
std::string save(const Generated& generated, const std::string& folder, const std::string& name,
                 std::string* command);

}  // namespace tenon::random_tests
