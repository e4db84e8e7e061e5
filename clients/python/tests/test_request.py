"""Keywords become the request that they say, or an error that names them."""

import io
import math
import pathlib
import struct
import tempfile
import unittest

import numpy
import PIL.Image

import scripted_server  # noqa: F401  (installs the package)
from latent_client import files, messages
from latent_client.call import prepare
from latent_client.request import field_names, make_encode_request, make_request, to_parameters
from latent_client.tensors import to_array


class Generator:
    """torch.Generator, as far as it is read; its state changes with its seed and its use."""

    def __init__(self, device="cpu"):
        self.device = device
        self.manual_seed(0)

    def manual_seed(self, seed):
        self._seed, self._used = seed, 0
        return self

    def initial_seed(self):
        return self._seed

    def get_state(self):
        return numpy.array([self._seed % 256, self._used], dtype=numpy.uint8)

    def use(self):
        self._used += 1
        return self


class Tensor:
    """torch.Tensor, as far as it is read."""

    def __init__(self, numbers, dtype):
        self._numbers = numbers
        self.dtype = f"torch.{dtype}"

    def detach(self):
        return self

    cpu = detach

    def float(self):
        return Tensor(self._numbers.astype(numpy.float32), "float32")

    def __array__(self, *arguments, **keywords):
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._numbers


class TensorTest(unittest.TestCase):
    NUMBERS = numpy.array([[[1.5, -2, 0.25], [3, 4, 65504]]])  # exact in any type

    def test_arrays_tensors_and_lists_are_the_same_numbers(self):
        numbers = self.NUMBERS
        for value, dtype, size in (
                (numbers, messages.Tensor.DTYPE_FLOAT32, 4), (numbers.tolist(), messages.Tensor.DTYPE_FLOAT32, 4),
                (numbers.astype(">f4"), messages.Tensor.DTYPE_FLOAT32, 4),
                (numbers.astype(numpy.float16), messages.Tensor.DTYPE_FLOAT16, 2),
                (numbers.transpose(0, 2, 1).copy().transpose(0, 2, 1), messages.Tensor.DTYPE_FLOAT32, 4),
                (Tensor(numbers.astype(numpy.float16), "float16"), messages.Tensor.DTYPE_FLOAT16, 2),
                (Tensor(numbers, "bfloat16"), messages.Tensor.DTYPE_FLOAT32, 4)):
            for name in ("prompt_embeds", "negative_prompt_embeds", "pooled_prompt_embeds", "negative_pooled_prompt_embeds"):
                tensor = getattr(make_request({name: value}), name)
                self.assertEqual((tensor.dtype, list(tensor.shape), len(tensor.data)), (dtype, [1, 2, 3], 6 * size))
                numpy.testing.assert_array_equal(to_array(tensor), numbers)
        request = make_request({"prompt_embeds": [[1, 2]]})
        self.assertEqual(request.prompt_embeds.data, struct.pack("<2f", 1, 2))

    def test_a_message_or_a_mapping_is_taken_as_it_is(self):
        tensor = messages.Tensor(dtype=messages.Tensor.DTYPE_BFLOAT16, shape=[1, 2], data=b"\x80\x3f\x00\xc0")
        request = make_request({"prompt_embeds": tensor})
        self.assertEqual(request.prompt_embeds, tensor)
        self.assertEqual(make_request(to_parameters(request)), request)
        numpy.testing.assert_array_equal(to_array(tensor), [[1, -2]])

    def test_what_is_none_is_named(self):
        for value, kind, said in (("star.safetensors", TypeError, "not str"), (7, TypeError, "not int"), (b"x", TypeError, "not bytes"),
                                  ([["a"]], TypeError, "of numbers"), (numpy.array([[True]]), TypeError, "not of bool"),
                                  ([[1, 2], [3]], ValueError, "rows of one length")):
            with self.assertRaisesRegex(kind, f"^prompt_embeds: .*{said}"):
                make_request({"prompt_embeds": value})

    def test_a_number_that_is_too_large_for_its_type_stays_what_it_is(self):
        tensor = make_request({"prompt_embeds": [[math.inf]]}).prompt_embeds
        self.assertEqual(to_array(tensor)[0, 0], math.inf)  # the server names it

    def test_what_encode_prompt_takes(self):
        request = make_encode_request("a star", {"negative_prompt": "blue", "clip_skip": 1, "dtype": "float16", "model": None})
        self.assertEqual(request, messages.EncodeRequest(prompt="a star", negative_prompt="blue", clip_skip=1,
                                                         dtype=messages.Tensor.DTYPE_FLOAT16))
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'width'"):
            make_encode_request("a star", {"width": 64})


class FieldTest(unittest.TestCase):
    def test_every_kind_of_field(self):
        request = make_request({
            "prompt": "a star", "width": 64, "num_inference_steps": 3.0, "guidance_scale": 5, "seed": 2**64 - 1, "refine": True,
            "seeds": (1, 2), "bucket_policy": "snap", "prompt_syntax": "PROMPT_SYNTAX_A1111", "previews": 5,
            "guidance_interval": (0.1, 0.7), "timesteps": numpy.array([999.0, 500.0]), "clip_skip": numpy.int64(2),
            "effort": "fast", "output": {"format": "jpeg", "quality": 80}, "image": b"picture"})
        self.assertEqual(request, messages.GenerateRequest(
            prompt="a star", width=64, num_inference_steps=3, guidance_scale=5.0, seed=2**64 - 1, refine=True, seeds=[1, 2],
            bucket_policy=messages.BUCKET_POLICY_SNAP, prompt_syntax=messages.PROMPT_SYNTAX_A1111,
            previews=messages.Previews(every_n_steps=5), guidance_interval=messages.GuidanceInterval(start=0.1, stop=0.7),
            timesteps=[999.0, 500.0], clip_skip=2, effort=messages.EFFORT_FAST, output=messages.Output(format=messages.FORMAT_JPEG, quality=80),
            image=b"picture"))

    def test_what_is_none_is_not_set(self):
        self.assertEqual(make_request(dict.fromkeys(field_names())), messages.GenerateRequest())

    def test_sizes_as_diffusers_has_them(self):
        request = make_request({"original_size": (512, 768), "crops_coords_top_left": (1, 2), "target_size": "640x320"})
        self.assertEqual((request.original_size.height, request.original_size.width), (512, 768))
        self.assertEqual((request.crops_coords_top_left.top, request.crops_coords_top_left.left), (1, 2))
        self.assertEqual((request.target_size.width, request.target_size.height), (640, 320))

    def test_adapters_as_people_write_them(self):
        said = [{"name": "film", "weight": 0.8}, {"name": "styles/ink"}]
        for value in (said, ["film:0.8", "styles/ink"], [("film", 0.8), ("styles/ink",)]):
            self.assertEqual(to_parameters(make_request({"adapters": value})), {"adapters": said})
        both = {"name": "film", "weight": 0.8, "text_encoder_weight": 0.0}
        for value in ({"film": (0.8, 0)}, "film:0.8:0", [("film", 0.8, 0)], both):
            self.assertEqual(to_parameters(make_request({"adapters": value})), {"adapters": [both]})
        self.assertEqual(to_parameters(make_request({"adapters": {"film": 0.8, "ink": 1}}))["adapters"],
                         [{"name": "film", "weight": 0.8}, {"name": "ink", "weight": 1.0}])
        for value in ("film:much", "film:1:2:3", [()], [("film", 1, 2, 3)], {"film": None, "ink": (1, 2, 3)}):
            with self.assertRaisesRegex(ValueError, r"^adapters: .*NAME\[:WEIGHT"):
                make_request({"adapters": value})

    def test_controls_as_people_write_them(self):
        whole = messages.Control(name="canny", image=b"map", scale=0.7, start=0, end=0.5)
        for value in (whole, [("canny", b"map", 0.7, 0, 0.5)], {"canny": (b"map", 0.7, 0, 0.5)},
                      {"name": "canny", "image": b"map", "scale": 0.7, "start": 0, "end": 0.5}):
            self.assertEqual(list(make_request({"controls": value}).controls), [whole])
        several = make_request({"controls": {"canny": b"map", "maps/depth": io.BytesIO(b"other")}}).controls
        self.assertEqual(list(several), [messages.Control(name="canny", image=b"map"),
                                         messages.Control(name="maps/depth", image=b"other")])
        for value in ([()], [("canny", b"map", 1, 0, 1, 2, 3)]):
            with self.assertRaisesRegex(ValueError, r"^controls: .*\(NAME, IMAGE"):
                make_request({"controls": value})
        union = messages.Control(name="union", image=b"map", control_mode=3)
        for value in ({"union@canny": b"map"}, [("union@3", b"map")], {"name": "union", "image": b"map", "control_mode": 3},
                      {"name": "union@canny", "image": b"map"}, [{"name": "union@3", "image": b"map"}]):
            self.assertEqual(list(make_request({"controls": value}).controls), [union])
        self.assertEqual(make_request({"controls": [("union", b"map", 1, 0, 1, 0)]}).controls[0].control_mode, 0)
        self.assertTrue(make_request({"controls": {"maps/union@openpose": b"map"}}).controls[0].HasField("control_mode"))
        both = {"name": "union@canny", "image": b"map", "control_mode": 1}  # no net has that name, which the server says
        self.assertEqual(list(make_request({"controls": both}).controls), [messages.Control(**both)])
        with self.assertRaisesRegex(ValueError, r"^controls: .*one of openpose, depth"):
            make_request({"controls": {"union@cany": b"map"}})
        with self.assertRaisesRegex(ValueError, r"^controls: .*one of openpose, depth"):
            make_request({"controls": {"name": "union@cany", "image": b"map"}})
        with self.assertRaisesRegex(ValueError, r"^controls\[0\].image: is a URL"):
            make_request({"controls": {"canny": "https://example.com/edges.png"}})

    def test_ip_adapters_as_people_write_them(self):
        whole = messages.IpAdapter(name="plus", image=b"cat", scale=0.6)
        for value in (whole, [("plus", b"cat", 0.6)], {"plus": (b"cat", 0.6)}, {"name": "plus", "image": b"cat", "scale": 0.6}):
            self.assertEqual(list(make_request({"ip_adapters": value}).ip_adapters), [whole])
        self.assertEqual(list(make_request({"ip_adapters": {"plus": io.BytesIO(b"cat")}}).ip_adapters),
                         [messages.IpAdapter(name="plus", image=b"cat")])
        several = messages.IpAdapter(name="plus", image=b"cat", more_images=[b"dog", b"cow"], scale=0.6)
        for value in ({"plus": ([b"cat", io.BytesIO(b"dog"), b"cow"], 0.6)}, [("plus", (b"cat", b"dog", b"cow"), 0.6)],
                      {"name": "plus", "image": b"cat", "more_images": [b"dog", b"cow"], "scale": 0.6}):
            self.assertEqual(list(make_request({"ip_adapters": value}).ip_adapters), [several])
        self.assertEqual(list(make_request({"ip_adapters": {"plus": [b"cat", io.BytesIO(b"dog")], "base": [b"cow"]}}).ip_adapters),
                         [messages.IpAdapter(name="plus", image=b"cat", more_images=[b"dog"]), messages.IpAdapter(name="base", image=b"cow")])
        tree = {"down": {"block_2": [0, 1]}, "mid": 0.5, "up": {"block_0": (0, 1, 0)}}
        by_block = messages.IpAdapter(name="plus", image=b"cat", scales=[
            messages.BlockScale(block="down.block_2", values=[0, 1]), messages.BlockScale(block="mid", values=[0.5]),
            messages.BlockScale(block="up.block_0", values=[0, 1, 0])])
        for value in ({"plus": (b"cat", tree)}, [("plus", b"cat", tree)], [{"name": "plus", "image": b"cat", "scale": tree}],
                      [{"name": "plus", "image": b"cat", "scales": tree}], [by_block]):
            self.assertEqual(list(make_request({"ip_adapters": value}).ip_adapters), [by_block])
        request = make_request({"ip_adapters": [by_block]})
        self.assertEqual(make_request(to_parameters(request)), request)
        embeds = numpy.arange(6, dtype=numpy.float32).reshape(2, 1, 3)
        request = make_request({"ip_adapters": [{"name": "plus", "image_embeds": Tensor(embeds, "float32"), "scale": 0.5}]})
        self.assertEqual((request.ip_adapters[0].scale, request.ip_adapters[0].image), (0.5, b""))
        numpy.testing.assert_array_equal(to_array(request.ip_adapters[0].image_embeds), embeds)
        one = messages.IpAdapter(name="plus", scales=[messages.BlockScale(block="up", values=[1])])
        self.assertEqual(list(make_request({"ip_adapters": [{"name": "plus", "scales": {"block": "up", "values": 1}}]}).ip_adapters), [one])
        with self.assertRaisesRegex(TypeError, r"^ip_adapters\[0\].scales\[0\].values: must be a number"):
            make_request({"ip_adapters": {"plus": (b"cat", {"up": {"block_0": ["a"]}})}})
        self.assertEqual(list(make_request({"controls": {"canny": [b"map", 0.7]}}).controls),
                         [messages.Control(name="canny", image=b"map", scale=0.7)])
        with self.assertRaisesRegex(ValueError, r"^ip_adapters: .*\(NAME, IMAGE\[, SCALE\]\).*\{NAME: \[IMAGE, \.\.\.\]\}"):
            make_request({"ip_adapters": [("plus", b"cat", 1, 2)]})

    def test_parameters_make_the_request_that_they_come_from(self):
        request = make_request({"prompt": "p", "original_size": (512, 768), "crops_coords_top_left": (0, 0), "seeds": [3],
                                "output": {"format": "webp"}, "scheduler": "euler", "guidance_interval": (0, 1)})
        self.assertEqual(make_request(to_parameters(request)), request)

    def test_a_false_that_is_not_the_default_is_sent(self):
        self.assertTrue(make_request({"use_karras_sigmas": False}).HasField("use_karras_sigmas"))
        self.assertTrue(make_request({"crops_coords_top_left": (0, 0)}).HasField("crops_coords_top_left"))

    def refuses(self, kind, said, **parameters):
        with self.assertRaises(kind) as caught:
            make_request(parameters)
        self.assertIs(type(caught.exception), kind)
        self.assertIn(said, str(caught.exception))

    def test_bad_keywords_and_values_are_named(self):
        self.refuses(TypeError, "'num_inference_step'; did you mean num_inference_steps", num_inference_step=3)
        self.refuses(TypeError, "'steps'; did you mean", steps=3)
        self.refuses(TypeError, "'cross_attention_kwargs'; latentd has no such", cross_attention_kwargs={})
        self.refuses(TypeError, "output: unexpected keyword argument 'qualiti'; did you mean quality?", output={"qualiti": 3})
        self.refuses(TypeError, "prompt: must be str, not list: one text for each call", prompt=["a", "b"])
        self.refuses(TypeError, "width: must be a whole number, not 64.5", width=64.5)
        self.refuses(TypeError, "width: must be a whole number, not True", width=True)
        self.refuses(TypeError, "refine: must be bool, not int", refine=1)
        self.refuses(TypeError, "guidance_scale: must be a number, not str", guidance_scale="5")
        self.refuses(ValueError, "seed: must be from 0 to 18446744073709551615, not -1", seed=-1)
        self.refuses(ValueError, "width: must be from -2147483648", width=2**31)
        self.refuses(ValueError, "bucket_policy: must be one of exact, snap, cold_ok, not 'snp'", bucket_policy="snp")
        self.refuses(ValueError, "output.format: must be one of png, jpeg", output={"format": "gif"})
        self.refuses(ValueError, "guidance_interval: must be (start, stop)", guidance_interval=(0.1, 0.2, 0.3))
        self.refuses(ValueError, "image: is a URL", image="https://example.org/a.png")
        self.refuses(TypeError, "image: must be bytes, a path", image=3)
        with self.assertRaises(FileNotFoundError):
            make_request({"image": "/nowhere.png"})


class GeneratorTest(unittest.TestCase):
    def request(self, **parameters):
        return prepare("p", parameters, None).request

    def test_its_seed_is_sent(self):
        self.assertEqual(self.request(generator=Generator().manual_seed(11)).seed, 11)
        several = [Generator().manual_seed(seed) for seed in (5, 3)]
        self.assertEqual(self.request(generator=several, num_images_per_prompt=2).seeds, [5, 3])

    def test_one_that_would_draw_other_noise_is_refused(self):
        for said, parameters in (("has been used", {"generator": Generator().manual_seed(1).use()}),
                                 ("it is on cuda", {"generator": Generator("cuda")}),
                                 ("one a picture", {"generator": Generator(), "num_images_per_prompt": 2}),
                                 ("not both", {"generator": Generator(), "seed": 1})):
            with self.assertRaisesRegex(ValueError, said):
                self.request(**parameters)


class FileTest(unittest.TestCase):
    def setUp(self):
        self.picture = PIL.Image.new("RGB", (4, 2), (1, 2, 3))
        self.picture.putpixel((0, 0), (250, 0, 0))

    def pixels(self, data):
        picture = PIL.Image.open(io.BytesIO(data))
        return picture.mode, picture.size, picture.tobytes()

    def test_pictures_from_everywhere(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.png")
            self.picture.save(path)
            data = path.read_bytes()
            with open(path, "rb") as file:
                self.assertEqual({files.read_file_input(value) for value in (data, bytearray(data), str(path), path, file)}, {data})
        same = ("RGB", (4, 2), self.picture.tobytes())
        for value in (self.picture, numpy.asarray(self.picture), numpy.asarray(self.picture) / 255.0):
            self.assertEqual(self.pixels(files.read_file_input(value)), same)

    def test_masks_and_modes_with_transparency(self):
        self.assertEqual(self.pixels(files.read_file_input(self.picture.convert("L")))[0], "L")
        for mode in ("1", "P", "RGBA", "CMYK"):
            self.assertEqual(self.pixels(files.read_file_input(self.picture.convert(mode)))[0], "RGB")

    def test_pixels_in_memory_are_not_turned_again(self):
        turned = PIL.Image.Exif()
        turned[0x0112] = 6
        output = io.BytesIO()
        self.picture.save(output, "JPEG", exif=turned)
        opened = PIL.Image.open(output)
        self.assertEqual(opened.getexif()[0x0112], 6)
        sent = PIL.Image.open(io.BytesIO(files.read_file_input(opened)))
        self.assertEqual((sent.size, dict(sent.getexif()), sent.info.get("exif")), (opened.size, {}, None))

    def test_latents_there_and_back(self):
        numbers = numpy.arange(32, dtype=numpy.float64).reshape(1, 4, 2, 4)
        data = files.read_file_input(numbers)
        length, = struct.unpack_from("<Q", data)
        self.assertEqual(length % 8, 0)
        self.assertIn(b'"dtype": "F32"', data[8:8 + length])
        back = files.decode_latents(data)
        self.assertEqual((back.dtype, back.tolist()), (numpy.float32, numbers.tolist()))

    def test_raw_pixels_are_a_picture_and_latents_are_none(self):
        pixels = self.picture.tobytes()
        self.assertEqual(files.decode_picture(pixels, "application/octet-stream", (4, 2)).tobytes(), pixels)
        with self.assertRaisesRegex(ValueError, "latents"):
            files.decode_picture(b"x" * 25, "application/octet-stream", (4, 2))

    def test_numbers_from_0_to_1(self):
        stacked = files.stack_pictures([self.picture])
        self.assertEqual((stacked.shape, stacked.dtype, float(stacked[0, 0, 0, 0])), ((1, 2, 4, 3), numpy.float32, numpy.float32(250) / numpy.float32(255)))


if __name__ == "__main__":
    unittest.main()
