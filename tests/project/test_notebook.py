"""The notebook that shows every display: its cells run, and each value is drawn."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.helpers.places import ROOT

NOTEBOOK = ROOT / "examples" / "displays.ipynb"
PLAIN = "print("


def cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def value_of(source: str, names: dict[str, Any]) -> object:
    """Run a cell and return the value of its last line, as a notebook does."""
    *statements, last = ast.parse(source).body
    exec(compile(ast.Module(statements, []), "cell", "exec"), names)
    assert isinstance(last, ast.Expr), source
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def displayed(value: object) -> str:
    """What a notebook shows of a value: HTML, else a picture, else its text."""
    for name in ("_repr_html_", "_repr_svg_"):
        show = getattr(value, name, None)
        if show is not None:
            text = show()
            assert isinstance(text, str)
            return text
    return repr(value)


def test_every_cell_runs_and_every_value_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    kinds: set[str] = set()
    for cell in cells():
        source = "".join(cell["source"])
        value = value_of(source, names)
        if value is None:
            assert capsys.readouterr().out.strip()
            continue
        shown = displayed(value)
        drawn = any(
            {"text/html", "image/svg+xml"} & set(o.get("data", ())) for o in cell["outputs"]
        )
        assert drawn is ("<svg" in shown), source
        if shown.startswith("<svg"):
            ElementTree.fromstring(shown)
        kinds.add(type(value).__name__)
    assert kinds >= {
        *("Grammar", "RulesPicture", "CompiledProgram", "Learned", "CompiledPosterior"),
        *("Derivations", "Derivation", "Verification", "Sketch"),
    }


def test_the_outputs_in_the_notebook_have_no_errors_and_no_machine_in_them() -> None:
    for cell in cells():
        assert cell["outputs"], cell["source"]
        text = json.dumps(cell["outputs"])
        assert '"output_type": "error"' not in text and "/tmp/" not in text
    assert NOTEBOOK.stat().st_size < 250_000


@pytest.mark.slow
def test_jupyter_runs_the_notebook(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    kernelspec = pytest.importorskip("jupyter_client.kernelspec")
    if "python3" not in kernelspec.KernelSpecManager().find_kernel_specs():
        pytest.skip("there is no kernel `python3`")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
