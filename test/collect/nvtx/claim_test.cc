// SPDX-License-Identifier: Apache-2.0
//
// How libraries find Pitot, when they do not, and the tool that gets Pitot's scopes.
#include "collect/nvtx/claim.h"

#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/exports.h"
#include "base/safe_read.h"
#include "collect/nvtx/abi.h"
#include "collect/nvtx/capture.h"
#include "collect/nvtx/fake_tool.h"
#include "collect/nvtx/rig.h"
#include "fakes/child.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"

namespace {

using fakes::Attribute;
using fakes::Captured;
using fakes::Library;
using fakes::NvtxHost;
using fakes::Texts;
using fakes::Variable;
using session_test::Contains;

// Before main, and before any test.
const bool kIsSetAtLoad = Variable::Get() != nullptr;
const bool kIsWantedAtLoad = InitializeInjectionNvtx2([](uint32_t) -> const void* { return nullptr; }) != 0;

FakeTool& Tool() {
  static FakeTool* const tool = [] {
    void* const object = dlopen(PITOT_FAKE_TOOL, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<FakeTool* (*)()>(dlsym(object, "GetFakeTool"))();
  }();
  return *tool;
}

Texts Told() { return Tool().TakeLog(); }

// The present contents of a loaded object's writable segment, as far as they are in its file.
std::vector<unsigned char> DataOf(const char* part_of_name) {
  struct Find {
    const char* part_of_name;
    std::vector<unsigned char> data;
  } find = {part_of_name, {}};
  const auto visit = [](dl_phdr_info* object, size_t, void* context) {
    auto& wanted = *static_cast<Find*>(context);
    if (!Contains(object->dlpi_name, wanted.part_of_name)) return 0;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const auto& part = object->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_W) == 0) continue;
      const uint64_t address = object->dlpi_addr + part.p_vaddr;  // on a word boundary, as linkers place it
      const uint64_t begin = (address + 7) & ~uint64_t{7};
      wanted.data.resize(address + part.p_filesz - begin);
      // Not byte by byte: AddressSanitizer has put zones between the variables.
      if (!pitot::base::ReadMemory(begin, wanted.data.data(), wanted.data.size())) wanted.data.clear();
    }
    return 1;
  };
  dl_iterate_phdr(visit, &find);
  return find.data;
}

// Forbids, like a container's seccomp profile, the system call that reads memory, and pipes as a substitute.
bool ForbidReading() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 1, 0),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pipe2, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {std::size(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void MirroredScope() { PITOT_SCOPE("mirrored"); }

}  // namespace

TEST_CASE("linking does nothing: the variable is not set and no library is wanted", "[nvtx]") {
  CHECK_FALSE(kIsSetAtLoad);
  CHECK_FALSE(kIsWantedAtLoad);
}

TEST_CASE("adding the collector sets an unset variable to a value that finds this program", "[nvtx]") {
  const Variable unset(nullptr);
  NvtxHost host;
  REQUIRE(host.Start());
  CHECK(Variable::Get() == nullptr);

  REQUIRE(host.recorder.Add(pitot::MakeNvtxCollector()).ok());

  REQUIRE(Variable::Get() != nullptr);
  CHECK(pitot::nvtx::WhoseClaim() == pitot::nvtx::Claim::kOurs);
}

TEST_CASE("the variable is left alone without a wanted capture", "[nvtx]") {
  const Variable unset(nullptr);
  NvtxHost host;
  pitot::NvtxOptions options;
  options.capture = false;

  CHECK(host.StartCapturing(options));

  CHECK(Variable::Get() == nullptr);
}

TEST_CASE("the variable set by a parent process for itself leads to its child, too", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  host.recorder.Stop();

  REQUIRE(host.StartCapturing());

  const Library library(PITOT_FAKE_EMITTER);
  library->mark_a("of the second");
  CHECK(Captured(host.Incident()) == Texts{"of the second(domain=(none))"});
}

TEST_CASE("a process can have one collector", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());

  CHECK(host.recorder.Add(pitot::MakeNvtxCollector()).code() == pitot::StatusCode::kAlreadyRunning);
}

TEST_CASE("the child of a fork captures for itself", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  library->push_a("the parent's");

  CHECK(fakes::InChild([&] {
          library->pop();
          library->mark_a("of no recorder");
          NvtxHost childs;
          if (fakes::kThreadSanitizer) return 0;  // it cannot start threads in such a child
          HOLDS(childs.Start());
          library->mark_a("of a recorder without NVTX");
          HOLDS(childs.recorder.Add(pitot::MakeNvtxCollector()).ok());
          library->mark_a("the child's");
          HOLDS(Captured(childs.Incident()) == Texts{"the child's(domain=(none))"});
          return 0;
        }) == 0);
}

TEST_CASE("a library that had called NVTX before is reported as missed, another is captured", "[nvtx]") {
  const char* const path = GENERATE(from_range(fakes::Emitters()));
  const Variable unset(nullptr);
  const Library early(path);
  early->mark_a("nobody listens");
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  early->mark_a("missed");

  const auto trace = host.Incident();

  const std::string file = std::string(path).substr(std::string(path).rfind('/') + 1);
  CHECK(Attribute(trace, "nvtx.missed") == file);
  CHECK(Captured(trace).empty());
}

TEST_CASE("a loaded library that has not called NVTX yet is not missed", "[nvtx]") {
  const char* const path = GENERATE(from_range(fakes::Emitters()));
  const Variable unset(nullptr);
  const Library quiet(path);
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  quiet->mark_a("captured");

  const auto trace = host.Incident();

  CHECK(Attribute(trace, "nvtx.missed").empty());
  CHECK(Captured(trace) == Texts{"captured(domain=(none))"});
}

TEST_CASE("missed libraries are reported as unknown if memory cannot be read", "[nvtx]") {
  CHECK(fakes::InChild([] {
          if (fakes::kThreadSanitizer) return 0;  // it cannot start threads in such a child
          HOLDS(ForbidReading());
          HOLDS(!pitot::base::CanReadMemory());
          NvtxHost host;
          HOLDS(host.StartCapturing());
          HOLDS(Contains(Attribute(host.Incident(), "nvtx.missed"), "not known"));
          return 0;
        }) == 0);
}

TEST_CASE("a segment without bytes from its file is not read, nor is the memory behind it", "[nvtx]") {
  const Variable unset(nullptr);
  const Library early(PITOT_FAKE_EMITTER);
  early->mark_a("nobody listens");
  const std::vector<unsigned char> data = DataOf("libfake_emitter");
  REQUIRE(!data.empty());
  std::vector<uint64_t> memory(data.size() / 8 + 32768);
  std::memcpy(memory.data() + 1, data.data(), data.size());
  ElfW(Phdr) part = {};
  part.p_type = PT_LOAD;
  part.p_flags = PF_R | PF_W;
  dl_phdr_info object = {};
  object.dlpi_phdr = &part;
  object.dlpi_phnum = 1;
  std::vector<unsigned char> chunk;

  part.p_vaddr = reinterpret_cast<uint64_t>(memory.data()) + 5;
  for (const uint64_t bytes : {0, 2, 3}) {
    part.p_filesz = bytes;
    CHECK_FALSE(pitot::nvtx::HasMissed(object, &chunk));
  }
  part.p_filesz = 3 + data.size();
  CHECK(pitot::nvtx::HasMissed(object, &chunk));
}

TEST_CASE("the sign of a library's call of NVTX is found at any place in its data", "[nvtx]") {
  const Variable unset(nullptr);
  const Library early(PITOT_FAKE_EMITTER);
  early->mark_a("nobody listens");
  const std::vector<unsigned char> data = DataOf("libfake_emitter");
  REQUIRE(!data.empty());
  constexpr size_t kChunk = 64 << 10;
  std::vector<uint64_t> memory((3 * kChunk + data.size()) / 8);
  ElfW(Phdr) part = {};
  part.p_type = PT_LOAD;
  part.p_flags = PF_R | PF_W;
  part.p_vaddr = reinterpret_cast<uint64_t>(memory.data());
  part.p_filesz = memory.size() * 8;
  dl_phdr_info object = {};
  object.dlpi_phdr = &part;
  object.dlpi_phnum = 1;
  std::vector<unsigned char> chunk;

  CHECK_FALSE(pitot::nvtx::HasMissed(object, &chunk));
  const size_t before = std::min(data.size(), kChunk) / 8;
  for (size_t word = kChunk / 8 - before; word <= kChunk / 8; word += 3) {
    std::fill(memory.begin(), memory.end(), 0);
    std::memcpy(memory.data() + word, data.data(), data.size());
    CHECK(pitot::nvtx::HasMissed(object, &chunk));
  }
}

TEST_CASE("a program that inherits the variable without capturing wants no library", "[nvtx]") {
  // The program of this test: it does not export the function for the one below.
  const Variable ours("");
  CHECK(fakes::InChild([] {
          execl(PITOT_INHERITING_PROGRAM, PITOT_INHERITING_PROGRAM, PITOT_FAKE_EMITTER, nullptr);
          return 1;
        }) == 0);
}

#ifdef PITOT_CAPTURING_PROGRAM

TEST_CASE("a claim set by a parent with Pitot in the program is free in a child with Pitot in a library", "[nvtx]") {
  const Variable inherited("");
  CHECK(fakes::InChild([] {
          execl(PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PLUGIN, nullptr);
          return 1;
        }) == 0);
}

TEST_CASE("a claim set by a parent with Pitot in the program is free in a child linked to a tool, too", "[nvtx]") {
  // Like LibTorch 2, which is linked to libcupti.
  const Variable inherited("");
  CHECK(fakes::InChild([] {
          execl(PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PLUGIN, "linked", PITOT_FAKE_TOOL,
                nullptr);
          return 1;
        }) == 0);
}

TEST_CASE("a claim set by a parent with Pitot in another library is free, whether that is loaded or not", "[nvtx]") {
  const Variable inherited(PITOT_OTHER_PLUGIN);
  CHECK(fakes::InChild([] {
          execl(PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PLUGIN, nullptr);
          return 1;
        }) == 0);
  CHECK(fakes::InChild([] {
          execl(PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PROGRAM, PITOT_CAPTURING_PLUGIN, PITOT_OTHER_PLUGIN, nullptr);
          return 1;
        }) == 0);
}

TEST_CASE("a claim set by a parent with Pitot in a library is overwritten in a child with Pitot in the program",
          "[nvtx]") {
  const Variable inherited(PITOT_OTHER_PLUGIN);
  CHECK(fakes::InChild([] {
          NvtxHost host;
          if (fakes::kThreadSanitizer) return 0;  // it cannot start threads in such a child
          HOLDS(host.StartCapturing());
          HOLDS(std::string(Variable::Get()).empty());
          HOLDS(pitot::nvtx::WhoseClaim() == pitot::nvtx::Claim::kOurs);
          return 0;
        }) == 0);
}

#endif

TEST_CASE("a file exports its definitions, not its uses, and nothing if it is not a library", "[nvtx]") {
  using pitot::base::FileExports;
  CHECK(FileExports(PITOT_FAKE_TOOL, {pitot::nvtx::abi::kEntryPoint, "GetFakeTool"}));
  CHECK_FALSE(FileExports(PITOT_FAKE_TOOL, {pitot::nvtx::abi::kEntryPoint, "pitot_process"}));
  CHECK_FALSE(FileExports(PITOT_FAKE_TOOL, {"strlen"}));
  CHECK_FALSE(FileExports("/no/such/file.so", {"strlen"}));
  CHECK_FALSE(FileExports(__FILE__, {"strlen"}));
  // A file cut anywhere.
  const fakes::TempDirectory directory;
  const std::string cut = directory.path() + "/cut.so";
  std::filesystem::copy_file(PITOT_FAKE_TOOL, cut);
  CHECK(FileExports(cut.c_str(), {"GetFakeTool"}));
  for (uintmax_t bytes = std::filesystem::file_size(cut); bytes > 97;) {
    std::filesystem::resize_file(cut, bytes -= 97);
    CHECK_FALSE(FileExports(cut.c_str(), {"GetFakeTool"}));
  }
}

TEST_CASE("a tool that has claimed NVTX gets its events; the variable stays, and incidents report it", "[nvtx]") {
  const Variable tools(PITOT_FAKE_TOOL);
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  Told();
  library->push_a("the tool's");
  library->pop();
  const Texts told = Told();
  const auto trace = host.Incident();

  CHECK(std::string(Variable::Get()) == PITOT_FAKE_TOOL);
  CHECK(told == Texts{"push the tool's", "pop"});
  CHECK(Captured(trace).empty());
  CHECK(Contains(Attribute(trace, "nvtx.tool"), PITOT_FAKE_TOOL));
}

TEST_CASE("scopes are mirrored to the tool as ranges of the domain pitot, by registered strings", "[nvtx]") {
  const Variable tools(PITOT_FAKE_TOOL);
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  Told();
  {
    PITOT_SCOPE("outer");
    const pitot::Name name = pitot::Intern("layer 7");
    PITOT_SCOPE_NAMED(name, 1);
    MirroredScope();
  }
  const Texts first = Told();
  MirroredScope();
  const Texts second = Told();

  CHECK(first == Texts{"register pitot/outer", "push pitot/outer", "register pitot/layer 7", "push pitot/layer 7",
                       "register pitot/mirrored", "push pitot/mirrored", "pop pitot", "pop pitot", "pop pitot"});
  CHECK(second == Texts{"push pitot/mirrored", "pop pitot"});
  CHECK(fakes::EventsNamed(host.Incident(), "mirrored").size() == 2);
}

TEST_CASE("a tool that returns no handle of a string is asked for it once", "[nvtx]") {
  const Variable tools(PITOT_FAKE_TOOL);
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  Told();
  Tool().has_handles = false;
  for (int i = 0; i < 2; ++i) {
    PITOT_SCOPE("without a handle");
  }
  Tool().has_handles = true;

  CHECK(Told() == Texts{"register pitot/without a handle", "push pitot/without a handle, plain", "pop pitot",
                        "push pitot/without a handle, plain", "pop pitot"});
}

TEST_CASE("a scope open at Stop ends for the tool, too, and none begins later", "[nvtx]") {
  const Variable tools(PITOT_FAKE_TOOL);
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  MirroredScope();
  Told();
  {
    PITOT_SCOPE("across the end");
    host.recorder.Stop();
  }
  MirroredScope();
  const Texts told = Told();
  REQUIRE(host.Start());
  MirroredScope();

  CHECK(told.back() == "pop pitot");
  CHECK(Told().empty());
}

TEST_CASE("scopes without a tool are mirrored to nobody, and take their former way", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.Start());
  const uint32_t gate = pitot::detail::g_gate;
  Told();
  REQUIRE(host.recorder.Add(pitot::MakeNvtxCollector()).ok());
  MirroredScope();

  CHECK(Told().empty());
  CHECK(pitot::detail::g_gate == gate);
}

TEST_CASE("an unusable tool is reported and left alone", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.Start());
  for (const char* path : {"/no/such/tool.so", PITOT_REFUSING_TOOL, PITOT_FAKE_EMITTER}) {
    const Variable tools(path);
    const pitot::Status status = host.recorder.Add(pitot::MakeNvtxCollector());

    CHECK(status.code() == pitot::StatusCode::kUnavailable);
    CHECK(Contains(status.message(), path));
    CHECK(std::string(Variable::Get()) == path);
  }
  const Variable unset(nullptr);
  CHECK(host.recorder.Add(pitot::MakeNvtxCollector()).ok());
}

TEST_CASE("a tool gets no unwanted scopes, and the status says that nothing is captured", "[nvtx]") {
  const Variable tools(PITOT_FAKE_TOOL);
  NvtxHost host;
  REQUIRE(host.Start());
  pitot::NvtxOptions options;
  options.mirror_scopes = false;
  Told();

  const pitot::Status status = host.recorder.Add(pitot::MakeNvtxCollector(options));
  MirroredScope();

  CHECK(status.code() == pitot::StatusCode::kUnavailable);
  CHECK(Contains(status.message(), PITOT_FAKE_TOOL));
  CHECK(Told().empty());
}

TEST_CASE("a tool does not get the end of a scope that began before the first one it was told", "[nvtx]") {
  const Variable tools(PITOT_FAKE_TOOL);
  NvtxHost host;
  REQUIRE(host.Start());
  {
    PITOT_SCOPE("began before");
    REQUIRE(host.recorder.Add(pitot::MakeNvtxCollector()).ok());
    Told();
    MirroredScope();
  }
  MirroredScope();

  const Texts told = Told();
  CHECK(std::count(told.begin(), told.end(), "pop pitot") == 2);
  CHECK(std::count(told.begin(), told.end(), "push pitot/mirrored") == 2);
}

TEST_CASE("a child forked while the tool gets a name mirrors scopes of its own", "[nvtx]") {
  static int status;
  status = -1;
  const Variable tools(PITOT_FAKE_TOOL);
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  Tool().on_register = [] {
    Tool().on_register = nullptr;
    const auto body = [] {
      if (fakes::kThreadSanitizer) return 0;  // it cannot start threads in such a child
      NvtxHost childs;
      HOLDS(childs.StartCapturing());
      Told();
      { PITOT_SCOPE("the child's"); }
      HOLDS(Told() == Texts({"register pitot/the child's", "push pitot/the child's", "pop pitot"}));
      return 0;
    };
    status = fakes::WaitForChild(fakes::StartChild(body, 60));
  };
  { PITOT_SCOPE("forked meanwhile"); }

  CHECK(status == 0);
}

TEST_CASE("threads mirror scopes while the mirror comes and goes", "[nvtx]") {
  const Variable tools(PITOT_FAKE_TOOL);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        PITOT_SCOPE("outer");
        MirroredScope();
        std::this_thread::yield();  // to the thread making the incidents
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    NvtxHost host;
    REQUIRE(host.StartCapturing());
    CHECK(fakes::WaitUntil([&] {
      const auto trace = host.Incident();
      CHECK(pitot::model::FindInconsistency(trace) == "");
      return !fakes::EventsNamed(trace, "outer").empty();
    }));
    Told();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}
