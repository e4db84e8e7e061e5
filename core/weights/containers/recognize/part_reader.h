// Reads one component out of a file of many: each tensor under the name and in the shape that its
// network wants, and at the end an account of what is missing, misshapen or left over.
//
//   PartReader reader("the UNet", TensorsUnder(tensors, "model.diffusion_model."));
//   const int64_t width = reader.Size("input_blocks.0.0.weight", 0);
//   reader.Take("input_blocks.0.0.weight", "conv_in.weight", {width, 4, 3, 3});
//   ASSIGN_OR_RETURN(SourceMap sources, std::move(reader).Finish(path));
//
// A mistake does not stop the caller: sizes that cannot be read are 1, and Finish() tells all of
// them, by the names that the file has. Reads no data. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/shape.h"
#include "core/graph/graph_builder.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"

namespace latentd::weights {

// Tensors of one component by their names behind `prefix`, in the order of names.
struct PartTensors {
  std::string prefix;
  absl::btree_map<std::string, const StoredTensor*> by_name;

  bool Has(absl::string_view name) const { return by_name.contains(name); }
  // True if a name begins with `path` and a dot.
  bool HasUnder(absl::string_view path) const;
};

// Tensors whose names begin with `prefix`; for an empty one, those that begin with no prefix that a
// component is known to have in files of several.
PartTensors TensorsUnder(const TensorMap& tensors, absl::string_view prefix);

// True of tensors that no network reads, wherever they are: counters, masks, schedules, what
// training leaves.
bool IsIgnorable(absl::string_view name);

class PartReader {
 public:
  // `title` is for messages: "the UNet". The tensors must outlive it.
  PartReader(std::string title, PartTensors tensors)
      : title_(std::move(title)), tensors_(std::move(tensors)) {}

  bool Has(absl::string_view name) const { return tensors_.Has(name); }
  bool HasUnder(absl::string_view path) const { return tensors_.HasUnder(path); }

  // The number of children path.0, path.1, ... without a gap; at most kMostChildren.
  static constexpr int64_t kMostChildren = 256;
  int64_t CountUnder(absl::string_view path) const;

  // The size of one dimension, by which others are judged; from 1 to kMostFeatures.
  static constexpr int64_t kMostFeatures = 1 << 16;
  int64_t Size(const std::string& name, int dimension);
  // Number of dimensions; 0 if there is no such tensor.
  int Rank(absl::string_view name) const;

  // The tensor `name` is the network's `wanted_name` as it is.
  void Take(const std::string& name, const std::string& wanted_name, const device::Shape& wanted);

  // The same, where dimensions of 1 at the end may be more or fewer: a linear layer is stored as a
  // convolution, or the other way round.
  void TakeMatrix(const std::string& name, const std::string& wanted_name,
                  const device::Shape& wanted);

  // The network's is rows [begin, end) of it.
  void TakeRows(const std::string& name, const std::string& wanted_name,
                const device::Shape& stored, int64_t begin, int64_t end);

  // The network's is its transpose.
  void TakeTransposed(const std::string& name, const std::string& wanted_name,
                      const device::Shape& wanted);

  // The network reads nothing under this path, or of this name, though files have it.
  void Ignore(absl::string_view path);

  // A mistake that the caller found; told once.
  void Refuse(std::string mistake);
  bool has_mistakes() const { return !mistakes_.empty() || !missing_.empty(); }

  // Sources of all that was taken, by the network's names. INVALID_ARGUMENT, beginning with `path`,
  // names what is missing, has another shape, or was neither taken nor ignored.
  absl::StatusOr<SourceMap> Finish(const std::string& path) &&;

 private:
  const StoredTensor* Find(const std::string& name);
  // Null unless its shape is `wanted`.
  const StoredTensor* FindShaped(const std::string& name, const device::Shape& wanted);
  void RefuseShape(const std::string& name, const StoredTensor& tensor,
                   const device::Shape& wanted);
  using Recipe = std::function<graph::Value(graph::GraphBuilder&, graph::Value)>;
  // The tensor, times the scale that is beside the name, if it is of 8-bit floats and there is one.
  Source SourceOf(const std::string& name, const StoredTensor& tensor);
  void TakeMade(const std::string& name, const std::string& wanted_name, const StoredTensor& tensor,
                const Recipe& make);
  std::vector<std::string> LeftOver() const;

  std::string title_;
  PartTensors tensors_;
  SourceMap sources_;
  absl::flat_hash_set<std::string> used_;
  std::vector<std::string> missing_;
  std::vector<std::string> mistakes_;
};

}  // namespace latentd::weights
