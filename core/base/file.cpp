#include "core/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "core/base/checked.h"
#include "core/base/limits.h"
#include "core/base/str.h"

namespace tenon {
namespace {

constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

// The GNU form of strerror_r never fails.
std::string errno_text(int number) {
  char buffer[128];
  return strerror_r(number, buffer, sizeof(buffer));
}

tenon_code_t code_of_errno(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return TENON_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
      return TENON_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return TENON_RESOURCE_EXHAUSTED;
    case EEXIST:
      return TENON_ALREADY_EXISTS;
    case ENAMETOOLONG:
    case EINVAL:
      return TENON_INVALID_ARGUMENT;
    default:
      return TENON_UNAVAILABLE;
  }
}

Status check_path(std::string_view path) {
  if (path.empty()) return error(TENON_INVALID_ARGUMENT, "T0104", "the name of a file is empty");
  if (path.find('\0') != std::string_view::npos) {
    return error(TENON_INVALID_ARGUMENT, "T0104", "the file name {} holds a NUL byte",
                 quoted(path));
  }
  return Status();
}

// A name from inside a file: all rules that need no disk access.
Status check_relative(std::string_view name) {
  TENON_RETURN_IF_ERROR(check_path(name));
  auto refuse = [&](std::string_view why) {
    return error(TENON_INVALID_ARGUMENT, "T0104", "the file name {} {}", quoted(name), why);
  };
  if (name[0] == '/')
    return refuse("is absolute, and must lie beneath the folder of the file that names it");
  if (name.find('\\') != std::string_view::npos) return refuse("holds a backslash");
  if (name.size() >= PATH_MAX) return refuse("is too long");
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    if (part == "..") return refuse("leaves its folder");
    if (end == name.size() && (part.empty() || part == ".")) return refuse("names a folder");
    begin = end + 1;
  }
  return Status();
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  void reset(int value) {
    if (value_ >= 0) ::close(value_);
    value_ = value;
  }

 private:
  int value_;
};

// Keeps the descriptor if it is a regular file; closes it if not.
Result<File> adopt_regular(int raw, std::string_view path) {
  Descriptor descriptor(raw);
  struct stat status;
  if (fstat(raw, &status) != 0) return errno_status(errno, "look at", path);
  if (!S_ISREG(status.st_mode)) {
    std::string_view what = S_ISDIR(status.st_mode)    ? "a folder"
                            : S_ISFIFO(status.st_mode) ? "a FIFO"
                                                       : "a device";
    return error(TENON_INVALID_ARGUMENT, "T0103", "{} is {}, and a regular file is needed",
                 quoted(path), what);
  }
  return File(descriptor.release(), std::string(path), identity_of(status));
}

int open_retrying(int folder, const char* path, int flags, mode_t mode = 0) {
  int descriptor;
  do {
    descriptor = ::openat(folder, path, flags, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// Opens step by step without following a link, for kernels without openat2.
int open_by_steps(int folder, const std::string& relative) {
  Descriptor current(open_retrying(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (size_t begin = 0;;) {
    size_t end = std::min(relative.find('/', begin), relative.size());
    std::string part = relative.substr(begin, end - begin);
    if (end == relative.size())
      return open_retrying(current.get(), part.c_str(), kOpenFlags | O_NOFOLLOW);
    if (!part.empty()) {
      int next =
          open_retrying(current.get(), part.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
      if (next < 0) {
        // O_DIRECTORY|O_NOFOLLOW reports a link as ENOTDIR.
        struct stat status;
        if (errno == ENOTDIR &&
            fstatat(current.get(), part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(status.st_mode)) {
          errno = ELOOP;
        }
        return -1;
      }
      current.reset(next);
    }
    begin = end + 1;
  }
}

int open_without_links(int folder, const std::string& relative) {
  struct open_how how = {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 0; attempt < 16; ++attempt) {
    long descriptor = ::syscall(SYS_openat2, folder, relative.c_str(), &how, sizeof(how));
    if (descriptor >= 0) return static_cast<int>(descriptor);
    if (errno == ENOSYS || errno == EPERM) return open_by_steps(folder, relative);
    if (errno != EINTR && errno != EAGAIN) return -1;  // EAGAIN: a rename raced with the walk
  }
  return -1;
}

Status link_refused(std::string_view path) {
  return error(TENON_PERMISSION_DENIED, "T0105", "{} is, or passes through, a symbolic link",
               quoted(path));
}

}  // namespace

Status errno_status(int number, std::string_view verb, std::string_view path) {
  bool full = number == ENOSPC || number == EDQUOT;
  return error(code_of_errno(number), full ? "T0108" : "T0101", "cannot {} {}: {}", verb,
               quoted(path), errno_text(number));
}

FileIdentity identity_of(const struct stat& s) {
  auto ns = [](const timespec& t) {
    return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
  };
  return {s.st_dev,  s.st_ino, static_cast<uint64_t>(s.st_size), ns(s.st_mtim), ns(s.st_ctim),
          s.st_mode, s.st_uid, static_cast<uint32_t>(s.st_nlink)};
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      identity_(other.identity_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

namespace {
// The error for a missing file. It names a file of the same folder that has nearly its name.
Status no_such_file(std::string_view path) {
  const Status status = errno_status(ENOENT, "open", path);
  const Result<std::vector<std::string>> names = list_folder(folder_of(path));
  if (!names.ok()) return status;
  return error(status.code(), status.error_code(), "{}{}", status.message(),
               did_you_mean(file_name_of(path), *names));
}
}  // namespace

Result<File> open_user_file(std::string_view path) {
  TENON_RETURN_IF_ERROR(check_path(path));
  int descriptor = open_retrying(AT_FDCWD, std::string(path).c_str(), kOpenFlags);
  if (descriptor < 0 && errno == ENOENT) return no_such_file(path);
  if (descriptor < 0) return errno_status(errno, "open", path);
  return adopt_regular(descriptor, path);
}

Result<File> open_no_follow(std::string_view path) {
  TENON_RETURN_IF_ERROR(check_path(path));
  int descriptor = open_retrying(AT_FDCWD, std::string(path).c_str(), kOpenFlags | O_NOFOLLOW);
  if (descriptor < 0 && errno == ELOOP) return link_refused(path);
  if (descriptor < 0) return errno_status(errno, "open", path);
  return adopt_regular(descriptor, path);
}

namespace {
template <typename Walk>
Result<File> open_beneath_with(std::string_view folder, std::string_view relative, Walk walk) {
  TENON_RETURN_IF_ERROR(check_path(folder));
  TENON_RETURN_IF_ERROR(check_relative(relative));
  Descriptor base(
      open_retrying(AT_FDCWD, std::string(folder).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (base.get() < 0) return errno_status(errno, "open the folder", folder);
  std::string shown = join_path(folder, relative);
  int descriptor = walk(base.get(), std::string(relative));
  if (descriptor < 0 && errno == ELOOP) return link_refused(shown);
  if (descriptor < 0 && errno == EXDEV) {
    return error(TENON_INVALID_ARGUMENT, "T0104", "the file name {} leaves its folder",
                 quoted(relative));
  }
  if (descriptor < 0) return errno_status(errno, "open", shown);
  TENON_ASSIGN_OR_RETURN(File file, adopt_regular(descriptor, shown));
  if (file.identity().links != 1) {
    return error(TENON_PERMISSION_DENIED, "T0105", "{} has {} hard links, and must have one",
                 quoted(shown), file.identity().links);
  }
  return file;
}
}  // namespace

Result<File> open_beneath(std::string_view folder, std::string_view relative) {
  return open_beneath_with(folder, relative, open_without_links);
}

Result<File> detail::open_beneath_by_steps(std::string_view folder, std::string_view relative) {
  return open_beneath_with(folder, relative, open_by_steps);
}

MappedRegion::~MappedRegion() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

Result<std::shared_ptr<const MappedRegion>> map_region(const File& file, uint64_t offset,
                                                       uint64_t length) {
  if (!range_inside(offset, length, file.size_bytes())) {
    return error(TENON_OUT_OF_RANGE, "T0106", "bytes {} + {} are not inside {}, which has {} bytes",
                 offset, length, quoted(file.path()), file.size_bytes());
  }
  TENON_RETURN_IF_ERROR(check_limit(Limit::kFileBytes, length, quoted(file.path())));
  std::shared_ptr<MappedRegion> region(new MappedRegion);
  if (length == 0) return std::shared_ptr<const MappedRegion>(region);
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset & ~(page - 1);
  region->mapped_ = length + (offset - begin);
  void* base = ::mmap(nullptr, region->mapped_, PROT_READ, MAP_PRIVATE, file.descriptor(),
                      static_cast<off_t>(begin));
  if (base == MAP_FAILED) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0111", "cannot map {} bytes of {}: {}", length,
                 quoted(file.path()), errno_text(errno));
  }
  region->base_ = base;
  region->data_ = static_cast<const std::byte*>(base) + (offset - begin);
  region->size_ = length;
  return std::shared_ptr<const MappedRegion>(region);
}

Result<std::shared_ptr<const MappedRegion>> map_file(const File& file) {
  return map_region(file, 0, file.size_bytes());
}

Result<std::string> read_all(const File& file, uint64_t max_bytes, std::string_view what) {
  if (file.size_bytes() > max_bytes) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0102", "{} has {} bytes, and the limit for {} is {}",
                 quoted(file.path()), file.size_bytes(), what, max_bytes);
  }
  std::string contents(file.size_bytes(), '\0');
  for (size_t done = 0; done < contents.size();) {
    ssize_t got = ::pread(file.descriptor(), contents.data() + done, contents.size() - done,
                          static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status(errno, "read", file.path());
    if (got == 0) {
      return error(TENON_DATA_LOSS, "T0106", "{} shrank while it was read", quoted(file.path()));
    }
    done += static_cast<size_t>(got);
  }
  return contents;
}

Result<std::string> read_system_file(std::string_view path, size_t max_bytes) {
  TENON_ASSIGN_OR_RETURN(File file, open_user_file(path));
  std::string contents(max_bytes, '\0');
  size_t done = 0;
  while (done < max_bytes) {
    ssize_t got = ::read(file.descriptor(), contents.data() + done, max_bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status(errno, "read", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  contents.resize(done);
  return contents;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

namespace {
Status not_written(int number, std::string_view what, std::string_view path) {
  const Status status = errno_status(number, what, path);
  return Status(status.code(), number == ENOSPC || number == EDQUOT ? "T0108" : "T0107",
                std::string(status.message()));
}
}  // namespace

Result<AtomicFile> AtomicFile::create(std::string_view path, uint32_t mode) {
  TENON_RETURN_IF_ERROR(check_path(path));
  struct stat status;
  if (::lstat(std::string(path).c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (S_ISLNK(status.st_mode)) {
      return error(TENON_PERMISSION_DENIED, "T0109",
                   "{} is a symbolic link, and is not written through", quoted(path));
    }
    if (S_ISCHR(status.st_mode)) {  // /dev/null is written to as it is: nothing is replaced
      AtomicFile device;
      device.path_ = path;
      device.descriptor_ = open_retrying(AT_FDCWD, device.path_.c_str(),
                                         O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0);
      if (device.descriptor_ < 0) return not_written(errno, "open", path);
      return device;
    }
    return error(TENON_INVALID_ARGUMENT, "T0103", "{} exists and is not a regular file",
                 quoted(path));
  }
  static std::atomic<uint32_t> counter{0};
  AtomicFile file;
  file.path_ = path;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string name =
        fmt::format("{}/.tmp.{}.{}", folder_of(path), ::getpid(), counter.fetch_add(1));
    file.descriptor_ = open_retrying(AT_FDCWD, name.c_str(),
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file.descriptor_ >= 0) {
      file.temporary_ = std::move(name);
      return file;
    }
    if (errno != EEXIST) break;
  }
  return not_written(errno, "create", path);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return not_written(errno, "write", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Status();
}

Status AtomicFile::commit() {
  // close reports errors that network file systems and quotas deferred.
  if (::close(std::exchange(descriptor_, -1)) != 0) return not_written(errno, "write", path_);
  if (temporary_.empty()) return Status();  // a device
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return not_written(errno, "write", path_);
  temporary_.clear();
  return Status();
}

Status write_file(std::string_view path, std::string_view contents, uint32_t mode) {
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, mode));
  TENON_RETURN_IF_ERROR(file.write(contents));
  return file.commit();
}

Status make_folders(std::string_view path, uint32_t mode) {
  TENON_RETURN_IF_ERROR(check_path(path));
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end != path.size() && path[end] != '/') continue;
    std::string part(path.substr(0, end));
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      int number = errno;
      struct stat status;  // an existing parent that is read-only or someone else's does not matter
      if (::stat(part.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) continue;
      return errno_status(number, "make the folder", part);
    }
  }
  struct stat status;
  if (::stat(std::string(path).c_str(), &status) != 0)
    return errno_status(errno, "make the folder", path);
  if (!S_ISDIR(status.st_mode)) return errno_status(ENOTDIR, "make the folder", path);
  return Status();
}

Result<std::vector<std::string>> list_folder(std::string_view path) {
  TENON_RETURN_IF_ERROR(check_path(path));
  int descriptor =
      open_retrying(AT_FDCWD, std::string(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno_status(errno, "open the folder", path);
  DIR* folder = ::fdopendir(descriptor);
  if (folder == nullptr) {
    ::close(descriptor);
    return errno_status(errno, "open the folder", path);
  }
  std::vector<std::string> names;
  while (dirent* entry = ::readdir(folder)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.push_back(entry->d_name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

Result<FileIdentity> identify(std::string_view path) {
  TENON_RETURN_IF_ERROR(check_path(path));
  struct stat status;
  if (::stat(std::string(path).c_str(), &status) != 0) return errno_status(errno, "look at", path);
  return identity_of(status);
}

Result<FileIdentity> identify_link(std::string_view path) {
  TENON_RETURN_IF_ERROR(check_path(path));
  struct stat status;
  if (::lstat(std::string(path).c_str(), &status) != 0) return errno_status(errno, "look at", path);
  return identity_of(status);
}

Status remove_file(std::string_view path) {
  if (::unlink(std::string(path).c_str()) != 0 && errno != ENOENT)
    return errno_status(errno, "remove", path);
  return Status();
}

Result<std::string> real_path(std::string_view path) {
  TENON_RETURN_IF_ERROR(check_path(path));
  char* resolved = ::realpath(std::string(path).c_str(), nullptr);
  if (resolved == nullptr) return errno_status(errno, "find", path);
  std::string out(resolved);
  std::free(resolved);
  return out;
}

std::string_view folder_of(std::string_view path) {
  size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? std::string_view("/") : path.substr(0, slash);
}

std::string_view file_name_of(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  std::string out(folder);
  if (out.back() != '/') out += '/';
  return out += name;
}

}  // namespace tenon
