"""The JSON format of the `fggs` library."""
