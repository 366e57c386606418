// SPDX-License-Identifier: Apache-2.0
#include "image_server/classify.h"

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "image_server/image.h"
#include "pitot/trace.h"
#include "pitot/wait.h"

namespace image_server {

using server_common::ErrorReply;
using server_common::Exchange;
using server_common::Reply;

Reply Classify(std::string_view jpeg, Exchange& exchange, Batcher* batcher, const ClassifyOptions& options) try {
  pitot::Request& request = exchange.request;
  request.Stage("decode");
  const Image image = DecodeJpeg(jpeg, options.max_pixels);
  // Requests are compared with requests of their size: the first size divides the route.
  request.SetSize("pixels", static_cast<double>(image.width) * image.height);
  request.SetSize("bytes", static_cast<double>(jpeg.size()));
  Planes input = Normalise(Resize(image, options.side));

  // The batcher goes on with the stages "queue", "batch", "forward" and "return".
  std::optional<std::future<Prediction>> result = batcher->Submit(std::move(input), request, exchange.id);
  if (!result) return ErrorReply(503, "the server is busy");
  {
    PITOT_WAIT(pitot::WaitKind::kFuture, "prediction", pitot::Owner{});
    if (result->wait_for(std::chrono::nanoseconds(options.timeout_ns)) != std::future_status::ready) {
      return ErrorReply(504, "the network did not answer in time");
    }
  }
  const Prediction prediction = result->get();  // or throws the network's exception

  request.Stage("respond");
  return {200, ToJson(prediction, exchange.id)};
} catch (const ImageError& error) {
  return ErrorReply(400, error.what());
} catch (const std::exception& error) {
  return ErrorReply(500, error.what());
}

std::string ToJson(const Prediction& prediction, uint64_t request_id) {
  PITOT_SCOPE("write json");
  nlohmann::json top = nlohmann::json::array();
  for (const ClassScore& score : prediction) {
    top.push_back({{"class", "class " + std::to_string(score.class_index)},
                   {"index", score.class_index},
                   {"probability", score.probability}});
  }
  return nlohmann::json{{"id", server_common::RequestIdText(request_id)}, {"top", std::move(top)}}.dump();
}

}  // namespace image_server
