"""What a passage's links say: a passage that only points elsewhere is a link stub."""

import re

_IMAGE = re.compile(r"!\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")
_LINK = re.compile(
    r"\[(?P<label>[^\[\]]*)\]\(\s*<?(?P<target>(?:[^()\s<>]|\([^()\s]*\))+)>?(?:\s+\"[^\"]*\")?\s*\)"
    r"|<?(?:https?://|www\.)[^\s<>]+>?",
    re.IGNORECASE,
)
_LINK_SIGNS = ("](", "://", "www.")
_CONTACT = re.compile(r"(?:mailto|tel|sms):", re.IGNORECASE)
_FILE_SIZE = re.compile(r"\b\d+(?:[.,]\d+)?\s*(?:[kmg]i?b|bytes|pages?|pp)\b", re.IGNORECASE)
_LIST_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_LABEL_END = re.compile(r"[:\u2013\u2014\u2192>-]\s*\Z")

_MARK = "\ufffc"  # U+FFFC, the object replacement character: stands for one link while the rest is read

# A longer label is a teaser: text of its own that happens to be clickable.
_MAX_LABEL_WORDS = 12
_MAX_LEAD_WORDS = 4
_MAX_POINTER_WORDS_PER_LINK = 8

# Only words that announce a link. A word that could carry a fact ("discontinued", "not", "12 Nm") is not
# here: a passage wrongly called a stub is never found again, a stub wrongly kept merely ranks low.
_POINTER_WORDS = frozenset(
    {"a", "about", "all", "also", "and", "are", "as", "at", "available"}
    | {"be", "below", "by", "can", "click", "details", "download", "downloadable", "downloads"}
    | {"external", "find", "following", "for", "from", "full", "further", "get"}
    | {"go", "here", "in", "information", "is", "it", "latest", "learn", "link"}
    | {"links", "more", "next", "of", "on", "online", "open", "or", "our"}
    | {"page", "pages", "please", "previous", "read", "related", "resource", "resources", "see"}
    | {"source", "the", "this", "to", "version", "via", "view", "visit", "web"}
    | {"webpage", "website", "with", "you", "your"}
    | {
        "brochure",
        "brochures",
        "catalog",
        "catalogue",
        "catalogues",
        "certificate",
        "certificates",
        "data",
        "datasheet",
    }
    | {
        "datasheets",
        "declaration",
        "document",
        "documentation",
        "documents",
        "drawing",
        "drawings",
        "file",
        "files",
    }
    | {
        "flyer",
        "format",
        "guide",
        "guides",
        "installation",
        "instructions",
        "leaflet",
        "literature",
        "manual",
    }
    | {
        "manuals",
        "product",
        "sheet",
        "sheets",
        "spec",
        "specification",
        "specifications",
        "specs",
        "technical",
    }
    | {"csv", "doc", "docx", "dwg", "dxf", "epub", "html", "ifc", "pdf"}
    | {"ppt", "pptx", "rfa", "rvt", "skp", "txt", "xls", "xlsx", "zip"}
    | {"de", "descargar", "dutch", "en", "english", "es", "fr", "french", "german"}
    | {"herunterladen", "hier", "italian", "scarica", "spanish", "télécharger"}
)
_TELLING_WORDS = frozenset(
    {"always", "caution", "danger", "do", "must", "never", "no", "not", "only", "shall", "should", "warning"}
)


def is_link_stub(text: str) -> bool:
    """Whether `text` only points at a download or another page and says nothing else.

    A stub is one or more Markdown links or bare URLs, and beside them nothing but pointing words
    ("Download", "see the datasheet"), a short lead ("SL45 datasheet:"), a file size or list marks. Images
    count as their alternative text, mail and telephone links as text: they say something themselves.
    """
    if not any(sign in text for sign in _LINK_SIGNS):
        return False
    labels: list[str] = []

    def mark(link: re.Match[str]) -> str:
        if link["target"] is not None and _CONTACT.match(link["target"]):
            return f" {link['label']} {link['target']} "
        labels.append(link["label"] or "")
        return _MARK

    rest = _LINK.sub(mark, _IMAGE.sub(r" \1 ", text))
    if not labels or any(len(_WORD.findall(label)) > _MAX_LABEL_WORDS for label in labels):
        return False
    rest = _LIST_MARK.sub("", _FILE_SIZE.sub(" ", rest))
    words = [word for line in rest.splitlines() for word in _words_beside_links(line)]
    return len(words) <= _MAX_POINTER_WORDS_PER_LINK * len(labels) and _POINTER_WORDS.issuperset(words)


def _words_beside_links(line: str) -> list[str]:
    """The line's words in lower case, without a lead that only names what its link leads to."""
    lead, mark, after = line.partition(_MARK)
    words = _WORD.findall(lead.lower())
    if mark and _LABEL_END.search(lead) and _is_name(words):
        words = []
    return words + _WORD.findall(after.lower())


def _is_name(words: list[str]) -> bool:
    """Whether a lead names a thing ("SL45 datasheet") rather than states one ("torque to 12 Nm")."""
    return (
        len(words) <= _MAX_LEAD_WORDS
        and not any(word.isdecimal() for word in words)
        and _TELLING_WORDS.isdisjoint(words)
    )
