"""Previews, from a stock client."""

import struct
import unittest

import grpc

from server_process import violations
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
        self.assertIn("previews has no effect", completed.warnings[0])
        self.assertFalse(completed.parameters.HasField("previews"))

    def test_a_step_is_the_least_that_can_be_between_them(self):
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.api.stream(self.request(0)))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(violations(caught.exception), {"previews.every_n_steps": "must be at least 1, is 0"})


if __name__ == "__main__":
    unittest.main()
