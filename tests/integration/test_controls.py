"""ControlNets that requests name (--adapters), over the API and by `latent generate`."""

import concurrent.futures
import json

import grpc

import control_net
import png
from metrics import compilations
from server_process import ALLOW_COLD, COLD_OK, checkpoint, reason, violations
from test_graphs import GraphsTestCase, latent

BASE = "base"


def stripes(*places, side=64):
    """A map with a white stripe from top to bottom at each of the places, (left, right)."""
    white = [any(left <= x < right for left, right in places) for x in range(side)]
    return png.write(side, side, b"".join(bytes([255 * is_white] * 3) for is_white in white))


EDGES, OTHER_EDGES = stripes((10, 20)), stripes((0, 5), (40, 60))


class ControlsTest(GraphsTestCase):
    def setUp(self):
        super().setUp()
        self.adapters = self.folder / "adapters"
        base = checkpoint() / BASE
        control_net.write(base, self.adapters / "canny", seed=1)
        control_net.write(base, self.adapters / "maps/depth", seed=2)

    def serve(self, *arguments, **named):
        return self.start(f"--adapters={self.adapters}", *arguments, **named)

    def draw(self, api, *controls, **fields):
        return b"".join(png.read(super().draw(api, controls=list(controls), **fields))[2])

    def test_pictures_follow_their_maps_and_nothing_is_compiled(self):
        """Guard: StartUp::WarmBuckets, which has steps that read nets compiled; the lane's number of the network."""
        server, api = self.serve("--forbid-compile-after-ready")
        compiled = compilations(server)
        canny = {"name": "canny", "image": EDGES}
        depth = {"name": "maps/depth", "image": OTHER_EDGES, "scale": 0.8, "end": 0.5}
        asked = [(), (canny,), (canny | {"image": OTHER_EDGES},), (canny | {"scale": 0.5},), (depth,), (canny, depth)]
        alone = [self.draw(api, *controls) for controls in asked]
        self.assertEqual(len(set(alone)), len(asked), "some pictures are the same")
        self.assertEqual(self.draw(api), alone[0])  # no trace of them is left
        with concurrent.futures.ThreadPoolExecutor() as threads:
            together = [threads.submit(self.draw, api, *controls) for controls in asked]
            self.assertEqual([future.result() for future in together], alone)
        self.assertEqual(compilations(server), compiled)

    def test_a_restart_compiles_nothing_and_another_net_neither(self):
        server, _ = self.serve()
        self.assertEqual(server.stop(), 0)
        control_net.write(checkpoint() / BASE, self.adapters / "pose", seed=3)
        server, api = self.serve("--forbid-compile-after-ready")
        self.assertEqual(compilations(server), 0)
        self.assertNotEqual(self.draw(api, {"name": "pose", "image": EDGES}), self.draw(api))
        self.assertEqual(compilations(server), 0)

    def test_a_net_where_there_was_none_at_the_start_needs_leave_to_compile(self):
        later = self.folder / "later"
        for arguments, draws in (((), False), ((ALLOW_COLD,), True)):
            folder = later / f"{draws}"
            folder.mkdir(parents=True)
            server, api = self.start(f"--adapters={folder}", *arguments, cache=self.folder / f"cache-{draws}")
            plain = self.draw(api)
            control_net.write(checkpoint() / BASE, folder / "canny", seed=1)
            self.assertIn("canny", latent(server, "adapters")[1])  # this looks at the folder
            control = {"name": "canny", "image": EDGES}
            if draws:
                self.assertNotEqual(self.draw(api, control, bucket_policy=COLD_OK), plain)
                continue
            with self.assertRaises(grpc.RpcError) as raised:
                self.draw(api, control)
            self.assertEqual(reason(raised.exception)[0], "BUCKET_COLD")
            self.assertIn("with the ControlNet canny", raised.exception.details())

    def test_at_the_command_line(self):
        server, api = self.serve()
        expected = self.draw(api, {"name": "canny", "image": EDGES, "scale": 0.7, "start": 0, "end": 0.5}, seed=3,
                             prompt="a star")
        edges, output = self.folder / "edges.png", self.folder / "star.png"
        edges.write_bytes(EDGES)
        code, _, err = latent(server, "generate", "a star", "--seed=3", "--width=64", "--height=64",
                              f"--num-inference-steps={api.request().num_inference_steps}",
                              f"--control=canny={edges}:0.7:0:0.5", f"--output={output}")
        self.assertEqual(code, 0, err)
        self.assertEqual(b"".join(png.read(output.read_bytes())[2]), expected)
        self.assertIn(b"canny:0.7", output.read_bytes())
        code, out, err = latent(server, "adapters", "--json")
        self.assertEqual(code, 0, err)
        kinds = {adapter["info"]["name"]: adapter["info"]["kind"] for adapter in json.loads(out)["adapters"]}
        self.assertEqual(set(kinds), {"canny", "maps/depth"})
        self.assertTrue(all(kind == "ADAPTER_KIND_CONTROLNET" for kind in kinds.values()), kinds)
        self.assertNotEqual(latent(server, "generate", "a star", "--control=canny")[0], 0)
        self.assertRegex(latent(server, "capabilities")[1], r"canny \(ControlNet, for base")

    def test_a_union_follows_the_type_of_its_map(self):
        """Guard: ControlNetsOf's hint graph, which is told the type; `latent` and PNGs, which name it."""
        control_net.write(checkpoint() / BASE, self.adapters / "union", seed=4, types=6)
        server, api = self.serve("--forbid-compile-after-ready")
        compiled = compilations(server)
        union = {"name": "union", "image": EDGES, "scale": 0.7}
        drawn = [self.draw(api, union | {"control_mode": mode}, seed=3, prompt="a star") for mode in (3, 1)]
        self.assertEqual(len({*drawn, self.draw(api, seed=3, prompt="a star")}), 3, "some pictures are the same")
        self.assertNotEqual(self.draw(api, union | {"control_mode": 3}, {"name": "canny", "image": EDGES}, seed=3, prompt="a star"),
                            drawn[0])
        self.assertEqual(compilations(server), compiled)
        edges, output = self.folder / "edges.png", self.folder / "star.png"
        edges.write_bytes(EDGES)
        for mode in ("canny", "3"):
            code, _, err = latent(server, "generate", "a star", "--seed=3", "--width=64", "--height=64",
                                  f"--num-inference-steps={api.request().num_inference_steps}",
                                  f"--control=union@{mode}={edges}:0.7", f"--output={output}")
            self.assertEqual(code, 0, err)
            self.assertEqual(b"".join(png.read(output.read_bytes())[2]), drawn[0])
            self.assertIn(b"union@canny:0.7", output.read_bytes())
            output.unlink()
        self.assertRegex(latent(server, "capabilities")[1],
                         r"union \(ControlNet-Union of openpose, depth, hed, canny, normal, segment, for base")
        self.assertRegex(latent(server, "adapters")[1], r"ControlNet-Union, 6 modes")
        for controls, said in (([union], "set it: union is a ControlNet-Union"),
                               ([union | {"control_mode": 6}], "tile and repaint, 6 and 7, are ProMax's"),
                               ([{"name": "canny", "image": EDGES, "control_mode": 3}], "only a ControlNet-Union has modes")):
            with self.assertRaises(grpc.RpcError) as raised:
                self.draw(api, *controls)
            self.assertIn(said, violations(raised.exception)["controls[0].control_mode"])

    def test_bad_ones_are_named(self):
        _, api = self.serve()
        control = {"name": "canny", "image": EDGES}
        for controls, field, said in (
                ([control | {"name": "cany"}], "controls[0].name", "the nearest is canny"),
                ([control, control | {"image": b""}], "controls[1].image", "set it"),
                ([control | {"image": b"no picture"}], "controls[0].image", ""),
                ([control | {"scale": 11}], "controls[0].scale", "-10 to 10"),
                ([control | {"scale": float("nan")}], "controls[0].scale", "finite"),
                ([control | {"start": 0.5, "end": 0.5}], "controls[0].start", "start < end"),
                (5 * [control], "controls", "at most 4")):
            with self.assertRaises(grpc.RpcError) as raised:
                self.draw(api, *controls)
            self.assertIn(said, violations(raised.exception)[field])
