"""The only tokenizer there is: what a passage can be found by, and what a query asks for.

Matching ignores case and Unicode form (NFKC, diacritics). A run of letters and digits is a word. Words
joined by one of ``- . / _ '`` are a compound, kept whole *and* cut into its parts. A compound with a
digit in it is a code, such as a part number: its parts are found by anyone who asks for the part itself,
but a longer or shorter code never matches through them (`QueryTerm.standalone`). Scripts written without
spaces are indexed as characters and bigrams. Tokens longer than `MAX_TOKEN` characters are cut and carry
a hash, so that they still match exactly and fit any index.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import regex

MAX_TOKEN = 64
_HEAD = 40  # characters kept of an over-long token, before its hash
INNER = "+"  # marks, in stored token text, a part that stands inside a code
RULES_VERSION = 1  # raise whenever the tokens of any text change: indexes of another version are rebuilt

_ASCII_COMPOUND = re.compile(r"[a-z0-9]+(?:['\-./_][a-z0-9]+)*")
_COMPOUND = regex.compile(r"[\p{L}\p{N}\p{M}]+(?:['\-./_][\p{L}\p{N}\p{M}]+)*")
_CONNECTOR = re.compile(r"['\-./_]")
_DIGIT = regex.compile(r"\p{N}")
_FOREIGN_DIGIT = regex.compile(r"(?![0-9])\p{Nd}")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215f\u2189]")
# Diacritics of alphabetic scripts; the vowel signs of Indic scripts and kana voicing marks are letters' own.
_DIACRITICS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
)
_UNSPACED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc]+"
)
_SAME_AS = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"),
        **dict.fromkeys("\u2018\u2019\u02bc\u02bb\uff07\u00b4", "'"),
        **dict.fromkeys("\u2044\u2215", "/"),
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e", None),
        **dict.fromkeys("\u2066\u2067\u2068\u2069", None),
        "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "ŧ": "t", "æ": "ae", "œ": "oe", "þ": "th",
    }
)  # fmt: skip
# Words that say nothing alone. They are dropped from a query that has any other word.
STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "being",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "for",
        "from",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "hers",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "of",
        "on",
        "or",
        "our",
        "ours",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "theirs",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "too",
        "us",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "yours",
    ]
)


@dataclass(frozen=True, slots=True, order=True)
class QueryTerm:
    """One thing a query asks for.

    `standalone` terms are the parts of a code in the query: they match a passage only where it has them as
    words of their own, so that ``AB-12`` finds ``AB-12`` and the plain word ``AB``, never ``AB-123``.
    """

    text: str
    standalone: bool = False


def fold(text: str) -> str:
    """Case, compatibility forms, diacritics and look-alike punctuation removed. Idempotent."""
    if text.isascii():
        return text.lower()
    text = text.replace("\u00b4", "'")  # an acute accent of its own; NFKC would make it a space and a mark
    text = _FRACTION.sub(r" \g<0>", text)
    text = unicodedata.normalize("NFKC", text).translate(_SAME_AS).casefold()
    text = _DIACRITICS.sub("", unicodedata.normalize("NFD", text))
    text = unicodedata.normalize("NFKC", text).casefold().translate(_SAME_AS)
    folded: str = _FOREIGN_DIGIT.sub(_decimal, text)
    return folded


def _decimal(digit: regex.Match[str]) -> str:
    # The pattern's tables may be of a newer Unicode than Python's own: a digit only they know stays as it is.
    value = unicodedata.decimal(digit.group(), None)
    return digit.group() if value is None else str(value)


def tokenize(text: str) -> list[str]:
    """All tokens a text can be found by, in order, repeats kept."""
    return [token for token in _document_tokens(text)[0] if token[0] != INNER]


def stored_tokens(text: str) -> tuple[str, int]:
    """(token text, length): tokens in the form `count_token` reads, and their number.

    Each token stands between two spaces of its own. Parts inside codes stand once more behind `INNER`; those
    do not count towards the length.
    """
    tokens, inner = _document_tokens(text)
    if not tokens:
        return "", 0
    return f" {'  '.join(tokens)} ", len(tokens) - inner


def words_of(stored: str) -> str:
    """Stored token text without the marks of inner parts: what an inverted index is fed."""
    if f" {INNER}" not in stored:
        return stored
    return " ".join(token for token in stored.split() if token[0] != INNER)


def count_term(stored: str, term: QueryTerm) -> int:
    """How often `term` occurs in stored token text, as the matching rule counts it."""
    count = stored.count(f" {term.text} ")
    if count and term.standalone:
        count -= stored.count(f" {INNER}{term.text} ")
    return count


def query_terms(text: str) -> tuple[QueryTerm, ...]:
    """The distinct terms of a query text, in a fixed order that does not depend on its word order.

    Stop words are left out unless the query has nothing else.
    """
    terms = set(_query_terms(text))
    telling = {term for term in terms if term.text not in STOP_WORDS}
    return merge_terms(telling or terms)


def merge_terms(terms: Iterable[QueryTerm]) -> tuple[QueryTerm, ...]:
    """Distinct terms in their fixed order; a term asked for as a word of its own need not stand alone."""
    distinct = set(terms)
    free = {term.text for term in distinct if not term.standalone}
    return tuple(sorted(term for term in distinct if not (term.standalone and term.text in free)))


def _document_tokens(text: str) -> tuple[list[str], int]:
    """Document side: words, compounds whole and in parts, and the marks of parts inside codes with their number.

    Nearly all compounds of nearly all texts are plain ASCII words; the loop is written for those.
    """
    tokens: list[str] = []
    inner = 0
    for compound in _compounds(text):
        if len(compound) <= MAX_TOKEN and compound.isalnum() and compound.isascii():
            tokens.append(compound)
        else:
            inner += _emit(compound, tokens)
    return tokens, inner


def _emit(compound: str, tokens: list[str]) -> int:
    """Append one compound's tokens; the number of inner marks among them."""
    parts = _CONNECTOR.split(compound)
    if len(parts) == 1 or _UNSPACED.search(compound):
        for part in parts:
            tokens.extend(_segments(part))
        return 0
    tokens.append(_capped(compound.replace("'", "")))
    kept = [_capped(part) for part in parts if len(part) > 1 or "'" not in compound or _is_code(compound)]
    if not _is_code(compound):
        tokens.extend(kept)
        return 0
    for part in kept:
        tokens += (part, INNER + part)
    return len(kept)


def _query_terms(text: str) -> Iterator[QueryTerm]:
    """Query side: as the document side, but codes ask for their parts as standalone words only."""
    for compound in _compounds(text):
        parts = _CONNECTOR.split(compound)
        if len(parts) == 1 or _UNSPACED.search(compound):
            for part in parts:
                yield from (QueryTerm(token) for token in _query_segments(part))
            continue
        code = _is_code(compound)
        yield QueryTerm(_capped(compound.replace("'", "")))
        for part in parts:
            if code or len(part) > 1 or "'" not in compound:
                yield QueryTerm(_capped(part), standalone=code)


def _compounds(text: str) -> list[str]:
    folded = fold(text)
    found: list[str] = (_ASCII_COMPOUND if folded.isascii() else _COMPOUND).findall(folded)
    return found


def _segments(word: str) -> Iterator[str]:
    """A word cut where it changes between a spaced and an unspaced script."""
    for run, unspaced in _runs(word):
        if not unspaced:
            yield _capped(run)
            continue
        yield from run
        yield from (run[i : i + 2] for i in range(len(run) - 1))


def _query_segments(word: str) -> Iterator[str]:
    for run, unspaced in _runs(word):
        if not unspaced or len(run) == 1:
            yield _capped(run)
        else:
            yield from (run[i : i + 2] for i in range(len(run) - 1))


def _runs(word: str) -> Iterator[tuple[str, bool]]:
    start = 0
    for match in _UNSPACED.finditer(word):
        if match.start() > start:
            yield word[start : match.start()], False
        yield match.group(), True
        start = match.end()
    if start < len(word):
        yield word[start:], False


def _is_code(compound: str) -> bool:
    return _DIGIT.search(compound) is not None


def _capped(token: str) -> str:
    if len(token) <= MAX_TOKEN:
        return token
    return f"{token[:_HEAD]}~{hashlib.sha256(token.encode()).hexdigest()[:16]}"
