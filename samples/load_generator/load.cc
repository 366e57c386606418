// SPDX-License-Identifier: Apache-2.0
#include "load_generator/load.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <random>
#include <thread>

#include "load_generator/connection.h"
#include "load_generator/jpeg_maker.h"
#include "load_generator/pacing.h"

namespace load_generator {
namespace {

constexpr size_t kPictures = 16;

struct Pictures {
  std::vector<std::string> normal, big;
};

Pictures MakePictures(const Options& options) {
  Pictures pictures;
  for (size_t i = 0; i < kPictures; ++i) {
    const uint64_t seed = options.arrivals.seed * 1000 + i;
    pictures.normal.push_back(MakeJpeg(options.image_size, options.image_size, seed));
    if (options.arrivals.big_share > 0) pictures.big.push_back(MakeJpeg(options.big_size, options.big_size, seed));
  }
  return pictures;
}

// A connection that is kept alive, used by one thread.
class Connection {
 public:
  Connection(const Options& options, const Pictures* pictures, uint64_t seed)
      : client_(options.host, options.port), pictures_(pictures), random_(seed) {
    Prepare(&client_, 30);
  }

  // Fills in the remaining fields of `sample`.
  void Send(Sample* sample) {
    const httplib::Headers headers = {{"traceparent", MakeTraceparent(&random_)}, {"Accept-Encoding", "identity"}};
    const std::vector<std::string>& choice = sample->is_big ? pictures_->big : pictures_->normal;
    const std::string& picture = choice[random_() % choice.size()];

    sample->sent_ns = MonotonicNs();
    const httplib::Result result = client_.Post("/classify", headers, picture, "image/jpeg");
    sample->done_ns = MonotonicNs();
    if (result) {
      sample->status = result->status;
      sample->id = result->get_header_value("x-request-id");
    } else {
      sample->error = httplib::to_string(result.error());
    }
  }

 private:
  httplib::Client client_;
  const Pictures* const pictures_;
  std::mt19937_64 random_;
};

std::vector<Sample> SendOpenLoop(const Options& options, const Pictures& pictures, uint64_t begin_ns) {
  std::vector<Sample> samples;
  std::vector<uint64_t> at_ns;
  for (const Arrival& arrival : DrawArrivals(options.arrivals)) {
    Sample sample;
    sample.intended_ns = begin_ns + arrival.at_ns;
    sample.is_big = arrival.is_big;
    sample.is_burst = arrival.is_burst;
    at_ns.push_back(sample.intended_ns);
    samples.push_back(std::move(sample));
  }
  std::deque<Connection> connections;
  for (size_t i = 0; i < options.concurrency; ++i) {
    connections.emplace_back(options, &pictures, options.arrivals.seed + i);
  }
  SendAtTheirTimes(at_ns, options.concurrency,
                   [&](size_t connection, size_t at) { connections[connection].Send(&samples[at]); });
  return samples;
}

std::vector<Sample> SendClosedLoop(const Options& options, const Pictures& pictures, uint64_t begin_ns) {
  const uint64_t end_ns = begin_ns + static_cast<uint64_t>(options.arrivals.duration_s * 1e9);
  std::vector<std::vector<Sample>> by_thread(options.concurrency);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < options.concurrency; ++i) {
    threads.emplace_back([&, i] {
      Connection connection(options, &pictures, options.arrivals.seed + i);
      std::mt19937_64 random(options.arrivals.seed * 31 + i);
      std::bernoulli_distribution is_big(options.arrivals.big_share);
      SleepUntil(begin_ns);
      while (MonotonicNs() < end_ns) {
        Sample sample;
        sample.is_big = is_big(random);
        connection.Send(&sample);
        sample.intended_ns = sample.sent_ns;
        by_thread[i].push_back(std::move(sample));
        // If the server is gone, do not ask at full speed.
        if (by_thread[i].back().status == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<Sample> samples;
  for (std::vector<Sample>& of_thread : by_thread) {
    samples.insert(samples.end(), std::make_move_iterator(of_thread.begin()), std::make_move_iterator(of_thread.end()));
  }
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.intended_ns < b.intended_ns; });
  return samples;
}

}  // namespace

Run SendLoad(const Options& options) {
  const Pictures pictures = MakePictures(options);
  CheckServer(options);
  Run run;
  run.begin_ns = MonotonicNs() + 50'000'000;  // time to start the threads
  run.measured_from_ns = run.begin_ns + static_cast<uint64_t>(options.warm_up_s * 1e9);
  run.samples = options.is_closed_loop ? SendClosedLoop(options, pictures, run.begin_ns)
                                       : SendOpenLoop(options, pictures, run.begin_ns);
  run.end_ns = MonotonicNs();
  return run;
}

}  // namespace load_generator
