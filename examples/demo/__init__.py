"""The demo: `make demo` runs it."""
