// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/child.h"
#include "cli/counters_now.h"
#include "collect/cupti/api.h"
#include "collect/cupti/control.h"
#include "collect/cupti/probe.h"
#include "collect/cupti/quirks.h"
#include "collect/cupti/strides.h"
#include "collect/nvml/api.h"

namespace pitot::cli {
namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

template <class Function> Function FindIn(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string Environment(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr ? value : "";
}

// ---- In the children. ----

// The driver's API, with the numbers of cuda.h.
void InitDriver(void* library, const Teller& teller) {
  const auto init = FindIn<int (*)(unsigned int)>(library, "cuInit");
  if (init == nullptr) return teller.Tell("error", "it has no cuInit");
  teller.Begin("in cuInit");
  const int result = init(0);
  if (result == 0) return teller.Tell("init", "");
  const auto get_name = FindIn<int (*)(int, const char**)>(library, "cuGetErrorName");
  const char* name = nullptr;
  if (get_name == nullptr || get_name(result, &name) != 0 || name == nullptr) name = "unknown";
  teller.Tell("result", result);
  teller.Tell("error", absl::StrCat("cuInit failed: ", name, " (", result, ")"));
}

void AskDriver(const std::string& file, const Teller& teller) {
  teller.Begin("while loading");
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return teller.Tell("not_loaded", dlerror());
  teller.Tell("loaded", "");
  int version = 0;
  const auto get_version = FindIn<int (*)(int*)>(library, "cuDriverGetVersion");
  if (get_version != nullptr && get_version(&version) == 0) teller.Tell("cuda", version);
  InitDriver(library, teller);
  teller.Begin("when asked for its devices");
  int count = 0;
  const auto get_count = FindIn<int (*)(int*)>(library, "cuDeviceGetCount");
  if (get_count == nullptr || get_count(&count) != 0) return;
  const auto get = FindIn<int (*)(int*, int)>(library, "cuDeviceGet");
  const auto get_name = FindIn<int (*)(char*, int, int)>(library, "cuDeviceGetName");
  const auto get_attribute = FindIn<int (*)(int*, int, int)>(library, "cuDeviceGetAttribute");
  if (get == nullptr || get_name == nullptr || get_attribute == nullptr) return;
  constexpr int kMajor = 75, kMinor = 76;  // of the compute capability
  for (int i = 0; i < count; ++i) {
    char name[256] = "";
    int device = 0, major = 0, minor = 0;
    if (get(&device, i) != 0 || get_name(name, sizeof name - 1, device) != 0) continue;
    get_attribute(&major, kMajor, device);
    get_attribute(&minor, kMinor, device);
    teller.Tell("gpu", name);
    teller.Tell("capability", major * 10 + minor);
  }
}

void AskCupti(const GpuPlaces& places, bool with_driver, const Teller& teller) {
  teller.Begin("while loading");
  cupti::Api api;
  if (const Status status = cupti::LoadCupti(places.cupti, &api); !status.ok()) {
    teller.Tell(status.code() == StatusCode::kNotFound ? "not_found" : "wrong", status.message());
    return;
  }
  teller.Tell("path", api.path);
  teller.Tell("version", api.version);
  teller.Begin("when asked for the length of its records");
  const cupti::Strides strides = cupti::ProbeStrides(api);
  for (const auto& [kind, name] :
       {std::pair(cupti::kConcurrentKernel, "kernels"), std::pair(cupti::kMemcpy, "copies"),
        std::pair(cupti::kMemcpyPeer, "copies between GPUs"), std::pair(cupti::kMemset, "memory sets"),
        std::pair(cupti::kGraphTrace, "graphs"), std::pair(cupti::kOverhead, "overhead"),
        std::pair(cupti::kJit, "compilation"), std::pair(cupti::kRuntime, "calls")}) {
    teller.Tell(strides[kind] != 0 ? "readable" : "unreadable", name);
  }
  if (cupti::HasFilteredRecords(api)) teller.Tell("filtered", "");
  if (!with_driver) return;
  // The driver injects tools during cuInit: only after it can they be found.
  if (void* const driver = dlopen(places.driver.c_str(), RTLD_NOW | RTLD_LOCAL)) InitDriver(driver, teller);
  teller.Begin("when asked to record");
  const Status status = cupti::TryCupti(api);
  teller.Tell(status.ok() ? "works" : "error", status.message());
}

// As in nvml.h; the collector does not ask for either of these.
struct ConfidentialState {
  unsigned int environment, feature, developer_mode;
};

void AskNvml(const std::string& file, const Teller& teller) {
  teller.Begin("while loading");
  nvml::Api api;
  if (const Status status = nvml::LoadNvml(file, &api); !status.ok()) return teller.Tell("not_found", status.message());
  teller.Tell("loaded", "");
  teller.Begin("in nvmlInit");
  if (const nvml::Result result = api.init(); result != nvml::kSuccess)
    return teller.Tell("error", "nvmlInit failed: " + nvml::ResultName(result));
  teller.Begin("when asked for its devices");
  char version[96] = "";
  if (api.get_driver_version != nullptr && api.get_driver_version(version, sizeof version - 1) == nvml::kSuccess)
    teller.Tell("driver", version);
  unsigned int count = 0;
  if (const nvml::Result result = api.get_count(&count); result != nvml::kSuccess)
    return teller.Tell("error", "nvmlDeviceGetCount failed: " + nvml::ResultName(result));
  teller.Tell("count", count);
  void* const library = dlopen(file.empty() ? "libnvidia-ml.so.1" : file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto get_mig =
      FindIn<nvml::Result (*)(nvml::Device, unsigned int*, unsigned int*)>(library, "nvmlDeviceGetMigMode");
  for (unsigned int i = 0; i < count; ++i) {
    nvml::Device device{};
    unsigned int current = 0, pending = 0;
    if (api.get_handle(i, &device) != nvml::kSuccess) {
      teller.Tell("refused", i);
    } else if (get_mig != nullptr && get_mig(device, &current, &pending) == nvml::kSuccess && current != 0) {
      teller.Tell("mig", i);
    }
  }
  const auto get_confidential = FindIn<nvml::Result (*)(ConfidentialState*)>(library, "nvmlSystemGetConfComputeState");
  ConfidentialState state{};
  if (get_confidential != nullptr && get_confidential(&state) == nvml::kSuccess && state.feature != 0)
    teller.Tell("confidential", state.developer_mode);
  api.shutdown();
}

// ---- Interpretation of the answers. ----

// "580.65.06" from the file with the version of the kernel module; "" if there is none.
std::string ModuleVersion(const std::string& driver_files) {
  std::ifstream file(driver_files + "/version");
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "";
}

// Whether the kernel's module lets every user profile; unset: it does not say.
std::optional<bool> ProfilingIsForAll(const std::string& driver_files) {
  std::ifstream file(driver_files + "/params");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "RmProfilingAdminOnly:")) return absl::EndsWith(line, " 0");
  }
  return {};
}

// Whether the process with this status (/proc/<pid>/status) has CAP_SYS_ADMIN.
bool HasSysAdmin(const std::string& status) {
  constexpr uint64_t kSysAdmin = uint64_t{1} << 21;
  std::ifstream file(status);
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "CapEff:")) return (strtoull(line.c_str() + 7, nullptr, 16) & kSysAdmin) != 0;
  }
  return false;
}

// "13.0" for 13000.
std::string CudaText(int64_t version) { return absl::StrFormat("%d.%d", version / 1000, version % 1000 / 10); }

class Gpus {
 public:
  explicit Gpus(const GpuPlaces& places) : places_(places), module_(ModuleVersion(places.driver_files)) {}

  std::vector<Finding> Examine() {
    driver_ = AskInChild([&](const Teller& teller) { AskDriver(places_.driver, teller); }, places_.patience_ns);
    // If the driver alone hangs or crashes, CUPTI is not to blame.
    const bool with_driver = driver_.failure.empty();
    cupti_ = AskInChild([&](const Teller& teller) { AskCupti(places_, with_driver, teller); }, places_.patience_ns);
    nvml_ = AskInChild([&](const Teller& teller) { AskNvml(places_.nvml, teller); }, places_.patience_ns);
    AddDriver();
    AddDevices();
    AddCounters();
    AddSharing();
    AddCupti();
    AddRecords();
    AddTools();
    AddNvml();
    return std::move(findings_);
  }

 private:
  bool HasGpus() const { return driver_.Has("gpu"); }
  bool IsDivided() const {
    const std::vector<std::string> gpus = driver_.Each("gpu");
    return nvml_.Has("mig") || std::any_of(gpus.begin(), gpus.end(),
                                           [](const std::string& name) { return absl::StrContains(name, " MIG "); });
  }
  // For missing parts: a problem if there is something to record.
  Health HealthOfMissing() const { return HasGpus() ? Health::kProblem : Health::kNote; }
  void Add(const char* topic, Health health, std::string answer, std::string advice = "") {
    findings_.push_back({topic, health, std::move(answer), std::move(advice)});
  }

  void AddDriver();
  void AddDevices();
  void AddCounters();
  void AddSharing();
  void AddCupti();
  void AddUnusableCupti();
  void AddWorkingCupti(const std::string& which, int64_t version);
  std::string AdviceOnCupti(const std::string& error) const;
  void AddRecords();
  void AddTools();
  void AddNvml();

  const GpuPlaces& places_;
  const std::string module_;
  Told driver_, cupti_, nvml_;
  std::vector<Finding> findings_;
};

void Gpus::AddDriver() {
  constexpr const char* kTopic = "collector_driver";
  const std::string module =
      module_.empty() ? "the kernel has no NVIDIA driver" : "the kernel has NVIDIA's driver " + module_;
  if (!driver_.failure.empty()) {
    return Add(kTopic, Health::kProblem, absl::StrCat(module, "; ", places_.driver, " ", driver_.failure),
               "reinstall the driver or restart the machine; the kernel's log (dmesg, NVRM) may say why");
  }
  if (!driver_.Has("loaded")) {
    const std::string answer = absl::StrCat(module, "; ", places_.driver, " cannot be loaded (",
                                            driver_.Get("not_loaded"), "): no GPU is recorded");
    if (module_.empty()) {
      return Add(kTopic, Health::kNote, answer,
                 "if there is a GPU, install NVIDIA's driver; in a container, pass the GPU in (docker run --gpus all)");
    }
    return Add(kTopic, Health::kProblem, answer,
               "in a container, give it the driver's libraries: NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  }
  const std::string cuda =
      driver_.Has("cuda") ? absl::StrCat(", for CUDA up to ", CudaText(driver_.Number("cuda"))) : "";
  if (driver_.Has("error")) {
    return Add(kTopic, module_.empty() || driver_.Number("result") == kNoDevice ? Health::kNote : Health::kProblem,
               absl::StrCat(module, "; ", places_.driver, " was loaded", cuda, ", but ", driver_.Get("error")),
               "check that nvidia-smi works, and that this user may open /dev/nvidia*");
  }
  Add(kTopic, Health::kGood, absl::StrCat(module, "; ", places_.driver, " works", cuda));
}

void Gpus::AddDevices() {
  if (!driver_.Has("init")) return;
  const std::string visible = Environment("CUDA_VISIBLE_DEVICES");
  const std::string hidden = getenv("CUDA_VISIBLE_DEVICES") != nullptr ? " (CUDA_VISIBLE_DEVICES=" + visible + ")" : "";
  if (!HasGpus()) {
    return Add("gpus", Health::kNote, "CUDA sees no GPU" + hidden,
               "give the container or the user one, or unset CUDA_VISIBLE_DEVICES");
  }
  std::map<std::string, int> names;
  for (const std::string& name : driver_.Each("gpu")) ++names[name];
  std::vector<std::string> texts;
  for (const auto& [name, count] : names) texts.push_back(count == 1 ? name : absl::StrCat(count, " x ", name));
  const size_t count = driver_.Each("gpu").size();
  Add("gpus", Health::kGood,
      absl::StrCat("CUDA sees ", count, count == 1 ? " GPU: " : " GPUs: ", absl::StrJoin(texts, ", "), hidden));
}

// What pitot::counters can do here, by the driver's settings: sampling itself would disturb others.
void Gpus::AddCounters() {
  const std::optional<bool> is_for_all = ProfilingIsForAll(places_.driver_files);
  std::vector<std::string> said;
  Health health = Health::kGood;
  std::string advice;
  if (is_for_all) {
    const bool may = *is_for_all || HasSysAdmin(places_.own_status);
    said.push_back(absl::StrCat("hardware counters are for ", *is_for_all ? "every user" : "the administrator only",
                                " (RmProfilingAdminOnly: ", *is_for_all ? 0 : 1, ")",
                                *is_for_all ? ""
                                : may       ? ", as this process is"
                                            : "",
                                may ? ": pitot::counters samples them through CUPTI"
                                    : ": pitot::counters has NVML's coarse ones (GPM) on Hopper or later",
                                "; kernels, copies and graphs are recorded anyway"));
    if (!may) {
      health = Health::kNote;
      advice =
          "for all users: \"options nvidia NVreg_RestrictProfilingToAdminUsers=0\" in /etc/modprobe.d, and load the "
          "module again; for one server: CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN)";
    }
  }
  if (IsDivided()) said.push_back("a GPU is divided (MIG): CUPTI may sample none of its parts, and GPM is asked");
  for (const GpuNow& gpu : LookAtCounters(places_.shared_directory)) {
    said.push_back(TextOf(gpu));
    if (gpu.sampling == Sampling::kNow && advice.empty())
      advice = "before another profiler runs there: pitot counters release";
  }
  if (!said.empty()) Add("gpu_counters", health, absl::StrJoin(said, "; "), advice);
}

void Gpus::AddSharing() {
  std::vector<std::string> found, advice;
  if (IsDivided()) {
    found.push_back("a GPU is divided (MIG): work in this process's part is recorded");
    advice.push_back("NVML has no utilisation of MIG parts");
  }
  const std::string pipes = Environment("CUDA_MPS_PIPE_DIRECTORY");
  const std::string control = (pipes.empty() ? "/tmp/nvidia-mps" : pipes) + "/control";
  if (access(control.c_str(), F_OK) == 0) {
    found.push_back("processes share GPUs through MPS (" + control + "): work of this process is recorded");
    advice.push_back("a kernel waiting for another process looks long");
  }
  if (nvml_.Has("confidential")) {
    found.push_back("GPUs run in confidential computing mode");
    if (nvml_.Number("confidential") == 0)
      advice.push_back("CUPTI records such GPUs in their developer mode only (CC-devtools)");
  }
  if (!found.empty()) Add("gpu_sharing", Health::kNote, absl::StrJoin(found, "; "), absl::StrJoin(advice, "; "));
}

std::string Gpus::AdviceOnCupti(const std::string& error) const {
  const int64_t driver = driver_.Number("cuda") / 1000,
                own = cupti::CudaMajorOf(static_cast<uint32_t>(cupti_.Number("version")));
  if (const char* variable = cupti::ToolVariable(); variable != nullptr && absl::StrContains(error, "another tool"))
    return absl::StrCat("start the server without ", variable, "=", Environment(variable));
  if (absl::StrContains(error, "another tool")) return "end it, or start the server without it";
  if (driver != 0 && own > driver)
    return absl::StrFormat("the driver is for CUDA %d: install the CUPTI of that release, or a newer driver", driver);
  if (absl::StrContains(error, "CONFIDENTIAL")) return "only the developer mode of confidential computing allows it";
  if (absl::StrContains(error, cupti::kRemedy)) return "";  // the error has its own advice
  if (!HasGpus()) return "try again on a machine with a GPU";
  return "try another release of CUPTI with --cupti FILE, then name it in CuptiOptions::library";
}

// Removes a remedy that suggests running this program.
std::string WithoutDoctor(const std::string& error) {
  const size_t remedy = error.find(cupti::kRemedy);
  return remedy != std::string::npos && absl::StrContains(error.substr(remedy), "pitot doctor")
             ? error.substr(0, remedy)
             : error;
}

constexpr const char* kCuptiTopic = "collector_cupti";

// The library was not found, or is not one that Pitot can use.
void Gpus::AddUnusableCupti() {
  const std::string& given = places_.cupti;
  if (cupti_.Has("not_found")) {
    return Add(
        kCuptiTopic, given.empty() ? Health::kNote : Health::kProblem, cupti_.Get("not_found"),
        given.empty()
            ? "a server with a libcupti of its own (PyTorch's wheels bring one) needs no other: check that one with "
              "--cupti FILE"
            : "name a libcupti file this machine can load");
  }
  const std::string wrong = cupti_.Get("wrong");
  Add(kCuptiTopic, given.empty() ? HealthOfMissing() : Health::kProblem, wrong,
      std::string(absl::StrContains(wrong, "it is not a libcupti")
                      ? "name a libcupti file"
                      : "it is too old, or damaged: use the libcupti of CUDA 11 or later") +
          " (package cuda-cupti, or the PyPI wheel nvidia-cuda-cupti) in --cupti and CuptiOptions::library");
}

void Gpus::AddCupti() {
  if (cupti_.Has("not_found") || cupti_.Has("wrong")) return AddUnusableCupti();
  const std::string& given = places_.cupti;
  const int64_t version = cupti_.Number("version");
  const std::string which =
      version != 0 ? absl::StrFormat("CUPTI %d, of CUDA %d (%s)", version,
                                     cupti::CudaMajorOf(static_cast<uint32_t>(version)), cupti_.Get("path"))
                   : "CUPTI" + (given.empty() ? "" : " (" + given + ")");
  if (!cupti_.failure.empty()) {
    return Add(kCuptiTopic, Health::kProblem, absl::StrCat(which, " ", cupti_.failure),
               "do not add the CUPTI collector with this library: the server would fail in the same way. Try another "
               "release of CUPTI");
  }
  if (cupti_.Has("error")) {
    const std::string error = WithoutDoctor(cupti_.Get("error"));
    return Add(kCuptiTopic, HealthOfMissing(), absl::StrCat(which, " does not record: ", error), AdviceOnCupti(error));
  }
  if (!cupti_.Has("works")) {
    return Add(kCuptiTopic, HealthOfMissing(), which + " was not tried: the driver does not work",
               "see collector_driver");
  }
  AddWorkingCupti(which, version);
}

// It records, but may not suit the driver or all GPUs.
void Gpus::AddWorkingCupti(const std::string& which, int64_t version) {
  const int64_t driver = driver_.Number("cuda") / 1000, own = cupti::CudaMajorOf(static_cast<uint32_t>(version));
  const std::string chosen = places_.cupti.empty() ? "; a server with another one loaded uses that" : "";
  if (driver != 0 && own != driver) {
    return Add(kCuptiTopic, Health::kNote,
               absl::StrFormat("%s records here, but the driver is for CUDA %d%s", which, driver, chosen),
               own > driver
                   ? "NVIDIA does not support this combination: name the CUPTI of the driver's CUDA in "
                     "CuptiOptions::library, or install a newer driver"
                   : absl::StrFormat("right for a server built with CUDA %d; one built with CUDA %d needs its own", own,
                                     driver));
  }
  const std::vector<std::string> capabilities = driver_.Each("capability");
  const bool has_old = std::any_of(capabilities.begin(), capabilities.end(), [](const std::string& capability) {
    return atoi(capability.c_str()) < 75;  // 7.5
  });
  if (own >= 13 && has_old) {
    return Add(kCuptiTopic, Health::kNote,
               absl::StrCat(which, " works, but does not know GPUs older than Turing", chosen),
               "use the CUPTI of CUDA 12 for older GPUs");
  }
  Add(kCuptiTopic, Health::kGood, absl::StrCat(which, " records here", chosen));
}

void Gpus::AddRecords() {
  const std::vector<std::string> readable = cupti_.Each("readable"), unreadable = cupti_.Each("unreadable");
  if (readable.empty() && unreadable.empty()) return;
  std::string answer = "readable: " + (readable.empty() ? "nothing" : absl::StrJoin(readable, ", "));
  if (!unreadable.empty()) absl::StrAppend(&answer, "; not readable, left out: ", absl::StrJoin(unreadable, ", "));
  const bool has_kernels = std::find(readable.begin(), readable.end(), "kernels") != readable.end();
  if (!has_kernels)
    return Add("cupti_records", HealthOfMissing(), answer,
               "without kernels nothing is recorded: use another release of CUPTI");
  if (!cupti_.Has("filtered")) {
    return Add(
        "cupti_records", Health::kNote, answer + "; no calls next to PyTorch's profiler",
        "use CUPTI of CUDA 12.5 or later to have calls there, too: without them kernels are not tied to requests");
  }
  Add("cupti_records", unreadable.empty() ? Health::kGood : Health::kNote, answer);
}

void Gpus::AddTools() {
  const char* const variable = cupti::ToolVariable();
  if (variable == nullptr) return;
  const bool is_file = std::string_view(variable) == "CUDA_INJECTION64_PATH";
  if (const std::string why = is_file ? WhyNoFile(Environment(variable)) : ""; !why.empty())
    return Add("gpu_tools", Health::kNote, absl::StrCat(variable, "=", Environment(variable), ": ", why),
               "unset it, or name the tool's file");
  Add("gpu_tools", Health::kNote,
      absl::StrCat(variable, "=", Environment(variable), ": a tool is loaded into every process that uses CUDA here"),
      "while that tool has CUPTI, Pitot records no kernels: start the server without it");
}

void Gpus::AddNvml() {
  constexpr const char* kTopic = "collector_nvml";
  constexpr const char* kAdvice = "in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility";
  if (!nvml_.failure.empty()) {
    return Add(kTopic, Health::kProblem, "NVML " + nvml_.failure,
               "do not add the NVML collector; the kernel's log (dmesg, NVRM) may say why");
  }
  if (nvml_.Has("not_found")) return Add(kTopic, HealthOfMissing(), nvml_.Get("not_found"));
  if (nvml_.Has("error")) return Add(kTopic, HealthOfMissing(), nvml_.Get("error"), HasGpus() ? kAdvice : "");
  const int64_t count = nvml_.Number("count");
  std::string answer = absl::StrCat("NVML works: ", count, count == 1 ? " GPU" : " GPUs");
  if (nvml_.Has("driver")) absl::StrAppend(&answer, ", driver ", nvml_.Get("driver"));
  if (!nvml_.Has("refused")) return Add(kTopic, Health::kGood, answer);
  Add(kTopic, Health::kNote, absl::StrCat(answer, "; cannot be opened: ", absl::StrJoin(nvml_.Each("refused"), ", ")),
      "these are left out: this user may not open their /dev/nvidia*, or they are broken");
}

}  // namespace

std::vector<Finding> ExamineGpus(const GpuPlaces& places) { return Gpus(places).Examine(); }

}  // namespace pitot::cli
