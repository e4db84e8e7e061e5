#!/usr/bin/env python3
"""Parts of the bench for GPUs that need none: the checkpoint, output read from programs, the table, the budget."""

import argparse
import contextlib
import io
import json
import math
import os
import pathlib
import statistics
import struct
import sys
import tempfile
import time
import unittest
import zlib
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
from full_size import bench, checkpoint, images, machine, measurements, networks, peer_process, processes, results, server, session, video_measurements  # noqa: E402

MACHINE = {"gpu": {"name": "NVIDIA H100", "driver_version": "580.1", "power.limit": 700.0, "clocks.max.sm": 1980.0}, "cpus": 16,
           "cpu": "a processor", "latentd": "latentd 0.1.0", "commit": "abc"}
SETTINGS = {"backend": "cuda", "precision": "bf16", "architecture": "full", "latentd_flags": []}


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class CheckpointTest(FolderTest):
    def write(self, shapes, salt=""):
        path = self.folder / "model.safetensors"
        with ThreadPoolExecutor(2) as threads:
            checkpoint.write_tensors(path, shapes, checkpoint.Numbers(), threads, salt)
        return path

    def values(self, path, name):
        data = path.read_bytes()
        begin, end = checkpoint.read_header(path)[name]["data_offsets"]
        body = 8 + struct.unpack("<Q", data[:8])[0]
        return struct.unpack(f"<{(end - begin) // 2}e", data[body + begin:body + end])

    def test_a_file_has_the_tensors_that_it_names_one_behind_the_other(self):
        shapes = {"a.weight": [3, 5], "a.bias": [3], "b.weight": [2, 3, 3, 3]}
        path = self.write(shapes)
        header = checkpoint.read_header(path)
        self.assertEqual({name: entry["shape"] for name, entry in header.items()}, shapes)
        self.assertEqual([entry["data_offsets"] for entry in header.values()], [[0, 30], [30, 36], [36, 144]])
        beginning = struct.unpack("<Q", path.read_bytes()[:8])[0]
        self.assertEqual(beginning % 8, 0)
        self.assertEqual(path.stat().st_size, 8 + beginning + 144)

    def test_weights_keep_the_size_of_what_they_are_multiplied_with(self):
        path = self.write({"conv.weight": [64, 16, 3, 3], "norm.weight": [2000], "norm.bias": [2000]})
        self.assertAlmostEqual(statistics.stdev(self.values(path, "conv.weight")) * math.sqrt(144), 1, delta=0.05)
        self.assertAlmostEqual(statistics.mean(self.values(path, "norm.weight")), 1, delta=0.02)
        self.assertAlmostEqual(statistics.mean(self.values(path, "norm.bias")), 0, delta=0.02)

    def test_tensors_larger_than_the_pool_go_round_it(self):
        path = self.write({"a.weight": [checkpoint.POOL + 10, 1]})
        values = self.values(path, "a.weight")
        self.assertEqual(values[:10], values[-10:])
        self.assertNotEqual(values[:10], values[10:20])

    def test_equal_shapes_have_other_numbers_and_the_same_file_again_the_same(self):
        shapes = {"a.weight": [4, 4], "b.weight": [4, 4]}
        path = self.write(shapes)
        first = self.values(path, "a.weight")
        self.assertNotEqual(first, self.values(path, "b.weight"))
        self.assertEqual(first, self.values(self.write(shapes), "a.weight"))
        self.assertNotEqual(first, self.values(self.write(shapes, salt="refiner"), "a.weight"))

    def test_the_whole_architectures_are_those_that_were_published(self):
        models = checkpoint.full(ROOT)
        parameters = {f"{model} {name}": sum(math.prod(shape) for shape in component.shapes.values())
                      for model, components in models.items() for name, component in components.items()}
        self.assertEqual(parameters, {
            "base unet": 2_567_463_684, "base vae": 83_653_863, "base text_encoder": 123_060_480, "base text_encoder_2": 694_659_840,
            "refiner unet": 2_259_526_660, "refiner vae": 83_653_863, "refiner text_encoder_2": 694_659_840,
            "other unet": 2_567_463_684, "other vae": 83_653_863, "other text_encoder": 123_060_480, "other text_encoder_2": 694_659_840,
            "adapters edges": 1_251_014_160, "adapters image_encoder": 632_076_800, "adapters painting": 349_188_096,
            **{f"adapters style{number}": 83_722_240 for number in range(8)},
            "svd unet": 1_524_623_082, "svd vae": 97_742_847, "svd image_encoder": 632_076_800,
            "sd15 unet": 859_520_964, "sd15 vae": 83_653_863, "sd15 text_encoder": 123_060_480})
        self.assertEqual(models["base"]["unet"].config["_class_name"], "UNet2DConditionModel")
        self.assertEqual(models["refiner"]["text_encoder_2"].config["architectures"], ["CLIPTextModelWithProjection"])

    def test_a_line_of_a_list_may_stand_for_many_tensors(self):
        path = self.folder / "list.txt"
        path.write_text("3x4 a.weight\n2* 5 layers.#.bias\n6x7x1x1 in_single.weight b.weight\n")
        self.assertEqual(checkpoint.listed_shapes(path), {"a.weight": [3, 4], "layers.0.bias": [5], "layers.1.bias": [5],
                                                          "b.weight": [6, 7, 1, 1]})

    def test_a_control_net_is_the_way_down_with_a_convolution_for_each_skip(self):
        models = checkpoint.reduced(ROOT)
        golden = json.loads((ROOT / "tests/golden/controls/xl_edges.parameters.json").read_text())
        hint = "controlnet_cond_embedding"
        own = models[checkpoint.ADAPTERS][checkpoint.CONTROL].shapes
        self.assertEqual({name: shape for name, shape in own.items() if hint not in name},
                         {name: shape for name, shape in golden.items() if hint not in name})
        self.assertEqual([name for name in own if hint in name], [name for name in golden if hint in name])

    def test_a_checkpoint_that_is_there_is_left_alone(self):
        folder = self.folder / "checkpoint"
        size = checkpoint.write(ROOT, folder, "reduced")
        unet = folder / "base/unet/diffusion_pytorch_model.safetensors"
        written = unet.stat().st_mtime_ns
        self.assertEqual(checkpoint.write(ROOT, folder, "reduced"), size)
        self.assertEqual(unet.stat().st_mtime_ns, written)
        checkpoint.write(ROOT, folder, "reduced", [checkpoint.SD15])
        self.assertTrue((folder / "sd15/unet/diffusion_pytorch_model.safetensors").exists())
        self.assertEqual(json.loads((folder / "sd15/model_index.json").read_text())["_class_name"], "StableDiffusionPipeline")
        self.assertEqual(unet.stat().st_mtime_ns, written)
        (folder / checkpoint.COMPLETE).unlink()
        checkpoint.write(ROOT, folder, "reduced")
        self.assertNotEqual(unet.stat().st_mtime_ns, written)


NETWORK_BENCH = """cuda driver 13.0 sm_90
unet 2@1024x1024 bf16
  passes 0.120 s, plan 5.200 s (5972 bytes, arena 143.6 MiB), digests 0.700 s, load 3.216 s (5.141 GB of weights), capture 0.020 s
  29.600 ms a run, the mean of 3
  runs: 29.5000 29.6000 29.7000
  not finite: 12 values
kernels alone, in all 28.00 ms
  linear                 400   14.200 ms
unet 1@1152x896 bf16
  passes 0.120 s, plan 0.100 s (5972 bytes, arena 80.0 MiB), digests 0.001 s, load 0.010 s (5.141 GB of weights)"""


class ProgramsTest(FolderTest):
    def test_what_the_network_bench_says_of_a_shape(self):
        found = networks.parse(NETWORK_BENCH)
        self.assertEqual([network["shape"] for network in found], ["2@1024x1024"])  # the second one has no runs
        self.assertEqual(found[0]["samples"], [29.5, 29.6, 29.7])
        self.assertEqual((found[0]["plan"], found[0]["load"], found[0]["arena_mib"]), (5.2, 3.216, 143.6))
        self.assertEqual(found[0]["not_finite"], 12)
        self.assertEqual(found[0]["kernels"], ["kernels alone, in all 28.00 ms", "  linear                 400   14.200 ms"])

    def test_a_shape_may_have_frames(self):
        found = networks.parse(NETWORK_BENCH.replace("2@1024x1024", "2@1024x576x25"))
        self.assertEqual([network["shape"] for network in found], ["2@1024x576x25"])

    def test_fields_of_a_request_are_in_the_text_format(self):
        self.assertEqual(server.text_format('a "b"'), '"a \\"b\\""')
        self.assertEqual(server.text_format(server.Text("A_NAME")), "A_NAME")
        self.assertEqual(server.text_format(server.adapter_with_image("edges", b"\x89P\n\"")),
                         '{ name: "edges" image: "\\211\\120\\012\\042" }')

    def test_images_are_pngs(self):
        data = images.png(2, 1, lambda x, y: (x, y, 7))
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", data[16:24]), (2, 1))
        size, = struct.unpack(">I", data[33:37])
        self.assertEqual(zlib.decompress(data[41:41 + size]), b"\0\0\0\7\1\0\7")

    def options_with(self, script):
        program = self.folder / "bench"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return argparse.Namespace(network_bench=program, backend="cuda", precision="bf16", our_environment=dict(os.environ))

    def test_a_network_bench_that_ends_early_keeps_what_it_measured(self):
        (self.folder / "said").write_text(NETWORK_BENCH)
        options = self.options_with(f"cat {self.folder}/said; echo RESOURCE_EXHAUSTED: no memory >&2; exit 1")
        found = networks.measure(options, "checkpoint", "unet", ["2@1024x1024", "1@1152x896"], 3, timeout=60)
        self.assertEqual(found[-1]["ended"], "RESOURCE_EXHAUSTED: no memory")

    def test_a_network_bench_that_measured_nothing_says_why(self):
        with self.assertRaisesRegex(processes.Failure, "no NVIDIA driver"):
            networks.measure(self.options_with("echo no NVIDIA driver >&2; exit 1"), "checkpoint", "unet", ["2@8x8"], 3, timeout=60)

    def test_metrics_are_summed_by_their_labels(self):
        values = server.parse_metrics('# HELP x y\nx_sum{stage="base",bucket="64x64"} 1.5\nx_sum{stage="base",bucket="other"} 2\n'
                                      'x_sum{stage="refiner",bucket="other"} 4\nx_summary 8\n')
        self.assertEqual(server.total(values, "x_sum", stage="base"), 3.5)
        self.assertEqual(server.total(values, "x_sum", stage="text"), 0)
        self.assertEqual(server.by_label(values, "x_sum", "stage"), {"base": 3.5, "refiner": 4})
        self.assertEqual(server.by_label(values, "x_sum", "stage", bucket="other"), {"base": 2, "refiner": 4})

    def test_what_nvidia_smi_does_not_know_stays_text(self):
        found = machine.parse_csv("NVIDIA H100 80GB HBM3, 580.159.04, 700.00, [N/A]\n", ("name", "driver_version", "power.limit", "fan"))
        self.assertEqual(found, [{"name": "NVIDIA H100 80GB HBM3", "driver_version": "580.159.04", "power.limit": 700.0, "fan": "[N/A]"}])

    def test_a_peers_environment_has_the_wheels_and_not_our_libraries(self):
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": "/ours", "PYTHONPATH": "/theirs"}):
            found = peer_process.environment(["/site"], self.folder)
        self.assertNotIn("LD_LIBRARY_PATH", found)
        self.assertEqual(found["PYTHONPATH"], "/site:/theirs")

    def test_a_python_without_torch_is_told_of(self):
        python = self.options_with("echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1").network_bench
        self.assertEqual(peer_process.missing(python, {}), "ModuleNotFoundError: No module named 'torch'")
        self.assertIn("no-python", peer_process.missing(self.folder / "no-python", {}))
        self.assertIsNone(peer_process.missing(self.options_with("exit 0").network_bench, {}))


class ResultsTest(FolderTest):
    def results(self, commit="abc", resume=True):
        return results.Results(self.folder / "bench.json", {**MACHINE, "commit": commit}, SETTINGS, resume)

    def test_cells_have_the_median_and_with_enough_samples_the_90th_percentile(self):
        self.assertEqual(results.cell([]), "-")
        self.assertEqual(results.cell([2, 1, 9]), "2")
        self.assertEqual(results.cell(list(range(1, 11))), "5.5 (9)")
        self.assertEqual(results.percentile([3, 1, 2], 0.9), 3)
        self.assertEqual(results.cell([1234.5]), "1234")

    def test_the_table_says_which_bars_hold(self):
        found = self.results()
        found.add("vae_decode 1@1024x1024", "latentd", [21.9])
        found.add("unet_step 2@1024x1024", "latentd", [30.0])
        found.add("unet_step 2@1024x1024", "compile", [32.0])
        found.add("unet_step 8@1024x1024", "latentd", [90.0])
        lines = results.table(found.document).splitlines()[2:]
        self.assertEqual(lines[0], "| UNet step (rows@size), 2@1024x1024 | ms | 30 | - | 32 | 26 | 21 | MISSED |")
        self.assertEqual(lines[1], "| UNet step (rows@size), 8@1024x1024 | ms | 90 | - | - | - | - |  |")
        self.assertEqual(lines[2], "| VAE decode (rows@size), 1@1024x1024 | ms | 21.9 | - | - | 22 | 15 | holds |")

    def test_a_bar_beside_torch_compile_is_of_the_same_run(self):
        found = self.results()
        found.add("sd15_picture 30@512x512", "latentd", [100.0])
        self.assertEqual(results.table(found.document).splitlines()[-1].split("|")[-5:], [" - ", " - ", " - ", "  ", ""])
        found.add("sd15_picture 30@512x512", "compile", [129.0])
        self.assertIn("| 129 | 99.2 | - | MISSED |", results.table(found.document))
        found.add("sd15_picture 30@512x512", "compile", [140.0, 140.0])
        self.assertIn("| 140 | 108 | - | holds |", results.table(found.document))

    def test_every_bar_is_of_a_figure_that_a_full_bench_makes(self):
        scale = session.FULL
        main, other = session.text(scale.main), session.text(scale.other)
        shapes = {f"2@{main}", f"1@{main}", f"1@{session.text(scale.large)}", f"{scale.steps}@{main}", f"{scale.few_steps}@{main}", main, other, f"{main} {other}"}
        shapes |= {f"{steps}@{session.text(scale.small)}" for steps in (scale.steps, scale.few_steps)}
        clip = video_measurements.clip_name(scale)
        shapes |= {clip, f"{clip}/{scale.chunk}"}
        for figure in (*results.BARS, *results.TIMES_AS_FAST):
            kind, _, shape = figure.partition(" ")
            self.assertIn(kind, results.KINDS)
            self.assertIn(shape, shapes)

    def test_a_bench_goes_on_where_it_was_cut_off(self):
        found = self.results()
        found.add("text", "latentd", 1.5, clock=1980)
        found.end("text", "latentd", "done")
        found.end("text", "eager", "the budget")
        again = self.results()
        self.assertTrue(again.is_done("text", "latentd"))
        self.assertFalse(again.is_done("text", "eager"))
        self.assertEqual(again.samples("text", "latentd"), [1.5])
        self.assertFalse(self.results(resume=False).is_done("text", "latentd"))

    def test_figures_of_another_commit_are_not_mixed_in(self):
        self.results().end("text", "latentd", "done")
        with self.assertRaisesRegex(SystemExit, "another commit"):
            self.results(commit="def")


class RunnerTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.ran = []
        self.options = argparse.Namespace(network_bench=self.folder / "none")
        self.bench = session.Bench(self.options, session.FULL, self.folder, self.folder,
                                        results.Results(None, MACHINE, SETTINGS), start_peer=None)

    def run_with(self, budget, *all_of_it, missing=()):
        runner = bench.Runner(self.bench, {"wanted": ["latentd", "eager", "compile"], "missing": dict.fromkeys(missing, "no torch")},
                              bench.Budget(budget))
        with contextlib.redirect_stdout(io.StringIO()):
            for measurement in all_of_it:
                runner.run(measurement)
        return self.bench.results.document["items"]

    def measurement(self, name, seconds, fails={}, **more):
        def run(_, contestant):
            self.ran.append((name, contestant))
            if contestant in fails:
                raise fails[contestant]

        return measurements.Measurement(name, run, seconds, **more)

    def test_contestants_take_turns(self):
        self.run_with(None, self.measurement("a", {"latentd": 1, "eager": 1}, rounds=lambda scale: 2))
        self.assertEqual(self.ran, [("a", "latentd"), ("a", "eager"), ("a", "latentd"), ("a", "eager")])

    def test_who_fails_leaves_and_the_others_go_on(self):
        ends = self.run_with(None, self.measurement("a", {"latentd": 1, "eager": 1, "compile": 1}, rounds=lambda scale: 2,
                                                   fails={"latentd": processes.Failure("no memory"), "compile": KeyError("total")}))
        self.assertEqual(self.ran, [("a", "latentd"), ("a", "eager"), ("a", "compile"), ("a", "eager")])
        self.assertEqual(ends["a"], {"latentd": "failed: no memory", "eager": "done", "compile": "failed: KeyError: 'total'"})

    def test_what_the_budget_does_not_reach_is_left_out_and_smaller_things_are_not(self):
        ends = self.run_with(100, self.measurement("large", {"latentd": 200}), self.measurement("small", {"latentd": 50}))
        self.assertEqual(self.ran, [("small", "latentd")])
        self.assertIn("the budget", ends["large"]["latentd"])

    def test_what_is_compiled_counts_for_the_budget_once(self):
        measurement = self.measurement("a", {"compile": 10}, networks=lambda scale: (("unet", 2, scale.main),))
        runner = bench.Runner(self.bench, {"wanted": ["compile"], "missing": {}}, bench.Budget(None))
        start, network = bench.PEER_START_SECONDS, bench.COMPILE_SECONDS["unet"]
        self.assertEqual(runner.cost(measurement, "compile"), 10 + start + network)
        self.bench.peers["compile"] = None
        self.bench.compiled.add(("unet", 2, (1024, 1024)))
        self.assertEqual(runner.cost(measurement, "compile"), 10)

    def test_nine_minutes_have_the_most_important_figures_of_all(self):
        runner = bench.Runner(self.bench, {"wanted": [], "missing": {}}, bench.Budget(None))
        seconds = 0
        for measurement in measurements.MEASUREMENTS[:4]:
            seconds += sum(runner.cost(measurement, contestant) for contestant in measurement.seconds)
            self.bench.peers.update(dict.fromkeys(measurement.seconds))
            self.bench.compiled.update(measurement.networks(self.bench.scale))
        self.assertEqual([measurement.name for measurement in measurements.MEASUREMENTS[:4]],
                         ["start_cold", "unet_step", "vae_decode", "picture"])
        self.assertLess(seconds, 500)

    def test_missing_peers_and_programs_are_left_out(self):
        ends = self.run_with(None, self.measurement("a", {"latentd": 1, "eager": 1}, network_bench=True), missing=["eager"])
        self.assertEqual(self.ran, [])
        self.assertIn("none", ends["a"]["latentd"])
        self.assertEqual(ends["a"]["eager"], "not here: no torch")

    def test_what_waits_too_long_fails(self):
        with self.assertRaisesRegex(processes.Failure, "more than"):
            with bench.at_most(0):
                time.sleep(60)  # signal.pause() would wait for ever for an alarm that came just before it


class CommandTest(unittest.TestCase):
    def main(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), mock.patch.object(machine, "nvidia_smi", return_value=[]):
            try:
                return bench.main(list(arguments)), said.getvalue()
            except SystemExit as ended:
                return ended.code, said.getvalue()

    def test_without_a_gpu_it_says_so(self):
        code, said = self.main()
        self.assertEqual(code, 1)
        self.assertIn("no NVIDIA GPU", said)

    def test_wrong_names_and_half_a_resume_are_refused(self):
        self.assertEqual(self.main("--only=picture,pictures")[0], 2)
        self.assertIn("there is no pictures", self.main("--only=picture,pictures")[1])
        self.assertIn("--work", self.main("--resume")[1])

    def test_a_table_can_be_shown_again(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"machine": MACHINE, "settings": SETTINGS, "notes": {}, "items": {"text": {"eager": "failed: it\nended"}},
                       "figures": {"text": {"latentd": {"samples": [1.0]}}}}, file)
            file.flush()
            code, said = self.main(f"--show={file.name}")
        self.assertEqual(code, 0)
        self.assertIn("| text encoders, one row | ms | 1 |", said)
        self.assertIn("left out: text, diffusers, eager: failed: it\n", said)


if __name__ == "__main__":
    unittest.main()
