"""The command line: `fggc`. One small module a subcommand; this one dispatches.

Exit codes. 0: done. 1: the answer is no (the grammar has errors, a verification is refuted). 2: the
command or a file is wrong. 3: a bug of ours.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "check": "report what is wrong with a grammar",
    "show": "print a grammar, its parts, or another form of it",
    "draw": "draw the rules of a grammar",
    "compile": "make a Python module of a grammar, or show its plan and its cost",
    "decompose": "find pieces of low rank for factors that have weights",
    "decode": "find the best derivation of each item",
    "sample": "draw derivations, from the posterior of each item or from the model",
    "train": "fit a model to data, in a run that can be stopped and taken up again",
    "eval": "score a trained model on data",
    "unmix": "find the parameters of a latent tree model from moments of sentences",
    "verify": "prove that what the compiler makes of a grammar means what the grammar means",
    "identify": "find out whether moments of strings determine a model's parameters",
    "run": "compute a grammar's value, marginals, best derivations, samples",
    "cluster": "put the words of a text into blocks",
    "bench": "measure compiled programs beside peers",
    "explain": "explain an error code, or a grammar in equations",
}

SHOW_THEIR_OWN = ("train", "bench")
"""Commands that print a line for each epoch or measurement."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of a command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:
        print("error[F413]: standard output is closed", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # terminals that know no Greek still get text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader went away; nothing more can be said on standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = (error.strerror or str(error)).lower()
        print(f"error[F413]: standard output cannot be written: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in ("-V", "--version"):
        from fgg import __version__

        print(f"fggc {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else 2
    name, *rest = arguments
    # For `bench` it names a file.
    as_json = "--json" in rest and name != "bench"
    # Imported here so that `fggc --help` answers at once.
    from fgg.cli.output import fail_internal, fail_usage, report_failure
    from fgg.diagnostics import GrammarError, did_you_mean

    if name not in COMMANDS:
        return fail_usage(f"there is no command `{name}`", did_you_mean(name, COMMANDS), as_json)
    from fgg.cli.progress import shown_progress

    module = import_module(f"fgg.cli.commands.{name}")
    parser = Parser(prog=f"fggc {name}", description=module.__doc__, allow_abbrev=False)
    module.add_arguments(parser)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _plainly
            chosen = parser.parse_args(rest)
            if name in SHOW_THEIR_OWN:
                code: int = module.run(chosen)
            else:
                with shown_progress(sys.stderr, quiet=as_json):
                    code = module.run(chosen)
        return code
    except Usage as error:
        return fail_usage(str(error), error.help, as_json)
    except GrammarError as error:
        return report_failure(error, as_json)
    except OSError:
        raise
    except (Exception, RecursionError) as error:
        return fail_internal(error, as_json)


def _plainly(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Print a warning; one of ours says all there is to say."""
    text = str(message)
    if not text.startswith("warning["):
        text = warnings.formatwarning(message, category, filename, lineno)
    print(text.rstrip("\n"), file=sys.stderr)


class Usage(Exception):
    """The command's words are wrong."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving the process."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise `Usage`."""
        raise Usage(message, f"see `{self.prog} --help`")


def _overview() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "usage: fggc COMMAND FILE [options]\n\n"
        "Check, show, draw, compile and run factor graph grammars.\n\n"
        f"{commands}\n\n"
        "FILE is a grammar (.fgg), FGG JSON, `-` for standard input, or the bare name of a\n"
        "library grammar (`fggc show` lists them). `fggc COMMAND --help` says more.\n"
    ).rstrip()
