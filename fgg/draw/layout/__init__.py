"""Where everything in a picture lies: rows, places along them, labels."""
