"""Why something stays in state space: a rule, a node of it, and the reason."""

from __future__ import annotations


class NotRankSpace(Exception):
    """A rule and a node of it that keep a grammar out of rank space, and the reason."""

    def __init__(self, rule: str, node: str | None, reason: str) -> None:
        where = f"rule `{rule}`" + (f", node `{node}`" if node is not None else "")
        super().__init__(f"{where}: {reason}")
        self.rule = rule
        self.node = node
        self.reason = reason
