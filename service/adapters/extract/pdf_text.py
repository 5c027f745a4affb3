"""The text of PDF pages, with the words rejoined that line ends have cut."""

import re
from collections.abc import Sequence

from service.adapters.extract.decoding import clean

_HYPHENS = "-\u2010\xad"
_LINE_END_HYPHEN = re.compile(rf"(\w+)[{_HYPHENS}][^\S\n]*\n[^\S\n]*(?=(\w+))")
_COMPOUND = re.compile(r"\w+-\w+")


def rejoined_pages(pages: Sequence[str]) -> list[str]:
    """Each page's clean text, with no hyphen left at a line's end.

    The hyphen goes where small letters meet ("instal-/lation"), unless the document writes the compound
    with its hyphen elsewhere ("single-track"); it stays in names and numbers ("NW-/SL45", "2020-/2023").
    """
    compounds = {found.casefold() for text in pages for found in _COMPOUND.findall(text)}

    def join(match: re.Match[str]) -> str:
        before, after = match[1], match[2]
        is_name = not (before[-1].islower() and after[0].islower())
        return f"{before}-" if is_name or f"{before}-{after}".casefold() in compounds else before

    return [clean(_LINE_END_HYPHEN.sub(join, text)) for text in pages]
