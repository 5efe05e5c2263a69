"""The picture of the layers in CONTRIBUTING.md: `python docs/layers.py` writes docs/layers.svg.

On the left stand the values that a grammar becomes, with the folder that makes each of them. On the
right stand the engines that run them. Grey arrows are imports.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fgg.draw import style
from fgg.draw.geometry import Box, Point, Route, text_width
from fgg.draw.marks import Anchor, Mark, Shape, Text, arrow
from fgg.draw.style import Look
from fgg.draw.writers.svg import document

SVG = Path(__file__).with_name("layers.svg")
WIDTH, HEIGHT = 1000.0, 880.0
LEFT, RIGHT = 20.0, WIDTH - 20.0

DOORS = Look("#f6f8fa", "#59636e")
COMPILER = Look("#f1f6fd", "#35619c")
RUNTIME = Look("#eff8f1", "#2f7a45")
CORE = Look("#fdf7ea", "#8a5a00")

BAND, VALUE, FOLDER, NOTE = 17.0, 15.0, 13.0, 12.0  # font sizes

DOORS_BAND = Box(LEFT, 20, RIGHT, 114)
COMPILER_BAND = Box(LEFT, 158, 490, 690)
RUNTIME_BAND = Box(530, 158, RIGHT, 690)
CORE_BAND = Box(LEFT, 734, RIGHT, 860)

# From text to code: each value, the command that shows it, its height on the left, and the folder
# that makes the next value from it.
SPINE = 112.0
STAGES = (
    ("text", "hmm.fgg", 224.0, "syntax, editing", "reads tokens and statements"),
    ("syntax tree", "", 294.0, "resolve", "looks names up, infers domains"),
    ("Grammar", "fggc show --emit fgg", 364.0, "fgg/rewrite", "joins the model with a query"),
    ("Grammar", "fggc show --query Q --emit fgg", 434.0, "passes, rank", "make it cheaper"),
    ("Grammar", "fggc compile --emit grammar", 504.0, "plan, cost", "order charts and sums"),
    ("Plan", "fggc compile --emit plan", 574.0, "emit", "prints it as code"),
    ("Python, C++", "fggc compile, --emit cpp", 644.0, "", ""),
)
SHARED = ("Grammar", "Plan")

# The engines of the runtime: the height of what each of them runs, and where its arrow ends.
POSTERIOR = (872.0, 504.0)
ENGINES = (
    (434.0, -9.0, "reference", "any finite grammar, exactly:", "slow, the oracle of all tests"),
    (574.0, 1.0, "interpret", "plans in any semiring:", "max, counting, GF(p), …"),
    (
        644.0,
        9.0,
        "program, posterior",
        "inside and outside; export,",
        "prelude, entries, native, layer, …",
    ),
)
ANALYSES = (
    ("verify", ""),
    ("", "stages against the oracle"),
    ("identify", ""),
    ("", "can data tell the parameters?"),
    ("unmix, matching", ""),
    ("", "parameters out of moments"),
)
LEARNING = (
    ("model", ""),
    ("", "parameters, networks"),
    ("learn", ""),
    ("", "EM, CVB, Adam, … with forest"),
    ("train", ""),
    ("", "runs that can be resumed"),
)
FOLDERS = (
    ("grammar", "the IR, its meaning"),
    ("rewrite", "join, ground"),
    ("check", "errors, B-FGG"),
    ("plan", "steps of a plan"),
    ("factors", "maps, pieces"),
    ("inputs", "tokens"),
    ("diagnostics", "codes, pages"),
    ("json", "the fggs format"),
    ("data", "corpora"),
    ("scores", "F1, perplexity"),
    ("clusters", "of words"),
    ("draw", "SVG, TikZ"),
)


def picture() -> str:
    """The picture as SVG."""
    return document("The layers of fgg", WIDTH, HEIGHT, marks())


def marks() -> Iterator[Mark]:
    """All marks, back to front."""
    yield from _band(DOORS_BAND, DOORS, "doors", "what users call; they join the halves below")
    yield from _band(COMPILER_BAND, COMPILER, "compiler/", "thinks in symbols: never imports torch")
    yield from _band(RUNTIME_BAND, RUNTIME, "runtime/", "thinks in numbers: torch, batches")
    yield from _band(
        CORE_BAND,
        CORE,
        "core",
        "the folders of fgg/: frozen values, and what both halves know of them",
    )
    yield from _imports()
    yield from _doors()
    yield from _compiler()
    yield from _runtime()
    yield from _core()


def _imports() -> Iterator[Mark]:
    """The arrows from each layer to the layers that it imports."""
    for band in (COMPILER_BAND, RUNTIME_BAND):
        x = band.center[0]
        for start, end in ((DOORS_BAND.bottom, band.top), (band.bottom, CORE_BAND.top)):
            yield from _arrow((x, start), (x, end), style.QUIET)
            yield _note("imports", (x + 12, (start + end) / 2 + 3))


def _doors() -> Iterator[Mark]:
    command_line = Box(40, 62, 410, 98)
    functions = Box(500, 62, 960, 98)
    y = command_line.center[1]
    yield from _card(command_line, DOORS, ("fgg/cli, fgg/lsp, fgg/explore", "fggc; for editors"))
    yield from _card(functions, DOORS, ("fgg/api", "compile, verify, identify, unmix, train"))
    yield from _arrow((command_line.right, y), (functions.left, y), style.QUIET)
    yield _note("imports", ((command_line.right + functions.left) / 2 - 3, y - 7), anchor="middle")


def _compiler() -> Iterator[Mark]:
    """The values from text to code, and the folders between them."""
    run = {y for y, *_ in ENGINES}  # these have an arrow to the right, below their command
    for number, (value, command, y, folder, task) in enumerate(STAGES):
        yield from _value(value, (SPINE, y), CORE if value in SHARED else COMPILER)
        yield _note(command, (SPINE + 70, y - 6 if y in run else y + 4))
        if folder:
            look = CORE if folder.startswith("fgg/") else COMPILER
            yield from _arrow((SPINE, y + 18), (SPINE, STAGES[number + 1][2] - 18), COMPILER.line)
            yield _bold(folder, (SPINE + 16, y + 39), look.line)
            width = text_width(folder, FOLDER, bold=True)
            yield _note(task, (SPINE + 16 + width + 6, y + 39))


def _runtime() -> Iterator[Mark]:
    """The engines, the posterior that all of them give, and what is built on it."""
    analyses, learning = Box(548, 206, 752, 336), Box(778, 206, 962, 336)
    yield from _card(analyses, RUNTIME, *ANALYSES)
    yield from _card(learning, RUNTIME, *LEARNING)
    x, y = POSTERIOR
    for height, offset, folder, first, second in ENGINES:
        box = Box(548, height - 29, 752, height + 29)
        yield from _arrow((SPINE + 58, height), (box.left, height), RUNTIME.line)
        yield from _card(box, RUNTIME, (folder, ""), ("", first), ("", second))
        end = (x - 58, y + offset)
        bend = (end[0] - box.right) * 0.7
        ways = ((box.right, height), (box.right + bend, height), (end[0] - bend, end[1]), end)
        yield from arrow(Route(ways), RUNTIME.line, 1.6, 9)
    yield from _arrow((analyses.center[0], 434.0 - 29), (analyses.center[0], 336), RUNTIME.line)
    yield from _arrow((x, y - 18), (x, learning.bottom), RUNTIME.line)
    yield from _value("Posterior", POSTERIOR, RUNTIME)
    for number, line in enumerate(("log Z, marginals,", "counts, entropy, …")):
        yield _note(line, (x, y + 36 + 16 * number), anchor="middle")
    derive = Box(778, 615, 962, 673)
    yield from _arrow((x, y + 60), (x, derive.top), RUNTIME.line)
    texts = (
        ("derive, display", ""),
        ("", "best, k best, minimum"),
        ("", "risk, samples; pictures"),
    )
    yield from _card(derive, RUNTIME, *texts)


def _core() -> Iterator[Mark]:
    """The folders of the core in two rows."""
    columns = len(FOLDERS) // 2
    width = (CORE_BAND.width - 32) / columns
    for number, (name, task) in enumerate(FOLDERS):
        row, column = divmod(number, columns)
        x = CORE_BAND.left + 20 + column * width
        y = CORE_BAND.top + 54 + row * 42
        yield _bold(name, (x, y), CORE.line)
        yield _note(task, (x, y + 15))


def _band(box: Box, look: Look, name: str, note: str) -> Iterator[Mark]:
    """A layer: a wide box with its name and what is said about it."""
    yield Shape(box=box, radius=10, fill=look.fill, line=look.line, width=1.2)
    y = box.top + 27
    yield Text(text=name, place=(box.left + 18, y), size=BAND, color=look.line, bold=True)
    yield _note(note, (box.left + 26 + text_width(name, BAND, bold=True), y))


def _value(name: str, center: Point, look: Look) -> Iterator[Mark]:
    """A value: a pill in the colour of the layer that defines it."""
    box = Box.around(center, 116, 36)
    yield Shape(box=box, radius=18, fill=style.PAPER, line=look.line, width=1.8)
    yield Text(text=name, place=(center[0], center[1] + 5), size=VALUE, anchor="middle")


def _card(box: Box, look: Look, *lines: tuple[str, str]) -> Iterator[Mark]:
    """A white box with lines of a folder's name and its task."""
    yield Shape(box=box, radius=7, fill=style.PAPER, line=look.line, width=1)
    gap = 6.0  # above the name of each folder but the first
    y = box.center[1] - (16 * (len(lines) - 1) + gap * sum(bool(f) for f, _ in lines[1:])) / 2 + 4.5
    for number, (folder, task) in enumerate(lines):
        x = box.left + 12
        if folder:
            y += gap if number else 0
            yield _bold(folder, (x, y), style.INK)
            x += text_width(folder, FOLDER, bold=True) + 6
        yield _note(task, (x, y))
        y += 16


def _bold(text: str, place: Point, color: str) -> Text:
    return Text(text=text, place=place, size=FOLDER, color=color, bold=True)


def _note(text: str, place: Point, *, anchor: Anchor = "start") -> Text:
    return Text(text=text, place=place, size=NOTE, color=style.QUIET, anchor=anchor)


def _arrow(start: Point, end: Point, color: str) -> Iterator[Mark]:
    yield from arrow(Route((start, end)), color, 1.6, 9)


if __name__ == "__main__":
    SVG.write_text(picture(), "utf-8")
