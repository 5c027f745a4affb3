"""Query terms derived from the domain: systems, selections and free text."""

from collections.abc import Iterable

from service.core.tokenize import QueryTerm, merge_terms, query_terms
from service.model import SelectedOption, System


def system_query_text(system: System) -> str:
    """The words of a system: its id, name, operation type, material, interior/exterior and use cases."""
    fields = (system.name, system.system_id, system.operation_type, system.material, system.interior_exterior)
    return " ; ".join([field for field in fields if field] + list(system.use_cases))


def system_query_terms(system: System) -> tuple[QueryTerm, ...]:
    """The terms of a system, retired or not."""
    return query_terms(system_query_text(system))


def context_query_text(selected: Iterable[SelectedOption]) -> str:
    """The words of a selection: option labels and values, their factors' and attributes' names."""
    words: list[str] = []
    for choice in selected:
        words += [choice.option.label, choice.option.value or "", choice.factor_name, *choice.attribute_names]
    return " ; ".join(dict.fromkeys(word for word in words if word))


def context_query_terms(selected: Iterable[SelectedOption]) -> tuple[QueryTerm, ...]:
    """The terms of a selection; empty when nothing known was selected."""
    return merge_terms(query_terms(context_query_text(selected)))
