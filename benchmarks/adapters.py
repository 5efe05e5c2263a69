"""Third-party libraries as peers. Each is measured if it can be imported, and skipped if not.

They are asked for what their own documentation shows, on the same weights; where they want
logarithms, these are taken inside what is timed, since gradients are of the weights.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Call, Skipped, Values, gradients_of


def library(name: str) -> Any:
    """A module, or Skipped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        raise Skipped(f"cannot be imported ({error})") from None


def torch_struct_hmm(weights: Values, words: Tensor) -> Call:
    """torch-struct: a linear chain of potentials `[batch, n, states, states]`."""
    struct = library("torch_struct")
    init, trans, emit = weights["init"], weights["trans"], weights["emit"]

    def call() -> Values:
        # It takes the transitions as [to, from].
        chain = struct.HMM(trans.log().mT, emit.log().mT, init.log(), words)
        return gradients_of(chain.partition, weights)

    return quietly(call)


def hmmlearn_hmm(weights: Values, words: Tensor) -> Call:
    """hmmlearn: a round of EM in float64, C++: forward, backward, expected counts."""
    hmm = library("hmmlearn.hmm")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    (batch, n), states = words.shape, weights["init"].shape[0]
    tables = {name: normalised(value) for name, value in weights.items()}
    column, lengths = words.reshape(-1, 1).numpy(), [n] * batch

    def call() -> Values:
        model = hmm.CategoricalHMM(states, n_iter=1, init_params="", implementation="scaling")
        model.n_features = weights["emit"].shape[1]
        model.startprob_, model.transmat_ = tables["init"], tables["trans"]
        model.emissionprob_ = tables["emit"]
        model.fit(column, lengths)
        return {"log_z": torch.tensor(model.monitor_.history[0])}

    return quietly(call)


def normalised(weights: Tensor) -> Any:
    """Weights as an array whose rows sum to 1 in float64."""
    wide = weights.detach().double()
    return (wide / wide.sum(-1, keepdim=True)).numpy()


def dynamax_hmm(weights: Values, words: Tensor) -> Call:
    """dynamax: its filter, compiled by XLA, and the gradient by JAX."""
    jax = library("jax")
    filtering = library("dynamax.hidden_markov_model").hmm_filter
    arrays = {name: jax.numpy.array(w.detach().numpy()) for name, w in weights.items()}
    observed = jax.numpy.array(words.numpy())

    def log_z(tables: Any) -> Any:
        def of_item(row: Any) -> Any:
            logs = jax.numpy.log(tables["emit"][:, row]).T
            return filtering(tables["init"], tables["trans"], logs).marginal_loglik

        found = jax.vmap(of_item)(observed)
        return found.sum(), found

    compiled = jax.jit(jax.value_and_grad(log_z, has_aux=True))

    def call() -> Values:
        (_, each), gradients = jax.block_until_ready(compiled(arrays))
        values = {"log_z": each, **gradients}
        return {name: torch.tensor(value.tolist()) for name, value in values.items()}

    def timed() -> Values:
        jax.block_until_ready(compiled(arrays))
        return {}

    return after_first(call, timed)


def torch_struct_pcfg(weights: Values, words: Tensor) -> Call:
    """torch-struct: CKY in logarithms."""
    struct = library("torch_struct")
    batch = words.shape[0]

    def call() -> Values:
        terms = weights["emit"].log()[:, words].permute(1, 2, 0).contiguous()
        rules = weights["binary"].log().expand(batch, -1, -1, -1).contiguous()
        root = weights["root"].log().expand(batch, -1).contiguous()
        grammar = struct.SentCFG((terms, rules, root))
        return gradients_of(grammar.partition, weights)

    return quietly(call)


def torch_struct_eisner(scores: Values) -> Call:
    """torch-struct: scores of roots lie on the diagonal."""
    struct = library("torch_struct")
    off = 1 - torch.eye(scores["root"].shape[1])

    def call() -> Values:
        both = scores["arc"] * off + torch.diag_embed(scores["root"])
        trees = struct.DependencyCRF(both, multiroot=False)
        return gradients_of(trees.partition, scores)

    return quietly(call)


def supar_eisner(scores: Values) -> Call:
    """supar: scores are `[batch, dependent, head]`, the root is head 0."""
    structs = library("supar.structs")
    batch, n = scores["root"].shape

    def call() -> Values:
        heads = torch.cat([scores["root"][:, :, None], scores["arc"].mT], 2)
        table = torch.nn.functional.pad(heads, (0, 0, 1, 0))
        trees = structs.DependencyCRF(table, torch.full((batch,), n))
        return gradients_of(trees.log_partition, scores)

    return quietly(call)


def quietly(call: Call) -> Call:
    """A call whose first run warns in vain; later ones are not slowed by catching warnings."""

    def first() -> Values:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()

    return after_first(first, call)


def after_first(first: Call, then: Call) -> Call:
    """A call that does something else the first time."""
    done = False

    def either() -> Values:
        nonlocal done
        if done:
            return then()
        done = True
        return first()

    return either
