"""Judged queries to numbers. Calls the service's own read path and never copies it."""

from eval.evaluation import Conditions, evaluate
from eval.report import Report

__all__ = ["Conditions", "Report", "evaluate"]
