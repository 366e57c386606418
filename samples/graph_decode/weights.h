// SPDX-License-Identifier: Apache-2.0
//
// A small transformer with random weights. Also one step of it on the CPU, for comparison with the GPU's.
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

// Matrices are stored by rows.
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
  // `weights` must outlive it.
  Reference(const Shape& shape, const Weights& weights);
  // Returns the logits after `token`, the next one of the sequence.
  std::vector<float> Step(int token);

 private:
  const Shape shape_;
  const Weights& weights_;
  size_t position_ = 0;
  std::vector<std::vector<float>> keys_, values_;  // by layer: one row per position
};

}  // namespace graph_decode

#endif  // PITOT_SAMPLES_GRAPH_DECODE_WEIGHTS_H_
