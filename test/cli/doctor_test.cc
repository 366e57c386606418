// SPDX-License-Identifier: Apache-2.0
//
// Findings of `pitot doctor` about GPUs, on a machine of fakes: a driver, a CUPTI and an NVML controlled by the
// environment.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collect/counters/shared_file.h"
#include "fakes/temp_directory.h"

using nlohmann::json;

namespace {

// A machine, and doctor's findings about it.
class Machine {
 public:
  Machine() {
    for (const char* variable : {"CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NV_NSIGHT_INJECTION_PORT_BASE",
                                 "CUDA_VISIBLE_DEVICES", "NVTX_INJECTION64_PATH"})
      unsetenv(variable);
    std::vector<std::string> of_pitot;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (const std::string name = *entry; name.rfind("PITOT_", 0) == 0)
        of_pitot.push_back(name.substr(0, name.find('=')));
    }
    for (const std::string& name : of_pitot) unsetenv(name.c_str());
    Set("CUDA_MPS_PIPE_DIRECTORY", directory_ / "no mps");
  }
  ~Machine() {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }
  // Adds the kernel's module and two GPUs.
  Machine& WithGpus(const char* names = "NVIDIA H100,NVIDIA H100") {
    driver = PITOT_FAKE_DRIVER;
    Write("version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)\n"
          "GCC version:  gcc version 12.3.0\n");
    return Set("FAKE_GPUS", names);
  }
  // Sets a variable in doctor's environment.
  Machine& Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
    return *this;
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }
  std::string Path(const std::string& name) const { return directory_ / name; }

  void Ask(const std::string& arguments = "") {
    const std::string command = "cd " + directory_.path() + " && " PITOT_PROGRAM " doctor --json --driver " + driver +
                                " --driver-files . --own-status status --shared-directory . --cupti " + cupti +
                                " --nvml " + nvml + " " + arguments + " >out 2>err </dev/null";
    const int status = system(command.c_str());
    exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    CHECK(fakes::ReadFile(directory_ / "err") == "");
    document_ = json::parse(fakes::ReadFile(directory_ / "out"), nullptr, false);
    REQUIRE_FALSE(document_.is_discarded());
    CHECK(exit_code == (document_["healthy"] == true ? 0 : 1));
  }
  // The finding of the last run; an empty one if there is none.
  json Finding(const std::string& topic) const {
    for (const json& finding : document_["findings"]) {
      if (finding["topic"] == topic) return finding;
    }
    return json{{"health", "none"}, {"answer", ""}, {"advice", ""}};
  }
  std::vector<json> Findings(const std::string& topic) const {
    std::vector<json> found;
    for (const json& finding : document_["findings"]) {
      if (finding["topic"] == topic) found.push_back(finding);
    }
    return found;
  }
  std::string Health(const std::string& topic) const { return Finding(topic)["health"]; }
  bool Says(const std::string& topic, const std::string& words) const { return Has(topic, "answer", words); }
  bool Advises(const std::string& topic, const std::string& words) const { return Has(topic, "advice", words); }

  std::string driver = "/nowhere/libcuda.so.1", cupti = PITOT_FAKE_CUPTI, nvml = PITOT_FAKE_NVML;
  int exit_code = -1;

 private:
  bool Has(const std::string& topic, const char* what, const std::string& words) const {
    const std::string text = Finding(topic)[what];
    if (text.find(words) != std::string::npos) return true;
    WARN(topic << " says: " << text);
    return false;
  }

  fakes::TempDirectory directory_;
  std::vector<std::string> set_;
  json document_;
};

double Seconds(const std::function<void()>& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The process number that a fake wrote to this file.
pid_t PidIn(const std::string& path) {
  pid_t pid = 0;
  std::ifstream(path) >> pid;
  return pid;
}

}  // namespace

TEST_CASE("doctor reports what collectors will record of GPUs, and the libraries for it", "[cli]") {
  Machine machine;
  machine.WithGpus();
  machine.Write("params", "EnableMSI: 1\nRmProfilingAdminOnly: 1\n");

  machine.Ask();

  CHECK(machine.exit_code == 0);
  CHECK(machine.Health("collector_driver") == "good");
  CHECK(machine.Says("collector_driver", "580.65.06"));
  CHECK(machine.Says("collector_driver", "CUDA up to 13.0"));
  CHECK(machine.Says("gpus", "2 GPUs: 2 x NVIDIA H100"));
  CHECK(machine.Health("collector_cupti") == "good");
  CHECK(machine.Says("collector_cupti", "CUPTI 130001, of CUDA 13 (" PITOT_FAKE_CUPTI ") records here"));
  CHECK(machine.Health("cupti_records") == "good");
  CHECK(machine.Says("cupti_records", "readable: kernels, copies, copies between GPUs, memory sets, graphs, "));
  CHECK(machine.Says("gpu_counters", "for the administrator only (RmProfilingAdminOnly: 1)"));
  CHECK(machine.Says("gpu_counters", "recorded anyway"));
  CHECK(machine.Health("gpu_sharing") == "none");
  CHECK(machine.Health("gpu_tools") == "none");
  CHECK(machine.Health("collector_nvml") == "good");
  CHECK(machine.Says("collector_nvml", "NVML works: 1 GPU, driver 580.65.06"));
}

TEST_CASE("doctor says whether hardware counters can be sampled, what forbids it and how to allow it", "[cli]") {
  Machine machine;
  machine.WithGpus();
  SECTION("for every user") {
    machine.Write("params", "RmProfilingAdminOnly: 0\n");
    machine.Ask();
    CHECK(machine.Health("gpu_counters") == "good");
    CHECK(machine.Says("gpu_counters", "(RmProfilingAdminOnly: 0): pitot::counters samples them through CUPTI"));
    CHECK(machine.Finding("gpu_counters")["advice"] == "");
  }
  SECTION("for administrators, and this process is none") {
    machine.Write("params", "RmProfilingAdminOnly: 1\n");
    machine.Write("status", "Name:\tpitot\nCapEff:\t00000000a80425fb\n");
    machine.Ask();
    CHECK(machine.exit_code == 0);
    CHECK(machine.Health("gpu_counters") == "note");
    CHECK(machine.Says("gpu_counters", "(RmProfilingAdminOnly: 1): pitot::counters has NVML's coarse ones (GPM)"));
    CHECK(machine.Advises("gpu_counters", "options nvidia NVreg_RestrictProfilingToAdminUsers=0"));
    CHECK(machine.Advises("gpu_counters", "CAP_SYS_ADMIN"));
  }
  SECTION("for administrators, and this process is one") {
    machine.Write("params", "RmProfilingAdminOnly: 1\n");
    machine.Write("status", "CapEff:\t000001ffffffffff\n");
    machine.Ask();
    CHECK(machine.Health("gpu_counters") == "good");
    CHECK(machine.Says("gpu_counters", "as this process is: pitot::counters samples them through CUPTI"));
  }
  SECTION("a divided GPU") {
    machine.WithGpus("NVIDIA H100 MIG 1g.10gb");
    machine.Ask();
    CHECK(machine.Says("gpu_counters", "a GPU is divided (MIG): CUPTI may sample none of its parts"));
  }
}

TEST_CASE("doctor names the process that samples a GPU's counters now", "[cli]") {
  Machine machine;
  machine.WithGpus();
  using namespace pitot::counters;
  SharedFile file(machine.Path(""), "GPU-aa");
  REQUIRE(file.Begin(ThisProcess(), 4000, pitot::base::ClockNs(CLOCK_REALTIME) + 1'000'000'000).empty());
  machine.Ask();
  CHECK(machine.Says("gpu_counters", "GPU-aa is sampled by " + TextOf(ThisProcess()) + ", every 4 ms"));
  CHECK(machine.Advises("gpu_counters", "pitot counters release"));
}

TEST_CASE("doctor calls a machine without a GPU healthy", "[cli]") {
  Machine machine;
  machine.nvml = "/nowhere/libnvidia-ml.so.1";

  machine.Ask();

  CHECK(machine.exit_code == 0);
  CHECK(machine.Health("collector_driver") == "note");
  CHECK(machine.Says("collector_driver", "the kernel has no NVIDIA driver"));
  CHECK(machine.Says("collector_driver", "/nowhere/libcuda.so.1"));
  CHECK(machine.Health("gpus") == "none");
  CHECK(machine.Health("collector_nvml") == "note");

  // A driver that hides all GPUs counts as no GPU, too.
  machine.WithGpus("").Set("CUDA_VISIBLE_DEVICES", "");
  machine.Ask();
  CHECK(machine.Health("gpus") == "note");
  CHECK(machine.Says("gpus", "no GPU (CUDA_VISIBLE_DEVICES=)"));
  machine.Set("FAKE_INIT", "100");
  machine.Ask();
  CHECK(machine.Health("collector_driver") == "note");
}

TEST_CASE("doctor names the parts of the driver missing in a container", "[cli]") {
  Machine machine;
  machine.WithGpus();
  machine.driver = "/nowhere/libcuda.so.1";
  machine.Ask();
  CHECK(machine.Health("collector_driver") == "problem");
  CHECK(machine.Advises("collector_driver", "NVIDIA_DRIVER_CAPABILITIES=compute"));

  machine.driver = PITOT_FAKE_DRIVER;
  machine.Set("FAKE_INIT", "803");
  machine.Ask();
  CHECK(machine.Health("collector_driver") == "problem");
  CHECK(machine.Says("collector_driver", "cuInit failed: CUDA_ERROR_OF_TESTS (803)"));
  CHECK(machine.Advises("collector_driver", "nvidia-smi"));
}

TEST_CASE("doctor names the tool that has CUPTI, and how to remove it", "[cli]") {
  Machine machine;
  machine.WithGpus().Set("FAKE_CUPTI_OTHER", "CUPTI for Nsight Systems");
  machine.Ask();
  CHECK(machine.exit_code == 1);
  CHECK(machine.Health("collector_cupti") == "problem");
  CHECK(machine.Says("collector_cupti", "another tool has CUPTI: CUPTI for Nsight Systems"));
  CHECK(machine.Advises("collector_cupti", "without it"));

  machine.Write("tool.so", "");
  machine.Set("CUDA_INJECTION64_PATH", machine.Path("tool.so"));
  machine.Ask();
  CHECK(machine.Advises("collector_cupti", "without CUDA_INJECTION64_PATH=" + machine.Path("tool.so")));
  CHECK(machine.Health("gpu_tools") == "note");
  CHECK(machine.Says("gpu_tools", "CUDA_INJECTION64_PATH=" + machine.Path("tool.so") + ": a tool is loaded"));
}

TEST_CASE("doctor reports a tool's variable whose file does not exist", "[cli]") {
  Machine machine;
  machine.WithGpus().Set("CUDA_INJECTION64_PATH", "/nowhere/cuda.so").Set("NVTX_INJECTION64_PATH", "/nowhere/nvtx.so");

  machine.Ask();

  CHECK(machine.exit_code == 0);
  CHECK(machine.Health("gpu_tools") == "note");
  CHECK(machine.Says("gpu_tools", "CUDA_INJECTION64_PATH=/nowhere/cuda.so: that file does not exist"));
  CHECK(machine.Advises("gpu_tools", "unset it"));
  CHECK(machine.Health("nvtx") == "note");
  CHECK(machine.Says("nvtx", "NVTX_INJECTION64_PATH=/nowhere/nvtx.so: that file does not exist"));
  // The loader searches for a name without a folder.
  machine.Set("CUDA_INJECTION64_PATH", "libtool.so");
  machine.Ask();
  CHECK(machine.Says("gpu_tools", "CUDA_INJECTION64_PATH=libtool.so: a tool is loaded"));
}

TEST_CASE("doctor recognizes an NVTX variable set by a parent process for Pitot", "[cli]") {
  Machine machine;
  for (const char* const value : {"", PITOT_WITH_NVTX}) {
    machine.Set("NVTX_INJECTION64_PATH", value).Ask();
    CHECK(machine.Health("nvtx") == "good");
    CHECK(machine.Says("nvtx",
                       "NVTX_INJECTION64_PATH=" + std::string(value) + ": set by a parent process for its own Pitot"));
  }
}

TEST_CASE("doctor shows the variables that configure Pitot, and whether they are valid", "[cli]") {
  Machine machine;
  machine.Ask();
  CHECK(machine.Health("environment") == "good");
  CHECK(machine.Says("environment", "no variable"));

  SECTION("a valid one") {
    machine.Set("PITOT_DEPTH", "kernels");
    machine.Ask();
    CHECK(machine.exit_code == 0);
    CHECK(machine.Health("environment") == "good");
    CHECK(machine.Says("environment", "PITOT_DEPTH=kernels: the depth at which collectors record"));
  }
  SECTION("an invalid one") {
    machine.Set("PITOT_PRE_WINDOW_MS", "5 s");
    machine.Ask();
    CHECK(machine.exit_code == 1);
    CHECK(machine.Health("environment") == "problem");
    CHECK(machine.Says("environment", "PITOT_PRE_WINDOW_MS=5 s"));
    CHECK(machine.Says("environment", "it must be a number of milliseconds, 1 to 3600000"));
    CHECK(machine.Advises("environment", "start no recorder"));
  }
  SECTION("two that are valid only alone") {
    machine.Set("PITOT_MAX_RING_BYTES", "16777216").Set("PITOT_MEMORY_BUDGET_BYTES", "33554432");
    machine.Ask();
    CHECK(machine.exit_code == 1);
    json together;
    for (const json& finding : machine.Findings("environment")) together = finding;
    CHECK(together["health"] == "problem");
    CHECK(together["answer"].get<std::string>().find("not all of them together: Options::max_ring_bytes") !=
          std::string::npos);
  }
  SECTION("one that is valid only with another") {
    machine.Set("PITOT_MAX_RING_BYTES", "33554432").Set("PITOT_MEMORY_BUDGET_BYTES", "268435456");
    machine.Ask();
    CHECK(machine.exit_code == 0);
    CHECK(machine.Findings("environment").size() == 2);
  }
  SECTION("a misspelt one") {
    machine.Set("PITOT_DEPHT", "kernels");
    machine.Ask();
    CHECK(machine.exit_code == 0);
    CHECK(machine.Health("environment") == "note");
    CHECK(machine.Says("environment", "PITOT_DEPHT is set, and Pitot does not read it"));
    CHECK(machine.Advises("environment", "PITOT_DEPTH"));
  }
  SECTION("the incident directory, which doctor tries") {
    machine.Set("PITOT_INCIDENT_DIRECTORY", machine.Path("a/b/c"));
    machine.Ask();
    CHECK(machine.exit_code == 1);
    CHECK(machine.Health("incident_directory") == "problem");
    CHECK(machine.Says("incident_directory", "cannot be created: its parent does not exist"));
  }
  SECTION("an incident directory in a parent that takes no folders") {
    machine.Set("PITOT_INCIDENT_DIRECTORY", "/proc/pitot-incidents");
    machine.Ask();
    CHECK(machine.exit_code == 1);
    CHECK(machine.Says("incident_directory", "cannot be created: No such file or directory"));
  }
}

TEST_CASE("doctor detects an unsuitable CUPTI", "[cli]") {
  Machine machine;
  machine.WithGpus();

  SECTION("one with defects, refused as by the collector") {
    machine.Set("FAKE_CUPTI_VERSION", "130000");
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "problem");
    CHECK(machine.Says("collector_cupti", "install CUDA 13.0 Update 1 or later"));
  }
  SECTION("one of a newer CUDA than the driver's") {
    machine.Set("FAKE_CUDA", "12040");
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "note");
    CHECK(machine.Says("collector_cupti", "the driver is for CUDA 12"));
    CHECK(machine.Advises("collector_cupti", "CuptiOptions::library"));
  }
  SECTION("one of an older CUDA than the driver's, which cannot record single calls") {
    machine.Set("FAKE_CUPTI_VERSION", "22");
    machine.Ask();
    CHECK(machine.exit_code == 0);
    CHECK(machine.Says("collector_cupti", "CUPTI 22, of CUDA 12"));
    CHECK(machine.Advises("collector_cupti", "right for a server built with CUDA 12"));
    CHECK(machine.Health("cupti_records") == "note");
    CHECK(machine.Says("cupti_records", "no calls next to PyTorch's profiler"));
    machine.Set("FAKE_CUPTI_VERSION", "23");
    machine.Ask();
    CHECK(machine.Health("cupti_records") == "good");
  }
  SECTION("one without newer functions") {
    machine.cupti = PITOT_FAKE_CUPTI_OLD;
    machine.Ask();
    CHECK(machine.Says("cupti_records", "no calls next to PyTorch's profiler"));
  }
  SECTION("one without required functions") {
    machine.cupti = PITOT_FAKE_CUPTI_BROKEN;
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "problem");
    CHECK(machine.Says("collector_cupti", "has no cuptiActivityEnable"));
    CHECK(machine.Advises("collector_cupti", "it is too old, or damaged: use the libcupti of CUDA 11 or later"));
  }
  SECTION("a library that is not CUPTI, without a GPU to try it on") {
    machine.cupti = PITOT_FAKE_DRIVER;
    machine.Set("FAKE_GPUS", "");
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "problem");
    CHECK(machine.Says("collector_cupti", "it is not a libcupti"));
    CHECK(machine.Advises("collector_cupti", "name a libcupti file (package cuda-cupti"));
  }
  SECTION("one that fails, without advice to run doctor again") {
    for (const char* result : {"1", "999"}) {  // on the first, the host's log recommends doctor
      machine.Set("FAKE_CUPTI_SUBSCRIBE", result);
      machine.Ask();
      CHECK(machine.Health("collector_cupti") == "problem");
      CHECK(machine.Says("collector_cupti", "does not record: CUPTI cannot be used"));
      CHECK(machine.Advises("collector_cupti", "--cupti FILE"));
      for (const char* what : {"answer", "advice"})
        CHECK_THAT(machine.Finding("collector_cupti")[what].get<std::string>(), !Catch::Contains("pitot doctor"));
    }
  }
  SECTION("a missing one") {
    machine.cupti = "/nowhere/libcupti.so";
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "problem");
    CHECK(machine.Says("collector_cupti", "/nowhere/libcupti.so"));
    CHECK(machine.Health("cupti_records") == "none");
  }
  SECTION("one without support for old GPUs") {
    machine.Set("FAKE_CAPABILITY", "70");
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "note");
    CHECK(machine.Says("collector_cupti", "older than Turing"));
    machine.Set("FAKE_CAPABILITY", "75");
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "good");
  }
}

TEST_CASE("doctor reports shared GPUs", "[cli]") {
  Machine machine;
  machine.WithGpus("NVIDIA A100-SXM4-40GB MIG 1g.5gb").Set("CUDA_MPS_PIPE_DIRECTORY", machine.Path(""));
  machine.Write("control", "");

  machine.Ask();

  CHECK(machine.exit_code == 0);
  CHECK(machine.Health("gpu_sharing") == "note");
  CHECK(machine.Says("gpu_sharing", "MIG"));
  CHECK(machine.Says("gpu_sharing", "MPS"));
}

TEST_CASE("doctor survives libraries that crash, hang, end the process or print", "[cli]") {
  Machine machine;
  machine.WithGpus().Set("FAKE_PID", machine.Path("pid"));

  SECTION("a driver that crashes while it is loaded") {
    machine.Set("FAKE_ON_LOAD", "crash");
    machine.Ask();
    CHECK(machine.Health("collector_driver") == "problem");
    CHECK(machine.Says("collector_driver", "crashed (Aborted) while loading"));
    CHECK(machine.Says("collector_cupti", "was not tried"));
    CHECK(machine.Health("cupti_records") == "good");
    CHECK(machine.Health("collector_nvml") == "good");
  }
  SECTION("a driver that crashes in cuInit") {
    machine.Set("FAKE_ON_INIT", "crash");
    machine.Ask();
    CHECK(machine.Says("collector_driver", "crashed (Aborted) in cuInit"));
  }
  SECTION("a driver that ends the process") {
    machine.Set("FAKE_ON_INIT", "exit");
    machine.Ask();
    CHECK(machine.Health("collector_driver") == "problem");
    CHECK(machine.Says("collector_driver", "ended the process (exit code 3) in cuInit"));
  }
  SECTION("a driver that hangs") {
    machine.Set("FAKE_ON_INIT", "hang");
    machine.Ask("--patience 1");
    CHECK(machine.Health("collector_driver") == "problem");
    CHECK(machine.Says("collector_driver", "did not return within 1 s in cuInit"));
    REQUIRE(PidIn(machine.Path("pid")) > 0);
    CHECK(kill(PidIn(machine.Path("pid")), 0) != 0);  // and the process is gone
  }
  SECTION("a driver that starts a process and crashes") {
    machine.Set("FAKE_ON_INIT", "fork");
    CHECK(Seconds([&] { machine.Ask(); }) < 20);  // doctor does not wait for that process
    CHECK(machine.Says("collector_driver", "crashed (Aborted) in cuInit"));
    if (const pid_t pid = PidIn(machine.Path("pid")); pid > 0) kill(pid, SIGKILL);
  }
  SECTION("a driver that prints") {
    machine.Set("FAKE_ON_INIT", "print");
    machine.Ask();
    CHECK(machine.exit_code == 0);
  }
  SECTION("a CUPTI that crashes while it is loaded") {
    machine.driver = "/nowhere/libcuda.so.1";
    machine.cupti = PITOT_FAKE_DRIVER;
    machine.Set("FAKE_ON_LOAD", "crash");
    machine.Ask();
    CHECK(machine.exit_code == 1);
    CHECK(machine.Health("collector_cupti") == "problem");
    CHECK(machine.Says("collector_cupti", PITOT_FAKE_DRIVER));
    CHECK(machine.Says("collector_cupti", "crashed (Aborted) while loading"));
  }
  SECTION("a CUPTI that crashes when it is to record") {
    machine.Set("FAKE_CUPTI_SUBSCRIBE", "crash");
    machine.Ask();
    CHECK(machine.Health("collector_cupti") == "problem");
    CHECK(machine.Says("collector_cupti", "crashed (Aborted) when asked to record"));
    CHECK(machine.Health("cupti_records") == "good");
  }
  SECTION("a CUPTI that hangs when it is to record") {
    machine.Set("FAKE_CUPTI_SUBSCRIBE", "hang");
    machine.Ask("--patience 1");
    CHECK(machine.Health("collector_cupti") == "problem");
    CHECK(machine.Says("collector_cupti", "did not return within 1 s when asked to record"));
    CHECK(machine.Health("collector_nvml") == "good");
  }
  SECTION("an NVML that hangs while it is loaded") {
    machine.driver = "/nowhere/libcuda.so.1";
    machine.nvml = PITOT_FAKE_DRIVER;
    machine.Set("FAKE_ON_LOAD", "hang");
    machine.Ask("--patience 1");
    CHECK(machine.Health("collector_nvml") == "problem");
    CHECK(machine.Says("collector_nvml", "did not return within 1 s while loading"));
  }
}

TEST_CASE("doctor lists the machine's evidence about stalled threads", "[doctor]") {
  Machine machine;
  machine.Ask();
  CHECK(machine.Says("host_evidence", "switches and faults (getrusage)"));

  const std::string proc = machine.Path("host/proc/");
  std::filesystem::create_directories(proc + "self");
  std::filesystem::create_directories(proc + "pressure");
  machine.Write("host/proc/self/schedstat", "1 2 3\n");
  machine.Write("host/proc/pressure/io", "some total=1\nfull total=1\n");
  machine.Ask("--host-root " + machine.Path("host"));

  CHECK(machine.Health("host_evidence") == "good");
  CHECK(machine.Says("host_evidence", "run-queue delay (/proc/self/schedstat), I/O pressure (/proc/pressure/io)"));
  CHECK(machine.Says("host_evidence", "missing: CPU quota (no cpu.stat"));
  CHECK(machine.Says("host_evidence", "CPU frequency (no cpufreq"));
}

TEST_CASE("doctor says whether stacks of blocked and of running threads can be read", "[doctor]") {
  Machine machine;
  machine.Ask();
  if (machine.Health("stacks") == "good") {
    CHECK(machine.Says("stacks", "stacks of blocked threads can be read"));
    CHECK(machine.Says("stacks", "and stacks of running threads (perf_event_open)"));
  } else {
    CHECK(machine.Says("stacks", "cannot be read: "));
  }
}

TEST_CASE("doctor notes a kernel without run-queue delays", "[doctor]") {
  Machine machine;
  machine.Ask("--host-root /nowhere");

  CHECK(machine.Health("host_evidence") == "note");
  CHECK(machine.Says("host_evidence", "missing: run-queue delay (no /proc/self/schedstat"));
  CHECK(machine.Advises("host_evidence", "CONFIG_SCHED_INFO"));
}
