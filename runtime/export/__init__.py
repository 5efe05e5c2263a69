"""Programs as ahead-of-time packages that need no Python."""
