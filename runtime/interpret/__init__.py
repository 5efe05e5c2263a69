"""Plans carried out in any semiring."""
