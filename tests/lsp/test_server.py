"""The language server, driven over standard input and output by a client of its own."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.helpers.editor import Editor, edited
from tests.helpers.places import LIBRARY

TEXT = """\
size k = 2
domain T = k
domain D = {stop, go}
factor trans(T -> T)
factor more(T -> D) with prior = dirichlet(0.1)   # \U0001d6fc = 0.1
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> X(t)
rule step:  X(t) -> more(t, go) trans(t, u) X(u)
rule last:  X(t) -> more(t, stop)
"""


def document(editor: Editor) -> types.TextDocumentIdentifier:
    return types.TextDocumentIdentifier(editor.uri)


def applied(editor: Editor, edits: Any) -> str:
    """The text after edits."""
    text = editor.text
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(position: types.Position) -> int:
        return starts[position.line] + position.character

    for edit in sorted(edits, key=lambda e: -offset(e.range.start)):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def test_an_editor_is_served(tmp_path: Path) -> None:
    """One session, since starting a server takes a second."""

    async def script(editor: Editor) -> None:
        client = editor.client
        assert await editor.checked() == []

        hover = await client.text_document_hover_async(
            types.HoverParams(**editor.at("more(t, go)"))
        )
        assert hover is not None and isinstance(hover.contents, types.MarkupContent)
        assert "the probability of D given T, to be learned" in hover.contents.value
        assert hover.range is not None and editor.span(hover.range) == "more"
        rule = await client.text_document_hover_async(types.HoverParams(**editor.at("step:")))
        assert rule is not None and isinstance(rule.contents, types.MarkupContent)
        assert "X(t) += Σ_{u} more(t, go) · trans(t, u) · X(u)" in rule.contents.value
        node = await client.text_document_hover_async(types.HoverParams(**editor.at("u) X(u)")))
        assert node is not None and isinstance(node.contents, types.MarkupContent)
        assert node.contents.value == "node `u: T`"

        where = await client.text_document_definition_async(
            types.DefinitionParams(**editor.at("go) trans"))
        )
        assert isinstance(where, types.Location)
        assert (where.range.start.line, editor.span(where.range)) == (2, "go")

        context = types.ReferenceContext(include_declaration=True)
        places = await client.text_document_references_async(
            types.ReferenceParams(context=context, **editor.at("X(T)"))
        )
        assert places is not None and [p.range.start.line for p in places] == [6, 8, 9, 9, 10]

        symbols = await client.text_document_document_symbol_async(
            types.DocumentSymbolParams(document(editor))
        )
        assert symbols is not None
        assert [s.name for s in symbols][-3:] == ["begin", "step", "last"]

        renamed = await client.text_document_rename_async(
            types.RenameParams(new_name="halt", **editor.at("stop)"))
        )
        assert renamed is not None and renamed.changes is not None
        text = applied(editor, renamed.changes[editor.uri])
        assert "{halt, go}" in text and "more(t, halt)" in text and "stop" not in text
        with pytest.raises(JsonRpcException, match=r"would mean something else|the name is taken"):
            await client.text_document_rename_async(
                types.RenameParams(new_name="trans", **editor.at("more(T"))
            )

        items = await client.text_document_completion_async(
            types.CompletionParams(**editor.at("go) trans"))
        )
        assert isinstance(items, list)
        assert {"stop", "go", "t", "u"} <= {item.label for item in items}
        items = await client.text_document_completion_async(
            types.CompletionParams(**editor.at("X(t)\nrule step"))
        )
        assert isinstance(items, list) and {"S", "X", "more"} <= {item.label for item in items}

        editor.change(editor.text.index("trans(t"), editor.text.index("trans(t") + 5, "tranz")
        (found,) = await editor.checked()
        assert (found.code, editor.span(found.range)) == ("F103", "tranz")
        actions = await client.text_document_code_action_async(
            types.CodeActionParams(
                document(editor), found.range, types.CodeActionContext(diagnostics=[found])
            )
        )
        assert actions is not None and isinstance(actions[0], types.CodeAction)
        edit = actions[0].edit
        assert edit is not None and edit.changes is not None
        assert applied(editor, edit.changes[editor.uri]) == TEXT

        editor.change(0, len(editor.text), "size  k=2\nrule step : S->X")
        await editor.checked()
        edits = await client.text_document_formatting_async(
            types.DocumentFormattingParams(document(editor), types.FormattingOptions(4, True))
        )
        assert edits is not None and edits[0].new_text == "size k = 2\nrule step: S -> X\n"
        editor.change(
            0,
            len(editor.text),
            "domain A = {x} # \U0001d6fc\U0001d6fc \U0001f600\nfactor f(B)  nonterminal é(Q)",
        )
        spans = {editor.span(d.range) for d in await editor.checked() if d.code == "F102"}
        assert spans == {"B", "Q"}

    edited(tmp_path / "test.fgg", TEXT, script)


def test_definitions_are_found_in_files_that_are_used(tmp_path: Path) -> None:
    tmp_path.joinpath("base.fgg").write_text("domain T = 2\nfactor f(T)\n")
    text = 'use "base.fgg" as b\nnonterminal S() start S rule S -> b_f(t)\n'

    async def script(editor: Editor) -> None:
        assert await editor.checked() == []
        where = await editor.client.text_document_definition_async(
            types.DefinitionParams(**editor.at("b_f"))
        )
        assert isinstance(where, types.Location)
        assert where.uri.endswith("base.fgg") and where.range.start.line == 1
        with pytest.raises(JsonRpcException, match="declared in another file"):
            await editor.client.text_document_rename_async(
                types.RenameParams(new_name="g", **editor.at("b_f"))
            )
        tmp_path.joinpath("base.fgg").write_text("domain T = \n")
        editor.client.text_document_did_save(types.DidSaveTextDocumentParams(document(editor)))
        editor.change(0, 0, " ")
        (found,) = await editor.checked()
        assert found.message.startswith("in a used file") and editor.span(found.range)[:3] == "use"

    edited(tmp_path / "main.fgg", text, script)


PIECES = (
    "rule ",
    "X",
    "(",
    ")",
    "[",
    "]",
    "->",
    "# ",
    '"',
    "`",
    "{",
    "}",
    "\n",
    'use "pcfg" ',
    "\U0001d6fc",
    "!=",
)


Request = Callable[[Editor, dict[str, Any]], Awaitable[object]]
REQUESTS: tuple[Request, ...] = (
    lambda e, at: e.client.text_document_hover_async(types.HoverParams(**at)),
    lambda e, at: e.client.text_document_definition_async(types.DefinitionParams(**at)),
    lambda e, at: e.client.text_document_completion_async(types.CompletionParams(**at)),
    lambda e, at: e.client.text_document_references_async(
        types.ReferenceParams(context=types.ReferenceContext(include_declaration=True), **at)
    ),
    lambda e, at: e.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(at["text_document"])
    ),
    lambda e, at: e.client.text_document_formatting_async(
        types.DocumentFormattingParams(at["text_document"], types.FormattingOptions(4, True))
    ),
)


def edits_do_no_harm(tmp_path: Path, number: int, seed: int) -> None:
    """Edit library grammars at random, ask something after each edit, and never fail."""
    rng = random.Random(seed)
    texts = [path.read_text("utf-8") for path in sorted(LIBRARY.glob("*.fgg"))]

    async def script(editor: Editor) -> None:
        for count in range(number):
            if count % 10 == 0:
                editor.change(0, len(editor.text), rng.choice(texts))
            start = rng.randrange(len(editor.text) + 1)
            end = min(len(editor.text), start + rng.choice((0, 0, 1, 5, 40)))
            editor.change(start, end, rng.choice(PIECES) * rng.randrange(3))
            at: dict[str, Any] = {
                "text_document": document(editor),
                "position": editor.position(rng.randrange(len(editor.text) + 1)),
            }
            await rng.choice(REQUESTS)(editor, at)
        await editor.checked()
        editor.change(0, len(editor.text), TEXT)
        assert await editor.checked() == []

    edited(tmp_path / "test.fgg", TEXT, script)


def test_random_edits_do_no_harm(tmp_path: Path) -> None:
    edits_do_no_harm(tmp_path, 40, 0)


@pytest.mark.slow
def test_a_thousand_random_edits_do_no_harm(tmp_path: Path) -> None:
    edits_do_no_harm(tmp_path, 1000, 1)
