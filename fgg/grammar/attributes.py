"""The attributes that a factor may carry after `with`, and what their values may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from fgg.diagnostics import Diagnostic, did_you_mean
from fgg.grammar import Attribute, Factor, InputFactor
from fgg.grammar.definitions import DEFINITION_KEYS, read_definition
from fgg.grammar.options import read_init, read_net
from fgg.grammar.values import Call, Word

KNOWN = {
    "prior": "a Dirichlet prior, `dirichlet(0.1)`",
    "net": "a neural parameterisation, `residual(dim=256, layers=2, dropout=0.1)`, "
    "`linear(dim=256)`, one for `each(…)` piece, or `none`",
    "init": "an initialiser, `uniform`, `normal(0.1)` or `dirichlet(1)`",
    "blocks": "the map in whose blocks the weights sum to one, `clusters`",
    "frozen": "`yes` or `no`",
    "observed": "what says what the factor is, `w` or `factor(phi)`; grounding writes it",
    "tied": "what the factor follows from, `stationary(trans)`",
    "slice": "the factor it is a part of, a variant for each node, `binary(N, C(N), C(P))`",
    "piece": "the factor of low rank it is a piece of, and which, `binary(0)`",
    "product": "the factors it is the product of, and their nodes, `of(emit(0, 1), trans(0, 2))`",
}


def check_attribute(attribute: Attribute) -> Diagnostic | None:
    """What is wrong with an attribute, or None."""
    key, value = attribute.key, attribute.value
    if key not in KNOWN:
        return Diagnostic(
            code="F133",
            message=f"there is no attribute `{key}`",
            help=did_you_mean(key, KNOWN) or "attributes are " + ", ".join(f"`{k}`" for k in KNOWN),
        )
    if key == "prior":
        right = (
            isinstance(value, Call)
            and value.name == "dirichlet"
            and len(value.arguments) == 1
            and not value.keywords
            and isinstance(value.arguments[0], float | Fraction)
            and value.arguments[0] > 0
        )
    elif key in DEFINITION_KEYS:
        right = read_definition(key, value) is not None
    elif key == "net":
        right = read_net(value) is not None
    elif key == "init":
        right = read_init(value) is not None
    elif key == "frozen":
        right = isinstance(value, Word) and value.name in ("yes", "no")
    else:
        assert key == "blocks"
        right = isinstance(value, Word)
    if right:
        return None
    return Diagnostic(
        code="F134",
        message=f"attribute `{key}` cannot have this value",
        help=f"it is {KNOWN[key]}",
    )


def check_definitions(attributes: Sequence[Attribute]) -> Diagnostic | None:
    """What is wrong with attributes that define a factor in two ways, or None."""
    defining = [attribute for attribute in attributes if attribute.key in DEFINITION_KEYS]
    if len(defining) < 2:
        return None
    first, second = defining[:2]
    return Diagnostic(
        code="F134",
        message=f"`{first.key}` and `{second.key}` both say what the factor is",
        span=second.span,
        help="drop one of them",
    )


def with_attributes(factor: Factor, attributes: Iterable[Attribute]) -> Factor:
    """The factor with what stands after `with`: a definition, and options."""
    options = []
    for attribute in attributes:
        definition = read_definition(attribute.key, attribute.value, attribute.span)
        if definition is None:
            options.append(attribute)
        else:
            factor = replace(factor, definition=definition)
    return replace(factor, attributes=tuple(options))


def written_attributes(item: Factor | InputFactor) -> tuple[Attribute, ...]:
    """What stands after `with`: a factor's options, and then its definition."""
    options = item.attributes if isinstance(item, Factor) else ()
    if item.definition is None:
        return options
    definition = item.definition
    return (*options, Attribute(key=definition.key, value=definition.written))
