"""What a SLURM job starts: submitit's entry, where the node's interpreter is new enough for it.

Every Python since 2.7 must be able to read this file, to say that it is too old.
"""

import sys

OLDEST = (3, 11)


def main():  # type: () -> None  # noqa: ANN201 - no annotation in Python 2
    """Runs submitit on the arguments of this process; ends it where it cannot be run."""
    if sys.version_info < OLDEST:
        found, oldest = (".".join(map(str, parts)) for parts in (sys.version_info[:3], OLDEST))
        sys.exit(
            "the node's interpreter must be Python " + oldest + " or later, got " + found + ": "
            "" + sys.executable + "; name another one with cluster.python "
            "(cluster.container.python in a container)"
        )
    from submitit.core.submission import submitit_main

    submitit_main()


if __name__ == "__main__":
    main()
