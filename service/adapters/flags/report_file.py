"""Evaluation reports as the flag reads them: four fields of a JSON file, whatever else it holds."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from service.core.text import is_storable
from service.errors import InvalidReport
from service.ports.flag import FlagEvidence, Verdict

SCHEMA = "citewell-eval-1"
MAX_BYTES = 200_000_000


class _Report(msgspec.Struct):
    """What is read of a report."""

    schema: Literal["citewell-eval-1"]
    decision: Literal["GO", "NO-GO"]
    dataset_hash: Annotated[str, msgspec.Meta(pattern="^[!-~]{1,200}$")]
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]


def read_report(path: Path) -> FlagEvidence:
    """What a report decides, and on which data. Raises InvalidReport."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidReport(f"the report is larger than {MAX_BYTES} bytes", field="report")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InvalidReport(f"the report cannot be read ({type(error).__name__})", field="report") from error
    try:
        report = msgspec.json.decode(raw, type=_Report)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidReport(f"this is no {SCHEMA} report: {error}"[:300], field="report") from error
    if not is_storable(str(path)):
        raise InvalidReport("the report's name is no text", field="report")
    return FlagEvidence(str(path), Verdict(report.decision), report.dataset_hash, report.created_at)
