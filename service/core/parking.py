"""How long a passage that could not be embedded waits before it is tried again."""

from datetime import timedelta

FIRST_WAIT = timedelta(minutes=1)
LONGEST_WAIT = timedelta(hours=6)
_DOUBLINGS = 9  # from there on it is the longest wait


def retry_after(attempts: int) -> timedelta:
    """A minute after the first attempt, twice as long after every further one, six hours at most."""
    return min(FIRST_WAIT * (1 << min(attempts - 1, _DOUBLINGS)), LONGEST_WAIT)
