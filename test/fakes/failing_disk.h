// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails later: a file system of FUSE with one folder, served by a process of its own. Its files are mapped,
// cached, written back and evicted by the kernel as those of a disk.
#ifndef PITOT_TEST_FAKES_FAILING_DISK_H_
#define PITOT_TEST_FAKES_FAILING_DISK_H_

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

namespace fakes {

class FailingDisk {
 public:
  // Mounts it at a folder, for a process that may mount (own_mounts.h). `IsMounted` tells if the machine allows it.
  explicit FailingDisk(const std::string& folder) {
    fd_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    void* const shared = mmap(nullptr, sizeof *shared_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fd_ < 0 || shared == MAP_FAILED) return;
    shared_ = new (shared) Shared;
    char options[96];
    std::snprintf(options, sizeof options, "fd=%d,rootmode=40700,user_id=%d,group_id=%d", fd_,
                  static_cast<int>(geteuid()), static_cast<int>(getegid()));
    if (mount("pitot-test", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options) != 0) return;
    server_ = fork();
    if (server_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Serve();
    _exit(0);
  }
  ~FailingDisk() {
    if (server_ > 0) kill(server_, SIGKILL);
    if (fd_ >= 0) close(fd_);  // nobody waits for an answer any more
  }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  bool IsMounted() const { return server_ > 0; }
  // Each read and write is EIO from now on, and pages in memory are evicted, as under memory pressure.
  bool Fail() const {
    shared_->fails.store(true);
    for (uint64_t node = FUSE_ROOT_ID + 1; node < shared_->next_node.load(); ++node) {
      fuse_notify_inval_inode_out pages{node, 0, 0};
      fuse_out_header header{sizeof header + sizeof pages, FUSE_NOTIFY_INVAL_INODE, 0};
      iovec parts[] = {{&header, sizeof header}, {&pages, sizeof pages}};
      if (writev(fd_, parts, 2) < 0 && errno != ENOENT) return false;
    }
    return true;
  }
  uint64_t errors() const { return shared_->errors.load(); }

 private:
  struct Shared {
    std::atomic<bool> fails{false};
    std::atomic<uint64_t> errors{0}, next_node{FUSE_ROOT_ID + 1};
  };
  using Bytes = std::vector<char>;

  void Serve() {
    Bytes request(1 << 20);
    for (;;) {
      const ssize_t got = read(fd_, request.data(), request.size());
      if (got < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
      if (got < 0) return;
      Answer(*reinterpret_cast<const fuse_in_header*>(request.data()), request.data() + sizeof(fuse_in_header));
    }
  }

  void Reply(const fuse_in_header& to, const void* data, size_t bytes, int error = 0) const {
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof header + bytes);
    header.error = -error;
    header.unique = to.unique;
    iovec parts[] = {{&header, sizeof header}, {const_cast<void*>(data), bytes}};
    static_cast<void>(writev(fd_, parts, bytes != 0 ? 2 : 1));
  }
  void Refuse(const fuse_in_header& to, int error) const { Reply(to, nullptr, 0, error); }
  template <class Out> void Reply(const fuse_in_header& to, const Out& out) const { Reply(to, &out, sizeof out); }

  fuse_attr AttributesOf(uint64_t node) const {
    fuse_attr attributes{};
    attributes.ino = node;
    attributes.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0600;
    attributes.nlink = node == FUSE_ROOT_ID || is_linked_.at(node) ? 1 : 0;
    attributes.size = node == FUSE_ROOT_ID ? 0 : files_.at(node).size();
    attributes.uid = geteuid();
    attributes.gid = getegid();
    attributes.blksize = 4096;
    return attributes;
  }
  fuse_entry_out EntryOf(uint64_t node) const {
    fuse_entry_out entry{};
    entry.nodeid = node;
    entry.attr = AttributesOf(node);
    return entry;
  }

  void Answer(const fuse_in_header& to, const char* in) {
    const bool fails = shared_->fails.load();
    switch (to.opcode) {
      case FUSE_INIT: {
        fuse_init_out out{};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = std::min<uint32_t>(FUSE_KERNEL_MINOR_VERSION, reinterpret_cast<const fuse_init_in*>(in)->minor);
        out.max_write = 1 << 16;
        return Reply(to, out);
      }
      case FUSE_LOOKUP: {
        const auto node = names_.find(in);
        return node != names_.end() ? Reply(to, EntryOf(node->second)) : Refuse(to, ENOENT);
      }
      case FUSE_CREATE: {
        const uint64_t node = shared_->next_node.fetch_add(1);
        names_[in + sizeof(fuse_create_in)] = node;
        files_[node];
        is_linked_[node] = true;
        struct {
          fuse_entry_out entry;
          fuse_open_out open;
        } out{EntryOf(node), {}};
        return Reply(to, out);
      }
      case FUSE_UNLINK: {
        const auto node = names_.find(in);
        if (node == names_.end()) return Refuse(to, ENOENT);
        is_linked_[node->second] = false;
        names_.erase(node);
        return Refuse(to, 0);
      }
      case FUSE_GETATTR:
      case FUSE_SETATTR: {
        const auto* const set = reinterpret_cast<const fuse_setattr_in*>(in);
        if (to.opcode == FUSE_SETATTR && (set->valid & FATTR_SIZE) != 0) files_.at(to.nodeid).resize(set->size);
        fuse_attr_out out{};
        out.attr = AttributesOf(to.nodeid);
        return Reply(to, out);
      }
      case FUSE_FALLOCATE: {
        const auto* const what = reinterpret_cast<const fuse_fallocate_in*>(in);
        Bytes& file = files_.at(to.nodeid);
        const uint64_t end = what->offset + what->length;
        if ((what->mode & FALLOC_FL_KEEP_SIZE) == 0 && file.size() < end) file.resize(end);
        return Refuse(to, 0);
      }
      case FUSE_READ: {
        const auto* const what = reinterpret_cast<const fuse_read_in*>(in);
        if (fails) break;
        const Bytes& file = files_.at(to.nodeid);
        const uint64_t begin = std::min<uint64_t>(what->offset, file.size());
        return Reply(to, file.data() + begin, std::min<uint64_t>(what->size, file.size() - begin));
      }
      case FUSE_WRITE: {
        const auto* const what = reinterpret_cast<const fuse_write_in*>(in);
        if (fails) break;
        Bytes& file = files_.at(to.nodeid);
        if (file.size() < what->offset + what->size) file.resize(what->offset + what->size);
        std::memcpy(file.data() + what->offset, what + 1, what->size);
        fuse_write_out out{};
        out.size = what->size;
        return Reply(to, out);
      }
      case FUSE_STATFS: {
        fuse_statfs_out out{};
        out.st.bsize = out.st.frsize = 4096;
        out.st.blocks = out.st.bfree = out.st.bavail = 1 << 20;
        out.st.namelen = 255;
        return Reply(to, out);
      }
      case FUSE_OPEN:
      case FUSE_OPENDIR:
        return Reply(to, fuse_open_out{});
      case FUSE_READDIR:
      case FUSE_FLUSH:
      case FUSE_FSYNC:
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
        return Refuse(to, 0);
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        return;  // not answered
      default:
        return Refuse(to, ENOSYS);
    }
    shared_->errors.fetch_add(1);
    Refuse(to, EIO);
  }

  int fd_ = -1;
  Shared* shared_ = nullptr;
  pid_t server_ = -1;
  // The server's.
  std::map<std::string, uint64_t> names_;
  std::map<uint64_t, Bytes> files_;
  std::map<uint64_t, bool> is_linked_;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_FAILING_DISK_H_
