"""`python -m hub.cli`, for where the `hub` command is not on the PATH."""

import sys

from hub.cli import main

sys.exit(main())
