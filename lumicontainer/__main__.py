"""Run the command line with ``python -m lumicontainer``."""

from lumicontainer.cli import main

raise SystemExit(main())
