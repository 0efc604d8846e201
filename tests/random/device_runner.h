// Runs generated graphs on a device through a session.
#pragma once
#include <string>

#include <tenon/cpp/session.hpp>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// Compiles each graph for `device` and runs each binding twice: the second run meets the memory
// that the first one left behind. Inputs must be as they were afterwards. The session lives as long
// as the runner is used.
Runner device_runner(const Session& session, std::string device);

}  // namespace tenon::random_tests
