"""What a plan costs, and which space is cheapest."""
