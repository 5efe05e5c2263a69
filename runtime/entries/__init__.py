"""Weights that are made where they are read: entries of factors that networks make."""
