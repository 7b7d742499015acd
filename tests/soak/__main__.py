"""Entry point of `python -m tests.soak`."""

import sys

from tests.soak.soak import main

sys.exit(main(sys.argv[1:]))
