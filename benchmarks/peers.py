"""What one would write by hand in torch for one model: the programs' competitors.

All are batched, for items of one length; weights are values, not logarithms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Forward(torch.autograd.Function):
    """log Z of an HMM by the scaled forward algorithm; its derivative by the backward one."""

    @staticmethod
    def forward(ctx: Any, init: Tensor, trans: Tensor, emitted: Tensor) -> Tensor:
        """The logarithms of the scales, added up. `emitted` is `[n, batch, states]`."""
        alpha = torch.empty_like(emitted)  # sums to 1 over states
        scale = emitted.new_empty(emitted.shape[:2])
        for t in range(emitted.shape[0]):
            before = alpha[t - 1] @ trans if t else init
            new = before * emitted[t]
            torch.sum(new, -1, out=scale[t])
            torch.div(new, scale[t, :, None], out=alpha[t])
        ctx.save_for_backward(init, trans, emitted, alpha, scale)
        return scale.double().log().sum(0).to(emitted.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradients; those of `trans` and `emitted` are products over all positions at once."""
        init, trans, emitted, alpha, scale = ctx.saved_tensors
        n, _, states = emitted.shape
        beta = torch.empty_like(emitted)  # d log Z / d new
        used = torch.empty_like(emitted)  # beta times what is emitted
        beta[n - 1] = (gradients[0] / scale[n - 1])[:, None]
        for t in range(n - 1, 0, -1):
            torch.mul(emitted[t], beta[t], out=used[t])
            torch.div(used[t] @ trans.mT, scale[t - 1, :, None], out=beta[t - 1])
        left = alpha[:-1].reshape(-1, states)
        g_emitted = torch.empty_like(emitted)
        g_emitted[0] = init * beta[0]
        g_emitted[1:] = (left @ trans).view(n - 1, -1, states) * beta[1:]
        g_init = (emitted[0] * beta[0]).sum(0)
        return g_init, left.mT @ used[1:].reshape(-1, states), g_emitted


def hmm(init: Tensor, trans: Tensor, emit: Tensor, words: Tensor) -> Tensor:
    """log Z of an HMM; `trans` is `[from, to]`, `emit` is `[state, word]`."""
    emitted = torch.nn.functional.embedding(words.mT, emit.mT)
    result: Tensor = Forward.apply(init, trans, emitted)  # type: ignore[no-untyped-call]
    return result


def _sums(lefts: list[Tensor], rights: list[Tensor], scales: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Sums of products over splits, `[batch, spans, left, right]`, and their scales."""
    scale = torch.stack(scales, 2)
    top = scale.detach().amax(2)
    weight = (scale - top[..., None]).exp()
    left = torch.stack(lefts, 2) * weight[..., None]
    return torch.einsum("bpsx,bpsy->bpxy", left, torch.stack(rights, 2)), top


def cky(root: Tensor, binary: Tensor, emit: Tensor, words: Tensor) -> Tensor:
    """log Z of a PCFG, phrase symbols and preterminals in one chart; the rest is autograd's.

    Values of a cell are divided by their greatest one, whose logarithm is the cell's scale.
    """
    phrases, n = root.shape[0], words.shape[1]
    emitted = emit[:, words].permute(1, 2, 0)
    first = torch.cat([emitted.new_zeros(*emitted.shape[:2], phrases), emitted], -1)
    top = first.amax(-1)
    # By width: [batch, starts, symbols], [batch, starts].
    values = {1: first / top[..., None]}
    scales = {1: top.log()}
    for width in range(2, n + 1):
        starts = n - width + 1
        splits = range(1, width)
        pairs, scale = _sums(
            [values[s][:, :starts] for s in splits],
            [values[width - s][:, s : s + starts] for s in splits],
            [scales[s][:, :starts] + scales[width - s][:, s : s + starts] for s in splits],
        )
        new = torch.einsum("bpxy,axy->bpa", pairs, binary)
        top = new.amax(-1)
        values[width] = torch.nn.functional.pad(new / top[..., None], (0, emit.shape[0]))
        scales[width] = scale + top.log()
    return scales[n][:, 0] + (values[n][:, 0, :phrases] @ root).log()


def cky_apart(root: Tensor, binary: Tensor, emit: Tensor, words: Tensor) -> Tensor:
    """log Z of a PCFG, as `cky`, but with preterminals apart: no products with known zeros."""
    phrases, n = root.shape[0], words.shape[1]
    of_phrase, of_tag = binary[:, :phrases], binary[:, phrases:]  # by the left child
    nn, nt = of_phrase[:, :, :phrases], of_phrase[:, :, phrases:]
    tn, tt = of_tag[:, :, :phrases], of_tag[:, :, phrases:]
    emitted = emit[:, words].permute(1, 2, 0)
    top = emitted.amax(-1)
    word, word_scale = emitted / top[..., None], top.log()
    word_then = torch.einsum("bpx,axy->bpay", word, tn)
    then_word = torch.einsum("bpy,axy->bpax", word, nt)
    values: dict[int, Tensor] = {}
    scales: dict[int, Tensor] = {}
    for width in range(2, n + 1):
        starts = n - width + 1
        splits = range(2, width - 1)
        parts: list[tuple[Tensor, Tensor]] = []
        if width == 2:
            pair = torch.einsum("bpx,bpy->bpxy", word[:, :-1], word[:, 1:])
            new = torch.einsum("bpxy,axy->bpa", pair, tt)
            parts.append((new, word_scale[:, :-1] + word_scale[:, 1:]))
        else:
            short, its_scale, last = values[width - 1], scales[width - 1], width - 1
            new = (word_then[:, :starts] @ short[:, 1:, :, None]).squeeze(-1)
            parts.append((new, word_scale[:, :starts] + its_scale[:, 1:]))
            new = (then_word[:, last:] @ short[:, :-1, :, None]).squeeze(-1)
            parts.append((new, word_scale[:, last:] + its_scale[:, :-1]))
        if splits:
            pairs, scale = _sums(
                [values[s][:, :starts] for s in splits],
                [values[width - s][:, s : s + starts] for s in splits],
                [scales[s][:, :starts] + scales[width - s][:, s : s + starts] for s in splits],
            )
            parts.append((torch.einsum("bpxy,axy->bpa", pairs, nn), scale))
        scale = torch.stack([e for _, e in parts]).detach().amax(0)
        new = torch.stack([v * (e - scale)[..., None].exp() for v, e in parts]).sum(0)
        top = new.amax(-1)
        values[width] = new / top[..., None]
        scales[width] = scale + top.log()
    return scales[n][:, 0] + (values[n][:, 0] @ root).log()


def eisner(arc: Tensor, root: Tensor) -> Tensor:
    """log Z of projective trees with one root, in logarithms; the rest is autograd's.

    Half-trees of a width are the rows of charts `[start, parts, batch]`. Of each kind of
    half-tree there is one chart by where it begins, shortest first, and one by where it ends,
    shortest last: so what is left and what is right of a split lie side by side.
    """
    batch, n = root.shape
    one = root.new_zeros(n, 1, batch)
    left_from = left_to = right_from = right_to = one
    left_open = right_open = one[:, :0]
    for width in range(1, n):
        inner = torch.logsumexp(right_from[:-1] + left_to[1:], 1)
        to_left = inner + arc.diagonal(-width, 1, 2).mT
        to_right = inner + arc.diagonal(width, 1, 2).mT
        left_open = torch.cat([to_left[:, None], left_open[1:]], 1)
        right_open = torch.cat([right_open[:-1], to_right[:, None]], 1)
        left = torch.logsumexp(left_from[:-1] + left_open, 1)[:, None]
        right = torch.logsumexp(right_open + right_to[1:], 1)[:, None]
        left_from = torch.cat([left_from[:-1], left], 1)
        left_to = torch.cat([left, left_to[1:]], 1)
        right_from = torch.cat([right_from[:-1], right], 1)
        right_to = torch.cat([right, right_to[1:]], 1)
    return torch.logsumexp(left_from[0] + right_to[0] + root.mT, 0)


def rank_hmm(init: Tensor, step_0: Tensor, step_1: Tensor, step_2: Tensor, words: Tensor) -> Tensor:
    """log Z of an HMM in rank space, a scaled loop over the matrix of ranks, by autograd."""
    between = step_1 @ step_0
    emitted = step_2.mT[words]
    alpha = (init @ step_0) * emitted[:, 0]
    total = alpha.new_zeros(words.shape[0])
    for t in range(words.shape[1]):
        if t:
            alpha = (alpha @ between) * emitted[:, t]
        scale = alpha.sum(-1, keepdim=True)
        alpha, total = alpha / scale, total + scale[:, 0].log()
    return total + (alpha @ step_1.sum(-1)).log()


def low_rank_hmm(
    init: Tensor, trans_0: Tensor, trans_1: Tensor, emit: Tensor, words: Tensor
) -> Tensor:
    """log Z of an HMM whose transitions pass through a rank, a scaled loop, by autograd."""
    emitted = emit.mT[words]
    alpha = init * emitted[:, 0]
    total = alpha.new_zeros(words.shape[0])
    for t in range(words.shape[1]):
        if t:
            alpha = (alpha @ trans_0 @ trans_1) * emitted[:, t]
        scale = alpha.sum(-1, keepdim=True)
        alpha, total = alpha / scale, total + scale[:, 0].log()
    return total


def blocked_hmm(init: Tensor, trans: Tensor, emit: Tensor, words: Tensor, blocks: Tensor) -> Tensor:
    """log Z of an HMM whose words come from the states of one block each, a scaled loop."""
    k = emit.shape[0]
    m = init.shape[0] // k
    own = blocks[words]
    pairs = trans.view(m, k, m, k)[own[:, :-1], :, own[:, 1:]]  # [batch, n - 1, k, k]
    emitted = emit.mT[words]
    alpha = init.view(m, k)[own[:, 0]] * emitted[:, 0]
    total = alpha.new_zeros(words.shape[0])
    for t in range(words.shape[1]):
        if t:
            alpha = torch.einsum("bi,bij->bj", alpha, pairs[:, t - 1]) * emitted[:, t]
        scale = alpha.sum(-1, keepdim=True)
        alpha, total = alpha / scale, total + scale[:, 0].log()
    return total


def rank_cky(
    root: Tensor,
    binary_0: Tensor,
    binary_1: Tensor,
    binary_2: Tensor,
    emit: Tensor,
    words: Tensor,
) -> Tensor:
    """log Z of a PCFG in rank space [RS eq. 11]; a scale for each cell, autograd's gradient."""
    phrases, n = root.shape[0], words.shape[1]
    emitted = emit[:, words].permute(1, 2, 0)
    sides = []
    for side in (binary_1, binary_2):
        sides.append((side[:, :phrases] @ binary_0, emitted @ side[:, phrases:].mT))
    values: list[dict[int, Tensor]] = [{}, {}]
    tops: list[dict[int, Tensor]] = [{}, {}]
    rank = emitted
    top = emitted.new_zeros(emitted.shape[:2])
    for width in range(1, n + 1):
        starts = n - width + 1
        if width > 1:
            lefts = [values[0][k][:, :starts] for k in range(1, width)]
            rights = [values[1][width - k][:, k : k + starts] for k in range(1, width)]
            scale = torch.stack(
                [
                    tops[0][k][:, :starts] + tops[1][width - k][:, k : k + starts]
                    for k in range(1, width)
                ],
                2,
            )
            top = scale.detach().amax(2)
            weight = (scale - top[..., None]).exp()[..., None]
            rank = (torch.stack(lefts, 2) * torch.stack(rights, 2) * weight).sum(2)
        for number, (between, leaf) in enumerate(sides):
            new = leaf if width == 1 else rank @ between.mT
            most = new.detach().amax(-1)
            values[number][width] = new / most[..., None]
            tops[number][width] = most.log() + top
    return (rank[:, 0] @ (root @ binary_0)).log() + top[:, 0]


def log_td(
    root: Tensor,
    binary_0: Tensor,
    binary_1: Tensor,
    binary_2: Tensor,
    emit: Tensor,
    words: Tensor,
) -> Tensor:
    """log Z of a PCFG with decomposed rules in state space, in logarithms throughout."""
    phrases, n = root.shape[0], words.shape[1]
    emitted = emit.log()[:, words].permute(1, 2, 0)
    head, sides = binary_0.log(), (binary_1.log(), binary_2.log())

    def through(cells: Tensor, table: Tensor) -> Tensor:
        return (cells[..., None, :] + table).logsumexp(-1)

    values: list[dict[int, Tensor]] = [{1: through(emitted, side[:, phrases:])} for side in sides]
    cell = emitted
    for width in range(2, n + 1):
        starts = n - width + 1
        pairs = [
            values[0][k][:, :starts] + values[1][width - k][:, k : k + starts]
            for k in range(1, width)
        ]
        cell = through(torch.stack(pairs, 2).logsumexp(2), head)
        for number, side in enumerate(sides):
            values[number][width] = through(cell, side[:, :phrases])
    return (cell[:, 0] + root.log()).logsumexp(-1)
