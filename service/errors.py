"""The one error tree. Every error has a stable code; surfaces render it, nothing else does."""

from typing import ClassVar


class CitewellError(Exception):
    """Base of every error this project raises on purpose.

    `code` is stable and documented; `detail` is one sentence for a person and never holds SQL, a path,
    a credential or a submitted value longer than a short excerpt.
    """

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class InvalidInput(CitewellError):
    """The request is malformed; sending it again unchanged cannot succeed."""

    code = "invalid_input"
    title = "Invalid input"

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail)
        self.field = field


class InvalidLimit(InvalidInput):
    """`limit` is outside its range."""

    code = "invalid_limit"
    title = "Limit out of range"


class UnknownContentType(InvalidInput):
    """`content_type` is not one of the four."""

    code = "unknown_content_type"
    title = "Unknown content type"


class QueryTooLong(InvalidInput):
    """The query text is longer than the service reads."""

    code = "query_too_long"
    title = "Query too long"


class InvalidCursor(InvalidInput):
    """The cursor was not issued for this request in this workspace, or it was altered."""

    code = "invalid_cursor"
    title = "Cursor does not fit this request"


class InvalidText(InvalidInput):
    """Text holds what no store can keep: a NUL, a lone surrogate, bytes that are not UTF-8."""

    code = "invalid_text"
    title = "Text cannot be stored"


class EmptyDocument(InvalidInput):
    """A document yields no passage at all."""

    code = "empty_document"
    title = "Nothing to store in this document"


class UnreadableDocument(InvalidInput):
    """A document cannot be extracted: damaged, encrypted, truncated or of an unknown format."""

    code = "unreadable_document"
    title = "Document cannot be read"


class TooLarge(CitewellError):
    """The submitted text, line, file or archive is over its bound."""

    code = "too_large"
    title = "Too large"


class NotFound(CitewellError):
    """The named thing does not exist in this workspace."""

    code = "not_found"
    title = "Not found"


class ItemNotFound(NotFound):
    """No such item in this workspace."""

    code = "item_not_found"
    title = "No such item"


class TagNotFound(NotFound):
    """No such facet tag in this workspace."""

    code = "tag_not_found"
    title = "No such facet tag"


class FacetNotFound(NotFound):
    """No such factor or attribute in this workspace's vocabulary."""

    code = "facet_not_found"
    title = "No such factor or attribute"


class KeyNotFound(NotFound):
    """No such API key."""

    code = "key_not_found"
    title = "No such API key"


class Unauthenticated(CitewellError):
    """The request has no API key that counts: none, an unknown, an altered or a revoked one."""

    code = "unauthenticated"
    title = "API key needed"


class Forbidden(CitewellError):
    """The API key is good, but not for this: its scopes or its workspaces do not reach so far."""

    code = "forbidden"
    title = "Not allowed with this API key"


class RateLimited(CitewellError):
    """The API key has used up what it may ask for now. `retry_after` is in whole seconds."""

    code = "rate_limited"
    title = "Too many requests with this API key"

    def __init__(self, detail: str, *, retry_after: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Conflict(CitewellError):
    """The request contradicts what is stored."""

    code = "conflict"
    title = "Conflict"


class ItemExists(Conflict):
    """The item id is taken by other content; items are never rewritten."""

    code = "item_exists"
    title = "Item id is taken"


class AlreadySuperseded(Conflict):
    """The item already has another successor."""

    code = "already_superseded"
    title = "Already superseded"


class SupersessionCycle(Conflict):
    """The supersession would close a cycle."""

    code = "supersession_cycle"
    title = "Supersession cycle"


class InvalidVocabulary(InvalidInput):
    """A vocabulary names an id twice, refers to one it does not hold, or holds too long a text."""

    code = "invalid_vocabulary"
    title = "Vocabulary is not consistent"


class Unavailable(CitewellError):
    """The service cannot answer now; the same request may succeed later."""

    code = "unavailable"
    title = "Temporarily unavailable"

    def __init__(self, detail: str, *, retry_after: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Overloaded(Unavailable):
    """As many requests are being answered as the service can; nothing of this one was begun."""

    code = "overloaded"
    title = "At capacity"


class DeadlineExceeded(Unavailable):
    """The request took longer than any request may; a write that was committed stays committed."""

    code = "deadline_exceeded"
    title = "Took too long"


class StoreUnavailable(Unavailable):
    """The SQL database does not answer."""

    code = "store_unavailable"
    title = "Store unavailable"


class LexicalIndexUnavailable(Unavailable):
    """The lexical index cannot be used at the moment and the corpus is too large to answer without it."""

    code = "lexical_index_unavailable"
    title = "Lexical index unavailable"


class StorageFull(Unavailable):
    """The disk is full; nothing of the request was kept."""

    code = "storage_full"
    title = "Storage full"


class ConfigurationError(CitewellError):
    """A setting is wrong or the schema is of another version; the process does not start."""

    code = "configuration"
    title = "Configuration error"


class FlagNeedsEvaluation(Conflict):
    """The flag goes past shadow only on an evaluation report that says GO, or by force."""

    code = "flag_needs_evaluation"
    title = "Flag needs an evaluation that says GO"


class FlagHeldElsewhere(Conflict):
    """The flag is held by another provider; setting it in the database would change nothing."""

    code = "flag_held_elsewhere"
    title = "Flag is held elsewhere"


class InvalidReport(InvalidInput):
    """The file is no evaluation report that this version can read."""

    code = "invalid_report"
    title = "Not an evaluation report"
