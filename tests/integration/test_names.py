"""File names that are not UTF-8: whatever has to do with such a checkpoint can be read, by every client."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import server_process
from metrics import METRICS, scrape
from server_process import Api, Server, checkpoint, wait_until

LATIN = os.fsdecode(b"caf\xe9")  # Latin-1
READABLE = r"caf\xe9"
DEGRADED = 4  # latent.v1.ServerState
TENSORS = "unet/diffusion_pytorch_model.safetensors"


def latent(server, *arguments):
    """(exit code, standard output, standard error), both strictly UTF-8."""
    command = [server_process.options.latent, *arguments, f"--server={server.address}"]
    done = subprocess.run(command, capture_output=True, timeout=server_process.DEADLINE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class FileNamesTest(unittest.TestCase):
    """Guard: server/calls/serialize.cc for messages, core/metrics/registry.cc for metrics, server/process/logs/log.cc for the log."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = pathlib.Path(folder.name) / LATIN
        shutil.copytree(checkpoint() / "base", self.model)

    def start(self, *arguments):
        server = Server(METRICS, f"--base={self.model}", *arguments, demo=False, buckets="64x64").start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def break_tensors(self):
        with open(self.model / TENSORS, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\1\2\3\4")

    def test_answers_metrics_and_the_log_can_be_read(self):
        server, api = self.start()
        self.assertIn(READABLE, str(api.capabilities()).replace("\\\\", "\\"))
        self.assertTrue(scrape(server).families)
        code, out, error = latent(server, "capabilities")
        self.assertEqual((code, READABLE in out), (0, True), out + error)
        self.break_tensors()
        wait_until(lambda: api.call("Admin", "GetServerStatus").state == DEGRADED, "the edit was not noticed")
        self.assertIn(READABLE, api.call("Admin", "GetServerStatus").reason)
        self.assertTrue(scrape(server).families)
        code, out, error = latent(server, "status")
        self.assertIn(READABLE, out + error)
        code, out, error = latent(server, "graphs", "warm", "--bucket=128x128")
        self.assertIn(READABLE, out + error)
        self.assertNotEqual(code, 0)
        server.stop()
        self.assertIn(READABLE, server.log().replace("\\\\", "\\"))

    def test_a_checkpoint_that_is_not_there_is_named(self):
        done = subprocess.run([server_process.options.latentd, "--listen=127.0.0.1:0", f"--base={self.model}-none"],
                              capture_output=True, timeout=server_process.DEADLINE)
        self.assertIn(READABLE + "-none", done.stderr.decode())

    def test_a_printed_configuration_names_the_same_file(self):
        printed = subprocess.run([server_process.options.latentd, f"--base={self.model}", "--print-config"],
                                 capture_output=True, timeout=server_process.DEADLINE).stdout.decode()
        config = self.model.parent / "latentd.conf"
        config.write_text(printed)
        again = subprocess.run([server_process.options.latentd, f"--config={config}", "--print-config"],
                               capture_output=True, timeout=server_process.DEADLINE)
        self.assertEqual(again.stdout.decode(), printed, again.stderr)
        self.assertIn("base: ", printed)


if __name__ == "__main__":
    unittest.main()
