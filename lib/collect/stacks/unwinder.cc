// SPDX-License-Identifier: Apache-2.0
//
// libdw's interface for other processes, used on our own, too. It finds modules in /proc/PID/maps, and unwind tables
// and symbols in their files. It asks us for memory, which is read without faults, and for registers. It calls nothing
// in the other thread.
#include "collect/stacks/unwinder.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <unordered_map>
#include <utility>

#include "base/loader_lock.h"
#include "base/safe_read.h"
#include "collect/stacks/frames.h"

namespace pitot::stacks {

namespace {

// The used parts of libdw's ABI (elfutils/libdwfl.h), which has not changed since 0.158 of 2014.
using Session = struct OpaqueSession*;  // Dwfl
using Module = struct OpaqueModule*;
using ThreadOfSession = struct OpaqueThread*;
using State = struct OpaqueState*;  // of a frame
using Elf = struct OpaqueElf*;

struct ModuleFunctions {
  int (*find_elf)(Module, void**, const char* name, uint64_t base, char** file, Elf*);
  int (*find_debug_info)(Module, void**, const char*, uint64_t, const char*, const char*, uint32_t, char**);
  int (*section_address)(Module, void**, const char*, uint64_t, const char*, uint32_t, const void*, uint64_t*);
  char** debug_info_path;
};
struct ThreadFunctions {
  pid_t (*next_thread)(Session, void* context, void** thread);
  bool (*get_thread)(Session, pid_t tid, void* context, void** thread);
  bool (*read_memory)(Session, uint64_t at, uint64_t* value, void* context);
  bool (*set_registers)(ThreadOfSession, void* thread);
  void (*detach)(Session, void* context);
  void (*detach_thread)(ThreadOfSession, void* thread);
};
struct Symbol {  // GElf_Sym
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
};

struct Api {
  Session (*begin)(const ModuleFunctions*);
  void (*end)(Session);
  int (*find_modules)(Session, pid_t);
  int (*end_modules)(Session, void*, void*);
  bool (*attach)(Session, Elf, pid_t, const ThreadFunctions*, void* context);
  int (*walk)(Session, pid_t tid, int (*visit)(State, void* context), void* context);
  bool (*get_instruction)(State, uint64_t* at, bool* is_innermost);
  bool (*set_registers)(ThreadOfSession, int first, unsigned count, const uint64_t* values);
  void (*set_instruction)(ThreadOfSession, uint64_t at);
  Module (*module_at)(Session, uint64_t at);
  const char* (*module_name)(Module, void***, uint64_t* begin, uint64_t* end, uint64_t*, uint64_t*, const char**,
                             const char**);
  const char* (*symbol_at)(Module, uint64_t at, uint64_t* offset, Symbol*, uint32_t*, Elf*, uint64_t*);
  int (*find_elf)(Module, void**, const char*, uint64_t, char**, Elf*);
};

constexpr const char* kLibrary = "libdw.so.1";
constexpr int kGoOn = 0, kStop = 1;  // of visits

template <class Function> bool Find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

bool FindAll(void* handle, Api* api) {
  return Find(handle, "dwfl_begin", &api->begin) && Find(handle, "dwfl_end", &api->end) &&
         Find(handle, "dwfl_linux_proc_report", &api->find_modules) &&
         Find(handle, "dwfl_report_end", &api->end_modules) && Find(handle, "dwfl_attach_state", &api->attach) &&
         Find(handle, "dwfl_getthread_frames", &api->walk) && Find(handle, "dwfl_frame_pc", &api->get_instruction) &&
         Find(handle, "dwfl_thread_state_registers", &api->set_registers) &&
         Find(handle, "dwfl_thread_state_register_pc", &api->set_instruction) &&
         Find(handle, "dwfl_addrmodule", &api->module_at) && Find(handle, "dwfl_module_info", &api->module_name) &&
         Find(handle, "dwfl_module_addrinfo", &api->symbol_at) &&
         Find(handle, "dwfl_linux_proc_find_elf", &api->find_elf);
}

class LibDw final : public Unwinder {
 public:
  LibDw(const Api& api, pid_t pid, StackDepth depth)
      : api_(api), pid_(pid), depth_(depth), module_functions_{FindElf, FindNoDebugInfo, nullptr, nullptr} {}
  ~LibDw() override { LibDw::Reset(); }
  LibDw(const LibDw&) = delete;
  LibDw& operator=(const LibDw&) = delete;

  std::vector<Frame> Unwind(uint64_t stack, uint64_t instruction) override {
    thread_ = {Sample::kStackPointer, 1, &stack, instruction, nullptr};
    return Walk();
  }
  std::vector<Frame> UnwindSample(const Sample& sample) override {
    if (sample.stack.empty()) return {};
    thread_ = {0, Sample::kRegisters, sample.registers, sample.instruction, &sample};
    return Walk();
  }
  void Reset() override {
    known_.clear();
    if (session_ != nullptr) api_.end(std::exchange(session_, nullptr));
  }

 private:
  static constexpr size_t kMostFrames = 32, kMostKnown = 1024, kCallers = 2;

  // What is known of the thread.
  struct Thread {
    int first_register = 0;
    unsigned registers = 0;
    const uint64_t* values = nullptr;
    uint64_t instruction = 0;
    const Sample* sample = nullptr;  // null: it sleeps, and its stack is in memory
  };

  std::vector<Frame> Walk() {
    frames_.clear();
    own_frames_ = 0;
    is_failed_ = false;
    g_walking = this;
    // An error is the end of what is known.
    if (session_ != nullptr || Attach()) api_.walk(session_, pid_, Visit, this);
    g_walking = nullptr;
    if (is_failed_) throw std::bad_alloc();
    return frames_;
  }

  bool Attach() {
    session_ = api_.begin(&module_functions_);
    if (session_ == nullptr) return false;
    const bool has_modules =
        api_.find_modules(session_, pid_) == 0 && api_.end_modules(session_, nullptr, nullptr) == 0;
    static constexpr ThreadFunctions kThreadFunctions = {NextThread,   GetThread, ReadMemory,
                                                         SetRegisters, nullptr,   nullptr};
    if (has_modules && api_.attach(session_, nullptr, pid_, &kThreadFunctions, this)) return true;
    Reset();
    return false;
  }

  // Called while a stack is walked. Another process may have other files in its place: those of its own root count, and
  // nothing but files, as its mappings may name devices, too.
  static int FindElf(Module module, void** data, const char* name, uint64_t base, char** file, Elf* elf) {
    const LibDw& it = *g_walking;
    if (it.pid_ != getpid() && name[0] == '/') {
      char path[PATH_MAX + 32];
      snprintf(path, sizeof path, "/proc/%d/root%s", it.pid_, name);
      const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      struct stat info {};
      if (descriptor >= 0 && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode))
        return *file = strdup(path), descriptor;
      if (descriptor >= 0) close(descriptor);
      return -1;
    }
    return it.api_.find_elf(module, data, name, base, file, elf);
  }
  // Names need symbols only. Files with debug information would be searched for far and wide.
  static int FindNoDebugInfo(Module, void**, const char*, uint64_t, const char*, const char*, uint32_t, char**) {
    return -1;
  }
  static pid_t NextThread(Session, void*, void**) { return 0; }
  static bool GetThread(Session, pid_t, void* context, void** thread) {
    *thread = context;
    return true;
  }
  static bool ReadMemory(Session, uint64_t at, uint64_t* value, void* context) {
    const Sample* const sample = static_cast<LibDw*>(context)->thread_.sample;
    if (sample == nullptr) return base::ReadMemory(at, value, sizeof *value);
    const uint64_t from = at - sample->registers[Sample::kStackPointer], size = sample->stack.size();
    if (from > size || size - from < sizeof *value) return false;
    memcpy(value, sample->stack.data() + from, sizeof *value);
    return true;
  }
  static bool SetRegisters(ThreadOfSession to, void* context) {
    const auto* const it = static_cast<LibDw*>(context);
    const Thread& thread = it->thread_;
    it->api_.set_instruction(to, thread.instruction);
    return it->api_.set_registers(to, thread.first_register, thread.registers, thread.values);
  }
  static int Visit(State state, void* context) noexcept {
    auto* const it = static_cast<LibDw*>(context);
    try {
      return it->Add(state);
    } catch (...) {
      it->is_failed_ = true;
      return kStop;
    }
  }

  int Add(State state) {
    uint64_t at = 0;
    bool is_innermost = false;
    if (!api_.get_instruction(state, &at, &is_innermost)) return kStop;
    frames_.push_back(FrameAt(at, is_innermost));
    if (own_frames_ != 0 || !frames_.back().is_runtime) ++own_frames_;
    const bool has_callers = depth_ == StackDepth::kCallers && own_frames_ > kCallers;
    return has_callers || frames_.size() == kMostFrames ? kStop : kGoOn;
  }

  const Frame& FrameAt(uint64_t instruction, bool is_innermost) {
    const auto known = known_.find(instruction);
    if (known != known_.end()) return known->second;
    if (known_.size() >= kMostKnown) known_.clear();
    const uint64_t within =
        is_innermost ? instruction : instruction - 1;  // a call may be a function's last instruction
    Module const module = api_.module_at(session_, within);
    uint64_t begin = 0, end = 0, offset = 0;
    const char* const path = module == nullptr
                                 ? nullptr
                                 : api_.module_name(module, nullptr, &begin, &end, nullptr, nullptr, nullptr, nullptr);
    Symbol symbol = {};
    const char* const name =
        module == nullptr ? nullptr : api_.symbol_at(module, within, &offset, &symbol, nullptr, nullptr, nullptr);
    const std::string file(FileOf(path != nullptr ? path : "unknown module"));
    Frame frame;
    if (name != nullptr) {
      const std::string function = ShortFunction(Demangled(name));
      frame = {function + " (" + file + ")", IsRuntime(file, function)};
    } else {
      char place[32];
      snprintf(place, sizeof place, "+0x%llx", static_cast<unsigned long long>(instruction - begin));
      frame = {file + place, IsRuntime(file, "")};
    }
    return known_.emplace(instruction, std::move(frame)).first->second;
  }

  inline static thread_local const LibDw* g_walking = nullptr;

  const Api api_;
  const pid_t pid_;
  const StackDepth depth_;
  const ModuleFunctions module_functions_;
  Session session_ = nullptr;
  std::unordered_map<uint64_t, Frame> known_;  // by instruction

  // The walk in progress.
  Thread thread_;
  std::vector<Frame> frames_;
  size_t own_frames_ = 0;  // from the first one outside of the runtime on
  bool is_failed_ = false;
};

}  // namespace

std::unique_ptr<Unwinder> OpenUnwinder(std::string* why_not) {
  if (!base::CanReadMemory()) {
    *why_not = "the process cannot read its own memory: allow process_vm_readv in the seccomp profile";
    return nullptr;
  }
  return OpenUnwinderOf(getpid(), StackDepth::kCallers, why_not);
}

std::unique_ptr<Unwinder> OpenUnwinderOf(pid_t pid, StackDepth depth, std::string* why_not) {
#if defined(__x86_64__)
  const base::LoaderUse use;
  void* const handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    *why_not = std::string("cannot load libdw (install libdw1 or elfutils-libs): ") + (why != nullptr ? why : kLibrary);
    return nullptr;
  }
  Api api = {};
  if (!FindAll(handle, &api)) {
    *why_not = std::string(kLibrary) + " is older than elfutils 0.158: it lacks a function";
    return nullptr;
  }
  return std::make_unique<LibDw>(api, pid, depth);
#else
  static_cast<void>(pid), static_cast<void>(depth);
  *why_not = "stacks of machine code are read on x86-64 only";
  return nullptr;
#endif
}

}  // namespace pitot::stacks
