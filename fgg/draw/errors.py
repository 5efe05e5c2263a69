"""What can go wrong when drawing."""

from __future__ import annotations


class MissingExtra(ImportError):
    """A library that only drawing needs is not installed."""

    def __init__(self, library: str, purpose: str) -> None:
        """Name the library and what it is needed for."""
        super().__init__(f'{purpose} needs {library}; install it with: pip install "fgg[draw]"')
        self.library = library
        self.purpose = purpose


class TooLarge(ValueError):
    """A grammar has too many rules, or a rule too many nodes, for a picture of use to anyone."""
