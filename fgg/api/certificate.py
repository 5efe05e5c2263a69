"""Certificates of identifications: what is needed to check a verdict without the engine.

The grammar is written out for the length of the strings, as lists of nodes and edges. From the text
of the grammar, `check_certificate` makes this part again; `fgg.check.certificate` does the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.api.load import loads
from fgg.check.certificate import FORMAT, Wrong, check
from fgg.diagnostics import GrammarError, refuse
from fgg.files import confined_to, read_limited, unreadable
from fgg.grammar import Attachment, Grammar, Rule
from fgg.grammar.domains import domain_size
from fgg.grammar.printer import print_grammar
from fgg.inputs.clamps import path_end, path_value
from fgg.rewrite.ground import Reading, ground_with_readings

if TYPE_CHECKING:
    from fgg.runtime.identify.parameters import Parameters
    from fgg.runtime.identify.prepared_case import Case, Question
    from fgg.runtime.identify.result import Identification

MAX_PRODUCTS = 200_000
"""The most products that a checker in plain Python should have to write out."""
MAX_WORK = 300_000_000
"""The most products that it should have to differentiate."""

Json = dict[str, Any]
_FRACTION = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400})?")
MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What checking a file that has not the form of a certificate may raise."""


def certificate_of(result: Identification) -> Json:
    """The certificate of a verdict: one proof of a `yes`, two ranks for a `no`.

    Raises GrammarError (F458) if there is no verdict, or if it would be too large to be checked.
    """
    from fgg.runtime.identify.minors import minor_of

    question = result.question
    if question is None or result.rank is None:
        refuse("F458", "moments that are not defined have no certificate")
    if question.parameters.given is not None:
        refuse("F458", "a verdict about given weights has no certificate", "leave the weights out")
    data = statement_of(question)
    _check_work(data, result)
    data |= {"grammar": result.grammar, "query": result.query, "sizes": dict(result.sizes)}
    data |= {"observed": result.observed, "moments": result.moments, "error": result.error}
    data |= {"verdict": result.verdict, "parameters": result.parameters, "rank": result.rank}
    count = 1 if result.verdict == "yes" else 2
    minors = [minor_of(question, result.rank, number) for number in range(count)]
    groups = [len(parts) for parts in question.parts]
    proofs = []
    for minor in minors:
        functionals = [
            {
                "case": item.case,
                "weights": [int(i == item.group) for i in range(groups[item.case])],
                "words": item.words,
                "along": item.along,
            }
            for item in minor.functionals
        ]
        proof = {"prime": minor.prime, "point": minor.point, "pivots": minor.pivots}
        proofs.append({**proof, "functionals": functionals})
    return data | {"proofs": proofs}


def _check_work(data: Json, result: Identification) -> None:
    """Raise GrammarError (F458) if plain Python would need hours to check a certificate."""
    passes = sum(
        sum(prod(rule["nodes"]) for rule in case["rules"]) * len(case["sets"])
        for case in data["cases"]
    )
    work = passes * (result.rank or 0)
    if work > MAX_WORK:
        message = f"to check the certificate, {work:,} products would have to be differentiated"
        refuse("F458", message, f"{MAX_WORK:,} is the greatest number: choose smaller sizes")


def statement_of(question: Question) -> Json:
    """What a certificate is about: the grammar as text, its tables, and its rules written out."""
    from fgg.runtime.identify.observations import KeptTokens

    tables, rules = tables_part(question.parameters)
    known = {table["name"] for table in tables}
    cases = []
    for case, parts in zip(question.cases, question.parts, strict=True):
        ground = ground_part(case)
        tables += [table for table in ground.pop("fixed") if table["name"] not in known]
        known = {table["name"] for table in tables}
        sets = [
            [group, list(item.tokens), list(item.along)]
            for group, part in enumerate(parts)
            for item in ([part] if isinstance(part, KeptTokens) else part.parts(len(case.tokens)))
        ]
        sizes = [token.size for token in case.tokens]
        direction = [case.weights(size) for size in sizes] if any(s[2] for s in sets) else []
        ground |= {"tokens": sizes, "direction": [[str(x) for x in row] for row in direction]}
        cases.append({"lengths": dict(case.lengths), **ground, "sets": sets})
    case = question.cases[0]
    eta = case.direction
    return {
        "format": FORMAT,
        "text": print_grammar(case.grammar),
        "eta": eta if isinstance(eta, int) else [str(Fraction(weight)) for weight in eta],
        "tables": tables,
        "rules": rules,
        "cases": cases,
    }


def check_certificate(path: Path) -> str:
    """What a certificate proves. Raises GrammarError (F459) if it proves nothing."""
    try:
        data = json.loads(read_limited(path).decode())
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):
        refuse("F459", f"`{path}` is not a certificate", "`fggc identify --certificate` writes one")
    try:
        _check_statement(data)
        sentence = check(data)
    except Wrong as error:
        refuse("F459", f"`{path}` proves nothing: {error}")
    except MALFORMED:
        refuse("F459", f"`{path}` is not a certificate", "`fggc identify --certificate` writes one")
    lengths = " and ".join(
        ", ".join(f"{name} = {value}" for name, value in case["lengths"].items())
        for case in data["cases"]
    )
    return f"{data['grammar']}, moments {data['observed']} of strings with {lengths}: {sentence}"


def _check_statement(data: Json) -> None:
    """Raise Wrong unless rules, tables and sets of tokens are those of the grammar's text."""
    from fgg.api.identify import model_of

    with confined_to(None):
        try:
            model = model_of(loads(data["text"], name=str(data["grammar"])), None)
            lengths = [case["lengths"] for case in data["cases"]]
            eta = data["eta"]
            if not isinstance(eta, int) and not all(map(_FRACTION.fullmatch, eta)):
                raise Wrong("its direction has no numbers")
            direction = eta + 1 if isinstance(eta, int) else [Fraction(weight) for weight in eta]
            question = model.question(lengths, data["observed"], direction)
            wanted = json.loads(json.dumps(statement_of(question)))
        except GrammarError as error:
            raise Wrong(f"its grammar cannot be read: {error.diagnostics[0].message}") from None
    # Zeros belong to the statement; the text does not have them.
    stated = [{k: v for k, v in table.items() if k != "zeros"} for table in data["tables"]]
    for key in ("tables", "rules", "cases"):
        if wanted[key] != (stated if key == "tables" else data[key]):
            raise Wrong(f"its {key} are not those of its grammar")


def ground_part(case: Case) -> Json:
    """The rules for one length, and the tables that are not parameters."""
    flat, readings = ground_with_readings(case.grammar, lengths=case.lengths)
    writer = _Writer(flat, readings, case)
    rules = [writer.rule(rule) for rule in flat.rules]
    products = sum(prod(rule["nodes"]) for rule in rules)
    if products > MAX_PRODUCTS:
        message = f"the certificate would need {products:,} products of the grammar's rules"
        refuse("F458", message, f"{MAX_PRODUCTS:,} is the greatest number: choose smaller sizes")
    return {"start": flat.start.label, "rules": rules, "fixed": list(writer.fixed.values())}


@dataclass
class _Writer:
    """Writes ground rules as lists of nodes and edges; paths become edges of their own."""

    grammar: Grammar
    readings: Mapping[str, Reading]
    case: Case
    fixed: dict[str, Json] = field(default_factory=dict)
    names: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def rule(self, rule: Rule) -> Json:
        """A rule: the sizes of its nodes, which are external, and its edges."""
        numbers = {node.name: i for i, node in enumerate(rule.rhs.nodes)}
        nodes = [domain_size(self.grammar, node.domain) for node in rule.rhs.nodes]
        edges: list[list[object]] = []
        tokens: set[int] = set()

        def touched(attachment: Attachment) -> int:
            """The number of a node, or of a new one for a part of it."""
            number = numbers[attachment.node]
            if not attachment.path:
                return number
            domain = rule.rhs.by_name[attachment.node].domain
            nodes.append(domain_size(self.grammar, path_end(self.grammar, domain, attachment.path)))
            edges.append([self.part(domain, attachment.path), [number, len(nodes) - 1]])
            return len(nodes) - 1

        for edge in rule.rhs.edges:
            at = [touched(attachment) for attachment in edge.attachments]
            reading = self.readings.get(edge.label)
            if reading is None:
                if edge.label not in self.grammar.nonterminal:
                    self.table(edge.label)
                edges.append([edge.label, at])
                continue
            token = self.case.number[reading.input, reading.position]
            if token in tokens:
                message = f"rule `{rule.name}` reads several parts of one token"
                refuse("F458", message, "a certificate has rules that read a token once")
            tokens.add(token)
            if reading.path:
                whole = self.case.grammar.input[reading.input].domain
                nodes.append(domain_size(self.grammar, whole))
                edges.append([self.part(whole, reading.path), [len(nodes) - 1, *at]])
                at = [len(nodes) - 1]
            edges.append([token, at])
        externals = [numbers[name] for name in rule.rhs.externals]
        return {"head": rule.lhs, "nodes": nodes, "externals": externals, "edges": edges}

    def part(self, domain: str, path: tuple[str, ...]) -> str:
        """The table that is 1 where a value has a given part, by the domain and the path."""
        if (domain, path) not in self.names:
            name = self.names[domain, path] = ".".join((domain, *path))
            sizes = [
                domain_size(self.grammar, d) for d in (domain, path_end(self.grammar, domain, path))
            ]
            parts = [path_value(self.grammar, domain, path, v) for v in range(sizes[0])]
            values = [int(part == v) for part in parts for v in range(sizes[1])]
            self.fixed[name] = {"name": name, "kind": "fixed", "shape": sizes, "values": values}
        return self.names[domain, path]

    def table(self, name: str) -> None:
        """Write a factor down that has a value and is not among the parameters."""
        if name in self.case.parameters.sources or name in self.fixed:
            return
        from fgg.runtime.program.bind import value_of

        if self.grammar.factor[name].value is None:
            refuse("F458", f"factor `{name}` follows from others in a way no certificate has")
        values = value_of(self.grammar, name, exactly=True)
        self.fixed[name] = fixed_table(name, values)


def fixed_table(name: str, values: Any) -> Json:
    """A table with given values, as whole numbers and fractions."""
    entries = [str(Fraction(value)) for value in values.reshape(-1)]
    return {"name": name, "kind": "fixed", "shape": list(values.shape), "values": entries}


def tables_part(parameters: Parameters) -> tuple[list[Json], list[Json]]:
    """The tables of all factors, and rules for those that follow from others."""
    from fgg.runtime.identify.parameters import FixedTable, FreeTable, Multiplied

    tables: list[Json] = []
    rules: list[Json] = []
    shapes: dict[str, list[int]] = {}
    for name, source in parameters.sources.items():
        if isinstance(source, FreeTable):
            shapes[name] = list(source.shape)
            kind = "frozen" if source.frozen else "free"
            table = {"name": name, "kind": kind, "shape": shapes[name], "given": source.given}
            if source.zeros:
                table["zeros"] = sorted(map(list, source.zeros))
            tables.append(table)
        elif isinstance(source, FixedTable):
            tables.append(fixed_table(name, source.values))
            shapes[name] = tables[-1]["shape"]
        elif isinstance(source, Multiplied):
            sizes = {
                axis: size
                for operand, axes in source.operands
                for axis, size in zip(axes, shapes[operand], strict=True)
            }
            places = {axis: i for i, axis in enumerate(sizes)}
            externals = [places[axis] for axis in source.axes]
            edges = [[n, [places[axis] for axis in axes]] for n, axes in source.operands]
            nodes = list(sizes.values())
            rules.append({"head": name, "nodes": nodes, "externals": externals, "edges": edges})
            shapes[name] = [sizes[axis] for axis in source.axes]
        else:
            size = shapes[source.source][0]
            image = f"{name} image"  # no name of a grammar has a space
            shapes[name] = [size]
            tables.append(
                {"name": name, "kind": "stationary", "shape": [size], "given": 0, "image": image}
            )
            edges = [[name, [0]], [source.source, [0, 1]]]
            rules.append({"head": image, "nodes": [size, size], "externals": [1], "edges": edges})
    return tables, rules
