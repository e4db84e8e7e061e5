"""Threads that hang, and threads that cannot start."""

import ctypes
import json
import os
import pathlib
import resource
import signal
import unittest

from control_group import ControlGroup
from metrics import METRICS, scrape
from server_process import ALLOW_COLD, COLD_OK, DEADLINE, Api, Server, wait_until

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
ALL_THREADS = 0x40000000  # __WALL of waitpid


class StoppedThread:
    """One thread of a server, stopped as if it hung. The others go on."""

    def __init__(self, identity):
        self._id = identity
        self._trace(PTRACE_SEIZE)
        self._trace(PTRACE_INTERRUPT)
        os.waitpid(self._id, ALL_THREADS)

    def go_on(self):
        self._trace(PTRACE_DETACH)

    def wait_for_end(self):
        """The process ends only when the tracer of a thread of it has asked for that thread's end."""
        while not os.WIFEXITED(os.waitpid(self._id, ALL_THREADS)[1]):
            pass

    def _trace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if libc.ptrace(request, self._id, None, None) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"ptrace {request:#x}: {os.strerror(error)}")


class HangTest(unittest.TestCase):
    def start(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.kill)
        server.start()
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def drawing(self, api):
        """A call that has reached its first step, so that steps of its size have been measured."""
        events = api.stream(api.request(width=64, height=64, num_inference_steps=150, num_images_per_prompt=4))
        for event in events:
            if event.HasField("progress") and event.progress.step > 1:
                return events
        self.fail("no progress")

    def loop_of(self, server):
        """The last of the threads with its name: one that only computes for the first, and has no lock that others wait for."""
        tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
        return max(int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().strip() == "loop")

    def stop(self, thread):
        try:
            return StoppedThread(thread)
        except PermissionError:
            self.skipTest("threads of child processes cannot be stopped here: no ptrace")

    def test_liveness_says_so_and_recovers(self):
        server, api = self.start(METRICS)
        events = self.drawing(api)
        thread = self.stop(self.loop_of(server))
        try:
            self.assertEqual(api.health("liveness"), "SERVING")
            wait_until(lambda: api.health("liveness") == "NOT_SERVING", "liveness is SERVING while the loop hangs")
            self.assertEqual(scrape(server).sum("latentd_unit_overdue"), 1)
            entry = server.wait_for_log(lambda entry: entry["message"].startswith("a unit of work hangs"))
            self.assertEqual((entry["level"], entry["stage"], entry["size"]), ("error", "STAGE_STEPS", "64x64"))
            self.assertGreaterEqual(entry["running_seconds"], entry["limit_seconds"])
        finally:
            thread.go_on()
        wait_until(lambda: api.health("liveness") == "SERVING", "liveness does not recover")
        self.assertEqual(list(events)[-1].WhichOneof("event"), "completed")
        self.assertEqual(scrape(server).sum("latentd_unit_overdue"), 0)

    def test_liveness_says_so_of_the_main_thread_too(self):
        server, api = self.start(METRICS)
        thread = self.stop(server.process.pid)
        try:
            self.assertEqual(api.health("liveness"), "SERVING")
            wait_until(lambda: api.health("liveness") == "NOT_SERVING", "liveness is SERVING while the main thread hangs")
            entry = server.wait_for_log(lambda entry: entry["message"].startswith("a thread hangs"))
            self.assertEqual((entry["level"], entry["thread"]), ("error", "main"))
            wait_until(lambda: scrape(server).sum("latentd_thread_overdue", thread="main") == 1, "the gauge says no")
        finally:
            thread.go_on()
        wait_until(lambda: api.health("liveness") == "SERVING", "liveness does not recover")

    def test_a_drain_ends_without_it_and_the_exit_code_says_so(self):
        server, api = self.start("--drain-timeout=0s")
        self.drawing(api)
        thread = self.stop(self.loop_of(server))
        server.signal(signal.SIGTERM)
        thread.wait_for_end()
        self.assertEqual(server.wait(), 3)
        self.assertIn("the drain has overrun", server.log())


class ThreadLimitTest(unittest.TestCase):
    def test_a_start_without_threads_says_so(self):
        def limit():
            # Threads with stacks that are larger than all addresses fail with the error of `ulimit -u` and pids.max, which
            # do not bind root.
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        server = Server(prepare=limit)
        self.addCleanup(server.kill)
        self.assertEqual(server.wait(), 1)
        entry = json.loads(server.lines[-1])
        self.assertEqual(entry["level"], "error")
        self.assertIn("cannot start the thread", entry["message"])
        self.assertIn("ulimit -u", entry["message"])

    def limited(self, threads):
        try:
            group = ControlGroup("pids", threads)
        except OSError as error:
            self.skipTest(f"no control group can be made here: {error}")
        self.addCleanup(group.remove)
        return group

    def test_any_limit_at_the_start_is_a_sentence_and_1(self):
        """Guard: CheckThreads in server/main.cc."""
        for threads in (4, 8, 12, 16, 20, 24, 28, 32):
            group = self.limited(threads)
            server = Server(prepare=group.enter)
            self.addCleanup(server.kill)
            self.assertEqual(server.wait(), 1, server.log())
            self.assertIn(f"pids.max of {group.path} is {threads}" if threads > 4 else "pids.max", server.lines[-1])

    def test_a_limit_on_data_is_a_sentence_and_1(self):
        server = Server(prepare=lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, 1 << 28)))
        self.addCleanup(server.kill)
        self.assertEqual(server.wait(), 1, server.log())
        self.assertIn(f"ulimit -d is {1 << 18}", server.lines[-1])

    def test_a_server_that_gets_no_more_threads_serves_on(self):
        """Guard: BringThreads in core/engine/local_engine.cc, TryStartThread in core/base/threads/split_work.cc."""
        group = self.limited("max")
        server = Server(METRICS, ALLOW_COLD, "--threads=2", prepare=group.enter)
        self.addCleanup(server.kill)
        server.start()
        api = Api(server.address)
        self.addCleanup(api.close)
        # Their descriptions come first: reflection is gRPC's, which refuses calls when it gets no thread.
        requests = [api.request(width=64 + 8 * (number % 3), seed=number, bucket_policy=COLD_OK) for number in range(12)]
        api.type("latent.v1.GenerateResponse")
        group.limit_to(group.read("pids.current"))
        for call in [api.start_generate(request) for request in requests]:
            self.assertTrue(call.result(DEADLINE).images[0].data)
        self.assertGreater(scrape(server).sum("process_threads"), 0)
        server.stop()


if __name__ == "__main__":
    unittest.main()
