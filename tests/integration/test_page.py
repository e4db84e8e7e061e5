"""The page at "/" of --http-listen, in Debian's headless Chromium."""

import base64
import http.client
import json
import pathlib
import re
import tempfile
import unittest

import png
from browser import Browser, Page
from server_process import DEADLINE, SMALL_BUCKETS
from shared_server import SharedServerTestCase

PROMPT = "a red circle on a blue background"
KEY = "the-key-of-this-page"
# So many steps give one preview the time to come, as in test_previews.
STEPS = 40


def http_address(server):
    line = server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
    return line.removeprefix("http on ")


class BrowserTestCase(SharedServerTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.http = http_address(cls.server).replace("0.0.0.0", "127.0.0.1")
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, **size):
        page = Page(self.browser, f"http://{self.http}/", **size)
        self.addCleanup(page.close)
        return page

    def fill(self, page, **fields):
        for name, value in {"prompt": PROMPT, "size": "64x64", "steps": 2, "seed": 7, **fields}.items():
            page.run(f"document.getElementById('{name}').value = {json.dumps(str(value))}")
            self.assertEqual(page.run(f"document.getElementById('{name}').value"), str(value))

    def click(self, page, name):
        page.run(f"document.getElementById('{name}').click()")

    def draw(self, page, **fields):
        """The bytes of the picture that the page shows at the end."""
        self.fill(page, **fields)
        self.click(page, "draw")
        self.wait_for_end(page)
        self.assertEqual(self.text(page, "activity"), "Done.", self.text(page, "error"))
        return self.shown(page)

    def wait_for_end(self, page):
        page.wait_for("!document.getElementById('draw').disabled")

    def rows(self, page, table):
        return page.run(f"[...document.querySelectorAll('#{table} tr')].slice(1).map((row) => [...row.cells].map((cell) => cell.textContent))")

    def shown(self, page):
        return base64.b64decode(page.run(
            "btoa(String.fromCharCode(...new Uint8Array(await (await import('/page/gallery.js')).shownPicture().blob.arrayBuffer())))"))

    def text(self, page, name):
        return page.run(f"document.getElementById('{name}').textContent")


class PageTest(BrowserTestCase):
    ARGUMENTS = ("--http-listen=127.0.0.1:0",)
    BUCKETS = f"{SMALL_BUCKETS},256x256"  # the last for work that lasts

    def ready(self, **size):
        page = self.open(**size)
        page.wait_for("document.getElementById('state').textContent === 'ready'")
        page.wait_for("document.getElementById('size').options.length > 0")
        return page

    def test_a_picture_is_drawn_and_seen_as_it_comes(self):
        page = self.ready()
        page.run("""(() => {
            const picture = document.getElementById('picture');
            window.previews = 0;
            new MutationObserver(() => { previews += picture.className === 'preview'; }).observe(picture, {attributes: true});
        })()""")
        drawn = self.draw(page, steps=STEPS)
        expected = self.api.generate(self.api.request(prompt=PROMPT, num_inference_steps=STEPS, seed=7)).images[0].data
        self.assertEqual(drawn, expected)
        self.assertGreater(page.run("previews"), 0)
        self.assertEqual(page.run("[document.getElementById('picture').naturalWidth, document.getElementById('picture').className]"),
                         [64, ""])
        self.assertRegex(self.text(page, "facts"), rf"Seed7.*Steps{STEPS}.*Time")
        self.assertEqual(page.errors, [])

    def test_parameters_of_a_picture_are_drawn_again(self):
        page = self.ready()
        first = self.draw(page, seed="", negative_prompt="people", guidance_scale=3, scheduler="euler", effort="high")
        self.assertIn("Guidance stop: auto", png.read(first)[3]["parameters"])
        self.fill(page, prompt="another", negative_prompt="", guidance_scale="", scheduler="", effort="")
        self.click(page, "reuse")
        page.run("document.getElementById('draw').click()")
        self.wait_for_end(page)
        self.assertEqual(self.shown(page), first)
        self.draw(page, n=2)
        self.assertEqual(page.run("document.querySelectorAll('#gallery img').length"), 4)

    def test_stop_ends_the_work(self):
        page = self.ready()
        self.fill(page, size="256x256", steps=150, n=4)
        self.click(page, "draw")
        page.wait_for("/^(Drawing|Picture)/.test(document.getElementById('activity').textContent)")
        self.click(page, "stop")
        self.wait_for_end(page)
        self.assertEqual(self.text(page, "activity"), "Stopped.")
        self.server.wait_for_log(lambda entry: entry["message"] == "request" and entry.get("http") == 499)
        self.assertEqual(page.errors, [])

    def test_a_picture_that_is_dropped_is_drawn_over(self):
        page = self.ready()
        image = png.write(64, 64, bytes(range(192)))
        page.run("""(() => {
            const dropped = new DataTransfer();
            dropped.items.add(new File([Uint8Array.from(atob('%s'), (c) => c.charCodeAt(0))], 'a.png', {type: 'image/png'}));
            document.dispatchEvent(new DragEvent('drop', {dataTransfer: dropped, cancelable: true}));
        })()""" % base64.b64encode(image).decode())
        page.wait_for("document.getElementById('init-image').naturalWidth === 64")
        drawn = self.draw(page, steps=4, strength=0.5)
        expected = self.api.request(prompt=PROMPT, num_inference_steps=4, seed=7, image=image, strength=0.5)
        self.assertEqual(drawn, self.api.generate(expected).images[0].data)
        self.assertEqual(page.errors, [])

    def test_what_is_refused_is_said_at_its_field(self):
        page = self.ready()
        self.fill(page, seed="9" * 20)
        self.click(page, "draw")
        self.wait_for_end(page)
        self.assertIn("seed", self.text(page, "error"))
        self.assertEqual(page.run("[...document.querySelectorAll('[aria-invalid]')].map(({id}) => id)"), ["seed"])
        self.draw(page)
        self.assertTrue(page.run("document.getElementById('error').hidden"))

    def test_a_prompt_stays_text(self):
        page = self.ready()
        prompt = "<img src=x onerror=\"window.broken = true\"><b>bold</b>"
        self.draw(page, prompt=prompt)
        self.assertIn(prompt, self.text(page, "facts"))
        self.assertEqual(page.run("[window.broken ?? null, document.querySelectorAll('b').length]"), [None, 0])
        self.assertEqual(page.errors, [])

    def test_who_runs_the_server_sees_memory_and_graphs(self):
        page = self.ready()
        self.click(page, "server")
        page.run("document.getElementById('server').open = true")
        page.wait_for("document.querySelectorAll('#graphs tr').length > 1")
        graphs = self.rows(page, "graphs")
        self.assertEqual(len(graphs), len(self.api.graphs(all=True)))
        # A graph of another model may be of the same component, size and rows.
        took = sorted((row[0], row[1], row[2], float(row[6])) for row in graphs if row[0] == "unet step" and row[5] == "ready")
        expected = sorted(("unet step", f"{graph.bucket.width}x{graph.bucket.height}", str(graph.rows), graph.compile_time.ToNanoseconds() / 1e9)
                          for graph in self.api.graphs(all=True) if (graph.component, graph.part) == ("unet", "step"))
        self.assertEqual([row[:3] for row in took], [graph[:3] for graph in expected])
        self.assertGreater(len(took), 0)
        for row, graph in zip(took, expected):
            self.assertAlmostEqual(row[3], graph[3], delta=0.01)
        memory = dict(self.rows(page, "memory"))
        self.assertGreater(int(memory["weights"]), 0)
        self.assertGreaterEqual(int(memory["budget"]), int(memory["held of the budget"]))
        self.assertEqual(self.text(page, "version"), f"latentd {self.api.capabilities().version}")
        sizes = [[size, state] for size, _, state in self.rows(page, "buckets")]
        self.assertEqual(sorted(sizes), [["256x256", "ready"], ["64x64", "ready"], ["96x64", "ready"]])
        self.assertEqual(page.errors, [])

    def test_a_narrow_window_has_room_for_it(self):
        page = self.ready(width=360)
        self.draw(page)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360)

    def test_the_browser_asks_whether_it_is_still_the_same(self):
        connection = http.client.HTTPConnection(self.http, timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request("GET", "/")
        whole = connection.getresponse()
        scripts = re.findall(r'(?:src|href)="(page/[^"]+)"', whole.read().decode())
        self.assertEqual((whole.status, whole.headers["Cache-Control"], len(scripts)), (200, "no-cache", 2))
        connection.request("GET", "/", headers={"If-None-Match": whole.headers["ETag"]})
        same = connection.getresponse()
        self.assertEqual((same.status, same.read()), (304, b""))
        connection.request("GET", f"/{scripts[0]}")  # the connection goes on
        self.assertEqual(connection.getresponse().status, 200)


class PageWithKeysTest(BrowserTestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "keys"
        file.touch(0o600)
        file.write_text(f"page {KEY}\n")
        cls.ARGUMENTS = ("--http-listen=127.0.0.1:0", f"--api-key-file={file}")
        super().setUpClass()

    def type_key(self, page, key):
        page.wait_for("document.getElementById('key-dialog').open")
        reason = self.text(page, "key-reason")
        page.run(f"document.getElementById('key').value = '{key}', document.querySelector('#key-form .first').click()")
        return reason

    def test_the_key_that_is_typed_stays_in_the_tab(self):
        page = self.open()
        self.assertIn("asks for an API key", self.type_key(page, KEY + "-with-a-mistake"))
        page.wait_for("document.getElementById('key-reason').textContent.includes('none of this server')")
        # As that of the first question does, where the second comes sooner than it.
        page.run("document.getElementById('key-dialog').dispatchEvent(new Event('close'))")
        self.type_key(page, KEY)
        page.wait_for("document.getElementById('size').options.length > 0")
        self.draw(page)
        self.assertEqual(page.run("[localStorage.length, document.cookie, Object.values(sessionStorage)]"), [0, "", [KEY]])
        page.run("document.getElementById('server').open = true")
        self.assertIn("without keys", page.wait_for("document.getElementById('graphs').textContent"))
        self.assertEqual(page.errors, [])
        other = self.open()
        other.wait_for("document.getElementById('key-dialog').open")
        self.assertNotIn(KEY, self.server.log())

    def test_who_has_no_key_sees_the_page_alone(self):
        page = self.open()
        page.wait_for("document.getElementById('key-dialog').open")
        self.click(page, "key-cancel")
        page.wait_for("document.getElementById('state').textContent === 'not there'")
        self.assertEqual(page.run("document.getElementById('size').options.length"), 0)


class BeyondThisMachineTest(BrowserTestCase):
    ARGUMENTS = ("--http-listen=0.0.0.0:0", "--http-page")

    def test_the_page_is_there_where_it_is_asked_for(self):
        page = self.open()
        page.wait_for("document.getElementById('size').options.length > 0")
        self.draw(page)
        page.run("document.getElementById('server').open = true")
        self.assertIn("on a loopback address", page.wait_for("document.getElementById('graphs').textContent"))
        self.assertEqual(page.errors, [])
        self.server.wait_for_log(lambda entry: entry["message"].startswith("the page at --http-listen draws for everyone"))


if __name__ == "__main__":
    unittest.main()
