"""Making grammars out of grammars: other names, and unions.

The conjunction of two grammars is in `fgg.rewrite.conjoin`.
"""

from __future__ import annotations

from collections.abc import Iterable

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.grammar import Grammar
from fgg.grammar.safe_names import is_safe
from fgg.rewrite.rename import Names, Renaming, variables
from fgg.rewrite.union import Pool

__all__ = ["rename", "union"]


def rename(
    grammar: Grammar,
    *,
    domains: Names | None = None,
    factors: Names | None = None,
    nonterminals: Names | None = None,
    rules: Names | None = None,
    sizes: Names | None = None,
    prefix: str | None = None,
) -> Grammar:
    """The grammar with other names: in rules and queries, index expressions, paths, attributes.

    The mappings give new names for old ones; `factors` speaks of input factors as well. `prefix`
    is put before every domain, factor, nonterminal, rule and size that no mapping mentions; what
    is given at run time (inputs, tables, input factors) keeps its name.

    Guarantees the same meaning. Raises GrammarError (F304) where a name is not known, would stand
    for two things, or cannot be written. A grammar of which no name changes is returned as it is.
    """
    own: dict[str, Iterable[str]] = {
        "domain": grammar.domain,
        "factor": grammar.factor,
        "nonterminal": grammar.nonterminal,
        "rule": [rule.name for rule in grammar.rules],
        "size": grammar.size,
    }
    inputs = [item.name for item in grammar.input_factors]
    inputs += [item.name for query in grammar.queries for item in query.input_factors]
    problems: list[Diagnostic] = []
    maps: dict[str, dict[str, str]] = {}
    for (kind, known), given in zip(
        own.items(), (domains, factors, nonterminals, rules, sizes), strict=True
    ):
        maps[kind] = {name: f"{prefix}{name}" for name in known} if prefix else {}
        maps[kind].update(given or {})
        valid = [*known, *inputs] if kind == "factor" else [*known]
        for old, new in (given or {}).items():
            if old not in valid:
                _fail(problems, f"there is no {kind} `{old}`", did_you_mean(old, valid))
            if not is_safe(new):
                _fail(problems, f"`{old}` cannot be renamed to a text that is no name")
    labels = {**maps["factor"], **maps["nonterminal"]}
    _injective(problems, [*own["size"], *own["domain"]], {**maps["size"], **maps["domain"]})
    _injective(problems, [*own["factor"], *own["nonterminal"], *dict.fromkeys(inputs)], labels)
    _injective(problems, own["rule"], maps["rule"])
    changed = {new for old, new in maps["size"].items() if new != old}
    for name in sorted(changed & variables(grammar)):
        _fail(problems, f"`{name}` cannot name a size: it is an index or a length")
    if problems:
        raise GrammarError(problems)
    if all(old == new for found in maps.values() for old, new in found.items()):
        return grammar
    return Renaming(maps["size"], maps["domain"], labels, maps["rule"]).grammar(grammar)


def union(*grammars: Grammar, start: str | None = None, shared: Iterable[str] = ()) -> Grammar:
    """The grammar that derives what any of the grammars derives, so that their values add up.

    Declarations that are equal are merged; different ones of the same name are an error. A fresh
    start symbol has one rule for each start symbol, and these must have the same signature; none
    is made if all grammars start with the same shared nonterminal, or if `start` names a
    nonterminal of the result. Otherwise `start` is the fresh symbol's name.

    Nonterminals are kept apart by renaming, except those in `shared`, whose rules are pooled.
    Rules of the same name are renamed too. Queries of the same name become one, which asks all
    grammars that have it; they must have the same inputs.

    Raises GrammarError (F304) where the grammars do not fit together.
    """
    pool = Pool(grammars, tuple(shared))
    result = pool.union(start)
    if pool.problems:
        raise GrammarError(dict.fromkeys(pool.problems))
    return result


def _fail(problems: list[Diagnostic], message: str, help: str = "") -> None:
    problems.append(Diagnostic(code="F304", message=message, help=help))


def _injective(problems: list[Diagnostic], names: Iterable[str], new: Names) -> None:
    """Report names of one namespace that would become the same."""
    seen: dict[str, str] = {}
    for old in names:
        name = new.get(old, old)
        if name in seen:
            _fail(problems, f"`{seen[name]}` and `{old}` would both be called `{name}`")
        seen.setdefault(name, old)
