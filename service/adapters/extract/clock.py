"""Processor time as a bound: a small document can ask for days of work within every other bound."""

from time import thread_time

from service.errors import TooLarge


class Clock:
    """Counts the processor time of the thread that made it, so a busy machine refuses nothing by chance."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = thread_time() + seconds

    def check(self, *_event: object) -> None:
        """Called at every step of the work, whatever the caller passes along.

        Raises:
            TooLarge: the time is over.
        """
        if thread_time() > self._end:
            raise TooLarge(f"The document takes more than {self._seconds:g} s to read.")
