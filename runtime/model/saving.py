"""Models as files: safetensors that say what grammar, query and sizes the numbers belong to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fgg.check.values import load_array
from fgg.diagnostics import Diagnostic, GrammarError, refuse
from fgg.files import check_regular, unreadable
from fgg.grammar import Domain, Enumerated, Factor, FromFile, Grammar
from fgg.grammar.domains import size_values
from fgg.grammar.printer import print_grammar
from fgg.grammar.values import Load, Nested, Table

if TYPE_CHECKING:
    from fgg.runtime.model.model import Model

FORMAT = "fgg model"
VERSION = "1"
MAX_ENTRIES = 2**20
"""The largest array of a `.npy` file that is written into the text of a grammar."""


@dataclass(frozen=True)
class Saved:
    """What a file of a model holds."""

    path: str
    name: str
    text: str
    query: str | None
    space: str
    dtype: str
    nets: tuple[str, ...]
    vocabulary: Mapping[str, Sequence[str]]
    tensors: Mapping[str, Tensor]


def save(
    model: Model,
    path: str | os.PathLike[str],
    vocabulary: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write a model. Raises GrammarError if it cannot be written (F413) or described (F471)."""
    tensors = {n: t.detach().cpu().contiguous() for n, t in model.state_dict().items()}
    write(path, tensors, described(model, vocabulary))


def described(
    model: Model, vocabulary: Mapping[str, Sequence[str]] | None = None
) -> dict[str, str]:
    """What a file says of a model besides its numbers."""
    compiler = model.program.compiler
    whole = self_contained(compiler.model)
    dtype = next((t.dtype for t in model.state_dict().values()), None)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": compiler.model.name,
        "grammar": print_grammar(whole),
        "query": json.dumps(compiler.query),
        "space": compiler.space,
        "sizes": json.dumps(dict(size_values(whole))),
        "dtype": str(dtype).removeprefix("torch."),
        "nets": json.dumps(list(model.own_nets)),
        "vocabulary": json.dumps({k: list(v) for k, v in (vocabulary or {}).items()}),
    }


def write(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file whole or not at all: beside its place, and then moved there."""
    from safetensors.torch import save as encoded

    target = Path(path)
    data = ordered(encoded({n: t.clone() for n, t in tensors.items()}, dict(metadata)))
    try:
        with NamedTemporaryFile(dir=target.parent, prefix=target.name, delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, 0o666 & ~_umask())
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"`{target}` cannot be written: {reason}"
        refuse("F413", message)


def ordered(data: bytes) -> bytes:
    """A safetensors file with its header in order, so that equal models are equal files.

    The library writes metadata in an order that differs from run to run.
    """
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    text = json.dumps(header, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a safetensors file. Raises GrammarError (F401, F471)."""
    from safetensors import SafetensorError, safe_open

    name = os.fspath(path)
    try:
        check_regular(name)
        with safe_open(name, "pt") as file:
            return dict(file.metadata() or {}), {n: file.get_tensor(n) for n in file.keys()}
    except OSError as error:
        raise unreadable(name, error) from None
    except SafetensorError:
        message = f"`{name}` is not a safetensors file, or is cut short"
        refuse("F471", message)


def read(path: str | os.PathLike[str]) -> Saved:
    """The model that a file holds. Raises GrammarError if it holds none (F401, F471)."""
    found, tensors = read_tensors(path)
    name = os.fspath(path)
    if found.get("format") != FORMAT or "grammar" not in found:
        help = "`model.save` writes one; weights alone are for `--params`"
        message = f"`{name}` does not say which grammar its numbers belong to"
        refuse("F471", message, help)
    if found.get("version") != VERSION:
        message = f"`{name}` was written by another version of this package"
        refuse("F471", message)
    return Saved(
        path=name,
        name=found["name"],
        text=found["grammar"],
        query=json.loads(found["query"]),
        space=found["space"],
        dtype=found["dtype"],
        nets=tuple(json.loads(found["nets"])),
        vocabulary=json.loads(found["vocabulary"]),
        tensors=tensors,
    )


def take(model: Model, saved: Saved) -> None:
    """Give a model the numbers of a file. Raises GrammarError (F472) if they are not of its kind.

    The query may be another one: what it does not need is left out.
    """
    own = self_contained(model.program.compiler.model)
    if description(print_grammar(own)) != description(saved.text):
        raise _other(saved, _difference(own, saved))
    wanted = model.state_dict()
    missing = [name for name in wanted if name not in saved.tensors]
    if missing:
        raise _other(saved, f"it has no parameters `{missing[0]}`")
    for name, tensor in wanted.items():
        if tensor.shape != saved.tensors[name].shape:
            found = tuple(saved.tensors[name].shape)
            raise _other(saved, f"`{name}` has shape {found}, not {tuple(tensor.shape)}")
    model.load_state_dict({name: saved.tensors[name] for name in wanted})


def description(text: str) -> str:
    """The text of a grammar up to its queries: what parameters belong to."""
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if line.startswith("query ")), len(lines))
    return "\n".join(lines[:end]).strip()


def self_contained(grammar: Grammar) -> Grammar:
    """The grammar without files: with the values of its domains and arrays in the text."""
    domains = tuple(map(_domain, grammar.domains))
    factors = tuple(map(_factor, grammar.factors))
    if domains == grammar.domains and factors == grammar.factors:
        return grammar
    return replace(grammar, domains=domains, factors=factors)


def _domain(domain: Domain) -> Domain:
    if not isinstance(domain.shape, FromFile):
        return domain
    return replace(domain, shape=Enumerated(domain.shape.values))


def _factor(factor: Factor) -> Factor:
    if not isinstance(factor.value, Load):
        return factor
    array = load_array(factor.value)
    if array.size > MAX_ENTRIES:
        message = f"`{factor.name}` is an array of {array.size:,} entries, too large to be saved"
        help = "leave out its value, freeze it (`frozen = yes`), and give it as weights"
        refuse("F471", message, help)
    entries: Any = array.astype(float).tolist()
    return replace(factor, value=Table(_tuples(entries)))


def _tuples(entries: Any) -> Nested:
    return tuple(map(_tuples, entries)) if isinstance(entries, list) else float(entries)


def _difference(own: Grammar, saved: Saved) -> str:
    """Where a grammar differs from the one of a file: sizes if it is these, or the first line."""
    ours, theirs = description(print_grammar(own)), description(saved.text)
    mine, other = ours.splitlines(), theirs.splitlines()
    for line in mine:
        if line not in other:
            same = next((x for x in other if x.split("=")[0] == line.split("=")[0]), None)
            return f"here it is `{line}`" + (f", there `{same}`" if same else "")
    extra = next((line for line in other if line not in mine), "")
    return f"there is `{extra}` besides" if extra else "its lines are in another order"


def _other(saved: Saved, reason: str) -> GrammarError:
    message = f"`{saved.path}` is a model of another grammar, `{saved.name}`: {reason}"
    help = "`fgg.load_model` takes the grammar from the file"
    return GrammarError([Diagnostic(code="F472", message=message, help=help)])


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
