"""Markdown: fenced blocks, links, and the anchors of headings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ \t]*$", re.M | re.S)
_CODE_OR_LINK = re.compile(
    r"^ {4}[^\n]*|(?P<ticks>`+).+?(?P=ticks)|(?<=\]\()(?P<target>[^()\s]+)(?=\))", re.M | re.S
)
_HEADING = re.compile(r"^(#{1,6}) +(.*?)[ #]*$", re.M)

LANGUAGES = {".fgg": "fgg", ".py": "python", ".md": "markdown", ".toml": "toml", ".txt": "text"}
"""The languages of files, by their endings."""


@dataclass(frozen=True)
class Fence:
    """A fenced block: the words after its ticks, and its text."""

    info: str
    text: str

    @property
    def kind(self) -> str:
        """The first word after the ticks."""
        return self.info.split(" ", 1)[0]

    @property
    def note(self) -> str:
        """All further words after the ticks."""
        return self.info.partition(" ")[2].strip()

    def markdown(self) -> str:
        """The block as Sphinx reads it: a file has its name above it."""
        if self.kind != "file":
            return fenced(self.text, self.kind)
        name, _, how = self.note.partition(" ")
        language = LANGUAGES.get(name[name.rfind(".") :], "text")
        caption = f"{name} ({how})" if how else name
        return fenced(self.text, f"{{code-block}} {language}", f":caption: {caption}\n")


def fenced(text: str, info: str = "", options: str = "") -> str:
    """Text in a fence that is longer than any fence in it."""
    longest = max((len(ticks) for ticks in re.findall(r"^`{3,}", text, re.M)), default=2)
    ticks = "`" * (longest + 1)
    ending = "" if text.endswith("\n") else "\n"
    return f"{ticks}{info}\n{options}{text}{ending}{ticks}"


def parts(text: str) -> Iterator[str | Fence]:
    """Prose and fenced blocks in turn."""
    end = 0
    for match in _FENCE.finditer(text):
        yield text[end : match.start()]
        yield Fence(match[2].strip(), match[3])
        end = match.end()
    yield text[end:]


def prose(text: str) -> str:
    """All text outside of fenced blocks."""
    return "".join(part for part in parts(text) if isinstance(part, str))


def links(text: str) -> list[str]:
    """The targets of all links and pictures."""
    matches = _CODE_OR_LINK.finditer(prose(text))
    return [match["target"] for match in matches if match["target"]]


def with_links(text: str, change: Callable[[str], str]) -> str:
    """Prose with the targets of its links changed."""
    return _CODE_OR_LINK.sub(lambda m: change(m["target"]) if m["target"] else m[0], text)


def is_external(target: str) -> bool:
    """Whether a link leaves the project."""
    return re.match(r"[a-z]+:", target) is not None


def title(text: str) -> str:
    """The first heading."""
    match = _HEADING.search(prose(text))
    assert match, "a page has a title"
    return match[2]


def anchors(text: str) -> set[str]:
    """The anchors of all headings, formed as code hosts do."""
    seen: dict[str, int] = {}
    for match in _HEADING.finditer(prose(text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[2]).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
    return {
        f"{slug}-{number}" if number else slug
        for slug, count in seen.items()
        for number in range(count)
    }


def escaped(text: str) -> str:
    """Plain text in a cell of a table."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text.replace("\n", " "))
