#include "core/adapters/catalogue/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/weights/containers/safetensors.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::adapters {
namespace {

using pipeline::AdapterFacts;
using pipeline::AdapterKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::F32Tensor;
using testing::FilledTensor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::TensorToWrite;
using ::testing::UnorderedElementsAre;

const char kToQ[] = "unet.mid_block.attentions.0.proj_in";

std::vector<TensorToWrite> LoraOf(float value, int64_t rank = 2) {
  return {FilledTensor(absl::StrCat(kToQ, ".lora_A.weight"), {rank, 6}, value),
          FilledTensor(absl::StrCat(kToQ, ".lora_B.weight"), {8, rank}, value)};
}

// A folder in memory.
class MemoryFolder {
 public:
  struct File {
    std::vector<TensorToWrite> tensors;
    weights::Metadata metadata;
    int version = 0;
    std::string said;
  };

  void Set(const std::string& name, std::vector<TensorToWrite> tensors,
           weights::Metadata metadata = {}, std::string said = "") {
    files_[name] = {std::move(tensors), std::move(metadata), ++versions_, std::move(said)};
  }
  void Remove(const std::string& name) { files_.erase(name); }

  int opened = 0;
  std::function<void()> on_open = [] {};

  AdapterFolder Functions() {
    return {.list = [this] { return List(); },
            .stamp = [this](const std::string& path) { return StampOf(path); },
            .open = [this](const std::string& path) { return Open(path); },
            .read = [this](const std::string& path) { return Open(path); },
            .said = [this](const std::string& path) { return files_.at(path).said; },
            .image_encoders = [](const std::string&) { return std::vector<ImageEncoderFile>(); },
            .encoders_stamp = [](const std::string&, const std::string&) { return std::string(); }};
  }

 private:
  absl::StatusOr<std::vector<FoundAdapter>> List() const {
    std::vector<FoundAdapter> found;
    for (const auto& [name, file] : files_) {
      found.push_back({.name = name, .path = name, .stamp = absl::StrCat(file.version)});
    }
    return found;
  }
  absl::StatusOr<std::string> StampOf(const std::string& path) const {
    const auto file = files_.find(path);
    if (file == files_.end()) return absl::NotFoundError(absl::StrCat(path, " has gone"));
    return absl::StrCat(file->second.version);
  }
  absl::StatusOr<LoraFile> Open(const std::string& path) {
    ++opened;
    const auto found = files_.find(path);
    if (found == files_.end()) return absl::NotFoundError(absl::StrCat(path, " has gone"));
    const File file = found->second;
    on_open();
    const auto owner = std::make_shared<const std::string>(testing::SafetensorsBytes(file.tensors));
    absl::StatusOr<weights::TensorMap> tensors =
        weights::ParseSafetensorsBytes(*owner, path, owner);
    if (!tensors.ok()) return tensors.status();
    return LoraFile{.path = path, .tensors = *std::move(tensors), .metadata = file.metadata};
  }

  std::map<std::string, File> files_;
  int versions_ = 0;
};

class CatalogueTest : public ::testing::Test {
 protected:
  void Open() {
    AdaptedModel base{.name = "base", .modules = nullptr, .encoders = {{"text_encoder", 2}}};
    base.family = "sdxl";
    base.modules = std::make_shared<const ModelModules>(absl::btree_map<std::string, device::Shape>{
        {"unet/mid_block.attentions.0.proj_in.weight", {8, 6}}});
    AdaptedModel other = base;
    other.name = "other";
    other.modules = std::make_shared<const ModelModules>(
        absl::btree_map<std::string, device::Shape>{{"unet/conv_in.weight", {8, 4, 3, 3}}});
    other.encoders = {{"text_encoder", 3}};
    ASSERT_OK(catalogue_.Open({base, other}));
  }

  std::map<std::string, AdapterFacts> Listed() const {
    std::map<std::string, AdapterFacts> all;
    for (AdapterFacts& facts : catalogue_.List()) all.emplace(facts.name, std::move(facts));
    return all;
  }

  MemoryFolder folder_;
  Catalogue catalogue_{folder_.Functions()};
};

TEST_F(CatalogueTest, KindsAreToldByContentAndEachModelByItsModules) {
  folder_.Set(
      "film", LoraOf(1),
      {{"ss_base_model_version", "sdxl_base_v1-0"}, {"modelspec.trigger_phrase", "film style"}});
  folder_.Set("word", {F32Tensor("emb_params", {2, 2}, {1, 2, 3, 4})});
  folder_.Set("net", {FilledTensor("controlnet_cond_embedding.conv_in.weight", {1}, 1)});
  folder_.Set("ip", {FilledTensor("image_proj.proj.weight", {1}, 1)});
  folder_.Set("odd", {FilledTensor("first", {1}, 1), FilledTensor("second", {1}, 1)});
  Open();
  const auto listed = Listed();
  EXPECT_EQ(listed.at("film").kind, AdapterKind::kLora);
  EXPECT_THAT(listed.at("film").models, ElementsAre("base"));
  EXPECT_EQ(listed.at("film").rank, 2);
  EXPECT_EQ(listed.at("film").alpha, 2);
  EXPECT_EQ(listed.at("film").base_model, "sdxl_base_v1-0");
  EXPECT_EQ(listed.at("film").trigger_phrase, "film style");
  EXPECT_EQ(listed.at("word").kind, AdapterKind::kTextualInversion);
  EXPECT_EQ(listed.at("word").vectors, 2);
  EXPECT_THAT(listed.at("word").models, ElementsAre("base"));
  EXPECT_THAT(listed.at("net").problem, HasSubstr("no model that it could be for"));
  EXPECT_EQ(listed.at("net").kind, AdapterKind::kControlNet);
  EXPECT_THAT(listed.at("ip").problem, HasSubstr("no model that it could be for"));
  EXPECT_EQ(listed.at("ip").kind, AdapterKind::kIpAdapter);
  EXPECT_THAT(listed.at("odd").problem, HasSubstr("first"));
}

TEST_F(CatalogueTest, ABrokenOneIsListedWithWhyAndTheOthersAreServed) {
  folder_.Set("film", LoraOf(1));
  folder_.Set("wrong", {FilledTensor("unet.nowhere.lora_A.weight", {2, 6}, 1),
                        FilledTensor("unet.nowhere.lora_B.weight", {8, 2}, 1)});
  Open();
  EXPECT_OK(catalogue_.Find("film"));
  EXPECT_THAT(Listed().at("wrong").problem, HasSubstr("unet.nowhere.lora_A.weight"));
  const auto found = catalogue_.Find("wrong");
  EXPECT_THAT(found, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nowhere")));
  EXPECT_EQ(GetReason(found.status()), kAdapterUnusable);
}

TEST_F(CatalogueTest, AnUnknownNameHasTheNearest) {
  folder_.Set("styles/film", LoraOf(1));
  folder_.Set("detail", LoraOf(1));
  Open();
  for (const char* name : {"styles/flim", "flim"}) {
    EXPECT_THAT(catalogue_.Find(name),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("the nearest is styles/film")));
  }
  EXPECT_THAT(catalogue_.Find(std::string(100000, 'x')),
              StatusIs(absl::StatusCode::kNotFound, Not(HasSubstr("nearest"))));
}

TEST_F(CatalogueTest, AnEditIsNoticedAtTheNextUse) {
  folder_.Set("film", LoraOf(1));
  Open();
  const AdapterFacts first = catalogue_.Find("film").value();
  const auto lora = catalogue_.Load("film", first.stamp, "base");
  ASSERT_OK(lora);
  folder_.Set("film", LoraOf(1, /*rank=*/4));
  const AdapterFacts second = catalogue_.Find("film").value();
  EXPECT_EQ(second.rank, 4);
  EXPECT_NE(second.stamp, first.stamp);
  // A request that was resolved before is told so.
  EXPECT_EQ(GetReason(catalogue_.Load("film", first.stamp, "base").status()), kAdapterChanged);
  EXPECT_OK(catalogue_.Load("film", second.stamp, "base"));
  folder_.Remove("film");
  EXPECT_THAT(catalogue_.Find("film"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has gone")));
  ASSERT_OK(catalogue_.Look());
  EXPECT_THAT(catalogue_.Find("film"), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
}

TEST_F(CatalogueTest, AFileThatIsReplacedWhileItIsReadIsNotUsed) {
  folder_.Set("film", LoraOf(1));
  Open();
  const AdapterFacts facts = catalogue_.Find("film").value();
  folder_.on_open = [this] { folder_.Set("film", LoraOf(2)); };
  EXPECT_EQ(GetReason(catalogue_.Load("film", facts.stamp, "base").status()), kAdapterChanged);
}

TEST_F(CatalogueTest, ALoadedOneIsSharedWhileItIsHeld) {
  folder_.Set("film", LoraOf(1));
  Open();
  const std::string stamp = catalogue_.Find("film")->stamp;
  const auto first = catalogue_.Load("film", stamp, "base");
  const int opened = folder_.opened;
  const auto second = catalogue_.Load("film", stamp, "base");
  ASSERT_OK(second);
  EXPECT_EQ(first->get(), second->get());
  EXPECT_EQ(folder_.opened, opened);
}

TEST_F(CatalogueTest, ValuesAreReadAtTheFirstUseAndWhatIsWrongIsListedThen) {
  folder_.Set("film", LoraOf(NAN));
  Open();
  const std::string stamp = catalogue_.Find("film")->stamp;
  const auto loaded = catalogue_.Load("film", stamp, "base");
  EXPECT_EQ(GetReason(loaded.status()), kAdapterUnusable);
  EXPECT_THAT(Listed().at("film").problem, HasSubstr("not finite"));
  EXPECT_EQ(GetReason(catalogue_.Find("film").status()), kAdapterUnusable);
}

TEST_F(CatalogueTest, DigestsAreOfContentsAndReadABitAtATime) {
  folder_.Set("a", LoraOf(1));
  folder_.Set("b", LoraOf(1));
  folder_.Set("c", LoraOf(2));
  Open();
  EXPECT_EQ(Listed().at("a").digest, "");
  catalogue_.ReadDigests(1);
  EXPECT_NE(Listed().at("a").digest, "");
  EXPECT_EQ(Listed().at("b").digest, "");
  catalogue_.ReadDigests(1 << 20);
  EXPECT_EQ(Listed().at("a").digest, Listed().at("b").digest);
  EXPECT_NE(Listed().at("a").digest, Listed().at("c").digest);
}

TEST_F(CatalogueTest, WordsAreOfTheModelsThatTheyFit) {
  folder_.Set("styles/film", {F32Tensor("emb_params", {1, 2}, {1, 2})});
  folder_.Set("wide", {F32Tensor("emb_params", {1, 3}, {1, 2, 3})});
  Open();
  const pipeline::SharedWords base = catalogue_.WordsOf("base");
  ASSERT_THAT(*base, SizeIs(1));
  EXPECT_EQ(base->front().text, "film");
  EXPECT_EQ(base->front().adapter, "styles/film");
  EXPECT_THAT(base->front().vectors.front().values, ElementsAre(1, 2));
  EXPECT_EQ(catalogue_.WordsOf("other")->front().text, "wide");
  EXPECT_THAT(*catalogue_.WordsOf("refiner"), IsEmpty());
  folder_.Set("styles/film", {F32Tensor("emb_params", {1, 2}, {3, 4})});
  ASSERT_OK(catalogue_.Find("styles/film"));
  EXPECT_THAT(catalogue_.WordsOf("base")->front().vectors.front().values, ElementsAre(3, 4));
  EXPECT_THAT(base->front().vectors.front().values, ElementsAre(1, 2));  // a reader keeps it
}

TEST_F(CatalogueTest, OfTwoAdaptersWithOneWordOneCountsAndTheOtherIsListedWithWhy) {
  folder_.Set("a/ink", {F32Tensor("emb_params", {1, 2}, {1, 2})});
  folder_.Set("b/ink", {F32Tensor("emb_params", {1, 2}, {3, 4})});
  folder_.Set("c/ink", {F32Tensor("emb_params", {1, 3}, {5, 6, 7})});  // for the other model
  Open();
  EXPECT_EQ(catalogue_.WordsOf("base")->front().adapter, "a/ink");
  EXPECT_EQ(Listed().at("a/ink").problem, "");
  EXPECT_THAT(Listed().at("b/ink").problem, HasSubstr("its word ink is that of a/ink too"));
  EXPECT_EQ(GetReason(catalogue_.Find("b/ink").status()), kAdapterUnusable);
  EXPECT_EQ(Listed().at("c/ink").problem, "");
  folder_.Remove("a/ink");
  ASSERT_OK(catalogue_.Look());
  EXPECT_EQ(Listed().at("b/ink").problem, "");
  EXPECT_EQ(catalogue_.WordsOf("base")->front().adapter, "b/ink");
}

TEST_F(CatalogueTest, AWordThatIsAnothersForOneModelAloneIsServedForTheOthers) {
  folder_.Set("a/ink", {F32Tensor("emb_params", {1, 2}, {1, 2})});
  folder_.Set("b/ink",
              {F32Tensor("clip_l", {1, 2}, {3, 4}), F32Tensor("clip_g", {1, 3}, {5, 6, 7})});
  AdaptedModel one{.name = "one", .modules = nullptr, .encoders = {{"text_encoder", 2}}};
  one.modules = std::make_shared<const ModelModules>(absl::btree_map<std::string, device::Shape>{});
  AdaptedModel two = one;
  two.name = "two";
  two.encoders.push_back({"text_encoder_2", 3});
  ASSERT_OK(catalogue_.Open({one, two}));
  EXPECT_EQ(catalogue_.WordsOf("one")->front().adapter, "a/ink");
  EXPECT_EQ(catalogue_.WordsOf("two")->front().adapter, "b/ink");
  EXPECT_EQ(Listed().at("b/ink").problem, "");
  EXPECT_THAT(Listed().at("b/ink").warnings,
              ElementsAre(HasSubstr("for one its word ink is that of a/ink too")));
}

TEST_F(CatalogueTest, AWordThatIsLostIsRemembered) {
  const std::vector<TensorToWrite> word = {F32Tensor("emb_params", {1, 2}, {1, 2})};
  folder_.Set("styles/film", word);
  folder_.Set("lora", LoraOf(1));
  Open();
  EXPECT_THAT(*catalogue_.LostWords(), IsEmpty());
  const auto expect_lost = [this](const char* why) {
    EXPECT_THAT(*catalogue_.WordsOf("base"), IsEmpty());
    const auto lost = catalogue_.LostWords();
    ASSERT_THAT(*lost, SizeIs(1));
    EXPECT_EQ(lost->front().text, "film");
    EXPECT_EQ(lost->front().adapter, "styles/film");
    EXPECT_THAT(lost->front().why, HasSubstr(why));
  };
  // Edited into what is none.
  folder_.Set("styles/film", {FilledTensor("first", {1}, 1), FilledTensor("second", {1}, 1)});
  EXPECT_FALSE(catalogue_.Find("styles/film").ok());
  expect_lost("no LoRA, textual inversion, ControlNet or IP-Adapter");
  ASSERT_OK(catalogue_.Look());
  expect_lost("no LoRA, textual inversion, ControlNet or IP-Adapter");
  folder_.Set("styles/film", word);
  ASSERT_OK(catalogue_.Find("styles/film"));
  EXPECT_THAT(*catalogue_.LostWords(), IsEmpty());
  // Removed: at the next use, and for good. A LoRA that goes is no word.
  folder_.Remove("styles/film");
  folder_.Remove("lora");
  EXPECT_FALSE(catalogue_.Find("styles/film").ok());
  expect_lost("has gone");
  ASSERT_OK(catalogue_.Look());
  expect_lost("has gone");
  folder_.Set("styles/film", word);
  ASSERT_OK(catalogue_.Look());
  EXPECT_THAT(*catalogue_.LostWords(), IsEmpty());
  EXPECT_THAT(*catalogue_.WordsOf("base"), SizeIs(1));
}

TEST_F(CatalogueTest, RequestsGoOnWhileTheFolderIsRead) {
  folder_.Set("film", LoraOf(1));
  Open();
  for (const char* name : {"a", "b"}) folder_.Set(name, LoraOf(1));
  folder_.Set("film", LoraOf(1, /*rank=*/4));
  const int before = folder_.opened;
  // In the middle of the look, which reads a, b and film.
  folder_.on_open = [&] {
    if (folder_.opened == before + 2) {
      EXPECT_OK(catalogue_.Find("a"));
    } else if (folder_.opened == before + 3) {
      folder_.Set("film", LoraOf(1, /*rank=*/8));
      EXPECT_EQ(catalogue_.Find("film")->rank, 8);
    }
  };
  ASSERT_OK(catalogue_.Look());
  EXPECT_EQ(folder_.opened, before + 4);
  EXPECT_EQ(Listed().at("film").rank, 8);  // not the one that the look has opened before
}

TEST_F(CatalogueTest, FactsForPeopleComeFromMetadataAndTheFileBeside) {
  folder_.Set("film", LoraOf(1),
              {{"ss_tag_frequency", R"({"10_a": {"film style": 9, "dog": 2}, "b": {"dog": 3}})"}},
              R"({"activation text": "by film", "preferred weight": 0.7})");
  folder_.Set("odd", LoraOf(1), {{"ss_tag_frequency", "[1"}}, "{\"preferred weight\": \"much\"}");
  Open();
  EXPECT_THAT(Listed().at("film").trigger_words, ElementsAre("film style", "dog"));
  EXPECT_EQ(Listed().at("film").trigger_phrase, "by film");
  EXPECT_EQ(Listed().at("film").recommended_weight, 0.7);
  EXPECT_THAT(Listed().at("odd").trigger_words, IsEmpty());
  EXPECT_TRUE(Listed().at("odd").is_served());
}

TEST_F(CatalogueTest, APresetIsOneThatThereIsForItsModels) {
  folder_.Set("fast", LoraOf(1), {}, R"({"preset": "lightning-4"})");
  folder_.Set("plain", LoraOf(1), {}, R"({"preset": "none"})");
  folder_.Set("typo", LoraOf(1), {}, R"({"preset": "lightning-3"})");
  folder_.Set("number", LoraOf(1), {}, R"({"preset": 4})");
  folder_.Set("swirl", {F32Tensor("emb_params", {1, 2}, {1, 2})}, {}, R"({"preset": "lcm"})");
  Open();
  const auto listed = Listed();
  EXPECT_EQ(listed.at("fast").problem, "");
  EXPECT_EQ(listed.at("fast").preset, "lightning-4");
  EXPECT_EQ(listed.at("plain").problem, "");
  EXPECT_THAT(listed.at("typo").problem,
              AllOf(HasSubstr("typo: the preset"), HasSubstr("lightning-3"), HasSubstr("lcm")));
  EXPECT_THAT(listed.at("number").problem, HasSubstr("unknown preset"));
  EXPECT_THAT(listed.at("swirl").problem, HasSubstr("only a LoRA brings one"));
  EXPECT_EQ(GetReason(catalogue_.Find("typo").status()), kAdapterUnusable);
}

TEST_F(CatalogueTest, APresetOfAnotherFamilyIsRefused) {
  AdaptedModel base{.name = "base", .modules = nullptr, .encoders = {}};
  base.modules = std::make_shared<const ModelModules>(absl::btree_map<std::string, device::Shape>{
      {"unet/mid_block.attentions.0.proj_in.weight", {8, 6}}});
  base.family = "sd1";
  folder_.Set("fast", LoraOf(1), {}, R"({"preset": "lightning-4"})");
  folder_.Set("lcm", LoraOf(1), {}, R"({"preset": "lcm"})");
  ASSERT_OK(catalogue_.Open({base}));
  EXPECT_THAT(Listed().at("fast").problem, HasSubstr("family sd1"));
  EXPECT_TRUE(Listed().at("lcm").is_served());
}

// Its preset changes pictures.
TEST(AdapterFolderTest, TheFileBesideIsPartOfTheStamp) {
  const testing::TemporaryDirectory root;
  const std::string path = root.File("film.safetensors");
  testing::WriteSafetensors(path, LoraOf(1));
  const AdapterFolder folder = FolderOnDisk(root.path());
  ASSERT_OK_AND_ASSIGN(const std::string alone, folder.stamp(path));
  testing::WriteFile(root.File("film.json"), R"({"preset": "lcm"})");
  ASSERT_OK_AND_ASSIGN(const std::string with, folder.stamp(path));
  EXPECT_NE(with, alone);
  std::filesystem::remove(root.File("film.json"));
  EXPECT_EQ(folder.stamp(path).value(), alone);
}

// All sets that the tensors are part of share them.
TEST(AdapterFolderTest, TensorsThatAreReadWholeHaveTheirDigests) {
  const testing::TemporaryDirectory directory;
  testing::WriteSafetensors(directory.File("film.safetensors"), LoraOf(1));
  ASSERT_OK_AND_ASSIGN(const LoraFile film,
                       FolderOnDisk(directory.path()).read(directory.File("film.safetensors")));
  EXPECT_THAT(film.tensors, SizeIs(2));
  for (const auto& [name, tensor] : film.tensors) {
    ASSERT_NE(tensor.digest, nullptr) << name;
    EXPECT_EQ(tensor.digest->Get(), weights::ContentDigest(tensor.data).Get()) << name;
    EXPECT_EQ(tensor.origin, nullptr);
  }
}

TEST(AdapterFolderTest, LinksThatLeadNowhereOrBackAreListedOnceAndWithWhy) {
  const testing::TemporaryDirectory root;
  const std::string folder = root.path();
  testing::WriteSafetensors(absl::StrCat(folder, "/styles/ink.safetensors"), LoraOf(1));
  std::filesystem::create_directory_symlink("..", absl::StrCat(folder, "/styles/back"));
  std::filesystem::create_directory_symlink("styles", absl::StrCat(folder, "/same"));
  std::filesystem::create_symlink("gone.safetensors", absl::StrCat(folder, "/lost.safetensors"));
  std::filesystem::create_symlink("nowhere", absl::StrCat(folder, "/away"));
  std::filesystem::create_symlink("self", absl::StrCat(folder, "/self"));
  std::filesystem::create_symlink("no.txt", absl::StrCat(folder, "/readme.txt"));
  const auto found = FolderOnDisk(folder).list();
  ASSERT_OK(found);
  std::map<std::string, std::string> problems;
  for (const FoundAdapter& adapter : *found) problems[adapter.name] = adapter.problem;
  EXPECT_THAT(problems,
              UnorderedElementsAre(
                  Pair("styles/ink", ""), Pair("same/ink", ""),
                  Pair("styles/back", HasSubstr("styles/back is a link to a folder that it lies")),
                  Pair("same/back", HasSubstr("is a link to a folder that it lies in")),
                  Pair("lost", HasSubstr("is a link to gone.safetensors, which is not there")),
                  Pair("away", HasSubstr("is a link to nowhere, which is not there")),
                  Pair("self", HasSubstr("is a link to self, which is not there"))));
}

TEST(AdapterFolderTest, ErrorsForClientsDoNotSayWhereAFileIs) {
  const testing::TemporaryDirectory root;
  const std::string folder = root.path();
  testing::WriteFile(absl::StrCat(folder, "/html.safetensors"), "<html>");
  testing::WriteFile(absl::StrCat(folder, "/peft/adapter_model.safetensors"), "<html>");
  testing::WriteFile(absl::StrCat(folder, "/old.pt"), "pickle");
  testing::WriteSafetensors(absl::StrCat(folder, "/film.safetensors"), LoraOf(1));
  Catalogue catalogue(FolderOnDisk(folder));
  ASSERT_OK(catalogue.Open({}));
  std::filesystem::remove(absl::StrCat(folder, "/film.safetensors"));
  for (const char* name : {"html", "peft", "old", "film"}) {
    EXPECT_THAT(catalogue.Find(name), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               AllOf(HasSubstr(name), Not(HasSubstr(folder)))))
        << name;
  }
  // Its operators need it.
  for (const AdapterFacts& facts : catalogue.List()) {
    if (facts.name == "html") EXPECT_THAT(facts.problem, HasSubstr(folder));
  }
}

TEST(AdapterFolderTest, NamesArePathsBelowTheFolder) {
  const testing::TemporaryDirectory root;
  const std::string folder = root.path();
  for (const char* name : {"film.safetensors", "styles/ink.safetensors", "bad name.safetensors",
                           ".hidden.safetensors", "old.pt", "film.pt"}) {
    testing::WriteSafetensors(absl::StrCat(folder, "/", name), LoraOf(1));
  }
  testing::WriteSafetensors(absl::StrCat(folder, "/peft/adapter_model.safetensors"), LoraOf(1));
  testing::WriteFile(absl::StrCat(folder, "/readme.txt"), "no adapter");
  const AdapterFolder on_disk = FolderOnDisk(folder);
  const auto found = on_disk.list();
  ASSERT_OK(found);
  std::map<std::string, std::string> problems;
  for (const FoundAdapter& adapter : *found) problems[adapter.name] = adapter.problem;
  EXPECT_THAT(problems, SizeIs(5));
  for (const char* name : {"film", "styles/ink", "peft"}) EXPECT_EQ(problems.at(name), "") << name;
  EXPECT_THAT(problems.at("old"), HasSubstr("is a pickle"));
  EXPECT_THAT(problems.at("bad name"), HasSubstr("rename it"));
  const std::string path = absl::StrCat(folder, "/film.safetensors");
  const std::string before = on_disk.stamp(path).value();
  testing::WriteSafetensors(path, LoraOf(1, /*rank=*/3));
  EXPECT_NE(on_disk.stamp(path).value(), before);
  EXPECT_THAT(FolderOnDisk(absl::StrCat(folder, "/nowhere")).list(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
}

}  // namespace
}  // namespace latentd::adapters
