"""What text the store can keep."""


def is_storable(text: str) -> bool:
    """False for text with a NUL (PostgreSQL refuses it) or a lone surrogate (no encoding has it)."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
