"""Derivations: search, sampling, minimum Bayes risk."""
