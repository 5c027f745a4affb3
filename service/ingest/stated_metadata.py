"""What a document says about itself, over what its file is taken to be."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from pathlib import PurePosixPath

from service.errors import InvalidInput, UnknownContentType
from service.model import Capture, ContentType, ItemId, Source, SourceType
from service.ports.documents import FileDefaults, ReadDocument


def document_capture(document: ReadDocument, defaults: FileDefaults, source: Source) -> Capture:
    """The capture of a document. Keys it states in its front matter win; keys that mean nothing are ignored.

    Raises InvalidInput, UnknownContentType for a key with a value it cannot have.
    """
    stated = document.metadata
    item_id = _text(stated, "item_id")
    return Capture(
        title=_text(stated, "title") or document.title or PurePosixPath(defaults.filename).stem,
        content_type=_content_type(stated, defaults.content_type),
        source=_source(stated, defaults, source),
        version=_text(stated, "version") or defaults.version,
        passages=document.passages,
        item_id=None if item_id is None else ItemId(item_id),
        source_url_ok=_flag(stated, "source_url_ok"),
        resource_types=_texts(stated, "resource_types"),
        fetched_at=_moment(stated, "fetched_at"),
    )


def _content_type(stated: Mapping[str, object], default: ContentType) -> ContentType:
    name = _text(stated, "content_type")
    if name is None:
        return default
    try:
        return ContentType(name)
    except ValueError as error:
        kinds = ", ".join(kind.value for kind in ContentType)
        raise UnknownContentType(f"content_type must be one of {kinds}", field="content_type") from error


def _source(stated: Mapping[str, object], defaults: FileDefaults, source: Source) -> Source:
    """The stated source; a URL without a type is one of type url."""
    kind, url = _text(stated, "source_type"), _text(stated, "source_url")
    filename = _text(stated, "source_filename")
    if kind is None and url is None and filename is None:
        return source
    if kind is None:
        kind = (SourceType.UPLOAD if url is None else SourceType.URL).value
    if kind == SourceType.UPLOAD.value:
        return Source(SourceType.UPLOAD, url, filename or defaults.filename)
    if kind == SourceType.URL.value:
        return Source(SourceType.URL, url or source.url, filename)
    raise InvalidInput("source_type must be url or upload", field="source_type")


def _text(stated: Mapping[str, object], key: str) -> str | None:
    """A text; numbers and dates as YAML reads them count as what their author wrote."""
    value = stated.get(key)
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    raise InvalidInput(f"{key} in the front matter is not a text", field=key)


def _texts(stated: Mapping[str, object], key: str) -> tuple[str, ...] | None:
    value = stated.get(key)
    if value is None:
        return None
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return tuple(texts)
    raise InvalidInput(f"{key} in the front matter is not a list of texts", field=key)


def _flag(stated: Mapping[str, object], key: str) -> bool | None:
    value = stated.get(key)
    if value is None or isinstance(value, bool):
        return value
    raise InvalidInput(f"{key} in the front matter is neither true, false nor null", field=key)


def _moment(stated: Mapping[str, object], key: str) -> datetime | None:
    """A moment; a day alone is its beginning in UTC. A time without a zone is refused: it would be a guess."""
    value = stated.get(key)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidInput(f"{key} in the front matter is not an ISO 8601 time", field=key) from error
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time.min, UTC)
    raise InvalidInput(f"{key} in the front matter needs a time with its zone", field=key)
