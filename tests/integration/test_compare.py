"""`latent compare`: two servers, and how alike they draw."""

import json
import subprocess

import server_process
from server_process import DEADLINE
from test_graphs import GraphsTestCase

SHORT = ("--width=96", "--height=96", "--num-inference-steps=4", "-n", "3")


class CompareTest(GraphsTestCase):
    def compare(self, one, other, *arguments):
        command = [server_process.options.latent, "compare", one.address, other.address, *arguments, *SHORT]
        done = subprocess.run(command, capture_output=True, timeout=DEADLINE, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_equal_servers_and_one_in_another_precision(self):
        """Guard: Comparer::Draw for the second server; AddPictures for the yardsticks."""
        one, _ = self.start(buckets="96x96")
        again, _ = self.start(buckets="96x96")
        lesser, _ = self.start("--precision=bf16", buckets="96x96")
        code, out, err = self.compare(one, again, "a star", "--json", "--fail-under=1")
        self.assertEqual(code, 0, err)
        equal = json.loads(out)
        self.assertEqual([(picture["seed"], picture["ssim"], picture["largest_change"]) for picture in equal["pictures"]],
                         [(seed, 1, 0) for seed in range(3)])

        page = self.folder / "page.html"
        code, out, err = self.compare(one, lesser, "a star", "a blue heart", "--json", "--previews=2", f"--page={page}",
                                      "--fail-under=1")
        self.assertEqual(code, 1, err)
        self.assertIn("below --fail-under", err)
        pictures = json.loads(out)["pictures"]
        self.assertEqual([picture["prompt"] for picture in pictures], 3 * ["a star"] + 3 * ["a blue heart"])
        for picture in pictures:
            self.assertGreater(picture["ssim"], picture["other_seed"]["ssim"])
            self.assertLess(picture["ssim"], 1)
            self.assertIn("fewer_steps", picture)
            self.assertEqual([preview["step"] for preview in picture["previews"]], [2, 4])
        self.assertEqual(page.read_text().count("data:image/png"), 12)
        code, _, err = self.compare(one, lesser, "a star", f"--page={page}")
        self.assertEqual(code, 2, err)
        self.assertIn("--force", err)

    def test_what_is_wrong_is_said(self):
        one, _ = self.start(buckets="96x96")
        server = one.address
        for arguments, expected, said in (([server], 2, "say which servers"), ([server, "nowhere:x:y", "a star"], 2, ""),
                                          ([server, server], 2, "prompt"), ([server, "127.0.0.1:1", "a star", *SHORT], 3, "127.0.0.1:1"),
                                          ([server, server, "a star", "--width=65"], 4, "--width"),
                                          ([server, server, "a star", "--fail-under=2"], 2, "SSIM")):
            done = subprocess.run([server_process.options.latent, "compare", *arguments], capture_output=True, timeout=DEADLINE,
                                  text=True)
            self.assertEqual(done.returncode, expected, done.stderr)
            self.assertIn(said, done.stderr)
