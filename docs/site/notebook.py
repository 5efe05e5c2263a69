"""Pages that run: their blocks are the cells of a notebook, and their outputs stand below them.

A block of Python is a cell; all cells of a page share their variables. A block of `sh` holds
commands (`fggc …`), and the SVG files that they write are shown. A grammar that begins with
`# name.fgg:` and a block `file NAME` become files. The output of `python picture` stands above its
code, which is folded.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import TIMEOUT_MAX
from unittest.mock import patch

from docs.site import places
from docs.site.markdown import Fence, fenced, parts


@dataclass(frozen=True)
class Output:
    """What a cell shows: `text`, `html` or `svg`."""

    kind: str
    content: str


FOLDED = "The code of this picture"
LONG_LINE = 110
"""Outputs with longer lines are wrapped where the screen is wide; others scroll."""
WIDE_PICTURE = 560
"""Pictures of more pixels scroll on narrow screens; their text would be too small."""

Outputs = list[list[Output]]
"""The outputs of each cell of a page."""


class CellFailed(Exception):
    """A cell of a page raised an error."""


def cells(text: str) -> list[Fence]:
    """The blocks of a page that run or are written to files."""
    return [part for part in parts(text) if isinstance(part, Fence) and runs(part)]


def runs(fence: Fence) -> bool:
    """Whether a block runs or is written to a file."""
    return fence.kind in ("python", "sh", "file") or bool(grammar_file(fence))


def grammar_file(fence: Fence) -> str:
    """The name of the file that a grammar is written to; empty if there is none."""
    match = re.match(r"# (\S+\.fgg):", fence.text)
    return match[1] if fence.kind == "fgg" and match else ""


def run(text: str, name: str) -> Outputs:
    """Run the cells of a page in this folder. Raises CellFailed."""
    variables: dict[str, object] = {"__name__": "__main__"}
    outputs = []
    for number, cell in enumerate(cells(text), 1):
        told = io.StringIO()
        try:
            with redirect_stdout(told), redirect_stderr(told):
                shown = list(run_cell(cell, variables, f"{name}, cell {number}"))
        except BaseException as error:
            trace = traceback.format_exc(limit=-3)
            raise CellFailed(f"{name}, cell {number}:\n{cell.text}\n{trace}") from error
        printed = [Output("text", told.getvalue())] if told.getvalue().strip() else []
        outputs.append(printed + shown)
    return outputs


def run_cell(cell: Fence, variables: dict[str, object], name: str) -> Iterator[Output]:
    """Run a cell and yield the value of its last line, if it has one."""
    if cell.kind == "fgg":
        Path(grammar_file(cell)).write_text(cell.text, "utf-8")
    elif cell.kind == "file":
        Path(cell.note).write_text(cell.text, "utf-8")
    elif cell.kind == "sh":
        for line in cell.text.splitlines():
            run_command(line, several=len(cell.text.splitlines()) > 1)
        for path in pictures(cell):
            yield Output("svg", Path(path).read_text("utf-8"))
    else:
        value = run_python(cell.text, variables, name)
        if value is not None:
            yield displayed(value)


def pictures(cell: Fence) -> list[str]:
    """The SVG files that the commands of a cell write by `-o`."""
    return re.findall(r"(?<= -o )\S+\.svg\b", cell.text)


def run_command(line: str, several: bool) -> None:
    """Run a command line of `fggc`; among several, each stands above its output."""
    from fgg.cli import main, progress

    program, *arguments = shlex.split(line, comments=True)
    if program != "fggc":
        raise ValueError(f"a page can run `fggc` alone, not `{program}`")
    if several:
        print(f"$ {line}")
    with patch.object(progress, "PATIENCE", TIMEOUT_MAX):  # a page is the same on a slow machine
        status = main(arguments)
    if status not in (0, 1):
        raise ValueError(f"`{line}` ended with exit code {status}")


def run_python(code: str, variables: dict[str, object], name: str) -> object:
    """Run Python and return the value of its last line, as a notebook does."""
    tree = ast.parse(code)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, name, "exec"), variables)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), name, "exec"), variables)
    return eval(compile(ast.Expression(last.value), name, "eval"), variables)


def displayed(value: object) -> Output:
    """What a notebook shows of a value: a picture, HTML, or its text."""
    for kind, method in (("svg", "_repr_svg_"), ("html", "_repr_html_")):
        show = getattr(value, method, None)
        if show is not None:
            return Output(kind, show())
    return Output("text", repr(value))


def outputs_of(text: str, name: str) -> Outputs:
    """The outputs of a page, computed in a process of its own, or those that are kept.

    They are kept for this text and these sources of the project.
    """
    key = hashlib.sha256(f"{text}\0{places.digest()}".encode()).hexdigest()[:20]
    kept = places.BUILD / "cache" / f"{Path(name).stem}-{key}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob(f"{Path(name).stem}-*.json"):
            old.unlink()
        command = [sys.executable, "-m", "docs.site.notebook", name, str(kept)]
        environment = {**os.environ, "PYTHONPATH": str(places.ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, input=text, text=True, cwd=places.ROOT, env=environment, check=False
        )
        if done.returncode:
            raise CellFailed(f"{name} does not run")
    return [[Output(**each) for each in cell] for cell in json.loads(kept.read_text("utf-8"))]


def markdown(text: str, outputs: Sequence[Sequence[Output]]) -> str:
    """A page with the outputs of its cells below them."""
    pieces = []
    rest = iter(outputs)
    for part in parts(text):
        if isinstance(part, str):
            pieces.append(part)
            continue
        shown = next(rest) if runs(part) else ()
        if part.kind == "python" and part.note == "picture":
            pieces += [with_output(output) for output in shown]
            pieces.append(folded(part))
        else:
            pieces.append(part.markdown())
            pieces += [with_output(output) for output in shown]
    return "".join(pieces)


def folded(cell: Fence) -> str:
    """Code that a reader can unfold."""
    code = fenced(cell.text, "python")
    start = fenced(f'<details class="code"><summary>{FOLDED}</summary>', "{raw} html")
    end = fenced("</details>", "{raw} html")
    return f"\n\n{start}\n\n{code}\n\n{end}\n\n"


def with_output(output: Output) -> str:
    """An output as Markdown."""
    if output.kind == "text":
        longest = max(map(len, output.content.splitlines()))
        kind = "output long" if longest > LONG_LINE else "output"
        return "\n\n" + fenced(output.content, "{code-block} text", f":class: {kind}\n") + "\n"
    content = output.content
    if output.kind == "svg":
        width = re.search(r'<svg[^>]* width="([\d.]+)', content)
        wide = " wide" if width and float(width[1]) > WIDE_PICTURE else ""
        content = f'<div class="picture{wide}">{content}</div>'
    return "\n\n" + fenced(f'<div class="output">{content}</div>', "{raw} html") + "\n"


def as_ipynb(text: str, outputs: Sequence[Sequence[Output]]) -> str:
    """A page as a Jupyter notebook."""
    notebook_cells: list[dict[str, object]] = []
    rest = iter(outputs)
    for part in parts(text):
        if isinstance(part, str):
            source = part.strip()
            if source:
                notebook_cells.append({"cell_type": "markdown", "metadata": {}, "source": source})
        elif runs(part):
            notebook_cells.append(code_cell(part, next(rest)))
        else:
            source = fenced(part.text, part.info)
            notebook_cells.append({"cell_type": "markdown", "metadata": {}, "source": source})
    for number, cell in enumerate(notebook_cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": notebook_cells}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def code_cell(cell: Fence, outputs: Sequence[Output]) -> dict[str, object]:
    """A cell as Jupyter runs it."""
    kinds = {"svg": "image/svg+xml", "html": "text/html"}
    results: list[dict[str, object]] = []
    for output in outputs:
        if output.kind == "text":
            results.append({"output_type": "stream", "name": "stdout", "text": output.content})
        else:
            data = {kinds[output.kind]: output.content}
            results.append({"output_type": "display_data", "metadata": {}, "data": data})
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "source": jupyter_source(cell).rstrip("\n"),
        "outputs": results,
    }


def jupyter_source(cell: Fence) -> str:
    """The source of a cell in Jupyter: files and commands in its own way."""
    if cell.kind == "sh":
        commands = "".join(f"!{line}\n" for line in cell.text.splitlines())
        shown = "".join(f'display(SVG("{path}"))\n' for path in pictures(cell))
        return f"from IPython.display import SVG\n{commands}{shown}" if shown else commands
    if cell.kind == "python":
        return cell.text
    return f"%%writefile {grammar_file(cell) or cell.note}\n{cell.text}"


def from_ipynb(text: str) -> tuple[str, Outputs]:
    """A Jupyter notebook as a page with its outputs as they are stored."""
    pieces, outputs = [], []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            pieces.append(source)
            continue
        pieces.append(fenced(source, "python"))
        outputs.append(list(stored_outputs(cell["outputs"])))
    return "\n\n".join(pieces) + "\n", outputs


def stored_outputs(stored: Sequence[dict[str, object]]) -> Iterator[Output]:
    """The outputs of a cell as a notebook stores them."""
    for each in stored:
        data = each.get("data")
        if isinstance(data, dict):
            kinds = (("html", "text/html"), ("svg", "image/svg+xml"), ("text", "text/plain"))
            kind, name = next(pair for pair in kinds if pair[1] in data)
            yield Output(kind, "".join(data[name]))
        else:
            content = each.get("text")
            yield Output("text", "".join(content) if isinstance(content, list) else str(content))


def main() -> int:
    """Run the page on standard input in an empty folder; write its outputs to a file."""
    name, path = sys.argv[1:]
    text = sys.stdin.read()
    try:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            outputs = run(text, name)
    except CellFailed as error:
        print(error, file=sys.stderr)
        return 1
    stored = [[asdict(output) for output in cell] for cell in outputs]
    Path(path).write_text(json.dumps(stored), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
