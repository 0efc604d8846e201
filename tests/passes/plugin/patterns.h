// A pass with the patterns of tenon/cpp/patterns.hpp, for tests/passes/patterns.tir.
#pragma once
#include "tenon/abi/pass.h"

extern const tenon_pass_def_t kPatternedPass;
