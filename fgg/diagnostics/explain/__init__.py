"""One page an error code, read as package data and shown by `fggc explain`."""
