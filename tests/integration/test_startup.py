"""Flags, ports and checkpoints: what is wrong is named, and ends the start."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

import server_process
from server_process import Api, Server, checkpoint


def run(*arguments, environment=None, prepare=None):
    """(exit code, standard output, standard error) of a latentd that is expected to end by itself."""
    command = [server_process.options.latentd, f"--backend={server_process.options.backend}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=server_process.DEADLINE, env=environment,
                          preexec_fn=prepare)
    return done.returncode, done.stdout, done.stderr


def without_roots_rights():
    """In a new process: a file's mode counts for root too, once a program is started."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability)  # PR_CAPBSET_DROP; refused to others, who have none


class FlagsTest(unittest.TestCase):
    def test_help_and_version(self):
        code, output, _ = run("--help")
        self.assertEqual(code, 0)
        self.assertIn("--drain-timeout", output)
        self.assertRegex(run("--version")[1], r"^latentd \d+\.\d+\.\d+\n$")

    def test_wrong_flags(self):
        for arguments, named in ((["--colour=red"], "--colour"), (["--listen=nowhere"], "HOST:PORT"),
                                 (["--queue-capacity=0"], "--queue-capacity"), (["picture"], "picture"),
                                 (["--base="], "--base="), (["--refiner="], "--refiner="),
                                 (["--memory=0"], "8GiB"), (["--threads=2", "--threads=3"], "'2' and as '3'")):
            with self.subTest(arguments=arguments):
                code, _, error = run(*arguments)
                self.assertEqual(code, 2)
                self.assertIn(named, error)

    def test_configuration_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "latentd.conf"
            path.write_text('queue_capacity: 7\nlisten: "127.0.0.1:0"\n')
            code, output, _ = run(f"--config={path}", "--print-config", "--threads=2")
            self.assertEqual(code, 0)
            for line in ("queue_capacity: 7", "threads: 2", 'listen: "127.0.0.1:0"'):
                self.assertIn(line, output)
            for line, named in (("colour: 1", "colour"), ("backend: 77", "CPU, REFERENCE"), ("queue_capacity: 8", "multiple"),
                                ("log_level: 0", "DEBUG")):
                with self.subTest(line=line):
                    path.write_text(f"queue_capacity: 7\n\n{line}\n")
                    code, _, error = run(f"--config={path}")
                    self.assertEqual(code, 2)
                    self.assertIn(f"{path}:3:", error)
                    self.assertIn(named, error)
            path.write_text('base: ""\n')
            code, _, error = run(f"--config={path}")
            self.assertEqual(code, 2)
            self.assertIn("--base=", error)


class PrecisionTest(unittest.TestCase):
    def warnings(self, precision):
        capped = {**os.environ, "DNNL_MAX_CPU_ISA": "AVX512_CORE"}  # without AMX
        return run(f"--precision={precision}", "--base=/nowhere", environment=capped)[2]

    def test_what_makes_nothing_faster_is_said(self):
        if server_process.options.backend != "cpu":
            self.skipTest("of the CPU backend")
        self.assertIn("bf16 is smaller than fp32 and slower on this machine", self.warnings("bf16"))
        self.assertIn("fp16 is neither smaller nor faster", self.warnings("unet_base=fp16"))
        self.assertNotIn("fp32", self.warnings("fp32"))


class CudaTest(unittest.TestCase):
    def test_where_it_cannot_be_it_says_what_is_missing_and_what_to_do(self):
        server = Server("--backend=cuda", environment={"CUDA_VISIBLE_DEVICES": ""})
        self.addCleanup(server.kill)
        self.assertEqual(server.wait(), 1)
        self.assertRegex(json.loads(server.lines[-1])["message"],
                         "this build has none; build with .* --cuda|no NVIDIA driver: .* Install one|no GPU 0: .* decides which")


class OpenMpTest(unittest.TestCase):
    def settings(self, **wanted):
        """The settings that libgomp prints each time that a program is started with it."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GOMP_", "OMP_"))}
        code, output, error = run("--version", environment={**inherited, "OMP_DISPLAY_ENV": "verbose", **wanted})
        self.assertEqual((code, output.split()[0]), (0, "latentd"))
        return re.findall(r"GOMP_SPINCOUNT = '(\w+)'", error)

    def test_spins_briefly_and_initialises_libraries_once(self):
        self.assertEqual(self.settings(), ["300"])

    def test_what_somebody_sets_stays(self):
        self.assertEqual(self.settings(GOMP_SPINCOUNT="7"), ["7"])
        self.assertEqual(self.settings(OMP_WAIT_POLICY="passive"), ["0"])


class ListenTest(unittest.TestCase):
    def test_a_port_in_use(self):
        server = Server()
        self.addCleanup(server.kill)
        server.listening()
        code, _, error = run(f"--listen={server.address}")
        self.assertEqual(code, 1)
        self.assertIn(f"cannot listen on {server.address}", error)
        self.assertIn("in use", error)

    def test_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(listen=f"unix:{folder}/socket")
            self.addCleanup(server.kill)
            server.start()
            self.assertEqual(Api(server.address).health(), "SERVING")
            code, _, error = run(f"--listen=unix:{folder}/socket")
            self.assertEqual(code, 1)
            self.assertIn("another process", error)
            self.assertEqual(server.stop(), 0)

    def test_where_no_socket_of_operators_can_be_the_server_warns_and_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            long = pathlib.Path(folder) / ("x" * 100)
            file = pathlib.Path(folder) / "file"
            long.mkdir()
            file.touch()
            for place in (long, long / "none", file):
                with self.subTest(place=place):
                    server = Server("--compile-at-start=false", environment={"XDG_RUNTIME_DIR": str(place)})
                    self.addCleanup(server.kill)
                    warning = server.wait_for_log(lambda entry: entry["message"].startswith("GraphCache, Admin, Models and Adapters are off"))
                    self.assertEqual(warning["level"], "warning")
                    server.listening()
                    self.assertEqual(Api(server.address).health("liveness"), "SERVING")
                    self.assertEqual(server.stop(), 0)

    def test_an_ipv6_address_needs_brackets(self):
        code, _, error = run("--listen=::1:50051")
        self.assertEqual(code, 2)
        self.assertIn("an IPv6 address, and nothing else, stands in brackets: [::1]:50051", error)

    def test_more_threads_than_cpus_are_not_taken(self):
        server = Server("--threads=1000", "--compile-at-start=false")
        self.addCleanup(server.kill)
        warning = server.wait_for_log(lambda entry: entry["message"].startswith("computes with "))
        cpus = len(os.sched_getaffinity(0))
        self.assertLessEqual(int(warning["message"].split()[2]), cpus)
        self.assertIn("instead of 1000", warning["message"])

    def test_without_arguments_the_demo_is_served(self):
        server = Server(demo=False)
        self.addCleanup(server.kill)
        server.start()
        self.assertTrue(Api(server.address).capabilities().can_refine)

    def test_a_status_says_what_a_ready_server_refuses(self):
        server = Server("--components=unet_base=off")
        self.addCleanup(server.kill)
        ready = server.listening().wait_for_log(lambda entry: entry["message"] == "ready")
        self.assertIn("unet_base is off", ready["reason"])
        api = Api(server.address)
        self.assertIn("unet_base is off", api.call("Admin", "GetServerStatus").reason)
        self.assertEqual([model.component for model in api.capabilities().models], ["refiner"])

    def test_the_port_is_open_while_loading(self):
        server = Server()
        self.addCleanup(server.kill)
        server.listening()
        self.assertEqual(Api(server.address).health("liveness"), "SERVING")


class ExitWhenReadyTest(unittest.TestCase):
    """One process fills the cache, and others only load from it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name) / "cache"

    def prepare(self, *arguments):
        return run("--exit-when-ready", "--listen=127.0.0.1:0", "--log-format=json", f"--base={checkpoint() / 'base'}",
                   "--buckets=64x64,96x64", *(arguments if any(a.startswith("--cache-dir") for a in arguments)
                                              else (*arguments, f"--cache-dir={self.cache}")))

    def test_fills_a_cache_that_others_load_from(self):
        code, _, log = self.prepare()
        self.assertEqual(code, 0, log)
        code, _, log = self.prepare("--compile-at-start=false")
        self.assertEqual(code, 0, log)
        ready = next(entry for entry in map(json.loads, log.splitlines()) if entry["message"] == "ready")
        self.assertEqual(ready["compiled"], 0)
        self.assertGreater(ready["loaded"], 0)
        shared = next(entry for entry in map(json.loads, log.splitlines()) if entry["message"] == "row counts above 2")
        self.assertEqual(shared["ready"], "2/2")

    def test_says_what_is_missing(self):
        code, _, log = self.prepare("--compile-at-start=false")
        self.assertEqual(code, 1)
        self.assertIn("not ready: ", log)
        code, _, log = run("--exit-if-degraded", "--compile-at-start=false", "--listen=127.0.0.1:0",
                           f"--base={checkpoint() / 'base'}", "--buckets=64x64", f"--cache-dir={self.cache}")
        self.assertEqual(code, 1)
        self.assertIn("64x64", log)

    def test_being_stopped_before_it_is_done_is_a_failure(self):
        # Else a Job whose pod is moved to another node would be over with half a cache.
        server = Server("--exit-when-ready", buckets=server_process.DEMO_BUCKETS, cache=self.cache).listening()
        self.addCleanup(server.kill)
        self.assertEqual(server.stop(), 1, server.log())
        # Work that cannot be interrupted and takes too long ends with the process.
        self.assertRegex(server.lines[-1], "stopped before every graph was ready|stopped in the middle of work")

    def test_without_a_cache_to_fill_it_ends_at_once(self):
        file = pathlib.Path(self.cache.parent) / "file"
        file.touch()
        for wrong in ("", str(file), "/proc/none/cache"):
            with self.subTest(cache=wrong):
                code, _, log = self.prepare(f"--cache-dir={wrong}")
                self.assertEqual(code, 2, log)
                self.assertIn("--exit-when-ready compiles for a cache, and nothing would be kept", log)
                self.assertNotIn("listening on", log)


class CheckpointTest(unittest.TestCase):
    """Every one of these is a copy of the demo checkpoint with one thing broken."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.base = self.folder / "base"
        shutil.copytree(checkpoint() / "base", self.base, copy_function=os.symlink)

    def break_file(self, name, data):
        path = self.base / name
        path.unlink()
        if data is not None:
            path.write_bytes(data)

    def assert_fails(self, *named):
        code, _, error = run("--listen=127.0.0.1:0", f"--base={self.base}")
        self.assertEqual(code, 1, error)
        for text in named:
            self.assertIn(text, error)

    def weights(self):
        return next((self.base / "unet").glob("*.safetensors"))

    def break_header(self, change):
        """Rewrites the header of the UNet's weights."""
        path = self.weights()
        data = path.read_bytes()
        size, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        tensors = [name for name in header if name != "__metadata__"]
        change(header, tensors)
        text = json.dumps(header).encode()
        self.break_file(f"unet/{path.name}", struct.pack("<Q", len(text)) + text + data[8 + size:])

    def test_no_such_folder(self):
        self.base = self.folder / "elsewhere"
        self.assert_fails("elsewhere")

    def test_a_folder_that_may_not_be_read(self):
        for folder in (self.base / "unet", self.base / "tokenizer", self.base):
            with self.subTest(folder=folder.name):
                folder.chmod(0)
                try:
                    code, _, error = run("--listen=127.0.0.1:0", f"--base={self.base}", "--cache-dir=",
                                         prepare=without_roots_rights)
                finally:
                    folder.chmod(0o755)
                self.assertEqual(code, 1, error)
                self.assertIn(f"{folder}: Permission denied", error)

    def test_a_loop_of_symbolic_links(self):
        for path in (self.folder / "loop", self.base / "scheduler"):
            with self.subTest(path=path.name):
                if path.exists():
                    shutil.rmtree(path)
                path.symlink_to(path.name)
                base = path if path.parent == self.folder else self.base
                code, _, error = run("--listen=127.0.0.1:0", f"--base={base}", "--cache-dir=")
                self.assertEqual(code, 1, error)
                self.assertIn("levels of symbolic links", error)
                self.assertIn(str(path), error)

    def test_a_folder_that_is_no_checkpoint(self):
        self.base = self.folder
        self.assert_fails("model_index.json")

    def test_truncated_weights(self):
        data = self.weights().read_bytes()
        for size in (0, 7, 100, len(data) - 1):
            with self.subTest(size=size):
                self.break_file(f"unet/{self.weights().name}", data[:size])
                self.assert_fails(self.weights().name)

    def test_an_oversized_header(self):
        for size in (1 << 62, (1 << 64) - 1, 200 << 20):
            with self.subTest(size=size):
                self.break_file(f"unet/{self.weights().name}", struct.pack("<Q", size) + b"{}")
                self.assert_fails(self.weights().name)

    def test_overlapping_tensors(self):
        def overlap(header, tensors):
            header[tensors[1]]["data_offsets"] = header[tensors[0]]["data_offsets"]
        self.break_header(overlap)
        self.assert_fails(self.weights().name)

    def test_a_wrong_dtype(self):
        def change(header, tensors):
            header[tensors[0]]["dtype"] = "F8_E99"
        self.break_header(change)
        self.assert_fails("F8_E99")

    def test_a_missing_tensor(self):
        def rename(header, tensors):
            header["another_name"] = header.pop(tensors[0])
        self.break_header(rename)
        self.assert_fails("unet")

    def test_configurations(self):
        for data in (b"", b"not JSON", b"[" * 10_000, b'{"a":' * 10_000, b"[]", b"{}"):
            with self.subTest(data=data[:20]):
                self.break_file("unet/config.json", data)
                self.assert_fails("unet", "config.json")

    def test_a_scheduler_config_as_diffusers_writes_it(self):
        """-Infinity, which is no JSON, and has been in every DPMSolverMultistepScheduler's file. Guard:
        Checkpoint::SchedulerConfigText (core/weights/containers/checkpoint.cc)."""
        name = "DPMSolverMultistepScheduler"
        index = json.loads((self.base / "model_index.json").read_text())
        self.break_file("model_index.json", json.dumps({**index, "scheduler": ["diffusers", name]}).encode())
        config = json.loads((self.base / "scheduler/scheduler_config.json").read_text())
        config.update(_class_name=name, lambda_min_clipped=float("-inf"))
        self.break_file("scheduler/scheduler_config.json", json.dumps(config).encode())
        code, _, error = run("--listen=127.0.0.1:0", f"--base={self.base}", "--buckets=64x64", "--exit-when-ready")
        self.assertEqual(code, 0, error)
        self.break_file("scheduler/scheduler_config.json", b'{"_class_name": nonsense}')
        self.assert_fails("scheduler_config.json", "is not JSON")

    def test_what_is_ignored_is_said_once(self):
        """Fields that diffusers' EMA writes, notes, leftovers of other pipelines: as diffusers, it starts. Guard: TellAll in
        core/pipeline/loading.cc."""
        for name, fields in (("unet/config.json", {"decay": 0.9999, "use_ema_warmup": False}), ("vae/config.json", {"note": "x"}),
                             ("text_encoder/config.json", {"note": "x"}), ("scheduler/scheduler_config.json", {"note": "x"}),
                             ("model_index.json", {"_class_name": "StableDiffusionXLPAGPipeline", "note": ["x", "y"],
                                                   "force_zeros_for_empty_prompt": None})):
            config = json.loads((self.base / name).read_text())
            self.break_file(name, json.dumps({**config, **fields}).encode())
        server = Server(f"--base={self.base}", demo=False, buckets="64x64").start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        for _ in range(2):
            api.generate(api.request())
        entries = [json.loads(line) for line in server.lines]
        said = [entry["message"] for entry in entries if entry.get("level") == "warning"]
        for text in ("unet/config.json: fields that are not known, and ignored: decay, use_ema_warmup",
                     "vae/config.json: fields that are not known, and ignored: note",
                     "text_encoder/config.json: fields that are not known, and ignored: note",
                     "scheduler/scheduler_config.json: fields that are not known, and ignored: note",
                     "model_index.json: not known, and ignored: note",
                     "model_index.json: _class_name is StableDiffusionXLPAGPipeline; pictures are drawn as by"):
            self.assertEqual(sum(text in message for message in said), 1, (text, said))

    def test_what_is_no_checkpoint_is_named(self):
        (self.base.parent / "controlnet").mkdir()
        (self.base.parent / "controlnet/config.json").write_text('{"_class_name": "ControlNetModel"}')
        header = b'{"unet.conv_in.lora_A.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        (self.base.parent / "lora.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        for name, said in (("controlnet", "it is a ControlNet"), ("lora.safetensors", "is a LoRA"),
                           (f"{self.base.name}/unet", "one part of the checkpoint")):
            with self.subTest(name=name):
                code, _, error = run("--listen=127.0.0.1:0", f"--base={self.base.parent / name}")
                self.assertEqual(code, 1, error)
                self.assertIn(said, error)

    def test_a_refiner_as_the_base(self):
        self.base = checkpoint() / "refiner"
        self.assert_fails("refiner/model_index.json", "give it as the refiner")

    def test_a_base_as_the_refiner(self):
        code, _, error = run("--listen=127.0.0.1:0", f"--base={self.base}", f"--refiner={self.base}")
        self.assertEqual(code, 1, error)
        self.assertIn("_class_name is StableDiffusionXLPipeline", error)

    def test_a_component_of_another_class(self):
        index = json.loads((self.base / "model_index.json").read_text())
        index["unet"] = ["diffusers", "FooModel"]
        self.break_file("model_index.json", json.dumps(index).encode())
        self.assert_fails("model_index.json", "unet is FooModel of diffusers", "UNet2DConditionModel")

    def test_an_empty_list_of_merges(self):
        self.break_file("tokenizer/merges.txt", b"")
        self.assert_fails("tokenizer/merges.txt")

    def test_a_missing_tokenizer_file(self):
        for name in ("tokenizer/vocab.json", "tokenizer_2/merges.txt"):
            with self.subTest(name=name):
                path = self.base / name
                target = path.readlink()
                path.unlink()
                self.assert_fails(name)
                path.symlink_to(target)

    def picture_of(self, base):
        server = Server(f"--base={base}", demo=False).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return api.generate(api.request(prompt="Two Yellow stars, on a caf\u00e9's <|endoftext|> !!!")).images[0].data

    def test_tokenizers_as_transformers_5_saves_them(self):
        """A tokenizer.json, and neither vocab.json nor merges.txt."""
        saved = pathlib.Path(__file__).parents[1] / "core/tokenizer/saved"
        for name in ("tokenizer", "tokenizer_2"):
            folder = self.base / name
            settings = json.loads((folder / "tokenizer_config.json").read_text())
            shutil.rmtree(folder)
            folder.mkdir()
            shutil.copyfile(saved / f"{name}.json", folder / "tokenizer.json")
            settings.update(backend="tokenizers", is_local=True, local_files_only=False)
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        self.assertEqual(self.picture_of(self.base), self.picture_of(checkpoint() / "base"))

    def test_a_tokenizer_of_another_kind(self):
        self.break_file("tokenizer/vocab.json", None)
        (self.base / "tokenizer/tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": [], "unk_id": 0}}')
        self.assert_fails("tokenizer/tokenizer.json: model.type is \"Unigram\"", "\"BPE\"")


if __name__ == "__main__":
    unittest.main()
