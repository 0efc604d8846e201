#include "sdk/tools/tenon/host/helpers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "sdk/tools/tenon/console/console.h"

namespace tenon::tools {
namespace {

// The folder of this program, with links resolved.
std::string own_folder() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof(path));
  const std::string program(path, size > 0 ? static_cast<size_t>(size) : 0);
  return program.substr(0, program.rfind('/'));
}

}  // namespace

int become_helper(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> folders = {own_folder() + "/../libexec/tenon"};
  // Like every variable, ignored in a process with raised privileges.
  if (const char* chosen = ::secure_getenv("TENON_LIBEXEC_DIR");
      chosen != nullptr && chosen[0] == '/')
    folders.insert(folders.begin(), chosen);
  std::vector<char*> argv = {const_cast<char*>(name.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (const std::string& folder : folders) ::execv((folder + "/" + name).c_str(), argv.data());
  return fail(kDevice, "P0603",
              fmt::format("the helper program {} is not in {}.", in_quotes(name),
                          in_quotes(folders.front())));
}

std::string data_folder(const std::string& name) {
  const std::string folder = own_folder() + "/../share/tenon/" + name;
  struct stat found = {};
  return ::stat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) ? folder : std::string();
}

}  // namespace tenon::tools
