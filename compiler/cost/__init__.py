"""The cost of plans, and the choice of the cheapest space."""
