"""Texts of all kinds thrown at the front end: `python -m tests.generators.fuzz --count 100000`.

Whatever the text, loading ends soon and gives a grammar or an error; every message can be shown;
a grammar that comes out prints and loads again to an equal one.
"""

from __future__ import annotations

import argparse
import random
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed

from fgg.compiler import load_text
from fgg.diagnostics import Diagnostic, as_json, render
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.spans import Source, Span
from tests.generators.grammars import any_grammars
from tests.generators.mutations import mutate, noise, splice
from tests.helpers.limits import TooSlow, time_limit
from tests.helpers.places import LIBRARY

MAX_SECONDS = 20


@dataclass(frozen=True)
class Finding:
    """A text that breaks a promise, and how."""

    text: str
    reason: str


def check(text: str) -> str | None:
    """How loading a text breaks a promise, or None."""
    try:
        with time_limit(MAX_SECONDS):
            grammar, diagnostics, source = load_text(text, "fuzz.fgg", folder=str(LIBRARY))
        return _check_result(grammar, diagnostics, source)
    except TooSlow:
        return f"took more than {MAX_SECONDS} s"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return f"{type(error).__name__} at {where}: {str(error)[:200]}"


def _check_result(
    grammar: Grammar | None, diagnostics: tuple[Diagnostic, ...], source: Source
) -> str | None:
    errors = [d for d in diagnostics if d.is_error]
    if (grammar is None) != bool(errors):
        return f"a grammar ({grammar is not None}) together with {len(errors)} errors"
    for diagnostic in diagnostics:
        spans = [diagnostic.span, *(label.span for label in diagnostic.labels)]
        for span in spans:
            if span is not None and not _inside(span, source.text):
                return f"{diagnostic.code}: {span} lies outside of the text"
        shown = render(diagnostic, source) + str(as_json(diagnostic, source))
        shown.encode()
    if grammar is None:
        return None
    printed = print_grammar(grammar)
    again, problems, _ = load_text(printed, "fuzz.fgg", folder=str(LIBRARY))
    if again is None:
        return f"printed, it does not load: {problems[0].code} {problems[0].message}"
    return None if again == grammar else "printed and loaded, it is another grammar"


def _inside(span: Span, text: str) -> bool:
    return 0 <= span.start <= span.end <= len(text)


def printed_grammars(seed: int, count: int) -> list[str]:
    """The texts of random grammars."""
    found: list[str] = []

    @with_seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(any_grammars())
    def collect(grammar: Grammar) -> None:
        found.append(print_grammar(grammar))

    collect()
    return found


def texts(seed: int, count: int) -> Iterator[str]:
    """Texts to try: noise, mutated library grammars, mutated random grammars, two at once."""
    rng = random.Random(seed)
    library = [path.read_text("utf-8") for path in sorted(LIBRARY.glob("*.fgg"))]
    generated = printed_grammars(seed, min(count // 20 + 1, 1000))
    for _ in range(count):
        kind = rng.random()
        if kind < 0.15:
            yield noise(rng)
        elif kind < 0.5:
            yield mutate(rng, rng.choice(library))
        elif kind < 0.9:
            yield mutate(rng, rng.choice(generated))
        else:
            yield mutate(rng, splice(rng, rng.choice(library), rng.choice(generated)))


def fuzz(seed: int, count: int) -> list[Finding]:
    """What breaks a promise among `count` texts, one finding for each different reason."""
    found: dict[str, Finding] = {}
    for text in texts(seed, count):
        reason = check(text)
        if reason is not None:
            key = reason.split(":")[0] if "took" not in reason else "slow"
            if key not in found or len(text) < len(found[key].text):
                found[key] = Finding(text, reason)
    return list(found.values())


def shrink(finding: Finding) -> Finding:
    """The finding with lines and characters left out while it still breaks a promise."""
    key = finding.reason.split(":")[0]
    text = finding.text
    for separator in ("\n", " ", ""):
        parts = text.split(separator) if separator else list(text)
        size = max(1, len(parts) // 2)
        while size >= 1 and len(parts) <= 2000:
            start = 0
            while start < len(parts):
                shorter = parts[:start] + parts[start + size :]
                reason = check(separator.join(shorter))
                if reason is not None and reason.split(":")[0] == key:
                    parts = shorter
                else:
                    start += size
            size //= 2
        text = separator.join(parts)
    return Finding(text, check(text) or finding.reason)


def main() -> int:
    """Fuzz for a while; 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    findings = fuzz(arguments.seed, arguments.count)
    for finding in findings:
        smaller = shrink(finding)
        print(f"--- {smaller.reason}\n{smaller.text!r}\n")
    print(f"{arguments.count} texts, {len(findings)} different findings")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
