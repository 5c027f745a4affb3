"""The lines of an archive: a sealed header, one JSON object a row, and an end that vouches for all of them.

The end's SHA-256 is over the bytes of every line between header and end, so that archives of the same data are
the same bytes but for their headers; the header vouches for itself.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, NoReturn

from service.ports.archive import NumberedRecord, Rows, refused

FORMAT: Final = 1
RECORD: Final = "record"  # the key that says what a line is
HEADER: Final = "header"
END: Final = "end"
_SEAL: Final = "sha256"


@dataclass(frozen=True, slots=True)
class Header:
    """Where an archive comes from. `workspace` is None when it holds all; `created_at` is ISO 8601."""

    format: int
    schema: str
    database_id: str
    workspace: str | None
    created_at: str


@dataclass(slots=True)
class Tally:
    """What has passed between header and end."""

    counts: Counter[str] = field(default_factory=Counter)
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, line: bytes, kind: str) -> None:
        """Take a line, its end included, into account."""
        self.digest.update(line)
        self.counts[kind] += 1

    def end(self) -> dict[str, object]:
        """The fields of the end that this amounts to."""
        return {"counts": dict(sorted(self.counts.items())), _SEAL: self.digest.hexdigest()}


def encoded(kind: str, fields: Mapping[str, object]) -> bytes:
    """One line; the same fields give the same bytes."""
    text = json.dumps({RECORD: kind, **fields}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def encoded_header(header: Header) -> bytes:
    """The first line."""
    fields = asdict(header)
    return encoded(HEADER, {**fields, _SEAL: _seal(fields)})


def encoded_rows(rows: Rows, tally: Tally) -> bytes:
    """The lines of some rows."""
    lines = [encoded(rows.kind, fields) for fields in rows.rows]
    for line in lines:
        tally.add(line, rows.kind)
    return b"".join(lines)


def decoded(line: bytes, number: int) -> tuple[str, NumberedRecord]:
    """A line's kind and the rest of it. Raises UnreadableDocument."""
    try:
        value = json.loads(line.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise refused(number, "is not JSON") from error
    if not isinstance(value, dict) or not isinstance(value.get(RECORD), str):
        raise refused(number, "is no record")
    kind: str = value.pop(RECORD)
    return kind, NumberedRecord(number, value)


def check_header(line: bytes, schemas: Sequence[str]) -> Header:
    """The header, if this version can read what follows. Raises UnreadableDocument."""
    kind, record = decoded(line, 1)
    fields = dict(record.fields)
    seal = fields.pop(_SEAL, None)
    if kind != HEADER or "format" not in fields:
        raise refused(1, "is not the header of an archive")
    if fields["format"] != FORMAT:
        raise refused(1, f"names the format {str(fields['format'])[:20]}; this version reads {FORMAT}")
    if seal != _seal(fields) or fields.keys() != Header.__dataclass_fields__.keys():
        raise refused(1, "was altered")
    header = Header(**fields)  # type: ignore[arg-type] # sealed: it is what encoded_header was given
    if header.schema not in schemas:
        raise refused(1, f"names the schema {header.schema[:20]}, which a newer version of citewell wrote")
    return header


def check_end(record: NumberedRecord, tally: Tally) -> None:
    """Raises UnreadableDocument unless the end vouches for just these lines."""
    if record.fields != tally.end():
        raise refused(record.line, "does not vouch for the lines before it: the archive was altered")


def _seal(fields: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
