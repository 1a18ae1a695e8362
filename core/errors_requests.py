"""Errors that answer a request: the caller's, and those of parts that are down."""

from __future__ import annotations

from core.errors_base import GraphwrightError


class ServerFault(GraphwrightError):
    """Something went wrong in the server; the log has it under this trace id."""

    code = "internal_error"
    status = 500


class RequestError(GraphwrightError):
    """The request cannot be carried out."""

    code = "bad_request"
    status = 400


class BadRequest(RequestError):
    """The request is malformed."""


class Unauthenticated(RequestError):
    """Sign in, or send an API key as `Authorization: Bearer …`."""

    code = "unauthenticated"
    status = 401
    cure = "Run `graphwright link` for a sign-in link, or `graphwright key create` for a key."


class Forbidden(RequestError):
    """This credential does not hold the permission."""

    code = "forbidden"
    status = 403


class CrossSite(Forbidden):
    """This request did not come from our own pages."""

    code = "cross_site"
    cure = "Programs send an API key as `Authorization: Bearer …` instead of the cookie."


class HostRefused(RequestError):
    """This server answers only under the names of the machine it runs on."""

    code = "host_refused"
    status = 421
    cure = "Open it as http://127.0.0.1 or http://localhost, with the port it listens on."


class NotFound(RequestError):
    """Nothing with this id is visible to you."""

    code = "not_found"
    status = 404


class MethodNotAllowed(RequestError):
    """This address does not take this method."""

    code = "method_not_allowed"
    status = 405


class SessionBusy(RequestError):
    """A run is active in this session. Wait, answer what it asks, or cancel it first."""

    code = "session_busy"
    status = 409


class DuplicateRequest(RequestError):
    """This request_id was used before; the run it began is named in the details."""

    code = "duplicate_request"
    status = 409


class NoPendingInterrupt(RequestError):
    """Nothing waits for an answer in this session."""

    code = "no_pending_interrupt"
    status = 409


class StaleInterrupt(RequestError):
    """This question was answered or withdrawn already; the token is spent."""

    code = "stale_interrupt"
    status = 409


class NotCancellable(RequestError):
    """This run has ended already."""

    code = "run_ended"
    status = 409


class TooLarge(RequestError):
    """The request is larger than allowed."""

    code = "too_large"
    status = 413


class UnsupportedMediaType(RequestError):
    """This address does not take this kind of body."""

    code = "unsupported_media_type"
    status = 415


class Invalid(RequestError):
    """A field has a value that is not allowed."""

    code = "invalid"
    status = 422


class QueueFull(RequestError):
    """Too many runs wait already."""

    code = "queue_full"
    status = 429
    cure = "Try again later, or start more workers."


class QuotaSpent(RequestError):
    """The quota is used up."""

    code = "quota_spent"
    status = 429


class PathRefused(RequestError):
    """This path is not allowed."""

    code = "path_refused"
    status = 400


class FileMissing(RequestError):
    """There is no such file."""

    code = "file_missing"
    status = 404


class FileChanged(RequestError):
    """The file was changed meanwhile; read it again first."""

    code = "file_changed"
    status = 409


class FileRefused(RequestError):
    """This file is not accepted."""

    code = "file_refused"
    status = 400


# Parts that are down ----------------------------------------------------------------------


class Unavailable(GraphwrightError):
    """A part of the server is not available; `/health` says which and why."""

    code = "unavailable"
    status = 503
    cure = "Look at /health for the cause and the cure, then try again."
