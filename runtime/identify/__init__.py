"""Identifiability: which parameters of a grammar the moments of its strings determine."""
