"""The one exception for mistakes a user can mend."""


class ExhirdError(Exception):
    """A user's mistake: shown as one sentence that names the remedy, never as a stack trace."""
