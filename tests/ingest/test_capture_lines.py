"""Lines of a file of captures."""

import json

import pytest

from service.adapters.documents import ExtractedDocuments
from service.errors import CitewellError, EmptyDocument, InvalidInput, UnknownContentType
from service.model import Capture, ContentType, PassageText, Source, SourceType
from service.ports.documents import FileDefaults
from service.surfaces.captures import CaptureLines
from tests.ingest.parts import capture_line

DEFAULTS = FileDefaults("set/corpus.jsonl", ContentType.BLOG, "2024-05-01")


def decoded(line: object) -> Capture:
    """The capture of a JSON line."""
    return CaptureLines(ExtractedDocuments())(json.dumps(line).encode(), DEFAULTS)


def test_a_beir_line_is_one_document() -> None:
    """A BEIR line keeps its id, its file's defaults, and its title's path down to the passage."""
    capture = decoded(
        {"_id": "d1", "title": "Manual > Sills > Drains", "text": "drain outward", "metadata": {}}
    )
    assert (capture.item_id, capture.title) == ("d1", "Manual")
    assert capture.passages == (PassageText(0, "Sills > Drains", "drain outward"),)
    assert capture.source == Source(SourceType.UPLOAD, None, "set/corpus.jsonl#d1")
    assert (capture.content_type, capture.version) == (ContentType.BLOG, "2024-05-01")


def test_a_beir_id_that_no_item_can_have_still_names_the_source() -> None:
    """An id with blanks is no item id, and distinguishes its source all the same."""
    capture = decoded({"_id": "a b/c", "text": "x"})
    assert capture.item_id is None
    assert capture.source.filename == "set/corpus.jsonl#a b/c"


def test_a_beir_line_without_a_title_is_called_by_its_id() -> None:
    """A document needs a title to be cited."""
    assert decoded({"_id": "d1", "title": " ", "text": "x"}).title == "d1"


def test_a_capture_that_speaks_of_ids_is_no_beir_line() -> None:
    """The text "_id" inside a capture changes nothing."""
    assert decoded(capture_line(1, 'the field "_id" of a row')).item_id == "n1"


def test_a_link_stub_of_a_beir_set_is_not_scorable() -> None:
    """C2: a passage that only points at a download is stored and never scored."""
    assert not decoded({"_id": "d", "text": "[Download](https://a.example/x.rvt)"}).passages[0].scorable


def test_a_capture_with_text_is_cut_into_passages() -> None:
    """A capture may bring its text and format in place of passages."""
    line = capture_line(1, "")
    del line["passages"]
    capture = decoded({**line, "text": "# T\n\n## Sills\n\nDrain outward.", "format": "markdown"})
    assert capture.passages == (PassageText(0, "Sills", "Drain outward."),)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"_id": "d", "text": " "}, EmptyDocument),
        ({"_id": 7, "text": "x"}, InvalidInput),
        ({"_id": "d"}, InvalidInput),
        (capture_line(1, "x", surprise=True), InvalidInput),
        (capture_line(1, "x", content_type="poem"), UnknownContentType),
        (capture_line(1, "x", text="both", format="text"), InvalidInput),
        (capture_line(1, "x", format="text"), InvalidInput),
        (capture_line(1, "x", passages=None), InvalidInput),
        (capture_line(1, "x", passages=None, text="t"), InvalidInput),
        ("not an object", InvalidInput),
    ],
)
def test_a_bad_line_is_refused_with_its_reason(line: object, error: type[CitewellError]) -> None:
    """Every way to be wrong has its error."""
    with pytest.raises(error):
        decoded(line)
