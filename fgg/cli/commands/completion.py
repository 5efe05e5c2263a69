"""Print a script that completes commands, options and names of library grammars in a shell."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from fgg.cli.arguments import Parser, Usage

SHELLS = ("bash", "zsh", "fish")
NO_GRAMMAR = ("eval", "cluster", "bench", "completion", "format", "lsp")
"""Commands whose first argument is no grammar."""

INSTALL = {
    "bash": "fggc completion bash > ~/.local/share/bash-completion/completions/fggc",
    "zsh": 'fggc completion zsh > "${fpath[1]}/_fggc"',
    "fish": "fggc completion fish > ~/.config/fish/completions/fggc.fish",
}


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc completion`."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    scripts = {"bash": bash, "zsh": zsh, "fish": fish}
    commands = list(described_commands())
    print(f"# Completion of fggc. To install it: {INSTALL[arguments.shell]}")
    print("\n".join(scripts[arguments.shell](commands)))
    return 0


@dataclass(frozen=True)
class Option:
    """An option: its names, what it is for, whether it takes a value, and its choices."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command: its options, and words that its first argument may be."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


def described_commands() -> Iterator[Command]:
    """All commands, as their parsers describe them."""
    from fgg.cli import COMMANDS, module_of
    from fgg.library import library_names

    for name, help in COMMANDS.items():
        module = module_of(name)
        parser = Parser(name, module.__doc__)
        try:
            module.add_arguments(parser)
        except Usage:  # benchmarks are part of a checkout only
            pass
        words = () if name in NO_GRAMMAR else library_names()
        actions = dict.fromkeys(parser.options.values())
        options = tuple(_option(action) for action in actions)
        yield Command(name, help, options, SHELLS if name == "completion" else words)


def _option(action: argparse.Action) -> Option:
    help = " ".join((action.help or "").split()).partition(" (default")[0]
    choices = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), help, action.nargs != 0, choices)


def bash(commands: list[Command]) -> Iterator[str]:
    """The script for bash; files are completed where nothing else is known."""
    yield "_fggc() {"
    yield "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} known="
    names = " ".join(command.name for command in commands)
    yield "  if [ $COMP_CWORD -eq 1 ]; then"
    yield f'    COMPREPLY=($(compgen -W "{names} --help --version" -- "$word"))'
    yield "    return"
    yield "  fi"
    yield '  case "${COMP_WORDS[1]} $before" in'
    for command, option in _with_choices(commands):
        patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
        yield f'    {patterns}) known="{" ".join(option.choices)}" ;;'
    yield "  esac"
    yield '  if [ -z "$known" ]; then'
    yield '    case "${COMP_WORDS[1]} $word" in'
    for command in commands:
        listed = " ".join(name for option in command.options for name in option.names)
        yield f'      "{command.name} -"*) known="{listed}" ;;'
    yield "    esac"
    yield "  fi"
    yield '  if [ -z "$known" ] && [ $COMP_CWORD -eq 2 ]; then'
    yield '    case "${COMP_WORDS[1]}" in'
    for words, takers in _by_words(commands):
        yield f'      {"|".join(takers)}) known="{words}" ;;'
    yield "    esac"
    yield "  fi"
    yield '  COMPREPLY=($(compgen -W "$known" -- "$word"))'
    yield "}"
    yield "complete -o default -F _fggc fggc"


def _with_choices(commands: list[Command]) -> Iterator[tuple[Command, Option]]:
    for command in commands:
        for option in command.options:
            if option.choices:
                yield command, option


def _by_words(commands: list[Command]) -> Iterator[tuple[str, list[str]]]:
    """The words of first arguments, with the commands that take them."""
    takers: dict[str, list[str]] = {}
    for command in commands:
        if command.words:
            takers.setdefault(" ".join(command.words), []).append(command.name)
    yield from takers.items()


def zsh(commands: list[Command]) -> Iterator[str]:
    """The script for zsh."""
    yield "#compdef fggc"
    yield "_fggc() {"
    yield "  local -a known"
    yield "  if (( CURRENT == 2 )); then"
    listed = " ".join(_described(command.name, command.help) for command in commands)
    yield f"    known=({listed})"
    yield "    _describe command known"
    yield "    return"
    yield "  fi"
    yield '  case "$words[2] $words[CURRENT-1]" in'
    for command, option in _with_choices(commands):
        patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
        yield f"    {patterns}) compadd -- {' '.join(option.choices)}; return ;;"
    yield "  esac"
    yield '  if [[ "$words[CURRENT]" == -* ]]; then'
    yield '    case "$words[2]" in'
    for command in commands:
        pairs = ((name, option.help) for option in command.options for name in option.names)
        listed = " ".join(_described(*pair) for pair in pairs)
        yield f"      {command.name}) known=({listed}) ;;"
    yield "    esac"
    yield "    _describe -o option known"
    yield "    return"
    yield "  fi"
    yield "  if (( CURRENT == 3 )); then"
    yield '    case "$words[2]" in'
    for words, names in _by_words(commands):
        yield f"      {'|'.join(names)}) compadd -- {words} ;;"
    yield "    esac"
    yield "  fi"
    yield "  _files"
    yield "}"
    yield "compdef _fggc fggc"


def _described(name: str, help: str) -> str:
    """A word with its description, as `_describe` takes them."""
    return shlex.quote(f"{name.replace(':', chr(92) + ':')}:{help}")


def fish(commands: list[Command]) -> Iterator[str]:
    """The script for fish."""
    for command in commands:
        quoted = _quoted(command.help)
        yield f"complete -c fggc -f -n __fish_use_subcommand -a {command.name} -d {quoted}"
    for command in commands:
        seen = f"complete -c fggc -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            parts = [f"-{'l' if n.startswith('--') else 's'} {n.lstrip('-')}" for n in option.names]
            if option.choices:
                parts.append(f"-xa '{' '.join(option.choices)}'")
            elif option.takes_value:
                parts.append("-r")
            yield f"{seen} {' '.join(parts)} -d {_quoted(option.help)}"
        if command.words:
            yield f"{seen} -a '{' '.join(command.words)}'"


def _quoted(text: str) -> str:
    """A text as fish quotes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
