"""A corpus: the examples of some files, read lazily and as often as needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fgg.data.example import Change, Example
from fgg.data.formats import FORMATS, KNOWN, SUFFIXES, Reader, read_columns
from fgg.data.potentials import Potentials
from fgg.data.text_files import plain_suffix, read_lines
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse

MAX_REPORTED = 20
MAX_AFTER = 10_000  # examples read after the first bad line, to report further ones


@dataclass
class Skipped:
    """The items that a pass over a corpus left out: their number, and why for the first ones."""

    count: int = 0
    first: list[Diagnostic] = field(default_factory=list)

    def warning(self) -> Diagnostic | None:
        """The diagnostic (F487) for skipped items; None if there are none."""
        if not self.count:
            return None
        what = "1 item was" if self.count == 1 else f"{self.count:,} items were"
        return Diagnostic(
            code="F487", message=f"{what} skipped", help=f"the first: {self.first[0].message}"
        )


class _Enough(Exception):
    """Raised when `MAX_REPORTED` bad lines have been reported."""


@dataclass(frozen=True)
class Corpus:
    """The examples of some files. They are read lazily, and anew in every iteration.

    Bad lines raise one GrammarError that names file, line and cause of each. With `skip`, bad lines
    are left out and counted in `skipped`. `potentials` has an entry for each item of the files,
    also for those that a change leaves out.
    """

    paths: tuple[Path, ...]
    reader: Reader
    skip: bool = False
    blank: bool = False
    changes: tuple[Change, ...] = ()
    potentials: Potentials | None = None
    _passes: list[Skipped] = field(default_factory=lambda: [Skipped()], compare=False, repr=False)

    def __repr__(self) -> str:
        names = ", ".join(path.name for path in self.paths[:3])
        more = f" and {len(self.paths) - 3} more" if len(self.paths) > 3 else ""
        return f"Corpus({names}{more})"

    @property
    def skipped(self) -> Skipped:
        """The items that the most recent pass has skipped so far."""
        return self._passes[0]

    def beside(self, potentials: Potentials) -> Corpus:
        """The corpus with these log-potentials. Raises GrammarError (F478) for skipped lines."""
        if self.skip:
            message = "items that cannot be read are not left out beside log-potentials"
            refuse("F478", message, "mend the data, and leave out `--skip-bad`")
        return replace(self, potentials=potentials, _passes=[Skipped()])

    def map(self, *changes: Change) -> Corpus:
        """The corpus with these changes applied to each example; None leaves the example out."""
        return replace(self, changes=(*self.changes, *changes), _passes=[Skipped()])

    def __iter__(self) -> Iterator[Example]:
        skipped = self._passes[0] = Skipped()
        examples = (example for path in self.paths for example in self._read(path, skipped))
        for example in examples if self.potentials is None else _joined(examples, self.potentials):
            changed = self._changed(example)
            if changed is not None:
                yield changed

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
                    yield replace(example, place=f"{path}:{example.place}")
        except _Enough:
            pass
        if skipped.count and not self.skip:
            raise GrammarError(skipped.first)

    def _changed(self, example: Example) -> Example | None:
        changed: Example | None = example
        for change in self.changes:
            if changed is None:
                return None
            changed = change(changed)
        return changed


def _joined(examples: Iterable[Example], potentials: Potentials) -> Iterator[Example]:
    """Examples with their log-potentials. Raises GrammarError (F411) unless each has some."""
    number, size = 0, potentials.size
    for example in examples:
        if number < size:
            yield replace(example, potentials=potentials.item(number))
        number += 1
    if number != size:
        message = f"`{potentials.path}` has log-potentials of {size:,} items; the data {number:,}"
        help = "it has those of all items of the data files, in order; empty lines do not count"
        refuse("F411", message, help)


def read(
    *paths: str | Path,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    skip: bool = False,
    blank: bool = False,
) -> Corpus:
    """The corpus in some files. Without `format`, the suffix of their names decides (`SUFFIXES`).

    `columns` names the columns of the format `columns`. `skip` leaves out bad lines. `blank` keeps
    empty lines as examples without words, in formats with one item on each line. Raises
    GrammarError (F486).
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
            message = f"format `{name}` cannot have the columns {', '.join(columns)}"
            known = ", ".join(f"`{each}`" for each in KNOWN if each)
            refuse("F486", message, f"format `columns` has {known}, and `word` among them")
        reader = partial(read_columns, columns=tuple(columns))
    return Corpus(files, reader, skip=skip, blank=blank)


def _guess(paths: Iterable[Path]) -> str:
    formats = {SUFFIXES.get(plain_suffix(path)) for path in paths}
    if len(formats) == 1 and (name := formats.pop()):
        return name
    shown = ", ".join(f"`{path}`" for path in paths)
    known = ", ".join(f"`{name}`" for name in FORMATS)
    refuse("F486", f"the format of {shown} does not follow from its name", f"name one of {known}")
