// A model of a file as a generated graph, so that what is checked on random graphs is checked on it too.
#pragma once
#include <map>
#include <string>

#include <tenon/cpp/session.hpp>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// inputs: files of tensors by name; the others are random. Symbols get `symbols` by name, else their hint or 3.
// Expected outputs follow from the ops' own meaning. Empty, or what stands in the way.
std::string model_graph(const Session& session, const std::string& path, const std::map<std::string, std::string>& inputs,
                        const std::map<std::string, int64_t>& symbols, uint64_t seed, Generated* out);

}  // namespace tenon::random_tests
