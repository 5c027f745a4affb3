"""Extraction in threads, as the service calls it."""

from concurrent.futures import ThreadPoolExecutor

from pypdf import get_configuration

from service.adapters.extract import ExtractedDocument, Format, extract
from tests.extract import pdfs

DOCUMENTS = [
    (pdfs.manual(pages=4), Format.PDF),
    (b"---\nversion: 1\n---\n# T\n\nA [x][1].\n\n## H\n\nB.\n\n[1]: u", Format.MARKDOWN),
    ("<h1>T</h1><p>Größe<h2>H</h2><table><tr><td>a<td>b</table>".encode("latin_1"), Format.HTML),
    (b"one\n\ntwo", Format.TEXT),
]


def extracted(number: int) -> ExtractedDocument:
    """The document of this number, counted round."""
    data, format = DOCUMENTS[number % len(DOCUMENTS)]
    return extract(data, format)


def test_threads_do_not_disturb_each_other() -> None:
    """C12: the same bytes give equal documents, whatever is extracted beside them."""
    alone = [extracted(number) for number in range(len(DOCUMENTS))]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(extracted, range(80)))
    assert together == alone * 20


def test_no_setting_of_a_library_is_left_behind() -> None:
    """The PDF library's limits are as before once a PDF was read."""
    before = get_configuration()
    extracted(0)
    assert get_configuration() is before
