"""The attributes after `with`: options of a factor (`net`, `init`, `prior`, …), its definition.

Options are read here, without any numbers, so that the checker and the runtime agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from fgg.diagnostics import Diagnostic, did_you_mean
from fgg.grammar import Attribute, Factor, InputFactor
from fgg.grammar.definitions import DEFINITION_KEYS, Piece, read_definition
from fgg.grammar.values import AttributeValue, Call, Word

MAX_DIM = 2**20
NET_INITS = ("normal", "xavier", "kaiming")
"""How the parameters of a network begin.

With `normal`, embeddings are normal numbers of variance 1 and all other matrices are Xavier normal
(Glorot and Bengio 2010). With `xavier`, all are Xavier normal; with `kaiming`, all are Kaiming
uniform (He et al. 2015).
"""


@dataclass(frozen=True)
class Net:
    """A network: embeddings of `dim` numbers, `layers` residual layers over them.

    `tied`: the rank node's vectors are shared by the pieces of a factor. `linear` has no layers,
    and embeddings of its own. `states` transforms both sides if both are states, by one layer;
    `factored`: the embedding of a state is made of those of its block and of itself. `init` is how
    parameters begin, one of `NET_INITS`.
    """

    kind: str = "residual"
    dim: int = 256
    layers: int = 2
    dropout: float = 0.0
    tied: bool = True
    factored: bool = False
    init: str = "normal"


@dataclass(frozen=True)
class Init:
    """An initialiser: `uniform`, `normal` (logits of a standard deviation) or `dirichlet`."""

    kind: str = "normal"
    scale: float = 1.0


def read_net(value: AttributeValue) -> tuple[Net, ...] | None:
    """The networks of a factor's pieces, or one for all; `()` for `none`; None: no network."""
    if isinstance(value, Word):
        return {
            "none": (),
            "residual": (Net(),),
            "linear": (_linear(),),
            "states": (Net("states", layers=1),),
        }.get(value.name)
    if not isinstance(value, Call):
        return None
    if value.name == "each":
        pieces = [read_net(item) for item in value.arguments]
        if value.keywords or len(pieces) < 2 or any(not nets or len(nets) > 1 for nets in pieces):
            return None
        return tuple(net for nets in pieces for net in nets or ())
    one = _net(value)
    return None if one is None else (one,)


def _linear() -> Net:
    return Net("linear", layers=0, init="xavier")


def _net(value: Call) -> Net | None:
    if value.name not in ("residual", "linear", "states") or value.arguments:
        return None
    given = dict(value.keywords)
    if len(given) < len(value.keywords):
        return None
    if value.name == "states":
        return _states(given)
    start = Net() if value.name == "residual" else _linear()
    dim = _whole(given.pop("dim", float(start.dim)), 1, MAX_DIM)
    layers = _whole(given.pop("layers", float(start.layers)), 0, 1000)
    dropout = given.pop("dropout", 0.0)
    tied = given.pop("tied", Word("yes"))
    init = given.pop("init", Word(start.init))
    if given or dim is None or layers is None or (value.name == "linear" and layers):
        return None
    if not isinstance(dropout, float | Fraction) or not 0 <= dropout < 1:
        return None
    if not isinstance(tied, Word) or tied.name not in ("yes", "no"):
        return None
    if not isinstance(init, Word) or init.name not in NET_INITS:
        return None
    return Net(value.name, dim, layers, float(dropout), tied.name == "yes", init=init.name)


def _states(given: dict[str, AttributeValue]) -> Net | None:
    dim = _whole(given.pop("dim", 256.0), 2, MAX_DIM)
    dropout = given.pop("dropout", 0.0)
    factored = given.pop("factored", Word("no"))
    init = given.pop("init", Word("normal"))
    if given or dim is None or not isinstance(factored, Word) or factored.name not in ("yes", "no"):
        return None
    if not isinstance(dropout, float | Fraction) or not 0 <= dropout < 1:
        return None
    if factored.name == "yes" and dim % 2:
        return None
    if not isinstance(init, Word) or init.name not in NET_INITS:
        return None
    return Net("states", dim, 1, float(dropout), factored=factored.name == "yes", init=init.name)


def _whole(value: AttributeValue, low: int, high: int) -> int | None:
    if not isinstance(value, float | Fraction) or value != int(value) or not low <= value <= high:
        return None
    return int(value)


def read_init(value: AttributeValue) -> Init | None:
    """The initialiser that an attribute's value stands for, or None if it stands for none."""
    if isinstance(value, Word):
        return {"uniform": Init("uniform"), "normal": Init()}.get(value.name)
    if not isinstance(value, Call) or value.keywords or len(value.arguments) != 1:
        return None
    (scale,) = value.arguments
    if value.name not in ("normal", "dirichlet") or not isinstance(scale, float | Fraction):
        return None
    return Init(value.name, float(scale)) if 0 < scale < 1e6 else None


def nets_fit(factor: Factor) -> bool:
    """Whether a factor has as many pieces as `each(…)` names networks."""
    nets = read_net(factor.attribute("net") or Word("none")) or ()
    if len(nets) < 2 or isinstance(factor.definition, Piece):
        return True
    count = 1 + len(factor.domains) - (factor.given or 0)
    return factor.rank is not None and len(nets) == count


def net_of(factor: Factor) -> Net | None:
    """The network of a factor, or of the piece that it is; None if it has none."""
    nets = read_net(factor.attribute("net") or Word("none"))
    if not nets:
        return None
    piece = factor.definition
    return nets[piece.number if len(nets) > 1 and isinstance(piece, Piece) else 0]


def init_of(factor: Factor) -> Init:
    """The initialiser of a factor; normal logits if it names none."""
    return read_init(factor.attribute("init") or Word("normal")) or Init()


def prior_of(factor: Factor) -> float | None:
    """The concentration of a factor's Dirichlet prior, or None if it has no prior."""
    value = factor.attribute("prior")
    if not isinstance(value, Call) or not value.arguments:
        return None
    (number,) = value.arguments
    return float(number) if isinstance(number, float | Fraction) else None


def is_frozen(factor: Factor) -> bool:
    """Whether learning leaves a factor alone."""
    return factor.attribute("frozen") == Word("yes")


KNOWN = {
    "prior": "a Dirichlet prior, `dirichlet(0.1)`",
    "net": "a neural parameterisation, `residual(dim=256, layers=2, dropout=0.1)`, "
    "`linear(dim=256)`, one for `each(…)` piece, or `none`",
    "init": "an initialiser, `uniform`, `normal(0.1)` or `dirichlet(1)`",
    "blocks": "the map in whose blocks the weights sum to one, `clusters`",
    "frozen": "`yes` or `no`",
    "observed": "the input that decides the factor, `w` or `factor(phi)`; grounding writes it",
    "tied": "a distribution of another factor, `stationary(trans)`",
    "slice": "the factor it is a part of, a variant for each node, `binary(N, C(N), C(P))`",
    "piece": "the factor of low rank it is a piece of, and which, `binary(0)`",
    "product": "the factors it is the product of, and their nodes, `of(emit(0, 1), trans(0, 2))`",
}


def check_attribute(attribute: Attribute) -> Diagnostic | None:
    """The mistake in an attribute, or None."""
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
    """The mistake if attributes define a factor in two ways, or None."""
    defining = [attribute for attribute in attributes if attribute.key in DEFINITION_KEYS]
    if len(defining) < 2:
        return None
    first, second = defining[:2]
    return Diagnostic(
        code="F134",
        message=f"`{first.key}` and `{second.key}` both define the factor",
        span=second.span,
        help="drop one of them",
    )


def with_attributes(factor: Factor, attributes: Iterable[Attribute]) -> Factor:
    """The factor with the attributes after `with`: a definition, and options."""
    options = []
    for attribute in attributes:
        definition = read_definition(attribute.key, attribute.value, attribute.span)
        if definition is None:
            options.append(attribute)
        else:
            factor = replace(factor, definition=definition)
    return replace(factor, attributes=tuple(options))


def written_attributes(item: Factor | InputFactor) -> tuple[Attribute, ...]:
    """The attributes after `with`: a factor's options, and then its definition."""
    options = item.attributes if isinstance(item, Factor) else ()
    if item.definition is None:
        return options
    definition = item.definition
    return (*options, Attribute(key=definition.key, value=definition.written))
