"""What policies are given, and the product's own view to build on."""

from __future__ import annotations

from core.policies import (
    CompletionReview,
    ContextSize,
    ContextView,
    ModelGateway,
    ReviewJob,
    Summarisation,
    SummaryJob,
)
from core.ports import ModelHandle
from nodes.view import build_view as default_view

__all__ = [
    "CompletionReview",
    "ContextSize",
    "ContextView",
    "ModelGateway",
    "ModelHandle",
    "ReviewJob",
    "Summarisation",
    "SummaryJob",
    "default_view",
]
