"""The golden fixture itself."""

from pathlib import Path

import pytest

from tests.conftest import TESTS, Golden, golden_stem


def test_missing_file_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="is missing"):
        Golden(tmp_path / "claim", update=False)("text")


def test_updating_writes_what_is_then_accepted(tmp_path: Path) -> None:
    stem = tmp_path / "new" / "claim"
    Golden(stem, update=True)("one\ntwo\n", "fgg")
    Golden(stem, update=False)("one\ntwo\n", "fgg")
    assert [path.name for path in stem.parent.iterdir()] == ["claim.fgg"]


def test_different_text_fails(tmp_path: Path) -> None:
    Golden(tmp_path / "claim", update=True)("one\n")
    with pytest.raises(AssertionError, match="differs"):
        Golden(tmp_path / "claim", update=False)("one")


def test_names_become_paths() -> None:
    module = TESTS / "compiler" / "test_emit.py"
    stem = golden_stem(TESTS, module, ("TestLoops", "test_chain[a b-2]"))
    assert stem == TESTS / "golden" / "compiler" / "emit" / "TestLoops-chain-a-b-2"


def test_fixture_knows_its_test(golden: Golden) -> None:
    assert golden.stem == TESTS / "golden" / "project" / "golden" / "fixture_knows_its_test"
