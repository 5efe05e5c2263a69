"""The demo: from a grammar to a proved, trained parser. `make demo` runs it.

    python -m examples.demo --out demo

Every step is a command that you can type yourself. The files it writes stay in the folder, and
`index.html` there shows them.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from examples.demo.page import page

HERE = Path(__file__).parent
FILES = ("english.fgg", "words.txt", "train.txt", "test.trees")
SENTENCE = "the old sailor saw a bird near the harbour"


@dataclass(frozen=True)
class Step:
    """A part of the story: what happens, the commands, what is shown of their output, a picture.

    A terminal shows the lines from the first that begins with `first`, at most `most` of them; the
    page shows all.
    """

    title: str
    text: str
    commands: tuple[str, ...]
    first: str = ""
    most: int = 12
    picture: str = ""
    show: str = ""


@dataclass(frozen=True)
class Done:
    """A step with the output of its commands."""

    step: Step
    outputs: tuple[str, ...]


BIG = "--set nt=1000 pt=1000 r=50 --length n=20"
STEPS = (
    Step(
        "Write a model, not an algorithm",
        "english.fgg describes sentences as trees of phrases. It says nothing about how to compute "
        "anything. `check` finds mistakes, and `draw` shows the rules as factor graphs.",
        ("fggc check english.fgg", "fggc draw english.fgg -o rules.svg"),
        picture="rules.svg",
        show="english.fgg",
    ),
    Step(
        "Compile it, and see what it costs",
        "The compiler derives the inside-outside algorithm. The rules have a low rank, so it can "
        "sum out all phrases beforehand and work with ranks alone (rank space). With 1,000 phrases "
        "and 1,000 kinds of words that is far cheaper than working with phrases (state space):",
        (
            f"fggc compile english.fgg --emit cost --space state {BIG}",
            f"fggc compile english.fgg --emit cost --space rank {BIG}",
            "fggc draw english.fgg --after rank_space -o rank_space.svg",
        ),
        first="multiply-adds",
        most=1,
        picture="rank_space.svg",
    ),
    Step(
        "Read the program",
        "What comes out is a PyTorch module that reads like the algorithm in a paper: batched, "
        "differentiable, for any device. (`--emit cpp` and `--emit triton` write C++ and GPU "
        "kernels.)",
        ("fggc compile english.fgg --space rank -o english.py",),
        show="english.py",
    ),
    Step(
        "Prove that the rewrite changed nothing",
        "Both programs are polynomials in the weights. If they agree at random points of a large "
        "finite field, they are equal, up to the chance that the table names.",
        ("fggc verify english.fgg --space rank --length 3",),
        first="english",
        most=14,
    ),
    Step(
        "Train it on 500 sentences",
        "Expectation maximisation on plain text: no trees, no word classes. It goes on until the "
        "curve is flat. What it finds is a local optimum: with another `--seed` it may be another "
        "grammar, with better or worse trees.",
        (
            "fggc train english.fgg --data train.txt --method em --option pseudo=0.02 "
            "--epochs 80 --seed 1 --space rank --out run",
        ),
        most=6,
        picture="run/curves.svg",
    ),
    Step(
        "Parse sentences it has not seen",
        "The trees that it found, compared with those of the grammar that the sentences were drawn "
        "from (F1 of spans; `right` is what always branching to the right would score):",
        ("fggc eval run --data test.trees --format trees --score spans --method mbr",),
        first="spans",
        most=8,
    ),
    Step(
        "Draw a tree",
        f"Any sentence will do: “{SENTENCE}”.",
        (f'fggc decode run --input w="{SENTENCE}" --method mbr -o tree.svg',),
        picture="tree.svg",
    ),
    Step(
        "Ask what data can tell",
        "Could endless plain text determine all weights of such a model, even a tiny one? An exact "
        "test of the rank of a Jacobian says no, and names directions that no sentence reveals.",
        ("fggc identify english.fgg --set nt=2 pt=2 r=1 --length 3",),
        first="english",
        most=8,
    ),
)


def main() -> int:
    """Run the story."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="the demo of fgg")
    parser.add_argument("--out", default="demo", help="the folder for all files")
    parser.add_argument("--epochs", type=int, default=80, help="sweeps of training")
    arguments = parser.parse_args()
    folder = Path(arguments.out)
    prepare(folder)
    started = monotonic()
    done = []
    for number, step in enumerate(STEPS, 1):
        print(f"\n{bold(f'{number}. {step.title}')}\n{wrapped(step.text)}")
        outputs = []
        for command in step.commands:
            shown = command.replace("--epochs 80", f"--epochs {arguments.epochs}")
            output, code = run(shown, folder)
            outputs.append(output)
            if code not in (0, 1) or (code == 1 and "identify" not in command):
                print(output)
                print(f"this command failed with exit code {code}", file=sys.stderr)
                return 1
            print("\n".join(f"    {line}" for line in excerpt(output, step)))
        done.append(Done(step, tuple(outputs)))
    (folder / "index.html").write_text(page(done, folder), encoding="utf-8")
    seconds = monotonic() - started
    print(f"\nThat took {seconds:.0f} s. Everything is in {folder}/; open {folder}/index.html.")
    return 0


def prepare(folder: Path) -> None:
    """Put the grammar and the data into an empty folder."""
    if folder.exists() and any(folder.iterdir()) and not (folder / FILES[0]).exists():
        sys.exit(f"{folder} holds other files; `--out` names another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copy(HERE / name, folder / name)


def run(command: str, folder: Path) -> tuple[str, int]:
    """Run a command of the story in the folder; its output and its exit code.

    What it says of its progress goes to the terminal.
    """
    print(f"\n  $ {command}", flush=True)
    words = [sys.executable, "-m", "fgg", *shlex.split(command)[1:]]
    finished = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    return finished.stdout.rstrip(), finished.returncode


def excerpt(output: str, step: Step) -> Iterator[str]:
    """The lines of an output that a terminal shows."""
    lines = output.splitlines()
    starts = (place for place, line in enumerate(lines) if line.startswith(step.first))
    first = next(starts, 0)
    if not step.first:
        first = max(len(lines) - step.most, 0)
    if first and step.most == 1:
        yield lines[0]
    yield from lines[first : first + step.most]


def bold(text: str) -> str:
    """Text that stands out on a terminal."""
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def wrapped(text: str) -> str:
    """Text in lines of at most 88 columns."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 86:
            lines.append("")
        lines[-1] += f"{word} "
    return "\n".join(f"  {line.rstrip()}" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
