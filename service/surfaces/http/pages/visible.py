"""Text as a page shows it: nothing in it can command, hide or reorder what is read."""

import re
from typing import Final

from markupsafe import Markup

# Control characters do nothing good in a page and harm where a page's text is pasted; direction overrides,
# embeddings and isolates make text read as what it is not. Plain direction marks are letters' own neighbours.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with every such character written out, as `\x1b` or `\u202e`."""
    return _UNSAFE.sub(lambda found: _written(ord(found[0])), text)


def shown(value: object) -> object:
    """What a template's expression becomes before it is escaped; what is escaped already stays."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _written(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
