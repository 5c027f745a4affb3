"""Which passages only point elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.links import is_link_stub
from tests.extract.texts import TEXTS


@pytest.mark.parametrize(
    "text",
    [
        "[Datasheet](https://x.example/a.pdf)",
        "[Datasheet](a.pdf) (PDF, 2.3 MB)",
        'Download: [SL45 datasheet](</files/sl45.pdf> "SL45")',
        "Download the [installation guide](https://x.example/guide_(v2).pdf).",
        "See the [full specification](spec.html) for more information.",
        "https://x.example/a.pdf",
        "<https://x.example/a.pdf>",
        "www.x.example/downloads",
        "SL45 datasheet: https://x.example/sl45.pdf",
        "SL45 brochure \u2013 [PDF](a.pdf)",
        "- [Revit](a.rfa)\n- [DWG](a.dwg)\n- [IFC](a.ifc) 12 MB",
        "1. [One](1.html)\n2. [Two](2.html)",
        "| [Datasheet](a.pdf) | [Manual](b.pdf) |",
        "[![Download](button.png)](a.pdf)",
        "**[Read more](next.html) →**",
        "[Télécharger](a.pdf)",
    ],
)
def test_a_pointer_is_a_stub(text: str) -> None:
    """C2: links, their labels, pointing words, a short lead and a file size say nothing else."""
    assert is_link_stub(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Download",
        "Plain text without any link.",
        "The sill drains outwards, as the [drawing](a.pdf) shows.",
        "Discontinued. [Replacement](b.html)",
        "Warranty void if opened. [Terms](t.html)",
        "Torque to 12 Nm: [table](t.html)",
        "Do not use: [old manual](m.pdf)",
        "Max load 150 kg [spec](s.pdf)",
        "Not available. [More](m.html)",
        "Mail [sales@x.example](mailto:sales@x.example)",
        "Call [us](tel:+4712345678)",
        "![Section through the sill with its drainage channel](sill.png)",
        "[How we built the tallest folding wall in Norway, in eleven days and one very long night](story.html)",
        "Fits SL45 and SL60: see https://x.example/fit.pdf",
        "[label] (not a link)",
        "array[0](call)",
    ],
)
def test_what_says_something_is_no_stub(text: str) -> None:
    """C2: a passage with a fact beside its link stays scorable."""
    assert not is_link_stub(text)


@given(TEXTS)
def test_real_words_beside_a_link_are_never_swallowed(text: str) -> None:
    """C2: a text with a sentence of its own is no stub, whatever links it holds."""
    assert not is_link_stub(f"The sill drains outwards. {text} [Datasheet](a.pdf)")


@pytest.mark.parametrize(
    "unit",
    ["[", "[a](", "[a](b", "![a](", "](", "((", "www.", "http://x ", "[a](b) ", '[a](b "', "1 ", "-\n"],
)
def test_hostile_text_is_judged(unit: str) -> None:
    """C21: a megabyte of half-open links is judged at once; quadratic time would take hours."""
    assert is_link_stub("http://x " + unit * (1_000_000 // len(unit))) in (True, False)


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    """C21: no text makes the rule fail."""
    assert is_link_stub(text) in (True, False)
