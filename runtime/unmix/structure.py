"""The structure of a grammar, read off its backbones: PCFG-IE, DEP-IES [ID §5], or three views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fgg.diagnostics import GrammarError, refuse
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.memo import per_grammar
from fgg.runtime.unmix.backbone import Backbone, Path
from fgg.runtime.unmix.mixing import mixing, stationary_roots
from fgg.runtime.unmix.three_views import Views, views_of


@dataclass(frozen=True)
class States:
    """The structure of PCFG-IE: latent states, children drawn alike, words drawn by their state."""

    root: str
    child: str
    emit: str
    states: int
    words: int

    @property
    def target(self) -> Backbone:
        """The compound parameter Ψ₃ = A diag(Aᵀη) T diag(π) Aᵀ [ID §5.2].

        Words 1 and 3 part at a child of the root, word 2 hangs from the root itself.
        """
        word = (self.child, self.emit)
        pair = Backbone(0, ((word, Backbone(1)), (word, Backbone(3))))
        children = tuple(sorted([((self.child,), pair), (word, Backbone(2))]))
        return Backbone(0, children, self.root)

    @property
    def transposed(self) -> Backbone:
        """The compound parameter Ψ₂ = Ψ₃ᵀ."""
        return self.target.renamed({1: 2, 2: 1})


@dataclass(frozen=True)
class Arcs:
    """The structure of DEP-IES: words draw words, the root from the stationary distribution."""

    root: str
    arc: str
    words: int

    def power(self, steps: int) -> Backbone:
        """The compound parameter A^steps diag(π): word 2 is the root, word 1 `steps` below it."""
        return Backbone(2, (((self.arc,) * steps, Backbone(1)),), self.root)


Structure = States | Arcs | Views


@per_grammar
def shape_of(grammar: Grammar) -> Structure:
    """The structure of a grammar joined with its query.

    If it is neither that of PCFG-IE nor of DEP-IES, three views of a hidden node may do.
    Raises GrammarError (F460) with the condition that fails.
    """
    try:
        return _first_shape(grammar)
    except GrammarError as error:
        views = _views(grammar) if error.diagnostics[0].code == "F460" else None
        if views is None:
            raise
        return views


def _views(grammar: Grammar) -> Views | None:
    try:
        views = views_of(grammar)
    except GrammarError:  # no trees
        return None
    ranks = views is not None and any(
        f.rank is not None for f in grammar.factors if f.name in (views.root, *views.factors)
    )
    return None if ranks else views


def _first_shape(grammar: Grammar) -> States | Arcs:
    """PCFG-IE or DEP-IES.

    Raises GrammarError (F460) with the condition that fails. All conditions are about backbones of
    words in sentences of two and three words, so it does not matter how rules are written.
    """
    columns = mixing(grammar, (2, 3), order=2).columns
    name = grammar.name
    sources = sorted({backbone.source for backbone in columns})
    if len(sources) > 1:
        refuse("F460", f"`{name}`: roots are drawn by {_names(sources)}; one factor is needed")
    paths = [item for backbone in columns for item in _paths(backbone)]
    at_words = {(path, inner) for path, inner, word in paths if word}
    inner = any(is_inner for _, is_inner in at_words) or any(b.word for b in columns)
    shape = _arcs(grammar, sources[0], paths) if inner else _states(grammar, sources[0], paths)
    for factor in grammar.factors:
        used = factor.name in vars(shape).values()
        if used and factor.rank is not None:
            refuse("F460", f"`{name}`: `{factor.name}` has a declared rank")
    return shape


def _states(grammar: Grammar, root: str, paths: list[tuple[Path, bool, bool]]) -> States:
    name = grammar.name
    emits = sorted({path[-1] for path, _, word in paths if word})
    if len(emits) > 1:
        refuse("F460", f"`{name}`: words are drawn by {_names(emits)}; one factor is needed")
    (emit,) = emits
    steps = {label for path, _, word in paths for label in (path[:-1] if word else path)}
    if len(steps) != 1 or emit in steps:
        what = _names(sorted(steps)) if steps else "no factor"
        refuse(
            "F460",
            f"`{name}`: states draw their children by {what}; one factor is needed for all",
            "moments of PCFG-IE, whose children are drawn independently and alike, can be unmixed",
        )
    (child,) = steps
    domain = grammar.inputs[0].domain
    states, words = grammar.factor[child].domains[0], grammar.factor[emit].domains[1]
    assert words == domain
    shape = States(root, child, emit, domain_size(grammar, states), domain_size(grammar, words))
    if not {shape.target, shape.transposed} & set(mixing(grammar, (3,)).columns):
        refuse(
            "F460",
            f"`{name}`: no tree of three words has two of them at a child of the root and the "
            "third one at the other child",
            f"`{emit}` must draw words from states that `{child}` draws",
        )
    return shape


def _arcs(grammar: Grammar, root: str, paths: list[tuple[Path, bool, bool]]) -> Arcs:
    name = grammar.name
    labels = sorted({label for path, _, _ in paths for label in path})
    if len(labels) > 1:
        refuse(
            "F460",
            f"`{name}`: words draw others by {_names(labels)}; one factor is needed for all",
            "moments of DEP-IES, with one factor for all arcs, can be unmixed",
        )
    (arc,) = labels
    if stationary_roots(grammar).get(root) != arc:
        refuse(
            "F460",
            f"`{name}`: `{root}` is not the stationary distribution of `{arc}`",
            f"declare it: `factor {root}(-> …) with tied = stationary({arc})`",
        )
    return Arcs(root, arc, domain_size(grammar, grammar.inputs[0].domain))


def _paths(backbone: Backbone) -> Iterator[tuple[Path, bool, bool]]:
    """Each path: whether it begins at an observed word, and whether it leads to one."""
    for path, tree in backbone.children:
        yield path, bool(backbone.word), bool(tree.word)
        yield from _paths(tree)


def _names(labels: list[str]) -> str:
    return " and ".join(f"`{label}`" for label in labels)
