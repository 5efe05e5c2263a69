"""Inputs: the values users give, clamps that read them, several clamps that read one token."""
