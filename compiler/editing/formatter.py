"""`fggc format`: a text laid out afresh, with its comments, line breaks and meaning.

Each statement begins a line of its own. Between tokens there is one space or none; rules of
successive lines are aligned. Values that are written over several lines keep their layout inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fgg.compiler.editing.pieces import Piece, pieces
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.lex import lex, with_line_ends
from fgg.compiler.syntax.parse import parse
from fgg.diagnostics import GrammarError, InternalError, Report
from fgg.grammar.spans import Source

STEP = 2
HANG = 4
MAX_PAD = 24
WIDTH = 100
GAP = 3  # in front of `for`

_COMMENT = re.compile(r"#[^\n]*")
_OPEN = frozenset(("LPAR", "LSQB", "LBRACE"))
_CLOSE = frozenset(("RPAR", "RSQB", "RBRACE"))
_BEFORE_SIGN = frozenset(
    ("LPAR", "LSQB", "COMMA", "EQUAL", "COMPARISON", "SIGN", "STAR", "FOR", "RANK", "COLON")
)


@dataclass(slots=True)
class Word:
    """A token or a comment with the layout it has."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Line:
    """A line to be written: its indentation, the words on it, and the cells of a rule."""

    indent: int
    cells: list[str]
    is_rule: bool = False
    continues: bool = False


@dataclass(frozen=True)
class Comment:
    """A comment at the end of a line, and the column where it stood."""

    text: str
    column: int


Laid = list[tuple[Line, Comment | None]]
"""Lines with the comments at their ends."""


@dataclass(frozen=True)
class Layout:
    """The lines of a part of a text, and whether an empty one follows."""

    lines: Laid
    is_followed_by_space: bool


def format_text(text: str, name: str = "<text>") -> str:
    """The text in the house style. Raises GrammarError if it cannot be parsed."""
    placed = pieces(text, {})
    if all(piece.is_parsed for _, piece in placed):
        return format_pieces([piece for _, piece in placed])
    source, report = Source(name, text), Report()
    parse(source, report)
    if report.has_errors:
        raise GrammarError([d for d in report.diagnostics if d.is_error], source)
    return format_pieces([Piece(with_line_ends(text))])  # cut at the wrong places


def format_pieces(parts: Sequence[Piece], known: dict[Piece, Layout] | None = None) -> str:
    """The text of pieces without syntax errors; `known` keeps the layout of each."""
    layouts = {} if known is None else known
    lines: Laid = []
    for piece in parts:
        if piece not in layouts:
            layouts[piece] = _layout(piece)
        lines += layouts[piece].lines
        if layouts[piece].is_followed_by_space:
            lines.append((Line(0, []), None))
    result = _written(lines)
    before = "".join(piece.text for piece in parts)
    if _without_space(result) != _without_space(before):
        raise InternalError("formatting has changed the text")
    return result


def _layout(piece: Piece) -> Layout:
    """Lay a piece out, and make sure that it still says the same."""
    words = _words(piece.text)
    lines = _Splitter(piece.text, words, piece.statements).split()
    if _content(_words(_written(lines))) != _content(words):
        raise InternalError("formatting has changed the text")
    tail = piece.text[words[-1].end if words else 0 :]
    return Layout(lines, tail.count("\n") > 1)


def _written(lines: Laid) -> str:
    """The text of lines, with the rules aligned; at most one empty line stands between others."""
    texts = [
        _with_comment((" " * line.indent + "".join(cells)).rstrip(), comment)
        for (line, comment), cells in zip(lines, _aligned(lines), strict=True)
    ]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(texts).strip("\n"))
    return re.sub(r"\{\n\n", "{\n", text) + "\n" if text else ""


def _with_comment(text: str, comment: Comment | None) -> str:
    if comment is None:
        return text
    return f"{text}{' ' * max(2, comment.column - len(text))}{comment.text}"


def _without_space(text: str) -> str:
    return "".join(text.split())


def _content(words: list[Word]) -> list[tuple[str, str]]:
    """What a text says: its words without their places, and numbers without spaces between them."""
    return [(w.kind, re.sub(r"\s+", "", w.text) if w.kind == "ROW" else w.text) for w in words]


def _words(text: str) -> list[Word]:
    """The tokens of a text, flat lists of values written out, and the comments between them."""
    lexed = lex(text, Report())
    assert lexed is not None
    tokens, _ = lexed
    while "VALUES" in tokens.types:
        tokens.expand(tokens.types.index("VALUES"))
    words: list[Word] = []
    last = 0
    places = zip(tokens.types, tokens.starts, tokens.ends, strict=True)
    for kind, start, end in [*places, ("", len(text), len(text))]:
        if text.find("#", last, start) >= 0:
            words += [
                Word("COMMENT", match.group().rstrip(), match.start(), match.end())
                for match in _COMMENT.finditer(text, last, start)
            ]
        if kind:
            words.append(Word(kind, text[start:end], start, end))
        last = end
    return words


class _Splitter:
    """Divides the words of a text into lines."""

    def __init__(
        self, text: str, words: list[Word], statements: tuple[tree.Statement, ...]
    ) -> None:
        self.text = text
        self.words = words
        self.starts: dict[int, int] = {}  # where statements start, with their indentation
        self.rules: set[int] = set()
        self.closing: set[int] = set()  # the braces that end queries
        for statement in statements:
            self.note(statement, 0)
        self.lines: Laid = []

    def note(self, statement: tree.Statement, indent: int) -> None:
        if (
            isinstance(statement, tree.InputDecl)
            and self.text[statement.span.start :][:5] != "input"
        ):
            return  # between the parentheses of a query
        self.starts[statement.span.start] = indent
        if isinstance(statement, tree.RuleDecl):
            self.rules.add(statement.span.start)
        if isinstance(statement, tree.QueryDecl):
            self.closing.add(statement.span.end - 1)
            for inner in statement.statements:
                self.note(inner, STEP)

    def split(self) -> Laid:
        """Return the lines: a new one for each statement, and where the text begins one."""
        base = 0
        depth: list[int] = []
        previous: Word | None = None
        for place, word in enumerate(self.words):
            gap = self.text[previous.end if previous else 0 : word.start]
            starts = word.start in self.starts
            ends = word.start in self.closing
            if word.kind == "COMMENT" and previous is not None and "\n" not in gap:
                column = word.start - self.text.rfind("\n", 0, word.start) - 1
                self.lines[-1] = (self.lines[-1][0], Comment(word.text, column))
                previous = word
                continue
            if starts or ends or "\n" in gap or previous is None or previous.kind == "COMMENT":
                self.lines += [(Line(0, []), None)] * (gap.count("\n") > 1)
                if starts or ends:
                    base = 0 if ends else self.starts[word.start]
                indent = base if starts or ends else self.continued(word, place, base, depth)
                if depth and depth[-1] and not starts:
                    indent = word.start - self.text.rfind("\n", 0, word.start) - 1
                continues = not starts and not ends and word.kind != "COMMENT"
                is_rule = word.start in self.rules
                line = Line(indent, [""], is_rule=is_rule, continues=continues)
                self.lines.append((line, None))
                lead = ""
            else:
                lead = gap if depth and depth[-1] else self.space(place)
            self.append(word, lead, as_it_is=bool(depth and depth[-1]))
            if word.kind in _OPEN:
                depth.append((depth[-1] if depth else 0) or self.keeps_layout(place))
            elif word.kind in _CLOSE and depth:
                depth.pop()
            previous = word
        return self.lines

    def continued(self, word: Word, place: int, base: int, depth: list[int]) -> int:
        """The indentation of a line that begins no statement."""
        if word.kind == "COMMENT":
            following = next((w for w in self.words[place:] if w.kind != "COMMENT"), None)
            if following is None:
                return 0
            if following.start in self.closing:
                return STEP
            return self.starts.get(following.start, base + HANG)
        return base + HANG

    def keeps_layout(self, place: int) -> int:
        """Whether the bracket at a place holds a value that is written over several lines."""
        before = self.words[place - 1].kind if place else ""
        if self.words[place].kind == "LPAR" or before not in ("EQUAL", "LSQB", "COLON", "COMMA"):
            return 0
        level = 0
        for word in self.words[place:]:
            level += (word.kind in _OPEN) - (word.kind in _CLOSE)
            if not level:
                return int("\n" in self.text[self.words[place].start : word.end])
        return 0

    def append(self, word: Word, lead: str, *, as_it_is: bool) -> None:
        """Put a word on the last line; a row of numbers is laid out unless it is to stay."""
        line = self.lines[-1][0]
        text = word.text
        if word.kind == "ROW" and "\n" not in text and not as_it_is:
            text = re.sub(r"\s*,\s*", ", ", re.sub(r"\[\s+|\s+\]", lambda m: m[0].strip(), text))
            text = re.sub(r"\s*/\s*", "/", re.sub(r",? *\]$", "]", text)) if "," in text else text
        if line.is_rule and (
            (word.kind == "ARROW" and len(line.cells) < 3)
            or word.kind == "FOR"
            or (line.cells[-1].endswith(":") and len(line.cells) == 1)
        ):
            line.cells.append(text)
        else:
            line.cells[-1] += lead + text

    def space(self, place: int) -> str:
        """What stands between a word and the one before it, on one line."""
        left, right = self.words[place - 1], self.words[place]
        before = self.words[place - 2] if place > 1 else None
        gap = self.text[left.end : right.start]
        inside = self.bracket(place)
        if right.kind in ("RPAR", "RSQB", "COMMA", "DOT", "PART") or left.kind == "DOT":
            return ""
        if left.kind in ("LPAR", "LSQB") or (right.kind == "RBRACE" and inside == "{v"):
            return ""
        if left.kind == "LBRACE" and inside == "{v":
            return ""
        if right.kind == "COLON":
            return ""
        if right.kind in ("LPAR", "LSQB"):
            return "" if left.kind in ("NAME", "RSQB") else " "
        if "SLASH" in (left.kind, right.kind):
            return ""
        if left.kind == "SIGN" and (before is None or before.kind in _BEFORE_SIGN):
            return ""
        if inside == "[" and left.kind == "COMMA":
            return " " if gap else ""
        for kind, at in ((left.kind, place - 1), (right.kind, place)):
            if kind in ("SIGN", "STAR"):  # `n-1` or `n - 1`, but not `n -1`
                around = self.text[self.words[at - 1].end : self.words[at + 1].start]
                return "" if inside == "[" or len(around) == 1 else " "
        if "EQUAL" in (left.kind, right.kind) and inside == "(":
            return ""
        return " "

    def bracket(self, place: int) -> str:
        """The bracket around a word: `(`, `[`, `{` of a query or `{v` of values; or nothing."""
        level = 0
        for back in range(place - 1, -1, -1):
            kind = self.words[back].kind
            if self.words[back].start in self.starts and kind != "QUERY":
                return ""
            if kind in _CLOSE:
                level += 1
            elif kind in _OPEN:
                if not level:
                    if kind == "LBRACE":
                        values = back and self.words[back - 1].kind in ("EQUAL", "COLON")
                        return "{v" if values else "{"
                    return "(" if kind == "LPAR" else "["
                level -= 1
        return ""


def _aligned(lines: Laid) -> Iterator[list[str]]:
    """Yield the cells of lines; names, heads and conditions of successive rules are aligned."""
    group: list[Line] = []  # rules, and the lines that continue them
    for line, _ in lines:
        if group and (line.continues or (line.is_rule and line.indent == group[0].indent)):
            group.append(line)
            continue
        yield from _align(group)
        group = [line] if line.is_rule else []
        if not line.is_rule:
            yield line.cells
    yield from _align(group)


def _align(lines: list[Line]) -> Iterator[list[str]]:
    """Yield the cells of rules, padded: name, head, body, conditions."""
    rules = [line for line in lines if line.is_rule]
    parts = [_rule_parts(line.cells) for line in rules]
    for part in (0, 1):
        lengths = [len(p[part]) for p in parts if len(p[part]) <= MAX_PAD + 6]
        width = max(lengths, default=0)
        if width:
            for p in parts:
                p[part] = f"{p[part]:{width}} "
    ends = [line.indent + len("".join(p[:3])) for line, p in zip(rules, parts, strict=True) if p[3]]
    column = max(ends, default=0) + GAP
    for line, p in zip(rules, parts, strict=True):
        if p[3]:
            width = column - line.indent
            fits = column + len(p[3]) <= WIDTH
            body = "".join(p[:3])
            p[2] = f"{body:{width}}"[len("".join(p[:2])) :] if fits else p[2] + " " * GAP
    padded = iter(parts)
    for line in lines:
        yield next(padded) if line.is_rule else line.cells


def _rule_parts(cells: list[str]) -> list[str]:
    """The cells of a rule as `rule name:`, head, `-> body`, `for conditions`."""
    first, *rest = cells
    named = first.endswith(":")
    name = first if named else ""
    head = rest.pop(0) if named and rest and rest[0][:2] != "->" else "" if named else first
    arrow = rest.pop(0) if rest and rest[0].startswith("->") else ""
    conditions = rest.pop(0) if rest and rest[0].startswith("for") else ""
    return [name, head.strip(), arrow, conditions, *rest]
