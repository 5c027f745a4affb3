"""What of a passage is embedded, and the number that stands for these rules."""

from service.core.embedding_text import TEXT_RULES, embedding_text, marked, text_hash, unmarked

EXAMPLES = (
    ("Sills", None, "a threshold of ten millimetres"),
    ("Sills", "Heights > Doors", "ten millimetres\n\nor twelve"),
    ("", "", ""),
)
DIGESTS = {1: "6e161f0c2212ccec"}  # of the examples' texts, by the rules that made them


def test_other_texts_are_other_rules() -> None:
    """C24: whoever changes the embedded text raises TEXT_RULES, or collections would mix old and new texts."""
    together = text_hash("\n".join(text_hash(embedding_text(*example)) for example in EXAMPLES))
    assert DIGESTS[TEXT_RULES] == together[:16]


def test_a_mark_names_its_rules() -> None:
    """C24: an incarnation and its rules come back out of the mark; the first rules are older than marks."""
    assert marked("8f0c", 1) == "8f0c"
    for rules in (1, 2, 17):
        assert unmarked(marked("8f0c", rules)) == ("8f0c", rules)
