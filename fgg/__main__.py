"""`python -m fgg` is `fggc`."""

from fgg.cli import main

raise SystemExit(main())
