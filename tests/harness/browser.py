"""A browser without a window, told by its own pipe what to do: no driver, no library; Chromium is all it needs."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
SECONDS = 30.0
KEYS = {"ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Enter": 13, " ": 32}


def missing() -> str | None:
    """Return why no browser can be used; None if one is installed or required."""
    if CHROMIUM is None and not os.environ.get("CMFAST_REQUIRE_BROWSER"):
        return "no Chromium here (Debian: apt-get install chromium)"
    return None


class Browser:
    """A process of Chromium with a profile of its own."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
        ]
        options += [
            "--remote-debugging-pipe",
            "--disable-background-networking",
            f"--user-data-dir={self._profile.name}",
        ]
        # The browser reads what it is told from the descriptor 3 and answers by 4.
        command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", str(CHROMIUM), *options]
        self._process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for end in (theirs_in, theirs_out):
            os.close(end)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def tell(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Tell it something and return the answer; what it says of itself meanwhile is kept."""
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self._heard(until)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def _heard(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready = select.select([self._in], [], [], max(0.0, until - time.monotonic()))[0]
            more = os.read(self._in, 1 << 20) if ready else b""
            assert more, "the browser does not answer"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def close(self) -> None:
        """End it."""
        os.close(self._out)
        self._process.terminate()
        self._process.wait(SECONDS)
        os.close(self._in)
        self._profile.cleanup()


class Tab:
    """A page in a browser."""

    def __init__(self, browser: Browser, *, width: int = 1200, dark: bool = False, touch: bool = False) -> None:
        self._browser = browser
        self._target = browser.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.tell("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """Tell this page something."""
        return self._browser.tell(method, self._session, **params)

    def open(self, path: Path, ready: str = "document.readyState === 'complete'") -> None:
        """Open a file, and wait until a condition holds."""
        self.tell("Page.navigate", url=path.as_uri())
        self.wait(f"location.href === {json.dumps(path.as_uri())} && ({ready})")

    def js(self, code: str) -> Any:
        """Return what an expression is, as JSON."""
        found = self.tell("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + SECONDS
        while True:  # on the way to another page there may be nothing to ask
            found = self.tell("Runtime.evaluate", expression=f"Boolean({condition})", returnByValue=True)
            if found["result"].get("value") is True:
                return
            assert time.monotonic() < until, condition
            time.sleep(0.02)

    def key(self, name: str) -> None:
        """Press a key."""
        typed = name if len(name) == 1 else "\r" if name == "Enter" else ""
        known = {"key": name, "windowsVirtualKeyCode": KEYS.get(name, ord(name.upper()) if len(name) == 1 else 0)}
        self.tell("Input.dispatchKeyEvent", type="keyDown", **known, **({"text": typed} if typed else {}))
        self.tell("Input.dispatchKeyEvent", type="keyUp", **known)

    def mouse(self, kind: str, x: float, y: float, button: str = "none") -> None:
        """Press, move or release the mouse at a position in the viewport."""
        self.tell("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, button=button, clickCount=1)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press at one place and release at another; at the same, a click."""
        self.mouse("Moved", *start)
        self.mouse("Pressed", *start, "left")
        if end != start:
            self.mouse("Moved", *end, "left")
        self.mouse("Released", *end, "left")

    def click(self, selector: str) -> None:
        """Click on the middle of an element, once it is in view."""
        code = f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center"}}); const b = e.getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2]; }})()"""
        x, y = self.js(code)
        self.drag((x, y), (x, y))

    def problems(self) -> list[str]:
        """Return the exceptions and console messages so far."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(e["params"]) for e in self._own() if e["method"] in kinds]

    def fetched(self) -> list[str]:
        """Return the addresses that the page has asked for."""
        asked = [e for e in self._own() if e["method"] == "Network.requestWillBeSent"]
        return [e["params"]["request"]["url"] for e in asked]

    def _own(self) -> list[dict[str, Any]]:
        return [event for event in self._browser.events if event.get("sessionId") == self._session]

    def picture(self, path: Path, selector: str = "html") -> None:
        """Write a picture of an element; of the whole page, if none is named."""
        code = f"""(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
            return [b.x + scrollX, b.y + scrollY, b.width, b.height]; }})()"""
        clip = dict(zip(("x", "y", "width", "height"), self.js(code), strict=True)) | {"scale": 1}
        shot = self.tell("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(b64decode(shot["data"]))

    def close(self) -> None:
        """Close it."""
        self._browser.tell("Target.closeTarget", targetId=self._target)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser for a block."""
    started = Browser()
    try:
        yield started
    finally:
        started.close()
