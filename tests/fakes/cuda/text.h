// Kernels of other languages as PTX: the fakes of other vendors run on this driver's interpreter.
#ifndef TENON_TESTS_FAKES_CUDA_TEXT_H_
#define TENON_TESTS_FAKES_CUDA_TEXT_H_

#include <string>
#include <vector>

namespace fake_cuda {

// Runs clang on the text, with these arguments before its own. False, with clang's words, if it
// does not compile.
bool to_ptx(const std::string& text, const std::vector<std::string>& arguments, std::string* ptx,
            std::string* why);

}  // namespace fake_cuda
#endif
