"""A token count without a model: near enough to cut by, and the same on every machine."""

import re

# Scripts that an English WordPiece vocabulary holds character by character: kana, Han, Hangul.
_BY_CHARACTER = (
    "\u1100-\u11ff\u2e80-\u303f\u3040-\u312f\u3130-\u318f\u31a0-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)

_TOKEN = re.compile(
    r"(?<![A-Za-z])[A-Za-z]{1,7}|[A-Za-z]{1,4}"  # a word's first 7 letters, then every further 4
    r"|\d{1,3}"
    rf"|[{_BY_CHARACTER}]"
    rf"|[^\W\dA-Za-z_{_BY_CHARACTER}]{{1,2}}"  # every 2 letters of another alphabet
    r"|[^\w\s]|_"  # every sign
)


def estimate_tokens(text: str) -> int:
    """About how many WordPiece tokens `text` is: 1 a short word or sign, more for long words.

    Against bge's vocabulary the median of estimate / true is 1.1 for English prose, 1.0 for Chinese and
    product text, 0.7 for German, 0.6 for Cyrillic, Greek and Arabic: 220 estimated are under 400 true
    tokens in all of these. Random letters (keys, encoded data) are counted too low by up to 3.5 times.
    Never more than `len(text)`; adding up over parts cut at white space.
    """
    return len(_TOKEN.findall(text))
