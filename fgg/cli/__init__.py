"""The command line `fggc`: `main` runs a subcommand; each has its module in `fgg.cli.commands`.

Exit codes: 0 for success, 1 if the answer is no (the grammar has errors, a verification is
refuted), 2 if the command line or a file is wrong, 3 for a bug in fggc.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from types import ModuleType

GROUPS = {
    "look at grammars": {
        "check": "report the errors and warnings of a grammar",
        "show": "print a grammar as a summary, as text, as JSON or as equations",
        "draw": "draw the rules of a grammar",
        "explore": "open a page that shows how a grammar becomes a program",
        "explain": "explain an error code, or a grammar by its equations",
        "format": "lay grammar files out in the house style",
    },
    "compute with a model": {
        "run": "compute the value of a grammar, marginals, best derivations, samples",
        "decode": "find the best derivation of each item",
        "sample": "sample derivations, from the posterior of each item or from the model",
    },
    "learn from data": {
        "train": "fit a model to data; a run can be stopped and resumed",
        "eval": "score a model on data: likelihood, trees, heads, tags, segments, pairs",
        "cluster": "put the words of a text into blocks",
        "unmix": "estimate the parameters of a latent tree model from moments of sentences",
    },
    "compile and prove": {
        "compile": "compile a grammar to a Python module, or show its plan and its cost",
        "verify": "prove that compiled programs mean the same as their grammar",
        "identify": "find out whether moments of strings determine a model's parameters",
        "check-certificate": "check a certificate of a verdict of `identify`, on its own",
        "decompose": "approximate factors that have weights by factors of low rank",
        "bench": "measure compiled programs and compare them with other libraries",
    },
    "other": {
        "lsp": "serve an editor: diagnostics, hover, completion, renaming, …",
        "completion": "print a script that completes commands and options in a shell",
    },
}
"""The commands, by what they are for; each has its module in `fgg.cli.commands`."""
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}

OWN_PROGRESS = ("train", "bench")
"""Commands that show their own progress, a line for each epoch or measurement."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
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
        # The reader of standard output has gone.
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


def module_of(name: str) -> ModuleType:
    """The module of a command."""
    return import_module(f"fgg.cli.commands.{name.replace('-', '_')}")


def _run(words: Sequence[str]) -> int:
    if words and words[0] in ("-V", "--version"):
        from fgg import __version__

        print(f"fggc {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help", "help"):
        from fgg.cli.help import overview

        print(overview(GROUPS))
        return 0 if words else 2
    name, *rest = words
    as_json = "--json" in rest and name != "bench"  # for `bench` it names a file
    # Imported here so that `fggc --help` answers at once.
    from fgg.cli.arguments import Parser, Usage
    from fgg.cli.output import fail_internal, fail_memory, fail_usage, report_failure
    from fgg.diagnostics import GrammarError, did_you_mean, is_out_of_memory

    if name not in COMMANDS:
        return fail_usage(f"there is no command `{name}`", did_you_mean(name, COMMANDS), as_json)
    from fgg.cli.progress import shown_progress

    module = module_of(name)
    parser = Parser(name, module.__doc__)
    progress = nullcontext() if name in OWN_PROGRESS else shown_progress(sys.stderr, quiet=as_json)
    try:
        module.add_arguments(parser)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            arguments = parser.parse(rest)
            arguments.words = rest
            with progress:
                return int(module.run(arguments))
    except Usage as error:
        return fail_usage(str(error), error.help, as_json)
    except GrammarError as error:
        return report_failure(error, as_json)
    except OSError:
        raise
    except Exception as error:
        return fail_memory(as_json) if is_out_of_memory(error) else fail_internal(error, as_json)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Print a warning; those of fgg come without the line of source that raised them."""
    text = str(message)
    if not text.startswith("warning["):
        text = warnings.formatwarning(message, category, filename, lineno)
    print(text.rstrip("\n"), file=sys.stderr)
