"""What can be wrong with an evaluation's inputs. Each kind has a code and an exit status of its own."""

from pathlib import Path
from typing import ClassVar, Final

from service.errors import CitewellError

GO: Final = 0
NO_GO: Final = 10
REGRESSED: Final = 11


class EvaluationError(CitewellError):
    """An evaluation that cannot be carried out; nothing was written."""

    code = "evaluation"
    title = "Evaluation impossible"
    exit_status: ClassVar[int] = 12


class MissingFile(EvaluationError):
    """A file or folder that was named, or that its format needs, is not there."""

    code = "missing_file"
    title = "File is missing"
    exit_status = 20


class MalformedLine(EvaluationError):
    """A line, or a whole file, is not what its format says. The detail begins with file and line."""

    code = "malformed_line"
    title = "Line cannot be read"
    exit_status = 21

    @classmethod
    def at(cls, path: Path, line: int, what: str) -> "MalformedLine":
        """The error of one line, counted from 1."""
        return cls(f"{path.parent.name}/{path.name}:{line}: {what}")


class EmptyQrels(EvaluationError):
    """There is no judgement at all."""

    code = "empty_qrels"
    title = "No judgements"
    exit_status = 22


class OverlappingIds(EvaluationError):
    """Two queries, two passages or two sets have the same id."""

    code = "overlapping_ids"
    title = "An id is taken twice"
    exit_status = 23


class NoRelevantPassage(EvaluationError):
    """A judged query has no relevant passage, so no measure is defined on it."""

    code = "no_relevant_passage"
    title = "A query without a relevant passage"
    exit_status = 24


class RunWithGaps(EvaluationError):
    """A run's ranks of a query are not 1, 2, 3 …, or a judged query has no line where all are needed."""

    code = "run_with_gaps"
    title = "Run has gaps"
    exit_status = 25


class OtherSchema(EvaluationError):
    """The report was written in another schema version."""

    code = "other_report_schema"
    title = "Report of another schema version"
    exit_status = 26


class OtherDataset(EvaluationError):
    """The baseline was measured on other data."""

    code = "other_dataset"
    title = "Baseline of another data set"
    exit_status = 27


class ArmDidNotRun(EvaluationError):
    """An arm that was to be measured degraded, so its figures would be another arm's."""

    code = "arm_did_not_run"
    title = "An arm did not run"
    exit_status = 28


class CorpusNotStored(EvaluationError):
    """A document of the corpus was refused by the service."""

    code = "corpus_not_stored"
    title = "Corpus could not be stored"
    exit_status = 29


MEANINGS: Final[dict[int, str]] = {
    GO: "GO (run); done (other commands)",
    NO_GO: "NO-GO",
    REGRESSED: "a measure fell past the tolerance",
    **{
        kind.exit_status: kind.title.lower()
        for kind in (
            EvaluationError,
            MissingFile,
            MalformedLine,
            EmptyQrels,
            OverlappingIds,
            NoRelevantPassage,
            RunWithGaps,
            OtherSchema,
            OtherDataset,
            ArmDidNotRun,
            CorpusNotStored,
        )
    },
}
