"""A latentd that the bench starts, and pictures that bench_client asks it for."""

import dataclasses
import json
import os
import signal
import subprocess
import time
import urllib.request

from . import processes
from .processes import Failure

STOP_SECONDS = 20
DEVICE_STAGES = ("text", "steps", "decode")


def parse_metrics(text):
    """{series with its labels: value} of a scrape."""
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            values[series] = float(value)
    return values


def total(values, name, **labels):
    """Over all series of that name that have these labels; 0 where there is none."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(value for series, value in values.items()
               if series.partition("{")[0] == name and all(label in series for label in wanted))


def by_label(values, name, label, **labels):
    """{value of the label: sum over the series that have these labels}"""
    wanted, sums = [f'{other}="{value}"' for other, value in labels.items()], {}
    for series, value in values.items():
        if series.partition("{")[0] == name and all(pair in series for pair in wanted):
            key = series.partition(f'{label}="')[2].partition('"')[0]
            sums[key] = sums.get(key, 0.0) + value
    return sums


def text_format(value):
    """A value of a field of a request; Text is written as it is."""
    return value.text if isinstance(value, Text) else json.dumps(value)


@dataclasses.dataclass(frozen=True, order=True)
class Text:
    """A value in protobuf's text format that is no string or number: a name, a message."""

    text: str


def octets(data):
    """A value of a field of bytes."""
    return Text('"' + "".join(f"\\{byte:03o}" for byte in data) + '"')


def adapter_with_image(name, image):
    """A ControlNet or IP-Adapter in a request, with the bytes of its image."""
    return Text(f'{{ name: "{name}" image: {octets(image).text} }}')


def adapter(name, weight):
    """A LoRA in a request."""
    return Text(f'{{ name: "{name}" weight: {weight} }}')


class Latentd:
    """Serves the models that `models` are flags of, with its cache in `cache`; what it logs goes to `log`. `bucket`: of pictures."""

    def __init__(self, options, models, bucket, cache, folder):
        self.socket = f"unix:{folder}/latentd-{os.getpid()}.sock"
        self.log = folder / f"latentd-{time.monotonic_ns()}.log"
        self._options = options
        command = [options.latentd, f"--backend={options.backend}", f"--precision={options.precision}",
                   *models, *([f"--buckets={bucket}"] if bucket else []), f"--cache-dir={cache}", f"--listen={self.socket}",
                   "--metrics-listen=127.0.0.1:0", "--log-format=json", "--allow-cold-requests", *options.latentd_flag]
        self.started, self._started_wall = time.monotonic(), time.time()
        with open(self.log, "w") as log:
            self.process = processes.spawn(command, stderr=log, env=options.our_environment)
        self._metrics = None

    def _lines(self):
        for line in self.log.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue

    def failure(self, what):
        said = "\n".join(self.log.read_text().splitlines()[-5:])
        return Failure(f"latentd {what}; the end of its log:\n{said}")

    def scrape(self):
        """The result of parse_metrics; nothing while the port is not there yet."""
        if self._metrics is None:
            found = [line["message"].removeprefix("metrics on ") for line in self._lines()
                     if line.get("message", "").startswith("metrics on ")]
            if not found:
                return {}
            self._metrics = found[0]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self._metrics}/metrics", timeout=60) as response:
            return parse_metrics(response.read().decode())

    def wait_until_ready(self, timeout):
        """Seconds from the start of the process."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self.failure(f"ended with {self.process.returncode}")
            values = self.scrape()
            if total(values, "latentd_ready_timestamp_seconds") > 0:
                return total(values, "latentd_ready_timestamp_seconds") - self._started_wall
            if total(values, "latentd_server_state", state="degraded") or total(values, "latentd_server_state", state="failed"):
                raise self.failure("is not ready")
            time.sleep(0.02)
        raise self.failure(f"was not ready after {timeout:.0f} s")

    def wait_for_row_counts(self, timeout):
        """Until the step graphs that pictures share are through: the GPU is at them, too, until then."""
        counts = [flag.partition("=")[2] for flag in self._options.latentd_flag if flag.startswith("--rows=")]
        if counts and max(map(int, counts[-1].split(","))) <= 2:
            return  # there are none, and the log says nothing of them
        deadline = time.monotonic() + timeout
        while not any(line.get("message") == "row counts above 2" for line in self._lines()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise self.failure("has not got its larger row counts ready")
            time.sleep(0.1)

    def memory_report(self):
        """The output of `latent memory --json`, where there is a latent."""
        if not self._options.latent:
            return None
        said = processes.run([self._options.latent, "memory", "--json", "--server", self.socket], timeout=60,
                             env=self._options.our_environment)
        try:
            return json.loads(said.stdout)
        except json.JSONDecodeError:
            return said.stdout + said.stderr

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def animate(options, server, image, folder, **fields):
    """A clip by `latent animate`, into `folder`: seconds as the client sees it, and what the server counted meanwhile."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in fields.items()]
    before = server.scrape()
    began = time.monotonic()
    done = processes.run([options.latent, "animate", image, "--server", server.socket, "--output", f"{folder}/", "--force", "--quiet",
                          *flags], timeout=600, env=options.our_environment)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise server.failure(f"did not draw a clip ({done.stderr.strip()})")
    after = server.scrape()

    def passed(name, **labels):
        return total(after, name, **labels) - total(before, name, **labels)

    steps = passed("latentd_denoise_steps_total")
    stages = {stage: passed("latentd_stage_duration_seconds_sum", stage=stage) for stage in (*DEVICE_STAGES, "encode_file")}
    return {"seconds": seconds, "step": stages["steps"] / steps, "steps": steps, "stages": stages,
            "redone": passed("latentd_invalid_images_total")}


class Client:
    """A bench_client that asks one server for one picture, again and again."""

    def __init__(self, options, server, folder, **request):
        text = " ".join(f"{name}: {text_format(value)}" for name, value in request.items())
        self.picture = folder / f"picture-{time.monotonic_ns()}.png"
        self._said = self.picture.with_suffix(".log")
        with open(self._said, "w") as said:
            self._process = processes.spawn([options.client, server.socket, text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=said, env=options.our_environment)
        self._server = server

    def draw(self, count=1):
        """{"seconds": of each picture, "first_end": when the first was there}; waits until the server serves."""
        try:
            self._process.stdin.write(f"draw {count} {self.picture}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise self._server.failure(f"did not draw ({self._said.read_text().strip()})")
        return json.loads(line)

    def milliseconds(self, count=1):
        return [1000 * seconds for seconds in self.draw(count)["seconds"]]

    def measured(self):
        """Times of one image in ms: the whole as the client sees it, each stage and each step as the server counts them."""
        before = self._server.scrape()
        whole, = self.milliseconds()
        after = self._server.scrape()

        def passed(name, **labels):
            return total(after, name, **labels) - total(before, name, **labels)

        stages = {stage: 1000 * passed("latentd_stage_duration_seconds_sum", stage=stage)
                  for stage in (*DEVICE_STAGES, "encode_file")}
        steps = {model: passed("latentd_denoise_steps_total", model=model) for model in ("base", "refiner")}
        times = {model: 1000 * passed("latentd_stage_duration_seconds_sum", stage="steps", model=model) for model in steps}
        return {"whole": whole, "stages": stages, "beyond": whole - sum(stages[stage] for stage in DEVICE_STAGES),
                "step": {model: times[model] / count for model, count in steps.items() if count > 0},
                "shallow": passed("latentd_step_shallow_evaluations_total"),
                "skipped": passed("latentd_step_skipped_rows_total"),
                "redone": passed("latentd_invalid_images_total")}

    def stop(self):
        """Also while it waits for a picture."""
        self._process.kill()
        self._process.wait()
        self.picture.unlink(missing_ok=True)
