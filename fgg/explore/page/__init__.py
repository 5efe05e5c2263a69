"""The files of the explorer's page."""
