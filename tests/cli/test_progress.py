"""What people are shown while a command works for long; a test's clock strikes when it likes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from threading import Event

import pytest

from fgg.cli import main, progress
from fgg.cli.progress import PATIENCE, ProgressDisplay, shown_progress
from fgg.progress import heard_by, stage


@pytest.fixture(autouse=True)
def no_progress() -> None:
    """Here progress is what is tested."""


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Waits:
    """Time that passes when it is waited for; the work ends after so many waits."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return len(self.seconds) > self.number


def lines(number: int, *stages: tuple[str, int, int]) -> list[str]:
    """The lines that are printed to a stream after so many waits."""
    shown = ProgressDisplay(StringIO(), Waits(number))
    with heard_by(shown):
        opened = [stage(what, total) for what, _, total in stages]
        for context, (_, done, _) in zip(opened, stages, strict=True):
            context.__enter__().done = done
        shown.run()
    assert isinstance(shown.stream, StringIO)
    return shown.stream.getvalue().splitlines()


def test_quick_work_is_silent() -> None:
    waits = Waits(0)
    shown = ProgressDisplay(StringIO(), waits)
    shown.run()
    assert waits.seconds == [PATIENCE] == [10.0]
    assert lines(0, ("level", 3, 5)) == []


def test_a_stream_gets_a_line_now_and_then() -> None:
    assert lines(1, ("level", 120, 400)) == ["still working after 10 s: level 120 of 400"]
    assert lines(2, ("comparison", 3, 40), ("item", 7, 0))[1:] == [
        "still working after 20 s: comparison 3 of 40, item 7"
    ]
    times = [line.split(":")[0].split("after ")[1] for line in lines(7)]
    assert times == ["10 s", "20 s", "40 s", "80 s", "160 s", "240 s", "320 s"]


def test_a_terminal_gets_bars_that_go_away() -> None:
    stream = Terminal()
    shown = ProgressDisplay(stream, Waits(2))
    with heard_by(shown):
        with stage("level", 400) as level:
            level.done = 120
            shown.run()
            assert shown.bars is not None
            assert [(t.description, t.completed, t.total) for t in shown.bars.bar.tasks] == [
                ("level", 120, 400)
            ]
        assert shown.bars is None
    assert "level" in stream.getvalue() and "120/400" in stream.getvalue()


def test_bars_follow_the_stages() -> None:
    seen: list[list[str]] = []

    def wait(seconds: float) -> bool:
        try:
            next(work)
        except StopIteration:
            return True
        return False

    def working() -> Iterator[None]:
        yield
        with stage("rule", 2):
            yield
            look()
            with stage("level", 3):
                yield
                look()
            yield
            look()
        assert shown.bars is None
        yield

    def look() -> None:
        assert shown.bars is not None
        seen.append([task.description for task in shown.bars.bar.tasks])

    shown = ProgressDisplay(Terminal(), wait)
    work = working()
    with heard_by(shown):
        shown.run()
    assert seen == [["rule"], ["rule", "level"], ["rule"]]


def test_json_is_told_to_nobody_but_a_person() -> None:
    for stream, quiet, told in (
        (StringIO(), True, False),
        (StringIO(), False, True),
        (Terminal(), True, True),
        (None, False, False),
    ):
        struck = Event()

        def wait(seconds: float, struck: Event = struck) -> bool:
            struck.set()
            return True

        with shown_progress(stream, quiet=quiet, wait=wait):
            if told:
                assert struck.wait(60)
        assert struck.is_set() == told


def test_a_closed_stream_is_left_alone() -> None:
    stream = StringIO()
    stream.close()
    with shown_progress(stream, quiet=False):
        pass


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run hmm --length n=40 --seed 1 --ground", "level"),
        ("run pcfg --length n=12 --seed 1", "level"),
        ("identify hmm --length 3", "block of columns"),
        ("verify hmm --length 2 --items 4", "comparison"),
        ("sample hmm --length n=5 --seed 1 --number 50", "draw"),
    ],
)
def test_commands_report_on_standard_error_alone(
    command: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 0
    expected = capsys.readouterr()
    begun: list[str] = []
    begin = ProgressDisplay.begin

    def kept(self: ProgressDisplay, new: object) -> None:
        begun.append(str(new).split(" ")[0])
        begin(self, new)  # type: ignore[arg-type]

    monkeypatch.setattr(ProgressDisplay, "begin", kept)
    assert main(command.split()) == 0
    again = capsys.readouterr()
    assert again == expected and said.split(" ")[0] in begun


def test_a_slow_command_says_so() -> None:
    script = "from fgg.cli import main, progress; progress.PATIENCE = 0.01; main({!r})"
    words = "identify hmm --set k=12 d=12 --length 3".split()
    done = subprocess.run(
        [sys.executable, "-c", script.format(words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "still working after" in done.stderr and "still working" not in done.stdout


def test_patience_is_ten_seconds() -> None:
    assert progress.PATIENCE == 10.0
