"""`python -m hub.cli`: runs the `hub` command where it is not on the PATH."""

import sys

from hub.cli import main

sys.exit(main())
