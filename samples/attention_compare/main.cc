// SPDX-License-Identifier: Apache-2.0
//
// attention_compare: sends requests alternately to a plain fused attention kernel and to a reference, like two models
// of one server. Each has a route of its own, so the report gives each its typical time.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "attention_compare/fused.h"
#include "attention_compare/other.h"
#include "gpu_common/cuda.h"
#include "gpu_common/sample.h"
#include "pitot/collect/cuda_calls.h"
#include "pitot/collect/profile.h"

namespace attention_compare {
namespace {

using gpu_common::DeviceArray;

constexpr int kCheckedRows = 16;  // per head; one row takes the CPU as long as thousands take a whole GPU
constexpr float kTolerance = 2e-3f;

std::vector<float> Random(size_t size, unsigned seed) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> any(-2, 2);
  std::vector<float> values(size);
  for (float& value : values) value = any(random);
  return values;
}

// Checks every few rows, including rows of the first and the last tile.
void CheckRows(const Shape& shape, const std::vector<float>& queries, const std::vector<float>& keys,
               const std::vector<float>& values, const std::vector<float>& out) {
  const auto length = static_cast<size_t>(shape.length);
  const size_t checked = std::min<size_t>(kCheckedRows, length);
  for (size_t head = 0; head < static_cast<size_t>(shape.heads) * length; head += length) {
    for (size_t i = 0; i < checked; ++i) {
      const size_t query = checked == 1 ? 0 : i * (length - 1) / (checked - 1);
      const auto at = [](const std::vector<float>& rows, size_t row, size_t column) {
        return static_cast<double>(rows[row * kHeadDim + column]);
      };
      std::vector<double> weights(length);
      for (size_t key = 0; key < length; ++key) {
        for (size_t j = 0; j < kHeadDim; ++j) weights[key] += at(queries, head + query, j) * at(keys, head + key, j);
        weights[key] /= std::sqrt(static_cast<double>(kHeadDim));
      }
      const double most = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - most);
      std::vector<float> expected(kHeadDim);
      for (size_t j = 0; j < kHeadDim; ++j) {
        double value = 0;
        for (size_t key = 0; key < length; ++key) value += weights[key] * at(values, head + key, j);
        expected[j] = static_cast<float>(value / sum);
      }
      gpu_common::CheckClose("value", &out[(head + query) * kHeadDim], expected.data(), kHeadDim, kTolerance);
    }
  }
}

// Measures the kernels of `serve` while a thread calls it again and again, as a server would.
pitot::Profile Measure(pitot::Recorder& recorder, const std::function<void()>& serve) {
  std::atomic<bool> is_done{false};
  std::string failure;
  std::thread server([&] {
    try {
      while (!is_done) serve();
    } catch (const std::exception& e) {
      failure = e.what();
    }
  });
  pitot::ProfileOptions options;
  options.launches = 66;
  pitot::Profile profile;
  const pitot::Status status = pitot::ProfileKernels(recorder, options, &profile);
  is_done = true;
  server.join();
  if (!failure.empty()) throw std::runtime_error(failure);
  if (!status.ok()) {
    std::fprintf(stderr, "attention_compare: no profile: %s\n", status.message());
    throw gpu_common::Exit{gpu_common::kSkipped};
  }
  return profile;
}

// Explains by hardware counters why one of the two is slower.
int ProfileBoth(const gpu_common::Arguments& arguments, const char* other_route, const std::function<void()>& fused,
                const std::function<void()>& other) {
  pitot::Options options;
  options.incident_directory = arguments.incident_directory().c_str();
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  const pitot::Status status = recorder.Add(pitot::MakeCudaCallCollector());
  if (!status.ok()) throw std::runtime_error(status.message());
  const pitot::Profile one = Measure(recorder, fused), two = Measure(recorder, other);
  std::printf("\n/fused\n%s\n%s\n%s\n", pitot::ProfileText(one).c_str(), other_route, pitot::ProfileText(two).c_str());
  std::printf("%s\n", pitot::CompareProfiles("/fused", one, other_route, two).c_str());
  return gpu_common::kDone;
}

int Main(int argc, char** argv) {
  Shape shape;
  bool is_profile = false;
  gpu_common::Arguments arguments("attention_compare", "Serves attention by two implementations in turn.", 1);
  arguments.Number("--heads", "heads of an input (default 8)", 1, 64, &shape.heads);
  arguments.Number("--length", "tokens of an input (default 1024)", 1, 8192, &shape.length);
  arguments.Flag("--profile", "measure the kernels of both with hardware counters, and compare them", &is_profile);
  arguments.Parse(argc, argv);

  // CUPTI's records of kernels and its range profiler would get in each other's way.
  std::optional<gpu_common::Recording> recording;
  is_profile ? gpu_common::RequireGpu(arguments.program()) : static_cast<void>(recording.emplace(arguments));
  const size_t size = static_cast<size_t>(shape.heads) * static_cast<size_t>(shape.length) * kHeadDim;
  const std::vector<float> queries = Random(size, 1), keys = Random(size, 2), values = Random(size, 3);
  const DeviceArray<float> device_queries(queries), device_keys(keys), device_values(values), fused_out(size);
  const gpu_common::Stream stream;
  const std::unique_ptr<Other> other = MakeOther(shape);
  std::printf("%s\n", other->about());
  const auto launch_fused = [&] {
    LaunchFused(shape, device_queries.data(), device_keys.data(), device_values.data(), fused_out.data(), stream.get());
    gpu_common::Check(cudaGetLastError(), "FusedAttention");
  };
  const auto launch_other = [&] {
    other->Launch(device_queries.data(), device_keys.data(), device_values.data(), stream.get());
  };
  if (is_profile) {
    return ProfileBoth(
        arguments, other->route(), [&] { launch_fused(), stream.Synchronize(); },
        [&] { launch_other(), stream.Synchronize(); });
  }

  const auto serve = [&](int number) {
    const bool is_fused = number % 2 == 0;
    const char* const route = is_fused ? "/fused" : other->route();
    auto request = pitot::Request::Begin(route);
    request.SetSize("tokens", shape.length);
    auto batch = pitot::Batch::Begin("attention");
    batch.Join(request.token());
    {
      PITOT_SCOPE("launch");
      is_fused ? launch_fused() : launch_other();
    }
    batch.Submitted();
    {
      PITOT_SCOPE("wait");
      stream.Synchronize();
    }
    batch.Finish();
    request.Finish(pitot::Outcome::kOk);
    return route;
  };
  const auto check = [&] {
    CheckRows(shape, queries, keys, values, fused_out.ToHost());
    CheckRows(shape, queries, keys, values, other->Result());
  };

  // Before the run, because the first requests also load kernels and choose among them.
  serve(0);
  serve(1);
  check();
  gpu_common::Serve(arguments, serve);
  const int code = recording->Incident(
      "attention_compare",
      "Look at report.txt: the kernels under GPU, whose 'count' is that of their requests; at trace.pftrace: the\n"
      "kernels of the two routes in turn, their arguments grid, block, registers_per_thread, "
      "estimated_occupancy_percent.");
  check();
  return code;
}

}  // namespace
}  // namespace attention_compare

int main(int argc, char** argv) {
  return gpu_common::RunSample("attention_compare", [&] { return attention_compare::Main(argc, argv); });
}
