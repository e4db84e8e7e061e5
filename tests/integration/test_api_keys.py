"""Keys of --api-key-file at both ways in, by stock clients."""

import http.client
import os
import pathlib
import subprocess
import tempfile
import unittest

import grpc

import server_process
from server_process import DEADLINE, Api, Server, wait_until

FIRST, SECOND = "the-first-key-of-all", "the-second-key-of-all"


class ApiKeysTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "keys"
        self.put(FIRST)
        self.server = Server("--http-listen=127.0.0.1:0", f"--api-key-file={self.file}")
        self.addCleanup(self.server.kill)
        self.api = Api(self.server.start().address)
        self.addCleanup(self.api.close)
        self.http = self.server.wait_for_log(
            lambda entry: entry["message"].startswith("http on "))["message"].removeprefix("http on ")

    def put(self, key, *more):
        new = self.file.with_suffix(".new")
        new.touch(0o600)
        new.write_text("\n".join([f"web {key}", *more, ""]))
        os.replace(new, self.file)

    def by_http(self, key, path="/v1/models"):
        connection = http.client.HTTPConnection(self.http, timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status

    def draw(self, key, request_id):
        metadata = (("authorization", f"Bearer {key}"),)
        return self.api.start_generate(self.api.request(request_id=request_id), metadata=metadata).result(DEADLINE)

    def test_a_key_opens_both_ways_in(self):
        self.assertEqual((self.by_http(FIRST), self.by_http(SECOND)), (200, 401))
        self.assertEqual(len(self.draw(FIRST, "with-a-key").images), 1)
        with self.assertRaises(grpc.RpcError) as caught:
            self.draw(SECOND, "without")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(self.api.health(), "SERVING")
        self.put(SECOND)
        wait_until(lambda: self.by_http(SECOND) == 200, "the new key does not count")
        self.assertEqual(self.by_http(FIRST), 401)
        for key in (FIRST, SECOND):
            self.assertNotIn(key, self.server.log())

    def test_a_role_opens_what_is_for_operators(self):
        self.assertEqual(self.by_http(FIRST, "/latent/v1/memory"), 403)
        self.put(FIRST, f"admin {SECOND} operator")
        wait_until(lambda: self.by_http(SECOND) == 200, "the new key does not count")
        for path in ("/latent/v1/memory", "/latent/v1/graphs"):
            self.assertEqual((self.by_http(FIRST, path), self.by_http(SECOND, path)), (403, 200))

    def test_operators_of_a_shared_socket_show_a_key(self):
        self.put(FIRST, f"admin {SECOND} operator")
        shared = Server(f"--api-key-file={self.file}", listen=f"unix:{self.file.with_name('shared.sock')}")
        self.addCleanup(shared.kill)
        address = shared.start().address
        for command in (["status"], ["memory"], ["graphs", "list"], ["models"], ["adapters"]):
            with self.subTest(command=command):
                code, said = self.latent(*command, key=SECOND, server=address)
                self.assertEqual(code, 0, said)
                code, said = self.latent(*command, key=FIRST, server=address)
                self.assertEqual(code, 4, said)
                self.assertIn("the API key is for drawing", said)
                code, said = self.latent(*command, server=address)
                self.assertEqual(code, 4, said)
                self.assertIn("(--api-key-file or $LATENTD_API_KEY gives it)", said)
        self.assertEqual(self.latent("status")[0], 0)  # at the socket of its own

    def latent(self, *arguments, key=None, server=None):
        """(exit code, what it said). `key`: that of the environment."""
        environment = {**os.environ, **({} if key is None else {"LATENTD_API_KEY": key})}
        run = subprocess.run([server_process.options.latent, *arguments, f"--server={server or self.server.address}"], capture_output=True, text=True,
                             cwd=self.file.parent, env=environment, timeout=DEADLINE)
        return run.returncode, run.stdout + run.stderr

    def test_latent_shows_the_key_of_a_file_or_of_the_environment(self):
        draw = ["generate", "a star", "--width=64", "--height=64", "--num-inference-steps=1", "-o", "star.png", "--force"]
        alone = self.file.with_name("alone")
        alone.write_text(FIRST + "\n")
        for arguments, key in (([f"--api-key-file={self.file}"], None), ([f"--api-key-file={alone}"], SECOND), ([], FIRST)):
            with self.subTest(arguments=arguments):
                code, said = self.latent(*draw, *arguments, key=key)
                self.assertEqual(code, 0, said)
                self.assertEqual(self.latent("capabilities", *arguments, key=key)[0], 0)
                self.assertEqual(self.latent("encode", "a star", "-o", "star.safetensors", "--force", *arguments, key=key)[0], 0)
        code, said = self.latent(*draw)
        self.assertEqual(code, 4, said)
        self.assertIn("asks for an API key", said)
        self.assertIn("(--api-key-file or $LATENTD_API_KEY gives it)", said)
        code, said = self.latent(*draw, key=SECOND)
        self.assertEqual(code, 4, said)
        self.assertIn("the API key is none of this server's\n(it was that of --api-key-file, or of $LATENTD_API_KEY)", said)
        self.assertNotIn(SECOND, said)
        self.assertEqual(self.latent("health"), (0, "SERVING\n"))


if __name__ == "__main__":
    unittest.main()
