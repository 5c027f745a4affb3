"""Which documents are CAD resources: files of the detailed-design phase, not of a recommendation."""

import re
import unicodedata
from typing import Final
from urllib.parse import unquote, urlsplit

# Revit (rvt, rfa), AutoCAD (dwg, dxf), SketchUp (skp) and IFC, the last also zipped and as XML.
CAD_EXTENSIONS: Final = frozenset({"rvt", "rfa", "dwg", "dxf", "skp", "ifc", "ifczip", "ifcxml"})
_ARCHIVES: Final = frozenset({"zip", "7z", "rar", "gz", "tgz", "tar", "bz2", "xz"})

_NAMES: Final = r"(?:auto-?)?cad|revit|rvt|rfa|dwg|dxf|sketch-?up|skp|ifc(?:zip|xml)?"
# A whole word, in the plural or with its release: DWGs, Revit2024, IFC4, IFC2x3. Underscores part words.
_WORD: Final = r"(?<![^\W_])(?:{names})(?:s|\d+(?:x\d+)?)?(?![^\W_])"
_TITLE_WORD: Final = re.compile(_WORD.format(names=_NAMES))
# "BIM" names a kind of resource in a taxonomy, but in a title it is as often the subject of a guide.
_TERM_WORD: Final = re.compile(_WORD.format(names=_NAMES + "|bim"))


def is_cad_resource(
    title: str, filename: str | None, url: str | None, resource_types: tuple[str, ...] | None
) -> bool:
    """True when a document is a CAD resource.

    The taxonomy decides when it says anything: one CAD term makes it CAD, and terms none of which is CAD
    make it not, whatever title and file say. Without terms (None, empty or blank) a CAD word in the title
    decides, or the extension of the file name or of the URL's path, looked for inside an archive's name
    too (`sill.dwg.zip`). Query and fragment are no part of a file's name.
    """
    terms = [term for term in resource_types or () if term.strip()]
    if terms:
        return any(_TERM_WORD.search(_folded(term)) for term in terms)
    return (
        _TITLE_WORD.search(_folded(title)) is not None
        or _names_cad_file(filename or "")
        or _names_cad_file(_url_path(url or ""))
    )


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _url_path(url: str) -> str:
    """The URL's path, decoded, without path parameters; empty when there is none to be read."""
    try:
        return unquote(urlsplit(url).path).split(";", maxsplit=1)[0]
    except ValueError:
        return ""


def _names_cad_file(path: str) -> bool:
    name = re.split(r"[/\\]", _folded(path).strip())[-1]
    _, *extensions = name.split(".")
    while extensions and extensions[-1] in _ARCHIVES:
        extensions.pop()
    return bool(extensions) and extensions[-1] in CAD_EXTENSIONS
