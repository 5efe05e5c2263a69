"""Rank space: the pass that sums out state nodes, and what it is made of [RS §4]."""
