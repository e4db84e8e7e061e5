"""Debian's headless Chromium, by its DevTools protocol over a pipe: it needs no driver and no package of Python's."""

import base64
import fcntl
import json
import os
import select
import subprocess
import tempfile
import time

from server_process import DEADLINE

PROGRAM = "chromium-headless-shell"
# Chromium's own numbers of the ends of the pipe.
READS, WRITES = 3, 4


class ScriptError(Exception):
    """The page's script has thrown."""


def _high(descriptor):
    """The same, above the numbers that Chromium has for it."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, WRITES + 1)
    os.close(descriptor)
    return copy


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        theirs, self.commands = map(_high, os.pipe())
        self.answers, written = map(_high, os.pipe())

        def lay_pipe():
            os.dup2(theirs, READS)
            os.dup2(written, WRITES)

        # Root may not use its sandbox; a container's /dev/shm is small.
        self.process = subprocess.Popen(
            [PROGRAM, "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             f"--user-data-dir={self.folder.name}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lay_pipe,
            pass_fds=(READS, WRITES))
        os.close(theirs)
        os.close(written)
        self.received = b""
        self.number = 0
        self.listeners = {}  # each takes the events of a session

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def call(self, method, session=None, **parameters):
        """The result of a command, once it is there."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        message = json.dumps(command).encode() + b"\0"
        while message:
            message = message[os.write(self.commands, message):]
        until = time.monotonic() + DEADLINE
        while True:
            answer = self._read(until)
            if answer.get("id") != self.number:
                self.listeners.get(answer.get("sessionId"), lambda event: None)(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def _read(self, until):
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.answers], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.received += more
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)


class Page:
    """One tab. `errors` is what its console has against it, but for answers of the server that are errors."""

    def __init__(self, browser, url, width=1280, height=900):
        self.browser = browser
        self.errors = []
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.listeners[self.session] = self._note
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def _note(self, event):
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(event["params"]["exceptionDetails"])
        entry = event["params"].get("entry", {}) if event["method"] == "Log.entryAdded" else {}
        if entry.get("level") in ("error", "warning") and entry["source"] != "network":
            self.errors.append(entry)

    def run(self, expression):
        """The value of an expression, or that of its promise."""
        result = self.call("Runtime.evaluate", expression=f"(async () => ({expression}))()", awaitPromise=True, returnByValue=True,
                           userGesture=True)
        if "exceptionDetails" in result:
            raise ScriptError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, condition):
        """Until it is true; what it is then."""
        until = time.monotonic() + DEADLINE
        # A page that is left meanwhile takes its scripts along.
        look = "new Promise((tell) => { let left = 50; const look = () => { const is = (%s); " \
               "if (is || left-- === 0) tell(is); else setTimeout(look, 20); }; look(); })" % condition
        while True:
            try:
                value = self.run(look)
            except (ScriptError, RuntimeError) as error:
                if self.browser.process.poll() is not None or time.monotonic() > until:
                    raise
                value, last = None, error
            else:
                last = value
            if value:
                return value
            if time.monotonic() > until:
                raise AssertionError(f"never: {condition} ({last})")

    def screenshot(self):
        """A PNG of what is in the window."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
