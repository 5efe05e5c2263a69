"""Models as safetensors files, with the grammar, query and sizes in their metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import file_digest, sha256
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from torch import Tensor

from fgg.check.values import load_array
from fgg.data.preprocessing import Preprocessing
from fgg.diagnostics import Diagnostic, GrammarError, refuse
from fgg.files import check_regular, unreadable, write_whole
from fgg.grammar import Domain, Enumerated, Factor, FromFile, Grammar, Sized
from fgg.grammar.domains import size_values, with_values
from fgg.grammar.printer import print_grammar
from fgg.grammar.values import Load, Nested, Table

if TYPE_CHECKING:
    from fgg.runtime.model.model import Model

FORMAT = "fgg model"
VERSION = "2"
CHECKSUM = "checksum"
MAX_ENTRIES = 2**20
"""The most entries of a `.npy` file that are written into the text of a grammar."""


@dataclass(frozen=True)
class SavedModel:
    """The contents of a model's file."""

    path: str
    name: str
    text: str
    query: str | None
    space: str
    dtype: str
    nets: tuple[str, ...]
    preprocessing: Preprocessing
    tensors: Mapping[str, Tensor]


def save(
    model: Model,
    path: str | os.PathLike[str],
    vocabulary: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write a model to a file; `vocabulary` names the values of domains that have no names.

    Raises GrammarError if it cannot be written (F413) or is too large to describe (F471).
    """
    tensors = {n: t.detach().cpu().contiguous() for n, t in model.state_dict().items()}
    write(path, tensors, described(model, vocabulary))


def described(
    model: Model, vocabulary: Mapping[str, Sequence[str]] | None = None
) -> dict[str, str]:
    """The metadata of a model's file."""
    compiler = model.program.compiler
    whole = self_contained(with_values(compiler.model, vocabulary or {}))
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
        "preprocessing": json.dumps(asdict(model.preprocessing), sort_keys=True),
    }


def write(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file atomically. Raises GrammarError (F413)."""
    from safetensors.torch import save as encoded

    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    write_whole(Path(path), ordered(encoded(tensors, dict(metadata))))


def ordered(data: bytes) -> bytes:
    """A safetensors file with its header sorted, so that equal models give equal files.

    The library writes metadata in an order that differs from run to run. The metadata get the
    checksum of everything else.
    """
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header.setdefault("__metadata__", {})
    metadata[CHECKSUM] = checksum(header, BytesIO(data[8 + size :]))
    text = json.dumps(header, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def checksum(header: Mapping[str, Any], tensors: IO[bytes]) -> str:
    """The SHA-256 of a header, without the checksum in it, and of the bytes of the tensors."""
    metadata = {n: x for n, x in header.get("__metadata__", {}).items() if n != CHECKSUM}
    text = json.dumps({**header, "__metadata__": metadata}, sort_keys=True)
    start = sha256(text.encode())
    return file_digest(tensors, lambda: start).hexdigest()  # type: ignore[arg-type]


def check_undamaged(path: str) -> None:
    """Raise GrammarError (F471) for a safetensors file that does not fit its checksum.

    A file of another program has none, and is accepted.
    """
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        kept = header.get("__metadata__", {}).get(CHECKSUM)
        if kept is not None and kept != checksum(header, file):
            refuse("F471", f"`{path}` is damaged: its checksum does not fit")


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a safetensors file. Raises GrammarError (F401, F471)."""
    from safetensors import SafetensorError, safe_open

    name = os.fspath(path)
    try:
        check_regular(name)
        with safe_open(name, "pt") as file:
            check_undamaged(name)
            return dict(file.metadata() or {}), {n: file.get_tensor(n) for n in file.keys()}
    except OSError as error:
        raise unreadable(name, error) from None
    except SafetensorError:
        text = "a trained model is expected here, not the text of a grammar"
        help = text if name.endswith(".fgg") else ""
        refuse("F471", f"`{name}` is not a safetensors file, or is cut short", help)


def describes_model(path: str | os.PathLike[str]) -> bool:
    """Return whether a safetensors file says which grammar its numbers belong to."""
    return read_tensors(path)[0].get("format") == FORMAT


def read(path: str | os.PathLike[str]) -> SavedModel:
    """The model in a file. Raises GrammarError if there is none (F401, F471)."""
    metadata, tensors = read_tensors(path)
    name = os.fspath(path)
    if metadata.get("format") != FORMAT or "grammar" not in metadata:
        help = "`model.save` writes one; weights alone are for `--params`"
        message = f"`{name}` does not say which grammar its numbers belong to"
        refuse("F471", message, help)
    if metadata.get("version") != VERSION or CHECKSUM not in metadata:
        refuse("F471", f"`{name}` was written by another version of this package")
    return SavedModel(
        path=name,
        name=metadata["name"],
        text=metadata["grammar"],
        query=json.loads(metadata["query"]),
        space=metadata["space"],
        dtype=metadata["dtype"],
        nets=tuple(json.loads(metadata["nets"])),
        preprocessing=Preprocessing(**json.loads(metadata["preprocessing"])),
        tensors=tensors,
    )


def take(model: Model, saved: SavedModel) -> None:
    """Load the parameters of a file into a model. Raises GrammarError (F472) if they do not fit.

    The model's query may differ from the file's: parameters that it does not need are ignored.
    """
    grammar = self_contained(model.program.compiler.model)
    mine, other = description(print_grammar(grammar)), description(saved.text)
    if _without_names(grammar, mine) != _without_names(grammar, other):
        raise _other(saved, _difference(grammar, saved))
    wanted = model.state_dict()
    missing = [name for name in wanted if name not in saved.tensors]
    if missing:
        raise _other(saved, f"it has no parameters `{missing[0]}`")
    for name, tensor in wanted.items():
        if tensor.shape != saved.tensors[name].shape:
            shape = tuple(saved.tensors[name].shape)
            raise _other(saved, f"`{name}` has shape {shape}, not {tuple(tensor.shape)}")
    model.load_state_dict({name: saved.tensors[name] for name in wanted})


def description(text: str) -> str:
    """The text of a grammar up to its queries: all that its parameters depend on."""
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if line.startswith("query ")), len(lines))
    return "\n".join(lines[:end]).strip()


def _without_names(grammar: Grammar, text: str) -> str:
    """A description without the values of those domains that have no names in a grammar.

    Their sizes are those of tensors, which are compared anyway.
    """
    heads = {f"domain {d.name} =" for d in grammar.domains if isinstance(d.shape, Sized)}
    kept: list[str] = []
    within = False  # a list of values over several lines, which ends with a brace of its own
    for line in text.splitlines():
        if within:
            within = line != "}"
        elif line.partition("=")[0] + "=" in heads:
            within = line.endswith("{")
        else:
            kept.append(line)
    return "\n".join(kept)


def self_contained(grammar: Grammar) -> Grammar:
    """The grammar without references to files: their values and arrays are part of it."""
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
    return replace(factor, value=Table(_tuples(array.astype(float).tolist())))


def _tuples(entries: list[object] | object) -> Nested:
    if isinstance(entries, list):
        return tuple(map(_tuples, entries))
    assert isinstance(entries, float)
    return entries


def _difference(grammar: Grammar, saved: SavedModel) -> str:
    """The first line in which a grammar differs from that of a file."""
    ours, theirs = description(print_grammar(grammar)), description(saved.text)
    mine, other = ours.splitlines(), theirs.splitlines()
    for line in mine:
        if line not in other:
            same = next((x for x in other if x.split("=")[0] == line.split("=")[0]), None)
            return f"here it is `{line}`" + (f", there `{same}`" if same else "")
    extra = next((line for line in other if line not in mine), "")
    return f"the file also has `{extra}`" if extra else "its lines are in another order"


def _other(saved: SavedModel, reason: str) -> GrammarError:
    message = f"`{saved.path}` is a model of another grammar, `{saved.name}`: {reason}"
    help = "`fgg.load_model` takes the grammar from the file"
    return GrammarError([Diagnostic(code="F472", message=message, help=help)])
