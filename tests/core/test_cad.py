"""Which documents count as CAD resources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.cad import CAD_EXTENSIONS, is_cad_resource


@pytest.mark.parametrize(
    "terms",
    [
        ("Revit",),
        ("Revit Files",),
        ("CAD",),
        ("CAD Drawings",),
        ("AutoCAD DWG",),
        ("DXF files",),
        ("SketchUp Models",),
        ("IFC",),
        ("BIM Objects",),
        ("Brochure", "3D Model (.rfa)"),
    ],
)
def test_a_kept_cad_term_decides(terms: tuple[str, ...]) -> None:
    """C29: one kept CAD term makes a resource CAD, whatever title and file say."""
    assert is_cad_resource("Installation guide", "guide.pdf", "https://example.com/guide.pdf", terms)


@pytest.mark.parametrize(
    "terms", [("Brochure",), ("Technical Specifications",), ("Cascade Scads", "Test Report")]
)
def test_kept_terms_without_cad_decide_too(terms: tuple[str, ...]) -> None:
    """C29: kept terms none of which is CAD keep a resource, even with a CAD title and a CAD file."""
    assert not is_cad_resource("Revit family (RVT)", "sl45.rvt", "https://example.com/sl45.dwg", terms)


@pytest.mark.parametrize("terms", [None, (), ("",), ("  ", "\t")])
def test_without_terms_the_title_and_file_decide(terms: tuple[str, ...] | None) -> None:
    """C29: no terms, an empty tuple and blank terms all count as none kept."""
    assert is_cad_resource("SL45 Revit family", None, None, terms)
    assert not is_cad_resource("SL45 overview", "sl45.pdf", None, terms)


@pytest.mark.parametrize(
    "title",
    [
        "SL45 Revit Family",
        "SL45 RVT",
        "sl45_rfa_2024",
        "SL45.dwg",
        "DWGs of all sills",
        "DXF, head detail",
        "AutoCAD details",
        "Auto-CAD details",
        "CAD details",
        "SketchUp model",
        "Sketch-Up model",
        "Model (SKP)",
        "IFC model",
        "IFC4 and IFC2x3 models",
        "Revit2024 families",
        "\uff32\uff25\uff36\uff29\uff34 family",
        "sl45.ifczip",
    ],
)
def test_cad_words_in_a_title(title: str) -> None:
    """C29: without terms, a CAD product or format named in the title makes a resource CAD."""
    assert is_cad_resource(title, None, None, None)


@pytest.mark.parametrize(
    "title",
    [
        "Specific heat of glass",
        "Pacific coast projects",
        "Revitalised facades",
        "Decade of cascades",
        "Academy",
        "Cadence",
        "How to sketch up a plan",
        "BIM for architects: a guide",
        "SketchUpper",
        "IFCA membership",
        "Ifcé",
        "",
    ],
)
def test_words_that_only_contain_cad_letters(title: str) -> None:
    """C29: only whole words count: "specific" names no IFC file."""
    assert not is_cad_resource(title, None, None, None)


@pytest.mark.parametrize(
    "name",
    [
        "a.rvt",
        "a.RFA",
        "a.v2.dwg",
        "a.dxf ",
        "a.skp",
        "a.ifc",
        "a.ifcxml",
        "a.dwg.zip",
        "a.dxf.tar.gz",
        "C:\\x\\a.rvt",
    ],
)
def test_cad_file_names(name: str) -> None:
    """C29: without terms, a CAD extension, also inside an archive's name, makes a resource CAD."""
    assert is_cad_resource("Detail", name, None, None)


@pytest.mark.parametrize(
    "name", ["a.pdf", "dwg", "a.dwg.pdf", "revit.zip", "a.dwgx", "a.dwg/b.pdf", "", ".", "zip.zip"]
)
def test_other_file_names(name: str) -> None:
    """C29: other extensions keep a resource, also when a CAD one comes earlier in the name."""
    assert not is_cad_resource("Detail", name, None, None)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/files/sl45.dwg",
        "https://example.com/files/sl45.DWG?v=2",
        "https://example.com/sl45.rvt?next=/a.pdf#page=2",
        "https://example.com/sl45.skp#top",
        "https://example.com/sl45%2Eifc",
        "https://example.com/my%20detail.dxf;jsessionid=1?x",
        "https://example.com/sl45.rfa.zip?download",
        "/files/sl45.rfa",
    ],
)
def test_cad_urls(url: str) -> None:
    """C29: the extension of a URL is its path's; query, fragment, parameters and escapes do not hide it."""
    assert is_cad_resource("Detail", None, url, None)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/view?file=sl45.dwg",
        "https://example.com/guide.pdf#sl45.dwg",
        "https://example.com/guide.pdf?ref=a.rvt",
        "https://example.dwg/",
        "https://files.example.ifc",
        "https://example.com/revit/guide.pdf",
        "http://[broken/a.dwg",
        "",
    ],
)
def test_other_urls(url: str) -> None:
    """C29: a CAD extension in a query, a fragment, a host or a folder makes no CAD resource."""
    assert not is_cad_resource("Detail", None, url, None)


@given(
    st.text(max_size=30),
    st.none() | st.text(max_size=30),
    st.none() | st.text(max_size=30),
    st.none() | st.lists(st.text(max_size=10), max_size=3).map(tuple),
)
def test_any_input_is_classified(
    title: str, filename: str | None, url: str | None, terms: tuple[str, ...] | None
) -> None:
    """C29: any text is classified, the same each time, and without an error."""
    assert is_cad_resource(title, filename, url, terms) is is_cad_resource(title, filename, url, terms)


@given(st.sampled_from(sorted(CAD_EXTENSIONS)), st.text("abc-_ 0123", min_size=1, max_size=10))
def test_every_cad_extension_counts_in_both_places(extension: str, stem: str) -> None:
    """C29: an extension that counts in a file name counts in a URL."""
    assert is_cad_resource("Detail", f"{stem}.{extension}", None, None)
    assert is_cad_resource("Detail", None, f"https://example.com/{stem}.{extension}?x=1", None)
