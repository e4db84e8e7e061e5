"""Requests of clients that are too large to install, as their sources send them (recorded/*.json), with what each reads of an answer.

Sizes, and what else a user of the client sets, are changed to what the server draws.
"""

import base64
import http.client
import json
import pathlib
import unittest

import png
from server_process import DEADLINE, wait_until
from shared_server import SharedServerTestCase

SIZE = {"width": 64, "height": 64}
RECORDED = pathlib.Path(__file__).with_name("recorded")
PROMPT = "a red circle on a blue background"
IMAGE = png.write(64, 64, bytes(range(192)))


def form(texts, file):
    """(Content-Type, body) as aiohttp writes a form with a PNG."""
    boundary = "8f1d5c2b7a6e4f30b9c8d7e6f5a4b3c2"
    parts = [(f'Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name="{name}"', text.encode())
             for name, text in texts.items()]
    parts.append((f'Content-Type: image/png\r\nContent-Disposition: form-data; name="{file}"; filename="image.png"', IMAGE))
    body = b"".join(f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n" for head, content in parts)
    return f"multipart/form-data; boundary={boundary}", body + f"--{boundary}--\r\n".encode()


class RecordedClientsTest(SharedServerTestCase):
    ARGUMENTS = ("--http-listen=127.0.0.1:0",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        cls.http = line.removeprefix("http on ")

    def calls_of(self, file):
        """A function that sends the call of a name in the file and returns its answer, for a test that sends all of them."""
        recorded = {call["name"]: call for call in json.loads((RECORDED / file).read_text())["calls"]}
        unsent = set(recorded)
        self.addCleanup(lambda: self.assertEqual(unsent, set()))

        def send(name, **changed):
            unsent.discard(name)
            return self.answer_of(self.begin(recorded[name], changed))

        send.begin = lambda name, **changed: self.begin(recorded[name], changed)
        return send

    def begin(self, call, changed):
        """Sends it; returns the connection."""
        headers, body = dict(call.get("headers", {})), None
        if "form" in call:
            headers["Content-Type"], body = form({**call["form"], **changed}, call["file"])
        elif "body" in call:
            headers["Content-Type"] = "application/json"
            body = json.dumps({**call["body"], **changed} if isinstance(call["body"], dict) else call["body"])
        connection = http.client.HTTPConnection(self.http, timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request(call["method"], call["path"], body, headers)
        return connection

    def answer_of(self, connection, status=200):
        answer = connection.getresponse()
        body = json.loads(answer.read())
        self.assertEqual(answer.status, status, body)
        return body

    def expect_pictures(self, texts, seeds, **fields):
        """Compares base64 texts with the pictures of gRPC for the fields and these seeds."""
        request = self.api.request(prompt=fields.pop("prompt", PROMPT), **fields)
        request.ClearField("seed")
        request.seeds.extend(seeds)
        request.num_images_per_prompt = len(seeds)
        drawn = [image.data for image in self.api.generate(request).images]
        self.assertEqual([base64.b64decode(text, validate=True) for text in texts], drawn)

    def expect_web_ui_pictures(self, answer, **fields):
        """Likewise, for those of the web UI's dialect; returns what the answer says about them."""
        info = json.loads(answer["info"])
        self.expect_pictures(answer["images"], info["all_seeds"], prompt_syntax="PROMPT_SYNTAX_A1111", **fields)
        return info

    def test_all_files_are_sent(self):
        sent = {"open_webui.json", "open_webui_openai.json", "silly_tavern.json", "libre_chat.json", "textgen.json"}
        self.assertEqual({file.name for file in RECORDED.iterdir()}, sent)

    def test_open_webui_by_the_web_uis_api(self):
        send = self.calls_of("open_webui.json")
        models = [(model["title"], model["model_name"]) for model in send("models")]
        options = send("verify")
        self.assertIn(options["sd_model_checkpoint"], [title for title, _ in models])
        send("set model", **{**options, "sd_model_checkpoint": models[0][0]})  # the whole of what it was given
        answer = send("draw", **SIZE)
        info = self.expect_web_ui_pictures(answer, num_inference_steps=2, negative_prompt="text, watermark")
        self.assertEqual(info["all_seeds"], [info["seed"], info["seed"] + 1])

    def test_open_webui_by_openais_api(self):
        send = self.calls_of("open_webui_openai.json")
        for name, count in (("draw", 2), ("draw by an older model", 1)):
            with self.subTest(name):
                data = send(name, size="64x64", num_inference_steps=2)["data"]  # an administrator may add fields
                self.assertEqual([each.get("url") for each in data], [None] * count)  # is looked for first
                self.expect_pictures([each["b64_json"] for each in data], [each["seed"] for each in data])
        for name, size in (("edit", {"size": "64x64"}), ("edit of a list", {})):
            with self.subTest(name):
                drawn, = send(name, num_inference_steps="4", **size)["data"]
                self.expect_pictures([drawn["b64_json"]], [drawn["seed"]], image=IMAGE, strength=0.6, num_inference_steps=4)

    def test_silly_tavern(self):
        send = self.calls_of("silly_tavern.json")
        self.assertNotIn("forge_preset", send("options"))
        self.assertEqual(send("upscalers")[0]["name"], "None")  # others are put behind the first
        for name in ("latent upscalers", "samplers", "schedulers"):
            self.assertTrue(all(each["name"] for each in send(name)), name)
        self.assertEqual([each["model_name"] for each in send("vaes")], [])
        self.assertIn("DDIM", [each["name"] for each in send("samplers")])
        self.assertIn("normal", [each["name"] for each in send("schedulers")])
        send("set model", sd_model_checkpoint=send("models")[0]["title"])
        self.assertEqual(self.progress(send), (0, 0))  # it waits for these
        answer = send("draw", **SIZE)
        info = self.expect_web_ui_pictures(answer, num_inference_steps=20, guidance_scale=7, scheduler="ddim",
                                           negative_prompt="lowres, bad anatomy", prompt=f"{PROMPT}, best quality")
        self.assertEqual(info["seed"], 7)
        drawing = send.begin("draw", steps=150, n_iter=4, **SIZE)
        wait_until(lambda: self.progress(send)[0] > 0, "nothing is drawn")
        send("cancel")
        drawing.close()
        self.server.wait_for_log(lambda entry: entry.get("method") == "sdapi.txt2img" and entry.get("code") == "CANCELLED")
        wait_until(lambda: self.progress(send) == (0, 0), "progress of what was cancelled")

    def progress(self, send):
        progress = send("progress")
        return progress["progress"], progress["state"]["job_count"]

    def test_libre_chat(self):
        send = self.calls_of("libre_chat.json")
        refusal = self.answer_of(send.begin("draw"), 422)  # its size is fixed
        self.assertEqual(refusal["error"], "no_such_bucket")
        self.assertIn("no bucket covers 1024x1024", refusal["detail"])
        answer = send("draw", **SIZE)
        prompts = {"prompt": f"{PROMPT}, flat, simple, clean, bright, round, centered",
                   "negative_prompt": "semi-realistic, cgi, 3d, render, sketch, text, blurry"}
        info = self.expect_web_ui_pictures(answer, num_inference_steps=22, guidance_scale=4.5, **prompts)
        self.assertEqual((info["width"], info["height"]), (64, 64))
        last = info["infotexts"][0].split("\n")[-1]
        self.assertIn(f"Seed: {info['seed']}", last)
        self.assertIn("Steps: 22", last)

    def test_textgen(self):
        send = self.calls_of("textgen.json")
        titles = [each["title"] for each in send("models")]
        self.assertIn(send("options")["sd_model_checkpoint"], titles)
        self.assertIn("DPM++ 2M", [each["name"] for each in send("samplers")])
        send("unload")
        send("reload")
        send("set model", sd_model_checkpoint=titles[0])
        answer = send("draw", **SIZE)
        self.assertTrue(all("," not in text for text in answer["images"]))  # it cuts a text at its comma
        prompts = {"prompt": f"(Masterpiece:1.1), detailed, intricate, colorful({PROMPT}:1)",
                   "negative_prompt": "(worst quality, low quality:1.3)"}
        self.expect_web_ui_pictures(answer, num_inference_steps=32, guidance_scale=7, scheduler="dpmpp_2m", **prompts)


if __name__ == "__main__":
    unittest.main()
