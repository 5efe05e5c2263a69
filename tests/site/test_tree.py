"""The site: what it describes is complete, and every link leads somewhere."""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import fgg
from docs.site import gallery, markdown, notebook, places
from docs.site.commands import names, parser_of
from docs.site.public import CLASSES, MODULES, public_names
from docs.site.tree import ORPHAN, Tree, tree, write
from fgg.check.describe import equations
from fgg.cli import COMMANDS
from fgg.diagnostics.codes import CODES
from fgg.library import library_names, library_text

TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def site() -> Tree:
    return tree(run=False)


def entries(page: str, text: str) -> Iterator[str]:
    """The pages that the tables of contents of a page list."""
    for block in TOCTREE.findall(text):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(page), f"{line}.md"))


def test_every_grammar_is_in_the_gallery(site: Tree) -> None:
    for name in library_names():
        assert library_text(name).strip() in site.pages[f"gallery/{name}.md"]
        assert f"]({name}.md)" in site.pages["gallery/index.md"], name


def test_every_grammar_has_an_answer_of_its_own() -> None:
    texts = [entry.text for entry in gallery.entries()]
    assert len(set(texts)) == len(texts)
    for entry in gallery.entries():
        (cell,) = notebook.cells(entry.text)
        assert f'"{entry.name}"' in cell.text, "the answer is one of this grammar"


@pytest.mark.parametrize("name", ["hmm_rank", "dmv", "branching"])
def test_the_page_of_a_grammar_has_its_equations_and_costs(name: str) -> None:
    (entry,) = [entry for entry in gallery.entries() if entry.name == name]
    drawn = notebook.Output("svg", "<svg/>")
    text = gallery.page(entry, [[drawn]], run=True)
    joined = [joined for _, joined in gallery.programs(fgg.load(name))]
    assert all("\n".join(equations(each)) in text for each in joined)
    tables = text.count("| space | order |")
    assert tables == (0 if name == "branching" else len(joined))
    if name == "hmm_rank":
        assert "| rank (`auto`) | `O(n*r^2 + k*r^2)` |" in text and "dense | none" in text


def test_every_command_with_every_option_is_in_the_reference(site: Tree) -> None:
    for command in COMMANDS:
        page = site.pages[f"reference/commands/{command}.md"]
        assert f"fggc {command}" in page
        described = [line for line in page.splitlines() if line.startswith(":::{option}")]
        words = {word.rstrip(",") for line in described for word in line.split()}
        for action in parser_of(command)._actions:
            assert "--help" in names(action) or words.issuperset(names(action)), command


def test_every_code_has_a_page_with_what_is_reported(site: Tree) -> None:
    for code in CODES:
        assert f"[{code}]({code}.md)" in site.pages["reference/diagnostics/index.md"]
        assert site.pages[f"reference/diagnostics/{code}.md"].startswith(f"# {code}: ")
    assert (
        "there is no factor or nonterminal `tarns`" in site.pages["reference/diagnostics/F103.md"]
    )


def test_every_public_name_is_in_the_reference(site: Tree) -> None:
    for module in MODULES:
        page = site.pages[f"reference/api/{module}.md"]
        for name in public_names(import_module(module)):
            assert re.search(rf"\}} {name}\b|{module}\.{name}\.md", page), f"{module}.{name}"
    for name in CLASSES:
        page = site.pages[f"reference/api/fgg.{name}.md"]
        kind = getattr(import_module("fgg"), name)
        for member, value in vars(kind).items():
            routine = isinstance(value, property) or inspect.isfunction(value)
            if routine and not member.startswith("_") and value.__doc__:
                assert re.search(rf"\}} {member}\b", page), f"{name}.{member}"


def test_every_link_leads_somewhere(site: Tree) -> None:
    for name, text in site.pages.items():
        for link in markdown.links(text):
            if markdown.is_external(link):
                continue
            path, _, anchor = link.partition("#")
            goal = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            )
            assert goal in site.files, f"{name}: {link}"
            if anchor:
                assert anchor in markdown.anchors(site.pages[goal]), f"{name}: {link}"


def test_every_page_is_in_one_table_of_contents(site: Tree) -> None:
    listed = [entry for name, text in site.pages.items() for entry in entries(name, text)]
    alone = {name for name, text in site.pages.items() if text.startswith(ORPHAN)}
    assert sorted([*listed, *alone, "index.md"]) == sorted(site.pages)


def test_nothing_comes_from_elsewhere(site: Tree) -> None:
    for name, text in site.pages.items():
        pictures = re.findall(r"!\[[^\]]*\]\((\w+:[^)]*)\)", text)
        assert not pictures and "<script" not in text, name
    for path in (places.DOCS / "_static").iterdir():
        assert not re.search(r"https?://(?!www\.w3\.org/)", path.read_text("utf-8")), path


def test_links_of_the_project_lead_to_the_same_in_the_site() -> None:
    page = "docs/howto/gpu.md"
    assert places.moved("../performance.md#a-b", page) == "../performance.md#a-b"
    assert places.moved("../../examples/README.md", page) == "../project/examples.md"
    code = places.moved("../../fgg/diagnostics/explain/F420.md", page)
    assert code == "../reference/diagnostics/F420.md"
    assert places.moved("docs/howto/gpu.md", "CONTRIBUTING.md") == "../howto/gpu.md"
    assert places.moved("https://example.org/", page) == "https://example.org/"
    assert places.moved("#numbers", page) == "#numbers"


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    write(Tree({"a.md": "# A\n", "b/c.svg": b"<svg/>"}), tmp_path)
    before = (tmp_path / "a.md").stat().st_mtime_ns
    write(Tree({"a.md": "# A\n"}), tmp_path)
    assert (tmp_path / "a.md").stat().st_mtime_ns == before
    assert not (tmp_path / "b/c.svg").exists()


def test_anchors_are_those_of_code_hosts() -> None:
    text = "# A `b`: c\n## Twice\n```\n# no heading\n```\n## Twice\n### 1. [Link](x.md) & more\n"
    assert markdown.anchors(text) == {"a-b-c", "twice", "twice-1", "1-link--more"}


def test_links_in_code_are_no_links() -> None:
    text = "[a](b.md) `X[i](t)` ![p](q.svg)\n\n    X[i](t)\n\n```\n[c](d.md)\n```\n"
    assert markdown.links(text) == ["b.md", "q.svg"]
    assert markdown.with_links("[a](b.md) `X[i](t)`", str.upper) == "[a](B.MD) `X[i](t)`"
