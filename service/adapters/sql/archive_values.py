"""Columns to JSON values and back: the column's type says what an archive may hold."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, String
from sqlalchemy.types import TypeEngine

from service.adapters.sql.archive_tables import ArchivedTable, StoredRow
from service.adapters.sql.schema import UtcDateTime
from service.core.text import is_storable
from service.ports.archive import Value

_SMALL: Final = 2**31 - 1
_LARGE: Final = 2**53


class WrongValue(Exception):
    """A field that its column cannot hold; the text says which. Never leaves the adapter."""


def given(value: object) -> Value:
    """A stored value as JSON has it; moments in ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int | float | list):
        return value
    raise TypeError(type(value).__name__)


def taken(archived: ArchivedTable, fields: Mapping[str, object]) -> StoredRow:
    """An archive's row as its table stores it. Raises WrongValue."""
    columns = archived.columns
    if fields.keys() != {column.name for column in columns}:
        wrong = sorted(fields.keys() ^ {column.name for column in columns})
        raise WrongValue(f"lacks or has too much: {', '.join(wrong)[:80]}")
    return {
        column.name: _checked(column, fields[column.name], archived.choices.get(column.name))
        for column in columns
    }


def _checked(column: Column[object], value: object, choices: type[StrEnum] | None) -> object:
    try:
        read = _read(column, value)
        if choices is not None and read is not None:
            for word in read if isinstance(read, list) else [read]:
                choices(str(word))
    except (ValueError, TypeError, OverflowError) as error:
        raise WrongValue(f"has a wrong {column.name}") from error
    return read


def _read(column: Column[object], value: object) -> object:
    """Raises ValueError, TypeError or OverflowError."""
    if value is None:
        if not column.nullable:
            raise ValueError("null")
        return None
    return _read_given(column.type, value)


def _read_given(kind: TypeEngine[object], value: object) -> object:
    match kind:
        case UtcDateTime():
            return _moment(value)
        case Boolean():
            return _truth(value)
        case Integer():
            return _number(value, _LARGE if isinstance(kind, BigInteger) else _SMALL)
        case Double():
            return _finite(value)
        case String():
            return _text(value, kind.length)
        case _:
            return _texts(value)  # JSON columns are lists of words


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("truth")
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise TypeError("list")
    return [_text(part, None) for part in value]


def _text(value: object, length: int | None) -> str:
    if not isinstance(value, str):
        raise TypeError("text")
    if not is_storable(value) or (length is not None and len(value) > length):
        raise ValueError("text")
    return value


def _number(value: object, largest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("whole number")
    if not 0 <= value <= largest:
        raise ValueError("range")
    return value


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("number")
    return float(value)


def _moment(value: object) -> datetime:
    if not isinstance(value, str):
        raise TypeError("moment")
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("zone")
    return moment.astimezone(UTC)
