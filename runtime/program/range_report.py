"""How many items needed more range than their numbers have: what users are told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RangeReport:
    """How many items a program has computed, and how many of them it had to compute again.

    `lifted`: bounds showed that what was lost does not matter. `float64` and `logarithms`: they
    needed more range.
    """

    items: int = 0
    lifted: int = 0
    float64: int = 0
    logarithms: int = 0

    @property
    def wider(self) -> int:
        """How many items needed more range than their numbers have."""
        return self.float64 + self.logarithms

    def as_json(self) -> dict[str, int]:
        """The numbers by name."""
        return dict(vars(self))

    def line(self) -> str:
        """A sentence for the user, or an empty text if no item needed more range."""
        if not self.wider:
            return ""
        parts = [f"{self.float64:,} in float64"] if self.float64 else []
        parts += [f"{self.logarithms:,} in logarithms"] if self.logarithms else []
        return (
            f"{self.wider:,} of {self.items:,} items needed more range than their numbers have: "
            f"they were computed {' and '.join(parts)}"
        )
