"""A headless Chromium, by its DevTools protocol over a pipe. Standard library only."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_browser():
    """The program, or None. LZY_TEST_BROWSER names another one."""
    named = os.environ.get("LZY_TEST_BROWSER")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One window with one page. `complaints` are errors and warnings of the page, `requests` all that it asked for."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.mkdtemp(prefix="lzy-browser-")
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        # The browser reads from descriptor 3 and writes to 4. Low numbers must not be overwritten before they are used.
        def descriptors():
            high = [os.dup2(to_browser, 200), os.dup2(from_browser, 201)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        # Root has no sandbox; containers have little /dev/shm.
        command = [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", "--disable-extensions", "--remote-debugging-pipe", f"--window-size={width},{height}",
                   f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=descriptors, close_fds=False, start_new_session=True, env={**os.environ, "HOME": self.profile})
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        self.complaints, self.requests, self.seen = [], [], []
        target = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][0]["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        self.session = None
        try:
            self.call("Browser.close", wait=20)
            self.process.wait(20)
        except (OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            # With its children, and the script that Debian puts before it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, wait=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + wait
        while True:
            answer = self.receive(deadline, method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, deadline, what):
        while b"\0" not in self.buffer:
            if not select.select([self.inp], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"{what}: no answer from the browser")
            read = os.read(self.inp, 1 << 20)
            if not read:
                raise RuntimeError(f"{what}: the browser has ended")
            self.buffer += read
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, event, params):
        self.seen.append(event)
        if event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path):
        """Opens a file. Returns the seconds until it was drawn."""
        begin = time.monotonic()
        self.seen.clear()
        self.call("Page.navigate", url="file://" + path)
        while "Page.loadEventFired" not in self.seen:
            self.receive(begin + 60, "Page.navigate")
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - begin

    def run(self, script):
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", str(answer)))
        return answer["result"].get("value")

    def press(self, key):
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else None)
        codes = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "PageDown": 34}
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes.get(key, 0), **(more if kind == "keyDown" else {}))
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def media(self, scheme="light", media=""):
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path, whole=True):
        image = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
