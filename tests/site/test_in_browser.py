"""The built site in a real browser: pages load, search works, and nothing comes from elsewhere."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from fgg.library import library_names
from tests.helpers.browser import Browser, browsers, missing
from tests.helpers.places import ROOT

SPHINX = ("sphinx", "furo", "myst_parser", "sphinx_copybutton")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site as `make docs` builds it; a warning of Sphinx is an error."""
    absent = [name for name in SPHINX if find_spec(name) is None]
    if absent:
        pytest.skip(f"{absent[0]} is not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "docs.site", "--out", str(out)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return out


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """Where the site is served, on the loopback interface."""
    handler = functools.partial(Quiet, directory=str(built))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if missing():
        pytest.skip(missing())
    with browsers(tmp_path_factory.mktemp("driver")) as driver:
        yield driver


@pytest.fixture
def browser(driver: str, tmp_path: Path) -> Iterator[Browser]:
    browser = Browser(driver, tmp_path)
    yield browser
    browser.close()


def test_every_page_loads_and_asks_nobody_else(browser: Browser, address: str, built: Path) -> None:
    pages = sorted(path.relative_to(built).as_posix() for path in built.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        browser.open(f"{address}/{page}")
        assert browser.run("return document.querySelector('article') !== null"), page
        broken = browser.run(
            "return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        )
        assert broken == [], page
        assert browser.errors() == [], page
    asked = [url for url in browser.requested() if not url.startswith("data:")]
    assert asked and all(url.startswith(f"{address}/") for url in asked)


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("range certificate", "explanation/numbers.html"),
        ("F103", "reference/diagnostics/F103.html"),
        ("eisner", "gallery/eisner.html"),
        ("posterior", "reference/api/fgg.Posterior.html"),
    ],
)
def test_search_finds(browser: Browser, address: str, words: str, page: str) -> None:
    browser.open(f"{address}/index.html")
    browser.type("input[name=q]", f"{words}\n")
    browser.wait("document.querySelectorAll('#search-results ul.search > li').length > 0")
    browser.wait("!document.querySelector('#search-progress')?.innerText.endsWith('.')")
    links = browser.run("return [...document.querySelectorAll('ul.search a')].map(a => a.href)")
    assert isinstance(links, list)
    assert any(str(link).startswith(f"{address}/{page}") for link in links), links
    assert browser.errors() == []
    assert all(url.startswith((address, "data:")) for url in browser.requested())


@pytest.mark.parametrize("width", [1400, 420])
def test_no_page_of_the_gallery_is_wider_than_the_window(
    browser: Browser, address: str, width: int
) -> None:
    browser.resize(width, 900)
    for name in ("index", *library_names()):
        browser.open(f"{address}/gallery/{name}.html")
        over = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
        assert isinstance(over, int) and over <= 0, name


@dataclass
class Page(HTMLParser):
    """The links and the anchors of a page."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            if value and (tag, name) in {("a", "href"), ("img", "src"), ("script", "src")}:
                self.links.append(value)


def test_every_link_of_the_site_leads_somewhere(built: Path) -> None:
    pages = {}
    for path in built.rglob("*.html"):
        pages[path.resolve()] = page = Page()
        page.feed(path.read_text("utf-8"))
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("https", "mailto", "data"):
                continue
            goal = (path.parent / urllib.parse.unquote(parts.path)).resolve()
            goal = path if not parts.path else goal
            assert goal.is_file(), f"{path.relative_to(built)}: {link}"
            if parts.fragment and goal in pages:
                anchor = urllib.parse.unquote(parts.fragment)
                assert anchor in pages[goal].anchors, f"{path.relative_to(built)}: {link}"
