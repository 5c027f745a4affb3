"""Where log lines go: standard error, as one JSON object a line for machines and as text on a terminal.

The project's own lines and the libraries' look alike: `time`, `level`, `event`, and inside a request
`request_id`. What could hold a secret or what a caller asked is kept out in two ways: libraries that log their
input are quiet at every level, and whatever looks like a credential is struck out of the finished line.
"""

import logging
import re
import sys
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

CHATTY: Final = ("alembic", "uvicorn.error")  # they log every step of a start that went well
# They log statements with their values, headers with their keys, or URLs with their passwords.
OUTSPOKEN: Final = ("aiosqlite", "asyncpg", "hpack", "httpcore", "httpx", "sqlalchemy", "urllib3")
STRUCK_OUT: Final = "***"
_SECRETS: Final = (
    re.compile(r"()cw_[0-9a-f]{16}_[A-Za-z0-9_-]+()"),  # API keys
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}()"),
    re.compile(r"(://)[^\s/@'\"\\]+(@)"),  # who logs in to a URL, and with what
    re.compile(
        r"(?i)((?:api[-_]?key|authorization|password|passwd|secret|token)"
        r"(?:\s*[:=]\s*b?['\"]?|\\*['\"]\s*[:,]\s*b?\\*['\"]))[^\s'\",;&}\\]+()"
    ),
)


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to whatever standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self.setStream(sys.stderr)
        super().emit(record)


def logs_to_stderr(level: str) -> None:
    """Send the project's and the libraries' log lines of a level and above to standard error."""
    both: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    last: list[Processor] = [*_rendering(), strike_out]
    handler = StandardError()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*both, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel("DEBUG" if level == "DEBUG" else "WARNING")
    for outspoken in OUTSPOKEN:
        logging.getLogger(outspoken).setLevel("WARNING")
    logging.getLogger("pypdf").setLevel("ERROR")  # a damaged file can warn once for every object in it
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        processors=[*both, *last],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def strike_out(_: WrappedLogger, __: str, line: str | EventDict) -> str:
    """The finished line without what looks like a credential: the last word, whoever wrote the line."""
    text = str(line)
    for secret in _SECRETS:
        text = secret.sub(rf"\1{STRUCK_OUT}\2", text)
    return text


def _rendering() -> list[Processor]:
    """Tracebacks are text without local variables: those would show what callers sent."""
    if sys.stderr.isatty():
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(timestamp_key="time", exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
