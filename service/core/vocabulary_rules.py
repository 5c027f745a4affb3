"""What makes a vocabulary consistent."""

from collections.abc import Iterable

from service.core.text import is_storable
from service.errors import InvalidText, InvalidVocabulary
from service.model import Vocabulary

MAX_CHARS = 2_000  # of one text of a vocabulary
MAX_USE_CASES = 90  # of one system: all its words together stay a query that the service reads


def check_vocabulary(vocabulary: Vocabulary) -> None:
    """What its types do not say of it.

    Raises InvalidVocabulary for an id used twice, a reference to nothing or more words than can be asked for,
    InvalidText for odd text.
    """
    _distinct("system", [system.system_id for system in vocabulary.systems])
    attributes = _distinct("attribute", [attribute.attribute_id for attribute in vocabulary.attributes])
    factors = _distinct("factor", [factor.factor_id for factor in vocabulary.factors])
    _distinct("option", [option.option_id for option in vocabulary.options])
    for option in vocabulary.options:
        if option.factor_id not in factors:
            raise InvalidVocabulary(f"option {option.option_id} names the unknown factor {option.factor_id}")
        for attribute_id in option.attribute_ids:
            if attribute_id not in attributes:
                raise InvalidVocabulary(
                    f"option {option.option_id} names the unknown attribute {attribute_id}"
                )
    _check_texts(vocabulary)


def _check_texts(vocabulary: Vocabulary) -> None:
    for text in _texts(vocabulary):
        if not is_storable(text):
            raise InvalidText("the vocabulary holds a NUL or a lone surrogate")
        if len(text) > MAX_CHARS:
            raise InvalidVocabulary(f"a text of a vocabulary has at most {MAX_CHARS} characters")
    for system in vocabulary.systems:
        if len(system.use_cases) > MAX_USE_CASES:
            raise InvalidVocabulary(f"system {system.system_id} has more than {MAX_USE_CASES} use cases")


def _distinct(kind: str, ids: list[str]) -> frozenset[str]:
    seen: set[str] = set()
    for name in ids:
        if not name.strip():
            raise InvalidVocabulary(f"a {kind} has a blank id")
        if name in seen:
            raise InvalidVocabulary(f"the {kind} id {name} stands twice")
        seen.add(name)
    return frozenset(seen)


def _texts(vocabulary: Vocabulary) -> Iterable[str]:
    for system in vocabulary.systems:
        optional = (system.operation_type, system.material, system.interior_exterior)
        yield from (system.system_id, system.name, *(text for text in optional if text), *system.use_cases)
    for attribute in vocabulary.attributes:
        yield from (attribute.attribute_id, attribute.name)
    for factor in vocabulary.factors:
        yield from (factor.factor_id, factor.name)
    for option in vocabulary.options:
        yield from (option.option_id, option.label, option.value or "")
