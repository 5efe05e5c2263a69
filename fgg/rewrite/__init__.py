"""Rewriting grammars: functions from grammars to grammars."""

from fgg.rewrite.conjoin import conjoin, conjunction
from fgg.rewrite.factorise import factorise
from fgg.rewrite.ground import ground
from fgg.rewrite.plain import plain
from fgg.rewrite.rename import rename
from fgg.rewrite.trim import trim
from fgg.rewrite.union import union

__all__ = [
    "conjoin",
    "conjunction",
    "factorise",
    "ground",
    "plain",
    "rename",
    "trim",
    "union",
]
