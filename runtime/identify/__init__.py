"""Identifiability: what moments determine of a grammar, and how to get it from them."""
