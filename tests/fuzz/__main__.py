"""Entry point of `python -m tests.fuzz`."""

import sys

from tests.fuzz.fuzz import main

sys.exit(main(sys.argv[1:]))
