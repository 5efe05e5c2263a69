"""The subcommands of `fggc`, one a module."""
