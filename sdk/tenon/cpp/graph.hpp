// All of the graph API in C++: views, a builder, and patterns.
#ifndef TENON_CPP_GRAPH_HPP_
#define TENON_CPP_GRAPH_HPP_

#include "tenon/cpp/builder.hpp"
#include "tenon/cpp/dim.hpp"
#include "tenon/cpp/match.hpp"
#include "tenon/cpp/value.hpp"

#endif
