"""Passes: functions from grammar to grammar that keep its meaning, one a file."""
