// SPDX-License-Identifier: Apache-2.0
//
// A small transformer with random weights, and one step of it on the CPU, which the GPU's is compared with.
#ifndef PITOT_SAMPLES_GRAPH_DECODE_WEIGHTS_H_
#define PITOT_SAMPLES_GRAPH_DECODE_WEIGHTS_H_

#include <cstddef>
#include <vector>

namespace graph_decode {

struct Shape {
  int layers = 6;
  int dim = 512;
  int heads = 8;
  int hidden = 1536;
  int vocabulary = 4096;
  int positions = 0;  // the longest sequence
};

// Matrices by rows.
struct Layer {
  std::vector<float> attention_norm, qkv, output, mlp_norm, gate_up, down;
};
struct Weights {
  std::vector<float> tokens, positions, norm, head;
  std::vector<Layer> layers;
};
Weights MakeWeights(const Shape& shape);

// Decodes on the CPU.
class Reference {
 public:
  // `weights` outlive it.
  Reference(const Shape& shape, const Weights& weights);
  // Returns the logits after `token`, which is the next of the sequence.
  std::vector<float> Step(int token);

 private:
  const Shape shape_;
  const Weights& weights_;
  size_t position_ = 0;
  std::vector<std::vector<float>> keys_, values_;  // of each layer: a row each position
};

}  // namespace graph_decode

#endif  // PITOT_SAMPLES_GRAPH_DECODE_WEIGHTS_H_
