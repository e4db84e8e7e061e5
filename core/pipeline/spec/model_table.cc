#include "core/pipeline/spec/model_table.h"

#include <algorithm>

namespace latentd::pipeline {

ModelTable ModelTable::FromFlags(const std::string& base, const std::string& refiner) {
  ModelTable table;
  table.rows_.push_back({.id = {0}, .name = "base", .checkpoint = base});
  if (refiner.empty()) return table;
  table.rows_.front().hands_over_to = ModelId{1};
  table.rows_.push_back({.id = {1}, .name = "refiner", .checkpoint = refiner, .is_refiner = true});
  return table;
}

const ModelRow* ModelTable::Find(absl::string_view name) const {
  if (name.empty()) return &rows_.front();
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [name](const ModelRow& row) { return row.name == name; });
  return found == rows_.end() ? nullptr : &*found;
}

std::vector<std::string> ModelTable::Names() const {
  std::vector<std::string> names;
  for (const ModelRow& row : rows_) names.push_back(row.name);
  return names;
}

std::vector<std::string> ModelTable::NamesOf(const std::vector<ModelId>& ids) const {
  std::vector<std::string> names;
  for (const ModelId id : ids) names.push_back((*this)[id].name);
  return names;
}

std::vector<ModelId> ModelTable::Chain(absl::string_view name, bool refine) const {
  const ModelRow* first = Find(name);
  if (first == nullptr) return {};
  if (!refine) return {first->id};
  if (!first->hands_over_to) return {};
  return {first->id, *first->hands_over_to};
}

}  // namespace latentd::pipeline
