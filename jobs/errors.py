"""The exceptions of launching and gathering; a user's mistake is one line, never a traceback."""


class JobError(Exception):
    """Base of every error that the tool explains by itself."""


class UsageError(JobError):
    """The command asked for something that cannot be: told in one line, exit code 2."""


class SubmissionError(JobError):
    """The scheduler refused a submission, or could not be reached."""


class LedgerError(JobError):
    """A sweep's folder could not be made, written or read."""


class RecordError(JobError):
    """A file that should hold a record does not."""
