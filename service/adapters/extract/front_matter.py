"""YAML front matter: the metadata a Markdown file states about itself."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from frontmatter.default_handlers import YAMLHandler
from yaml import YAMLError  # type: ignore[import-untyped]

from service.adapters.extract.decoding import clean
from service.adapters.extract.document import KIB, NO_METADATA
from service.errors import TooLarge, UnreadableDocument

MAX_FRONT_MATTER_CHARS = 64 * KIB
_MAX_VALUES = 10_000
_MAX_DEPTH = 20

_KEY = re.compile(r"[\"']?\w[^:\n]*:(?:\s|$)")


def split_front_matter(text: str) -> tuple[Mapping[str, object], str]:
    """The front matter's values and the text after it; no values and `text` itself where there is none.

    A text that merely begins with a thematic break has no front matter. Strings come out clean, dates,
    numbers and nesting as YAML reads them, keys as strings.

    Raises:
        UnreadableDocument: there is front matter and it is not valid YAML.
        TooLarge: it is longer, deeper or (by aliases) larger than any real one.
    """
    handler = YAMLHandler()
    if not handler.detect(text):
        return NO_METADATA, text
    try:
        written, body = handler.split(text)
    except ValueError:  # an opening rule without a closing one
        return NO_METADATA, text
    if not written.strip():
        return NO_METADATA, body
    if not _begins_with_a_key(text):
        return NO_METADATA, text
    if len(written) > MAX_FRONT_MATTER_CHARS:
        raise TooLarge(f"The front matter has more than {MAX_FRONT_MATTER_CHARS} characters.")
    return _loaded(handler, written), body


def _begins_with_a_key(text: str) -> bool:
    """Whether a key follows the opening rule; a blank line follows a thematic break."""
    position = text.find("\n") + 1
    while text.startswith("#", position):
        position = text.find("\n", position) + 1
    return _KEY.match(text, position) is not None


def _loaded(handler: YAMLHandler, written: str) -> Mapping[str, object]:
    try:
        values: object = handler.load(written)
    except (
        YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # ValueError: 2024-13-45, a number of 5,000 digits
        raise UnreadableDocument("The front matter is not valid YAML.") from error
    if not isinstance(values, dict):
        raise UnreadableDocument("The front matter is not a list of keys and values.")
    room = iter(range(_MAX_VALUES))
    return MappingProxyType({clean(str(key)): _value(value, room, 1) for key, value in values.items()})


def _value(value: object, room: Iterator[int], depth: int) -> object:
    """A copy with clean strings. Aliases can nest a value in itself or double it at every level."""
    if next(room, None) is None or depth > _MAX_DEPTH:
        raise TooLarge("The front matter holds too many or too deeply nested values.")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _value(inner, room, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_value(inner, room, depth + 1) for inner in value]
    return value
