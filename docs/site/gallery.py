"""The gallery: each grammar of the library with its rules, equations, costs and an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from docs.site import notebook
from docs.site.markdown import escaped, fenced
from docs.site.places import DOCS
from fgg.api.compile import selected
from fgg.api.load import load
from fgg.check.describe import equations, query_signature
from fgg.compiler.cost.choose import choose
from fgg.compiler.cost.cost import Cost, cost
from fgg.compiler.driver import SPACES, Expected
from fgg.compiler.plan.lower import CannotCompile
from fgg.grammar import Grammar
from fgg.grammar.domains import lengths, size_values
from fgg.library import library_names, library_text, library_title
from fgg.plan.sizes import in_units

ANSWERS = DOCS / "gallery" / "answers.md"
"""An answer of each grammar, by kind."""

_SECTION = re.compile(r"^(#{1,2}) (.+)\n((?:(?!^#{1,2} ).*\n?)*)", re.M)


@dataclass(frozen=True)
class Entry:
    """A grammar of the gallery: its kind, and the text and the cells that lead to an answer."""

    name: str
    kind: str
    text: str


def entries() -> list[Entry]:
    """All grammars in the order of the gallery."""
    kind, listed = "", []
    for match in _sections():
        if match[1] == "#":
            kind = match[2].strip()
        else:
            listed.append(Entry(match[2].strip(), kind, match[3].strip() + "\n"))
    assert sorted(entry.name for entry in listed) == list(library_names()), (
        "docs/gallery/answers.md"
    )
    return listed


def _sections() -> Iterator[re.Match[str]]:
    """The headings of the answers with what follows each; `#` in a block of code is no heading."""
    text = ANSWERS.read_text("utf-8")
    hidden = re.sub(
        r"^```.*?^```$", lambda m: re.sub(r"(?m)^#", " ", m[0]), text, flags=re.M | re.S
    )
    for match in _SECTION.finditer(hidden):
        whole = _SECTION.match(text, match.start())
        assert whole is not None
        yield whole


def files(*, run: bool) -> dict[str, str | bytes]:
    """A page for each grammar, and one that shows them all, by their places in the site.

    Without `run` there are no pictures and no costs.
    """
    made: dict[str, str | bytes] = {}
    answers = _answers(run)
    for entry in entries():
        outputs = answers[entry.name]
        made[f"gallery/{entry.name}.md"] = page(entry, outputs, run=run)
        if run:
            grammar = load(entry.name)
            made[f"gallery/rules/{entry.name}.svg"] = grammar.draw().svg().encode()
            picture = next(out.content for cell in outputs for out in cell if out.kind == "svg")
            made[f"gallery/answers/{entry.name}.svg"] = picture.encode()
    return {"gallery/index.md": overview(run=run), **made}


def _answers(run: bool) -> dict[str, notebook.Outputs]:
    """What the cells of each grammar show; all run in one process."""
    listed = entries()
    sizes = [len(notebook.cells(entry.text)) for entry in listed]
    outputs: notebook.Outputs = [[] for _ in range(sum(sizes))]
    if run:
        text = "\n".join(entry.text for entry in listed)
        outputs = notebook.outputs_of(text, "docs/gallery/answers.md")
    rest = iter(outputs)
    return {
        entry.name: [next(rest) for _ in range(size)]
        for entry, size in zip(listed, sizes, strict=True)
    }


def overview(*, run: bool) -> str:
    """All grammars by kind: cards, each with a picture of an answer."""
    lines = [
        "# Gallery",
        "",
        "The grammars of the library, each with its rules, its equations, what it costs, and an",
        "answer. Every command takes their names (`fggc draw hmm`), and `fggc show hmm --emit fgg`",
        "prints the text of one, to be copied and changed.",
    ]
    for kind, listed in groupby(entries(), key=lambda entry: entry.kind):
        lines += ["", f"## {kind}", "", "::::{container} cards"]
        for entry in listed:
            name = entry.name
            lines += ["", ":::{container} card", f"**[{name}]({name}.md)**", "", title(name)]
            if run:
                lines += ["", f"[![An answer of {name}](answers/{name}.svg)]({name}.md)"]
            lines += [":::"]
        lines += ["::::"]
    names = [entry.name for entry in entries()]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *names, "```", ""])


def title(name: str) -> str:
    """What a grammar is and where it comes from, as a sentence."""
    text = escaped(library_title(name))
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def page(entry: Entry, outputs: notebook.Outputs, *, run: bool) -> str:
    """A grammar."""
    grammar = load(entry.name)
    lines = [f"# {entry.name}", "", title(entry.name), "", "## Rules", ""]
    if run:
        picture = f"![The rules of {entry.name}](rules/{entry.name}.svg)"
        lines += [":::{container} wide", picture, ":::", ""]
    lines += [fenced(library_text(entry.name), "fgg"), "", "## Equations", ""]
    lines += list(written(grammar))
    if run:
        lines += ["## Cost", "", *costs(grammar)]
    lines += ["## An answer", "", notebook.markdown(entry.text, outputs)]
    return "\n".join([*lines, ""])


def programs(grammar: Grammar) -> Iterator[tuple[str, Grammar]]:
    """The grammar joined with each of its queries, under how the query is written."""
    if not grammar.queries:
        yield "", selected(grammar, None)
    for query in grammar.queries:
        yield query_signature(query), selected(grammar, query.name)


def written(grammar: Grammar) -> Iterator[str]:
    """The equations of each query."""
    several = len(grammar.queries) > 1
    for signature, joined in programs(grammar):
        if several:
            yield f"`{signature}`:\n"
        yield fenced("\n".join(equations(joined)), "text") + "\n"


def costs(grammar: Grammar) -> Iterator[str]:
    """For each query, a table of what its program costs in each space."""
    sizes = ", ".join(f"{name} = {value:,}" for name, value in size_values(grammar).items())
    expected = Expected()
    for signature, joined in programs(grammar):
        at = ", ".join(f"{name} = {expected.length}" for name in sorted(lengths(joined)))
        setting = ", ".join(filter(None, (sizes, at, f"a batch of {expected.batch}")))
        try:
            choice = choose(joined, expected)
        except CannotCompile as error:
            yield f"There is no program: {error}. The reference engine computes its value.\n"
            continue
        yield f"`{signature}`, at {setting}:\n" if signature else f"At {setting}:\n"
        plan = choice.plan
        known = choice.costs or {
            "": cost(plan, dict.fromkeys(lengths(joined), expected.length), batch=expected.batch)
        }
        yield "| space | order | multiply-adds | peak memory |\n|---|---|--:|--:|"
        for space in sorted(known, key=lambda name: SPACES.index(name) if name else 0):
            mark = " (`auto`)" if space == choice.space and len(known) > 1 else ""
            yield row(f"{space or 'all three'}{mark}", known[space])
        for space, reason in choice.refused.items():
            yield f"| {space} | none: {escaped(reason)} | | |"
        yield ""


def row(title: str, known: Cost) -> str:
    """The cost of a program as a row of a table."""
    order = f"O({known.text(known.order)})"
    return f"| {title} | `{order}` | {known.multiply_adds:,} | {in_units(known.peak_bytes)} |"
