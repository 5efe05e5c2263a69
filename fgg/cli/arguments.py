"""Reading the command line: the parser, its errors, and the forms that options take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fgg.cli.help import EXAMPLES, SECTIONS, Formatter, section_of, with_headings
from fgg.diagnostics import did_you_mean
from fgg.inputs.given import Nest
from fgg.inputs.typed import typed_values


class Usage(Exception):
    """The command line is wrong."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


class Parser(argparse.ArgumentParser):
    """The options of a command: in sections, with suggestions for wrong ones.

    It raises `Usage` instead of ending the process.
    """

    def __init__(self, command: str, description: str | None) -> None:
        super().__init__(
            prog=f"fggc {command}",
            description=description,
            epilog=f"example:\n  {EXAMPLES[command]}",
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        self.sections = {title: self.add_argument_group(title) for title in SECTIONS}

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument to its section."""
        section = section_of(names)
        if section is None:
            return super().add_argument(*names, **settings)
        return self.sections[section].add_argument(*names, **settings)

    @property
    def options(self) -> dict[str, argparse.Action]:
        """What can be given, by the names of the options."""
        return dict(self._option_string_actions)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Read the command line. Raises Usage."""
        for word in words:
            if word == "--":
                break
            name = word.partition("=")[0]
            if word.startswith("--") and name not in self.options:
                known = [option for option in self.options if option.startswith("--")]
                help = did_you_mean(name, known) or f"see `{self.prog} --help`"
                raise Usage(f"`{self.prog}` has no option `{name}`", help)
        return self.parse_args(words)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = [str(choice) for choice in action.choices or ()]
        if choices and value not in choices:
            name = "/".join(action.option_strings) or action.dest
            near = did_you_mean(str(value), choices)
            help = near or "choices are " + ", ".join(f"`{choice}`" for choice in choices)
            raise Usage(f"`{name}` cannot be `{value}`", help)

    def format_help(self) -> str:
        """The help, with headings in bold on a terminal."""
        return with_headings(super().format_help())

    def error(self, message: str) -> NoReturn:
        """Raise `Usage`."""
        for type, kind in (("int", "a whole number"), ("float", "a number")):
            message = message.replace(f"invalid {type} value:", f"{kind} is expected, not")
        raise Usage(message, f"see `{self.prog} --help`")

    def flag(self, option: str, help: str) -> None:
        """Add an option that is given or not."""
        self.add_argument(option, action="store_true", help=help)

    def value(
        self,
        option: str,
        metavar: str,
        help: str,
        *,
        type: Callable[[str], object] = str,
        default: object = None,
    ) -> None:
        """Add an option that takes one value."""
        self.add_argument(option, metavar=metavar, type=type, default=default, help=help)

    def choice(
        self, option: str, choices: Sequence[str], help: str, *, default: str | None = None
    ) -> None:
        """Add an option that takes one of several words."""
        self.add_argument(option, choices=choices, default=default, help=help)

    def repeated(self, option: str, metavar: str, help: str) -> None:
        """Add an option that takes one value and may be repeated: a list of words."""
        self.add_argument(option, metavar=metavar, action="append", default=[], help=help)

    def values(self, option: str, metavar: str, help: str) -> None:
        """Add an option that takes several values: a list of words."""
        self.add_argument(option, metavar=metavar, nargs="+", default=[], help=help)

    def repeated_values(self, option: str, metavar: str, help: str) -> None:
        """Add an option that takes several values and may be repeated: a list of lists of words."""
        self.add_argument(
            option, metavar=metavar, action="append", nargs="+", default=[], help=help
        )

    def seed(self, help: str, default: int | None = 0) -> None:
        """Add `--seed`."""
        self.add_argument("--seed", type=seed_number, default=default, help=help)


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """The type of an option that is a whole number from `low` to `high`."""

    def read(text: str) -> int:
        number = int(text) if text.isdecimal() and len(text) < 20 else low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"a number from {low} to {high:,} is expected")
        return number

    return read


MAX_DERIVATIONS = 10_000
"""The most derivations a command prints for an item; the Python functions have no such limit."""

derivation_count = whole_number(1, MAX_DERIVATIONS)


def seed_number(text: str) -> int:
    """Read a seed of random numbers."""
    number = int(text) if text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number < 2**63:
        raise argparse.ArgumentTypeError("a whole number from 0 up, below 2^63, is expected")
    return number


def assignments(groups: Iterable[Sequence[str]], option: str) -> dict[str, int]:
    """Return the numbers that `NAME=N` options assign. Raises Usage."""
    numbers: dict[str, int] = {}
    for item in (item for group in groups for part in group for item in part.split(",")):
        name, equals, number = item.partition("=")
        if not equals or not name:
            raise Usage(f"`{option} {item}` is not of the form NAME=NUMBER")
        try:
            value = int(number) if len(number) < 100 else int("x")
        except ValueError:
            raise Usage(f"`{option} {item[:60]}`: a whole number is expected") from None
        if numbers.setdefault(name.strip(), value) != value:
            raise Usage(f"`{option}` gives `{name.strip()}` two values")
    return numbers


def read_inputs(groups: Iterable[Sequence[str]]) -> dict[str, Nest]:
    """Return the inputs that `NAME=VALUES` options give. Raises Usage or GrammarError.

    VALUES are words, numbers, a JSON list, or `@file`.
    """
    inputs: dict[str, Nest] = {}
    for item in (item for group in groups for item in group):
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise Usage(f"`--input {item}` is not of the form NAME=VALUES")
        if text.startswith("@"):
            from fgg.compiler.resolve.files import read_text

            text = read_text(Path(text[1:])).strip()
        if name in inputs:
            raise Usage(f"`--input` gives `{name}` twice")
        inputs[name] = _values(name, text)
    return inputs


def _values(name: str, text: str) -> Nest:
    """Return the values of a JSON list, ids joined by commas, or words between white space."""
    values = typed_values(text)
    if values is None:
        raise Usage(f"`--input {name}`: this is not a JSON list")
    return values
