"""A Prometheus that a test starts on a latentd: the configuration and rules of deploy/prometheus, once a second."""

import json
import math
import pathlib
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import server_process

SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "prometheus"


class Prometheus:
    def __init__(self, target):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        shutil.copytree(SHIPPED, self.folder, dirs_exist_ok=True)
        config = self.folder / "prometheus.yml"
        text, intervals = re.subn(r"_interval: 15s$", "_interval: 1s", config.read_text(), flags=re.MULTILINE)
        text, targets = re.subn(r"^( +- )127\.0\.0\.1:\d+", rf"\g<1>{target}", text, flags=re.MULTILINE)
        assert (intervals, targets) == (2, 1), text
        config.write_text(text)
        self.started = time.time()
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'data'}",
             "--web.listen-address=127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.address = self._wait_for_address()

    def _read(self):
        for line in self.process.stderr:
            self.lines.put(line)
        self.lines.put(None)

    def _wait_for_address(self):
        seen = []
        while True:
            line = self.lines.get(timeout=server_process.DEADLINE)
            if line is None:
                raise AssertionError("prometheus ended: " + "".join(seen))
            seen.append(line)
            found = re.search(r'msg="Listening on" address=(\S+)', line)
            if found:
                return found[1]

    def ask(self, path, **parameters):
        """The API's answer under /api/v1/; a query that is wrong is an HTTPError."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=server_process.DEADLINE) as answer:
            return json.load(answer)["data"]

    def values(self, expression):
        """The finite values that it had at any second since the start, by series."""
        found = self.ask("query_range", query=expression, start=self.started, end=time.time(), step=1)["result"]
        series = ((tuple(sorted(one["metric"].items())), [float(value) for _, value in one["values"]]) for one in found)
        return {labels: finite for labels, values in series if (finite := [v for v in values if math.isfinite(v)])}

    def firing(self):
        return [alert for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"]

    def wait_for(self, what, condition):
        end = time.monotonic() + server_process.DEADLINE
        while not (found := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"not in time: {what}")
            time.sleep(0.2)  # nothing tells of a scrape
        return found

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()
        shutil.rmtree(self.folder)
