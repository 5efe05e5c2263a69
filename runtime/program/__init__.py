"""Compiled programs: binding weights and inputs, running, asking."""
