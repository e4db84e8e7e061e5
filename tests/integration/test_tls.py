"""TLS: the clients that are served, the errors of all others on both sides, and certificates that change."""

import collections
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

import server_process
from certificates import Authority
from server_process import Api, Server, violations


def credentials(authority, shown=None):
    """A stock client's: whom it believes, and what it shows."""
    return grpc.ssl_channel_credentials(
        authority.pem.read_bytes(), shown.key.read_bytes() if shown else None,
        shown.certificate.read_bytes() if shown else None)


def flags(authority, shown=None):
    """The same for latent."""
    own = [f"--tls-cert={shown.certificate}", f"--tls-key={shown.key}"] if shown else []
    return [f"--tls-ca={authority.pem}", *own]


def latent(*arguments):
    """(exit code, standard output, standard error)."""
    done = subprocess.run([server_process.options.latent, *arguments], capture_output=True, text=True,
                          timeout=server_process.DEADLINE)
    return done.returncode, done.stdout, done.stderr


class TlsCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.servers = Authority(cls.folder, "servers")
        cls.clients = Authority(cls.folder, "clients")
        cls.operators = Authority(cls.folder, "operators")
        cls.other = Authority(cls.folder, "other")
        cls.client = cls.clients.issue("client")
        cls.operator = cls.operators.issue("operator")
        # As Kubernetes mounts a secret: links through a link that is replaced.
        cls.secret = cls.folder / "secret"
        cls.secret.mkdir()
        cls.show(cls.servers.issue("server"))
        for name in ("tls.crt", "tls.key"):
            (cls.secret / name).symlink_to(pathlib.Path("..data", name))

    @classmethod
    def show(cls, certificate):
        """Sets the certificate that the server shows from now on."""
        version = tempfile.mkdtemp(dir=cls.secret)
        shutil.copy(certificate.certificate, os.path.join(version, "tls.crt"))
        shutil.copy(certificate.key, os.path.join(version, "tls.key"))
        (cls.secret / "..data_tmp").symlink_to(os.path.basename(version))
        (cls.secret / "..data_tmp").rename(cls.secret / "..data")

    @classmethod
    def pair(cls):
        return [f"--tls-cert={cls.secret}/tls.crt", f"--tls-key={cls.secret}/tls.key"]

    @classmethod
    def start(cls, *arguments):
        server = Server(*arguments, buckets="64x64")
        cls.addClassCleanup(server.kill)
        return server.start()


class MutualTlsTest(TlsCase):
    """A server that knows its clients, and its operators apart from them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.start(*cls.pair(), f"--tls-client-ca={cls.clients.pem}", "--admin-listen=127.0.0.1:0",
                               f"--admin-tls-client-ca={cls.operators.pem}", "--health-listen=127.0.0.1:0")
        cls.admin = cls.address("admin on ")
        cls.probes = cls.address("health on ")

    @classmethod
    def address(cls, beginning):
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith(beginning))
        return line["message"].removeprefix(beginning)

    def api(self, address, *who):
        api = Api(address, credentials(*who))
        self.addCleanup(api.close)
        return api

    def test_a_client_with_a_certificate_is_served(self):
        api = self.api(self.server.address, self.servers, self.client)
        self.assertEqual(len(api.generate(api.request()).images), 1)
        self.assertEqual(api.health("latent.v1.ImageGeneration"), "SERVING")
        who = [f"--server={self.server.address}", *flags(self.servers, self.client)]
        picture = self.folder / "star.png"
        code, _, error = latent("generate", "a star", "--width=64", "--height=64", "--num-inference-steps=2",
                                f"--output={picture}", *who)
        self.assertEqual(code, 0, error)
        self.assertTrue(picture.exists())
        for command in (["capabilities"], ["health"]):
            code, _, error = latent(*command, *who)
            self.assertEqual(code, 0, error)

    def test_an_operator_with_a_certificate_is_served(self):
        who = [f"--server={self.admin}", *flags(self.servers, self.operator)]
        for command in (["status"], ["memory"], ["graphs", "list"], ["health"]):
            code, _, error = latent(*command, *who)
            self.assertEqual(code, 0, error)

    def test_everybody_else_is_told_why_not(self):
        for who, code, reason in (
                ((self.servers,), grpc.StatusCode.UNAUTHENTICATED, "client certificate"),
                ((self.servers, self.other.issue("stranger")), grpc.StatusCode.PERMISSION_DENIED, "CN=stranger"),
                ((self.servers, self.clients.issue_expired("late")), grpc.StatusCode.PERMISSION_DENIED, "expired"),
                ((self.servers, self.operator), grpc.StatusCode.PERMISSION_DENIED, "CN=operator")):
            with self.subTest(reason=reason), self.assertRaises(grpc.RpcError) as failed:
                self.api(self.server.address, *who).capabilities()
            self.assertEqual(failed.exception.code(), code)
            self.assertIn(reason, failed.exception.details())
        self.server.wait_for_log(lambda entry: entry["message"] == "call refused" and "certificate" in entry["reason"])

    def test_latent_says_why_it_is_refused(self):
        code, _, error = latent("capabilities", f"--server={self.server.address}", *flags(self.servers))
        self.assertEqual(code, 4)
        self.assertIn("client certificate", error)
        code, _, error = latent("status", f"--server={self.admin}", *flags(self.servers, self.client))
        self.assertEqual(code, 4)
        self.assertIn("CN=client", error)

    def test_no_method_of_operators_is_for_others(self):
        operator = self.api(self.admin, self.servers, self.operator)
        methods = [f"/{service}/{method.name}" for service in operator.services()
                   for method in operator.pool.FindServiceByName(service).methods]
        self.assertTrue({"/latent.v1.Admin/Drain", "/latent.v1.GraphCache/ImportGraphs"} <= set(methods), methods)
        strangers = ((credentials(self.servers), grpc.StatusCode.UNAUTHENTICATED),
                     (credentials(self.servers, self.client), grpc.StatusCode.PERMISSION_DENIED),
                     (credentials(self.servers, self.operators.issue_expired("gone")),
                      grpc.StatusCode.PERMISSION_DENIED))
        for stranger, expected in strangers:
            channel = grpc.secure_channel(self.admin, stranger, options=[("grpc.use_local_subchannel_pool", 1)])
            for method in methods:
                with self.subTest(method=method, expected=expected):
                    self.assertEqual(code_of(channel, method), expected)
            channel.close()
        client = self.api(self.server.address, self.servers, self.client)
        for method in methods:
            if method.startswith("/latent.v1."):
                self.assertEqual(code_of(client.channel, method), grpc.StatusCode.UNIMPLEMENTED, method)
        self.assertEqual(latent("status", f"--server={self.admin}", *flags(self.servers, self.operator))[0], 0)

    def test_probes_get_health_in_plain_text_and_nothing_else(self):
        for service in ([], ["--service=liveness"], ["--service=latent.v1.ImageGeneration"]):
            self.assertEqual(latent("health", f"--server={self.probes}", *service)[:2], (0, "SERVING\n"))
        with grpc.insecure_channel(self.probes) as channel:
            for method in ("/latent.v1.ImageGeneration/Generate", "/latent.v1.Admin/Drain",
                           "/latent.v1.GraphCache/ListGraphs",
                           "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"):
                self.assertEqual(code_of(channel, method), grpc.StatusCode.UNIMPLEMENTED, method)


class CallerTest(TlsCase):
    """Callers that their certificates name."""

    def test_each_may_be_as_urgent_as_the_operator_says(self):
        server = self.start(*self.pair(), f"--tls-client-ca={self.clients.pem}", "--max-priority=1",
                            "--caller-max-priority=renderer.example.org=2,batch.example.org=0")
        renderer = self.clients.issue("renderer", names="URI:spiffe://example.org/r,DNS:renderer.example.org")
        batch = self.clients.issue("batch", names="DNS:batch.example.org")
        for who, highest in ((renderer, 2), (batch, 0), (self.client, 1)):
            api = Api(server.address, credentials(self.servers, who))
            self.addCleanup(api.close)
            self.assertEqual(api.capabilities().max_priority, highest)
            self.assertTrue(api.generate(api.request(priority=highest)).images)
            for fields in ({}, {"output": {"quality": 101}}):  # alone, and beside what is found before
                with self.assertRaises(grpc.RpcError) as caught:
                    api.generate(api.request(priority=highest + 1, **fields))
                self.assertEqual(violations(caught.exception)["priority"],
                                 f"must be -3 to {highest} for this caller, is {highest + 1}")


def code_of(channel, method):
    """The status of a call with an empty message."""
    call = channel.stream_stream(method)(iter([b""]), timeout=server_process.DEADLINE)
    try:
        collections.deque(call, maxlen=0)
    except grpc.RpcError:
        pass
    return call.code()


class HandshakeTest(TlsCase):
    """A server that shows a certificate and asks for none."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.start(*cls.pair(), "--health-listen=127.0.0.1:0")

    def failure(self, *arguments, server=None):
        """The error message of latent for a server that it cannot use."""
        code, _, error = latent("capabilities", f"--server={server or self.server.address}", *arguments)
        self.assertEqual(code, 3, error)
        self.assertIn(server or self.server.address, error)
        return error

    def plain_address(self):
        line = self.server.wait_for_log(lambda entry: entry["message"].startswith("health on "))
        return line["message"].removeprefix("health on ")

    def until_logged(self, reason, cause):
        """One failure a second is logged: another one may have taken this one's place."""
        end = time.monotonic() + server_process.DEADLINE
        while not any(reason in line for line in self.server.lines):
            self.assertLess(time.monotonic(), end, self.server.log())
            cause()
            time.sleep(0.3)

    def test_an_authority_that_did_not_sign(self):
        self.assertIn("not accepted: ", self.failure(*flags(self.other)))
        self.until_logged("does not trust", lambda: self.failure(*flags(self.other)))

    def test_the_systems_authorities(self):
        self.assertIn("not accepted: ", self.failure("--tls"))

    def test_another_name(self):
        self.assertIn("mismatch", self.failure(*flags(self.servers), "--tls-server-name=example.org"))

    def test_what_no_retry_mends_is_said_at_once(self):
        plain = self.plain_address()
        for server, arguments, reason in ((self.server.address, flags(self.other), "not accepted: "),
                                          (self.server.address, [], "speaks TLS: give --tls"),
                                          (plain, flags(self.servers), "does not speak TLS")):
            with self.subTest(reason=reason):
                code, _, error = latent("generate", "a star", "--output=-", "--format=png", f"--server={server}", *arguments)
                self.assertEqual(code, 3, error)
                self.assertIn(reason, error)
                self.assertNotIn("trying again", error)
                self.assertIn(reason, latent("health", "--wait=1h", f"--server={server}", *arguments)[2])

    def test_the_name_can_be_said(self):
        code, _, error = latent("capabilities", f"--server={self.server.address}", *flags(self.servers),
                                "--tls-server-name=localhost")
        self.assertEqual(code, 0, error)

    def test_plain_text_to_tls(self):
        self.assertIn("speaks TLS: give --tls", self.failure())
        self.until_logged("does not speak TLS", self.failure)

    def test_tls_to_plain_text(self):
        server = self.plain_address()
        self.assertIn("does not speak TLS", self.failure(*flags(self.servers), server=server))
        self.until_logged("the client speaks TLS, and this port does not",
                          lambda: self.failure(*flags(self.servers), server=server))

    def test_an_expired_certificate(self):
        # latentd does not start with one.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        expired = self.servers.issue_expired("expired")
        context.load_cert_chain(expired.certificate, expired.key)
        context.set_alpn_protocols(["h2"])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=answer, args=(listener, context), daemon=True)
            thread.start()
            error = self.failure(*flags(self.servers), server=f"127.0.0.1:{listener.getsockname()[1]}")
        self.assertIn("expired", error)

    def test_old_versions(self):
        context = ssl.create_default_context(cafile=self.servers.pem)
        context.set_alpn_protocols(["h2"])
        for version, served in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, True),
                                (ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1, False)):
            context.set_ciphers("ALL:@SECLEVEL=0" if not served else "DEFAULT")
            context.minimum_version = context.maximum_version = version
            with self.subTest(version=version):
                if served:
                    self.assertEqual(self.shake_hands(context), "h2")
                else:
                    self.assertRaises(ssl.SSLError, self.shake_hands, context)
        self.until_logged("older than 1.2", lambda: self.assertRaises(ssl.SSLError, self.shake_hands, context))

    def shake_hands(self, context):
        """The protocol that is agreed on."""
        host, port = self.server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                return connection.selected_alpn_protocol()


def answer(listener, context):
    """Shakes hands with all clients, until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            connection.close()


class RotationTest(TlsCase):
    """Certificates that change while the server runs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.start(*cls.pair())

    def believes(self, authority):
        return latent("capabilities", f"--server={self.server.address}", *flags(authority))[0] == 0

    def wait_for_change(self, number):
        """Until so many changes have been followed."""
        seen = 0

        def condition(entry):
            nonlocal seen
            seen += entry["message"] == "TLS files have changed"
            return seen == number

        self.server.wait_for_log(condition)

    def test_a_stream_survives(self):
        api = Api(self.server.address, credentials(self.servers))
        self.addCleanup(api.close)
        stream = api.stream(api.request(num_inference_steps=150, num_images_per_prompt=8, request_id="rotated"))
        self.assertEqual(next(stream).WhichOneof("event"), "queued")
        self.show(self.other.issue("second"))
        self.wait_for_change(1)
        self.assertTrue(self.believes(self.other))
        self.assertFalse(self.believes(self.servers))
        self.assertFalse(any('"rotated"' in line for line in self.server.lines), "the stream has ended too early")
        self.assertEqual([event.WhichOneof("event") for event in stream][-1], "completed")
        self.assertEqual(api.health(), "SERVING")  # the old connection goes on

        # Half of a pair, written in place: nothing changes but the log.
        third = self.servers.issue("third")
        for content, reason in ((third.key.read_bytes(), "is not that of"), (b"", "no private key")):
            (self.secret / "tls.key").write_bytes(content)
            line = self.server.wait_for_log(
                lambda entry: entry["message"].startswith("TLS reload failed") and reason in entry["reason"])
            self.assertIn("tls.key", line["reason"])
            self.assertTrue(self.believes(self.other))
        self.show(third)
        self.wait_for_change(2)
        self.assertTrue(self.believes(self.servers))


class StartTest(TlsCase):
    """Files that a server does not start with."""

    def refused(self, code, *arguments):
        server = Server(*arguments, buckets="64x64")
        self.addCleanup(server.kill)
        self.assertEqual(server.wait(), code, server.log())
        return server.log()

    def test_half_a_pair(self):
        self.assertIn("--tls-key", self.refused(2, f"--tls-cert={self.secret}/tls.crt"))

    def test_an_authority_of_operators_without_their_port(self):
        self.assertIn("--admin-listen", self.refused(2, *self.pair(), f"--admin-tls-client-ca={self.operators.pem}"))

    def test_a_missing_file(self):
        self.assertIn("/missing.pem", self.refused(1, f"--tls-cert={self.secret}/tls.crt", "--tls-key=/missing.pem"))

    def test_a_key_of_another_certificate(self):
        log = self.refused(1, f"--tls-cert={self.secret}/tls.crt", f"--tls-key={self.client.key}")
        self.assertIn("client.key: the key is not that of", log)

    def test_an_expired_certificate(self):
        expired = self.servers.issue_expired("expired")
        log = self.refused(1, f"--tls-cert={expired.certificate}", f"--tls-key={expired.key}")
        self.assertIn("expired.pem: the certificate expired at 2020-01-02", log)

    def test_an_authority_that_is_none(self):
        self.assertIn("client.key: no certificate", self.refused(1, *self.pair(), f"--tls-client-ca={self.client.key}"))

    def test_latents_own_files_are_checked_first(self):
        late = self.clients.issue_expired("late")
        for arguments, reason in (([f"--tls-cert={self.client.certificate}"], "--tls-key"),
                                  ([f"--tls-cert={self.client.certificate}", f"--tls-key={self.operator.key}"],
                                   "is not that of"),
                                  ([f"--tls-cert={late.certificate}", f"--tls-key={late.key}"], "expired"),
                                  (["--tls-ca=/missing.pem"], "/missing.pem"),
                                  ([f"--tls-ca={self.client.key}"], "no certificate")):
            code, _, error = latent("capabilities", *arguments)
            self.assertEqual(code, 2, error)
            self.assertIn(reason, error)


if __name__ == "__main__":
    unittest.main()
