"""The one object that every retrieval answers with, on every surface, and the exact next call after it."""

import shlex
from dataclasses import replace
from urllib.parse import quote, urlencode

import msgspec

from service.core.next_action import NextAction, read_item
from service.model import DEFAULT_LIMIT, Workspace
from service.search.request import (
    Answer,
    ByQuery,
    BySelection,
    BySystem,
    Explain,
    RetrieveOptions,
    Subject,
    View,
)
from service.surfaces.wire import RetrievedPassageOut, passage_out


class HttpCall(msgspec.Struct, kw_only=True):
    """A request to this service, ready to be sent."""

    method: str
    path: str
    body: dict[str, object] | None


class NextStep(msgspec.Struct, kw_only=True):
    """What to do next: an HTTP request and a command line that do the same."""

    do: str
    http: HttpCall
    cli: str


class LexicalArmOut(msgspec.Struct, kw_only=True):
    """How the lexical arm ran; `source` is `index`, or `scan` while the index is being repaired."""

    state: str
    source: str


class VectorArmOut(msgspec.Struct, kw_only=True):
    """How the vector arm ran, and the reason when it did not."""

    state: str
    reason: str


class ArmsOut(msgspec.Struct, kw_only=True):
    """Both arms."""

    lexical: LexicalArmOut
    vector: VectorArmOut


class RetrievalOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One page.

    `corpus_changed` says, where it stands, that the cursor asked with is older than the corpus;
    `ranking_changed` that it was issued by a ranking whose vector arm could not run this time.
    """

    results: list[RetrievedPassageOut]
    shown: int
    has_more: bool
    next_cursor: str | None
    next_action: NextStep
    arms: ArmsOut
    corpus_changed: bool = False
    ranking_changed: bool = False


def retrieval_out(
    answer: Answer, subject: Subject, options: RetrieveOptions, default_workspace: Workspace
) -> RetrievalOut:
    """An answer as every surface gives it; `default_workspace` is the one a caller need not name."""
    summary = options.view is View.SUMMARY
    return RetrievalOut(
        results=[passage_out(passage, summary=summary) for passage in answer.results],
        shown=len(answer.results),
        has_more=answer.has_more,
        next_cursor=answer.next_cursor,
        next_action=next_step(next_action(answer, subject, options, default_workspace)),
        arms=ArmsOut(
            lexical=LexicalArmOut(state=answer.lexical.state.value, source=answer.lexical.source),
            vector=VectorArmOut(state=answer.vector.state.value, reason=answer.vector.reason),
        ),
        corpus_changed=answer.corpus_changed,
        ranking_changed=answer.ranking_changed,
    )


def next_step(action: NextAction) -> NextStep:
    """A next action as every surface spells it."""
    body = None if action.body is None else dict(action.body)
    return NextStep(
        do=action.do, http=HttpCall(method=action.method, path=action.path, body=body), cli=action.command
    )


def next_action(
    answer: Answer, subject: Subject, options: RetrieveOptions, default_workspace: Workspace
) -> NextAction:
    """The next page if there is one, else the document of the best hit, else a wider request."""
    if answer.next_cursor is not None:
        following = replace(options, cursor=answer.next_cursor)
        return _request("next_page", subject, following, default_workspace)
    if answer.results:
        action = read_item(answer.results[0].provenance.item_id)
        return replace(action, command=_in_workspace(action.command, options.workspace, default_workspace))
    if options.content_type is not None:
        wider = replace(options, content_type=None, cursor=None)
        return _request("any_content_type", subject, wider, default_workspace)
    command = _in_workspace("citewell vocabulary show", options.workspace, default_workspace)
    return NextAction(do="read_vocabulary", method="GET", path="/v1/vocabulary", body=None, command=command)


def _request(do: str, subject: Subject, options: RetrieveOptions, default_workspace: Workspace) -> NextAction:
    """A retrieval spelt for HTTP and for the command line."""
    stated = _stated(options)
    command = ["citewell", "retrieve"]
    if options.workspace != default_workspace:
        command += ["--workspace", options.workspace]
    for name, value in stated.items():
        command += ["--explain"] if name == "explain" else [f"--{name.replace('_', '-')}", str(value)]
    match subject:
        case BySystem(system_id):
            query = urlencode({name: "true" if value is True else value for name, value in stated.items()})
            path = f"/v1/systems/{quote(system_id, safe='')}/passages" + (f"?{query}" if query else "")
            return NextAction(do, "GET", path, None, shlex.join([*command, "--system", system_id]))
        case BySelection(context):
            body = {"option_ids": list(context.option_ids), **stated}
            command += ["--options", ",".join(context.option_ids)]
            return NextAction(do, "POST", "/v1/selection/passages", body, shlex.join(command))
        case ByQuery(text):
            return NextAction(
                do, "POST", "/v1/retrieve", {"query": text, **stated}, shlex.join([*command, "--", text])
            )


def _stated(options: RetrieveOptions) -> dict[str, object]:
    """The options that are not at their defaults, by their wire names."""
    stated: dict[str, object] = {}
    if options.limit != DEFAULT_LIMIT:
        stated["limit"] = options.limit
    if options.content_type is not None:
        stated["content_type"] = options.content_type.value
    if options.view is not View.BRIEF:
        stated["view"] = options.view.value
    if options.explain is Explain.ON:
        stated["explain"] = True
    if options.cursor is not None:
        stated["cursor"] = options.cursor
    return stated


def _in_workspace(command: str, workspace: Workspace, default_workspace: Workspace) -> str:
    if workspace == default_workspace:
        return command
    return f"{command} {shlex.join(['--workspace', workspace])}"
