"""Explorer: the page in a browser."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fgg.explore.server import Server
from fgg.library import library_names, library_text
from tests.generators.mutations import mutate, noise
from tests.helpers.browser import Browser, browsers, missing
from tests.helpers.explorer import served

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

CHECKED = "document.body.dataset.checked"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served("pcfg") as running:
        yield running


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with browsers(tmp_path_factory.mktemp("driver")) as address:
        yield address


@pytest.fixture
def browser(driver: str, server: Server, tmp_path: Path) -> Iterator[Browser]:
    """A new window that shows the page."""
    window = Browser(driver, tmp_path / "profile")
    try:
        window.resize(1400, 900)
        window.open(server.guard.address)
        window.wait(f"{CHECKED} === 'ok'")
        yield window
    finally:
        window.close()


def typed(browser: Browser, text: str) -> None:
    """Put another text into the editor, as if it were pasted, and wait for its check."""
    browser.run(
        """delete document.body.dataset.checked;
        const area = document.querySelector('.editor textarea');
        area.value = arguments[0];
        area.dispatchEvent(new Event('input'));""",
        text,
    )
    browser.wait(CHECKED)


def test_an_error_is_underlined_while_it_is_typed(browser: Browser) -> None:
    browser.run("page.editor.goTo(page.text.indexOf('emit('), page.text.indexOf('emit('))")
    browser.type(".editor textarea", "x")
    browser.wait(f"{CHECKED} === 'wrong'")
    assert browser.text(".message.error .code")[0] == "F"
    marked = browser.wait("document.querySelector('.editor .underline.error')?.textContent")
    assert "emit" in str(marked)
    # What the hint proposes is a click away.
    browser.click(".message button")
    browser.wait(f"{CHECKED} === 'ok'")
    assert not browser.run("return document.querySelectorAll('.editor .underline.error').length")
    assert browser.errors() == []


def test_the_slider_of_the_passes_makes_h_appear(browser: Browser) -> None:
    browser.run(
        """const menu = document.getElementById('space');
        menu.value = 'rank'; menu.dispatchEvent(new Event('change'));"""
    )
    browser.wait("document.querySelector('.step[data-pass=rank_space]')")
    slide = """const slider = document.getElementById('pass-slider');
        slider.value = page.current.frames.findIndex((frame) => frame.name === arguments[0]);
        slider.dispatchEvent(new Event('input'));
        return [...document.querySelectorAll('.matrix')].map((m) => m.dataset.letter);"""
    assert browser.run(slide, "split") == []
    letters = browser.run(slide, "rank_space")
    assert isinstance(letters, list) and {"H", "J", "K", "L"} <= {*letters}
    assert browser.run("return document.querySelectorAll('.rule.new').length")
    browser.click(".rule.new")
    assert "comes from" in browser.text(".rule.open .more")
    assert browser.errors() == []


def opened(browser: Browser, grammar: str, view: str) -> None:
    """Open a library grammar in a tab, and wait until the tab shows it."""
    browser.run("page.open(arguments[0])", grammar)
    browser.wait(f"page.name === '{grammar}.fgg' && {CHECKED} === 'ok' && page.checked.name")
    browser.click(f"#tab-{view}")
    browser.wait(f"page.checked.name === '{grammar}' && page.current.seen === page.version")


def test_a_sentence_is_parsed_and_its_tree_is_drawn(browser: Browser) -> None:
    opened(browser, "dyck", "inference")
    browser.wait("document.querySelector('.headline') && !page.current.work.busy")
    browser.run("document.getElementById('input-w').value = ''")
    browser.type("#input-w", "( [ ] )\ue007")  # Enter
    browser.wait("document.querySelector('.tokens')?.textContent === '([])'")
    browser.wait(
        "document.querySelector('.derivations[data-what=best] svg') && !page.current.work.busy"
    )
    assert "log Z" in browser.text(".headline")
    browser.run("page.current.go(0)")
    filled = "return document.querySelectorAll('.heat').length"
    first = browser.run(filled)
    browser.click("#level-play")
    browser.wait("page.current.at === page.current.levels.length - 1")
    last = browser.run(filled)
    assert isinstance(first, int) and isinstance(last, int) and first < last
    browser.run("document.getElementById('input-w').value = ''")
    browser.type("#input-w", "( walrus )\ue007")
    browser.wait("document.querySelector('#panel-inference .problem[data-code=F411]')")
    assert "walrus" in browser.text("#panel-inference .problem")
    assert browser.errors() == []


def test_a_long_run_is_cancelled(browser: Browser, server: Server) -> None:
    opened(browser, "pcfg", "inference")
    browser.wait("document.querySelector('.headline') && !page.current.work.busy")
    browser.run("document.getElementById('input-w').value = '7 '.repeat(150)")
    browser.click("#infer")
    browser.wait("page.current.work.status.classList.contains('busy')")
    browser.click("#panel-inference .cancel")
    browser.wait(
        "document.querySelector('#panel-inference .problem.mild')?.textContent === 'cancelled'"
    )
    assert browser.run("return page.current.work.busy") is False
    browser.run("document.getElementById('input-w').value = '7 8'")
    browser.click("#infer")
    browser.wait(
        "document.querySelector('.tokens')?.textContent === '78' && !page.current.work.busy"
    )
    assert browser.errors() == []


def test_sizes_follow_their_sliders(browser: Browser) -> None:
    browser.run(
        """const slider = document.querySelector('.size[data-size=r] input[type=range]');
        slider.value = 300; slider.dispatchEvent(new Event('input'));"""
    )
    browser.wait("page.checked.sizes.find((size) => size.name === 'r').value < 100")
    assert browser.run("return document.querySelector('.size.changed').dataset.size") == "r"


def test_nothing_is_fetched_from_outside(browser: Browser, server: Server) -> None:
    browser.run("page.open('hmm')")
    browser.wait("page.current.frames.length && page.name === 'hmm.fgg'")
    requested = browser.requested()
    assert requested
    for address in requested:
        assert address.startswith((server.guard.address, "data:", "blob:")), address


def test_pointing_at_a_line_marks_its_rule_and_the_other_way_round(browser: Browser) -> None:
    opened(browser, "hmm", "program")
    browser.wait("!page.current.work.busy && document.querySelectorAll('.choice').length === 4")
    for language in ("python", "cpp", "triton", "numpy"):
        browser.click(f"#language-{language}")
        marked = browser.run(
            """const rows = [...document.querySelectorAll('.row.linked')];
            const row = rows.find((one) => /emit_w/.test(one.textContent));
            row.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
            const cards = [...document.querySelectorAll('.equation-card.pointed')];
            return cards.map((card) => card.dataset.rule);"""
        )
        assert isinstance(marked, list) and marked and {*marked} <= {"step", "last"}
        assert f"rule {marked[0]}" in str(
            browser.run("return document.querySelector('.editor .here')?.parentNode.textContent")
        )
        browser.click(".equation-card[data-rule=begin]")
        lines = browser.run(
            """return [...document.querySelectorAll('.row.pointed')].map((r) => r.textContent);"""
        )
        assert isinstance(lines, list) and any("init" in line for line in lines)
        browser.click(".equation-card[data-rule=begin]")
    assert browser.errors() == []


def test_a_planted_fault_is_found(browser: Browser) -> None:
    opened(browser, "hmm", "proof")
    browser.wait("document.querySelector('.verdict.proved') && !page.current.work.busy")
    assert browser.run("return document.querySelectorAll('.check.true').length") == 2
    browser.run(
        """const menu = document.getElementById('fault');
        menu.value = 'swap_ends'; menu.dispatchEvent(new Event('change'));"""
    )
    browser.wait("document.querySelector('.verdict.refuted') && !page.current.work.busy")
    assert "trans(u, t)" in browser.text(".planted .after")
    assert "source: 1" in browser.text(".counterexample")
    assert browser.run("return document.querySelectorAll('.check.false').length")
    assert browser.errors() == []


def test_null_directions_are_arrows(browser: Browser) -> None:
    opened(browser, "hmm", "identify")
    browser.wait("page.current.result?.verdict === 'yes' && !page.current.work.busy")
    browser.click(".ranks tbody tr:nth-child(1) td:nth-child(2) button")
    browser.wait("page.current.result?.verdict === 'no' && !page.current.work.busy")
    assert "rank 5 of 7" in browser.text(".rank-bar")
    assert browser.run("return document.querySelectorAll('.arrow.up, .arrow.down').length")
    assert browser.errors() == []


def test_a_shared_page_opens_without_a_server(browser: Browser, tmp_path: Path) -> None:
    browser.download_to(tmp_path)
    opened(browser, "dyck", "passes")
    browser.click("#share")
    browser.wait("document.getElementById('share').textContent === 'Share'")
    file = browser.downloaded(tmp_path, "dyck.html")
    browser.requested()
    browser.open(file.as_uri())
    browser.wait("document.querySelectorAll('.rule').length")
    browser.click(".step[data-pass=narrow]")
    assert browser.run("return document.querySelector('.rules').dataset.pass") == "narrow"
    assert browser.run("return document.querySelector('textarea').readOnly") is True
    for view, shown in (
        ("cost", ".space.chosen"),
        ("program", ".row.linked"),
        ("inference", ".derivations svg"),
        ("proof", ".verdict.proved"),
        ("identify", ".rank-bar"),
    ):
        browser.click(f"#tab-{view}")
        browser.wait(f"document.querySelector('#panel-{view} {shown}')")
    for address in browser.requested():
        assert address.startswith((file.as_uri(), "data:")), address
    assert browser.errors() == []


ATTACK = """<!doctype html><body><script>
const results = {};
const note = (name, promise) => promise.then(() => { results[name] = true; },
                                             () => { results[name] = false; });
const body = JSON.stringify({text: 'size k = 2'});
addEventListener('load', async () => {
    const simple = {method: 'POST', body, headers: {'Content-Type': 'text/plain'}};
    await note('read', fetch(ADDRESS + 'start').then((a) => a.text()));
    await note('post', fetch(ADDRESS + 'view/check', simple).then((a) => a.text()));
    await note('json', fetch(ADDRESS + 'view/check',
        {...simple, headers: {'Content-Type': 'application/json'}}).then((a) => a.text()));
    const script = document.createElement('script');
    await note('script', new Promise((yes, no) => {
        Object.assign(script, {src: ADDRESS + 'main.js', onload: yes, onerror: no});
        document.body.append(script);
    }));
    const frame = document.createElement('iframe');
    frame.src = ADDRESS;
    document.body.append(frame);
    await new Promise((yes) => { frame.onload = yes; });
    let seen = false;
    try { seen = Boolean(frame.contentDocument.getElementById('work')); } catch { seen = false; }
    results.frame = seen;
    const opaque = {mode: 'no-cors'};
    const answer = await fetch(ADDRESS + 'start', opaque).catch(() => null);
    results.opaque = answer ? (await answer.text()).length > 0 : false;
    globalThis.results = results;
});
</script>"""


def test_a_foreign_page_cannot_drive_it(browser: Browser, server: Server) -> None:
    """Even if it knew the token, another page may neither ask nor show this one."""

    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = ATTACK.replace("ADDRESS", f"'{server.guard.address}'").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as foreign:
        threading.Thread(target=lambda: foreign.serve_forever(0.05), daemon=True).start()
        try:
            browser.open(f"http://127.0.0.1:{foreign.server_address[1]}/")
            results = browser.wait("globalThis.results")
        finally:
            foreign.shutdown()
    names = ("read", "post", "json", "script", "frame", "opaque")
    assert results == dict.fromkeys(names, False)


@pytest.mark.parametrize("width", [380, 700, 1100, 1900])
def test_no_tab_is_wider_than_the_window(browser: Browser, width: int) -> None:
    browser.resize(width, 900)
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for number in range(int(str(browser.run("return page.views.length")))):
        browser.run("page.select(page.views[arguments[0]])", number)
        assert browser.run(wide) == 0
    assert browser.errors() == []


def test_mutations_typed_into_the_page_are_survived(browser: Browser) -> None:
    rng = random.Random(3)
    texts = [mutate(rng, library_text(rng.choice(library_names()))) for _ in range(20)]
    for text in [*texts, *(noise(rng) for _ in range(5)), "", "\ud800", "\r\n\t\x00", "<b>&amp;"]:
        typed(browser, text.encode("utf-8", "replace").decode())
        shown = "document.querySelectorAll('.message').length"
        assert browser.run(f"return {shown} - page.checked.diagnostics.length") == 0
    assert browser.errors() == []
    typed(browser, library_text("hmm"))
    assert browser.run(f"return {CHECKED}") == "ok"
    browser.wait("page.current.frames?.some((frame) => frame.rules.some((r) => r.name === 'step'))")
