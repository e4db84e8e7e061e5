// Sets of LoRAs over a model, and what they read of files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/pipeline/graphs/adapter_sets.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/source_directory.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

TEST(MergedSetsTest, ThoseOfOtherWeightsReadALoraOnce) {
  testing::TemporaryDirectory directory;
  std::filesystem::copy_file(testing::SourcePath("tests/golden/loras/kohya.safetensors"),
                             directory.File("film.safetensors"));
  int reads = 0;
  adapters::AdapterFolder folder = adapters::FolderOnDisk(directory.path());
  folder.read = [read = folder.read, &reads](const std::string& path) {
    ++reads;
    return read(path);
  };
  adapters::Catalogue catalogue(std::move(folder));
  const Rig rig(LoadOptions{.base = testing::kDemoBase, .adapters = &catalogue}, "",
                backends::cpu::CpuBackend::Create().value());
  AdapterSets& sets = *rig.pipeline->adapters();
  Adapter film{.name = "film"};
  ASSERT_OK_AND_ASSIGN(const AdapterFacts facts, catalogue.Find("film"));
  film.stamp = facts.stamp;
  for (const double weight : {0.25, 0.5, 0.75}) {
    film.weight = weight;
    ASSERT_OK(sets.FindOrMake(rig.pipeline->first(), {film}));
  }
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(sets.UseOf("film").sets, 3);
  ASSERT_OK(sets.Evict("film"));
  ASSERT_OK(sets.FindOrMake(rig.pipeline->first(), {film}));
  EXPECT_EQ(reads, 2);
}

}  // namespace
}  // namespace latentd::pipeline
