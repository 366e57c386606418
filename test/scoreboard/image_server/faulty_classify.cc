// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/faulty_classify.h"

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "image_server/image.h"
#include "pitot/trace.h"
#include "pitot/wait.h"
#include "scoreboard/clocks.h"

namespace image_server {

using scoreboard::MonotonicNs;
using scoreboard::ThreadUse;
using scoreboard::ThreadUseNow;
using server_common::ErrorReply;
using server_common::Reply;

FaultyClassify::FaultyClassify(const ClassifyOptions& options, Preprocessor* preprocessor, Batcher* batcher,
                               BatchDelays* delays, Faults* faults)
    : options_(options), preprocessor_(preprocessor), batcher_(batcher), delays_(delays), faults_(faults) {}

Image FaultyClassify::Decode(std::string_view jpeg, uint64_t id) {
  const ThreadUse begun = ThreadUseNow();
  Image image;
  {
    PITOT_SCOPE("decode", jpeg.size());
    image = DecodeJpeg(jpeg, options_.max_pixels);
    faults_->InDecode(id);
  }
  faults_->Slept(id, begun);
  return image;
}

Reply FaultyClassify::Handle(std::string_view jpeg, server_common::Exchange& exchange) try {
  pitot::Request& request = exchange.request;
  const uint64_t id = exchange.id;
  request.Stage("decode");
  Planes input;
  preprocessor_->Run(request, id, [&] {
    const ThreadUse begun = ThreadUseNow();
    const Image image = Decode(jpeg, id);
    faults_->AfterDecode(id, [&] { (void)Decode(jpeg, id); });
    const auto pixels = static_cast<uint64_t>(image.width) * static_cast<uint64_t>(image.height);
    request.SetSize("pixels", static_cast<double>(pixels));
    request.SetSize("bytes", static_cast<double>(jpeg.size()));
    input = Normalise(Resize(image, options_.side));
    faults_->Preprocessed(id, begun, pixels);
  });

  request.Stage("look up");
  {
    PITOT_SCOPE("look up");
    faults_->InCache(id);
    faults_->InHandler(id);
  }

  faults_->BetweenScopes(id);

  const BatchDelays::Watch watch(delays_, id);
  const uint64_t submitted_ns = MonotonicNs();
  std::optional<std::future<Prediction>> result = batcher_->Submit(std::move(input), request, id);
  if (!result) return ErrorReply(503, "the server is busy");
  faults_->LockWaited(id, submitted_ns, watch.times().enqueued_ns);
  {
    PITOT_WAIT(pitot::WaitKind::kFuture, "prediction", pitot::Owner{});
    if (result->wait_for(std::chrono::nanoseconds(options_.timeout_ns)) != std::future_status::ready) {
      return ErrorReply(504, "the network did not answer in time");
    }
  }
  const uint64_t woken_ns = MonotonicNs();
  const Prediction prediction = result->get();  // or throws the network's exception
  faults_->HandedOver(id, watch.times().ready_ns, woken_ns);

  request.Stage("respond");
  const ThreadUse begun = ThreadUseNow();
  {
    PITOT_SCOPE("postprocess");
    faults_->InPostprocess(id);
  }
  std::string json = ToJson(prediction, id);
  faults_->Slept(id, begun);
  return {200, std::move(json)};
} catch (const ImageError& error) {
  return ErrorReply(400, error.what());
} catch (const std::exception& error) {
  return ErrorReply(500, error.what());
}

}  // namespace image_server
