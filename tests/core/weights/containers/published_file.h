// A file as it is published, without its data: lists of tensors under the prefixes that the file
// gives to its components, and the tensors that networks then want of it.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/weights/source.h"
#include "core/weights/stored_tensor.h"
#include "tests/support/published_tensors.h"

namespace latentd::testing {

// A tensor without memory. Its `file` is its name, so that a source tells what it was made of.
inline weights::StoredTensor NamedTensor(const std::string& name, device::Shape shape) {
  weights::StoredTensor tensor;
  tensor.data = device::ConstBuffer::Wrap(nullptr, device::DType::kF16, std::move(shape), nullptr);
  tensor.file = name;
  return tensor;
}

// A tensor of a network, and the one that is stored for it.
struct WantedTensor {
  std::string stored;
  std::string how;  // as PublishedTensor::wanted
  device::Shape shape;
  bool operator==(const WantedTensor&) const = default;
};
using WantedTensors = std::map<std::string, WantedTensor>;

inline std::ostream& operator<<(std::ostream& out, const WantedTensor& tensor) {
  return out << tensor.stored << tensor.shape.ToString() << " " << tensor.how;
}

// A list of a file, the prefix of its names there, and the component that it is.
struct ListInFile {
  std::string list;
  std::string prefix;
  std::string component;
  bool has_todays_names = false;  // diffusers' and transformers' in place of the list's stored ones
};

inline device::Shape WantedShape(const PublishedTensor& tensor, const std::string& name,
                                 const std::string& how) {
  std::vector<int64_t> dims = tensor.shape.dims();
  if (how == "T") std::swap(dims[0], dims[1]);
  if (how.find('-') != how.npos) dims[0] /= 3;
  // The VAE's attention: layers that are stored as convolutions.
  const bool is_layer = name.find("_block.attentions.0.to_") != name.npos;
  if (dims.size() == 4 && is_layer) dims.resize(2);
  return device::Shape(std::move(dims));
}

struct PublishedFile {
  weights::TensorMap tensors;
  std::map<std::string, WantedTensors> wanted;  // by component

  explicit PublishedFile(const std::vector<ListInFile>& lists) {
    for (const ListInFile& list : lists) {
      for (const PublishedTensor& tensor : ReadPublishedTensors(list.list)) Add(list, tensor);
    }
  }

  void AddTensor(const std::string& name, device::Shape shape) {
    tensors.insert_or_assign(name, NamedTensor(name, std::move(shape)));
  }

 private:
  void Add(const ListInFile& list, const PublishedTensor& tensor) {
    if (!list.has_todays_names) AddTensor(list.prefix + tensor.stored, tensor.shape);
    for (const auto& [name, how] : tensor.wanted) {
      const device::Shape shape = WantedShape(tensor, name, how);
      if (list.has_todays_names) {
        AddTensor(list.prefix + name, shape);
        wanted[list.component][name] = {list.prefix + name, "", shape};
      } else {
        wanted[list.component][name] = {list.prefix + tensor.stored, how, shape};
      }
    }
  }
};

// The way in which a source's graph makes it of its one tensor, as PublishedTensor::wanted says it.
inline std::string HowMade(const weights::Source& source) {
  if (source.make == nullptr) return "";
  const absl::Span<const graph::Node> nodes = source.make->nodes();
  if (nodes.size() != 2 || source.from.size() != 1) return "otherwise";
  if (nodes[1].op == graph::Op::kPermute) {
    const auto& order = std::get<graph::PermuteAttributes>(nodes[1].attributes).order;
    return order == std::vector<int64_t>{1, 0} ? "T" : "otherwise";
  }
  if (nodes[1].op != graph::Op::kSlice) return "otherwise";
  const auto& rows = std::get<graph::SliceAttributes>(nodes[1].attributes);
  return rows.axis == 0 ? absl::StrCat(rows.begin, "-", rows.end) : "otherwise";
}

inline WantedTensors DescribeSources(const weights::SourceMap& sources) {
  WantedTensors described;
  for (const auto& [name, source] : sources) {
    described[name] = {source.from[0].file, HowMade(source), source.shape()};
  }
  return described;
}

}  // namespace latentd::testing
