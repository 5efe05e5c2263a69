"""A corpus: files of a format as a stream of examples that can be read again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fgg.data.example import Example
from fgg.data.lines import Line, Report, plain_suffix, read_lines
from fgg.data.plain import read_ids, read_morphs, read_structures, read_tagged, read_words
from fgg.data.tables import KNOWN, read_columns, read_conllu
from fgg.data.trees import read_trees
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse

Reader = Callable[[Iterator[Line], Report], Iterator[Example]]
Change = Callable[[Example], Example | None]

FORMATS: dict[str, Reader] = {
    "words": read_words,
    "ids": read_ids,
    "tagged": read_tagged,
    "conllu": read_conllu,
    "columns": read_columns,
    "trees": read_trees,
    "morphs": read_morphs,
    "structures": read_structures,
}
SUFFIXES = {
    ".txt": "words",
    ".ids": "ids",
    ".pos": "tagged",
    ".tagged": "tagged",
    ".conllu": "conllu",
    ".trees": "trees",
    ".mrg": "trees",
    ".dbn": "structures",
}
MAX_REPORTED = 20
MAX_AFTER = 10_000  # examples that are looked at after the first bad one, to find more such


@dataclass
class Skipped:
    """What a pass over a corpus has left out: how many items, and why the first ones."""

    count: int = 0
    first: list[Diagnostic] = field(default_factory=list)

    def warning(self) -> Diagnostic | None:
        """One diagnostic that says so, if there is something to say."""
        if not self.count:
            return None
        what = "1 item was" if self.count == 1 else f"{self.count:,} items were"
        return Diagnostic(
            code="F487", message=f"{what} skipped", help=f"the first: {self.first[0].message}"
        )


class _Enough(Exception):
    """As many bad lines as anyone wants to read about."""


@dataclass(frozen=True)
class Corpus:
    """The examples of some files, read as they are used; each iteration reads the files anew.

    A bad line raises GrammarError with file, number and cause, of it and of those that follow. With
    `skip`, it is left out and counted: `skipped` is what the last pass that was begun left out.
    """

    paths: tuple[Path, ...]
    reader: Reader
    skip: bool = False
    blank: bool = False
    changes: tuple[Change, ...] = ()
    _passes: list[Skipped] = field(default_factory=lambda: [Skipped()], compare=False, repr=False)

    @property
    def skipped(self) -> Skipped:
        """What the last pass has left out so far."""
        return self._passes[0]

    def map(self, *changes: Change) -> Corpus:
        """The corpus with each example changed, or left out where a change gives None."""
        return replace(self, changes=(*self.changes, *changes), _passes=[Skipped()])

    def __iter__(self) -> Iterator[Example]:
        skipped = self._passes[0] = Skipped()
        for path in self.paths:
            yield from self._read(path, skipped)

    def _read(self, path: Path, skipped: Skipped) -> Iterator[Example]:
        def report(code: str, number: int, message: str, help: str) -> None:
            skipped.count += 1
            if len(skipped.first) < MAX_REPORTED:
                text = f"{path}:{number}: {message}"
                skipped.first.append(Diagnostic(code=code, message=text, help=help))
            elif not self.skip:
                raise _Enough

        after = 0
        try:
            for example in self.reader(read_lines(path, report), report):
                if skipped.count and not self.skip:
                    after += 1
                    if after > MAX_AFTER:
                        break
                elif example.words or self.blank:
                    changed = self._changed(example, path)
                    if changed is not None:
                        yield changed
        except _Enough:
            pass
        if skipped.count and not self.skip:
            raise GrammarError(skipped.first)

    def _changed(self, example: Example, path: Path) -> Example | None:
        found: Example | None = replace(example, place=f"{path}:{example.place}")
        for change in self.changes:
            if found is None:
                return None
            found = change(found)
        return found


def read(
    *paths: str | Path,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    skip: bool = False,
    blank: bool = False,
) -> Corpus:
    """The corpus in some files, of this format or of the one that the suffix of their names says.

    `columns` names the columns of the format `columns`. `skip` leaves bad lines out. `blank` keeps
    empty lines as examples without words, where each line is an item. Raises GrammarError.
    """
    files = tuple(map(Path, paths))
    name = format or _guess(files)
    if name not in FORMATS:
        known = ", ".join(f"`{each}`" for each in FORMATS)
        help = did_you_mean(name, FORMATS) or f"formats are {known}"
        refuse("F486", f"there is no format `{name}`", help)
    reader = FORMATS[name]
    if columns is not None:
        if name != "columns" or "word" not in columns or not set(columns) <= set(KNOWN):
            message = f"columns {', '.join(columns)} of format `{name}`"
            known = ", ".join(f"`{each}`" for each in KNOWN if each)
            refuse("F486", message, f"format `columns` has {known}, and `word` among them")
        reader = partial(read_columns, columns=tuple(columns))
    return Corpus(files, reader, skip=skip, blank=blank)


def _guess(paths: Iterable[Path]) -> str:
    found = {SUFFIXES.get(plain_suffix(path)) for path in paths}
    if len(found) == 1 and (name := found.pop()):
        return name
    shown = ", ".join(f"`{path}`" for path in paths)
    known = ", ".join(f"`{name}`" for name in FORMATS)
    refuse("F486", f"the name of {shown} does not tell its format", f"say which of {known}")
