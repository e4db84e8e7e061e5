#include "server/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "server/config/command_line.h"
#include "server/config/config_file.h"
#include "server/config/help_text.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

namespace v1 = ::latent::v1;
using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Options from defaults, this file and these flags, in the program's order.
absl::StatusOr<Options> OptionsOf(const std::string& file, const std::vector<std::string>& flags) {
  v1::ServerConfig config = DefaultConfig();
  const auto from_file = ParseConfig(file, "latentd.conf");
  if (!from_file.ok()) return from_file.status();
  config.MergeFrom(*from_file);
  const auto line = ParseCommandLine(flags);
  if (!line.ok()) return line.status();
  config.MergeFrom(line->flags);
  return ToOptions(config);
}

TEST(OptionsTest, Defaults) {
  ASSERT_OK_AND_ASSIGN(const Options options, OptionsOf("", {}));
  EXPECT_EQ(options.listen, "127.0.0.1:50051");
  EXPECT_EQ(options.engine.backend, "cpu");
  EXPECT_EQ(options.engine.threads, 0);
  EXPECT_EQ(options.engine.memory_bytes, 0);
  EXPECT_EQ(options.engine.picture_memory_bytes, 0);
  EXPECT_EQ(options.engine.queue_capacity, 64);
  EXPECT_EQ(options.engine.max_queue_time, absl::InfiniteDuration());
  EXPECT_EQ(options.max_request_bytes, 32 << 20);
  EXPECT_EQ(options.drain_timeout, absl::Seconds(30));
  EXPECT_EQ(options.max_connection_age, absl::Minutes(30));
  EXPECT_EQ(options.max_connection_age_grace, absl::InfiniteDuration());
  EXPECT_EQ(options.log_format, v1::TEXT);
  EXPECT_EQ(options.log_level, v1::INFO);
  EXPECT_EQ(options.otlp_endpoint, std::nullopt);
  EXPECT_EQ(options.admin_listen, "");
  EXPECT_EQ(options.metrics_listen, "");
  EXPECT_EQ(options.engine.cache_max_bytes, int64_t{10} << 30);
  EXPECT_EQ(options.engine.graph_memory_bytes, int64_t{1} << 30);
  EXPECT_THAT(options.engine.buckets, IsEmpty());
  EXPECT_THAT(options.engine.rows, IsEmpty());  // the backend's choice
  EXPECT_EQ(options.engine.max_shared_pixels, 8 * 1024 * 1024);
  EXPECT_EQ(options.engine.prompt_chunks, 1);
  EXPECT_EQ(options.engine.adapter_slots, 0);
  EXPECT_EQ(options.engine.adapter_ranks, 32);
  EXPECT_FALSE(options.engine.prompt_blends);
  EXPECT_FALSE(options.engine.feature_cache);
  EXPECT_THAT(options.engine.components, IsEmpty());
  EXPECT_THAT(options.engine.skipped_passes, IsEmpty());
  EXPECT_TRUE(options.engine.compile_at_start);
  EXPECT_FALSE(options.engine.allow_cold_requests || options.engine.forbid_compile_after_ready);
  EXPECT_FALSE(options.allow_import);
}

TEST(OptionsTest, TheCacheIsWhereUsersHaveTheirCaches) {
  EXPECT_EQ(DefaultCacheDirectory("/x", "/home/u"), "/x/latentd");
  EXPECT_EQ(DefaultCacheDirectory(nullptr, "/home/u"), "/home/u/.cache/latentd");
  EXPECT_EQ(DefaultCacheDirectory("relative", "/home/u"), "/home/u/.cache/latentd");
  EXPECT_EQ(DefaultCacheDirectory("", nullptr), "");
}

TEST(OptionsTest, EveryFlagHasItsEffect) {
  ASSERT_OK_AND_ASSIGN(
      const Options options,
      OptionsOf("", {"--listen=0.0.0.0:0", "--base", "/b", "--refiner=/r", "--variant=fp16",
                     "--backend=reference", "--threads=3", "--memory=1.5GiB", "--scheduler=heun",
                     "--preset=turbo", "--picture-memory=3MiB", "--queue-capacity=5",
                     "--max-queue-time=40s", "--max-request-bytes=64KiB", "--max-connections=9",
                     "--stall-timeout=7s", "--drain-timeout=90", "--log-format=json",
                     "--log-level=warning"}));
  EXPECT_EQ(options.listen, "0.0.0.0:0");
  EXPECT_EQ(options.engine.base, "/b");
  EXPECT_EQ(options.engine.refiner, "/r");
  EXPECT_EQ(options.engine.variant, "fp16");
  EXPECT_EQ(options.engine.scheduler, "heun");
  EXPECT_EQ(options.engine.preset, "turbo");
  EXPECT_EQ(options.engine.backend, "reference");
  EXPECT_EQ(options.engine.threads, 3);
  EXPECT_EQ(options.engine.memory_bytes, int64_t{3} << 29);
  EXPECT_EQ(options.engine.picture_memory_bytes, int64_t{3} << 20);
  EXPECT_EQ(options.engine.queue_capacity, 5);
  EXPECT_EQ(options.engine.max_queue_time, absl::Seconds(40));
  EXPECT_EQ(options.max_request_bytes, 64 << 10);
  EXPECT_EQ(options.max_connections, 9);
  EXPECT_EQ(options.stall_timeout, absl::Seconds(7));
  EXPECT_EQ(options.drain_timeout, absl::Seconds(90));
  EXPECT_EQ(options.log_format, v1::JSON);
  EXPECT_EQ(options.log_level, v1::WARNING);
}

TEST(OptionsTest, PartsOfACheckpointComeFromOtherPlaces) {
  ASSERT_OK_AND_ASSIGN(
      const Options options,
      OptionsOf("components_from: \"/c\"",
                {"--base=/b.safetensors", "--refiner=/r", "--unet=/u", "--vae=/v", "--vae-tiny=/t",
                 "--text-encoder=/e", "--text-encoder-2=/e2", "--refiner-components-from=/rc"}));
  EXPECT_THAT(options.engine.base_parts.components,
              ElementsAre(Pair("text_encoder", "/e"), Pair("text_encoder_2", "/e2"),
                          Pair("unet", "/u"), Pair("vae", "/v"), Pair("vae_tiny", "/t")));
  EXPECT_EQ(options.engine.base_parts.components_from, "/c");
  EXPECT_EQ(options.engine.refiner_parts.components_from, "/rc");
  EXPECT_THAT(options.engine.refiner_parts.components, IsEmpty());
}

TEST(OptionsTest, AdaptersOfRequestsHaveSlotsAndRanks) {
  ASSERT_OK_AND_ASSIGN(
      const Options options,
      OptionsOf("", {"--base=/b", "--adapters=/a", "--adapter-slots=8", "--adapter-ranks=64"}));
  EXPECT_EQ(options.engine.adapters, "/a");
  EXPECT_EQ(options.engine.adapter_slots, 8);
  EXPECT_EQ(options.engine.adapter_ranks, 64);
}

// Requests for pictures that name no model are for the first one.
TEST(OptionsTest, AModelOfVideosComesBehindAllOthers) {
  ASSERT_OK_AND_ASSIGN(const Options options,
                       OptionsOf("", {"--model=a=/a", "--video=/v,decode-chunk=7"}));
  ASSERT_EQ(options.engine.models.size(), 2u);
  EXPECT_EQ(options.engine.models[0].name, "a");
  EXPECT_FALSE(options.engine.models[0].draws_videos);
  EXPECT_EQ(options.engine.models[1].checkpoint, "/v");
  EXPECT_TRUE(options.engine.models[1].draws_videos);
  EXPECT_EQ(options.engine.models[1].decode_chunk, 7);
  EXPECT_THAT(OptionsOf("", {"--video=/v", "--model=video=/a"}),
              StatusIs(kInvalid, AllOf(HasSubstr("video=/a"), HasSubstr("--video has this one"))));
  EXPECT_THAT(OptionsOf("", {"--video="}), StatusIs(kInvalid, HasSubstr("--video")));
}

TEST(OptionsTest, LorasOfTheBaseAreInTheirOrder) {
  ASSERT_OK_AND_ASSIGN(const Options options,
                       OptionsOf("", {"--base=/b", "--refiner=/r", "--lora=/z.safetensors:0.5",
                                      "--lora=/a.safetensors"}));
  EXPECT_THAT(options.engine.base_parts.loras,
              ElementsAre(pipeline::LoraFile{"/z.safetensors", 0.5, 0.5},
                          pipeline::LoraFile{"/a.safetensors", 1, 1}));
  EXPECT_THAT(options.engine.refiner_parts.loras, IsEmpty());
  EXPECT_THAT(OptionsOf("", {"--lora=/l"}),
              StatusIs(kInvalid, HasSubstr("--lora=/l: must be given together with --base")));
}

TEST(OptionsTest, EveryFlagOfGraphsHasItsEffect) {
  ASSERT_OK_AND_ASSIGN(
      const Options options,
      OptionsOf("", {"--cache-dir=/c",
                     "--cache-max-bytes=3GiB",
                     "--graph-memory=5MiB",
                     "--buckets=1024x1024, 832x1216",
                     "--rows=2,1",
                     "--max-shared-pixels=0",
                     "--prompt-chunks=4",
                     "--prompt-blends",
                     "--feature-cache",
                     "--vae-tiling-above=1536x1024",
                     "--components=vae_encoder=off,text_encoder=reference,unet_base=compiled",
                     "--skip-passes=epilogues,image_layout",
                     "--nocompile-at-start",
                     "--allow-cold-requests",
                     "--forbid-compile-after-ready",
                     "--allow-import=true",
                     "--admin-listen=unix:/run/a",
                     "--metrics-listen=127.0.0.1:0",
                     "--max-connection-age=0",
                     "--max-connection-age-grace=2h",
                     "--otlp-endpoint=https://collector"}));
  EXPECT_EQ(options.engine.cache_dir, "/c");
  EXPECT_EQ(options.engine.cache_max_bytes, int64_t{3} << 30);
  EXPECT_EQ(options.engine.graph_memory_bytes, int64_t{5} << 20);
  EXPECT_THAT(options.engine.buckets,
              ElementsAre(pipeline::Size{1024, 1024}, pipeline::Size{832, 1216}));
  EXPECT_THAT(options.engine.rows, ElementsAre(2, 1));
  EXPECT_EQ(options.engine.max_shared_pixels, 0);
  EXPECT_EQ(options.engine.prompt_chunks, 4);
  EXPECT_TRUE(options.engine.prompt_blends);
  EXPECT_TRUE(options.engine.feature_cache);
  EXPECT_EQ(options.engine.vae_tiling_above, 1536 * 1024);
  EXPECT_THAT(options.engine.components,
              ElementsAre(Pair("text_encoder", engine::ComponentMode::kReference),
                          Pair("unet_base", engine::ComponentMode::kCompiled),
                          Pair("vae_encoder", engine::ComponentMode::kOff)));
  EXPECT_THAT(options.engine.skipped_passes, ElementsAre("epilogues", "image_layout"));
  EXPECT_FALSE(options.engine.compile_at_start);
  EXPECT_TRUE(options.engine.allow_cold_requests && options.engine.forbid_compile_after_ready);
  EXPECT_TRUE(options.allow_import);
  EXPECT_EQ(options.max_connection_age, absl::InfiniteDuration());
  EXPECT_EQ(options.max_connection_age_grace, absl::Hours(2));
  EXPECT_EQ(options.otlp_endpoint, (tracing::Endpoint{"collector:4317", true}));
  EXPECT_EQ(options.admin_listen, "unix:/run/a");
  EXPECT_EQ(options.metrics_listen, "127.0.0.1:0");
}

TEST(OptionsTest, CallersHaveAHighestPriorityOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(
      const Options options,
      OptionsOf("", {"--max-priority=1", "--tls-cert=c", "--tls-key=k", "--tls-client-ca=a",
                     "--caller-max-priority=spiffe://a/b?c=d=3, batch=0,unix=2"}));
  EXPECT_EQ(options.engine.priorities.everyone, 1);
  EXPECT_THAT(options.engine.priorities.named,
              ElementsAre(Pair("batch", 0), Pair("spiffe://a/b?c=d", 3), Pair("unix", 2)));
  ASSERT_OK_AND_ASSIGN(const Options hosts,
                       OptionsOf("caller_max_priority: \"ipv4:192.0.2.7=2,ipv6:20=1,unix=0\"", {}));
  EXPECT_EQ(hosts.engine.priorities.named.size(), 3u);
}

TEST(OptionsTest, ThePageIsWhereThisMachineAloneLooks) {
  for (const auto& [flags, has_page] : std::vector<std::pair<std::vector<std::string>, bool>>{
           {{}, false},
           {{"--http-listen=localhost:8080"}, true},
           {{"--http-listen=0.0.0.0:8080"}, false},
           {{"--http-listen=0.0.0.0:8080", "--http-page"}, true},
           {{"--http-listen=127.0.0.1:8080", "--http-page=false"}, false}}) {
    ASSERT_OK_AND_ASSIGN(const Options options, OptionsOf("", flags));
    EXPECT_EQ(options.http_page, has_page) << absl::StrJoin(flags, " ");
  }
  EXPECT_THAT(OptionsOf("", {"--http-page"}),
              StatusIs(kInvalid, HasSubstr("beside --http-listen")));
}

TEST(OptionsTest, AnEmptyCacheDirectoryKeepsNone) {
  ASSERT_OK_AND_ASSIGN(const Options options, OptionsOf("", {"--cache-dir="}));
  EXPECT_EQ(options.engine.cache_dir, "");
}

TEST(OptionsTest, FlagsWinOverTheFile) {
  const std::string file = "queue_capacity: 7\nthreads: 2  # of the file\n";
  ASSERT_OK_AND_ASSIGN(const Options options, OptionsOf(file, {"--queue-capacity=9"}));
  EXPECT_EQ(options.engine.queue_capacity, 9);
  EXPECT_EQ(options.engine.threads, 2);
}

TEST(OptionsTest, WhatIsPrintedReadsBack) {
  v1::ServerConfig config = DefaultConfig();
  config.set_base("/models/a \"b\"");
  ASSERT_OK_AND_ASSIGN(const v1::ServerConfig read, ParseConfig(PrintConfig(config), "printed"));
  EXPECT_EQ(read.SerializeAsString(), config.SerializeAsString());
}

// Sizes that differ, and that are right each by itself.
std::string ManySizes(int count) {
  std::vector<std::string> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(absl::StrCat(64 + 8 * i, "x64"));
  return absl::StrJoin(sizes, ",");
}

// Each flag, and what its refusal says beside its name.
void ExpectRefused(const std::vector<std::pair<std::string, std::string>>& flags) {
  for (const auto& [flag, right] : flags) {
    const std::string name = flag.substr(0, flag.find('='));
    EXPECT_THAT(OptionsOf("", {flag}), StatusIs(kInvalid, HasSubstr(name))) << flag;
    EXPECT_THAT(OptionsOf("", {flag}), StatusIs(kInvalid, HasSubstr(right))) << flag;
  }
}

TEST(OptionsTest, WrongValuesAreNamedWithWhatIsRight) {
  ExpectRefused({
      {"--listen=nowhere", "HOST:PORT"},
      {"--listen=127.0.0.1:65536", "HOST:PORT"},
      {"--listen=:50051", "HOST:PORT"},
      {"--listen=unix:", "unix:PATH"},
      {"--listen=:50051", "the host is missing"},
      {"--listen=127.0.0.1", "the port is missing"},
      {"--listen=[::1]", "the port is missing"},
      {"--listen=127.0.0.1:", "a number from 0 to 65535"},
      {"--listen=127.0.0.1:65536", "a number from 0 to 65535"},
      {"--listen=127.0.0.1:99999999999", "a number from 0 to 65535"},
      {"--listen=127.0.0.1:+80", "a number from 0 to 65535"},
      {"--listen=127.0.0.1:grpc", "a number from 0 to 65535"},
      {"--listen=::1:50051", "an IPv6 address, and nothing else, stands in brackets: [::1]:50051"},
      {"--listen=::", "an IPv6 address, and nothing else, stands in brackets: [::1]:50051"},
      {"--listen=2001:db8::1:50051",
       "an IPv6 address, and nothing else, stands in brackets: [::1]:50051"},
      {"--listen=[::1:50051", "stands in brackets: [::1]:50051"},
      {"--listen=[localhost:50051", "stands in brackets: [::1]:50051"},
      {"--listen=::1]:50051", "stands in brackets: [::1]:50051"},
      {"--listen=[localhost]:50051", "stands in brackets: [::1]:50051"},
      {"--listen=http://127.0.0.1:50051", "it begins with the host"},
      {"--listen=http://localhost", "it begins with the host"},
      {"--listen=ipv4:127.0.0.1:50051", "it begins with the host"},
      {"--metrics-listen=::1:9464", "stands in brackets"},
      {"--health-listen=::1:9464", "stands in brackets"},
      {"--admin-listen=::1:9464", "stands in brackets"},
      {"--otlp-endpoint=collector", "HOST:PORT"},
      {"--otlp-endpoint=127.0.0.1:0", "OTLP over gRPC"},
      {"--otlp-endpoint=http://collector:4318/v1/traces", "127.0.0.1:4317"},
      {"--backend=gpu", "cpu, reference, cuda"},
      {"--threads=-1", "0 to"},
      {"--threads=many", "whole number"},
      {"--memory=lots", "64MiB"},
      {"--memory=0", "8GiB"},
      {"--picture-memory=0", "512MiB"},
      {"--picture-memory=much", "64MiB"},
      {"--memory=0", "without the flag"},
      {"--memory=", "64MiB"},
      {"--base=", "leave the flag out"},
      {"--refiner=", "leave the flag out"},
      {"--memory=-1", "64MiB"},
      {"--queue-capacity=0", "1 to"},
      {"--max-queue-time=soon", "max-queue-time"},
      {"--max-request-bytes=1", "4096 to"},
      {"--max-request-bytes=8GiB", "4096 to"},
      {"--max-connections=0", "1 to"},
      {"--stall-timeout=0s", "at least 1s"},
      {"--max-connection-age=10ms", "at least 1s, or 0"},
      {"--max-connection-age=30x", "duration"},
      {"--max-connection-age-grace=10ms", "at least 1s, or 0"},
      {"--drain-timeout=-1s", "duration"},
      {"--drain-timeout=soon", "30 (seconds)"},
      {"--log-format=xml", "text, json"},
      {"--log-level=loud", "debug, info, warning, error"},
      {"--refiner=/r", "--base"},
      {"--vae=/v", "together with --base"},
      {"--vae=", "leave the flag out"},
      {"--refiner-components-from=/c", "together with --refiner"},
  });
}

TEST(OptionsTest, WrongValuesOfGraphsAndCallersAreNamedWithWhatIsRight) {
  ExpectRefused({
      {"--cache-max-bytes=0", "1 to"},
      {"--cache-max-bytes=much", "64MiB"},
      {"--graph-memory=-1", "64MiB"},
      {"--admin-listen=9000", "HOST:PORT"},
      {"--admin-listen=127.0.0.1:50051", "another address than --listen"},
      {"--metrics-listen=unix:/m", "HOST:PORT"},
      {"--buckets=1024", "1024x1024"},
      {"--buckets=1024x1023", "multiple of 8"},
      {"--vae-tiling-above=1536", "1024x1024"},
      {"--vae-tiling-above=512x512,1024x1024", "one size"},
      {"--buckets=8x8", "from 64 to 2048"},
      {"--buckets=4096x512", "from 64 to 2048"},
      {"--buckets=64x64,", "from 64 to 2048"},
      {"--buckets=64x64,128x64,64x64", "once"},
      {absl::StrCat("--buckets=", ManySizes(65)), "at most 64"},
      {"--rows=0", "from 1 to 16"},
      {"--rows=1,17", "from 1 to 16"},
      {"--rows=2,2", "once"},
      {"--max-shared-pixels=-1", "0 to 67108864"},
      {"--adapter-slots=33", "0 to 32"},
      {"--adapter-slots=8", "given together with --adapters"},
      {"--adapter-ranks=7", "8 to 256"},
      {"--adapter-ranks=12", "a multiple of 8"},
      {"--prompt-chunks=0", "1 to 4"},
      {"--prompt-chunks=5", "1 to 4"},
      {"--max-shared-pixels=67108865", "0 to 67108864"},
      {"--max-shared-pixels=8x1024x1024", "whole number"},
      {"--components=vae=off", "vae_decoder, vae_encoder"},
      {"--components=vae_encoder", "compiled, reference, off"},
      {"--components=vae_encoder=on", "compiled, reference, off"},
      {"--components=vae_encoder=off,vae_encoder=off", "only mode"},
      {"--skip-passes=dead code", "names"},
      {"--caller-max-priority=renderer", "NAME=N"},
      {"--caller-max-priority==2", "NAME=N"},
      {"--caller-max-priority=renderer=4", "0 to 3"},
      {"--caller-max-priority=renderer=-1", "0 to 3"},
      {"--caller-max-priority=renderer=1,", "NAME=N"},
      {"--caller-max-priority=unix=1,unix=1", "only priority"},
      {"--caller-max-priority=renderer=1", "--tls-client-ca"},
      {"--allow-import=maybe", "true or false"},
  });
}

TEST(OptionsTest, AddressesOfEveryKindAreTaken) {
  for (const char* good : {"[::1]:50051", "[::]:0", "[fe80::1%eth0]:80", "localhost:50051",
                           "dns:53", "127.0.0.1:65535", "unix:/run/a:b"}) {
    EXPECT_OK(OptionsOf("", {absl::StrCat("--listen=", good)})) << good;
  }
}

TEST(CommandLineTest, WhatIsNoFlagIsRefused) {
  EXPECT_THAT(ParseCommandLine({"--colour=red"}), StatusIs(kInvalid, HasSubstr("--colour")));
  EXPECT_THAT(ParseCommandLine({"--queue_capacity=3"}), StatusIs(kInvalid, HasSubstr("no flag")));
  EXPECT_THAT(ParseCommandLine({"model"}), StatusIs(kInvalid, HasSubstr("model")));
  EXPECT_THAT(ParseCommandLine({"--base"}), StatusIs(kInvalid, HasSubstr("needs a value")));
  EXPECT_THAT(ParseCommandLine({"--version=1"}), StatusIs(kInvalid, HasSubstr("no value")));
}

TEST(CommandLineTest, AFlagWithTwoValuesIsRefusedAndBothAreNamed) {
  for (const auto& [arguments, flag] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--threads=2", "--threads=3"}, "--threads"},
           {{"--base", "a", "--base", "b"}, "--base"},
           {{"--backend=cpu", "--listen=x", "--backend=reference"}, "--backend"},
           {{"--allow-import", "--noallow-import"}, "--allow-import"},
           {{"--no-allow-import", "--allow-import=true"}, "--allow-import"},
           {{"--config=a", "--config=b"}, "--config"}}) {
    EXPECT_THAT(ParseCommandLine(arguments),
                StatusIs(kInvalid, HasSubstr(absl::StrCat(flag, " is given twice"))));
  }
  EXPECT_THAT(ParseCommandLine({"--threads=2", "--threads=3"}),
              StatusIs(kInvalid, HasSubstr("as '2' and as '3'")));
  EXPECT_THAT(ParseCommandLine({"--threads=2", "--threads=2", "--help", "--help"}), IsOk());
}

TEST(CommandLineTest, Switches) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line,
                       ParseCommandLine({"--print-config", "--config", "f", "--version", "-h",
                                         "--exit-when-ready", "--exit-if-degraded"}));
  EXPECT_TRUE(line.print_config && line.version && line.help && line.exit_when_ready &&
              line.exit_if_degraded);
  EXPECT_EQ(line.config_file, "f");
}

TEST(CommandLineTest, SwitchesOfTheConfigurationAreOnOrOff) {
  for (const auto& [argument, on] :
       std::vector<std::pair<std::string, bool>>{{"--allow-import", true},
                                                 {"--allow-import=true", true},
                                                 {"--allow-import=false", false},
                                                 {"--noallow-import", false},
                                                 {"--no-allow-import", false}}) {
    ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseCommandLine({argument}));
    EXPECT_TRUE(line.flags.has_allow_import()) << argument;
    EXPECT_EQ(line.flags.allow_import(), on) << argument;
  }
  EXPECT_THAT(ParseCommandLine({"--noallow-import=1"}), StatusIs(kInvalid, HasSubstr("no value")));
  EXPECT_THAT(ParseCommandLine({"--nothreads"}), StatusIs(kInvalid, HasSubstr("no flag")));
}

TEST(CommandLineTest, HelpNamesEveryField) {
  const auto& type = *v1::ServerConfig::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string flag = absl::StrReplaceAll(type.field(i)->name(), {{"_", "-"}});
    EXPECT_THAT(HelpText(), HasSubstr(absl::StrCat("\n  --", flag, "=")));
  }
}

TEST(ConfigFileTest, AnUnknownFieldIsNamedWithItsLine) {
  EXPECT_THAT(ParseConfig("threads: 2\n\ncolour: \"red\"\n", "latentd.conf"),
              StatusIs(kInvalid, HasSubstr("latentd.conf:3:")));
  EXPECT_THAT(ParseConfig("colour: 1", "x"), StatusIs(kInvalid, HasSubstr("colour")));
}

TEST(ConfigFileTest, WrongValuesAreNamedWithTheirLine) {
  EXPECT_THAT(ParseConfig("backend: CPU\nthreads: \"two\"\n", "c"),
              StatusIs(kInvalid, HasSubstr("c:2:")));
  EXPECT_THAT(ParseConfig("backend: GPU\n", "c"), StatusIs(kInvalid, HasSubstr("GPU")));
}

TEST(ConfigFileTest, NumbersThatAnEnumDoesNotHaveAreNamedWithTheirLine) {
  EXPECT_THAT(ParseConfig("threads: 2\nbackend: 77\n", "c"),
              StatusIs(kInvalid, AllOf(HasSubstr("c:2:"), HasSubstr("backend: 77"),
                                       HasSubstr("CPU, REFERENCE"))));
  EXPECT_THAT(ParseConfig("log_level: LOG_LEVEL_UNSPECIFIED", "c"),
              StatusIs(kInvalid, HasSubstr("DEBUG, INFO, WARNING, ERROR")));
  EXPECT_THAT(ParseConfig("log_format: 0", "c"), StatusIs(kInvalid, HasSubstr("TEXT, JSON")));
  EXPECT_THAT(ParseConfig("log_format: 9\nbackend: -1", "c"),
              StatusIs(kInvalid, AllOf(HasSubstr("c:1:"), HasSubstr("c:2:"))));
  EXPECT_THAT(ParseConfig("backend: 2", "c"), IsOk());
}

TEST(ConfigFileTest, AFieldThatIsGivenTwiceIsNamedWithItsLine) {
  EXPECT_THAT(ParseConfig("threads: 2\nthreads: 3\n", "c"),
              StatusIs(kInvalid, AllOf(HasSubstr("c:2:"), HasSubstr("threads"))));
}

TEST(ConfigFileTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(ReadConfigFile("/no/such/file"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/file")));
  EXPECT_THAT(ReadConfigFile("/"), StatusIs(kInvalid, HasSubstr("directory")));
}

}  // namespace
}  // namespace latentd::server::config
