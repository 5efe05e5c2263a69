"""Inputs: what users give, paths into a position's value, and where rules read it."""
