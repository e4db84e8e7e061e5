"""A latentd that a test starts, and calls of it through reflection: no code is generated from the protos."""

import json
import os
import pathlib
import queue
import signal
import stat
import subprocess
import tempfile
import threading
import time

import grpc
from google.protobuf import descriptor_pb2  # noqa: F401  (the pool below needs it loaded)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

DEADLINE = 120  # seconds, for what takes milliseconds on a machine that does nothing else

options = None
_runtime = None


def wait_until(condition, what):
    """Waits for the condition; fails with `what` if it does not come true."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def configure(command_line):
    """For all tests of the process, whose servers and clients meet at sockets in a folder of its own."""
    global options, _runtime
    options = command_line
    _runtime = tempfile.TemporaryDirectory(prefix="latentd-")
    os.environ["XDG_RUNTIME_DIR"] = _runtime.name
    for name in ("LATENT_ADMIN", "LATENTD_API_KEY"):
        os.environ.pop(name, None)
    for name in ("latentd", "latent", "checkpoint"):
        setattr(options, name, str(pathlib.Path(getattr(options, name)).resolve(strict=True)))


def checkpoint() -> pathlib.Path:
    return pathlib.Path(options.checkpoint)


SMALL_BUCKETS = "64x64,96x64"  # for tests that are not about buckets
ROWS = "1,2"  # for tests that are not about rows: when the server is ready, all its graphs are
DEMO_BUCKETS = ""  # the model's own

EXACT, SNAP, COLD_OK = 1, 2, 3  # latent.v1.BucketPolicy
ALLOW_COLD = "--allow-cold-requests"  # required for COLD_OK


def admin_address(address):
    """The address of the services for operators of the server at `address`, unless its flags named another."""
    if address.startswith("unix:"):
        return address
    socket = pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "latentd", address.rpartition(":")[2] + ".sock")
    return f"unix:{socket}" if socket.exists() and stat.S_ISSOCK(socket.stat().st_mode) else address


class Server:
    """A running latentd. Its log is JSON, its port free; `lines` collects what it logs.

    It serves the demo checkpoint in float32 in a few small buckets and keeps no cache, unless the arguments say otherwise. `prepare`
    is called in the new process before latentd starts, `environment` is added to this one's."""

    def __init__(self, *arguments, demo=True, listen="127.0.0.1:0", buckets=SMALL_BUCKETS, rows=ROWS, cache="", prepare=None,
                 environment=None):
        usual = [f"--listen={listen}", "--log-format=json", f"--backend={options.backend}", f"--buckets={buckets}",
                 f"--cache-dir={cache}"]
        if rows:  # else latentd's own
            usual.append(f"--rows={rows}")
        given = {argument.partition("=")[0] for argument in arguments}  # a flag with two values is an error
        if "--config" not in given:  # may name another
            usual.append("--precision=fp32")
        command = [options.latentd, *(flag for flag in usual if flag.partition("=")[0] not in given)]
        if demo:
            command += [f"--base={checkpoint() / 'base'}", f"--refiner={checkpoint() / 'refiner'}"]
        self.process = subprocess.Popen(command + list(arguments), stderr=subprocess.PIPE, text=True,
                                        preexec_fn=prepare, env={**os.environ, **(environment or {})})
        self.lines = []
        self._news = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = None

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            self._news.put(line)
        self._news.put(None)

    def wait_for_log(self, condition):
        """The first line, parsed, that fulfils the condition."""
        seen = 0
        end = time.monotonic() + DEADLINE
        while True:
            while seen < len(self.lines):
                try:
                    entry = json.loads(self.lines[seen])
                except json.JSONDecodeError:
                    raise AssertionError("latentd wrote what is no line of its log: " + self.log()) from None
                seen += 1
                if condition(entry):
                    return entry
            try:
                if self._news.get(timeout=max(0.0, end - time.monotonic())) is None and seen == len(self.lines):
                    raise AssertionError("latentd ended: " + self.log())
            except queue.Empty:
                raise AssertionError("latentd did not log that: " + self.log()) from None

    def log(self):
        return "\n".join(self.lines)

    def start(self):
        """Waits until pictures can be asked for."""
        self.listening()
        self.wait_for_log(lambda entry: entry["message"] == "ready")
        return self

    def listening(self):
        message = self.wait_for_log(lambda entry: entry["message"].startswith("listening on "))["message"]
        self.address = message.removeprefix("listening on ")
        return self

    def request_line(self, request_id):
        return self.wait_for_log(lambda entry: entry["message"] == "request" and entry.get("id") == request_id)

    def descriptors(self):
        """How many it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_bytes(self):
        """Bytes of memory that it holds now."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise AssertionError("no VmRSS")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """The exit code."""
        code = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return code

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        self.process.stderr.close()


class Api:
    """latent.v1 as the server describes it: the calls for all clients, and at its socket those for operators."""

    SERVICE = "/latent.v1.ImageGeneration/"

    def __init__(self, address, credentials=None):
        own = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = (grpc.secure_channel(address, credentials, options=own) if credentials
                        else grpc.insecure_channel(address, options=own))
        admin = admin_address(address)
        self.admin_channel = self.channel if admin == address else grpc.insecure_channel(admin, options=own)
        self.pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))

    def channel_of(self, path):
        """The channel on which to call a method such as /latent.v1.Admin/Drain."""
        return self.admin_channel if path.startswith(("/latent.v1.Admin/", "/latent.v1.GraphCache/", "/latent.v1.Models/", "/latent.v1.Adapters/")) else self.channel

    def services(self):
        """Their names, as reflection has them."""
        return [service for channel in {self.channel, self.admin_channel}
                for service in ProtoReflectionDescriptorDatabase(channel).get_services()]

    def type(self, name):
        return GetMessageClass(self.pool.FindMessageTypeByName(name))

    def request(self, **fields):
        """A small picture, unless the fields say otherwise."""
        small = {"prompt": "a red circle on a blue background", "width": 64, "height": 64, "num_inference_steps": 2,
                 "seed": 7}
        return self.type("latent.v1.GenerateRequest")(**{**small, **fields})

    def generate(self, request, timeout=None):
        return self.start_generate(request, timeout).result(DEADLINE)

    def start_generate(self, request, timeout=None, metadata=None):
        """Without a deadline where there is no timeout: the server refuses what it cannot draw by then."""
        method = self.channel.unary_unary(
            self.SERVICE + "Generate", request_serializer=_serialize,
            response_deserializer=self.type("latent.v1.GenerateResponse").FromString)
        return method.future(request, timeout=timeout, metadata=metadata)

    def stream(self, request, timeout=None, metadata=None):
        """Without a deadline where there is no timeout, likewise."""
        method = self.channel.unary_stream(
            self.SERVICE + "GenerateStream", request_serializer=_serialize,
            response_deserializer=self.type("latent.v1.GenerateEvent").FromString)
        return method(request, timeout=timeout, metadata=metadata)

    def capabilities(self):
        method = self.channel.unary_unary(
            self.SERVICE + "GetCapabilities", request_serializer=_serialize,
            response_deserializer=self.type("latent.v1.GetCapabilitiesResponse").FromString)
        return method(self.type("latent.v1.GetCapabilitiesRequest")(), timeout=DEADLINE)

    def call(self, service, method, timeout=DEADLINE, **fields):
        """A unary call of latent.v1.SERVICE, or the list of events of a streaming one."""
        described = self.pool.FindServiceByName("latent.v1." + service).FindMethodByName(method)
        request = GetMessageClass(described.input_type)(**fields)
        path = f"/latent.v1.{service}/{method}"
        channel = self.channel_of(path)
        make = channel.unary_stream if described.server_streaming else channel.unary_unary
        called = make(path, request_serializer=_serialize,
                      response_deserializer=GetMessageClass(described.output_type).FromString)
        answer = called(request, timeout=timeout)
        return list(answer) if described.server_streaming else answer

    def graphs(self, **selector):
        """The answer of ListGraphs; all graphs without a selector."""
        fields = {"selector": selector} if selector else {}
        return list(self.call("GraphCache", "ListGraphs", **fields).graphs)

    def health(self, service=""):
        """SERVING, NOT_SERVING."""
        response_type = self.type("grpc.health.v1.HealthCheckResponse")
        method = self.channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=_serialize,
                                          response_deserializer=response_type.FromString)
        response = method(self.type("grpc.health.v1.HealthCheckRequest")(service=service), timeout=DEADLINE)
        return response_type.ServingStatus.Name(response.status)

    def close(self):
        self.channel.close()
        self.admin_channel.close()


def _serialize(message):
    return message if isinstance(message, bytes) else message.SerializeToString()


def violations(error):
    """{field: description} of a failed call."""
    fields = {}
    for field, value in _details(error, "google.rpc.BadRequest"):
        if field == 1:
            parts = dict(_wire(value))
            fields[parts.get(1, b"").decode()] = parts.get(2, b"").decode()
    return fields


def reason(error):
    """ErrorInfo's reason, and whether there is a retry delay."""
    info = dict(_details(error, "google.rpc.ErrorInfo"))
    return info.get(1, b"").decode(), bool(list(_details(error, "google.rpc.RetryInfo")))


def facts(error):
    """ErrorInfo's metadata."""
    entries = (dict(_wire(value)) for field, value in _details(error, "google.rpc.ErrorInfo") if field == 3)
    return {entry[1].decode(): entry.get(2, b"").decode() for entry in entries}


def retry_seconds(error):
    """When RetryInfo says to come back; None where there is none."""
    for field, value in _details(error, "google.rpc.RetryInfo"):
        if field == 1:
            duration = dict(_wire(value))
            return duration.get(1, 0) + duration.get(2, 0) / 1e9
    return None


def _details(error, name):
    """The fields of the detail of that type: what any language's client finds in grpc-status-details-bin."""
    metadata = dict(error.trailing_metadata() or ())
    for field, value in _wire(metadata.get("grpc-status-details-bin", b"")):
        if field == 3:
            any_message = dict(_wire(value))
            if any_message[1].decode().endswith("/" + name):
                yield from _wire(any_message.get(2, b""))


def _wire(data):
    """(number, value) of every field on the wire; only varints and bytes occur here."""
    position = 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            size = varint()
            yield tag >> 3, data[position:position + size]
            position += size
