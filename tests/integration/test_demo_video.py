"""The demo's video checkpoint: a picture that the demo drew moves as its shape does (deploy/demo-model/clips.py)."""

import pathlib
import statistics
import tempfile
import unittest

import PIL.Image
import PIL.ImageChops
import PIL.ImageStat

from server_process import Server, checkpoint
from test_graphs import latent

SIDE, FRAMES = 128, 8


def off_by(one, other):
    """The mean difference of two pictures, of 255."""
    return statistics.mean(PIL.ImageStat.Stat(PIL.ImageChops.difference(one, other)).mean)


def outline(picture):
    """The shape as a mask: the pixels of another colour than the corner."""
    background = PIL.Image.new("RGB", picture.size, picture.getpixel((4, SIDE // 2)))
    return PIL.ImageChops.difference(picture, background).convert("L").point(lambda value: 255 * (value > 60))


def center(picture):
    """(x, y, how many pixels) of the shape."""
    places = [divmod(i, SIDE) for i, value in enumerate(outline(picture).tobytes()) if value]
    return statistics.mean(x for _, x in places), statistics.mean(y for y, _ in places), len(places)


class DemoVideoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.server = Server(f"--video={checkpoint() / 'video'},buckets={SIDE}x{SIDE}x{FRAMES}", buckets="256x256").start()
        cls.addClassCleanup(cls.server.kill)

    def draw(self, prompt):
        """(the picture's file, what the video should begin with)"""
        file = self.folder / f"{prompt}.png"
        code, _, err = latent(self.server, "generate", prompt, "--seed=3", f"--output={file}", "--force")
        self.assertEqual(code, 0, err)
        with PIL.Image.open(file) as picture:
            return file, picture.convert("RGB").resize((SIDE, SIDE), PIL.Image.Resampling.LANCZOS)

    def animate(self, file, *arguments):
        frames = self.folder / "frames"
        code, _, err = latent(self.server, "animate", str(file), f"--width={SIDE}", f"--height={SIDE}", "--seed=5",
                              f"--output={frames}-%d.png", "--force", *arguments)
        self.assertEqual(code, 0, err)
        return [PIL.Image.open(f"{frames}-{number}.png").convert("RGB") for number in range(FRAMES)]

    def test_a_circle_hops_and_comes_down_again(self):
        file, picture = self.draw("a red circle at the bottom on a white background")
        frames = self.animate(file)
        self.assertLess(off_by(frames[0], picture), 6)
        heights = [center(frame)[1] for frame in frames]
        self.assertLess(heights[4], heights[0] - 15)
        self.assertEqual(heights[:5], sorted(heights[:5], reverse=True))
        self.assertEqual(heights[4:], sorted(heights[4:]))
        for frame in frames:
            x, _, pixels = center(frame)
            self.assertAlmostEqual(x, center(picture)[0], delta=4)
            self.assertAlmostEqual(pixels / center(picture)[2], 1, delta=0.25)

    def test_it_rests_where_the_motion_bucket_is_0(self):
        file, picture = self.draw("a red circle at the bottom on a white background")
        for frame in self.animate(file, "--motion-bucket-id=0"):
            self.assertAlmostEqual(center(frame)[1], center(picture)[1], delta=4)

    def test_a_cross_spins_counterclockwise(self):
        file, picture = self.draw("a large white cross in the center on a blue background")
        x, y, _ = center(picture)
        frame = outline(self.animate(file)[2])
        background = picture.getpixel((4, SIDE // 2))
        far = {}
        for degrees in (-22.5, 0, 22.5):
            turned = picture.rotate(degrees, PIL.Image.Resampling.BICUBIC, center=(x, y), fillcolor=background)
            far[degrees] = off_by(frame, outline(turned))
        self.assertEqual(min(far, key=far.get), 22.5, far)
