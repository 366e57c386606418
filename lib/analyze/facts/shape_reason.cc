// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/shape_reason.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analyze/facts/peaks.h"
#include "base/columns.h"

namespace pitot::facts {
namespace {

// Libraries divide an output into tiles of about this size for large products, one for a multiprocessor at a time.
constexpr double kTile = 128;
constexpr double kSkinny = 64;         // rows or columns; tensor cores work on tiles of as many
constexpr double kFewRows = 32;        // of one product of many
constexpr double kFilled = 0.7;        // of the multiprocessors
constexpr double kWastedWaves = 1.25;  // by how much whole waves exceed the needed ones

// `batch` products of (rows x depth) by (depth x columns).
struct ProductSizes {
  double batch = 1, rows = 0, columns = 0, depth = 0;
  double Tiles() const { return batch * std::ceil(rows / kTile) * std::ceil(columns / kTile); }
};

std::string Number(double size) { return base::Format("%.0f", size); }

// Sizes of a type divide evenly into tensor cores' steps of 16 bytes.
double StepOf(std::string_view type) {
  const uint32_t bytes = BytesOf(type);
  return bytes == 0 || bytes > 4 ? 1 : 16.0 / bytes;
}
bool IsOff(double size, double step) { return std::fmod(size, step) != 0; }

ShapeReason Unaligned(const char* what, double size, double step) {
  return {"its " + std::string(what) + " of " + Number(size) + " is not a multiple of " + Number(step),
          "Pad it: tensor cores and wide loads need whole steps of 16 bytes."};
}

// Too few tiles for the device, or a last round of tiles that is mostly empty.
ShapeReason OfTiles(const ProductSizes& product, double multiprocessors) {
  const double tiles = product.Tiles();
  if (multiprocessors == 0 || tiles == 0) return {};
  const std::string output = Number(product.rows) + " x " + Number(product.columns) +
                             (product.batch > 1 ? ", " + Number(product.batch) + " times," : "");
  if (tiles < kFilled * multiprocessors)
    return {"its output of " + output + " is about " + Number(tiles) + " tiles of 128 x 128, for " +
                Number(multiprocessors) + " multiprocessors",
            product.depth > 4 * std::max(product.rows, product.columns)
                ? "Split the depth (split-K or stream-K), or compute several such products at once."
                : "Use larger batches, smaller tiles, or several such products at once."};
  const double waves = tiles / multiprocessors;
  if (waves > 1 && std::ceil(waves) / waves >= kWastedWaves)
    return {"its output of " + output + " is about " + Number(tiles) +
                " tiles of 128 x 128: " + base::Format("%.2f", waves) + " rounds on " + Number(multiprocessors) +
                " multiprocessors, the last mostly empty",
            "Choose sizes that fill whole rounds, or another tile size (stream-K)."};
  return {};
}

ShapeReason OfProduct(const ProductSizes& product, std::string_view type, double multiprocessors) {
  const double step = StepOf(type);
  if (IsOff(product.depth, step)) return Unaligned("depth", product.depth, step);
  if (IsOff(product.columns, step) && product.columns > 1) return Unaligned("number of columns", product.columns, step);
  if (product.batch >= 8 && product.rows < kFewRows)
    return {"each of its " + Number(product.batch) + " products has about " + Number(product.rows) + " rows",
            "Give each expert or head more rows: larger batches, fewer experts on a GPU, or one grouped kernel."};
  const double narrow = std::min(product.rows, product.columns), wide = std::max(product.rows, product.columns);
  if (narrow < kSkinny && wide >= 16 * narrow)
    return {
        "it is tall and skinny: " + Number(product.rows) + " x " + Number(product.columns) + ", with a depth of " +
            Number(product.depth),
        "Use larger batches: the large factor is read for few rows. A kernel for such shapes (GEMV, split-K) helps."};
  return OfTiles(product, multiprocessors);
}

ShapeReason OfConvolution(const std::vector<TensorShape>& tensors, std::string_view inputs, double multiprocessors) {
  if (tensors.size() < 2 || tensors[0].sizes.size() < 3 || tensors[1].sizes.size() != tensors[0].sizes.size())
    return {};
  const TensorShape &input = tensors[0], &weight = tensors[1];
  if (weight.sizes[1] == 1 && input.sizes[1] > 1)
    return {"it is depthwise: each of its " + Number(weight.sizes[0]) + " filters reads one channel",
            "Such filters cannot use tensor cores: fuse it with its neighbours, or use channels_last."};
  const double step = StepOf(weight.type);
  if (IsOff(weight.sizes[1], step)) return Unaligned("number of input channels", weight.sizes[1], step);
  if (IsOff(weight.sizes[0], step)) return Unaligned("number of output channels", weight.sizes[0], step);
  const double depth = weight.Elements() / weight.sizes[0];
  const double flops = FlopsOf("aten::convolution", tensors, inputs);
  return flops == 0 ? ShapeReason()
                    : OfTiles({1, flops / 2 / depth / weight.sizes[0], weight.sizes[0], depth}, multiprocessors);
}

// `length`: which of the sizes.
ShapeReason OfAttention(const std::vector<TensorShape>& tensors, size_t length, double multiprocessors) {
  if (tensors.size() < 3 || tensors[0].sizes.size() != 4) return {};
  const std::vector<double>& query = tensors[0].sizes;
  // Fused kernels are compiled for these; others are padded to the next.
  constexpr double kHeads[] = {32, 64, 96, 128, 192, 256};
  const double head = query[3];
  const double* const next = std::lower_bound(std::begin(kHeads), std::end(kHeads), head);
  if (next == std::end(kHeads))
    return {"its head dimension of " + Number(head) + " is beyond 256, the largest of most fused kernels",
            "Use a kernel for this head dimension, or split the heads."};
  if (*next != head)
    return {"its head dimension of " + Number(head) + " is padded to " + Number(*next),
            "Use a head dimension of 64, 128 or 256, or pad the weights once."};
  const double blocks = query[0] * query[3 - length] * std::ceil(query[length] / kTile);
  if (multiprocessors == 0 || blocks >= kFilled * multiprocessors) return {};
  return {"it has about " + Number(blocks) + " blocks of queries and heads, for " + Number(multiprocessors) +
              " multiprocessors",
          "Split the keys (flash decoding), or use larger batches."};
}

}  // namespace

ShapeReason FindShapeReason(std::string_view op, const std::vector<TensorShape>& tensors, std::string_view inputs,
                            uint32_t multiprocessors) {
  if (op == "aten::convolution" || op == "aten::_convolution") return OfConvolution(tensors, inputs, multiprocessors);
  if (op.find("_attention") != std::string_view::npos) return OfAttention(tensors, 2, multiprocessors);
  if (IsFlashAttention(op)) return OfAttention(tensors, 1, multiprocessors);
  const size_t first = op == "aten::addmm" || op == "aten::baddbmm" ? 1 : 0;
  if (tensors.size() < first + 2 || FlopsOf(op, tensors, inputs) == 0) return {};
  const std::vector<double>&a = tensors[first].sizes, &b = tensors[first + 1].sizes;
  ProductSizes product;
  if (a.size() < 2 || b.size() < 2) return {};
  product.depth = a.back();
  product.columns = b.back();
  product.rows = a[a.size() - 2];
  if (a.size() == 3) product.batch = a[0];
  if (a.size() == 2 && b.size() == 3 && b[0] > 0) {
    product.batch = b[0];  // groups of rows, one for each expert
    product.rows = std::ceil(a[0] / b[0]);
  }
  return OfProduct(product, tensors[first].type, multiprocessors);
}

}  // namespace pitot::facts
