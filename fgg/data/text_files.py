"""Text files: where data lie (`FGG_DATA`), and lines of files that may be compressed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from fgg.diagnostics import refuse
from fgg.files import open_regular, reason_of, unreadable

VARIABLE = "FGG_DATA"
MAX_LINE = 1 << 26  # bytes: a longer line is no text, or would not fit

_MAGIC: dict[bytes, Callable[[Path, str], object]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh1AY&SY": bz2.open,
}
_SUFFIXES = (".gz", ".xz", ".bz2")


def find(name: str) -> Path:
    """The path of a data file: in the folder `FGG_DATA`, else in `shared/data` beside the checkout.

    Raises GrammarError (F401), whose help names the variable, if there is no such file.
    """
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get(VARIABLE) or beside)
    path = folder / name
    if not path.exists():
        help = f"set `{VARIABLE}` to the folder that holds it"
        refuse("F401", f"there is no `{name}` in `{folder}`", help)
    return path


class TextLine(NamedTuple):
    """A line without its end, and its number, counted from 1."""

    number: int
    text: str


Report = Callable[[str, int, str, str], None]
"""Reports a line that a reader cannot use: code, line number, message, help."""


def plain_suffix(path: Path) -> str:
    """The suffix of a file's name without that of compression: `.txt` for `train.txt.xz`."""
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return Path(name).suffix


def read_lines(path: Path, report: Report) -> Iterator[TextLine]:
    """The lines of a file, read lazily. Its first bytes, not its name, tell how it is compressed.

    Only `\\n` and `\\r\\n` end a line. A line that is not UTF-8 is reported and left out. Raises
    GrammarError (F401, F480, F481) if the file cannot be read or decompressed.
    """
    try:
        with _opened(path) as file:
            number = 0
            while data := file.readline(MAX_LINE):
                number += 1
                if len(data) == MAX_LINE and not data.endswith(b"\n"):
                    refuse("F481", f"{path}:{number}: more than {MAX_LINE:,} bytes in a line")
                if number == 1:
                    data = data.removeprefix(b"\xef\xbb\xbf")
                try:
                    text = data.decode()
                except UnicodeDecodeError as error:
                    wrong = f"byte {error.start + 1} is not UTF-8"
                    report("F481", number, wrong, "save the file in the encoding UTF-8")
                    continue
                yield TextLine(number, text.removesuffix("\n").removesuffix("\r"))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        reason = str(error).lower().rstrip(".")
        refuse("F480", f"`{path}` cannot be unpacked: {reason}")
    except OSError as error:
        if error.errno is None:  # bzip2 has no error of its own
            reason = reason_of(error)
            refuse("F480", f"`{path}` cannot be unpacked: {reason}")
        raise unreadable(path, error) from None


def _opened(path: Path) -> IO[bytes]:
    file = open_regular(path)
    try:
        start = file.read(10)
        file.seek(0)
        if start[4:] == b"1AY&SY":
            start = start[:3] + start[4:]  # bzip2: the fourth byte is a level
        for magic, opener in _MAGIC.items():
            if start.startswith(magic):
                file.close()
                return cast(IO[bytes], opener(path, "rb"))
    except BaseException:
        file.close()
        raise
    return file
