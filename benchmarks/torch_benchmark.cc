// SPDX-License-Identifier: Apache-2.0
//
// The added cost of recording an operator of LibTorch, against one without any callback, in the same round. Measured
// for at::is_same_size, which does next to nothing, and for the operators of a model. Also a tensor's life while memory
// is watched.
#include <ATen/record_function.h>  // clang 14 wants it before ATen.h

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "benchmarks/recording.h"
#include "benchmarks/resident.h"
#include "benchmarks/rounds.h"
#include "collect/torch/gpu_memory.h"
#include "collect/torch/thread_state.h"
#include "pitot/collect/torch.h"
#include "pitot/trace.h"

namespace pitot::benchmarks {
namespace {

constexpr uint64_t kOperators = 50'000;
constexpr int kRounds = 41;

double Operators(uint64_t count) {
  const c10::NoGradGuard no_grad;
  const at::Tensor a = at::empty({4}), b = at::empty({4});
  auto body = [&](uint64_t) { at::is_same_size(a, b); };
  return TimeLoop(count, body);
}

// A transformer's forward pass, with 24 layers so small that LibTorch takes most of the time. Its operators are called
// as in a model: inside one another, with other data between them. A pass is an operation.
double Models(uint64_t count) {
  constexpr int64_t kWidth = 32, kWords = 4;
  const c10::NoGradGuard no_grad;
  const at::Tensor words = at::randn({kWords, kWidth}), square = at::randn({kWidth, kWidth}) * 0.1;
  const at::Tensor wide = at::randn({4 * kWidth, kWidth}) * 0.1, narrow = at::randn({kWidth, 4 * kWidth}) * 0.1;
  const at::Tensor bias = at::zeros({kWidth}), wide_bias = at::zeros({4 * kWidth}), ones = at::ones({kWidth});
  auto body = [&](uint64_t) {
    at::Tensor x = words;
    for (int layer = 0; layer < 24; ++layer) {
      const at::Tensor y = at::layer_norm(x, {kWidth}, ones, bias);
      const auto head = [&] { return at::linear(y, square, bias).view({kWords, 4, kWidth / 4}).transpose(0, 1); };
      const at::Tensor q = head(), k = head(), v = head();
      const at::Tensor a = at::matmul(at::softmax(at::matmul(q, k.transpose(1, 2)) * 0.35, -1), v);
      x = x + at::linear(a.transpose(0, 1).reshape({kWords, kWidth}), square, bias);
      x = x + at::linear(at::gelu(at::linear(at::layer_norm(x, {kWidth}, ones, bias), wide, wide_bias)), narrow, bias);
    }
    benchmark::DoNotOptimize(x);
  };
  return TimeLoop(count, body);
}

// The number of operators in a pass.
uint64_t OperatorsOfModel() {
  static uint64_t operators;
  operators = 0;
  const auto count = [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
    ++operators;
    return nullptr;
  };
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}));
  Models(1);
  at::removeCallback(handle);
  return operators;
}

// An operator's share of the whole time of passes.
double OperatorsInModel(uint64_t count) {
  static const uint64_t operators = OperatorsOfModel();
  return Models((count + operators - 1) / operators) / static_cast<double>(operators);
}

// An interpreter's effect on caches between two operators: it runs code and touches data of many pages.
class Interpreter {
 public:
  Interpreter() : data_(kPages * kStride) {
    void* const pages = mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    code_ = static_cast<char*>(pages);
    for (size_t i = 0; i < kPages; ++i) std::memcpy(code_ + At(i), &kReturn, sizeof kReturn);
    __builtin___clear_cache(code_, code_ + kPages * kPage);
    mprotect(code_, kPages * kPage, PROT_READ | PROT_EXEC);
  }
  ~Interpreter() { munmap(code_, kPages * kPage); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  void Run() {
    for (size_t i = 0; i < kPages; ++i) {
      ++data_[i * kStride], ++data_[i * kStride + kPage / 2];
      reinterpret_cast<void (*)()>(code_ + At(i))();
    }
  }

 private:
  static constexpr size_t kPages = 256, kPage = 4096, kStride = kPage + 64;
#if defined(__aarch64__)
  static constexpr uint32_t kReturn = 0xd65f03c0;
#else
  static constexpr uint32_t kReturn = 0xc3;
#endif
  static size_t At(size_t i) { return i * kPage + i * 64 % kPage; }
  std::vector<unsigned char> data_;
  char* code_ = nullptr;
};

double ColdOperators(uint64_t count) {
  static Interpreter interpreter;
  const c10::NoGradGuard no_grad;
  const at::Tensor a = at::empty({4}), b = at::empty({4});
  auto body = [&](uint64_t) {
    interpreter.Run();
    at::is_same_size(a, b);
  };
  return TimeLoop(count, body);
}

double Tensors(uint64_t count) {
  const c10::NoGradGuard no_grad;
  auto body = [&](uint64_t) { at::empty({1024}); };
  return TimeLoop(count, body);
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction&) { return nullptr; }
void End(const at::RecordFunction&, at::ObserverContext*) {}

template <double (*kLoop)(uint64_t)> double WithEmptyCallback(uint64_t count) {
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(Begin, End).scopes({at::RecordScope::FUNCTION}));
  kLoop(1);
  const double ns = kLoop(count);
  at::removeCallback(handle);
  return ns;
}

template <double (*kLoop)(uint64_t)> void EmptyCallback(benchmark::State&, Rounds& rounds) {
  rounds.Subtract(kOperators, kLoop, WithEmptyCallback<kLoop>);
}

// At `depth` against depth scopes, where operators have no callback.
template <Depth kDepth, bool kShapes, double (*kLoop)(uint64_t)> void At(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  TorchOptions with;
  with.shapes = kShapes;
  with.memory = false;
  if (!StartOrSkip(state, Options(), &recorder) || !OkOrSkip(state, torch::Enable(recorder, with))) return;
  const auto at = [&](Depth depth, uint64_t count) {
    recorder.SetDepth(depth);
    kLoop(1);
    return kLoop(count);
  };
  rounds.Subtract(
      kOperators, [&](uint64_t count) { return at(Depth::kScopes, count); },
      [&](uint64_t count) { return at(kDepth, count); });
}

// Pitot's cost beyond an empty callback.
template <double (*kLoop)(uint64_t)> void AboveEmpty(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  TorchOptions with;
  with.memory = false;
  if (!StartOrSkip(state, Options(), &recorder) || !OkOrSkip(state, torch::Enable(recorder, with))) return;
  rounds.Subtract(kOperators, WithEmptyCallback<kLoop>, [&](uint64_t count) {
    recorder.SetDepth(Depth::kOps);
    kLoop(1);
    const double ns = kLoop(count);
    recorder.SetDepth(Depth::kScopes);
    return ns;
  });
}

// Parts of that, each in a loop of its own, against an empty one.
double Nothing(uint64_t count) {
  auto body = [](uint64_t) {};
  return TimeLoop(count, body);
}
double Clocks(uint64_t count) {
  const uint32_t gate = __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED);
  uint64_t sum = 0;
  auto body = [&](uint64_t) { sum += detail::Clock(gate), sum -= detail::Clock(gate); };
  const double ns = TimeLoop(count, body);
  benchmark::DoNotOptimize(sum);
  return ns;
}
double NamedScopes(uint64_t count) {
  const Name name = Intern("aten::is_same_size");
  auto body = [&](uint64_t) { PITOT_SCOPE_NAMED(name); };
  return TimeLoop(count, body);
}
double Names(uint64_t count) {
  libtorch::ThreadState* const state = libtorch::ThreadState::Get();
  auto body = [&](uint64_t) { benchmark::DoNotOptimize(state->NameOf("aten::is_same_size")); };
  return TimeLoop(count, body);
}
double Contexts(uint64_t count) {
  libtorch::ThreadState* const state = libtorch::ThreadState::Get();
  auto body = [&](uint64_t) {
    void* const block = state->Take();
    benchmark::DoNotOptimize(block);
    state->Give(block);
  };
  return TimeLoop(count, body);
}
template <double (*kLoop)(uint64_t)> void Part(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder)) return;
  rounds.Subtract(20 * kOperators, Nothing, kLoop);
}

// Memory stays watched: LibTorch's own allocator is put back for the comparison.
void Watched(benchmark::State& state, Rounds& rounds) {
  static c10::Allocator* const plain = c10::GetAllocator(c10::DeviceType::CPU);
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder) || !OkOrSkip(state, torch::Enable(recorder))) return;
  recorder.SetDepth(Depth::kScopes);
  c10::Allocator* const watched = c10::GetAllocator(c10::DeviceType::CPU);
  const auto with = [](c10::Allocator* allocator, uint64_t count) {
    c10::SetAllocator(c10::DeviceType::CPU, allocator);
    Tensors(1);
    return Tensors(count);
  };
  rounds.Subtract(
      kOperators, [&](uint64_t count) { return with(plain, count); },
      [&](uint64_t count) { return with(watched, count); });
  c10::SetAllocator(c10::DeviceType::CPU, watched);
}

// The allocator's numbers as LibTorch 2.11 gives them: a copy of so many words under a lock that the thread has.
struct Numbers {
  uint64_t words[122] = {};
};
std::recursive_mutex g_numbers_mutex;
Numbers g_numbers;
libtorch::GpuNumbers ReadNumbers(int32_t) {
  const std::lock_guard lock(g_numbers_mutex);
  Numbers copy = g_numbers;
  benchmark::DoNotOptimize(copy);
  return {.allocated_bytes = static_cast<int64_t>(copy.words[12]), .reserved_bytes = 0};
}
double Reads(uint64_t count) {
  auto body = [](uint64_t) { benchmark::DoNotOptimize(ReadNumbers(0).allocated_bytes); };
  return TimeLoop(count, body);
}

// A block reported by the allocator of CUDA memory as given and taken back.
template <int64_t kBytes> double Blocks(uint64_t count) {
  static libtorch::GpuAccount account;
  static const bool has_begun = account.Begin(kBytes >> 20, {}, ReadNumbers);
  benchmark::DoNotOptimize(has_begun);
  int64_t now = libtorch::MemoryNow();
  auto body = [&](uint64_t) {
    account.Note(libtorch::GpuEvent::kAllocated, kBytes, 1 << 20, now += 100);
    g_numbers.words[12] += kBytes;
    g_numbers.words[12] -= kBytes;
    account.Note(libtorch::GpuEvent::kFreed, kBytes, 1 << 20, now += 100);
  };
  return TimeLoop(count, body);
}

// The same with kLive of them alive: the freed one is not the one given last. kSmall: with one of 4 KiB each.
template <int64_t kLive, bool kSmall> double LiveBlocks(uint64_t count) {
  constexpr int64_t kBytes = 2 << 20;
  static libtorch::GpuAccount account;
  static const bool has_begun = account.Begin(kSmall ? 4 : 3, {}, ReadNumbers);
  benchmark::DoNotOptimize(has_begun);
  int64_t now = libtorch::MemoryNow();
  g_numbers.words[12] = 0;
  const auto note = [&](libtorch::GpuEvent event, int64_t bytes, uint64_t place) {
    if (event == libtorch::GpuEvent::kFreed) g_numbers.words[12] -= static_cast<uint64_t>(bytes);
    account.Note(event, bytes, (place + 1) * kBytes, now += 100);
    if (event == libtorch::GpuEvent::kAllocated) g_numbers.words[12] += static_cast<uint64_t>(bytes);
  };
  for (uint64_t i = 0; i < kLive; ++i) note(libtorch::GpuEvent::kAllocated, kBytes, i);
  auto body = [&](uint64_t i) {
    note(libtorch::GpuEvent::kFreed, kBytes, i % kLive);
    if (kSmall) note(libtorch::GpuEvent::kAllocated, 4096, kLive);
    note(libtorch::GpuEvent::kAllocated, kBytes, i % kLive);
    if (kSmall) note(libtorch::GpuEvent::kFreed, 4096, kLive);
  };
  const double ns = TimeLoop(count, body);
  for (uint64_t i = 0; i < kLive; ++i) note(libtorch::GpuEvent::kFreed, kBytes, i);
  return ns;
}

// Operators inside one another, so that contexts are kept.
void PerThread(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  Options options;
  options.max_ring_bytes = 64 << 10;
  TorchOptions with;
  with.memory = false;  // allocators cannot be left again, and Watched compares them
  if (!StartOrSkip(state, options, &recorder) || !OkOrSkip(state, torch::Enable(recorder, with))) return;
  recorder.SetDepth(Depth::kScopes);
  const auto work = [] {
    const c10::NoGradGuard no_grad;
    const at::Tensor a = at::ones({4, 4});
    for (int i = 0; i < 1000; ++i) at::matmul(a, a).relu();
  };
  AddPerThread(
      state, rounds, recorder, [&] { recorder.SetDepth(Depth::kOps); }, work);
}

void RegisterTorch() {
  Register("operator of LibTorch, empty callback, added", kRounds, EmptyCallback<Operators>, "ns", 0);
  Register("operator of LibTorch, recorded, added", kRounds, At<Depth::kOps, false, Operators>, "ns", 150);
  Register("the same, above an empty callback", kRounds, AboveEmpty<Operators>, "ns", 30);
  Register("operator inside a model, empty callback, added", kRounds, EmptyCallback<OperatorsInModel>, "ns", 0);
  Register("operator inside a model, recorded, added", kRounds, At<Depth::kOps, false, OperatorsInModel>, "ns", 0);
  Register("the same inside a model, above an empty callback", kRounds, AboveEmpty<OperatorsInModel>, "ns", 0);
  Register("operator with cold caches, empty callback, added", kRounds, EmptyCallback<ColdOperators>, "ns", 0);
  Register("operator with cold caches, recorded, added", kRounds, At<Depth::kOps, false, ColdOperators>, "ns", 0);
  Register("the same with cold caches, above an empty callback", kRounds, AboveEmpty<ColdOperators>, "ns", 0);
  Register("of that: two readings of the clock", kRounds, Part<Clocks>, "ns", 0);
  Register("of that: a named scope, with these", kRounds, Part<NamedScopes>, "ns", 0);
  Register("of that: its name looked up", kRounds, Part<Names>, "ns", 0);
  Register("of that: its context taken and given back", kRounds, Part<Contexts>, "ns", 0);
  Register("operator of LibTorch, recorded with shapes, added", kRounds, At<Depth::kOps, true, Operators>, "ns", 0);
  Register("operator of LibTorch at depth kernels, added", kRounds, At<Depth::kKernels, false, Operators>, "ns", 0);
  Register("memory of a thread that runs operators, recorded, added", 1, PerThread, "bytes", 0);
  Register("block of a GPU's cache, 4 KiB, told of twice", kRounds, Part<Blocks<4096>>, "ns", 0);
  Register("block of a GPU's cache, 2 MiB, told of twice", kRounds, Part<Blocks<2 << 20>>, "ns", 0);
  Register("block of a GPU's cache, 2 MiB, one of 16, told of twice", kRounds, Part<LiveBlocks<16, false>>, "ns", 0);
  Register("the same, with a block of 4 KiB each", kRounds, Part<LiveBlocks<16, true>>, "ns", 0);
  Register("the allocator's numbers read", kRounds, Part<Reads>, "ns", 0);
  Register("tensor of 4 KiB made and freed, memory watched, added", kRounds, Watched, "ns", 0);
}

}  // namespace
}  // namespace pitot::benchmarks

int main(int argc, char** argv) { return pitot::benchmarks::Run(argc, argv, pitot::benchmarks::RegisterTorch); }
