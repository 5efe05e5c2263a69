"""Moment matching: parameters whose moments are nearest to those of data, and their precision.

It asks for no structure: moments and their derivatives are those that `identify` computes.
"""
