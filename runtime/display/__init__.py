"""How results are shown: derivations drawn and written, marginals as tables, programs, fits."""
