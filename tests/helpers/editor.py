"""An editor that speaks to `fggc lsp` over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

Result = TypeVar("Result")
TIMEOUT = 120.0


class Editor:
    """A client with one open document."""

    def __init__(self, path: Path) -> None:
        self.client = LanguageClient("test", "1")
        self.path = path
        self.uri = path.as_uri()
        self.text = ""
        self.version = 0
        self.diagnostics: list[types.Diagnostic] = []
        self._published = asyncio.Event()
        self._seen: int | None = None

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.diagnostics = list(params.diagnostics)
            self._seen = params.version
            self._published.set()

    async def start(self, text: str) -> None:
        await self.client.start_io(sys.executable, "-m", "fgg", "lsp")
        await self.client.initialize_async(
            types.InitializeParams(types.ClientCapabilities(), root_uri=self.path.parent.as_uri())
        )
        self.client.initialized(types.InitializedParams())
        self.text = text
        item = types.TextDocumentItem(self.uri, "fgg", self.version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    async def stop(self) -> None:
        await asyncio.wait_for(self.client.shutdown_async(None), TIMEOUT)
        self.client.exit(None)
        await self.client.stop()  # type: ignore[no-untyped-call]

    def change(self, start: int, end: int, new: str) -> None:
        """Replace a part of the text."""
        span = types.Range(self.position(start), self.position(end))
        self.text = self.text[:start] + new + self.text[end:]
        self.version += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=self.uri, version=self.version),
                [types.TextDocumentContentChangePartial(text=new, range=span)],
            )
        )

    async def checked(self) -> list[types.Diagnostic]:
        """The diagnostics of the text as it is now."""
        while self._seen != self.version:
            self._published.clear()
            await asyncio.wait_for(self._published.wait(), TIMEOUT)
        return self.diagnostics

    def position(self, offset: int) -> types.Position:
        before = self.text[:offset].split("\n")
        return types.Position(len(before) - 1, len(before[-1].encode("utf-16-le")) // 2)

    def at(self, text: str, ahead: int = 0) -> dict[str, Any]:
        """The parameters of a request about the place of a text."""
        offset = self.text.index(text) + ahead
        return {
            "text_document": types.TextDocumentIdentifier(self.uri),
            "position": self.position(offset),
        }

    def span(self, found: types.Range) -> str:
        """The text at a range."""
        lines = self.text.split("\n")
        assert found.start.line == found.end.line
        line = lines[found.start.line].encode("utf-16-le")
        return line[2 * found.start.character : 2 * found.end.character].decode("utf-16-le")


def edited(path: Path, text: str, script: Callable[[Editor], Awaitable[Result]]) -> Result:
    """What a script of requests finds in a text."""

    async def session() -> Result:
        editor = Editor(path)
        await editor.start(text)
        result = await script(editor)
        await editor.stop()
        return result

    return asyncio.run(session())
