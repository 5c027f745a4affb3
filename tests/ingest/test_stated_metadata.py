"""What a document says about itself."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from service.errors import InvalidInput, UnknownContentType
from service.ingest.stated_metadata import document_capture
from service.model import Capture, ContentType, PassageText, Source, SourceType
from service.ports.documents import FileDefaults, ReadDocument

DEFAULTS = FileDefaults("docs/sill.md", ContentType.TECH_DOC, "2024-05-01")
UPLOAD = Source(SourceType.UPLOAD, None, "docs/sill.md")


def captured(heading: str | None = "Its heading", /, **stated: object) -> Capture:
    """The capture of a document that states this."""
    document = ReadDocument(heading, stated, (PassageText(0, None, "text"),))
    return document_capture(document, DEFAULTS, UPLOAD)


def test_everything_stated_wins() -> None:
    """C1: an item's fields can all be stated by its document."""
    capture = captured(
        item_id="sill",
        title="Sills",
        content_type="pdp",
        source_type="url",
        source_url="https://a.example/sill",
        source_url_ok=False,
        resource_types=["manual", "pdf"],
        version="2024-03",
        fetched_at="2024-03-05T08:30:00Z",
    )
    assert (capture.item_id, capture.title, capture.content_type) == ("sill", "Sills", ContentType.PDP)
    assert capture.source == Source(SourceType.URL, "https://a.example/sill", None)
    assert capture.source_url_ok is False
    assert capture.resource_types == ("manual", "pdf")
    assert capture.version == "2024-03"
    assert capture.fetched_at == datetime(2024, 3, 5, 8, 30, tzinfo=UTC)


def test_nothing_stated_leaves_the_defaults() -> None:
    """A document that says nothing is an upload of its file, unchecked and without resource types."""
    capture = captured()
    assert (capture.title, capture.version, capture.source) == ("Its heading", "2024-05-01", UPLOAD)
    assert (capture.item_id, capture.source_url_ok, capture.resource_types, capture.fetched_at) == (None,) * 4


def test_a_document_without_any_title_is_called_by_its_file() -> None:
    """The last resort for a title is the file's name without its ending."""
    assert captured(None).title == "sill"


def test_unknown_keys_are_ignored() -> None:
    """Front matter written for another tool is no error."""
    assert captured(layout="post", tags=["x"], draft=True) == captured()


def test_yaml_reads_labels_as_numbers_and_dates() -> None:
    """A version that YAML takes for a number or a date is what its author wrote."""
    assert captured(version=2024).version == "2024"
    assert captured(version=date(2024, 3, 5)).version == "2024-03-05"


def test_a_day_is_its_beginning_in_utc() -> None:
    """A stated day without a time of day is midnight UTC; other zones are kept exact."""
    assert captured(fetched_at=date(2024, 3, 5)).fetched_at == datetime(2024, 3, 5, tzinfo=UTC)
    eastern = datetime(2024, 3, 5, 8, tzinfo=timezone(timedelta(hours=-5)))
    assert captured(fetched_at=eastern).fetched_at == datetime(2024, 3, 5, 13, tzinfo=UTC)


def test_a_url_without_a_type_is_of_type_url() -> None:
    """Stating a URL is enough to be known by it."""
    assert captured(source_url="https://a.example/x").source.type is SourceType.URL


def test_an_upload_may_name_its_file_and_its_page() -> None:
    """A stated upload keeps its own file name, or the default one, beside a URL for its citation."""
    source = captured(source_type="upload", source_url="https://a.example/x").source
    assert source == Source(SourceType.UPLOAD, "https://a.example/x", "docs/sill.md")
    assert captured(source_filename="sill.pdf").source == Source(SourceType.UPLOAD, None, "sill.pdf")


def test_one_resource_type_need_not_be_a_list() -> None:
    """A single resource type may stand by itself."""
    assert captured(resource_types="manual").resource_types == ("manual",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source_type", "fax"),
        ("title", ["a", "b"]),
        ("item_id", True),
        ("source_url_ok", "yes"),
        ("resource_types", [1]),
        ("fetched_at", "last week"),
        ("fetched_at", datetime(2024, 3, 5, 8)),  # noqa: DTZ001 - what is refused here
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_key(key: str, value: object) -> None:
    """A wrong value is an error that names its key, never a guess."""
    with pytest.raises(InvalidInput) as refused:
        captured(**{key: value})
    assert refused.value.field == key


def test_an_unknown_content_type_has_its_own_code() -> None:
    """A content type that is none of the four is reported as such."""
    with pytest.raises(UnknownContentType):
        captured(content_type="poem")
