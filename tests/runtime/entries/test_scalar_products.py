"""Weights from scalar products: any part, as the dense softmax has it."""

from __future__ import annotations

import pytest
import torch

from fgg.runtime.entries import scalar_products
from fgg.runtime.entries.scalar_products import ScalarProducts, log_normaliser, side_indices


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("at_once", [1, 7, 20, 10**6])
def test_normalisers_are_those_of_all_products(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalar_products, "AT_ONCE", at_once)
    left, right = vectors(6, 3), vectors(7, 3, seed=1)
    torch.testing.assert_close(log_normaliser(left, right), (left @ right.T).logsumexp(-1))
    assert torch.autograd.gradcheck(log_normaliser, (left, right))


def test_a_block_without_columns_has_a_normaliser_that_nothing_reads() -> None:
    assert torch.equal(log_normaliser(vectors(2, 3), vectors(0, 3)), torch.zeros(2).double())


def test_parts_and_their_gradients_are_those_of_the_whole() -> None:
    left, right = vectors(5, 3), vectors(6, 3, seed=1)
    rows = torch.tensor([[0, 4], [2, 4], [3, 3]])
    columns = torch.tensor([[5, 1, 0], [0, 1, 2], [4, 4, 5]])
    whole = (left @ right.T).softmax(-1)
    cases = [
        (rows, columns, whole[rows.unsqueeze(-1), columns.unsqueeze(1)]),
        (rows[:1], columns, whole[rows[:1].unsqueeze(-1), columns.unsqueeze(1)]),
        (rows, columns[:1], whole[rows.unsqueeze(-1), columns[:1].unsqueeze(1)]),
    ]
    for some, others, wanted in cases:
        made = ScalarProducts(left, right).weights(some, others)
        torch.testing.assert_close(made, wanted)
        probe = torch.randn(wanted.shape, dtype=torch.float64)
        got = torch.autograd.grad((made * probe).sum(), (left, right))
        want = torch.autograd.grad((wanted * probe).sum(), (left, right), retain_graph=True)
        torch.testing.assert_close(got, want)


def test_blocks_are_normalised_by_themselves() -> None:
    left, right = vectors(3, 2, 4), vectors(6, 4, seed=1)  # [blocks, rows, dim]
    blocks = torch.tensor([2, 0, 2, 0, 0, 2])  # block 1 is empty
    products = ScalarProducts(left, right, blocks=blocks)
    columns = torch.arange(6).reshape(-1, 1)
    rows = blocks.reshape(-1, 1) * 2 + torch.arange(2)
    made = products.weights(rows, columns)[:, :, 0].T  # [rows, columns]
    wanted = torch.zeros(2, 6, dtype=torch.float64)
    for block in (0, 2):
        members = torch.nonzero(blocks == block)[:, 0]
        wanted[:, members] = (left[block] @ right[members].T).softmax(-1).detach()
    torch.testing.assert_close(made.detach(), wanted)
    probe = torch.randn(2, 6, dtype=torch.float64)
    (by_left,) = torch.autograd.grad((made * probe).sum(), left)
    assert (by_left[1] == 0).all() and (by_left[[0, 2]] != 0).any()


def test_each_normaliser_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = scalar_products.log_normaliser

    def counted(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        asked.append(len(left))
        return plain(left, right)

    monkeypatch.setattr(scalar_products, "log_normaliser", counted)
    products = ScalarProducts(vectors(9, 3), vectors(4, 3, seed=1))
    for derived in (True, False):
        with torch.set_grad_enabled(derived):
            one = products.log_sums(torch.tensor([1, 3]))
            more = products.log_sums(torch.tensor([0, 1, 3, 8]))
        assert torch.equal(one, more[1:3]) and more.requires_grad is derived
    assert asked == [2, 2, 2, 2]


def test_steps_of_a_slice_name_rows_and_columns() -> None:
    from fgg.grammar.slices import Narrow, Unfold

    left, right = side_indices((6, 6), 1, [Unfold(0, (3, 2)), Unfold(2, (3, 2))])
    assert left.shape == right.shape == (3, 2)
    left, right = side_indices((6, 5, 4), 1, [Narrow(1, 2, 3), Unfold(2, (2, 2))])
    assert left.tolist() == list(range(6)) and right.shape == (3, 2, 2)
    assert right[0].tolist() == [[8, 9], [10, 11]]
