"""Inputs: what users give, clamps that read it, and several clamps that read one token."""
