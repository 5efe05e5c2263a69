"""Streams: every token in one window, rows that go on, and a resumed run that goes on."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgg.data import Example, TokenStream, Windows, token_stream
from fgg.data import streams as module
from fgg.diagnostics import GrammarError


def examples(ids: list[list[int]]) -> list[Example]:
    return [Example(words=tuple(map(str, row)), ids=tuple(row)) for row in ids]


def test_sentences_become_one_row_of_tokens() -> None:
    text = examples([[1, 2], [], [3]])
    assert token_stream(text).ids.tolist() == [1, 2, 3]
    assert token_stream(text, end=9).ids.tolist() == [1, 2, 9, 9, 3, 9]
    stream = token_stream(text, end=9, begins=lambda e: 3 in (e.ids or ()))
    assert stream.starts.tolist() == [0, 4]
    assert token_stream([]).ids.tolist() == []


def test_tokens_on_disk_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)
    text = examples([[1, 2, 3], [4, 5], [6], [7]])
    memory, disk = token_stream(text, end=0), token_stream(text, end=0, path=tmp_path / "ids.bin")
    assert isinstance(disk.ids, np.memmap)
    assert disk.ids.tolist() == memory.ids.tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["ids.bin"]
    with pytest.raises(GrammarError, match="F413"):
        token_stream(text, path=tmp_path / "none" / "ids.bin")


def test_a_failure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 1)
    with pytest.raises(AssertionError):
        token_stream([*examples([[1], [2]]), Example(words=("x",))], path=tmp_path / "ids.bin")
    assert list(tmp_path.iterdir()) == []


def test_rows_are_read_side_by_side() -> None:
    tokens = TokenStream(np.arange(7, dtype=np.int32), np.array([0]))
    first, second = Windows(tokens=tokens, rows=2, length=2)
    assert first.ids.tolist() == [[0, 1], [4, 5]]
    assert first.continues.tolist() == [False, False]
    assert second.ids.tolist() == [[2, 3], [6, -1]]
    assert second.lengths.tolist() == [2, 1]
    assert second.continues.tolist() == [True, True]


def test_windows_end_with_documents() -> None:
    tokens = TokenStream(np.arange(7, dtype=np.int32), np.array([0, 3, 5]))
    windows = list(Windows(tokens=tokens, rows=2, length=2, documents=True))
    assert [w.ids.tolist() for w in windows] == [
        [[0, 1], [5, 6]],
        [[2, -1], [-1, -1]],
        [[3, 4], [-1, -1]],
    ]
    assert [w.continues.tolist() for w in windows] == [
        [False, False],
        [True, False],
        [False, False],
    ]


@given(
    total=st.integers(0, 60),
    starts=st.sets(st.integers(1, 59), max_size=8),
    rows=st.integers(1, 5),
    length=st.integers(1, 7),
    documents=st.booleans(),
    data=st.data(),
)
def test_each_token_is_in_one_window_in_order(
    total: int, starts: set[int], rows: int, length: int, documents: bool, data: st.DataObject
) -> None:
    begins = np.array(sorted({0, *(s for s in starts if s < total)}))
    tokens = TokenStream(np.arange(total, dtype=np.int32), begins)
    settings = Windows(tokens=tokens, rows=rows, length=length, documents=documents)
    windows = list(settings)
    seen = []
    for row in range(rows):
        mine = [w.ids[row, : w.lengths[row]] for w in windows]
        flat = np.concatenate([*mine, np.zeros(0, np.int64)]).tolist()
        assert flat == list(range(flat[0], flat[0] + len(flat))) if flat else True
        seen += flat
        for window, piece in zip(windows, mine, strict=True):
            if documents and len(piece):
                assert not set(piece[1:].tolist()) & set(begins.tolist())
                assert window.continues[row] == (piece[0] not in begins)
            elif len(piece):
                assert window.continues[row] == (window.after > 1)
    assert seen == list(range(total))
    world = data.draw(st.integers(1, rows))
    for rank in range(world):
        part = Windows(
            tokens=tokens, rows=rows, length=length, documents=documents, rank=rank, world=world
        )
        for whole, share in zip(windows, part, strict=True):
            assert (whole.ids[rank::world] == share.ids).all()
    stop = data.draw(st.integers(0, len(windows)))
    for one, other in zip(settings.start(stop), windows[stop:], strict=True):
        assert (one.ids == other.ids).all() and one.after == other.after
