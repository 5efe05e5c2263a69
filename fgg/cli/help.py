"""Help: the sections that options stand in, an example of each command, and the overview."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping

from fgg.cli.terminal import BOLD, painted

SECTIONS = {
    "what to compute on": (
        *("--query", "--input", "--length", "--ground", "--set", "--potentials"),
        *("--params", "--seed"),
    ),
    "data": (
        *("--data", "--valid", "--format", "--field", "--lower", "--digits", "--skip-bad"),
        *("--characters", "--no-punctuation", "--min-length", "--max-length", "--min-count"),
        *("--max-words", "--max-part", "--unknown-shapes", "--no-unknown"),
    ),
    "how to compile": (
        *("--rank", "--merge", "--merge-rule", "--space", "--backend", "--after", "--device"),
        *("--dtype",),
    ),
    "output": (
        *("--output", "--as", "--form", "--json", "--plot", "--draw", "--emit", "--standalone"),
        *("--layout", "--each", "--paths", "--params-out", "--out"),
    ),
}
"""The sections of a command's help, by options; all other options stand in the first section."""

EXAMPLES = {
    "check": "fggc check hmm --set k=2",
    "show": "fggc show hmm --length n=3 --emit fgg",
    "draw": "fggc draw pcfg -o pcfg.svg",
    "compile": "fggc compile hmm -o hmm.py",
    "decompose": "fggc decompose hmm --rank trans=2 --params weights.safetensors -o small.fgg",
    "decode": "fggc decode hmm --set k=3 d=4 --input w=0,1,2 --seed 1 -o tags.svg",
    "sample": "fggc sample dyck --number 5 --seed 1",
    "train": "fggc train hmm --set k=3 --data train.txt --method em --out run",
    "eval": "fggc eval run --data test.txt",
    "unmix": "fggc unmix pcfg_ie --exact --seed 1 --set k=2 d=3",
    "verify": "fggc verify hmm --length 3 -o proof.svg",
    "identify": "fggc identify hmm --length 3",
    "check-certificate": "fggc check-certificate hmm.json",
    "run": "fggc run hmm --set k=3 d=4 --input w=0,1,2 --seed 1 --marginals",
    "cluster": "fggc cluster train.txt --clusters 4 -o blocks.txt",
    "bench": "fggc bench pcfg --against torch-struct",
    "explain": "fggc explain F103",
    "explore": "fggc explore pcfg",
    "format": "fggc format --check model.fgg",
    "lsp": "fggc lsp",
    "completion": "fggc completion bash > ~/.local/share/bash-completion/completions/fggc",
}
"""A command line for each command."""


def section_of(names: tuple[str, ...]) -> str | None:
    """The section of an option, or None for the first one."""
    for section, options in SECTIONS.items():
        if set(names) & set(options):
            return section
    return None


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that shows the defaults of options."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        if default in (None, False, argparse.SUPPRESS) or default == [] or "default" in text:
            return text
        shown = ", ".join(default) if isinstance(default, list) else str(default)
        return f"{text} (default: {shown})" if shown else text


def with_headings(text: str) -> str:
    """The text; on a terminal, lines that head a section are bold."""
    return re.sub(r"(?m)^\w.*:$", lambda line: painted(line[0], BOLD, sys.stdout), text)


def overview(groups: Mapping[str, Mapping[str, str]]) -> str:
    """What `fggc --help` prints: the commands, by what they are for."""
    width = max(len(name) for commands in groups.values() for name in commands)
    parts = [
        "usage: fggc COMMAND FILE [options]",
        "Check, show, draw, compile, run and train factor graph grammars.",
    ]
    for title, commands in groups.items():
        lines = [f"  {name:{width}}  {text}" for name, text in commands.items()]
        parts.append("\n".join([f"{title}:", *lines]))
    parts.append(
        "FILE is a grammar (.fgg), FGG JSON, `-` for standard input, or the bare name of a\n"
        "library grammar (`fggc show` lists them). `fggc COMMAND --help` lists its options.\n"
        "`fggc completion bash` makes the shell complete all of this."
    )
    return with_headings("\n\n".join(parts))
