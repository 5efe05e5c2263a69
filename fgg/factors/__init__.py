"""Factors that follow from others: maps, pieces of low rank, products."""
