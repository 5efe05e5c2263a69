"""Passes: functions from grammar to grammar that keep its meaning, one in each file."""
