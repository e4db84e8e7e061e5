#include "core/pipeline/spec/models/model_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace latentd::pipeline {

ModelTable ModelTable::FromFlags(const std::string& base, const std::string& refiner,
                                 const std::vector<ModelSource>& more) {
  ModelTable table;
  const auto add = [&table](ModelRow row) {
    row.id = row.leader = {static_cast<int>(table.rows_.size())};
    table.rows_.push_back(std::move(row));
  };
  if (!base.empty()) add({.name = "base", .flag = "base", .checkpoint = base});
  if (!refiner.empty()) {
    add({.name = "refiner", .flag = "refiner", .checkpoint = refiner, .is_refiner = true});
    table.rows_.back().leader = ModelId{0};
    table.rows_.front().hands_over_to = ModelId{1};
  }
  for (const ModelSource& model : more) {
    add({.name = model.name,
         .flag = model.draws_videos ? model.name : absl::StrCat("model=", model.name),
         .checkpoint = model.checkpoint,
         .parts = model.parts,
         .preset_name = model.preset,
         .scheduler = model.scheduler,
         .buckets = model.buckets,
         .residency = model.residency,
         .draws_videos = model.draws_videos,
         .decode_chunk = model.decode_chunk});
  }
  return table;
}

const ModelRow* ModelTable::Find(absl::string_view name) const {
  if (name.empty()) return &rows_.front();
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [name](const ModelRow& row) { return row.name == name; });
  return found == rows_.end() ? nullptr : &*found;
}

const ModelRow& ModelTable::FindOrFirst(absl::string_view name) const {
  const ModelRow* found = Find(name);
  return found == nullptr ? first() : *found;
}

std::vector<ModelId> ModelTable::Leaders() const {
  std::vector<ModelId> leaders;
  for (const ModelRow& row : rows_) {
    if (row.leader == row.id) leaders.push_back(row.id);
  }
  return leaders;
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
