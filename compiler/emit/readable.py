"""What all emitted programs say alike: users' text, short names, the names of levels.

Printers also say which rule each line belongs to (`belongs`), and `Linked.of` collects that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap

from fgg.plan.kernel import Stage

SHORT = 20
"""How long the name of a prepared tensor may be before it is replaced by a letter."""
LETTERS = "HJKLMNPQRTUVWXYZ"
"""The letters of prepared matrices, from the H of the rank-space paper on."""
_TIE = "\N{NO-BREAK SPACE}"


MARK = "# \x1e"
"""The beginning of a line that says which rule the next lines carry out, and is taken out again.

No other line of a program has this character: text of users is plain or quoted.
"""


@dataclass(frozen=True)
class Linked:
    """A program and, for each of its lines, the names of the rules that the line carries out."""

    text: str
    rules: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(text: str) -> Linked:
        """A program from its text with marks."""
        lines: list[str] = []
        rules: list[tuple[str, ...]] = []
        open_rules: tuple[str, ...] = ()
        for line in text.split("\n"):
            _, mark, name = line.partition(MARK)
            if not mark:
                lines.append(line)
                rules.append(open_rules)
            elif name:
                open_rules = (*open_rules, json.loads(name))
            else:
                open_rules = open_rules[:-1]
        return Linked("\n".join(lines), tuple(rules))


def belongs(rule: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines that carry out a rule, between marks."""
    yield MARK + json.dumps(rule)
    yield from lines
    yield MARK


def quoted(data: object) -> str:
    """A name, or names and numbers in lists, as a literal."""
    return json.dumps(data, ensure_ascii=False)


def plain(text: str) -> str:
    """User's text for a comment or a docstring: one line, nothing that could end either."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(kept.split()).replace("\\", "/").replace('"""', "'''")


def formula_lines(text: str, width: int, first: str = "", more: str = "") -> list[str]:
    """A rule or an equation in lines that begin with `first` and `more`, whole terms together.

    A line ends inside brackets only if a term alone is wider than the line.
    """
    depth, letters = 0, list[str]()
    for letter in text:
        depth += letter in "([{"
        depth -= letter in ")]}"
        letters.append(_TIE if depth and letter == " " else letter)
    terms = "".join(letters)
    if max(map(len, terms.split(" "))) + max(len(first), len(more)) > width:
        terms = text
    lines = wrap(terms, width, initial_indent=first, subsequent_indent=more, break_on_hyphens=False)
    return [line.replace(_TIE, " ") for line in lines]


def level_name(stage: Stage) -> tuple[str, bool]:
    """What the level of a stage is: an index (and True), the `width` of a span, or a `level`."""
    assert stage.levels is not None
    loops = {loop.name.rstrip("'") for block in stage.blocks for loop in block.loops}
    # A rule's variable that is a sum gets a name of its own, which is not that of the level.
    rules = (item for block in stage.blocks for item in block.variables.items())
    loops |= {name for name, expr in rules if len([m for m, _ in expr.terms if m]) > 1}
    forms = list(dict.fromkeys(stage.levels.forms.values()))
    variables = [[(m[0], c) for m, c in form.terms if m] for form in forms]
    if len(forms) == 1 and len(forms[0].terms) == len(variables[0]):
        if len(variables[0]) == 1 and variables[0][0][1] == 1:
            name = str(variables[0][0][0])
            if name not in loops:
                return name, True
        if sorted(c for _, c in variables[0]) == [-1, 1]:
            return "width", False
    return "level", False
