"""The exceptions of launching and gathering; a user's mistake is one line, never a traceback."""


class JobError(Exception):
    """Base of every error that the tool explains by itself.

    Attributes:
        exit_code: What the command ends with; 2 says that nothing was done.
    """

    exit_code = 2


class UsageError(JobError):
    """The command asked for something that cannot be: told in one line, exit code 2."""


class SubmissionError(JobError):
    """The scheduler refused a submission, or could not be reached."""


class PartlySubmittedError(SubmissionError):
    """A part of a sweep was submitted, and something then went wrong here."""

    exit_code = 1


class LedgerError(JobError):
    """A sweep's folder could not be made, written or read."""


class RecordError(JobError):
    """A file that should hold a record does not."""
