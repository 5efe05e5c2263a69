"""Identifiability: the rank of the Jacobian of a grammar's moments [ID §3]."""
