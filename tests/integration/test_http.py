"""Pictures over HTTP: by OpenAI's Images API, AUTOMATIC1111's and Hugging Face's, with the standard library's client."""

import base64
import http.client
import json
import unittest
import urllib.request

import png
from server_process import DEADLINE, Server
from shared_server import SharedServerTestCase

PROMPT = "a red circle on a blue background"
FORM_BOUNDARY = "boundary"


def form(fields, files):
    """(body, headers) of multipart/form-data."""
    parts = [f'--{FORM_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
             for name, value in fields.items()]
    for name, content in files.items():
        head = f'--{FORM_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="a.png"\r\n' \
               "Content-Type: image/png\r\n\r\n"
        parts.append(head.encode() + content + b"\r\n")
    return b"".join(parts) + f"--{FORM_BOUNDARY}--\r\n".encode(), {
        "Content-Type": f"multipart/form-data; boundary={FORM_BOUNDARY}"}


def events(text):
    """[(name, data)] of a stream of events, comments left out."""
    found = []
    for block in text.decode().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith(":")]
        if lines:
            found.append((lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))))
    return found


class HttpTest(SharedServerTestCase):
    ARGUMENTS = ("--http-listen=127.0.0.1:0", "--http-cors-origins=https://app.example.org")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        cls.http = line.removeprefix("http on ")

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body); a dict is sent as JSON."""
        connection = http.client.HTTPConnection(self.http, timeout=DEADLINE)
        self.addCleanup(connection.close)
        if isinstance(body, dict):
            body = json.dumps(body)
        connection.request(method, path, body, headers or {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def draw(self, path, body, headers=None):
        status, _, answer = self.ask("POST", path, body, headers)
        self.assertEqual(status, 200, answer[:2000])
        return json.loads(answer)

    def small(self, **fields):
        return {"prompt": PROMPT, "size": "64x64", "num_inference_steps": 2, "seed": 7, **fields}

    def grpc_picture(self, **fields):
        return self.api.generate(self.api.request(prompt=PROMPT, **fields)).images[0].data

    def test_a_picture_is_that_of_grpc(self):
        answer = self.draw("/v1/images/generations", self.small(n=2, request_id="over-http"))
        drawn = self.api.generate(self.api.request(prompt=PROMPT, num_images_per_prompt=2))
        self.assertEqual([base64.b64decode(each["b64_json"]) for each in answer["data"]],
                         [image.data for image in drawn.images])
        self.assertEqual([each["seed"] for each in answer["data"]], [7, 8])
        self.assertEqual(answer["latentd"]["parameters"]["num_inference_steps"], 2)
        line = self.server.request_line("over-http")
        self.assertEqual((line["method"], line["transport"], line["http"], line["code"], line["images"]),
                         ("openai.generations", "http", 200, "OK", 2))
        self.assertNotIn(PROMPT, json.dumps(line))

    def test_a_quality_is_an_effort(self):
        less = self.draw("/v1/images/generations", self.small(quality="low"))
        self.assertEqual(less["quality"], "low")
        self.assertEqual(less["latentd"]["parameters"]["effort"], "EFFORT_FAST")
        self.assertEqual(less["latentd"]["parameters"]["guidance_stop"], "GUIDANCE_STOP_AUTO")
        self.assertIn("--feature-cache", less["latentd"]["warnings"][0])
        fields = self.draw("/v1/images/generations", self.small(quality="hd", effort="full", guidance_stop="auto"))
        self.assertEqual(fields["data"][0]["b64_json"], less["data"][0]["b64_json"])
        plain = self.draw("/v1/images/generations", self.small(quality="auto"))
        self.assertNotIn("effort", plain["latentd"]["parameters"])

    def test_a_size_between_buckets_is_cut_out(self):
        answer = self.draw("/v1/images/generations", self.small(size="72x64", response_format="url"))
        head, _, picture = answer["data"][0]["url"].partition(",")
        self.assertEqual(head, "data:image/png;base64")
        self.assertEqual(answer["size"], "72x64")
        self.assertEqual(answer["latentd"]["executed_size"], "96x64")
        self.assertEqual(png.read(base64.b64decode(picture))[:2], (72, 64))

    def test_a_stream_of_partial_images_ends_with_the_same_picture(self):
        status, headers, text = self.ask("POST", "/v1/images/generations", self.small(
            num_inference_steps=40, stream=True, partial_images=2))
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"))
        told = events(text)
        self.assertEqual(told[-1][0], "image_generation.completed")
        partials = [data for name, data in told if name == "image_generation.partial_image"]
        self.assertEqual([data["partial_image_index"] for data in partials], list(range(len(partials))))
        self.assertLessEqual(len(partials), 2)
        for data in partials:
            self.assertEqual(base64.b64decode(data["b64_json"])[:2], b"\xff\xd8")
        self.assertEqual(base64.b64decode(told[-1][1]["b64_json"]), self.grpc_picture(num_inference_steps=40))

    def test_an_edit_by_form_and_in_json_is_image_to_image(self):
        image = png.write(64, 64, bytes(range(192)))
        expected = self.grpc_picture(image=image, strength=0.6, num_inference_steps=4)
        fields = {"prompt": PROMPT, "size": "64x64", "num_inference_steps": 4, "seed": 7}
        body, headers = form(fields, {"image[]": image})
        by_form = self.draw("/v1/images/edits", body, headers)
        in_json = self.draw("/v1/images/edits", {**fields, "image": base64.b64encode(image).decode()})
        for answer in (by_form, in_json):
            self.assertEqual(base64.b64decode(answer["data"][0]["b64_json"]), expected)

    def test_a_mask_is_drawn_where_it_is_transparent(self):
        image = png.write(64, 64, bytes(range(192)))
        left_is_drawn = png.write(64, 64, bytes(32 * 4) + b"\0\0\0\xff" * 32, channels=4)
        expected = self.grpc_picture(image=image, mask_image=png.write(64, 64, b"\xff" * 32 * 3 + bytes(32 * 3)), num_inference_steps=4)
        body, headers = form({"prompt": PROMPT, "num_inference_steps": 4, "seed": 7}, {"image": image, "mask": left_is_drawn})
        self.assertEqual(base64.b64decode(self.draw("/v1/images/edits", body, headers)["data"][0]["b64_json"]), expected)
        body, headers = form({"prompt": PROMPT}, {"image": image, "mask": image})
        status, _, answer = self.ask("POST", "/v1/images/edits", body, headers)
        error = json.loads(answer)["error"]
        self.assertEqual((status, error["param"]), (400, "mask"))
        self.assertIn("has no transparency", error["message"])

    def test_every_route_gives_as_many_pictures_as_it_was_asked_for(self):
        image = base64.b64encode(png.write(64, 64, bytes(range(192)))).decode()
        fields = {"num_inference_steps": 4, "seed": 7}
        edits = self.draw("/v1/images/edits", {**fields, "prompt": PROMPT, "image": image, "n": 2})
        variations = self.draw("/v1/images/variations", {**fields, "image": image, "n": 2})
        web = self.draw("/sdapi/v1/img2img", {"prompt": PROMPT, "init_images": [image], "steps": 4, "seed": 7, "batch_size": 2,
                                              "width": 64, "height": 64})
        for pictures in ([each["b64_json"] for each in edits["data"]], [each["b64_json"] for each in variations["data"]], web["images"]):
            self.assertEqual(len(set(pictures)), 2)

    def test_a_huge_size_is_refused_by_every_route(self):
        image = base64.b64encode(png.write(64, 64, bytes(192))).decode()
        huge = {"width": 99999, "height": 10000}
        for path, body in (("/v1/images/generations", {"prompt": PROMPT, "size": "99999x10000"}),
                           ("/v1/images/edits", {"prompt": PROMPT, "image": image, "size": "99999x10000"}),
                           ("/v1/images/variations", {"image": image, "size": "99999x10000"}),
                           ("/sdapi/v1/txt2img", {"prompt": PROMPT, **huge}),
                           ("/sdapi/v1/img2img", {"prompt": PROMPT, "init_images": [image], **huge}),
                           ("/hf", {"inputs": PROMPT, "parameters": huge})):
            with self.subTest(path=path):
                status, _, answer = self.ask("POST", path, body)
                self.assertIn(status, (400, 422), answer)
                self.assertIn(b"99999", answer)

    def test_errors_have_names_and_are_not_drawn(self):
        status, headers, body = self.ask("POST", "/v1/images/generations", {"prompt": PROMPT, "size": "60x64", "steps": 0})
        error = json.loads(body)["error"]
        self.assertEqual((status, error["type"]), (400, "invalid_request_error"))
        self.assertEqual({each["field"] for each in error["latentd"]["violations"]}, {"size", "steps"})
        self.assertTrue(headers["x-request-id"])
        status, _, body = self.ask("POST", "/v1/images/generations", self.small(no_such_field=1))
        self.assertEqual((status, json.loads(body)["error"]["code"]), (400, "unknown_parameter"))

    def test_the_models_are_listed(self):
        status, _, body = self.ask("GET", "/v1/models")
        self.assertEqual(status, 200)
        names = [model["id"] for model in json.loads(body)["data"]]
        self.assertTrue(names)
        self.draw("/v1/images/generations", self.small(model=names[0]))

    def test_the_web_ui_draws_the_same(self):
        answer = self.draw("/sdapi/v1/txt2img", {
            "prompt": PROMPT, "steps": 2, "width": 64, "height": 64, "seed": 7, "cfg_scale": 3,
            "sampler_name": "Euler a", "batch_size": 1, "save_images": False})
        expected = self.grpc_picture(guidance_scale=3, scheduler="Euler a", prompt_syntax="PROMPT_SYNTAX_A1111")
        self.assertEqual(base64.b64decode(answer["images"][0]), expected)
        info = json.loads(answer["info"])
        self.assertEqual((info["seed"], info["steps"], info["width"]), (7, 2, 64))
        self.assertIn("Steps: 2", info["infotexts"][0])
        names = [sampler["name"] for sampler in json.loads(self.ask("GET", "/sdapi/v1/samplers")[2])]
        self.assertIn("Euler a", names)
        self.assertIn("DPM++ 2M", names)

    def test_hugging_faces_client_gets_the_bytes(self):
        status, headers, body = self.ask("POST", "/hf", {
            "inputs": PROMPT, "parameters": {"width": 64, "height": 64, "num_inference_steps": 2, "seed": 7}})
        self.assertEqual((status, headers["Content-Type"]), (200, "image/png"))
        self.assertEqual(body, self.grpc_picture())

    def test_a_client_that_leaves_stops_its_work(self):
        connection = http.client.HTTPConnection(self.http, timeout=DEADLINE)
        connection.request("POST", "/v1/images/generations", json.dumps(self.small(
            num_inference_steps=150, n=4, request_id="leaves")))
        self.server.wait_for_log(lambda entry: True)
        connection.close()
        line = self.server.request_line("leaves")
        self.assertEqual((line["code"], line["http"]), ("CANCELLED", 499))

    def test_a_page_of_an_allowed_origin_may_ask(self):
        for origin, status in (("https://app.example.org", 200), ("https://evil.example.org", 403)):
            got, headers, _ = self.ask("POST", "/v1/images/generations", self.small(), {"Origin": origin})
            self.assertEqual(got, status)
            self.assertEqual(headers["Access-Control-Allow-Origin"], origin if status == 200 else None)

    def test_pages_of_other_origins_see_nothing_of_the_operators(self):
        """Guard: for_operators in RouteOptionsOf (server/http/http_server.cc)."""
        self.assertEqual(self.ask("GET", "/latent/v1/status")[0], 200)
        for path in ("memory", "graphs"):
            self.assertEqual(self.ask("GET", f"/latent/v1/{path}")[0], 403, path)

    def test_probes_answer(self):
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        self.assertEqual(self.ask("GET", "/readyz")[0], 200)


class DefaultsTest(unittest.TestCase):
    def test_fields_that_are_not_set_are_the_operators(self):
        """Guard: RequestBuilder::SetDefaults; the flag's way from the command line to the routes."""
        server = Server("--http-listen=127.0.0.1:0", "--http-defaults=num_inference_steps: 3 guidance_scale: 1")
        self.addCleanup(server.kill)
        server.start()
        line = server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        url = f"http://{line.removeprefix('http on ')}/v1/images/generations"

        def parameters(**fields):
            body = json.dumps({"prompt": PROMPT, "size": "64x64", **fields}).encode()
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=DEADLINE) as answer:
                return json.load(answer)["latentd"]["parameters"]

        drawn = parameters()
        self.assertEqual((drawn["num_inference_steps"], drawn["guidance_scale"]), (3, 1))
        drawn = parameters(steps=2, guidance_scale=4)
        self.assertEqual((drawn["num_inference_steps"], drawn["guidance_scale"]), (2, 4))

    def test_wrong_ones_are_a_wrong_flag(self):
        server = Server("--http-listen=127.0.0.1:0", "--http-defaults=steps: 3")
        self.addCleanup(server.kill)
        self.assertEqual(server.wait(), 2, server.log())
        self.assertIn("--http-defaults", server.log())


if __name__ == "__main__":
    unittest.main()
