"""The subcommands of `fggc`, one in each module."""
