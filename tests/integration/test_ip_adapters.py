"""IP-Adapters that requests name (--adapters), over the API and by `latent generate`."""

import base64
import concurrent.futures
import json
import math
import struct
import urllib.request

import grpc

import control_net
import ip_adapter
import ldm_file
import png
import server_process
from metrics import compilations
from server_process import checkpoint, reason, violations
from test_controls import stripes
from test_graphs import GraphsTestCase, latent

BASE = "base"
IMAGE, OTHER_IMAGE = stripes((10, 20)), stripes((0, 5), (40, 60), side=72)
EMBEDS = [math.sin(i) for i in range(ip_adapter.IMAGE_FEATURES)]  # such as an image might have


def tensor(*shape, values):
    return {"shape": shape, "data": struct.pack(f"<{len(values)}f", *values)}


class IpAdaptersTest(GraphsTestCase):
    def setUp(self):
        super().setUp()
        self.adapters = self.folder / "adapters"
        base = checkpoint() / BASE
        ip_adapter.write_encoder(self.adapters / "h94/models/image_encoder")
        ip_adapter.write(base, self.adapters / "h94/sdxl/style.safetensors", seed=1)
        ip_adapter.write(base, self.adapters / "h94/sdxl/style-plus.safetensors", seed=2, plus=True)

    def serve(self, *arguments, **named):
        return self.start(f"--adapters={self.adapters}", *arguments, **named)

    def draw(self, api, *adapters, **fields):
        return b"".join(png.read(super().draw(api, ip_adapters=list(adapters), **fields))[2])

    def test_pictures_follow_their_images_and_nothing_is_compiled(self):
        """Guard: Pipeline::ControlledStepsOf and AddIpAdapterGraphs; the lane's number of the network."""
        server, api = self.serve("--forbid-compile-after-ready")
        compiled = compilations(server)
        style = {"name": "h94/sdxl/style", "image": IMAGE}
        plus = {"name": "h94/sdxl/style-plus", "image": OTHER_IMAGE, "scale": 0.8}
        styled = style | {"scales": [{"block": "up.block_0", "values": [0, 1]}]}
        given = {"name": "h94/sdxl/style", "image_embeds": tensor(1, 1, len(EMBEDS), values=EMBEDS)}
        asked = [(), (style,), (style | {"image": OTHER_IMAGE},), (style | {"scale": 0.5},), (plus,), (styled,), (given,)]
        alone = [self.draw(api, *adapters) for adapters in asked]
        self.assertEqual(len(set(alone)), len(asked), "some pictures are the same")
        self.assertEqual(self.draw(api), alone[0])  # no trace of them is left
        self.assertEqual(self.draw(api, style | {"scale": 0}), alone[0])
        with concurrent.futures.ThreadPoolExecutor() as threads:
            together = [threads.submit(self.draw, api, *adapters) for adapters in asked]
            self.assertEqual([future.result() for future in together], alone)
        self.assertEqual(compilations(server), compiled)

    def test_a_control_net_beside_needs_leave_to_compile(self):
        control_net.write(checkpoint() / BASE, self.adapters / "canny", seed=1)
        _, api = self.serve()
        with self.assertRaises(grpc.RpcError) as raised:
            self.draw(api, {"name": "h94/sdxl/style", "image": IMAGE}, controls=[{"name": "canny", "image": IMAGE}])
        self.assertEqual(reason(raised.exception)[0], "BUCKET_COLD")
        self.assertIn("a ControlNet and an IP-Adapter at once", raised.exception.details())

    def test_several_need_leave_to_compile_and_are_drawn_with_it(self):
        style = {"name": "h94/sdxl/style", "image": IMAGE}
        plus = {"name": "h94/sdxl/style-plus", "image": OTHER_IMAGE, "scale": 0.8}
        server, api = self.serve("--allow-cold-requests")
        for adapters in ((style | {"more_images": [OTHER_IMAGE]},), (style, plus)):
            with self.assertRaises(grpc.RpcError) as raised:
                self.draw(api, *adapters)
            self.assertEqual(reason(raised.exception)[0], "BUCKET_COLD")
            self.assertIn("with several images as prompts", raised.exception.details())
        cold = {"bucket_policy": "BUCKET_POLICY_COLD_OK"}
        one, two, both = (self.draw(api, *adapters, **cold) for adapters in (
            (style,), (style | {"more_images": [OTHER_IMAGE]},), (style, plus)))
        self.assertEqual(len({one, two, both}), 3)
        self.assertEqual(self.draw(api, style), one)
        image, other, output = (self.folder / name for name in ("image.png", "other.png", "two.png"))
        image.write_bytes(IMAGE)
        other.write_bytes(OTHER_IMAGE)
        request = api.request()
        code, _, err = latent(server, "generate", request.prompt, f"--seed={request.seed}", "--width=64", "--height=64",
                              f"--num-inference-steps={request.num_inference_steps}", "--bucket-policy=cold_ok",
                              f"--ip-adapter=h94/sdxl/style={image},{other}", f"--output={output}")
        self.assertEqual(code, 0, err)
        self.assertEqual(b"".join(png.read(output.read_bytes())[2]), two)
        self.assertIn(b"h94/sdxl/style:1 of 2 images", output.read_bytes())

    def test_at_the_command_line(self):
        server, api = self.serve()
        expected = self.draw(api, {"name": "h94/sdxl/style", "image": IMAGE, "scale": 0.7}, seed=3, prompt="a star")
        image, output = self.folder / "image.png", self.folder / "star.png"
        image.write_bytes(IMAGE)
        code, _, err = latent(server, "generate", "a star", "--seed=3", "--width=64", "--height=64",
                              f"--num-inference-steps={api.request().num_inference_steps}",
                              f"--ip-adapter=h94/sdxl/style={image}:0.7", f"--output={output}")
        self.assertEqual(code, 0, err)
        self.assertEqual(b"".join(png.read(output.read_bytes())[2]), expected)
        self.assertIn(b"h94/sdxl/style:0.7", output.read_bytes())
        code, out, err = latent(server, "adapters", "--json")
        self.assertEqual(code, 0, err)
        infos = {adapter["info"]["name"]: adapter["info"] for adapter in json.loads(out)["adapters"]}
        self.assertEqual(set(infos), {"h94/sdxl/style", "h94/sdxl/style-plus"})
        self.assertEqual(infos["h94/sdxl/style-plus"]["kind"], "ADAPTER_KIND_IP_ADAPTER")
        self.assertRegex(latent(server, "capabilities")[1], r"h94/sdxl/style-plus \(IP-Adapter, plus, 6 tokens of an image, image_embeds of 5x32, for base")

    def test_scales_by_block_and_embeddings_at_the_command_line_and_over_http(self):
        """Guard: AddBlockScales and IsTensorFile of the client, BlockScalesOf of the server."""
        server, api = self.serve("--http-listen=127.0.0.1:0")
        tree, path = {"up": {"block_0": [0, 1]}}, self.folder / "embeds.safetensors"
        given = {"name": "h94/sdxl/style", "image_embeds": tensor(2, 1, len(EMBEDS), values=EMBEDS[::-1] + EMBEDS),
                 "scales": [{"block": "up.block_0", "values": [0, 1]}], "scale": 1.5}
        expected = self.draw(api, given, seed=3, prompt="a star")
        ldm_file.write(path, {"image_embeds": ("F32", [2, 1, len(EMBEDS)], given["image_embeds"]["data"])})
        output = self.folder / "star.png"
        code, _, err = latent(server, "generate", "a star", "--seed=3", "--width=64", "--height=64",
                              f"--num-inference-steps={api.request().num_inference_steps}",
                              f"--ip-adapter=h94/sdxl/style={path}:1.5:{json.dumps(tree)}", f"--output={output}")
        self.assertEqual(code, 0, err)
        self.assertEqual(b"".join(png.read(output.read_bytes())[2]), expected)
        self.assertIn(b"h94/sdxl/style:1.5 at up.block_0=0/1 of embeddings", output.read_bytes())
        self.assertIn(f"image_embeds of {len(EMBEDS)},", latent(server, "capabilities")[1])
        address = server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"].removeprefix("http on ")
        embeds = given["image_embeds"] | {"data": base64.b64encode(given["image_embeds"]["data"]).decode()}
        body = {"prompt": "a star", "size": "64x64", "num_inference_steps": api.request().num_inference_steps, "seed": 3,
                "ip_adapters": [given | {"image_embeds": embeds, "scales": tree}]}
        request = urllib.request.Request(f"http://{address}/v1/images/generations", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=server_process.DEADLINE) as response:
            answer = json.load(response)
        self.assertEqual(b"".join(png.read(base64.b64decode(answer["data"][0]["b64_json"]))[2]), expected)
        self.assertEqual(answer["latentd"]["parameters"]["ip_adapters"],
                         [{"name": "h94/sdxl/style", "scale": 1.5, "scales": given["scales"]}])

    def test_bad_ones_are_named(self):
        (self.adapters / "h94/models/image_encoder/config.json").unlink()
        ip_adapter.write_encoder(self.adapters / "other/image_encoder")
        ip_adapter.write(checkpoint() / BASE, self.adapters / "other/style.safetensors", seed=1)
        _, api = self.serve()
        style = {"name": "other/style", "image": IMAGE}
        for adapters, field, said in (
                ([style | {"name": "other/stile"}], "ip_adapters[0].name", "the nearest is other/style"),
                ([style | {"image": b""}], "ip_adapters[0].image", "set it"),
                ([style | {"image": b"no picture"}], "ip_adapters[0].image", ""),
                ([style | {"scale": -11}], "ip_adapters[0].scale", "-10 to 10"),
                ([style | {"scale": float("nan")}], "ip_adapters[0].scale", "finite"),
                ([style | {"scales": [{"block": "up.block_9", "values": [1]}]}], "ip_adapters[0].scales[0].block", "up.block_0 (2 tr"),
                ([style | {"scales": [{"block": "mid", "values": [float("nan")]}]}], "ip_adapters[0].scales[0].values", "finite"),
                ([style | {"image_embeds": tensor(1, 1, 2, values=[1, 2])}], "ip_adapters[0].image_embeds", "stand in place of image"),
                ([{"name": "other/style", "image_embeds": tensor(1, 1, 2, values=[1, 2])}], "ip_adapters[0].image_embeds",
                 f"the shape [2, n, {ip_adapter.IMAGE_FEATURES}]"),
                ([style | {"more_images": [IMAGE, b"no picture"]}], "ip_adapters[0].more_images[1]", ""),
                ([style | {"more_images": 16 * [IMAGE]}], "ip_adapters[0].more_images", "at most 16, are 17"),
                (5 * [style], "ip_adapters", "at most 4, are 5")):
            with self.assertRaises(grpc.RpcError) as raised:
                self.draw(api, *adapters)
            self.assertIn(said, violations(raised.exception)[field])
        with self.assertRaises(grpc.RpcError) as raised:
            self.draw(api, style | {"name": "h94/sdxl/style"})
        self.assertEqual(reason(raised.exception)[0], "ADAPTER_UNUSABLE")
        self.assertIn("no image encoder fits", raised.exception.details())
