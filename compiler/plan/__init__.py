"""From a grammar to a plan: schedule, boxes, contraction orders, lowering."""
