// Calls of code that was generated while the program runs.
#ifndef TENON_CPP_GENERATED_CODE_HPP_
#define TENON_CPP_GENERATED_CODE_HPP_

// Put before a function that calls generated code by its address. -fsanitize=function looks for a
// signature in the bytes before the code that is called. Generated code has no signature, and if it
// begins at the start of a page, nothing may be mapped before it.
#ifdef __clang__
#define TENON_CALLS_GENERATED_CODE __attribute__((no_sanitize("function")))
#else
#define TENON_CALLS_GENERATED_CODE
#endif

#endif
