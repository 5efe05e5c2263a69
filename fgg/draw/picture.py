"""Pictures: a title, a size, and marks; how they are saved and how notebooks show them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgg.draw.marks import Mark


class Picture(ABC):
    """A drawing whose visible part begins at the origin and has size `width` by `height`."""

    title: str
    width: float
    height: float

    @property
    @abstractmethod
    def marks(self) -> Sequence[Mark]:
        """What is painted, back to front."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, in the format that its ending names.

        Endings are .svg, .png, .pdf, .tex and, for pictures of rules, .dot. Raises GrammarError for
        another ending or a file that cannot be written, and `MissingExtra`.
        """
        from fgg.draw import format_of, render
        from fgg.files import write_whole

        write_whole(Path(path), render(self, format_of(path)))

    def svg(self) -> str:
        """The picture as a self-contained SVG document."""
        from fgg.draw.writers.svg import to_svg

        return to_svg(self)

    def _repr_svg_(self) -> str:
        return self.svg()


@dataclass(frozen=True, kw_only=True, repr=False)
class Sketch(Picture):
    """A picture that is given by its marks."""

    title: str
    width: float
    height: float
    painted: tuple[Mark, ...]

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What is painted, back to front."""
        return self.painted

    def __repr__(self) -> str:
        return f"Sketch({self.title!r}, {self.width:.0f} x {self.height:.0f})"


def stacked(title: str, pictures: Sequence[Picture]) -> Picture:
    """Pictures one below the other."""
    from fgg.draw.marks import moved

    marks: list[Mark] = []
    y = 0.0
    for picture in pictures:
        marks += [moved(mark, 0.0, y) for mark in picture.marks]
        y += picture.height
    width = max((picture.width for picture in pictures), default=1.0)
    return Sketch(title=title, width=width, height=max(y, 1.0), painted=tuple(marks))
