"""Grammar to grammar, for every user: conjunction, grounding, renaming, union, trimming."""
