"""All pages of the site, as Markdown for Sphinx."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from docs.site import api, codes, commands, gallery, notebook, places
from docs.site.markdown import (
    LANGUAGES,
    escaped,
    fenced,
    is_external,
    links,
    parts,
    with_links,
)
from docs.site.places import DOCS, ROOT

NOTEBOOKS = ("docs/tutorials/", "docs/explanation/")
"""Folders of pages whose blocks run when the site is built."""

ORPHAN = "---\norphan: true\n---\n"
"""The beginning of a page that no table of contents lists."""


@dataclass
class Tree:
    """The files of the site by their places, and where those written by hand come from."""

    files: dict[str, str | bytes] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def pages(self) -> dict[str, str]:
        """The Markdown files."""
        return {k: v for k, v in self.files.items() if k.endswith(".md") and isinstance(v, str)}

    def add(self, path: str, text: str) -> None:
        """Add a page of the project: its links lead to the same things in the site."""
        self.origins[places.place(path)] = path
        self.files[places.place(path)] = linked(text, path)
        for link in links(text):
            if not is_external(link) and not link.startswith("#"):
                self.add_linked(places.target(link, path))

    def add_linked(self, path: str) -> None:
        """Add a file that a page links to, if it is not a page anyway."""
        if places.place(path) in self.files or path.startswith((places.CODES, "docs/")):
            return
        source = ROOT / path
        if path.endswith((".svg", ".png")):
            self.files[places.place(path)] = source.read_bytes()
        elif path not in places.RENAMED:
            language = LANGUAGES.get(source.suffix, "text")
            code = fenced(source.read_text("utf-8"), language)
            self.files[places.place(path)] = f"{ORPHAN}# {escaped(path)}\n\n{code}\n"


def tree(*, run: bool = True) -> Tree:
    """The whole site. Without `run` no code of a page runs and the gallery has no pictures."""
    site = Tree()
    site.files |= commands.pages()
    site.files |= codes.pages()
    site.files |= api.pages()
    site.files |= gallery.files(run=run)
    for path in sorted(DOCS.rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path == gallery.ANSWERS:
            continue
        if path.suffix == ".svg":
            site.files[places.place(name)] = path.read_bytes()
        elif path.suffix == ".md":
            text = path.read_text("utf-8")
            if name.startswith(NOTEBOOKS):
                text = executed(site, name, text, run)
            else:
                text = "".join(p if isinstance(p, str) else p.markdown() for p in parts(text))
            site.add(name, text)
    site.files |= project(site)
    return site


def executed(site: Tree, name: str, text: str, run: bool) -> str:
    """A page with the outputs of its cells; tutorials can be downloaded as notebooks."""
    cells = notebook.cells(text)
    outputs = notebook.outputs_of(text, name) if run and cells else [[] for _ in cells]
    page = notebook.markdown(text, outputs)
    if name.startswith("docs/tutorials/") and cells:
        stem = Path(name).stem
        site.files[f"tutorials/{stem}.ipynb.txt"] = notebook.as_ipynb(text, outputs)
        download = f"{{download}}`As a Jupyter notebook <{stem}.ipynb.txt>`"
        page = page.rstrip("\n") + f"\n\n---\n\n{download}\n"
    return page


def project(site: Tree) -> Iterator[tuple[str, str]]:
    """Pages about the project: for contributors, examples, changes, papers, the licence."""
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "benchmarks/README.md"):
        text = (ROOT / name).read_text("utf-8")
        text = "".join(p if isinstance(p, str) else p.markdown() for p in parts(text))
        site.add(name, text)
    text, outputs = notebook.from_ipynb((ROOT / "examples/displays.ipynb").read_text("utf-8"))
    site.add("examples/displays.ipynb", notebook.markdown(text, outputs))
    licence = (ROOT / "LICENSE").read_text("utf-8")
    yield "project/licence.md", f"# Licence\n\n{fenced(licence, 'text')}\n"
    yield "project/papers.md", papers()


def papers() -> str:
    """The papers that pages cite, as the README lists them."""
    readme = (ROOT / "README.md").read_text("utf-8")
    match = re.search(r"^## References\n(.*?)(?=^## |\Z)", readme, re.M | re.S)
    assert match, "the README has a section `References`"
    return f"# Papers\n\nPages cite papers by these keys.\n{match[1]}"


def linked(text: str, path: str) -> str:
    """A page of the project with its links as they have to be in the site."""
    change = partial(places.moved, page=path)
    return "".join(
        with_links(part, change) if isinstance(part, str) else fenced(part.text, part.info)
        for part in parts(text)
    )


def write(site: Tree, folder: Path) -> None:
    """Write all files that changed, and remove those that are no longer part of the site."""
    for name, content in site.files.items():
        path = folder / name
        content = content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in site.files:
            path.unlink()
