"""The cost of plans on GPUs: launches, bytes moved, multiply-adds, and times that follow."""
