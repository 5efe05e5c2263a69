"""Rank space: the pass that sums out state nodes, and its parts [RS §4]."""
