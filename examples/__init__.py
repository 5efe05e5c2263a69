"""Examples: stories on real data, one command each; grammars that are not in the library."""
