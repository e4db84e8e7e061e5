"""Every flag, RPC and verb does something on a real server: those that no other file shows, and the list of all of them."""

import concurrent.futures
import fcntl
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import unittest

import grpc

import png
import server_process
import test_documents
from metrics import METRICS, compilations, scrape
from server_process import Api, Server, checkpoint, facts, reason
from test_graphs import latent

HERE = pathlib.Path(__file__).resolve().parent
CHUNK = 2  # latent.v1.LongPrompt
COMPEL = 4  # latent.v1.PromptSyntax
DRAINING = 5  # latent.v1.ServerState
DEBUG, ERROR = 1, 4  # latent.v1.LogLevel

# The test that fails where the flag is read and then forgotten.
FLAGS = {
    "--base": "test_cache_damage.CacheDamageTest.test_two_checkpoints_with_one_config_share_graphs_and_nothing_else",
    "--refiner": "test_graphs.SharingTest.test_base_and_refiner_share_the_autoencoder",
    "--unet": "test_single_file.ReplacedTest.test_a_network_from_another_folder",
    "--vae": "test_single_file.ReplacedTest.test_a_vae_from_wherever_it_is",
    "--vae-tiny": "test_previews.TinyVaeTest.test_it_may_come_from_elsewhere",
    "--text-encoder": "test_single_file.ReplacedTest.test_a_network_from_another_folder",
    "--text-encoder-2": "test_single_file.ReplacedTest.test_a_network_from_another_folder",
    "--components-from": "test_single_file.WholeFileTest.test_it_draws_what_the_folder_draws",
    "--refiner-components-from": "test_single_file.LackingTest.test_a_refiner_that_lacks_its_vae",
    "--variant": "test_wiring.FlagsTest.test_variant_chooses_the_files",
    "--scheduler": "test_wiring.FlagsTest.test_scheduler_is_the_default_where_the_checkpoint_has_none",
    "--preset": "test_wiring.FlagsTest.test_a_preset_has_the_defaults",
    "--lora": "test_loras.LorasTest.test_of_the_base_in_any_order",
    "--adapters": "test_adapters.AdaptersTest.test_a_request_draws_what_the_merged_model_draws",
    "--adapter-slots": "test_adapters.AdaptersTest.test_images_with_different_loras_share_steps",
    "--adapter-ranks": "test_adapters.AdaptersTest.test_a_set_of_more_ranks_is_merged",
    "--model": "test_models.ModelsTest.test_a_model_is_loaded_for_its_first_request_and_draws_as_alone",
    "--video": "test_video.AloneTest.test_a_server_of_videos_alone_compiles_nothing_after_a_restart",
    "--prediction-type": "test_wiring.FlagsTest.test_what_the_network_predicts_is_the_operators_to_say",
    "--ema": "test_single_file.WholeFileTest.test_its_averaged_weights",
    "--backend": "test_wiring.FlagsTest.test_backend_is_the_one_that_runs",
    "--devices": "test_wiring.FlagsTest.test_devices_are_gpus",
    "--placement": "test_wiring.FlagsTest.test_models_are_placed_on_several_gpus",
    "--split": "test_wiring.FlagsTest.test_steps_are_split_on_several_gpus",
    "--components": "test_wiring.FlagsTest.test_a_component_that_is_off_is_refused",
    "--precision": "test_graphs.PrecisionTest.test_precision_comes_from_the_configuration_and_is_part_of_the_key",
    "--buckets": "test_buckets.BucketsTest.test_a_size_that_is_not_listed_is_refused_with_the_list",
    "--rows": "test_wiring.FlagsTest.test_rows_are_those_that_graphs_are_compiled_for",
    "--max-shared-pixels": "test_wiring.FlagsTest.test_max_shared_pixels_bounds_the_rows_of_a_size",
    "--prompt-chunks": "test_wiring.FlagsTest.test_prompt_chunks_are_ready_for_long_prompts_beside_short_ones",
    "--feature-cache": "test_wiring.FlagsTest.test_feature_cache_has_the_graphs_of_an_interval_ready",
    "--prompt-blends": "test_wiring.FlagsTest.test_prompt_blends_are_ready_for_weights_below_one",
    "--vae-tiling-above": "test_graphs.MemoryTest.test_large_pictures_are_decoded_in_tiles_above_a_threshold",
    "--cache-dir": "test_graphs.RestartTest.test_a_restart_compiles_nothing_and_draws_the_same",
    "--cache-max-bytes": "test_wiring.FlagsTest.test_cache_max_bytes_bounds_the_directory",
    "--graph-memory":
        "test_guarantees.EvictionTest.test_the_least_recently_used_leave_memory_and_come_back_without_compiling",
    "--compile-at-start": "test_buckets.ColdTest.test_a_listed_bucket_that_would_have_to_be_compiled_is_cold",
    "--allow-cold-requests": "test_buckets.ColdTest.test_requests_compile_nothing_by_default_and_operators_do",
    "--forbid-compile-after-ready": "test_wiring.FlagsTest.test_forbidden_compiling_refuses_requests_that_would_compile",
    "--skip-passes": "test_graphs.KeyTest.test_options_are_part_of_the_key",
    "--allow-import": "test_graphs.VerbsTest.test_latent_lists_shows_and_carries_them",
    "--listen": "test_startup.ListenTest.test_a_unix_socket",
    "--admin-listen": "test_wiring.FlagsTest.test_admin_listen_takes_operators_calls_away_from_listen",
    "--metrics-listen": "test_metrics.MetricsTest.test_only_metrics_are_there",
    "--health-listen": "test_wiring.FlagsTest.test_health_listen_answers_health_alone",
    "--http-listen": "test_http.HttpTest.test_a_picture_is_that_of_grpc",
    "--http-cors-origins": "test_http.HttpTest.test_a_page_of_an_allowed_origin_may_ask",
    "--http-defaults": "test_http.DefaultsTest.test_fields_that_are_not_set_are_the_operators",
    "--http-page": "test_page.BeyondThisMachineTest.test_the_page_is_there_where_it_is_asked_for",
    "--tls-cert": "test_tls.MutualTlsTest.test_a_client_with_a_certificate_is_served",
    "--tls-key": "test_tls.MutualTlsTest.test_a_client_with_a_certificate_is_served",
    "--tls-client-ca": "test_tls.MutualTlsTest.test_everybody_else_is_told_why_not",
    "--admin-tls-client-ca": "test_tls.MutualTlsTest.test_no_method_of_operators_is_for_others",
    "--api-key-file": "test_api_keys.ApiKeysTest.test_a_key_opens_both_ways_in",
    "--threads": "test_wiring.FlagsTest.test_threads_are_those_of_the_key",
    "--memory": "test_graphs.MemoryTest.test_what_cannot_fit_is_refused_and_the_server_goes_on",
    "--picture-memory": "test_wiring.FlagsTest.test_picture_memory_bounds_what_a_request_brings",
    "--queue-capacity": "test_wiring.FlagsTest.test_queue_capacity_refuses_the_picture_that_is_too_many",
    "--max-queue-time": "test_wiring.FlagsTest.test_max_queue_time_refuses_what_would_wait_longer",
    "--max-priority": "test_scheduling.PriorityTest.test_the_highest_is_the_operators_to_say",
    "--caller-max-priority": "test_tls.CallerTest.test_each_may_be_as_urgent_as_the_operator_says",
    "--max-request-bytes": "test_bad_input.BadInputTest.test_requests_have_a_limit",
    "--max-connections": "test_hostile_clients.HostileClientsTest.test_more_connections_than_are_taken",
    "--max-connection-age": "test_wiring.FlagsTest.test_a_stream_outlives_its_connection_and_the_next_call_connects_anew",
    "--max-connection-age-grace": "test_wiring.FlagsTest.test_a_connection_that_is_too_old_loses_its_calls_after_the_grace",
    "--stall-timeout": "test_hostile_clients.HostileClientsTest.test_who_does_not_read_is_cancelled",
    "--drain-timeout": "test_drain.DrainTest.test_what_takes_too_long_is_cancelled",
    "--log-format": "test_wiring.FlagsTest.test_log_format_and_level",
    "--log-level": "test_wiring.FlagsTest.test_log_format_and_level",
    "--otlp-endpoint": "test_traces.TracesTest.test_a_picture_of_two_models_is_a_tree",
    "--config": "test_startup.FlagsTest.test_configuration_file",
    "--exit-when-ready": "test_startup.ExitWhenReadyTest.test_fills_a_cache_that_others_load_from",
    "--exit-if-degraded": "test_startup.ExitWhenReadyTest.test_says_what_is_missing",
    "--print-config": "test_startup.FlagsTest.test_configuration_file",
    "--version": "test_startup.FlagsTest.test_help_and_version",
    "--help": "test_startup.FlagsTest.test_help_and_version",
}

RPCS = {
    "ImageGeneration/Generate": "test_generate.GenerateTest.test_a_prompt_becomes_a_png",
    "ImageGeneration/GenerateStream": "test_generate.GenerateTest.test_the_stream_tells_what_happens",
    "ImageGeneration/Encode": "test_embeds.EmbedsTest.test_embeddings_draw_the_picture_of_their_prompt",
    "ImageGeneration/ResumeStream": "test_resume.ResumeTest.test_the_rest_of_a_broken_stream_is_the_same_bytes",
    "ImageGeneration/CancelGeneration": "test_resume.ResumeTest.test_cancelling_ends_the_work_that_nobody_reads",
    "ImageGeneration/GetCapabilities": "test_buckets.BucketsTest.test_capabilities_list_the_buckets",
    "VideoGeneration/GenerateVideo": "test_video.VideoTest.test_an_image_becomes_the_frames_of_a_video",
    "VideoGeneration/ResumeVideo": "test_video.ResumeTest.test_the_rest_of_a_broken_stream_is_the_same_bytes",
    "VideoGeneration/CancelVideo": "test_video.ResumeTest.test_cancelling_ends_the_work_that_nobody_reads",
    "VideoGeneration/GetVideoCapabilities": "test_video.VideoTest.test_pictures_and_videos_have_capabilities_of_their_own",
    "GraphCache/ListGraphs": "test_graphs.SharingTest.test_base_and_refiner_share_the_autoencoder",
    "GraphCache/GetGraph": "test_graphs.VerbsTest.test_latent_lists_shows_and_carries_them",
    "GraphCache/WarmBuckets": "test_graphs.VerbsTest.test_warming_predicts_then_does",
    "GraphCache/SaveGraphs": "test_graphs.VerbsTest.test_saving_what_is_not_compiled_is_refused_by_name",
    "GraphCache/LoadGraphs": "test_graphs.SharingTest.test_base_and_refiner_share_the_autoencoder",
    "GraphCache/VerifyGraphs": "test_cache_damage.CacheDamageTest.test_a_damaged_file_is_set_aside_and_made_again",
    "GraphCache/EvictGraphs": "test_graphs.VerbsTest.test_evicted_and_pinned",
    "GraphCache/PinGraphs": "test_graphs.VerbsTest.test_evicted_and_pinned",
    "GraphCache/ExportGraphs": "test_graphs.VerbsTest.test_latent_lists_shows_and_carries_them",
    "GraphCache/ImportGraphs": "test_graphs.VerbsTest.test_latent_lists_shows_and_carries_them",
    "Admin/GetServerStatus": "test_wiring.AdminTest.test_status_says_what_the_server_does",
    "Admin/WatchServerStatus": "test_wiring.AdminTest.test_drain_ends_the_server_and_who_watches_is_told",
    "Admin/GetMemoryReport": "test_graphs.MemoryTest.test_what_is_evicted_goes_back_to_the_system",
    "Admin/Drain": "test_wiring.AdminTest.test_drain_ends_the_server_and_who_watches_is_told",
    "Admin/SetLogLevel": "test_wiring.AdminTest.test_the_log_level_changes_what_is_logged",
    "Models/ListModels": "test_models.ModelsTest.test_a_model_is_loaded_for_its_first_request_and_draws_as_alone",
    "Models/LoadModel": "test_models.ModelsTest.test_operators_load_evict_and_pin",
    "Models/EvictModel": "test_models.ModelsTest.test_operators_load_evict_and_pin",
    "Models/PinModel": "test_models.ModelsTest.test_operators_load_evict_and_pin",
    "Adapters/ListAdapters": "test_adapters.AdaptersTest.test_operators_see_what_is_there_and_what_is_wrong",
    "Adapters/LoadAdapter": "test_adapters.AdaptersTest.test_operators_load_evict_and_pin",
    "Adapters/EvictAdapter": "test_adapters.AdaptersTest.test_operators_load_evict_and_pin",
    "Adapters/PinAdapter": "test_adapters.AdaptersTest.test_operators_load_evict_and_pin",
}


class ListTest(unittest.TestCase):
    def assert_tests_exist(self, table):
        for name, case in table.items():
            file, _, test = case.partition(".")
            self.assertIn(test, test_documents.python_cases(HERE / f"{file}.py"), name)

    def test_every_flag_names_the_test_of_its_effect(self):
        text = test_documents.help_of(server_process.options.latentd)
        named = {line.split()[0].partition("=")[0] for line in text.splitlines() if line.startswith("  --")}
        self.assertEqual(named - {"--exit-when-ready", *FLAGS}, set())
        self.assertEqual(set(FLAGS) - test_documents.flags(text), set())
        self.assert_tests_exist(FLAGS)

    def test_every_rpc_names_the_test_of_its_effect(self):
        server = Server().start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        services = [name for name in api.services() if name.startswith("latent.v1.")]
        methods = {f"{name.rpartition('.')[2]}/{method.name}" for name in services
                   for method in api.pool.FindServiceByName(name).methods}
        self.assertEqual(methods, set(RPCS))
        self.assert_tests_exist(RPCS)


class WiringTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, **named):
        server = Server(*arguments, **{"buckets": "64x64", **named}).start()
        self.addCleanup(server.kill)
        return server, self.connect(server.address)

    def connect(self, address):
        api = Api(address)
        self.addCleanup(api.close)
        return api

    def picture(self, api, **fields):
        return api.generate(api.request(**fields)).images[0].data

    def refusal(self, api, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.picture(api, **fields)
        return caught.exception

    def key_of(self, api, component):
        graph = next(graph for graph in api.graphs(components=[component]) if graph.users)
        return {field.name: field.value for field in graph.key}


class FlagsTest(WiringTestCase):
    def test_variant_chooses_the_files(self):
        base = self.folder / "base"
        shutil.copytree(checkpoint() / "base", base, symlinks=False)
        plain = base / "unet" / "diffusion_pytorch_model.safetensors"
        (base / "unet" / "diffusion_pytorch_model.fp16.safetensors").write_bytes(plain.read_bytes()[:1000])
        self.start(f"--base={base}", demo=False)
        server = Server(f"--base={base}", "--variant=fp16", demo=False)
        self.addCleanup(server.kill)
        self.assertEqual(server.wait(), 1)
        self.assertIn("fp16.safetensors", server.lines[-1])

    def test_scheduler_is_the_default_where_the_checkpoint_has_none(self):
        base = self.folder / "base"
        shutil.copytree(checkpoint() / "base", base, symlinks=False)
        for file in ("model_index.json", "scheduler/scheduler_config.json"):
            text = (base / file).read_text()
            (base / file).write_text(text.replace("EulerDiscreteScheduler", "CMStochasticIterativeScheduler"))
        server, api = self.start(f"--base={base}", demo=False)
        self.assertEqual(api.capabilities().default_scheduler, "")
        code, output, _ = latent(server, "capabilities")
        self.assertEqual(code, 0)
        self.assertRegex(output, "schedulers +none by default, so that every request has to name one; euler, euler_a, ddim")
        error = self.refusal(api, seed=1)
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        found = server_process.violations(error)
        self.assertEqual(list(found), ["scheduler"])
        self.assertIn("must be one of euler, euler_a, ddim", found["scheduler"])
        code, _, told = latent(server, "generate", "a star", f"--output={self.folder / 'x.png'}")
        self.assertEqual(code, 4)
        self.assertIn("--scheduler: must be one of euler, euler_a, ddim", told)
        euler = self.picture(api, seed=1, scheduler="euler")
        self.assertEqual(server.log().count("no default scheduler, since CMStochasticIterativeScheduler is not supported"), 1)
        _, told = self.start(f"--base={base}", "--scheduler=euler", demo=False)
        self.assertEqual(told.capabilities().default_scheduler, "euler")
        self.assertEqual(self.picture(told, seed=1), euler)
        self.assertNotEqual(self.picture(told, seed=1, scheduler="heun"), euler)
        unknown = Server("--scheduler=magic")
        self.addCleanup(unknown.kill)
        self.assertEqual(unknown.wait(), 2)
        self.assertIn("dpmpp_2m_sde", unknown.lines[-1])

    def test_a_preset_has_the_defaults(self):
        server, api = self.start("--preset=lightning-4")
        base = api.capabilities().models[0]
        self.assertEqual((base.preset, base.default_steps, base.default_guidance_scale), ("lightning-4", 4, 0))
        code, output, _ = latent(server, "capabilities")
        self.assertEqual(code, 0)
        self.assertRegex(output, r"base .* by default 4 steps, guidance 0, .* \(preset lightning-4\)")
        asked = dict(seed=1, scheduler="euler", timestep_spacing="trailing", num_inference_steps=4, guidance_scale=0)
        self.assertEqual(self.picture(api, seed=1, num_inference_steps=None, guidance_scale=None), self.picture(api, **asked))
        code, _, told = latent(server, "generate", "a star", "--num-inference-steps=2", f"--output={self.folder / 'x.png'}")
        self.assertEqual(code, 0)
        self.assertIn("--num-inference-steps 2 is not what a checkpoint of the preset lightning-4 is made for", told)
        unknown = Server("--preset=magic")
        self.addCleanup(unknown.kill)
        self.assertEqual(unknown.wait(), 2)
        self.assertIn("noobai-v", unknown.lines[-1])

    def test_what_the_network_predicts_is_the_operators_to_say(self):
        _, api = self.start()
        base = api.capabilities().models[0]
        self.assertEqual(base.prediction_type, "epsilon")
        self.assertIn("scheduler_config.json", base.prediction_decided_by)
        own, velocity = self.picture(api, seed=1), self.picture(api, seed=1, prediction_type="v_prediction")
        server, told = self.start("--prediction-type=v_prediction")
        base = told.capabilities().models[0]
        self.assertEqual((base.prediction_type, base.prediction_decided_by), ("v_prediction", "--prediction-type"))
        self.assertEqual(self.picture(told, seed=1), velocity)
        self.assertNotEqual(velocity, own)
        code, output, _ = latent(server, "capabilities")
        self.assertEqual(code, 0)
        self.assertRegex(output, "predicts v_prediction, by --prediction-type")
        unknown = Server("--prediction-type=magic")
        self.addCleanup(unknown.kill)
        self.assertEqual(unknown.wait(), 2)
        self.assertIn("epsilon, v_prediction or sample", unknown.lines[-1])

    def test_backend_is_the_one_that_runs(self):
        server = Server("--backend=reference", buckets="64x64").start()
        self.addCleanup(server.kill)
        self.assertEqual(self.key_of(self.connect(server.address), "unet")["backend"], "reference")

    def test_devices_are_gpus(self):
        """SeveralDevicesTest (tests/core/engine) shows that several are used: a machine may have none."""
        for backend, devices, said in (("cpu", "0,1", "--backend=cuda"),
                                       ("cuda", "63", "no GPU 63|no NVIDIA driver|this build has none"),
                                       ("cuda", "62,63", "no GPU 62|no NVIDIA driver|this build has none")):
            server = Server(f"--backend={backend}", f"--devices={devices}", buckets="64x64")
            self.addCleanup(server.kill)
            self.assertIn(server.wait(), (1, 2), devices)
            self.assertRegex(server.lines[-1], said)

    def test_models_are_placed_on_several_gpus(self):
        """PlacementTest (tests/core/engine) shows that they are: a machine may have none."""
        for flags, said in ((["--placement=budget"], "--placement=budget: must be given together with several --devices"),
                            (["--placement=some"], "--placement=some: must be all or budget")):
            server = Server(*flags, buckets="64x64")
            self.addCleanup(server.kill)
            self.assertEqual(server.wait(), 2)
            self.assertIn(said, server.lines[-1])
        server = Server("--backend=cuda", "--devices=62,63", "--placement=budget", buckets="64x64")
        self.addCleanup(server.kill)
        self.assertIn(server.wait(), (1, 2))
        self.assertRegex(server.lines[-1], "no GPU 62|no NVIDIA driver|this build has none")
        server = Server("--placement=all", buckets="64x64").start()
        self.addCleanup(server.kill)

    def test_steps_are_split_on_several_gpus(self):
        """SplitStepsTest (tests/core/engine) shows that they are: a machine may have none."""
        for flags, said in ((["--split=always"], "--split=always: must be given together with several --devices"),
                            (["--split=often"], "--split=often: must be never, auto or always")):
            server = Server(*flags, buckets="64x64")
            self.addCleanup(server.kill)
            self.assertEqual(server.wait(), 2)
            self.assertIn(said, server.lines[-1])
        for when in ("auto", "always"):
            server = Server("--backend=cuda", "--devices=62,63", f"--split={when}", buckets="64x64")
            self.addCleanup(server.kill)
            self.assertIn(server.wait(), (1, 2))
            self.assertRegex(server.lines[-1], "no GPU 62|no NVIDIA driver|this build has none")
        server = Server("--split=never", buckets="64x64").start()
        self.addCleanup(server.kill)
        graphs = self.connect(server.address).graphs(components=["unet"])
        self.assertEqual({graph.part for graph in graphs} & {"network", "advance"}, set())

    def test_a_component_that_is_off_is_refused(self):
        _, api = self.start("--components=vae_encoder=off")
        first = self.picture(api)
        error = self.refusal(api, image=first)
        self.assertIn("vae_encoder", error.details())

    def test_rows_are_those_that_graphs_are_compiled_for(self):
        _, api = self.start("--rows=2")
        rows = {graph.rows for graph in api.graphs(components=["unet"], models=["base"]) if graph.part == "step"}
        self.assertEqual(rows, {2})
        self.assertTrue(self.picture(api))

    def test_max_shared_pixels_bounds_the_rows_of_a_size(self):
        server, api = self.start(f"--max-shared-pixels={4 * 64 * 64}", rows="1,2,4", buckets="64x64,128x64")
        server.wait_for_log(lambda entry: entry["message"] == "row counts above 2")
        rows = {}
        for graph in api.graphs(components=["unet"], models=["base"]):
            if graph.part == "step":
                rows.setdefault(graph.bucket.width, set()).add(graph.rows)
        self.assertEqual(rows, {64: {1, 2, 4}, 128: {1, 2}})
        self.assertTrue(self.picture(api, width=128, height=64))

    def test_prompt_chunks_are_ready_for_long_prompts_beside_short_ones(self):
        long = {"prompt": "a red circle, " * 25, "long_prompt": CHUNK}
        _, api = self.start("--prompt-chunks=2", "--forbid-compile-after-ready")
        requests = [api.request(**fields) for fields in (long, {})]
        alone = [api.generate(request) for request in requests]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            beside = list(pool.map(api.generate, requests))
        for one, other in zip(alone, beside):
            self.assertEqual(one.images[0].data, other.images[0].data)
        self.assertNotEqual(alone[0].images[0].data, self.picture(api, prompt=long["prompt"]))
        done = alone[0].completed
        self.assertEqual((done.prompt_tokens, done.prompt_chunks, done.dropped_tokens), (100, 2, 0))
        longer = {**long, "prompt": long["prompt"] * 2}
        refused = self.refusal(api, **longer)
        self.assertEqual(refused.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("not ready for prompts of 3 chunks", refused.details())

    def test_prompt_blends_are_ready_for_weights_below_one(self):
        less = {"prompt": "a red-- circle", "prompt_syntax": COMPEL}
        _, without = self.start("--forbid-compile-after-ready")
        refused = self.refusal(without, **less)
        self.assertEqual(refused.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("without --prompt-blends", refused.details())
        _, api = self.start("--prompt-blends", "--forbid-compile-after-ready")
        picture = self.picture(api, **less)
        self.assertNotEqual(picture, self.picture(api, prompt="a red circle"))
        self.assertEqual(picture, self.picture(api, **less))

    def test_feature_cache_has_the_graphs_of_an_interval_ready(self):
        cached = {"num_inference_steps": 10, "feature_cache_interval": 2}
        _, without = self.start()
        self.assertEqual(without.capabilities().max_feature_cache_interval, 1)
        refused = self.refusal(without, **cached)
        self.assertEqual(refused.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("feature_cache_interval: needs graphs that this server has with --feature-cache", refused.details())
        whole = self.picture(without, num_inference_steps=10)
        server, api = self.start("--feature-cache", "--forbid-compile-after-ready")
        self.assertEqual(api.capabilities().max_feature_cache_interval, 10)
        requests = [api.request(**{**cached, "feature_cache_interval": interval, "num_inference_steps": steps, "seed": steps})
                    for interval, steps in ((2, 10), (3, 11), (5, 12), (1, 10))]
        alone = [api.generate(request) for request in requests]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            beside = list(pool.map(api.generate, requests))
        for one, other in zip(alone, beside):
            self.assertEqual(one.images[0].data, other.images[0].data)
            self.assertEqual(other.completed.shallow_evaluations, one.completed.shallow_evaluations)
        self.assertEqual([one.completed.shallow_evaluations for one in alone], [3, 4, 5, 0])
        self.assertIn("Feature cache interval: 2", png.read(alone[0].images[0].data)[3]["parameters"])
        self.assertNotIn("Feature cache interval", png.read(alone[3].images[0].data)[3]["parameters"])
        again = api.generate(alone[0].completed.parameters)
        self.assertEqual(again.images[0].data, alone[0].images[0].data)
        self.assertEqual(self.picture(api, num_inference_steps=10), whole)
        self.assertNotEqual(self.picture(api, **cached), whole)
        few = api.generate(api.request(num_inference_steps=4, feature_cache_interval=2))
        warnings = few.completed.warnings
        self.assertTrue(any("feature_cache_interval has no effect" in warning for warning in warnings), warnings)
        self.assertNotIn("Feature cache interval", png.read(few.images[0].data)[3]["parameters"])

    def test_an_effort_is_the_picture_of_its_fields(self):
        steps = {"num_inference_steps": 10}
        auto = {"guidance_stop": "GUIDANCE_STOP_AUTO", **steps}
        cached = {"feature_cache_interval": 3, **auto}

        def efforts(api):
            return [(one.guidance_stop, one.feature_cache_interval) for one in api.capabilities().models[0].efforts]

        _, without = self.start()
        self.assertEqual(efforts(without), [(1, 1), (2, 1), (2, 1)])
        high = without.generate(without.request(effort="EFFORT_FAST", **steps))
        self.assertIn("--feature-cache", high.completed.warnings[0])
        self.assertEqual(high.images[0].data, self.picture(without, **auto))
        _, api = self.start("--feature-cache", "--forbid-compile-after-ready")
        self.assertEqual(efforts(api), [(1, 1), (2, 1), (2, 3)])
        fast = api.generate(api.request(effort="EFFORT_FAST", **steps))
        self.assertEqual(list(fast.completed.warnings), [])
        self.assertEqual(fast.images[0].data, self.picture(api, **cached))
        self.assertNotEqual(fast.images[0].data, high.images[0].data)
        self.assertIn("Feature cache interval: 3", png.read(fast.images[0].data)[3]["parameters"])
        used = fast.completed.parameters
        self.assertEqual((used.effort, used.guidance_stop, used.feature_cache_interval), (3, 2, 3))
        self.assertEqual(api.generate(used).images[0].data, fast.images[0].data)
        self.assertEqual(self.picture(api, effort="EFFORT_HIGH", **steps), high.images[0].data)
        self.assertEqual(self.picture(api, effort="EFFORT_FULL", **steps), self.picture(without, **steps))

    def test_cache_max_bytes_bounds_the_directory(self):
        cache = self.folder / "cache"
        bound = 1 << 20
        server, _ = self.start(f"--cache-max-bytes={bound}", cache=cache)
        self.assertEqual(server.stop(), 0)
        files = [file.stat().st_size for file in cache.glob("*/*.latent")]
        self.assertTrue(files)
        self.assertLessEqual(sum(files), bound)

    def test_forbidden_compiling_refuses_requests_that_would_compile(self):
        server, api = self.start(METRICS, server_process.ALLOW_COLD, "--forbid-compile-after-ready")
        before = compilations(server)
        error = self.refusal(api, width=128, height=64, bucket_policy=server_process.COLD_OK)
        self.assertEqual((error.code(), reason(error)[0]), (grpc.StatusCode.FAILED_PRECONDITION, "COMPILE_FORBIDDEN"))
        self.assertEqual(compilations(server), before)

    def given_up(self, api):
        """Set once the server has told the client to use another connection."""
        connected, given_up = threading.Event(), threading.Event()

        def follow(state):
            if state == grpc.ChannelConnectivity.READY:
                connected.set()
            elif connected.is_set():
                given_up.set()

        api.channel.subscribe(follow)
        return given_up

    def test_a_stream_outlives_its_connection_and_the_next_call_connects_anew(self):
        _, api = self.start("--max-connection-age=1s", buckets="64x64,256x256")
        given_up = self.given_up(api)
        events = api.stream(api.request(width=256, height=256, num_inference_steps=150))
        self.assertTrue(given_up.wait(server_process.DEADLINE))
        self.assertEqual(list(events)[-1].WhichOneof("event"), "completed")
        self.assertTrue(self.picture(api))

    def test_a_connection_that_is_too_old_loses_its_calls_after_the_grace(self):
        _, api = self.start("--max-connection-age=1s", "--max-connection-age-grace=1s", buckets="64x64,256x256")
        request = api.request(width=256, height=256, num_inference_steps=150, num_images_per_prompt=16)
        with self.assertRaises(grpc.RpcError) as caught:
            list(api.stream(request))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertTrue(self.picture(api))

    def test_admin_listen_takes_operators_calls_away_from_listen(self):
        address = f"unix:{self.folder}/admin.sock"
        server, api = self.start(f"--admin-listen={address}")
        self.assertNotIn("latent.v1.Admin", api.services())
        server.wait_for_log(lambda entry: entry["message"] == f"admin on {address}")
        admin = self.connect(address)
        self.assertTrue(admin.call("Admin", "GetServerStatus").version)
        self.assertNotIn("latent.v1.ImageGeneration", admin.services())
        self.assertEqual(latent(server, "status")[0], 4)
        command = [server_process.options.latent, "status"]
        for flags, environment in (([f"--server={address}"], {}), ([], {"LATENT_ADMIN": address})):
            done = subprocess.run(command + flags, env={**os.environ, **environment}, capture_output=True,
                                  timeout=server_process.DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_operators_have_a_socket_that_is_their_users_alone(self):
        server, _ = self.start()
        with grpc.insecure_channel(server.address) as everybody:
            for method in ("/latent.v1.Admin/Drain", "/latent.v1.Admin/GetServerStatus", "/latent.v1.GraphCache/ListGraphs",
                           "/latent.v1.Models/ListModels"):
                with self.assertRaises(grpc.RpcError) as caught:
                    everybody.unary_unary(method)(b"", timeout=server_process.DEADLINE)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        socket = pathlib.Path(server_process.admin_address(server.address).removeprefix("unix:"))
        self.assertEqual(stat.S_IMODE(socket.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(socket.parent.stat().st_mode), 0o700)
        self.assertEqual(latent(server, "status")[0], 0)

    def test_without_a_folder_of_its_own_a_server_does_without_operators(self):
        (self.folder / "latentd").mkdir(mode=0o755)
        server = Server(buckets="64x64", environment={"XDG_RUNTIME_DIR": str(self.folder)}).start()
        self.addCleanup(server.kill)
        line = server.wait_for_log(lambda entry: entry["message"].startswith("GraphCache, Admin, Models and Adapters are off"))
        self.assertEqual(line["level"], "warning")
        self.assertIn("--admin-listen=unix:PATH", line["message"])
        self.assertNotIn("latent.v1.Admin", self.connect(server.address).services())

    def test_health_listen_answers_health_alone(self):
        server, _ = self.start("--health-listen=127.0.0.1:0")
        message = server.wait_for_log(lambda entry: "health on " in entry["message"])["message"]
        health = self.connect(message.rpartition(" ")[2])
        call = health.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(call(b"", timeout=server_process.DEADLINE), b"\x08\x01")  # SERVING
        with self.assertRaises(grpc.RpcError) as caught:
            health.channel.unary_unary("/latent.v1.ImageGeneration/GetCapabilities")(b"", timeout=server_process.DEADLINE)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_threads_are_those_of_the_key(self):
        _, api = self.start("--threads=1")
        self.assertIn("threads-1", self.key_of(api, "unet")["fingerprint"])

    def test_picture_memory_bounds_what_a_request_brings(self):
        _, api = self.start("--picture-memory=8KiB")
        image = png.write(64, 64, bytes(64 * 3))
        self.assertLess(len(image), 4096)
        self.assertTrue(self.picture(api, strength=0.5, image=image))
        error = self.refusal(api, strength=0.5, image=image + bytes(4096))
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("at most 4096 bytes", error.details())

    def test_queue_capacity_refuses_the_picture_that_is_too_many(self):
        _, api = self.start("--queue-capacity=1", buckets="256x256")
        events = api.stream(api.request(width=256, height=256, num_inference_steps=150))
        next(event for event in events if event.HasField("progress"))
        error = self.refusal(api, width=256, height=256)
        self.assertEqual((error.code(), reason(error)), (grpc.StatusCode.RESOURCE_EXHAUSTED, ("QUEUE_FULL", True)))
        events.cancel()

    def test_max_queue_time_refuses_what_would_wait_longer(self):
        _, api = self.start("--max-queue-time=1ms", "--rows=2", buckets="256x256")
        size = {"width": 256, "height": 256}
        api.generate(api.request(**size))  # now it knows what a step takes
        steps = {"num_inference_steps": 150}
        events = api.stream(api.request(**size, **steps))
        next(event for event in events if event.HasField("progress"))
        error = self.refusal(api, **size, **steps)  # as long as the first, which it does not pass
        self.assertEqual((error.code(), reason(error)), (grpc.StatusCode.RESOURCE_EXHAUSTED, ("QUEUE_FULL", True)))
        self.assertEqual(facts(error)["bound"], "time")
        self.assertGreater(float(facts(error)["queued"]), float(facts(error)["limit"]))
        events.cancel()

    def test_log_format_and_level(self):
        server, _ = self.start()
        self.assertEqual(server.stop(), 0)
        self.assertTrue(all(line.startswith("{") for line in server.lines))
        command = [server_process.options.latentd, "--listen=127.0.0.1:0", "--cache-dir=", "--buckets=64x64",
                   f"--base={checkpoint() / 'base'}", "--compile-at-start=false", "--exit-if-degraded"]
        levels = {}
        for level in ("info", "error"):
            log = subprocess.run([*command, "--log-format=text", f"--log-level={level}"], capture_output=True, text=True,
                                 check=False, timeout=server_process.DEADLINE).stderr.splitlines()
            self.assertFalse([line for line in log if line.startswith("{")])
            levels[level] = {line.split()[1] for line in log}
        self.assertLess({"info", "error"}, levels["info"] | {"debug"})
        self.assertEqual(levels["error"], {"error"})  # without a cache it cannot do what it was started for


class LogTest(WiringTestCase):
    def test_a_log_that_nobody_reads_holds_up_nothing_and_is_whole_when_it_is_read(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.write(writer, b"." * fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096))
        socket = self.folder / "latentd.sock"
        server = Server(listen=f"unix:{socket}", buckets="64x64", prepare=lambda: os.dup2(writer, 2))
        self.addCleanup(server.kill)
        os.close(writer)
        server_process.wait_until(socket.exists, "it does not listen")
        api = self.connect(f"unix:{socket}")
        server_process.wait_until(lambda: api.health("latent.v1.ImageGeneration") == "SERVING", "it does not serve")
        for number in range(3):
            self.assertTrue(self.picture(api, request_id=f"unread-{number}"))
        server.signal(signal.SIGTERM)
        with os.fdopen(os.dup(reader)) as log:
            entries = [json.loads(line) for line in log.read().lstrip(".").splitlines()]
        self.assertEqual(server.wait(), 0)
        self.assertEqual([entry["id"] for entry in entries if entry["message"] == "request"], [f"unread-{n}" for n in range(3)])
        self.assertEqual(entries[-1]["message"], "stopped")


class AdminTest(WiringTestCase):
    def test_status_says_what_the_server_does(self):
        server, api = self.start()
        status = api.call("Admin", "GetServerStatus")
        self.assertEqual([(bucket.size.width, bucket.size.height, bucket.ready) for bucket in status.buckets],
                         [(64, 64, True)])
        self.assertGreater(status.ready.ToSeconds(), 0)
        self.assertEqual(latent(server, "status", "--json")[0], 0)

    def test_drain_ends_the_server_and_who_watches_is_told(self):
        server, api = self.start(buckets="256x256")
        watch = api.admin_channel.unary_stream("/latent.v1.Admin/WatchServerStatus",
                                               response_deserializer=api.type("latent.v1.ServerStatus").FromString)
        told = watch(b"", timeout=server_process.DEADLINE)
        self.assertNotEqual(next(told).state, DRAINING)
        running = api.stream(api.request(width=256, height=256, num_inference_steps=4))
        next(event for event in running if event.HasField("progress"))
        api.call("Admin", "Drain")
        next(status for status in told if status.state == DRAINING)
        self.assertEqual(list(running)[-1].WhichOneof("event"), "completed")
        self.assertEqual(server.wait(), 0)

    def test_drain_cancels_what_its_timeout_does_not_cover(self):
        server, api = self.start("--drain-timeout=110s", buckets="256x256")
        running = api.stream(api.request(width=256, height=256, num_inference_steps=150, num_images_per_prompt=16))
        next(event for event in running if event.HasField("progress"))
        self.drain_now(api)
        with self.assertRaises(grpc.RpcError) as caught:
            list(running)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.CANCELLED)
        self.assertEqual(server.wait(), 0)

    def drain_now(self, api):
        # `timeout` is a parameter of Api.call.
        request = api.type("latent.v1.DrainRequest")()
        request.timeout.nanos = 1
        api.admin_channel.unary_unary("/latent.v1.Admin/Drain", request_serializer=lambda message: message.SerializeToString())(
            request, timeout=server_process.DEADLINE)

    def test_the_log_level_changes_what_is_logged(self):
        server, api = self.start()
        self.picture(api, request_id="before")
        server.request_line("before")
        api.call("Admin", "SetLogLevel", level=ERROR)
        self.picture(api, request_id="silent")
        self.assertEqual(server.stop(), 0)  # a line is written after its answer, so what is not there now never comes
        self.assertFalse([line for line in server.lines if '"silent"' in line])

    def test_the_log_level_can_be_raised_again(self):
        server, api = self.start()
        api.call("Admin", "SetLogLevel", level=ERROR)
        api.call("Admin", "SetLogLevel", level=DEBUG)
        self.picture(api, request_id="after")
        server.request_line("after")


class CancelTest(WiringTestCase):
    def test_nothing_is_computed_after_the_step_at_which_a_request_was_cancelled(self):
        server, api = self.start(METRICS, buckets="256x256")

        def steps():
            return scrape(server).sum("latentd_denoise_steps_total", model="base")

        events = api.stream(api.request(width=256, height=256, num_inference_steps=150, request_id="cancelled"))
        next(event for event in events if event.HasField("progress") and event.progress.step > 0)
        events.cancel()
        self.assertEqual(server.request_line("cancelled")["code"], "CANCELLED")
        # Another picture goes through the same loop: whatever the cancelled one still did would be counted by then.
        before = steps()
        self.picture(api, width=256, height=256, num_inference_steps=3)
        self.assertLessEqual(steps() - before, 3 + 1)
        self.assertLess(before, 100)


if __name__ == "__main__":
    unittest.main()
