"""Previews, from a stock client."""

import json
import pathlib
import random
import struct
import tempfile
import unittest

import grpc

from server_process import Api, Server, checkpoint, violations
from shared_server import SharedServerTestCase

# A preview that is late gives way to the picture: of so many steps one is in time, though the thread that draws them
# waits for a CPU.
STEPS = 40


def jpeg_size(data):
    """(width, height) of a whole JPEG."""
    if data[:2] != b"\xff\xd8" or data[-2:] != b"\xff\xd9":
        raise ValueError("no JPEG, or not all of it")
    position = 2
    while True:
        marker, kind, length = struct.unpack(">BBH", data[position:position + 4])
        if marker != 0xFF:
            raise ValueError("no marker")
        if kind in (0xC0, 0xC1, 0xC2):
            height, width = struct.unpack(">HH", data[position + 5:position + 9])
            return width, height
        position += 2 + length


class PreviewsTest(SharedServerTestCase):
    def request(self, every, **fields):
        return self.api.request(num_inference_steps=STEPS, previews={"every_n_steps": every}, **fields)

    def test_they_come_every_n_steps_and_before_their_picture(self):
        events = list(self.api.stream(self.request(10, width=96, num_images_per_prompt=2)))
        previews = [event.preview for event in events if event.HasField("preview")]
        self.assertTrue(previews)
        for preview in previews:
            self.assertIn(preview.step, (10, 20, 30, 40))
            self.assertEqual((preview.total_steps, preview.mime_type), (STEPS, "image/jpeg"))
            self.assertEqual((preview.size.width, preview.size.height), (12, 8))
            self.assertEqual(jpeg_size(preview.data), (12, 8))
        for index in (0, 1):
            steps = [preview.step for preview in previews if preview.image_index == index]
            self.assertEqual(steps, sorted(set(steps)))
            kinds = [event.WhichOneof("event") for event in events
                     if index in (event.preview.image_index if event.HasField("preview") else None,
                                  event.image_chunk.index if event.HasField("image_chunk") else None)]
            self.assertEqual(kinds, sorted(kinds, reverse=True))  # no preview after a chunk

    def test_the_picture_is_the_same_bytes(self):
        streamed = b"".join(event.image_chunk.data for event in self.api.stream(self.request(1)))
        self.assertEqual(streamed, self.api.generate(self.api.request(num_inference_steps=STEPS)).images[0].data)

    def test_every_scheduler_and_the_refiner_have_them(self):
        for fields in ({"refine": True}, *({"scheduler": name} for name in self.api.capabilities().schedulers)):
            with self.subTest(**fields):
                self.assertTrue(any(event.HasField("preview") for event in self.api.stream(self.request(1, **fields))))

    def test_one_answer_has_none_and_says_so(self):
        completed = self.api.generate(self.request(1)).completed
        self.assertEqual(len(completed.warnings), 1)
        self.assertIn("previews.every_n_steps has no effect", completed.warnings[0])
        self.assertFalse(completed.parameters.HasField("previews"))

    def test_a_step_is_the_least_that_can_be_between_them(self):
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.api.stream(self.request(0)))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(violations(caught.exception), {"previews.every_n_steps": "must be at least 1, is 0"})


CHANNELS = 4
READY = 5  # latent.v1.GraphState
STAGE_PREVIEW = 7  # latent.v1.Stage


def tiny_vae_tensors():
    """(name, shape) of the decoder of an AutoencoderTiny of four resolutions, a block in each."""
    layers = [("decoder.layers.0", 4, CHANNELS, True)]
    number = 2  # an activation has one too
    for resolution in range(4):
        layers += [(f"decoder.layers.{number}.conv.{conv}", CHANNELS, CHANNELS, True) for conv in (0, 2, 4)]
        if resolution < 3:  # an upsampling has one too
            layers.append((f"decoder.layers.{number + 2}", CHANNELS, CHANNELS, False))
        number += 3
    layers.append((f"decoder.layers.{number - 2}", CHANNELS, 3, True))
    for name, inputs, outputs, biased in layers:
        yield f"{name}.weight", [outputs, inputs, 3, 3]
        if biased:
            yield f"{name}.bias", [outputs]


def write_tiny_vae(folder):
    """As AutoencoderTiny.save_pretrained, of seeded weights."""
    folder.mkdir()
    width = [CHANNELS] * 4
    (folder / "config.json").write_text(json.dumps({
        "_class_name": "AutoencoderTiny", "encoder_block_out_channels": width, "decoder_block_out_channels": width,
        "num_encoder_blocks": [1] * 4, "num_decoder_blocks": [1] * 4, "scaling_factor": 1.0}))
    chance, header, data = random.Random(7), {}, b""
    for name, shape in tiny_vae_tensors():
        count = 1
        for side in shape:
            count *= side
        values = struct.pack(f"<{count}f", *(chance.uniform(-0.3, 0.3) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "diffusion_pytorch_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


class TinyVaeTest(unittest.TestCase):
    """Previews by a checkpoint's tiny VAE."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.base = pathlib.Path(folder.name, "base")
        cls.base.mkdir()
        for entry in (checkpoint() / "base").iterdir():
            (cls.base / entry.name).symlink_to(entry)
        write_tiny_vae(cls.base / "vae_tiny")

    def draw(self, *arguments, base=None):
        """(previews, picture, completed, tiny VAEs among the graphs) of a server with such a checkpoint."""
        server = Server(f"--base={base or self.base}", *arguments, demo=False, buckets="96x64").start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        graphs = api.graphs(components=["vae_tiny"])
        events = list(api.stream(api.request(width=96, num_inference_steps=STEPS, previews={"every_n_steps": 1})))
        api.close()
        self.assertEqual(server.stop(), 0)
        return ([event.preview for event in events if event.HasField("preview")],
                b"".join(event.image_chunk.data for event in events if event.HasField("image_chunk")),
                events[-1].completed, graphs)

    def time_of_previews(self, completed):
        return sum(one.time.ToNanoseconds() for one in completed.timings.stages if one.stage == STAGE_PREVIEW)

    def test_it_draws_previews_unless_it_is_off(self):
        previews, picture, completed, graphs = self.draw()
        self.assertEqual([graph.state for graph in graphs], [READY])
        self.assertTrue(previews)
        for preview in previews:
            self.assertEqual((preview.size.width, preview.size.height), (24, 16))
            self.assertEqual(jpeg_size(preview.data), (24, 16))
            self.assertLess(preview.step, STEPS)  # the last is the picture itself
        self.assertGreater(self.time_of_previews(completed), 0)

        coloured, same, completed, graphs = self.draw("--components=vae_tiny=off")
        self.assertFalse(graphs)
        self.assertTrue(coloured)
        for preview in coloured:
            self.assertEqual(jpeg_size(preview.data), (12, 8))
        self.assertEqual(self.time_of_previews(completed), 0)
        self.assertEqual(picture, same)

    def test_it_may_come_from_elsewhere(self):
        previews, _, completed, graphs = self.draw(f"--vae-tiny={self.base / 'vae_tiny'}", base=checkpoint() / "base")
        self.assertEqual([graph.state for graph in graphs], [READY])
        self.assertTrue(previews)
        for preview in previews:
            self.assertEqual(jpeg_size(preview.data), (24, 16))
        self.assertGreater(self.time_of_previews(completed), 0)


if __name__ == "__main__":
    unittest.main()
