"""Models: a torch module that holds the parameters of a program.

Each factor that is to be learned has logits, or a network that makes them; distributions are their
softmax over the right side of the arrow, potentials their exponential. A factor of declared rank
has the logits of its pieces, each normalised so that the product is a distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fgg.data.preprocessing import Preprocessing
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.factors.maps import groups
from fgg.grammar import Enumerated, Factor, FromFile
from fgg.grammar.definitions import Tied
from fgg.grammar.options import init_of, is_frozen, net_of
from fgg.runtime.entries import factor_reader
from fgg.runtime.entries.factor_reader import FactorReader, Weight
from fgg.runtime.entries.scalar_products import ScalarProducts
from fgg.runtime.layer.precision import as_computed
from fgg.runtime.memory import require
from fgg.runtime.model.initial_logits import bytes_to_start, start_logits
from fgg.runtime.model.materialise import multiplied
from fgg.runtime.model.nets import FactorNet, Maker, Shared
from fgg.runtime.model.segment_softmax import group_tensor, softmax_in_groups
from fgg.runtime.model.state_nets import StateNet
from fgg.runtime.stationary_distribution import stationary_tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.learn.item_batches import Data
    from fgg.runtime.learn.method import SweepReport
    from fgg.runtime.model.generate import DrawnLengths
    from fgg.runtime.model.state_dropout import Kept
    from fgg.runtime.posterior.posterior import Posterior
    from fgg.runtime.program.inputs import Lengths
    from fgg.runtime.program.program import Program

KINDS = ("value", "tied", "frozen", "network", "scalar")


class Model(nn.Module):
    """The parameters of a program, as a differentiable layer.

    `model(w=tokens, lengths=lengths)` is log Z of every item. Inputs are given by name. `nets` are
    modules of the user's own: each is called without arguments for the logits of a factor.
    """

    def __init__(
        self,
        program: Program,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        weights: Mapping[str, Any] | None = None,
        nets: Mapping[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.begun_with = (seed, dtype)
        self.has_given_weights = bool(weights)
        self.history: tuple[SweepReport, ...] = ()
        self.program = program
        self.preprocessing = Preprocessing()
        self.logits = nn.ParameterDict()
        self.shared = Shared()
        self.nets = nn.ModuleDict()
        self.own_nets = tuple(nets or {})
        self._check_nets(nets or {}, weights or {})
        generator = torch.Generator().manual_seed(seed)
        maker = Maker(program.weighted, generator, dtype)
        given = dict(weights or {})
        fixed = program.fixed_weights(given, dtype=dtype)
        whole = [name for name in fixed if program.is_whole(name, given)]
        parts = {piece for name in whole for piece in program.pieces(name)}
        self.names = (*(n for n in program.parameter_names if n not in parts), *whole)
        for name in self.names:
            factor = program.weighted.factor[name]
            if factor.value is not None:
                self.register_buffer(_buffer(name), fixed[name])
            elif name in given:
                self._keep(name, fixed[name].detach().log())
            elif tied_to(factor) is None:
                self._add(name, maker, nets or {})
        for factor in program.parameters:
            source = tied_to(factor)
            for piece in () if source is None else program.pieces(source):
                self._add(piece, maker, nets or {})
        for name, net in (nets or {}).items():
            self._check_logits(name, net)

    def __repr__(self) -> str:
        names = self.program.parameter_names
        factors = "1 factor" if len(names) == 1 else f"{len(names)} factors"
        count = sum(parameter.numel() for parameter in self.parameters())
        return f"Model({self.program.grammar.name!r}, {factors}, {count:,} parameters)"

    def restart(self, program: Program) -> None:
        """Become the model of another program, with parameters as at the beginning."""
        seed, dtype = self.begun_with
        device = next((t.device for t in self.state_dict().values()), torch.device("cpu"))
        preprocessing, training = self.preprocessing, self.training
        Model.__init__(self, program, seed=seed, dtype=dtype)
        self.preprocessing = preprocessing
        self.to(device).train(training)

    def _add(self, name: str, maker: Maker, nets: Mapping[str, nn.Module]) -> None:
        """Parameters of a factor, unless it has a value or has them already."""
        factor = self.program.weighted.factor[name]
        if factor.value is not None or _key(name) in self.logits or _key(name) in self.nets:
            return
        net = net_of(factor)
        if name in nets:
            self.nets[_key(name)] = nets[name]
        elif net is not None and not is_frozen(factor):
            kind = StateNet if net.kind == "states" else FactorNet
            self.nets[_key(name)] = kind(maker, self.shared, factor, net)
        else:
            shape = self.program.shape(name)
            init = init_of(factor)
            what = f"factor `{name}` with {prod(shape):,} parameters"
            require(bytes_to_start(init, shape), torch.device("cpu"), what)
            start = start_logits(init, shape, factor.given, maker.generator)
            self._keep(name, start.to(maker.dtype))

    def _keep(self, name: str, logits: Tensor) -> None:
        frozen = is_frozen(self.program.weighted.factor[name])
        self.logits[_key(name)] = nn.Parameter(logits, requires_grad=not frozen)

    def _check_nets(self, nets: Mapping[str, nn.Module], weights: Mapping[str, Any]) -> None:
        """Raise GrammarError (F470) for networks of factors that are not parameters."""
        problems = []
        known = [f.name for f in self.program.parameters if f.value is None and tied_to(f) is None]
        for name, net in nets.items():
            message = ""
            if name not in known:
                message = f"a network is given for `{name}`, which is not a parameter"
            elif name in weights:
                message = f"a network and weights are given for `{name}`"
            elif not isinstance(net, nn.Module):
                message = f"what is given for `{name}` is not a module"
            if message:
                pieces = self.program.pieces(name) if name in self.program.weighted.factor else ()
                help = did_you_mean(name, known)
                if len(pieces) > 1:
                    help = "it has pieces: " + ", ".join(f"`{piece}`" for piece in pieces)
                problems.append(Diagnostic(code="F470", message=message, help=help))
        if problems:
            raise GrammarError(problems)

    def _check_logits(self, name: str, net: nn.Module) -> None:
        """Raise GrammarError (F470) for a network that does not make a factor's logits."""
        with torch.no_grad():
            logits = net()
        shape = self.program.shape(name)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != shape:
            what = tuple(logits.shape) if isinstance(logits, Tensor) else "no tensor"
            message = f"the network of `{name}` gives {what}, not logits of shape {shape}"
            refuse("F470", message)

    @property
    def learnable(self) -> tuple[str, ...]:
        """The factors that have parameters, in the grammar's order."""
        keys = {*self.logits, *self.nets}
        return tuple(f.name for f in self.program.weighted.factors if _key(f.name) in keys)

    def kind(self, name: str) -> str:
        """Where the weights of a factor come from: one of `KINDS`."""
        factor = self.program.weighted.factor[name]
        if self._buffers.get(_buffer(name)) is not None:
            return "value"
        if tied_to(factor) is not None:
            return "tied"
        if is_frozen(factor):
            return "frozen"
        return "network" if _key(name) in self.nets else "scalar"

    def set_logits(self, name: str, logits: Tensor) -> None:
        """Give a factor other logits: numbers of its shape, -inf where an entry is 0."""
        with torch.no_grad():
            self.logits[_key(name)].copy_(logits.reshape(self.logits[_key(name)].shape))

    def factor_logits(self, name: str, kept: Kept | None = None) -> Tensor:
        """The logits of a factor that has some: as they are kept, or from its network.

        If only some states are `kept`, theirs.
        """
        grammar = self.program.weighted
        net = None if _key(name) in self.logits else self.nets[_key(name)]
        if isinstance(net, StateNet):
            made: Tensor = net(self.shared, grammar, kept)
            return made
        if net is None:
            logits: Tensor = self.logits[_key(name)]
        else:
            logits = net(self.shared, grammar) if isinstance(net, FactorNet) else net()
        return logits if kept is None else kept.select(grammar.factor[name], logits)

    def weight(self, name: str, kept: Kept | None = None) -> Tensor:
        """The weights of a factor; if only some states are `kept`, those of the smaller model."""
        grammar = self.program.weighted
        buffer = self._buffers.get(_buffer(name))
        if buffer is not None:
            return buffer
        source = tied_to(grammar.factor[name])
        if source is not None:
            return stationary_tensor(self.weight(source, kept))
        if _key(name) in self.logits or _key(name) in self.nets:
            logits = as_computed(self.factor_logits(name, kept))
            blocks = groups(grammar, grammar.factor[name])
            if blocks is not None:
                return softmax_in_groups(logits, group_tensor(blocks, logits.device))
            return _normalised(logits, grammar.factor[name].given)
        pieces = {piece: self.weight(piece, kept) for piece in self.program.pieces(name)}
        product: Tensor = multiplied(grammar, name, pieces)
        return product

    def reader(self, name: str, kept: Kept | None = None) -> FactorReader | None:
        """A reader of a factor's weights, which makes them where they are read.

        None if the logits are not scalar products of a network, or if the network cannot make those
        of the kept states alone.
        """
        key = _key(name)
        net = self.nets[key] if key in self.nets else None
        grammar = self.program.weighted
        if isinstance(net, StateNet):
            left, right = net.sides(self.shared, grammar, kept)
            shape = net.shape(left, right)
        elif isinstance(net, FactorNet) and kept is None:
            left, right = net.sides(self.shared, grammar)
            shape = net.shape
        else:
            return None
        factor = grammar.factor[name]
        inside = groups(grammar, factor)
        blocks = None if inside is None else group_tensor(inside, right.device)
        if blocks is not None and left.dim() == 2:
            left = left.expand(int(blocks.max()) + 1, *left.shape)
        left, right = as_computed(left), as_computed(right)
        if not torch.is_grad_enabled():  # parameters themselves may be among them
            left, right = left.detach(), right.detach()
        products = ScalarProducts(left, right, factor.given is not None, blocks)
        return FactorReader(name, shape, net.given, products, lambda: self.weight(name, kept))

    def readers(self, kept: Kept | None = None) -> dict[str, Weight]:
        """The weights of every factor as `log_z` takes them: readers for large networks' factors.

        The readers are of the present parameters. What they compute without gradients they keep.
        """
        weights: dict[str, Weight] = {}
        for name in self.names:
            large = prod(self.program.shape(name)) >= factor_reader.LARGE
            reader = self.reader(name, kept) if large else None
            weights[name] = self.weight(name, kept) if reader is None else reader
        return weights

    def forward(self, *, lengths: Lengths = None, **inputs: object) -> Tensor:
        """log Z of every item, `[batch]`."""
        return self.program.log_z(self.readers(), self.read(inputs), lengths)

    def posterior(self, *, lengths: Lengths = None, **inputs: object) -> Posterior:
        """The distribution over derivations of every item: one value for all questions.

        `model.posterior(w=tokens).best()` decodes, `.marginals`, `.counts` and `.sample(5)` share
        its passes.
        """
        words = self.preprocessing.written(inputs)
        return self.program.posterior(self.weights(), self.read(inputs), lengths, words=words)

    def fit(
        self,
        data: Data,
        *,
        method: str = "em",
        epochs: int = 10,
        min_count: int = 1,
        **options: Any,
    ) -> Model:
        """Fit the model to sentences in place, and return it; `history` has each sweep's report.

        `data` are sentences, lists of words or texts, or by input, `{"w": […], "tag": […]}`.
        Methods and options are those of `fgg.learn`. Words of a domain without names become its
        values, those that occur fewer than `min_count` times `<unk>`; parameters then begin anew.
        Otherwise fitting goes on with the present ones.
        """
        from fgg.runtime.model.estimator import fit

        fit(self, data, method=method, epochs=epochs, min_count=min_count, **options)
        return self

    def score(self, data: Data) -> float:
        """The log-likelihood of sentences: the sum of their log Z."""
        from fgg.runtime.model.estimator import score

        return score(self, data)

    def predict(self, data: Data, *, method: str = "viterbi") -> list[tuple[str, ...]]:
        """The states of each sentence: `cell_values()` of its best derivation.

        For a chain it has one for each word. `method` is `viterbi` or `mbr`. Derivations are given
        by `model.posterior(…).best()`.
        """
        from fgg.runtime.model.estimator import predict

        return [derivation.cell_values() for derivation in predict(self, data, method=method)]

    def sample(
        self, number: int = 1, *, lengths: DrawnLengths = None, seed: int | None = None
    ) -> list[Derivation]:
        """Independent draws from the model: derivations, with `inputs()` that they generate.

        Without `lengths`, draws are from all derivations of all lengths, and say how long they are.
        A model that does not stop by itself needs lengths: one for all draws, or a list from which
        each draw takes one at random. To draw from the posterior of inputs, use
        `model.posterior(…).sample(…)`. Raises GrammarError (F424).
        """
        from fgg.runtime.model.generate import generate

        return generate(self.program, self.detached(), number, lengths=lengths, seed=seed)

    def read(self, inputs: Mapping[str, object]) -> Mapping[str, object]:
        """The inputs of a batch with their words changed as those of the training data were."""
        if not self.preprocessing.fields:
            return inputs
        return self.preprocessing.inputs(self.program.grammar, inputs)

    @property
    def vocabulary(self) -> dict[str, tuple[str, ...]]:
        """The names of the values of each domain that has names."""
        shapes = {domain.name: domain.shape for domain in self.program.compiler.model.domains}
        named = {n: s for n, s in shapes.items() if isinstance(s, Enumerated | FromFile)}
        return {name: shape.values for name, shape in named.items()}

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        vocabulary: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Write the model to a file that holds all that is needed to use it: `english.fggm`.

        These are the text of the grammar with its sizes and values, the weights, and how data are
        read. `vocabulary` names the values of domains, `{"W": ["the", "dog"]}`, where the grammar
        does not. It is a safetensors file, and appears whole or not at all.
        """
        from fgg.runtime.model.saving import save

        save(self, path, vocabulary)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take the parameters of a saved model of the same grammar. Raises GrammarError (F472)."""
        from fgg.runtime.model.saving import read, take

        take(self, read(path))

    def weights(self) -> dict[str, Tensor]:
        """The weights of every factor that the program needs, differentiable."""
        return {name: self.weight(name) for name in self.names}

    def detached(self) -> dict[str, Tensor]:
        """The weights as plain numbers."""
        with torch.no_grad():
            return self.weights()


def _normalised(logits: Tensor, given: int | None) -> Tensor:
    """A distribution over the axes from `given` on; a potential if there is no arrow."""
    if given is None:
        return logits.exp()
    if logits.dim() == given + 1:
        return logits.softmax(-1)
    return logits.flatten(given).softmax(-1).reshape(logits.shape)


def tied_to(factor: Factor) -> str | None:
    """The factor that this one is the stationary distribution of."""
    return factor.definition.source if isinstance(factor.definition, Tied) else None


_TAKEN = {*dir(nn.ParameterDict()), *dir(nn.ModuleDict())}
"""Names of attributes, such as `children` and `keys`, which torch does not allow for parameters."""


def _key(name: str) -> str:
    """A parameter's name: torch allows no dots in it, and no names of its own attributes."""
    return f"{name}\N{MIDDLE DOT}" if name in _TAKEN else name.replace(".", "\N{MIDDLE DOT}")


def _buffer(name: str) -> str:
    """A buffer's name."""
    return "value_" + _key(name)
