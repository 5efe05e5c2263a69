"""Models: parameters, networks, files, decomposition."""
