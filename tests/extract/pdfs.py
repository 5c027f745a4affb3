"""Small real PDFs: made with fpdf2, or object by object where a writer would refuse."""

import zlib
from collections.abc import Sequence

from fpdf import FPDF
from fpdf.enums import AccessPermission, EncryptionMethod

HELLO = b"BT /F 12 Tf 10 10 Td (Hello world) Tj ET\n"
_FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
_FIRST_EXTRA = 5  # the number of the first object after the catalogue, the pages, the font and the contents


def manual(pages: int = 2) -> bytes:
    """A manual with a title, an outline of two levels and hyphenated line ends on its first page."""
    pdf = FPDF()
    pdf.set_title("SL45 manual")
    pdf.set_font("Helvetica", size=11)
    pdf.add_page()
    _write(pdf, "Before any heading.")
    _section(pdf, "Installation", 0)
    _write(pdf, "Check the instal-\nlation of the single-track doors. A single-\ntrack door is NW-\nSL45.")
    _section(pdf, "Sill", 1)
    _write(pdf, "The sill drains outwards.")
    for number in range(2, pages + 1):
        pdf.add_page()
        _write(pdf, f"Text of page {number}.")
    return bytes(pdf.output())


def encrypted(user_password: str | None) -> bytes:
    """A PDF that asks for `user_password`, or opens with an empty one."""
    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    pdf.add_page()
    _write(pdf, "Secret text.")
    pdf.set_encryption(
        owner_password="owner",  # noqa: S106 - a password of a test's own file
        user_password=user_password,
        encryption_method=EncryptionMethod.RC4,
        permissions=AccessPermission.none(),
    )
    return bytes(pdf.output())


def blank() -> bytes:
    """A page with a line drawn on it and no text, like a scan."""
    pdf = FPDF()
    pdf.add_page()
    pdf.line(10, 10, 50, 50)
    return bytes(pdf.output())


def drawn(content: bytes, pages: int = 1, forms: Sequence[bytes] = ()) -> bytes:
    """Pages that share one content stream and may draw the forms as /X0, /X1 and so on."""
    first_page = _FIRST_EXTRA + len(forms)
    kids = b" ".join(b"%d 0 R" % (first_page + number) for number in range(pages))
    names = b"".join(b"/X%d %d 0 R" % (number, _FIRST_EXTRA + number) for number in range(len(forms)))
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</Font<</F 3 0 R>>/XObject<<%s>>>>>>" % names
    )
    return _assembled(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count %d/Kids[%s]>>" % (pages, kids),
            _FONT,
            _stream(content),
            *forms,
            *[page] * pages,
        ]
    )


def form(content: bytes, draws: int | None = None) -> bytes:
    """A form that may draw the form of number `draws` as /X."""
    below = b"/XObject<</X %d 0 R>>" % (_FIRST_EXTRA + draws) if draws is not None else b""
    return _stream(
        content,
        b"/Type/XObject/Subtype/Form/BBox[0 0 1 1]/Resources<</Font<</F 3 0 R>>%s>>" % below,
    )


def _section(pdf: FPDF, name: str, level: int) -> None:
    pdf.start_section(name, level=level)
    _write(pdf, name)


def _write(pdf: FPDF, text: str) -> None:
    pdf.multi_cell(0, 6, text, new_x="LMARGIN", new_y="NEXT")


def _stream(content: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(content, 9)
    head = b"<<%s/Filter/FlateDecode/Length %d>>" % (entries, len(packed))
    return head + b"\nstream\n" + packed + b"\nendstream"


def _assembled(objects: Sequence[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)
