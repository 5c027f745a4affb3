"""What of a passage is embedded."""

import hashlib

TEXT_RULES = 1  # raised whenever the embedded text of any passage changes; a test holds the two together


def embedding_text(title: str, heading: str | None, text: str) -> str:
    """The passage under its title and heading, so that a vector knows what the passage is about."""
    head = title if heading is None else f"{title} > {heading}"
    return f"{head}\n{text}"


def text_hash(text: str) -> str:
    """The content address of an embedded text."""
    return hashlib.sha256(text.encode()).hexdigest()


def marked(incarnation: str, rules: int = TEXT_RULES) -> str:
    """A collection's incarnation with the rules its texts were made by; the first rules are not named."""
    return incarnation if rules == 1 else f"{incarnation} text-{rules}"


def unmarked(mark: str) -> tuple[str, int]:
    """The incarnation and the rules of a mark."""
    incarnation, _, rules = mark.partition(" text-")
    return incarnation, int(rules or 1)
