"""A headless Chromium, driven by the WebDriver protocol; it asks nothing but the pages tested."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import cast

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-default-apps", "--no-default-browser-check"),
)
PATIENCE = 180.0
"""Seconds after which a condition that pages are waited for counts as false."""


def missing() -> str:
    """Why no browser can be started; empty if one can."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not found" if absent else ""


class WebDriverError(Exception):
    """The browser could not do what it was asked."""


class Browser:
    """One window."""

    def __init__(self, driver: str, profile: Path) -> None:
        options = {
            "goog:chromeOptions": {"args": [*FLAGS, f"--user-data-dir={profile}"]},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": 60_000},
        }
        answer = _sent("POST", f"{driver}/session", {"capabilities": {"alwaysMatch": options}})
        self.session = f"{driver}/session/{cast('dict[str, str]', answer)['sessionId']}"

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
        return _sent(method, f"{self.session}/{path}", body)

    def open(self, address: str) -> None:
        """Go to an address."""
        self._ask("POST", "url", {"url": address})

    def run(self, script: str, *arguments: object) -> object:
        """The value of a script, in which `arguments` are those given."""
        return self._ask("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition: str, *arguments: object) -> object:
        """The value of an expression once it is true. Raises WebDriverError if it never is."""
        script = f"""
            const done = arguments[arguments.length - 1], end = performance.now() + {PATIENCE}e3;
            const look = () => {{
                let value = null;
                try {{ value = ({condition}); }} catch (error) {{ value = null; }}
                if (value || performance.now() > end) done(value);
                else setTimeout(look, 50);
            }};
            look();"""
        self._ask("POST", "timeouts", {"script": int(PATIENCE * 1000) + 20_000})
        value = self._ask("POST", "execute/async", {"script": script, "args": list(arguments)})
        if not value:
            raise WebDriverError(f"never true: {condition}\n{self.errors()}")
        return value

    def find(self, selector: str) -> str:
        """An element, by a selector of CSS."""
        found = self._ask("POST", "element", {"using": "css selector", "value": selector})
        return cast("dict[str, str]", found)[ELEMENT]

    def click(self, selector: str) -> None:
        """Click on an element."""
        self._ask("POST", f"element/{self.find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Type a text into an element."""
        self._ask("POST", f"element/{self.find(selector)}/value", {"text": text})

    def text(self, selector: str) -> str:
        """The text of an element, as it is seen."""
        return str(self._ask("GET", f"element/{self.find(selector)}/text"))

    def resize(self, width: int, height: int) -> None:
        """Give the window a size."""
        self._ask("POST", "window/rect", {"width": width, "height": height})

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        body = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}}
        self._ask("POST", "goog/cdp/execute", body)

    def picture(self, path: Path) -> None:
        """Write what is seen as PNG."""
        path.write_bytes(base64.b64decode(str(self._ask("GET", "screenshot"))))

    def download_to(self, folder: Path) -> None:
        """Save downloads in a folder."""
        params = {"behavior": "allow", "downloadPath": str(folder)}
        self._ask(
            "POST", "goog/cdp/execute", {"cmd": "Browser.setDownloadBehavior", "params": params}
        )

    def downloaded(self, folder: Path, name: str) -> Path:
        """A file that the page lets the browser save. Raises WebDriverError if it does not come."""
        for _ in range(200):
            if (folder / name).exists():
                return folder / name
            sleep(0.05)
        raise WebDriverError(f"{name} was not saved")

    def log(self, kind: str) -> list[dict[str, object]]:
        """The entries of a log since it was read last: `browser` or `performance`."""
        return cast("list[dict[str, object]]", self._ask("POST", "se/log", {"type": kind}))

    def errors(self) -> list[str]:
        """The errors in the console since it was read last."""
        return [str(e["message"]) for e in self.log("browser") if e["level"] == "SEVERE"]

    def requested(self) -> list[str]:
        """The addresses that pages asked for since the log was read last."""
        messages = [json.loads(str(e["message"]))["message"] for e in self.log("performance")]
        sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        addresses = [str(item["request"]["url"]) for item in sent]
        return [url for url in addresses if not url.startswith("chrome:")]  # its own new tab

    def close(self) -> None:
        """End the browser."""
        _sent("DELETE", self.session, None)


def _sent(method: str, address: str, body: Mapping[str, object] | None) -> object:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address, data, {"Content-Type": "application/json"}, method=method
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE + 60) as answer:
            return json.loads(answer.read())["value"]
    except urllib.error.HTTPError as error:
        value = json.loads(error.read())["value"]
        raise WebDriverError(f"{value['error']}: {value['message'][:500]}") from None


@contextmanager
def browsers(folder: Path) -> Iterator[str]:
    """The address of a driver that starts browsers."""
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
    )
    try:
        assert driver.stdout is not None
        for line in driver.stdout:
            if "started successfully on port" in line:
                port = "".join(filter(str.isdigit, line.rpartition("port ")[2]))
                yield f"http://127.0.0.1:{port}"
                break
    finally:
        driver.kill()
        driver.wait()
        if driver.stdout is not None:
            driver.stdout.close()
