"""Collapsed methods and samplers: counts of all items but one, draws, bounds, exact updates."""
