// SPDX-License-Identifier: Apache-2.0
//
// graph_decode: a small transformer generates text token by token, like the server of a language model. A step is a
// batch, and a token is marked on its request. With --eager each kernel of a step is launched separately. Otherwise the
// step is captured once as a CUDA graph and then replayed.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "gpu_common/sample.h"
#include "graph_decode/decoder.h"

namespace graph_decode {
namespace {

constexpr int kCheckedSteps = 8;
constexpr float kTolerance = 2e-3f;

// Generates without requests.
std::vector<int> Generate(Decoder* decoder, int begin, int tokens) {
  std::vector<int> made;
  decoder->Begin(begin);
  for (int i = 0; i < tokens; ++i) {
    decoder->Launch();
    made.push_back(decoder->Wait());
  }
  return made;
}

void CheckAgainstCpu(Decoder* decoder, const Shape& shape, const Weights& weights) {
  Reference reference(shape, weights);
  int token = 0;
  decoder->Begin(token);
  for (int step = 0; step < std::min(kCheckedSteps, shape.positions); ++step) {
    decoder->Launch();
    const int next = decoder->Wait();
    const std::vector<float> expected = reference.Step(token), logits = decoder->Logits();
    gpu_common::CheckClose("logit", logits.data(), expected.data(), expected.size(), kTolerance);
    if (next != std::max_element(logits.begin(), logits.end()) - logits.begin())
      throw std::runtime_error("wrong result: the token is not that of the greatest logit");
    token = next;
  }
}

int Main(int argc, char** argv) {
  bool is_eager = false;
  int tokens = 48;
  Shape shape;
  gpu_common::Arguments arguments("graph_decode",
                                  "Decodes with a small transformer: kernel by kernel, or a CUDA graph.", 0.5);
  arguments.Flag("--eager", "launches each kernel of a step; else a graph of them is replayed", &is_eager);
  arguments.Number("--tokens", "that a request generates (default 48)", 1, 4096, &tokens);
  arguments.Number("--layers", "of the transformer (default 6)", 1, 64, &shape.layers);
  arguments.Parse(argc, argv);
  shape.positions = tokens;

  gpu_common::Recording recording(arguments);
  const Weights weights = MakeWeights(shape);
  Decoder decoder(shape, weights);
  CheckAgainstCpu(&decoder, shape, weights);
  const std::vector<int> expected = Generate(&decoder, 0, tokens);
  if (!is_eager) {
    decoder.Capture();
    if (Generate(&decoder, 0, tokens) != expected)
      throw std::runtime_error("wrong result: the graph makes other tokens than its kernels");
  }

  std::vector<int> made;
  gpu_common::Serve(arguments, [&](int) {
    auto request = pitot::Request::Begin("/generate");
    request.SetSize("tokens", tokens);
    request.SetLabel("launches", is_eager ? "kernels" : "graph");
    request.Stage("decode");
    made.clear();
    decoder.Begin(0);
    for (int i = 0; i < tokens; ++i) {
      auto step = pitot::Batch::Begin("decoder");
      step.Join(request.token());
      step.Close(pitot::BatchClose::kStep);
      {
        PITOT_SCOPE("launch");
        decoder.Launch();
      }
      step.Submitted();
      {
        PITOT_SCOPE("wait");
        made.push_back(decoder.Wait());
      }
      step.Finish();
      request.Emit();
    }
    request.Finish(pitot::Outcome::kOk);
    return "/generate";
  });
  const int code = recording.Incident(
      is_eager ? "graph_decode --eager" : "graph_decode",
      "Look at report.txt: 'tokens' of a request with their longest gap, 'busy' and 'idle' under GPU; at\n"
      "trace.pftrace: scopes 'launch' and 'wait' of a step, and the kernels below. Then with and without --eager.");
  if (made != expected) throw std::runtime_error("wrong result: the last request got other tokens than the first");
  return code;
}

}  // namespace
}  // namespace graph_decode

int main(int argc, char** argv) {
  return gpu_common::RunSample("graph_decode", [&] { return graph_decode::Main(argc, argv); });
}
