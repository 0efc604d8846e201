#include "text.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace fake_cuda {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

bool to_ptx(const std::string& text, const std::vector<std::string>& arguments, std::string* ptx,
            std::string* why) {
  std::string folder = (std::filesystem::temp_directory_path() / "tenon_fake_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    *why = "there is no folder for temporary files";
    return false;
  }
  std::ofstream(folder + "/text", std::ios::binary) << text;
  // The tests' own library path is none of the compiler's.
  std::string command = "env -u LD_LIBRARY_PATH " FAKE_CLANG;
  for (const std::string& a : arguments) command += " '" + a + "'";
  command += " -O2 -S -o '" + folder + "/ptx' '" + folder + "/text' 2>'" + folder + "/words'";
  const bool done = std::system(command.c_str()) == 0;
  *ptx = read(folder + "/ptx");
  *why = read(folder + "/words");
  // clang asks for the newest version that it knows. The code is for sm_80, and needs none of it.
  constexpr std::string_view kVersion = ".version ";
  if (const size_t at = ptx->find(kVersion); at != std::string::npos)
    ptx->replace(at + kVersion.size(), 3, "7.0");
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return done;
}

}  // namespace fake_cuda
