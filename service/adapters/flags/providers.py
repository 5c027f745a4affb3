"""The project's own OpenFeature providers: SQL rows, and the environment's value."""

from collections.abc import Mapping, Sequence

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import GeneralError, TypeMismatchError
from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType, Reason
from openfeature.provider import AbstractProvider, Metadata

from service.errors import Unavailable
from service.model import Workspace
from service.ports.flag import FLAG_KEY, FlagLedger

WORKSPACE = "workspace"  # the evaluation context's attribute
PROBLEM = "problem"  # the metadata entry that says why a value is not what the holder was meant to say
Details = FlagResolutionDetails[str]


def workspace_of(context: EvaluationContext | None) -> Workspace:
    """The workspace that a question is about; without one it is about the default."""
    name = None if context is None else context.attributes.get(WORKSPACE)
    return Workspace(name if isinstance(name, str) else "")


class TextProvider(AbstractProvider):
    """A provider of one flag, whose value is text. Every other type is refused."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def get_metadata(self) -> Metadata:
        """The provider's name."""
        return Metadata(name=self._name)

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,  # noqa: FBT001 - OpenFeature's signature
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[bool]:
        """Refused."""
        raise _refused(flag_key)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Refused."""
        raise _refused(flag_key)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Refused."""
        raise _refused(flag_key)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        """Refused."""
        raise _refused(flag_key)


class EnvironmentProvider(TextProvider):
    """The value that the process was started with, for every workspace."""

    def __init__(self, value: str) -> None:
        super().__init__("environment")
        self._value = value

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """The same value always."""
        return Details(value=self._value, reason=Reason.STATIC)

    async def resolve_string_details_async(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """Needs no thread: there is nothing to wait for."""
        return self.resolve_string_details(flag_key, default_value, evaluation_context)


class StoreProvider(TextProvider):
    """The rows in SQL: a workspace's own, or the default row. Without either, the default value counts."""

    def __init__(self, ledger: FlagLedger) -> None:
        super().__init__("store")
        self._ledger = ledger

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """Refused: the rows are read asynchronously only."""
        raise GeneralError("the flag's rows are read asynchronously")

    async def resolve_string_details_async(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """What is stored. An error while the database does not answer."""
        try:
            rows = await self._ledger.rows(workspace_of(evaluation_context))
        except Unavailable as error:
            raise GeneralError(error.detail) from error
        if rows.override is not None:
            return Details(value=rows.override, reason=Reason.TARGETING_MATCH)
        if rows.default is not None:
            return Details(value=rows.default, reason=Reason.STATIC)
        return Details(value=default_value, reason=Reason.DEFAULT)


def _refused(flag_key: str) -> TypeMismatchError:
    return TypeMismatchError(
        f"the only flag here is {FLAG_KEY}, a text; {flag_key[:100]} was asked for otherwise"
    )
