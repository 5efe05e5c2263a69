"""The server: each request of an editor, answered from the analysis of the text it is about."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

import fgg
from fgg.compiler.editing.pieces import Heading, headings
from fgg.compiler.editing.symbols import Occurrence
from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import Grammar
from fgg.grammar.spans import Span
from fgg.lsp.analysis import Analysis
from fgg.lsp.completion import completions
from fgg.lsp.hover import hover_text
from fgg.lsp.places import Places
from fgg.lsp.renaming import renaming

PAUSE = 0.15
"""Seconds without a change after which a text is checked."""

KINDS = {
    "size": types.SymbolKind.Constant,
    "domain": types.SymbolKind.Enum,
    "factor": types.SymbolKind.Function,
    "input factor": types.SymbolKind.Function,
    "nonterminal": types.SymbolKind.Class,
    "input": types.SymbolKind.Variable,
    "table": types.SymbolKind.Array,
    "rule": types.SymbolKind.Method,
    "query": types.SymbolKind.Namespace,
}
ITEMS = {
    "reserved word": types.CompletionItemKind.Keyword,
    "size": types.CompletionItemKind.Constant,
    "domain": types.CompletionItemKind.Enum,
    "value": types.CompletionItemKind.EnumMember,
    "factor": types.CompletionItemKind.Function,
    "input factor": types.CompletionItemKind.Function,
    "nonterminal": types.CompletionItemKind.Class,
    "file": types.CompletionItemKind.File,
    "library grammar": types.CompletionItemKind.Module,
}
_PROPOSAL = re.compile(
    r"did you mean `([^`]+)`\?|^write `([^`]+)`$|or write `([^`]+)` for the value$"
)


class Server(LanguageServer):
    """A language server with the latest analysis of each open text."""

    def __init__(self) -> None:
        super().__init__("fggc", fgg.__version__)
        self.analyses: dict[str, Analysis] = {}
        self.grammars: dict[str, Grammar] = {}  # the last that could be read
        self.checks: dict[str, asyncio.Task[None]] = {}
        self.worker = ThreadPoolExecutor(1)  # one check at a time; others wait and may be cancelled

    def analysis(self, uri: str) -> Analysis:
        """The analysis of a text as it is now."""
        document = self.workspace.get_text_document(uri)
        known = self.analyses.get(uri)
        if known is None or known.text != document.source:
            known = Analysis(document.source, path_of(document), document.version, known)
            self.analyses[uri] = known
        return known

    async def grammar(self, uri: str) -> Grammar | None:
        """The grammar of a text, or the last one that could be read while it is being checked."""
        task = self.checks.get(uri)
        if uri not in self.grammars and task is not None and not task.done():
            await asyncio.wait({task})
        return self.grammars.get(uri)

    def changed(self, uri: str) -> None:
        """Check a text once it has not changed for a moment."""
        earlier = self.checks.pop(uri, None)
        if earlier is not None:
            earlier.cancel()
        self.checks[uri] = asyncio.get_running_loop().create_task(self.check(uri))

    async def check(self, uri: str) -> None:
        """Publish the diagnostics of a text."""
        await asyncio.sleep(PAUSE)
        analysis = self.analysis(uri)
        loop = asyncio.get_running_loop()
        loaded = await loop.run_in_executor(self.worker, lambda: analysis.loaded)
        if self.workspace.get_text_document(uri).source != analysis.text:
            return
        if loaded.grammar is not None:
            self.grammars[uri] = loaded.grammar
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(
                uri, [shown(analysis, d) for d in loaded.diagnostics], analysis.version
            )
        )
        await loop.run_in_executor(self.worker, analysis.formatted)  # so that a request need not

    def occurrence(
        self, document: types.TextDocumentIdentifier, position: types.Position
    ) -> tuple[Analysis, Occurrence | None]:
        """The analysis of the text that a request is about, and the symbol it points at."""
        analysis = self.analysis(document.uri)
        return analysis, analysis.index.at(analysis.places.offset(position))


def path_of(document: TextDocument) -> str:
    """The path of a document; a text that is no file lies in the working folder."""
    parsed = urlparse(document.uri)
    return document.path if parsed.scheme == "file" else unquote(Path(parsed.path).name) or "text"


def location(analysis: Analysis, span: Span) -> types.Location:
    """The place of a span, which may lie in a file that the text uses."""
    path, places = analysis.where(span)
    uri = Path(path).absolute().as_uri() if path else ""
    return types.Location(uri, places.range(span))


def shown(analysis: Analysis, diagnostic: Diagnostic) -> types.Diagnostic:
    """A diagnostic as editors show it: with its help, and its labels as related places."""
    span = diagnostic.span or Span(0, 0)
    here = analysis.is_here(span)
    message = diagnostic.message if here else f"in a used file: {diagnostic.message}"
    severity = types.DiagnosticSeverity
    return types.Diagnostic(
        analysis.places.range(span if here else _use_of(analysis)),
        message + (f"\n{diagnostic.help}" if diagnostic.help else ""),
        severity=severity.Error if diagnostic.is_error else severity.Warning,
        code=diagnostic.code,
        source="fggc",
        related_information=[
            types.DiagnosticRelatedInformation(location(analysis, label.span), label.text)
            for label in diagnostic.labels
        ]
        or None,
        data=diagnostic.help,
    )


def _use_of(analysis: Analysis) -> Span:
    """The first `use` of a text."""
    for start, use in analysis.uses:
        return Span(start + use.span.start, start + use.span.end)
    return Span(0, 0)


def make_server() -> Server:
    """A server with all requests that it answers."""
    gc.set_threshold(200_000, 20, 20)  # an analysis is many objects, and nearly none of them cyclic
    server = Server()
    _synchronise(server)
    _navigate(server)
    _edit(server)
    return server


def _synchronise(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        ls.analyses.clear()  # others may use this file
        for uri in list(ls.checks):
            ls.changed(uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.analyses.pop(uri, None)
        ls.grammars.pop(uri, None)
        task = ls.checks.pop(uri, None)
        if task is not None:
            task.cancel()
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))


def _navigate(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        grammar = await ls.grammar(params.text_document.uri)
        analysis, occurrence = ls.occurrence(params.text_document, params.position)
        if occurrence is None:
            return None
        text = hover_text(analysis, occurrence, grammar)
        content = types.MarkupContent(types.MarkupKind.Markdown, text or "")
        return types.Hover(content, analysis.places.range(occurrence.span)) if text else None

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(ls: Server, params: types.DefinitionParams) -> types.Location | None:
        analysis, occurrence = ls.occurrence(params.text_document, params.position)
        target = analysis.index.definition(occurrence.symbol) if occurrence else None
        return location(analysis, target.span) if target else None

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(ls: Server, params: types.ReferenceParams) -> list[types.Location]:
        analysis, occurrence = ls.occurrence(params.text_document, params.position)
        places = analysis.index.of(occurrence.symbol) if occurrence else ()
        wanted = params.context.include_declaration
        return [location(analysis, o.span) for o in places if wanted or not o.defines]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlight(
        ls: Server, params: types.DocumentHighlightParams
    ) -> list[types.DocumentHighlight]:
        analysis, occurrence = ls.occurrence(params.text_document, params.position)
        places = analysis.index.of(occurrence.symbol) if occurrence else ()
        here = (o for o in places if analysis.is_here(o.span))
        return [types.DocumentHighlight(analysis.places.range(o.span)) for o in here]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(ls: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        analysis = ls.analysis(params.text_document.uri)
        return outline(analysis.places, headings(analysis.text))


def outline(places: Places, shown: Iterable[Heading]) -> list[types.DocumentSymbol]:
    """The declarations and rules of a text; what a query holds is below it."""
    return [
        types.DocumentSymbol(
            heading.name,
            KINDS[heading.kind],
            places.range(heading.span),
            places.range(heading.name_span),
            detail=heading.kind,
            children=outline(places, heading.inner),
        )
        for heading in shown
    ]


def _edit(server: Server) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=["(", "[", ".", '"', ","]),
    )
    def complete(ls: Server, params: types.CompletionParams) -> list[types.CompletionItem]:
        analysis = ls.analysis(params.text_document.uri)
        texts = completions(analysis, analysis.places.offset(params.position))
        return [
            types.CompletionItem(text, kind=ITEMS.get(kind), detail=kind) for text, kind in texts
        ]

    @server.feature(types.TEXT_DOCUMENT_RENAME)
    def rename(ls: Server, params: types.RenameParams) -> types.WorkspaceEdit | None:
        analysis, occurrence = ls.occurrence(params.text_document, params.position)
        if occurrence is None:
            return None
        try:
            changes = renaming(analysis, occurrence, params.new_name)
        except GrammarError as error:
            raise JsonRpcInvalidParams(error.diagnostics[0].message) from None
        edits = [types.TextEdit(analysis.places.range(span), new) for span, new in changes]
        return types.WorkspaceEdit({params.text_document.uri: edits})

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def can_rename(ls: Server, params: types.PrepareRenameParams) -> types.Range | None:
        analysis, occurrence = ls.occurrence(params.text_document, params.position)
        return analysis.places.range(occurrence.span) if occurrence else None

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def layout(ls: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        analysis = ls.analysis(params.text_document.uri)
        text = analysis.formatted()
        if text is None:
            return []  # its diagnostics say why
        changed = text != analysis.text
        return [types.TextEdit(analysis.places.whole(), text)] if changed else []

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    )
    def fixes(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        proposals = ((d, _PROPOSAL.search(str(d.data or ""))) for d in params.context.diagnostics)
        return [fix(uri, d, match) for d, match in proposals if match and d.source == "fggc"]


def fix(uri: str, diagnostic: types.Diagnostic, match: re.Match[str]) -> types.CodeAction:
    """The change that a diagnostic proposes."""
    text = next(group for group in match.groups() if group)
    return types.CodeAction(
        f"replace by `{text}`",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        edit=types.WorkspaceEdit({uri: [types.TextEdit(diagnostic.range, text)]}),
        is_preferred=True,
    )
