"""What of a passage is embedded."""

import hashlib

TEXT_RULES = 1  # raise whenever the embedded text of any passage changes


def embedding_text(title: str, heading: str | None, text: str) -> str:
    """The passage under its title and heading, so that a vector knows what the passage is about."""
    head = title if heading is None else f"{title} > {heading}"
    return f"{head}\n{text}"


def text_hash(text: str) -> str:
    """The content address of an embedded text."""
    return hashlib.sha256(text.encode()).hexdigest()
