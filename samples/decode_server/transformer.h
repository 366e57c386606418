// SPDX-License-Identifier: Apache-2.0
//
// A small GPT on its device, with random weights and a KV cache: takes the slices of an iteration, returns their next
// tokens. Only its source includes LibTorch.
#ifndef SAMPLES_DECODE_SERVER_TRANSFORMER_H_
#define SAMPLES_DECODE_SERVER_TRANSFORMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode_server/scheduler.h"
#include "pitot/request.h"

namespace decode_server {

struct TransformerOptions {
  int64_t layers = 6;
  int64_t width = 256;
  int64_t heads = 8;
  int64_t vocabulary = 4096;
  int64_t context = 512;        // tokens of a request, prompt and output
  int64_t slots = 8;            // requests in the KV cache
  uint64_t seed = 1;            // of the weights
  std::string device = "auto";  // auto, cpu, cuda
  int threads = 1;              // CPU threads
};

// Whether it will run on a GPU. Throws if it cannot run where it is told to. Makes no CUDA context.
bool UsesCuda(const TransformerOptions& options);

// Threads: one at a time.
class Transformer {
 public:
  // Builds it: of 32-bit floats on a CPU, of 16-bit floats on a GPU. Throws std::runtime_error when the device is not
  // there or the options do not fit together.
  explicit Transformer(const TransformerOptions& options);
  ~Transformer();

  // Runs prompts and iterations of several sizes, so that no request pays for the first time.
  void WarmUp();

  // As Scheduler::Model. Slices of one token run together, longer ones one after another.
  std::vector<int32_t> Run(std::span<const Slice> slices, pitot::Batch& batch);

  // "gpt 6 layers width 256 cpu".
  const std::string& name() const { return name_; }

 private:
  struct Network;
  const TransformerOptions options_;
  std::unique_ptr<Network> network_;
  std::string name_;
};

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_TRANSFORMER_H_
