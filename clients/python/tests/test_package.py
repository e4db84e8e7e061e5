"""The wheel: what is in it, what importing it costs, and that its files are those of the protos."""

import ast
import re
import subprocess
import sys
import unittest
import zipfile

import python_client

python_client.use()

import latent_client  # noqa: E402
from latent_client import connection, request  # noqa: E402

PROJECT = python_client.SOURCES.parents[1]


def stub(name):
    return ast.parse((python_client.installed() / "latent_client" / name).read_text())


def class_of(tree, name):
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def keys(node):
    return [entry.target.id for entry in node.body if isinstance(entry, ast.AnnAssign)]


class PackageTest(unittest.TestCase):
    def test_it_is_pure(self):
        self.assertRegex(python_client.wheel().name, r"^latent_client-[\d.]+-py3-none-any\.whl$")
        with zipfile.ZipFile(python_client.wheel()) as archive:
            names = set(archive.namelist())
        self.assertLessEqual({"latent_client/py.typed", "latent_client/_interface.bin", "latent_client/_parameters.pyi",
                              "latent_client/messages.pyi", "latent_client/video_messages.pyi"}, names)
        self.assertEqual([name for name in names if "test" in name or "hatch" in name], [])

    def test_its_version_is_the_projects(self):
        version, = re.findall(r"project\(latentd VERSION (\S+)", (PROJECT / "CMakeLists.txt").read_text())
        self.assertEqual(latent_client.__version__, version)
        self.assertIn(f"-{version}-", python_client.wheel().name)

    def test_importing_it_imports_nothing_that_is_not_needed(self):
        code = "import sys, latent_client; print(*sorted({'PIL', 'numpy', 'tqdm', 'torch', 'latent_client.aio'} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True,
                              env={"PYTHONPATH": ":".join(sys.path)})
        self.assertEqual((done.stdout, done.stderr), ("\n", ""))

    def test_every_field_of_the_proto_is_a_keyword(self):
        for file, message, names, least in (("image_generation", "GenerateRequest", request.field_names(), 40),
                                            ("video_generation", "GenerateVideoRequest", request.video_field_names(), 20)):
            text = (PROJECT / f"proto/latent/v1/{file}.proto").read_text()
            body = re.search(rf"^message {message} \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)[1]
            fields = re.findall(r"^  (?:optional |repeated )?[\w.]+(?:<.*>)? (\w+) = \d+", body, re.MULTILINE)
            self.assertGreater(len(fields), least)
            self.assertEqual(sorted(names), sorted(fields))

    def test_the_command_lines_options_stay_out(self):
        interface = (python_client.installed() / "latent_client/_interface.bin").read_bytes()
        self.assertIn(b"num_inference_steps", interface)
        self.assertNotIn(b"denoising steps", interface)
        self.assertNotIn(b"descriptor.proto", interface)

    def test_type_checkers_see_the_same_keywords(self):
        tree = stub("_parameters.pyi")
        for kind, first, fields in (("", "prompt", request.field_names()), ("Video", "image", request.video_field_names())):
            named = [name for name in fields if name != first]
            self.assertEqual(keys(class_of(tree, f"Generate{kind}Parameters")), named)
            self.assertEqual(sorted(keys(class_of(tree, f"{kind}CallParameters"))), sorted(request.CALL_KEYWORDS))
        for module in (latent_client.messages, latent_client.video_messages):
            name = module.__name__.rpartition(".")[2]
            classes = {node.name for node in stub(f"{name}.pyi").body if isinstance(node, ast.ClassDef)}
            self.assertEqual({name for name in classes if not hasattr(module, name)}, set())
        source = (python_client.installed() / "latent_client/_parameters.pyi").read_text()
        self.assertIn('bucket_policy: Union[Literal["exact", "snap", "cold_ok"], None]', source)  # an enum of the other proto
        whole = "Tuple[str, FileInput, float, float, float, int]"
        self.assertIn(f"Tuple[str, FileInput], Tuple[str, FileInput, float], Tuple[str, FileInput, float, float, float], {whole}]], None]",
                      source)  # as much of a control as is said
        self.assertIn("from . import messages as", (python_client.installed() / "latent_client/video_messages.pyi").read_text())

    def test_help_shows_the_keywords(self):
        import inspect
        for function in (latent_client.LatentPipeline.__call__, latent_client.AsyncLatentPipeline.stream):
            self.assertIn("num_inference_steps", inspect.signature(function).parameters)
            self.assertIn("generator", inspect.signature(function).parameters)
        for function in (latent_client.LatentPipeline.animate, latent_client.AsyncLatentPipeline.stream_video):
            shown = inspect.signature(function).parameters
            self.assertEqual(list(shown)[:2], ["self", "image"])
            self.assertIs(shown["image"].default, inspect.Parameter.empty)
            self.assertLessEqual({"motion_bucket_id", "decode_chunk_size", "generator"}, set(shown))

    def test_all_names_are_there(self):
        for name in latent_client.__all__:
            self.assertTrue(hasattr(latent_client, name), name)


class AddressTest(unittest.TestCase):
    def test_addresses(self):
        self.assertEqual(connection.parse_address("host:50051"), ("host:50051", False))
        self.assertEqual(connection.parse_address("grpcs://host:443"), ("host:443", True))
        self.assertEqual(connection.parse_address("grpc://[::1]:1/"), ("[::1]:1", False))
        self.assertEqual(connection.parse_address("unix:/run/x"), ("unix:/run/x", False))
        self.assertEqual(connection.parse_address("dns:host:1"), ("dns:host:1", False))

    def test_what_is_none_says_what_would_be(self):
        for text, said in (("host", "did you mean 'host:50051'"), ("50051", "'localhost:50051'"), ("host:0", "1 to 65535"),
                           ("http://host/x", "did you mean 'host:50051'"), ("https://host:9", "'grpcs://host:9'"),
                           ("", "HOST:PORT"), ("a b:1", "HOST:PORT"), ("::1:50051", "HOST:PORT")):
            with self.assertRaises(ValueError) as caught:
                connection.parse_address(text)
            self.assertIn(said, str(caught.exception))

    def test_a_pipeline_takes_no_attributes_that_would_do_nothing(self):
        pipe = latent_client.LatentPipeline("host:1")
        with self.assertRaises(AttributeError):
            pipe.scheduler = "euler"
        with self.assertRaises(AttributeError):
            pipe.enable_freeu(s1=0.9)
        self.assertIs(pipe.to("cuda"), pipe)
        self.assertIs(pipe.enable_model_cpu_offload(), pipe)
        self.assertIs(pipe.set_progress_bar_config(disable=True), pipe)

    def test_half_a_client_certificate(self):
        with self.assertRaisesRegex(ValueError, "belong together"):
            latent_client.Tls(cert=b"x").credentials()


if __name__ == "__main__":
    unittest.main()
