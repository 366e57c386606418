// SPDX-License-Identifier: Apache-2.0
//
// The library: CUPTI's functions over one object. Built in variants without some of them.
#include "collect/cupti/fake_cupti.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

namespace {

using namespace pitot::cupti;
using fakes::FakeBuffer;
using fakes::FakeWork;
using fakes::Generation;

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

constexpr auto kInvalidParameter = static_cast<Result>(1);

struct ApiName {
  Domain domain;
  uint32_t id;
  const char* name;
};
constexpr ApiName kNames[] = {
    {kDriverApi, 3, "cuDeviceGet"},
    {kDriverApi, 307, "cuLaunchKernel"},
    {kDriverApi, 126, "cuStreamSynchronize"},
    {kDriverApi, 514, "cuGraphLaunch"},
    {kRuntimeApi, 3, "cudaGetDeviceCount_v3020"},
    {kRuntimeApi, 41, "cudaMemcpyAsync_v3020"},
    {kRuntimeApi, 131, "cudaStreamSynchronize_v3020"},
    {kRuntimeApi, 165, "cudaDeviceSynchronize_v3020"},
    {kRuntimeApi, 211, "cudaLaunchKernel_v7000"},
    {kRuntimeApi, 239, "cudaStreamSynchronize_ptsz_v7000"},
    {kRuntimeApi, 311, "cudaGraphLaunch_v10000"},
    {kRuntimeApi, 505, "__cudaLaunchKernel_ptsz_v13000"},
};

int64_t RealtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

struct Buffer {
  uint8_t* memory;
  size_t size, used;
  bool is_withheld, is_stuck;
};
enum class Level { kOff, kOn, kHalfOff };
struct Graph {
  uint32_t nodes;
  Level made_at;
  bool is_dear;
  std::map<uint32_t, uint32_t> kinds;  // of nodes that are not kernels
};
// Everything reset by Reset.
struct State {
  Generation generation_ = fakes::kCupti13;
  uint32_t correlation_ = 1;
  int calls_ = 0, fail_at_ = 0;
  std::map<std::string, int> calls_of_;
  std::map<uintptr_t, uint32_t> numbers_;  // of streams with former handles of others
  Result fail_with_ = kSuccess;
  CallbackFunction callback_ = nullptr;
  void* context_ = nullptr;
  std::set<std::pair<int, uint32_t>> callbacks_, filtered_;
  std::string refused_;
  std::set<uint32_t> enabled_;
  RequestBuffer request_ = nullptr;
  CompleteBuffer complete_ = nullptr;
  std::map<int, Buffer> buffers_;  // by thread; 0 if they are not per thread
  bool is_zeroed_ = false, is_per_thread_ = false, has_other_ = false;
  int thread_id_type_ = 0;
  std::string other_, broken_;
  std::vector<Graph> graphs_;
  std::map<uint32_t, uint32_t> captured_;  // kinds of nodes of the next graph
  Level level_ = Level::kOff;
  bool has_context_ = false, has_call_records_ = false;
  std::set<std::pair<int, uint32_t>> left_out_;  // calls left out of enabled kinds
  std::vector<uint8_t*> foreign_;                // buffers of others
  size_t dropped_ = 0;
  uint64_t dear_replays_ = 0;
};

class Library final : public fakes::FakeCupti, State {
 public:
  void Reset(const Generation& generation) override {
    HangIn("");
    OnNext("", nullptr);
    const std::lock_guard lock(mutex_);
    for (uint8_t* const buffer : foreign_) free(buffer);
    static_cast<State&>(*this) = State();
    generation_ = generation;
  }

  uint32_t Run(const FakeWork& work) override {
    const bool is_copy = work.copy_bytes != 0;
    const char* api = is_copy ? "cudaMemcpyAsync" : work.api;
    const uint32_t correlation = NextCorrelation();
    const int64_t called_ns = RealtimeNs();
    uint64_t data = 0, inner_data = 0;
    Call(api, kEnter, correlation, &data);
    uint32_t of_kernel = correlation;
    if (work.has_driver_call) {
      const uint32_t inner = NextCorrelation();
      const int64_t inner_called_ns = RealtimeNs();
      Call("cuLaunchKernel", kEnter, inner, &inner_data);
      const std::lock_guard lock(mutex_);
      CallExit("cuLaunchKernel", inner, inner_called_ns, &inner_data);
      if (work.is_of_driver) of_kernel = inner;
    }
    const std::lock_guard lock(mutex_);
    const auto begin = static_cast<uint64_t>(work.begin_ns != 0 ? work.begin_ns : RealtimeNs());
    const uint64_t end = begin + static_cast<uint64_t>(work.duration_ns);
    FakeBuffer record(generation_);
    const uint32_t kind = is_copy ? kMemcpy : kConcurrentKernel;
    if (is_copy)
      record.Memcpy(1, 1, 3, work.copy_bytes, begin, end, of_kernel);
    else
      record.Kernel(work.name, begin, end, of_kernel, work.stream);
    std::vector<uint8_t> bytes = record.bytes();
    const auto set = [&](uint32_t offset, uint32_t value) { memcpy(&bytes[offset], &value, sizeof value); };
    set(is_copy ? memcpy_record::kDeviceId : kernel::kDeviceId, work.device);
    set(is_copy ? memcpy_record::kContextId : kernel::kContextId, work.context);
    set(is_copy ? memcpy_record::kStreamId : kernel::kStreamId, work.stream);
    if (enabled_.count(kind) != 0) Write(bytes, work.is_running, work.is_stuck);
    CallExit(api, correlation, called_ns, &data);
    return correlation;
  }

  void Unstick() override {
    const std::lock_guard lock(mutex_);
    for (auto& [thread, buffer] : buffers_) buffer.is_stuck = false;
  }
  void Synchronize() override {
    const uint32_t correlation = NextCorrelation();
    const int64_t called_ns = RealtimeNs();
    uint64_t data = 0;
    Call("cudaDeviceSynchronize", kEnter, correlation, &data);
    const std::lock_guard lock(mutex_);
    if (enabled_.count(kSynchronization) != 0) Break("SYNCHRONIZATION was enabled");
    CallExit("cudaDeviceSynchronize", correlation, called_ns, &data);
  }
  void SynchronizeStream(const fakes::FakeSync& sync) override {
    const uint32_t correlation = NextCorrelation();
    const int64_t called_ns = RealtimeNs();
    uint64_t data = 0;
    Call(sync.api, kEnter, correlation, &data);
    const std::lock_guard lock(mutex_);
    CallExit(sync.api, correlation, called_ns, &data, sync);
  }

  void Remake(uintptr_t handle, uint32_t number) override { Remake(kStreamDestroyStarting, handle, number); }
  void RemakeContext(uintptr_t handle, uint32_t number) override { Remake(kContextDestroyStarting, handle, number); }

  uint32_t Instantiate(uint32_t nodes) override {
    const std::lock_guard lock(mutex_);
    Resource(kGraphExecCreateStarting);
    // The executable graph's nodes are copies of the captured ones.
    const uint64_t captured = Captured();
    graphs_.push_back({nodes, level_, false, std::exchange(captured_, {})});
    for (uint64_t node = 1; node <= nodes; ++node) {
      const uint64_t copy = graphs_.size() << 32 | node;
      GraphData data{};
      data.node = reinterpret_cast<void*>(copy), data.original_node = reinterpret_cast<void*>(captured | node);
      ResourceData resource{nullptr, nullptr, &data};
      Resource(kGraphNodeCloned, &resource);
    }
    Resource(kGraphExecCreated);
    return static_cast<uint32_t>(graphs_.size());
  }

  uint32_t Replay(uint32_t graph, const char* name) override {
    const uint32_t correlation = NextCorrelation();
    const int64_t called_ns = RealtimeNs();
    uint64_t data = 0;
    Call("cudaGraphLaunch", kEnter, correlation, &data);
    const std::lock_guard lock(mutex_);
    Graph& it = graphs_[graph - 1];
    const bool has_level = level_ != Level::kOff, has_kernels = enabled_.count(kConcurrentKernel) != 0;
    if ((has_level && it.made_at == Level::kOff) || it.made_at == Level::kHalfOff)
      Break("a graph that was made without graph level was launched with it: CUPTI crashes");
    const uint64_t begin = static_cast<uint64_t>(RealtimeNs()) - uint64_t{it.nodes} * 1000;  // it ends now
    if (has_level) {
      FakeBuffer record(generation_);
      record.Graph(graph, begin, begin + it.nodes * 1000, correlation);
      Write(record.bytes());
      dear_replays_ += it.is_dear;
    } else if (has_kernels) {
      it.is_dear = true;
      for (uint32_t node = 1; node <= it.nodes; ++node)
        WriteNode(graph, node, name, begin + (node - 1) * 1000, correlation);
    } else {
      it.is_dear = false;
    }
    CallExit("cudaGraphLaunch", correlation, called_ns, &data);
    return correlation;
  }

  uint32_t Begin(const char* api) override {
    const uint32_t correlation = NextCorrelation();
    uint64_t data = 0;
    Call(api, kEnter, correlation, &data);
    return correlation;
  }
  void End(const char* api, uint32_t correlation) override {
    uint64_t data = 0;
    const std::lock_guard lock(mutex_);
    CallExit(api, correlation, RealtimeNs(), &data);
  }

  void CaptureNode(uint32_t node, uint32_t kind) override {
    const std::lock_guard lock(mutex_);
    if (kind != kConcurrentKernel) captured_[node] = kind;
    GraphData data{};
    data.node = reinterpret_cast<void*>(Captured() | node);
    const ResourceData resource{nullptr, nullptr, &data};
    Resource(kGraphNodeCreated, &resource);
  }

  void FailFatally() override {
    const std::lock_guard lock(mutex_);
    if (callback_ != nullptr && callbacks_.count({kState, kFatalError}) != 0)
      callback_(context_, kState, kFatalError, nullptr);
  }

  void SubscribeOther(const char* name) override {
    const std::lock_guard lock(mutex_);
    other_ = name, has_other_ = true;
  }
  void UnsubscribeOther() override {
    const std::lock_guard lock(mutex_);
    has_other_ = false;
  }
  void DisableAll() override {
    const std::lock_guard lock(mutex_);
    enabled_.clear();
    filtered_.clear();
  }
  void RegisterOther() override {
    const std::lock_guard lock(mutex_);
    has_context_ = true, has_call_records_ = false;  // CUPTI 13.0 then has no records of single calls any more
    request_ = [](uint8_t** buffer, size_t* size, size_t* most) {
      *size = 64 << 10, *most = 0;
      *buffer = static_cast<uint8_t*>(calloc(1, *size));
      Instance().foreign_.push_back(*buffer);
    };
    complete_ = [](void*, uint32_t, uint8_t* buffer, size_t size, size_t) {
      // All of its own buffers have this size.
      if (size == 64 << 10) memset(buffer, 0, size);
    };
  }
  void GiveForeign(size_t valid) override {
    const std::lock_guard lock(mutex_);
    auto* const buffer = static_cast<uint8_t*>(calloc(1, 64 << 10));
    complete_(nullptr, 0, buffer, 64 << 10, valid);
    foreign_.push_back(buffer);  // still ours: the client must not have freed it
    memset(buffer, 1, 64 << 10);
  }

  void FailAt(int call, int result) override {
    const std::lock_guard lock(mutex_);
    fail_at_ = call, fail_with_ = static_cast<Result>(result), calls_ = 0;
  }
  int calls() const override {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  int calls_of(const std::string& function) const override {
    const std::lock_guard lock(mutex_);
    const auto found = calls_of_.find(function);
    return found != calls_of_.end() ? found->second : 0;
  }
  void HangIn(const std::string& function) override {
    const std::lock_guard lock(hang_mutex_);
    hang_in_ = function;
    hang_changed_.notify_all();
  }
  void OnNext(const std::string& function, std::function<void()> what) override {
    const std::lock_guard lock(hang_mutex_);
    next_function_ = function, on_next_ = std::move(what);
  }
  void Refuse(const std::string& function) override {
    const std::lock_guard lock(mutex_);
    refused_ = function;
  }
  bool is_hanging() const override {
    const std::lock_guard lock(hang_mutex_);
    return hanging_ != 0;
  }
  void Drop(uint64_t records) override {
    const std::lock_guard lock(mutex_);
    dropped_ += records;
  }
  void SetCorrelation(uint32_t next) override {
    const std::lock_guard lock(mutex_);
    correlation_ = next;
  }
  bool IsEnabled(uint32_t kind) const override {
    const std::lock_guard lock(mutex_);
    return enabled_.count(kind) != 0;
  }
  size_t kinds_enabled() const override {
    const std::lock_guard lock(mutex_);
    return enabled_.size();
  }
  bool HasSubscriber() const override {
    const std::lock_guard lock(mutex_);
    return callback_ != nullptr;
  }
  size_t callbacks_enabled() const override {
    const std::lock_guard lock(mutex_);
    const auto is_left = [this](const ApiName& api) {
      const uint32_t kind = api.domain == kRuntimeApi ? kRuntime : kDriver;
      return enabled_.count(kind) != 0 && left_out_.count({static_cast<int>(kind), api.id}) == 0;
    };
    const auto of_kinds = std::count_if(std::begin(kNames), std::end(kNames), is_left);
    return callbacks_.size() + std::max(filtered_.size(), static_cast<size_t>(of_kinds));
  }
  uint64_t buffers_out() const override {
    const std::lock_guard lock(mutex_);
    return buffers_.size();
  }
  std::string broken_rules() const override {
    const std::lock_guard lock(mutex_);
    return broken_;
  }
  uint64_t dear_replays() const override {
    const std::lock_guard lock(mutex_);
    return dear_replays_;
  }

  // ---- CUPTI's functions. ----
  bool Fails(Result* result) {
    const bool fails = ++calls_ == fail_at_;
    if (fails) *result = fail_with_;
    return fails;
  }
  template <class Function> Result Do(const char* name, Function function) {
    Meet(name);
    {
      // Without the lock of the rest, so that only callers of this function hang.
      std::unique_lock lock(hang_mutex_);
      hanging_ += hang_in_ == name;
      hang_changed_.notify_all();
      if (hang_in_ == name) hang_changed_.wait(lock, [&] { return hang_in_ != name; }), --hanging_;
    }
    const std::lock_guard lock(mutex_);
    ++calls_of_[name];
    Result result = kSuccess;
    if (Fails(&result)) return result;
    return refused_ == name ? kInsufficientPrivileges : function();
  }

  Result GetVersion(uint32_t* version) {
    return Do("cuptiGetVersion", [&] { return *version = generation_.version, kSuccess; });
  }
  Result Subscribe(Subscriber* subscriber, CallbackFunction callback, void* context, SubscriberParams* params) {
    if (on_subscribe_ == "crash") abort();
    while (on_subscribe_ == "hang") pause();
    if (const int result = atoi(on_subscribe_.c_str()); result != 0) return static_cast<Result>(result);
    return Do("cuptiSubscribe", [&] {
      if (has_other_ || callback_ != nullptr) {
        if (params != nullptr && params->old_name != nullptr)
          strncpy(params->old_name, other_.c_str(), params->old_name_size - 1);
        return kMultipleSubscribersNotSupported;
      }
      callback_ = callback, context_ = context;
      *subscriber = this;
      return kSuccess;
    });
  }
  Result Unsubscribe(Subscriber subscriber) {
    return Do("cuptiUnsubscribe", [&] {
      if (subscriber != this || callback_ == nullptr) return kInvalidParameter;
      callback_ = nullptr;
      callbacks_.clear();
      return kSuccess;
    });
  }
  Result EnableCallback(uint32_t enable, Subscriber subscriber, int domain, uint32_t id) {
    return Do("cuptiEnableCallback", [&] {
      if (subscriber != this || callback_ == nullptr) return kInvalidParameter;
      if (enable != 0)
        callbacks_.insert({domain, id});
      else
        callbacks_.erase({domain, id});
      return kSuccess;
    });
  }
  Result StreamId(void* stream, bool is_per_thread, uint32_t* id) {
    return Do("cuptiGetStreamIdEx", [&] {
      const auto handle = reinterpret_cast<uintptr_t>(stream);
      if (handle != 0 && handle < fakes::FakeStream(0)) return kInvalidParameter;
      if (const auto found = numbers_.find(handle); found != numbers_.end()) return *id = found->second, kSuccess;
      *id = handle != 0 ? static_cast<uint32_t>(handle - fakes::FakeStream(0)) : is_per_thread ? 8 : 7;
      return kSuccess;
    });
  }
  Result GraphNodeId(void* node, uint64_t* id) {
    return Do("cuptiGetGraphNodeId", [&] { return *id = reinterpret_cast<uint64_t>(node), kSuccess; });
  }
  Result CallbackName(int domain, uint32_t id, const char** name) {
    return Do("cuptiGetCallbackName", [&] {
      for (const ApiName& api : kNames) {
        if (api.domain == domain && api.id == id && (id != 505 || generation_.version >= 130000))
          return *name = api.name, kSuccess;
      }
      return kInvalidParameter;
    });
  }
  Result Enable(uint32_t kind, bool on) {
    return Do(on ? "cuptiActivityEnable" : "cuptiActivityDisable", [&] {
      if (kind == kKernelSerialized) Break("KERNEL, which serialises, was enabled");
      if (generation_.Strides()[kind] == 0) return kInvalidKind;
      if (on)
        enabled_.insert(kind);
      else
        enabled_.erase(kind);
      // Like CUPTI 13.0: settings of single calls are reset.
      const auto is_of_kind = [kind](const auto& api) { return api.first == static_cast<int>(kind); };
      std::erase_if(on ? left_out_ : filtered_, is_of_kind);
      // Like CUPTI 13.0: graph level goes off only once kernels are recorded.
      const bool has_kernels = enabled_.count(kConcurrentKernel) != 0;
      if (enabled_.count(kGraphTrace) != 0)
        level_ = Level::kOn;
      else if (level_ != Level::kOff)
        level_ = has_kernels ? Level::kOff : Level::kHalfOff;
      return kSuccess;
    });
  }
  Result EnableApi(uint32_t kind, uint32_t id, bool on) {
    return Do("cuptiActivityEnableRuntimeApi", [&] {
      if (generation_.version < 23) Break("filtered API records were asked of a CUPTI that has none");
      const std::pair<int, uint32_t> api{kind, id};
      if (on)
        filtered_.insert(api), left_out_.erase(api);
      else
        filtered_.erase(api), left_out_.insert(api);
      return kSuccess;
    });
  }
  Result Register(RequestBuffer request, CompleteBuffer complete) {
    return Do("cuptiActivityRegisterCallbacks", [&] { return request_ = request, complete_ = complete, kSuccess; });
  }
  Result FlushAll(uint32_t flags) {
    return Do("cuptiActivityFlushAll", [&] {
      if (flags != 0) Break("a forced flush");
      for (auto buffer = buffers_.begin(); buffer != buffers_.end();) {
        if (buffer->second.is_withheld || buffer->second.is_stuck) {
          buffer->second.is_withheld = false;  // it ends meanwhile
          ++buffer;
          continue;
        }
        Complete(buffer->second);
        buffer = buffers_.erase(buffer);
      }
      return kSuccess;
    });
  }
  Result SetAttribute(int attribute, size_t*, void* value) {
    return Do("cuptiActivitySetAttribute", [&] {
      if (attribute == kPerThreadBuffer && generation_.version < 21) return kNotSupported;
      const bool is_set = *static_cast<uint8_t*>(value) != 0;
      if (attribute == kZeroedOutBuffer) is_zeroed_ = is_set;
      if (attribute == kPerThreadBuffer) is_per_thread_ = is_set;
      return kSuccess;
    });
  }
  Result GetDropped(size_t* dropped) {
    return Do("cuptiActivityGetNumDroppedRecords", [&] { return *dropped = std::exchange(dropped_, 0), kSuccess; });
  }
  Result SetThreadIdType(int type) {
    return Do("cuptiSetThreadIdType", [&] { return thread_id_type_ = type, kSuccess; });
  }
  // Steps like the libraries: by the kind found there, to the next whole record.
  Result NextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
    return Do("cuptiActivityGetNextRecord", [&] {
      const Strides strides = generation_.Strides();
      const auto length = [&](const uint8_t* at) {
        const auto kind = Field<uint32_t>(at, 0);
        return kind < strides.size() ? strides[kind] : 0;
      };
      uint8_t* next = buffer;
      if (*record != nullptr) {
        if (length(*record) == 0) return kInvalidKind;
        next = *record + length(*record);
      }
      if (next + sizeof(uint32_t) > buffer + valid) return kMaxLimitReached;
      if (length(next) == 0) return kInvalidKind;
      if (next + length(next) > buffer + valid) return kMaxLimitReached;
      return *record = next, kSuccess;
    });
  }

  static Library& Instance() {
    static auto* const library = [] {
      auto* const made = new Library;
      made->ReadEnvironment();
      // The child of a fork asks for the calls made: another thread may have been in a call.
      pthread_atfork([] { Instance().mutex_.lock(); }, [] { Instance().mutex_.unlock(); },
                     [] { new (&Instance().mutex_) std::recursive_mutex; });  // the child does not own it
      return made;
    }();
    return *library;
  }

  // For tests of programs without access to this object: FAKE_CUPTI_VERSION, FAKE_CUPTI_OTHER (a name),
  // FAKE_CUPTI_SUBSCRIBE (crash, hang, or a number of a result).
  void ReadEnvironment() {
    if (const char* version = getenv("FAKE_CUPTI_VERSION")) {
      const auto number = static_cast<uint32_t>(atoi(version));
      generation_ = number <= 18 ? fakes::kCupti11 : number < 100000 ? fakes::kCupti12 : fakes::kCupti13;
      generation_.version = number;
    }
    if (const char* other = getenv("FAKE_CUPTI_OTHER")) SubscribeOther(other);
    if (const char* subscribe = getenv("FAKE_CUPTI_SUBSCRIBE")) on_subscribe_ = subscribe;
  }

 private:
  static constexpr uint32_t kKernelSerialized = 3;

  // The number of the graph being captured, as in its nodes' numbers.
  uint64_t Captured() const { return (uint64_t{0x80000000} + graphs_.size()) << 32; }

  void WriteNode(uint32_t graph, uint32_t node, const char* name, uint64_t begin, uint32_t correlation) {
    const auto& kinds = graphs_[graph - 1].kinds;
    const uint32_t kind = kinds.count(node) != 0 ? kinds.at(node) : kConcurrentKernel;
    const uint64_t id = uint64_t{graph} << 32 | node, end = begin + 900;
    if (enabled_.count(kind) == 0) return;
    FakeBuffer record(generation_);
    if (kind == kMemcpy)
      record.Memcpy(1, 1, 3, 4096, begin, end, correlation, id, graph);
    else if (kind == kMemset)
      record.Memset(64, begin, end, correlation, id, graph);
    else
      record.Kernel(name, begin, end, correlation, 7, id, graph);
    Write(record.bytes());
  }
  void Remake(uint32_t callback_id, uintptr_t handle, uint32_t number) {
    const std::lock_guard lock(mutex_);
    const ResourceData data{this, reinterpret_cast<void*>(handle), nullptr};
    Resource(callback_id, &data);
    numbers_[handle] = number;
  }
  void Break(const char* rule) {
    if (broken_.empty()) broken_ = rule;
  }
  uint32_t NextCorrelation() {
    const std::lock_guard lock(mutex_);
    if (correlation_ == 0) ++correlation_;
    return correlation_++;
  }
  static const ApiName* Find(const std::string& plain) {
    const auto found = std::find_if(std::begin(kNames), std::end(kNames), [&](const ApiName& api) {
      return std::string(api.name).substr(0, plain.size()) == plain;
    });
    return found != std::end(kNames) ? &*found : nullptr;
  }
  void Meet(const std::string& function) {
    std::function<void()> what;
    {
      const std::lock_guard lock(hang_mutex_);
      if (on_next_ && next_function_ == function) what = std::exchange(on_next_, nullptr);
    }
    if (what) what();
  }
  // Without the lock, like CUPTI's calls.
  void Call(const std::string& plain, CallbackSite site, uint32_t correlation, uint64_t* data) {
    const ApiName* const api = Find(plain);
    CallbackFunction callback = nullptr;
    void* context = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (api != nullptr && callbacks_.count({api->domain, api->id}) != 0) callback = callback_, context = context_;
    }
    if (callback == nullptr) return;
    Meet(kCallback);
    CallbackData it{};
    it.site = site;
    it.function_name = api->name;
    it.correlation_data = data;
    it.correlation_id = correlation;
    callback(context, api->domain, api->id, &it);
  }
  // With the lock.
  void CallExit(const std::string& plain, uint32_t correlation, int64_t called_ns, uint64_t* data,
                const fakes::FakeSync& sync = {}) {
    const ApiName* const api = Find(plain);
    if (api == nullptr) return;
    const uint32_t kind = api->domain == kRuntimeApi ? kRuntime : kDriver;
    // Like CUPTI 13.0: single calls have no records unless some were on when the context was made.
    if (!has_context_) has_context_ = true, has_call_records_ = !filtered_.empty();
    const std::pair<int, uint32_t> call{kind, api->id};
    const bool is_on_alone = has_call_records_ && filtered_.count(call) != 0;
    if (is_on_alone || (enabled_.count(kind) != 0 && left_out_.count(call) == 0)) {
      FakeBuffer record(generation_);
      const auto thread = static_cast<uint32_t>(thread_id_type_ == kSystemThreadId ? gettid() : 1);
      record.Call(kind, api->id, thread, static_cast<uint64_t>(called_ns), static_cast<uint64_t>(RealtimeNs()),
                  correlation);
      Write(record.bytes());
    }
    if (callback_ == nullptr || callbacks_.count({api->domain, api->id}) == 0) return;
    CallbackData it{};
    it.site = kExit;
    it.function_name = api->name;
    it.correlation_data = data;
    it.correlation_id = correlation;
    StreamParameters parameters{reinterpret_cast<void*>(sync.handle)};
    int result = sync.result;
    it.parameters = &parameters;
    it.return_value = &result;
    it.context = this;
    it.context_id = sync.context;
    callback_(context_, api->domain, api->id, &it);
  }
  void Resource(uint32_t id, const ResourceData* data = nullptr) {
    if (callback_ != nullptr && callbacks_.count({kResource, id}) != 0) callback_(context_, kResource, id, data);
  }
  void Complete(const Buffer& buffer) { complete_(nullptr, 0, buffer.memory, buffer.size, buffer.used); }
  void Write(const std::vector<uint8_t>& record, bool is_running = false, bool is_stuck = false) {
    if (request_ == nullptr) return Break("a kind was enabled before callbacks were registered");
    const int thread = is_per_thread_ ? gettid() : 0;
    auto buffer = buffers_.find(thread);
    if (buffer != buffers_.end() && buffer->second.used + record.size() > buffer->second.size) {
      Complete(buffer->second);
      buffers_.erase(buffer);
      buffer = buffers_.end();
    }
    if (buffer == buffers_.end()) {
      Buffer made{};
      size_t most = 0;
      request_(&made.memory, &made.size, &most);
      if (made.memory == nullptr) {
        ++dropped_;
        if (generation_.version < 27) Break("no buffer was given to a CUPTI that crashes without one");
        return;
      }
      if (reinterpret_cast<uintptr_t>(made.memory) % 8 != 0) Break("a buffer is not aligned");
      const bool is_zero = std::all_of(made.memory, made.memory + made.size, [](uint8_t byte) { return byte == 0; });
      if (is_zeroed_ && !is_zero) Break("a buffer that was promised to be zero is not");
      buffer = buffers_.emplace(thread, made).first;
    }
    memcpy(buffer->second.memory + buffer->second.used, record.data(), record.size());
    buffer->second.used += record.size();
    buffer->second.is_withheld |= is_running;
    buffer->second.is_stuck |= is_stuck;
  }

  mutable std::recursive_mutex mutex_;
  std::string on_subscribe_;
  mutable std::mutex hang_mutex_;
  std::condition_variable hang_changed_;
  std::string hang_in_;
  int hanging_ = 0;  // calls
  std::string next_function_;
  std::function<void()> on_next_;
};

}  // namespace

FAKE_EXPORT fakes::FakeCupti* fake_cupti() { return &Library::Instance(); }

FAKE_EXPORT Result cuptiGetVersion(uint32_t* version) { return Library::Instance().GetVersion(version); }
FAKE_EXPORT Result cuptiGetResultString(Result result, const char** text) {
  *text = result == kMultipleSubscribersNotSupported ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : result == kNotInitialized                ? "CUPTI_ERROR_NOT_INITIALIZED"
                                                     : "CUPTI_ERROR_UNKNOWN";
  return kSuccess;
}
FAKE_EXPORT Result cuptiSubscribe(Subscriber* subscriber, CallbackFunction callback, void* context) {
  return Library::Instance().Subscribe(subscriber, callback, context, nullptr);
}
FAKE_EXPORT Result cuptiUnsubscribe(Subscriber subscriber) { return Library::Instance().Unsubscribe(subscriber); }
FAKE_EXPORT Result cuptiEnableCallback(uint32_t enable, Subscriber subscriber, int domain, uint32_t id) {
  return Library::Instance().EnableCallback(enable, subscriber, domain, id);
}
#ifndef FAKE_CUPTI_BROKEN
FAKE_EXPORT Result cuptiActivityEnable(uint32_t kind) { return Library::Instance().Enable(kind, true); }
#endif
FAKE_EXPORT Result cuptiActivityDisable(uint32_t kind) { return Library::Instance().Enable(kind, false); }
FAKE_EXPORT Result cuptiActivityRegisterCallbacks(RequestBuffer request, CompleteBuffer complete) {
  return Library::Instance().Register(request, complete);
}
FAKE_EXPORT Result cuptiActivityFlushAll(uint32_t flags) { return Library::Instance().FlushAll(flags); }
FAKE_EXPORT Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  return Library::Instance().NextRecord(buffer, valid, record);
}
FAKE_EXPORT Result cuptiActivitySetAttribute(int attribute, size_t* size, void* value) {
  return Library::Instance().SetAttribute(attribute, size, value);
}
#ifndef FAKE_CUPTI_OLD
FAKE_EXPORT Result cuptiSubscribe_v2(Subscriber* subscriber, CallbackFunction callback, void* context,
                                     SubscriberParams* params) {
  return Library::Instance().Subscribe(subscriber, callback, context, params);
}
FAKE_EXPORT Result cuptiGetCallbackName(int domain, uint32_t id, const char** name) {
  return Library::Instance().CallbackName(domain, id, name);
}
FAKE_EXPORT Result cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable) {
  return Library::Instance().EnableApi(kRuntime, id, enable != 0);
}
FAKE_EXPORT Result cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable) {
  return Library::Instance().EnableApi(kDriver, id, enable != 0);
}
FAKE_EXPORT Result cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  return Library::Instance().GetDropped(dropped);
}
FAKE_EXPORT Result cuptiGetGraphNodeId(void* node, uint64_t* id) { return Library::Instance().GraphNodeId(node, id); }
FAKE_EXPORT Result cuptiGetStreamIdEx(void*, void* stream, uint8_t is_per_thread, uint32_t* id) {
  return Library::Instance().StreamId(stream, is_per_thread != 0, id);
}
FAKE_EXPORT Result cuptiSetThreadIdType(int type) { return Library::Instance().SetThreadIdType(type); }
#endif
