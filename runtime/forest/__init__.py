"""Derivation forests: all derivations of one item as a small program of sums and products."""
