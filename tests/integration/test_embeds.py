"""Embeddings: made by Encode, and taken in place of prompts."""

import concurrent.futures
import struct
import unittest

import grpc

import png
from server_process import violations
from shared_server import SharedServerTestCase

PROMPT = "a red circle on a blue background"
FLOAT32, FLOAT16 = 1, 2
CHUNK = 2


class EmbedsTest(SharedServerTestCase):
    ARGUMENTS = ("--prompt-chunks=2",)

    def encode(self, prompt=PROMPT, **fields):
        return self.api.call("ImageGeneration", "Encode", prompt=prompt, **fields)

    def embeds(self, encoded):
        """The fields of a request that draws with them."""
        names = ("prompt_embeds", "pooled_prompt_embeds", "negative_prompt_embeds", "negative_pooled_prompt_embeds")
        return {"prompt": "", **{name: getattr(encoded, name) for name in names if encoded.HasField(name)}}

    def drawn(self, **fields):
        return self.api.generate(self.api.request(**fields))

    def pixels(self, **fields):
        return png.read(self.drawn(**fields).images[0].data)[2]

    def test_embeddings_draw_the_picture_of_their_prompt(self):
        for fields in ({}, {"negative_prompt": "blue"}, {"prompt_2": "a star", "clip_skip": 1},
                       {"negative_prompt": "blue", "prompt": "circle " * 100, "long_prompt": CHUNK}):
            with self.subTest(fields=fields):
                encoded = self.encode(**fields)
                self.assertEqual(encoded.HasField("negative_prompt_embeds"), "negative_prompt" in fields)
                self.assertEqual(self.pixels(**self.embeds(encoded)), self.pixels(**fields))

    def test_they_share_steps_with_prompts(self):
        embeds = self.embeds(self.encode("a star"))
        requests = [self.api.request(seed=seed, num_inference_steps=8, **fields)
                    for seed, fields in enumerate(({}, embeds, {"prompt": "a ring"}, embeds))]
        alone = [self.api.generate(request).images[0].data for request in requests]
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            together = list(pool.map(lambda request: self.api.generate(request).images[0].data, requests))
        self.assertEqual(together, alone)

    def test_encoding_says_what_was_read(self):
        short, long = self.encode(request_id="encoded"), self.encode("circle " * 100, long_prompt=CHUNK)
        base = self.api.capabilities().models[0]
        self.assertEqual(list(short.prompt_embeds.shape), [77, base.prompt_embeds_width])
        self.assertEqual(list(short.pooled_prompt_embeds.shape), [base.pooled_prompt_embeds_width])
        self.assertEqual(list(long.prompt_embeds.shape), [154, base.prompt_embeds_width])
        self.assertEqual((short.prompt_chunks, long.prompt_chunks, long.dropped_tokens), (1, 2, 0))
        self.assertEqual(len(short.prompt_embeds.data), 4 * 77 * base.prompt_embeds_width)
        self.assertEqual(short.request_id, "encoded")
        self.assertGreater(short.timings.total.ToNanoseconds(), 0)
        self.assertEqual(self.encode("circle " * 100).dropped_tokens, 25)
        line = self.server.request_line("encoded")
        self.assertEqual((line["method"], line["code"]), ("Encode", "OK"))

    def test_halves_are_the_nearest(self):
        whole, half = self.encode(), self.encode(dtype=FLOAT16)
        self.assertEqual((whole.prompt_embeds.dtype, half.prompt_embeds.dtype), (FLOAT32, FLOAT16))
        count = len(half.prompt_embeds.data) // 2
        numbers = struct.unpack(f"<{count}f", whole.prompt_embeds.data)
        self.assertEqual(half.prompt_embeds.data, struct.pack(f"<{count}e", *numbers))
        self.pixels(**self.embeds(half))

    def test_the_refiner_has_its_own(self):
        refiner = self.encode(model="refiner")
        self.assertEqual(refiner.prompt_embeds.shape[1], self.api.capabilities().models[1].prompt_embeds_width)
        self.assert_refused("prompt_embeds", **self.embeds(refiner))
        picture = self.drawn().images[0].data
        fields = {"model": "refiner", "image": picture, "num_inference_steps": 4}
        self.assertEqual(self.pixels(**self.embeds(refiner), **fields), self.pixels(**fields))

    def assert_refused(self, field, **values):
        for call in (self.api.generate, lambda message: list(self.api.stream(message))):
            with self.assertRaises(grpc.RpcError) as caught:
                call(self.api.request(**values))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT, caught.exception)
            self.assertIn(field, violations(caught.exception))

    def test_what_is_wrong_is_named(self):
        good = self.embeds(self.encode(negative_prompt="blue"))
        tensor = good["prompt_embeds"]
        rows, width = tensor.shape

        def changed(**fields):
            whole = {"dtype": tensor.dtype, "shape": tensor.shape, "data": tensor.data}
            return {**good, "prompt_embeds": type(tensor)(**{**whole, **fields})}

        not_a_number = struct.pack("<f", float("nan")) + tensor.data[4:]
        for wrong in (changed(shape=[rows, width - 1]), changed(shape=[]), changed(shape=[-1, width]),
                      changed(shape=[1 << 62, width]), changed(shape=[5 * rows, width]),
                      changed(data=tensor.data[:-1]), changed(data=b""), changed(data=not_a_number),
                      changed(dtype=FLOAT16), {**good, "prompt": PROMPT}, {**good, "prompt_2": PROMPT}):
            self.assert_refused("prompt_embeds", **wrong)
        self.assert_refused("prompt_embeds.dtype", **changed(dtype=9))
        self.assert_refused("negative_prompt_embeds", **good, negative_prompt="green")
        self.assert_refused("refine", **good, refine=True)
        self.assert_refused("pooled_prompt_embeds", **{name: good[name] for name in ("prompt", "prompt_embeds")})
        self.assert_refused("pooled_prompt_embeds", pooled_prompt_embeds=good["pooled_prompt_embeds"])
        self.assert_refused("prompt", **{"prompt": ""})

    def test_encoding_what_is_wrong_is_refused_by_its_field(self):
        for field, fields in (("clip_skip", {"clip_skip": 100}), ("model", {"model": "none"}),
                              ("prompt", {"prompt": "(" * 200, "prompt_syntax": 2}), ("request_id", {"request_id": "a b"}),
                              ("priority", {"priority": 99}), ("dtype", {"dtype": 9})):
            with self.subTest(field=field), self.assertRaises(grpc.RpcError) as caught:
                self.encode(**fields)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(field, violations(caught.exception))
        self.assertEqual(len(self.encode("").prompt_embeds.shape), 2)  # the empty prompt has a state too


if __name__ == "__main__":
    unittest.main()
