"""Reading files that may be endless, unreadable, or not what they seem."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO


def read_limited(path: Path, limit: int) -> bytes:
    """The bytes of a file. Raises OSError, or ValueError if there are more than `limit`."""
    if path.is_dir():
        raise IsADirectoryError(0, "it is a folder")
    with open(path, "rb") as file:
        return read_stream(file, limit)


def read_stream(file: BinaryIO, limit: int) -> bytes:
    """The bytes of a stream. Raises ValueError if there are more than `limit`."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data
