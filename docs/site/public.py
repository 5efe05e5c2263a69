"""The public names: what the reference describes, and what changes only on purpose."""

from __future__ import annotations

MODULES = (
    *("fgg", "fgg.build", "fgg.rewrite", "fgg.check", "fgg.low_rank", "fgg.reference"),
    *("fgg.json", "fgg.data", "fgg.draw", "fgg.library", "fgg.results"),
)
CLASSES = ("Derivation", "Model", "Posterior", "Program")
"""The classes of `fgg` whose members are public, too."""


def public_names(module: object) -> list[str]:
    """The names that a module promises: those it lists, or else those it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    home = getattr(module, "__name__", "")
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == home
    )
