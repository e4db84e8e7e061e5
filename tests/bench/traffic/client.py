"""A stock gRPC client, and the processes that it asks: latentd, and diffusers behind peer_server.py."""

import asyncio
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "integration"))
import run  # noqa: E402

PACKAGES = run.install_client()
sys.path.insert(0, str(PACKAGES))
os.environ["no_proxy"] = "*"
import grpc  # noqa: E402
import server_process  # noqa: E402
from full_size import peer_process, processes  # noqa: E402

from . import messages, mixture  # noqa: E402
from .calls import OK, Attempt, now, play  # noqa: E402
from .crowd import in_processes  # noqa: E402
from .relay import relay  # noqa: E402

METHOD = "/latent.v1.ImageGeneration/GenerateStream"
STAGE_STEPS = 3  # latent.v1.Stage
SHARED_STEPS = "row counts above 2"  # latentd's log, when they are ready
GUIDANCE, NO_GUIDANCE = 4.0, 1.0
START_SECONDS = 900  # compiling included
STOP_SECONDS = 20
CONNECT_SECONDS = 30
CROWD_STARTS_SECONDS = 5  # until its processes have connected, before its first call; all have one clock


def descriptors(address):
    """Descriptors of its messages that a running latentd gives."""
    api = server_process.Api(address)
    try:
        return messages.descriptors_of(api.type("latent.v1.GenerateRequest"))
    finally:
        api.close()


class Client:
    """Asks one server, for each caller over a connection of its own, to an address by caller. Context manager."""

    def __init__(self, addresses, described):
        self._request_type, event_type = messages.request_and_event(described)
        self._channels = {caller: grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
                          for caller, address in addresses.items()}
        self._methods = {caller: channel.unary_stream(METHOD, request_serializer=self._request_type.SerializeToString,
                                                      response_deserializer=event_type.FromString)
                         for caller, channel in self._channels.items()}

    async def __aenter__(self):
        for channel in self._channels.values():
            await asyncio.wait_for(channel.channel_ready(), CONNECT_SECONDS)
        return self

    async def __aexit__(self, *_):
        for channel in self._channels.values():
            await channel.close()

    def _request(self, job):
        return self._request_type(prompt="a red circle on a blue background", width=job.size[0], height=job.size[1],
                                  num_inference_steps=job.steps, guidance_scale=GUIDANCE if job.guided else NO_GUIDANCE, seed=job.number,
                                  num_images_per_prompt=job.images)

    async def send(self, job, timeout):
        """Asks once; never raises what a server may answer."""
        start, steps, completed = time.monotonic(), [], False
        try:
            async for event in self._methods[job.caller](self._request(job), timeout=timeout):
                kind = event.WhichOneof("event")
                completed = completed or kind == "completed"
                if kind == "progress" and event.progress.stage == STAGE_STEPS:
                    steps.append(time.monotonic() - start)
        except grpc.aio.AioRpcError as error:
            reason, _ = server_process.reason(error)
            return Attempt(error.code().name, time.monotonic() - start, tuple(steps), reason, server_process.retry_seconds(error))
        return Attempt(OK if completed else "INCOMPLETE", time.monotonic() - start, tuple(steps))


async def _play(address, described, jobs, deadline, start):
    async with contextlib.AsyncExitStack() as stack:
        addresses = {caller: await stack.enter_async_context(relay(address, caller)) for caller in {job.caller for job in jobs}}
        client = await stack.enter_async_context(Client(addresses, described))
        return await play(client.send, jobs, lambda job: deadline, mixture.patient, start)


def play_share(*share):
    """A crowd's process's part of the jobs."""
    return asyncio.run(_play(*share))


class Crowd:
    """Callers with addresses of their own, in several processes: one in Python makes some thousand calls a second at most."""

    def __init__(self, address, described, size):
        self._setting, self._size = (address, described), size

    async def play(self, jobs, deadline):
        """The outcomes of calls.play of all jobs, each with that deadline; patient callers come back."""
        start = now() + CROWD_STARTS_SECONDS
        shares = [[job for job in jobs if job.caller % self._size == number] for number in range(self._size)]
        outcomes = await in_processes(play_share, [(*self._setting, share, deadline, start) for share in shares])
        return list(itertools.chain(*outcomes))


class Latentd:
    """One of the bench's options, with a cache below `folder`."""

    def __init__(self, options, folder):
        server_process.DEADLINE = START_SECONDS
        self._server = server_process.Server(
            f"--base={options.checkpoint}/base", f"--precision={options.precision}", *options.latentd_flag, demo=False,
            buckets=options.buckets, rows=options.rows, cache=folder / "cache", prepare=processes.end_with_parent)
        try:
            self.address = self._server.start().address
            self._await_rows(options.rows)
        except BaseException:
            self._server.kill()
            raise
        self.pid = self._server.process.pid

    def _await_rows(self, rows):
        """Larger row counts are made ready behind READY."""
        if not rows or max(map(int, rows.split(","))) > 2:
            self._server.wait_for_log(lambda entry: entry["message"] == SHARED_STEPS)

    def stop(self):
        if self._server.process.poll() is None:
            self._server.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.process.wait(STOP_SECONDS)
        self._server.kill()


class Peer:
    """diffusers behind a queue: peer_server.py in the Python of the options."""

    def __init__(self, options, folder, described):
        file = folder / "latent.v1.descriptors"
        file.write_bytes(described)
        self._log = folder / "peer.log"
        command = [options.peer_python, "-B", pathlib.Path(__file__).with_name("peer_server.py"), f"--checkpoint={options.checkpoint}/base",
                   f"--descriptors={file}", f"--packages={PACKAGES}", f"--precision={options.precision}",
                   f"--device={'cuda' if options.backend == 'cuda' else 'cpu'}"]
        with open(self._log, "w") as log:
            self._process = processes.spawn(command, stdout=subprocess.PIPE, stderr=log,
                                            env=peer_process.environment(options.peer_path, folder))
        self.pid, self.address = self._process.pid, self._process.stdout.readline().strip()
        if not self.address:
            self.stop()
            said = "\n".join(self._log.read_text().splitlines()[-5:])
            raise processes.Failure(f"the peer ended before it served; the end of what it said:\n{said}")

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
