"""Plans as programs: Python for torch, and C++."""
