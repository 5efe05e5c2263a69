"""From a syntax tree to a grammar."""
