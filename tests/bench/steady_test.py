#!/usr/bin/env python3
"""Parts of steady.py that need no server: the requests, the images that are equal, the promises."""

import contextlib
import copy
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import steady  # noqa: E402
import steady_parts as parts  # noqa: E402
from steady_parts import ALONE, BESIDE, LATER, MIB, RESTARTED  # noqa: E402

SIZES = [(64, 64), (96, 64)]
REST = {"compilations": 33, "resident": 300 * MIB, "device": 9000 * MIB, "held": {"weights": 50 * MIB, "state": 0}}
DOCUMENT = {"machine": {"gpu": {"name": "NVIDIA H100"}, "cpu": "a processor", "cpus": 16, "commit": "abc"},
            "settings": {"backend": "cuda", "noise": 16}, "after_warm_up": REST, "at_the_end": REST, "tenths": [REST],
            "restart_compilations": 0, "codes": {"OK": 90, "CANCELLED": 10}, "pictures_that_share_steps": [40, 3],
            "pictures": {BESIDE: [20, 0], LATER: [40, 0], RESTARTED: [40, 0]}}


def missed(**changes):
    """Promises missed by the document with changes: NAME=value, or NAME__KEY=value."""
    document = copy.deepcopy(DOCUMENT)
    for name, value in changes.items():
        name, _, key = name.partition("__")
        if key:
            document[name][key] = value
        else:
            document[name] = value
    return [promise for promise, _, holds in parts.promises(document) if not holds]


class OrdersTest(unittest.TestCase):
    def test_each_size_has_each_guidance_seed_and_way_to_share(self):
        kinds = parts.kinds(SIZES, [2, 4], seeds=3)
        self.assertEqual(len(kinds), 2 * 2 * 3 * 2)
        self.assertEqual(len(set(kinds)), len(kinds))
        self.assertEqual({kind.steps for kind in kinds}, {2, 4})
        ways = {}
        for kind in kinds:
            ways.setdefault((kind.size, kind.guided, kind.seed), []).append((kind.batch_invariant, kind.steps))
        for (first, steps), (second, same_steps) in ways.values():
            self.assertEqual((first, second, steps), (False, True, same_steps))

    def test_the_first_pass_takes_each_row_count_with_and_without_guidance(self):
        orders = parts.coverage(SIZES, [1, 2, 4], steps=1)
        rows = {(order.kind.size, order.kind.images * (2 if order.kind.guided else 1), order.kind.guided) for order in orders}
        self.assertEqual(rows, {(size, count, guided) for size in SIZES for count in (1, 2, 4) for guided in (True, False)}
                         - {(size, 1, True) for size in SIZES})

    def test_no_request_asks_for_more_pictures_than_it_may(self):
        self.assertLessEqual(max(order.kind.images for order in parts.coverage(SIZES, [16, 32], steps=1)), parts.MOST_IMAGES)

    def test_a_crowd_has_each_size_more_than_once(self):
        orders = parts.crowd(SIZES, steps=8)
        self.assertEqual(len(set(orders)), len(orders))
        for size in SIZES:
            self.assertEqual(sorted(order.kind.guided for order in orders if order.kind.size == size), [False, True, True])
        self.assertEqual({order.kind.size for order in orders[:len(SIZES)]}, set(SIZES))

    def test_a_share_is_cancelled_and_a_seed_makes_the_same_orders(self):
        kinds = parts.kinds(SIZES, [1], seeds=2)
        orders = list(parts.mixture(kinds, 2000, 0.1, seed=2))
        self.assertEqual(orders, list(parts.mixture(kinds, 2000, 0.1, seed=2)))
        self.assertNotEqual(orders, list(parts.mixture(kinds, 2000, 0.1, seed=1)))
        self.assertEqual({order.kind for order in orders}, set(kinds))
        cancelled = [order.cancelled_after for order in orders if order.cancelled_after >= 0]
        self.assertAlmostEqual(len(cancelled) / 2000, 0.1, delta=0.02)
        self.assertEqual(set(cancelled), set(range(parts.MOST_EVENTS)))

    def test_what_makes_the_bytes_is_in_the_request(self):
        fields = parts.Kind((96, 64), False, 3, seed=2, batch_invariant=True).fields()
        self.assertEqual((fields["width"], fields["height"], fields["num_inference_steps"], fields["seed"], fields["batch_invariant"]),
                         (96, 64, 3, 2, True))
        self.assertLessEqual(fields["guidance_scale"], 1)


class PicturesTest(unittest.TestCase):
    def setUp(self):
        self.pictures = parts.Pictures()
        self.free = parts.Kind(SIZES[0], True, 1, seed=1)
        self.invariant = parts.Kind(SIZES[0], True, 1, seed=1, batch_invariant=True)

    def test_equal_wherever_they_are_drawn(self):
        for where in (ALONE, BESIDE, BESIDE, LATER):
            self.pictures.add(self.free, where, "a")
        self.assertEqual(self.pictures.compared(BESIDE), (1, 0))
        self.assertEqual(self.pictures.compared(RESTARTED), (0, 0))

    def test_one_that_differs_once(self):
        for where, digest in ((ALONE, "a"), (BESIDE, "a"), (BESIDE, "b")):
            self.pictures.add(self.free, where, digest)
        self.assertEqual(self.pictures.compared(BESIDE), (1, 1))

    def test_two_that_were_different_alone_are_not_equal_elsewhere(self):
        for where, digest in ((ALONE, "a"), (ALONE, "b"), (LATER, "a"), (LATER, "b")):
            self.pictures.add(self.free, where, digest)
        self.assertEqual(self.pictures.compared(LATER), (1, 1))

    def test_only_those_that_share_no_steps(self):
        for kind, beside in ((self.free, "b"), (self.invariant, "a")):
            self.pictures.add(kind, ALONE, "a")
            self.pictures.add(kind, BESIDE, beside)
        self.assertEqual(self.pictures.compared(BESIDE), (2, 1))
        self.assertEqual(self.pictures.compared(BESIDE, invariant_only=True), (1, 0))


class PromisesTest(unittest.TestCase):
    def rest(self, **changes):
        return {**REST, **changes}

    def test_all_hold(self):
        self.assertEqual(missed(), [])

    def test_each_is_missed_by_itself(self):
        for words, changes in (
                ("nothing is compiled after the first pass", {"at_the_end": self.rest(compilations=34)}),
                ("a restart compiles nothing", {"restart_compilations": 1}),
                ("memory of the GPU grows", {"at_the_end": self.rest(device=9017 * MIB)}),
                ("resident memory grows", {"at_the_end": self.rest(resident=316 * MIB)}),
                ("beside others", {"pictures__" + BESIDE: [20, 1]}),
                ("alone later", {"pictures__" + LATER: [40, 1]}),
                ("after a restart", {"pictures__" + RESTARTED: [40, 1]}),
                ("ends in OK", {"codes__INTERNAL": 1})):
            with self.subTest(words):
                found = missed(**changes)
                self.assertEqual(len(found), 1, found)
                self.assertIn(words, found[0])

    def test_what_was_not_compared_holds_nothing(self):
        self.assertEqual(len(missed(**{"pictures__" + RESTARTED: [0, 0]})), 1)

    def test_without_a_gpu_its_memory_is_not_asked_for(self):
        without = self.rest(device=None)
        self.assertEqual(missed(after_warm_up=without, at_the_end=without), [])

    def test_the_table_says_what_is_held_more(self):
        table = parts.table({**DOCUMENT, "at_the_end": self.rest(held={"weights": 50 * MIB, "state": 2 * MIB})})
        self.assertIn("held, state: 0.0 -> 2.0 MiB", table)
        self.assertNotIn("held, weights", table)

    def test_the_table_says_what_is_not_promised(self):
        table = parts.table(DOCUMENT)
        self.assertIn("| (not promised: so is one that shares steps) | 3 of 40 differ | |", table)


class CommandLineTest(unittest.TestCase):
    def test_the_full_architecture_has_settings_of_its_own(self):
        demo, full = steady.parse([]), steady.parse(["--full"])
        self.assertEqual((demo.warm_up, full.warm_up), (300, 60))
        self.assertEqual((len(demo.sizes), len(full.sizes)), (5, 5))
        self.assertEqual(steady.parse(["--full", "--warm-up=7", "--rows=1,8"]).settings["warm_up"], 7)
        self.assertEqual(steady.parse(["--rows=1,8"]).row_counts, [1, 8])

    def exit_code(self, document, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "steady.json")
            file.write_text(json.dumps(document))
            with mock.patch.object(sys, "argv", ["steady.py", f"--show={file}", *arguments]), contextlib.redirect_stdout(io.StringIO()):
                return steady.main()

    def test_a_missed_promise_is_an_exit_code_where_that_is_wanted(self):
        late = {**DOCUMENT, "restart_compilations": 2}
        self.assertEqual(self.exit_code(DOCUMENT, "--check"), 0)
        self.assertEqual(self.exit_code(late), 0)
        self.assertEqual(self.exit_code(late, "--check"), 1)


if __name__ == "__main__":
    unittest.main()
