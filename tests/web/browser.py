"""A real browser, driven over its debugging pipe: no library and no port. Chromium is what `make web` installs."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PHONE, DESK = (390, 844), (1200, 850)


def program() -> str:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), "")


class Gone(Exception):
    """The page was left while it was asked."""


class Browser:
    """One tab. `text`, `click` and `run` act on its page."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="flyball-browser-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]

        def place() -> None:
            """The browser reads commands from 3 and answers on 4."""
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in (theirs_in, theirs_out)]
            os.dup2(ends[0], 3), os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program(), *flags, f"--user-data-dir={self.folder}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in), os.close(theirs_out)
        self._in, self._out, self._number, self._session = os.fdopen(ours_in, "rb"), ours_out, 0, ""
        self.events: list[dict[str, Any]] = []
        pages = self.send("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._in.close()
        os.close(self._out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        call = {"id": self._number, "method": method, "params": params}
        call |= {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps(call).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self._number:
                if "error" in message:
                    raise Gone(str(message["error"]))
                return message["result"]
            self.events.append(message)

    def _read(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "the browser has ended"
            data += byte
        return json.loads(data)

    def wait_for(self, event: str) -> None:
        while not any(one.get("method") == event for one in self.events):
            self.events.append(self._read())

    def open(self, address: str) -> None:
        self.events = []
        self.send("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        done = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise Gone(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def until(self, script: str) -> Any:
        """What a script gives as soon as it gives something. The page may load anew meanwhile."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with contextlib.suppress(Gone):
                if found := self.run(f"(() => {script})()"):
                    return found
            time.sleep(0.05)
        raise AssertionError(script)

    def follow(self, script: str) -> None:
        """Do something that leads to another page, and wait for that."""
        self.events = []
        self.run(script)
        self.wait_for("Page.loadEventFired")

    def complaints(self) -> list[str]:
        """What the browser logged: errors of scripts, and what the content policy blocked."""
        logged = [
            one["params"]["entry"]["text"] for one in self.events if one.get("method") == "Log.entryAdded"
        ]
        thrown = [str(one["params"]) for one in self.events if one.get("method") == "Runtime.exceptionThrown"]
        return [*logged, *thrown]

    def look(self, size: tuple[int, int], dark: bool, to: Path | None = None) -> bytes:
        """A picture of the page at this size."""
        width, height = size
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        data = base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=False)["data"])
        if to:
            to.write_bytes(data)
        return data
