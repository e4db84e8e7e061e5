#!/usr/bin/env python3
"""Parts of the load bench that need no server: the mixture of requests, the queue, refusals, the search, figures."""

import asyncio
import contextlib
import io
import multiprocessing
import os
import pathlib
import signal
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from timeless import timeless  # noqa: E402
from traffic import bench, calls, figures, promises, report  # noqa: E402
from traffic.calls import MISSED, OK, Attempt, Fifo, Outcome  # noqa: E402
from traffic.crowd import in_processes  # noqa: E402
from traffic.mixture import Alone, Job, Mixture, area_of  # noqa: E402
from traffic.relay import relay  # noqa: E402

SIZES = [(256, 256), (512, 512)]
ALONE = Alone({(size, guided): 1.0 for size in SIZES for guided in (True, False)},
              {(size, guided): 24.0 for size in SIZES for guided in (True, False)})


def outcome(seconds=1.0, code=OK, offset=0.0, steps=4, caller=0, deadline=3.0, **more):
    return Outcome(Job(0, SIZES[0], steps, True, caller, offset), deadline, seconds, code, **{"late": [0.0], **more})


def queue_full(seconds=0.0, delay=2.0):
    return Attempt("RESOURCE_EXHAUSTED", seconds, reason="QUEUE_FULL", retry_seconds=delay)


class MixtureTest(unittest.TestCase):
    def arrivals(self, seed=1, rate=2.0, seconds=1000.0):
        return Mixture(SIZES, unguided=0.25, callers=4).arrivals(seed, rate, seconds, at_most=100_000)

    def test_a_seed_makes_the_same_requests_at_the_same_times(self):
        self.assertEqual(self.arrivals(), self.arrivals())
        self.assertNotEqual(self.arrivals(), self.arrivals(seed=2))

    def test_arrivals_are_a_poisson_process_of_the_rate(self):
        offsets = [job.offset for job in self.arrivals()]
        self.assertAlmostEqual(len(offsets) / 1000, 2.0, delta=0.1)
        gaps = [after - before for before, after in zip(offsets, offsets[1:])]
        # Exponential: 1/e of the gaps are longer than the mean.
        self.assertAlmostEqual(sum(gap > 0.5 for gap in gaps) / len(gaps), 0.368, delta=0.02)

    def test_another_rate_has_the_same_requests_faster(self):
        slow, fast = self.arrivals(rate=1.0, seconds=100), self.arrivals(rate=2.0, seconds=50)
        self.assertEqual([job.size for job in slow], [job.size for job in fast])
        self.assertEqual([job.offset for job in slow], [2 * job.offset for job in fast])

    def test_a_window_is_bounded(self):
        self.assertEqual(len(Mixture(SIZES, 0, 2).arrivals(1, rate=1000.0, seconds=1000.0, at_most=10)), 10)

    def test_sizes_share_the_pixels_and_first_callers_ask_more(self):
        jobs = self.arrivals()
        pixels = {size: sum(area_of(job.size) for job in jobs if job.size == size) for size in SIZES}
        self.assertAlmostEqual(pixels[SIZES[0]] / pixels[SIZES[1]], 1.0, delta=0.15)
        counts = [sum(job.caller == caller for job in jobs) / len(jobs) for caller in range(4)]
        for found, wanted in zip(counts, (3 / 8, 3 / 8, 1 / 8, 1 / 8)):
            self.assertAlmostEqual(found, wanted, delta=0.03)

    def test_steps_go_from_4_to_50_and_some_requests_have_no_guidance(self):
        jobs = self.arrivals()
        self.assertEqual((min(job.steps for job in jobs), max(job.steps for job in jobs)), (4, 50))
        self.assertAlmostEqual(sum(not job.guided for job in jobs) / len(jobs), 0.25, delta=0.03)

    def test_seconds_alone_lie_on_a_line(self):
        self.assertEqual([ALONE.seconds(Job(0, SIZES[1], steps, False)) for steps in (4, 27, 50)], [1.0, 12.5, 24.0])


class CallsTest(unittest.TestCase):
    def setUp(self):
        self.sent = []

    async def draw(self, job, timeout):
        """Takes as many seconds as the request has steps, any number at the same time."""
        self.sent.append((calls.now(), job.number, timeout))
        await asyncio.sleep(min(job.steps, timeout))
        return Attempt(OK if job.steps < timeout else MISSED, min(job.steps, timeout), steps=(1.0,))

    def play(self, send, deadline, *jobs):
        return timeless(calls.play(send, [Job(number, SIZES[0], steps, True, offset=offset) for number, (offset, steps) in enumerate(jobs)],
                                   lambda job: deadline))

    def test_requests_come_at_their_times_whatever_others_take(self):
        found = self.play(self.draw, 100, (1.0, 10), (2.0, 4), (2.5, 4))
        self.assertEqual([time for time, *_ in self.sent], [1.0, 2.0, 2.5])
        self.assertEqual([(each.seconds, each.kept) for each in found], [(10, True), (4, True), (4, True)])

    def test_a_call_that_is_made_later_than_due_says_so(self):
        jobs = [Job(number, SIZES[0], 4, True, offset=offset) for number, offset in enumerate((0.0, 1.0, 5.0))]
        found = timeless(calls.play(self.draw, jobs, lambda job: 100, start=-3.0))
        self.assertEqual([each.late for each in found], [[3.0], [2.0], [0.0]])
        self.assertEqual([each.seconds for each in found], [7.0, 6.0, 4.0])

    def test_first_in_first_out_sends_one_at_a_time_and_counts_the_wait(self):
        found = self.play(Fifo(self.draw).send, 100, (0.0, 10), (1.0, 4), (2.0, 4))
        self.assertEqual(self.sent, [(0.0, 0, 100.0), (10.0, 1, 91.0), (14.0, 2, 88.0)])
        self.assertEqual([each.seconds for each in found], [10, 13, 16])
        self.assertEqual([each.first_step for each in found], [1, 10, 13])

    def test_first_in_first_out_drops_what_is_too_late_when_its_turn_comes(self):
        found = self.play(Fifo(self.draw).send, 8, (0.0, 10), (0.0, 4), (1.0, 4))
        self.assertEqual([number for _, number, _ in self.sent], [0, 2])
        self.assertEqual([each.code for each in found], [MISSED, calls.DROPPED, MISSED])
        self.assertFalse(any(each.kept or each.failed for each in found))

    def refusing(self, *attempts):
        attempts = iter(attempts)

        async def send(job, timeout):
            self.sent.append((calls.now(), timeout))
            attempt = next(attempts)
            await asyncio.sleep(attempt.seconds)
            return attempt

        return send

    def ask(self, send, patient, deadline=10.0):
        async def ask():
            return await calls.ask(send, Job(0, SIZES[0], 4, True), deadline, calls.now(), patient)

        return timeless(ask())

    def test_who_is_patient_comes_back_after_the_delay(self):
        found = self.ask(self.refusing(queue_full(0.5), Attempt(OK, 3.0, steps=(1.0,))), patient=True)
        self.assertEqual(self.sent, [(0.0, 10.0), (2.5, 10.0)])
        self.assertEqual((found.code, found.seconds, found.first_step, found.returns, len(found.refusals)), (OK, 5.5, 3.5, 1, 1))
        self.assertEqual(found.late, [0.0, 0.0])

    def test_who_comes_back_has_as_much_time_again(self):
        found = self.ask(self.refusing(queue_full(0.5, delay=9.0), Attempt(OK, 10.0)), patient=True)
        self.assertEqual((found.seconds, found.waited, found.kept), (19.5, 9.5, True))
        self.assertFalse(self.ask(self.refusing(queue_full(0.5, delay=9.0), Attempt(OK, 10.1)), patient=True).kept)

    def test_who_is_told_wrong_many_times_gives_up(self):
        found = self.ask(self.refusing(*[queue_full(0.1)] * (calls.MOST_RETURNS + 1)), patient=True)
        self.assertEqual((found.code, found.returns), (calls.REFUSED, calls.MOST_RETURNS))

    def test_who_is_not_gives_up(self):
        found = self.ask(self.refusing(queue_full()), patient=False)
        self.assertEqual((found.code, found.returns, found.failed), (calls.REFUSED, 0, False))

    def test_nobody_comes_back_who_would_wait_too_long_or_was_not_told_when(self):
        late = Attempt(MISSED, 0.0, reason="PREDICTED_OVERRUN", retry_seconds=10.0)
        self.assertEqual(self.ask(self.refusing(late), patient=True).returns, 0)
        self.assertEqual(self.ask(self.refusing(queue_full(delay=None)), patient=True).code, calls.REFUSED)

    def test_other_ends_are_no_refusals(self):
        self.assertFalse(self.ask(self.refusing(Attempt(MISSED, 10.0)), patient=True).failed)
        self.assertTrue(self.ask(self.refusing(Attempt("RESOURCE_EXHAUSTED", 0.0, reason="OUT_OF_MEMORY")), patient=True).failed)


class FiguresTest(unittest.TestCase):
    def test_percentiles_are_samples(self):
        self.assertEqual(figures.spread([]), {"count": 0, "p50": None, "p99": None})
        self.assertEqual(figures.spread(range(200, 0, -1)), {"count": 200, "p50": 100, "p99": 198})

    def test_a_deadline_is_kept_by_a_picture_in_time(self):
        outcomes = [outcome(), outcome(seconds=3.1), outcome(code=MISSED), outcome(code=calls.DROPPED)]
        self.assertEqual(figures.share_kept(outcomes), 0.25)
        self.assertEqual(figures.share_kept([]), 0)
        self.assertEqual(figures.latency(outcomes)["latency"]["count"], 1)

    def test_goodput_counts_what_came_in_time_and_before_the_end(self):
        outcomes = [outcome(), outcome(offset=2.0, steps=50), outcome(offset=8.0, seconds=3.0), outcome(code=MISSED), outcome(seconds=4.0)]
        self.assertEqual(figures.goodput(outcomes, ALONE, seconds=10.0), {"requests": 0.2, "work": 2.5})

    def test_refusals_and_returns_are_counted_by_call(self):
        refused = figures.refusals([outcome(), outcome(refusals=[queue_full(0.01), queue_full(0.02)], late=[0.0, 0.0, 0.0]),
                                    outcome(code=calls.REFUSED, refusals=[queue_full(0.03), queue_full(0.04, None)], late=[0.0, 0.5]),
                                    outcome(code=calls.REFUSED, refusals=[queue_full(0.05)], late=[0.25])])
        self.assertEqual(refused["by_reason"], {"QUEUE_FULL": 5})
        self.assertEqual((refused["requests_refused"], refused["without_delay"]), (3, 1))
        self.assertEqual((refused["came_back"], refused["came_back_and_served"]), (3, 1))
        self.assertEqual(refused["late"], {"count": 7, "p50": 0.0, "p99": 0.5})
        self.assertEqual(refused["seconds"], {"count": 5, "p50": 0.03, "p99": 0.05})

    def test_callers_are_counted_apart(self):
        found = figures.by_caller([outcome(caller=1), outcome(caller=1, code=MISSED)], 2)
        self.assertEqual([(each["asked"], each["served"], each["comes_back"]) for each in found], [(0, 0, False), (2, 1, True)])

    def search(self, threshold, windows=8):
        search = figures.RateSearch(0.1, 10)
        for _ in range(windows):
            search.add(search.next_rate, 1.0 if search.next_rate <= threshold else 0.5)
        return search

    def test_a_search_closes_in_on_the_rate(self):
        search = self.search(3.0)
        self.assertLessEqual(search.best["rate"], 3.0)
        self.assertGreater(search.missed, 3.0)
        self.assertLess(search.missed / search.best["rate"], 1.02)

    def test_a_search_says_where_it_found_nothing(self):
        self.assertIsNone(self.search(0.01).best)
        self.assertIsNone(self.search(20).missed)


class ReportTest(unittest.TestCase):
    def cell(self, kept):
        search = figures.RateSearch(1, 4)
        search.add(2.0, kept)
        return report.rate_cell(search.document())

    def test_a_rate_that_no_window_bounds_says_so(self):
        self.assertEqual(self.cell(0.95), "at least 2")
        self.assertEqual(self.cell(0.85), "below 2")


class PromisesTest(unittest.TestCase):
    """Each is missed by itself."""

    def document(self, rate=1.3, beside=2.0, work=0.95, refused=0.05, served=19, caller=1, end=163, waits=0.034,
                 backend="cpu"):
        overload = {"goodput": {"work_of_capacity": work}, "refusals": {"seconds": {"count": 9, "p99": refused}, "came_back": 20,
                                                                        "came_back_and_served": served},
                    "callers": [{"asked": 2, "served": caller}, {"asked": 0, "served": 0}], "memory_mib": {"begin": 100, "end": end}}
        return {"settings": {"backend": backend}, "arrival": {"64x64": {"step": 0.03, "waits": {"p50": waits}}},
                "capacity": {"latentd": {"best": {"rate": rate}}, "fifo": {"best": {"rate": 1.0}}},
                "isolation": {"latentd": {"quiet": {"count": 3, "p99": 1.0}, "beside": {"count": 3, "p99": beside}}},
                "overload": {"contestants": {"latentd": overload}}}

    def missed(self, document):
        return [promise for promise, holds in promises.of(document) if not holds]

    def test_all_hold(self):
        document = self.document()
        self.assertEqual(len(promises.of(document)), 7)
        self.assertEqual(self.missed(document), [])
        self.assertFalse(bench.misses(document))

    def test_each_is_missed_by_itself(self):
        for name, value in {"rate": 1.29, "beside": 2.1, "work": 0.94, "refused": 0.06, "served": 18, "caller": 0, "end": 164}.items():
            document = self.document(**{name: value})
            self.assertEqual(len(self.missed(document)), 1, name)
            self.assertTrue(bench.misses(document))
            self.assertIn("| MISSED |", report.promised(document)[0])

    def test_a_gpu_is_to_gain_more(self):
        self.assertEqual(len(self.missed(self.document(rate=1.9, backend="cuda"))), 1)

    def test_on_a_gpu_who_arrives_waits_for_one_step(self):
        self.assertEqual(self.missed(self.document(rate=2, backend="cuda")), [])
        self.assertEqual(len(self.missed(self.document(rate=2, waits=0.036, backend="cuda"))), 1)

    def test_a_rate_that_was_not_found_is_missed(self):
        document = self.document()
        document["capacity"]["latentd"]["best"] = None
        self.assertEqual(len(self.missed(document)), 1)

    def test_what_was_not_measured_is_not_told(self):
        self.assertEqual(promises.of({"left_out": {}}), [])
        self.assertEqual(report.promised({"left_out": {}}), [])


def end_by(number):
    os.kill(os.getpid(), number)


def wait_for_ever():
    while True:
        signal.pause()


class CrowdTest(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(multiprocessing.active_children(), [])

    def test_results_come_by_share(self):
        self.assertEqual(asyncio.run(in_processes(divmod, [(7, 2), (9, 5)])), [(3, 1), (1, 4)])

    def test_who_is_cancelled_does_not_wait_for_its_processes(self):
        async def cancel():
            work = asyncio.create_task(in_processes(wait_for_ever, [(), ()]))
            while len(multiprocessing.active_children()) < 2 and not work.done():
                await asyncio.sleep(0)
            work.cancel()
            await asyncio.wait([work])
            return work.cancelled()

        self.assertTrue(asyncio.run(cancel()))

    def test_a_process_that_dies_is_a_failure_of_the_contestant_and_ends_the_others(self):
        for ends in ((signal.SIGKILL, signal.SIGSTOP), (signal.SIGSTOP, signal.SIGKILL)):  # whichever starts first
            with self.subTest(ends=ends), self.assertRaises(bench.FAILURES):
                asyncio.run(in_processes(end_by, [(end,) for end in ends]))


class RelayTest(unittest.TestCase):
    """Behind it is a server that says who has connected, answers one line with the same, and ends the connection."""

    def run_with(self, work):
        async def answer(reader, writer):
            with contextlib.closing(writer):
                writer.write(f"{writer.get_extra_info('peername')[0]}\n".encode())
                writer.write(await reader.readline())

        async def run():
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            try:
                return await asyncio.wait_for(work(server, "%s:%d" % server.sockets[0].getsockname()), 60)
            finally:
                server.close()

        return asyncio.run(run())

    async def connect(self, address):
        return await asyncio.open_connection(*address.split(":"))

    def test_a_caller_has_an_address_of_its_own_and_bytes_go_both_ways(self):
        async def ask(_, address):
            async with relay(address, 2) as relayed:
                reader, writer = await self.connect(relayed)
                with contextlib.closing(writer):
                    writer.write(b"hello\n")
                    return await reader.read()

        self.assertEqual(self.run_with(ask), b"127.0.0.12\nhello\n")

    def test_where_there_is_no_server_the_connection_ends(self):
        async def ask(server, address):
            server.close()
            async with relay(address, 0) as relayed:
                reader, writer = await self.connect(relayed)
                with contextlib.closing(writer):
                    return await reader.read()

        self.assertEqual(self.run_with(ask), b"")

    def test_connections_end_with_the_relay(self):
        async def leave(_, address):
            async with relay(address, 0) as relayed:
                reader, writer = await self.connect(relayed)
                await reader.readline()
            with contextlib.closing(writer):
                return await reader.read()

        self.assertEqual(self.run_with(leave), b"")


class CommandTest(unittest.TestCase):
    def main(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                return bench.main(list(arguments)), said.getvalue()
            except SystemExit as ended:
                return ended.code, said.getvalue()

    def test_wrong_options_are_refused(self):
        for wrong in ("--only=capacity,isolatio", "--rates=4:1", "--unguided=2", "--callers=1", "--small=8x8", "--seconds=0"):
            self.assertEqual(self.main(wrong)[0], 2, wrong)

    def test_without_a_server_it_says_what_to_build(self):
        code, said = self.main("--latentd=/nowhere/latentd")
        self.assertEqual(code, 1)
        self.assertIn("there is no program /nowhere/latentd", said)


if __name__ == "__main__":
    unittest.main()
