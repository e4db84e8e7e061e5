#include "core/adapters/lora/lora_paths.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/graph_builder.h"

namespace latentd::adapters {
namespace {

using device::DType;
using graph::PathSite;
using graph::Value;
using weights::Source;
using weights::StoredTensor;

// A LoRA's product at a site.
struct SitePath {
  const LowRank* product;
  double factor;

  int64_t ranks() const { return product->down.data.shape()[0]; }
};

// Paths of each site, by its weight, in the order of the LoRAs.
using PathsByWeight = absl::flat_hash_map<std::string, std::vector<SitePath>>;

PathsByWeight CollectPaths(absl::Span<const WeightedLora> loras) {
  PathsByWeight paths;
  for (const WeightedLora& lora : loras) {
    for (const WeightChange& change : lora.lora->changes) {
      paths[change.weight].push_back({&std::get<LowRank>(change.delta), change.scale * lora.unet});
    }
  }
  return paths;
}

absl::Span<const SitePath> PathsAt(const PathsByWeight& paths, const PathSite& site) {
  const auto found = paths.find(site.weight);
  return found == paths.end() ? absl::Span<const SitePath>() : absl::MakeConstSpan(found->second);
}

absl::StatusOr<int64_t> RanksAt(absl::Span<const SitePath> paths, const PathSite& site,
                                int64_t most) {
  int64_t ranks = 0;
  for (const SitePath& path : paths) ranks += path.ranks();
  if (ranks <= most) return ranks;
  return absl::InvalidArgumentError(absl::StrCat("weight ", site.weight, ": ", ranks,
                                                 " ranks, where paths have ", most, " at most"));
}

// A graph that joins matrices, with the sources that its leaves stand for.
class MatricesGraph {
 public:
  explicit MatricesGraph(DType dtype) : dtype_(dtype) {}

  void AddSite(absl::Span<const SitePath> paths, const PathSite& site, int64_t own, int64_t ranks) {
    std::vector<Value> down, up;
    for (const SitePath& path : paths) {
      down.push_back(Read(path.product->down));
      up.push_back(Read(path.product->up));
    }
    if (own < ranks) {
      down.push_back(Zeros(ranks - own, site.in));
      up.push_back(Zeros(site.out, ranks - own));
    }
    Append(Join(down, 0));
    Append(Join(up, 1));
  }

  absl::StatusOr<Source> Finish() && {
    b_.Output("result", Join(parts_, 0));
    ASSIGN_OR_RETURN(const graph::Graph graph, std::move(b_).Build());
    return weights::Compose(graph, operands_);
  }

 private:
  Value Read(StoredTensor tensor) {
    if (tensor.digest == nullptr) {
      tensor.digest = std::make_shared<const weights::ContentDigest>(tensor.data);
    }
    operands_.push_back(Source::Of(std::move(tensor)));
    const std::string name = absl::StrCat("w", operands_.size() - 1);
    return InDType(b_.Weight(name, operands_.back().shape()));
  }

  Value InDType(Value value) { return dtype_ == DType::kF32 ? value : b_.Cast(value, dtype_); }

  // By an outer product, since the text of a graph has every element of a constant.
  Value Zeros(int64_t rows, int64_t columns) {
    const auto [known, is_new] = zeros_.try_emplace({rows, columns});
    if (is_new) {
      const Value first = b_.Constant(std::vector<float>(rows), {rows, 1});
      const Value second = b_.Constant(std::vector<float>(columns), {1, columns});
      known->second = InDType(b_.Mul(first, second));
    }
    return known->second;
  }

  Value Join(const std::vector<Value>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : b_.Concat(parts, axis);
  }

  void Append(Value matrix) { parts_.push_back(b_.Reshape(matrix, {b_.shape(matrix).elements()})); }

  const DType dtype_;
  graph::GraphBuilder b_;
  std::vector<Source> operands_;
  std::vector<Value> parts_;
  std::map<std::pair<int64_t, int64_t>, Value> zeros_;  // by rows and columns
};

}  // namespace

bool IsPlain(const Lora& lora) {
  return absl::c_all_of(lora.changes, [](const WeightChange& change) {
    const auto* product = std::get_if<LowRank>(&change.delta);
    return product != nullptr && !product->mid && !change.magnitude && change.shape.rank() == 2;
  });
}

absl::StatusOr<Source> PathMatrices(absl::Span<const WeightedLora> loras,
                                    absl::Span<const PathSite> sites, int64_t ranks, DType dtype) {
  const PathsByWeight paths = CollectPaths(loras);
  MatricesGraph matrices(dtype);
  for (const PathSite& site : sites) {
    const absl::Span<const SitePath> here = PathsAt(paths, site);
    ASSIGN_OR_RETURN(const int64_t own, RanksAt(here, site, ranks));
    matrices.AddSite(here, site, own, ranks);
  }
  return std::move(matrices).Finish();
}

absl::StatusOr<std::vector<float>> PathScales(absl::Span<const WeightedLora> loras,
                                              absl::Span<const PathSite> sites, int64_t ranks) {
  const PathsByWeight paths = CollectPaths(loras);
  const graph::PathLayout layout(sites, ranks);
  std::vector<float> scales(layout.scale_elements);
  for (size_t i = 0; i < sites.size(); ++i) {
    float* scale = scales.data() + layout.places[i].scale;
    for (const SitePath& path : PathsAt(paths, sites[i])) {
      if (!(std::abs(path.factor) <= std::numeric_limits<float>::max())) {
        return absl::InvalidArgumentError(absl::StrCat("weight ", sites[i].weight, ": the factor ",
                                                       path.factor, " is beyond float32"));
      }
      scale = std::fill_n(scale, path.ranks(), static_cast<float>(path.factor));
    }
  }
  return scales;
}

}  // namespace latentd::adapters
