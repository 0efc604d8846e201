// Runs generated graphs on a device through a session.
#pragma once
#include <string>

#include <tenon/cpp/session.hpp>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// Compiles each graph for `device` and runs each binding twice: the second run gets the memory that
// the first one left. The inputs must be unchanged afterwards. The session must outlive the
// runner.
Runner device_runner(const Session& session, std::string device);

}  // namespace tenon::random_tests
