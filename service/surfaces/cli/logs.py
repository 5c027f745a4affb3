"""Where log lines go: standard error, as JSON for machines and as text on a terminal."""

import logging
import sys
from typing import TextIO

import structlog

CHATTY = ("alembic", "uvicorn.error")  # they log every step of a start that went well


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to whatever standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self.setStream(sys.stderr)
        super().emit(record)


def logs_to_stderr(level: str) -> None:
    """Send the project's and the libraries' log lines of a level and above to standard error."""
    handler = StandardError()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel("DEBUG" if level == "DEBUG" else "WARNING")
    logging.getLogger("pypdf").setLevel("ERROR")  # a damaged file can warn once for every object in it
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            renderer,
        ],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
