"""Examples: stories on real data, each with one command, and grammars that are not in the library."""
