"""What may be shown on a terminal."""

import re
from typing import Final

# Control characters move the cursor, retitle the window or worse; direction marks reorder what is read.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text with every character that could command a terminal written out, as `\x1b` or `\u202e`."""
    return _UNSAFE.sub(lambda found: _escape(ord(found[0])), text)


def printable_json(text: str) -> str:
    """The same JSON document, those characters as JSON writes them out."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
