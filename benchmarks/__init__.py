"""Measurements of compiled programs beside what else computes the same. See README.md."""
