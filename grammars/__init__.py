"""The library of grammars: one `.fgg` file each, read as package data."""
