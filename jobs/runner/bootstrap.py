"""Entry point of a SLURM job: checks the node's Python version, then starts submitit.

This file must parse on every Python since 2.7, so that an old interpreter gets a clear message.
"""

import sys

OLDEST = (3, 11)


def main():  # type: () -> None  # noqa: ANN201 - no annotation in Python 2
    """Run submitit on this process's arguments, or exit with a message if Python is too old."""
    if sys.version_info < OLDEST:
        version, oldest = (".".join(map(str, parts)) for parts in (sys.version_info[:3], OLDEST))
        sys.exit(
            "the node's interpreter must be Python " + oldest + " or later, got " + version + ": "
            "" + sys.executable + "; set cluster.python to another one "
            "(cluster.container.python in a container)"
        )
    from submitit.core.submission import submitit_main

    submitit_main()


if __name__ == "__main__":
    main()
