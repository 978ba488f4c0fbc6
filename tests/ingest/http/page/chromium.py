"""A headless Chromium, driven over the pipe of its DevTools protocol: no driver, no port, no library.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A browser of a test looks nothing up, updates nothing and tells nobody of itself.
_FLAGS: Final = (
    "--headless", "--no-first-run", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
    "--remote-debugging-pipe",
)  # fmt: skip
_SECONDS: Final = 60.0

Message = dict[str, Any]


def find_chromium() -> str | None:
    """The command of a Chromium on PATH; None when there is none."""
    return next((found for found in map(shutil.which, _NAMES) if found is not None), None)


_NAVIGATED: Final = "Inspected target navigated"


class NavigatedError(AssertionError):
    """The page that was asked made way for another before it answered."""


class Chromium:
    """One browser process. `page` opens pages in it, one after the other or several at once."""

    def __init__(self, command: str, profile: Path) -> None:
        from_us, to_browser = os.pipe()
        from_browser, to_us = os.pipe()
        # The protocol is read from descriptor 3 and written to 4.
        moved = f'exec "$@" 3<&{from_us} 4>&{to_us}'
        argv = ["bash", "-c", moved, "bash", command, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            argv, pass_fds=(from_us, to_us), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(from_us)
        os.close(to_us)
        self._writing = os.fdopen(to_browser, "wb", buffering=0)
        self._reading = from_browser
        self._buffer = b""
        self._calls = 0
        self.events: list[Message] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Message:
        """The answer to one command; what happens meanwhile is added to `events`."""
        self._calls += 1
        number = self._calls
        message: Message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._writing.write(json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _SECONDS
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == number:
                if _NAVIGATED in str(answer.get("error", "")):
                    raise NavigatedError(f"{method}: {answer['error']}")
                assert "error" not in answer, f"{method}: {answer['error']}"
                found: Message = answer["result"]
                return found
            self.events.append(answer)

    def _next(self, deadline: float, method: str) -> Message:
        while b"\0" not in self._buffer:
            readable, _, _ = select.select([self._reading], [], [], max(0, deadline - time.monotonic()))
            assert readable, f"Chromium does not answer {method}"
            received = os.read(self._reading, 1 << 16)
            assert received, f"Chromium has ended with {self._process.wait(5)} at {method}"
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: Message = json.loads(line)
        return found

    @contextmanager
    def page(
        self, url: str, *, width: int = 1280, height: int = 900, scheme: str = "light"
    ) -> Iterator["Page"]:
        """A page of its own that shows this address, closed afterwards."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        page.prefer(scheme)
        page.call("Page.navigate", url=url)
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)

    def close(self) -> None:
        """End the browser, and wait for it."""
        self._writing.close()
        os.close(self._reading)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Page:
    """One page: what it shows, and what a person can do with it."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> Message:
        """The answer to one command about this page."""
        return self._browser.call(method, self._session, **parameters)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives, awaited, as JSON would carry it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of the first element, as it is shown, with blanks made single."""
        found = self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return " ".join(str(found).split())

    def await_text(self, selector: str, expected: Callable[[str], object], *, seconds: float = 60) -> str:
        """The text once it is as expected; AssertionError with the last one when it is not in time."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = self.text(selector)
            except NavigatedError:
                found = ""  # a link was followed: the next page has it
            if expected(found):
                return found
            assert time.monotonic() < deadline, f"{selector} still shows {found!r}"
            time.sleep(0.05)

    def resize(self, width: int, height: int, *, scale: float = 1) -> None:
        """Another window; below 600 it is a phone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=width < 600,
        )  # fmt: skip

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str, code: int) -> None:
        """A key down and up: its DOM name and its Windows virtual code."""
        text = {"Enter": "\r", " ": " "}.get(key)
        down: Message = {"type": "keyDown" if text else "rawKeyDown"}
        if text:
            down["text"] = text
        common = {"key": key, "code": {" ": "Space"}.get(key, key), "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", **down, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def accessible(self) -> list[Message]:
        """The nodes of the accessibility tree, without those that are ignored: `role` and `name`."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "")}
            for node in nodes
            if not node.get("ignored")
        ]

    def picture(self, *, whole: bool = False) -> bytes:
        """A PNG of what the window shows, or of the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def forgive(self) -> None:
        """Forget the complaints so far: they were wanted."""
        self._browser.events.clear()

    @property
    def complaints(self) -> list[str]:
        """Exceptions, errors on the console, and what the page's policy refused, so far."""
        self.value("1")
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(parameters["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(parameters["entry"]["text"])
        return found
