// SPDX-License-Identifier: Apache-2.0
#include "image_server/classify.h"

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "pitot/trace.h"
#include "pitot/wait.h"

namespace image_server {
namespace {

using server_common::ErrorReply;

std::string ToJson(const Prediction& prediction, uint64_t id) {
  PITOT_SCOPE("write json");
  nlohmann::json top = nlohmann::json::array();
  for (const ClassScore& score : prediction) {
    top.push_back({{"class", "class " + std::to_string(score.class_index)},
                   {"index", score.class_index},
                   {"probability", score.probability}});
  }
  return nlohmann::json{{"id", server_common::RequestIdText(id)}, {"top", std::move(top)}}.dump();
}

}  // namespace

ClassifyHandler::ClassifyHandler(const ClassifyOptions& options, Preprocessor* preprocessor, Batcher* batcher,
                                 Faults* faults)
    : options_(options), preprocessor_(preprocessor), batcher_(batcher), faults_(faults) {}

Image ClassifyHandler::Decode(std::string_view jpeg, uint64_t id) {
  const server_common::ThreadUse begun = server_common::ThreadUseNow();
  Image image;
  {
    PITOT_SCOPE("decode", jpeg.size());
    image = DecodeJpeg(jpeg, options_.max_pixels);
    faults_->InDecode(id);
  }
  faults_->Slept(id, begun);
  return image;
}

Reply ClassifyHandler::Handle(std::string_view jpeg, pitot::Request& request, uint64_t id) try {
  request.Stage("decode");
  Planes input;
  preprocessor_->Run(request, id, [&] {
    const server_common::ThreadUse begun = server_common::ThreadUseNow();
    const Image image = Decode(jpeg, id);
    faults_->AfterDecode(id, [&] { (void)Decode(jpeg, id); });
    // Requests are compared with requests of their size: the first size divides the route.
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

  // The batcher goes on with the stages "queue", "batch", "forward" and "return".
  std::optional<std::future<Answer>> result = batcher_->Submit(std::move(input), request, id);
  if (!result) return ErrorReply(503, "the server is busy");
  {
    PITOT_WAIT(pitot::WaitKind::kFuture, "prediction", pitot::Owner{});
    if (result->wait_for(std::chrono::nanoseconds(options_.timeout_ns)) != std::future_status::ready) {
      return ErrorReply(504, "the network did not answer in time");
    }
  }
  const uint64_t woken_ns = server_common::MonotonicNs();
  const Answer answer = result->get();  // throws what the network threw
  faults_->HandedOver(id, answer.ready_ns, woken_ns);

  request.Stage("respond");
  const server_common::ThreadUse begun = server_common::ThreadUseNow();
  {
    PITOT_SCOPE("postprocess");
    faults_->InPostprocess(id);
  }
  std::string json = ToJson(answer.prediction, id);
  faults_->Slept(id, begun);
  return {200, std::move(json), pitot::Outcome::kOk};
} catch (const ImageError& error) {
  return ErrorReply(400, error.what());
} catch (const std::exception& error) {
  return ErrorReply(500, error.what());
}

}  // namespace image_server
