"""Runs agents from a script: `execute` for the result, `Execution.events` for everything on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Required, Self, TypedDict, Unpack

from core.errors import GraphwrightError, Invalid, NotFound, WrongUse
from core.events import EVENT_ADAPTER, Event
from core.principal import Principal
from core.records import RunRecord
from core.types import Mode
from runtime.asking import command_of
from runtime.commands import ChatCommand, ResumeCommand, Submitted, Upload
from runtime.engine import patiently
from runtime.results import ExecutionResult, read_result
from runtime.script import RuntimeEnvironment, current


class Asked(TypedDict, total=False):
    """What `execute` and `admit` take, all by name."""

    user_name: Required[str]
    """Whose run it is. A name that nobody has becomes a user without a login."""
    message: str
    """What the agent is told. Left out where a question is answered."""
    session_id: str | None
    """The session it goes on in; a new one where missing."""
    kind: str
    """`batch` where missing; `chat` or `schedule`."""
    graph_config: Mapping[str, Any] | None
    """`{"recursion_limit": 30}`: how many steps the run may take."""
    agent: str | None
    model: str | None
    mode: Mode | None
    thinking: str | None
    files: Sequence[Upload]
    """Files that come with the message."""
    request_id: str | None
    """Your own key: the same one never runs twice."""
    interrupt_token: str | None
    """With `resume`: the token of the question that is answered."""
    resume: Mapping[str, Any] | None
    """The answer, made by `resume_value`."""


class Admitted:
    """A run that was let in and that this script holds; hand it to `build_execution`.

    One that is not used is to be released, which `async with` does.
    """

    def __init__(
        self, environment: RuntimeEnvironment, principal: Principal, run: RunRecord, after: int
    ) -> None:
        self._environment = environment
        self.principal, self.run, self.after = principal, run, after
        self.used = False

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run.id

    @property
    def session_id(self) -> str:
        """Id of its session."""
        return self.run.session_id

    def use(self) -> RuntimeEnvironment:
        """Take it into use and return its environment.

        Raises:
            WrongUse: it was used, or released.
        """
        if self.used:
            raise WrongUse(
                "This execution was used already: events() and run() go once, either of them. "
                "Admit another message, or answer, for another run."
            )
        opened = self._environment.opened  # raises where it was left meanwhile
        del opened
        self.used = True
        return self._environment

    async def release(self) -> None:
        """Cancel a run that nobody used; one that was used is left alone."""
        if not self.used:
            await self.use().cancel(self.run)

    async def __aenter__(self) -> Self:
        """Give the admission itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release what was not used."""
        await self.release()


class Execution:
    """One use of an admitted run: `run()` for its result, or `events()` to watch it."""

    def __init__(self, admitted: Admitted) -> None:
        self._admitted = admitted
        self._result: ExecutionResult | None = None

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._admitted.run_id

    @property
    def session_id(self) -> str:
        """Id of its session."""
        return self._admitted.session_id

    @property
    def result(self) -> ExecutionResult:
        """What came of it, once `events()` was read to its end or `run()` returned.

        Raises:
            WrongUse: it has not come to rest.
        """
        if self._result is None:
            raise WrongUse("The result is there once the events were read to their end.")
        return self._result

    async def run(self) -> ExecutionResult:
        """Carry the run out and return what came of it; it never raises for what goes wrong in it.

        Cancelling whoever awaits this cancels the run.

        Raises:
            WrongUse: it was used before.
        """
        environment = self._admitted.use()
        try:
            self._result = await self._rest(environment)
        finally:
            await self._left(environment)
        return self._result

    async def events(self) -> AsyncGenerator[Event]:
        """Carry the run out and give its events as they come, those of `core.events`.

        Ends when the run rests; `result` is there then. Whoever stops reading earlier closes it
        (`contextlib.aclosing`), which cancels the run.

        Raises:
            WrongUse: it was used before; at the first step.
        """
        environment = self._admitted.use()
        opened = environment.opened
        try:
            opened.carrier.see_through(self.run_id, self._admitted.run)
            follow = opened.runtime.runs.follow(
                self._admitted.principal, self.run_id, self._admitted.after
            )
            async for stored in follow:
                yield EVENT_ADAPTER.validate_python(stored.data)
            self._result = await self._rest(environment)
        finally:
            await self._left(environment)

    # Helpers ----------------------------------------------------------------------------

    async def _rest(self, environment: RuntimeEnvironment) -> ExecutionResult:
        """Wait until the run rests and return what came of it."""
        opened = environment.opened
        task = opened.carrier.see_through(self.run_id, self._admitted.run)
        try:
            run = await asyncio.shield(task)
            return await patiently(opened.clock, lambda: read_result(opened.database, run))
        except NotFound:
            said = "The session was deleted while this run was under way."
            return ExecutionResult(self.run_id, self.session_id, "cancelled", error=said)

    async def _left(self, environment: RuntimeEnvironment) -> None:
        """Let go of the run; one that is not at rest is cancelled first."""
        # Leaving the environment has cancelled what was under way; a reader may let go later.
        if self._result is None and environment.entered:
            # To the end, also where whoever waits is told a second time to leave.
            await asyncio.shield(environment.spawn(self._stop(environment)))
        environment.disown(self.run_id)

    async def _stop(self, environment: RuntimeEnvironment) -> None:
        """Cancel the run, also where another process took it over meanwhile."""
        runtime = environment.opened.runtime
        await environment.cancel(self._admitted.run)
        with contextlib.suppress(GraphwrightError):
            async with asyncio.timeout(5):
                await runtime.runs.cancel(self._admitted.principal, self.run_id)


async def admit(**asked: Unpack[Asked]) -> Admitted:
    """Let a message, or an answer, in; the run does nothing before it is used.

    Args:
        **asked: see `Asked`.

    Raises:
        WrongUse: no environment is entered.
        Invalid: a field has a value that is not allowed.
        NotFound: no such session, agent or skill of this user.
        Forbidden: the user is disabled.
        SessionBusy: a run is active in the session.
        DuplicateRequest: the `request_id` was used before.
        NoPendingInterrupt, StaleInterrupt: the question to answer is not (any more) there.
        Unavailable: the database is away.
    """
    environment = current()
    command = command_of(asked)
    who: Any = asked["user_name"]
    if not isinstance(who, str):
        raise Invalid("user_name must be a text.")
    return await let_in(environment, who, command)


def build_execution(admitted: Admitted) -> Execution:
    """Return the execution of an admitted run; it goes once."""
    return Execution(admitted)


async def execute(**asked: Unpack[Asked]) -> ExecutionResult:
    """Run an agent on a message, or go on with an answer, and return what came of it.

    What goes wrong while the run is under way is in the result, with status `failed`. A run that
    asks something returns with `waiting_input` and the question in `interrupts`. Cancelling
    whoever awaits this cancels the run.

    Args:
        **asked: see `Asked`.

    Raises:
        GraphwrightError: the message was not let in; `admit` says which there are.
    """
    environment = current()
    async with environment.opened.seats.one():
        return await build_execution(await admit(**asked)).run()


# The way in -------------------------------------------------------------------------------


async def let_in(
    environment: RuntimeEnvironment, who: str | Principal, command: ChatCommand | ResumeCommand
) -> Admitted:
    """Let a run in and hold it, whole or not at all, also when the caller is cancelled meanwhile.

    Args:
        environment: the one that is entered.
        who: whose run it is, or the name of the user.
        command: what is to be done.
    """
    # Also so that no connection is left half made, which a cancelled transaction may do.
    task = environment.spawn(_let_in(environment, who, command))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # It may be committed by now, and a run that nobody awaits must not go on.
        environment.spawn(_undo(task))
        raise


async def _let_in(
    environment: RuntimeEnvironment, who: str | Principal, command: ChatCommand | ResumeCommand
) -> Admitted:
    opened = environment.opened
    runs = opened.runtime.runs
    principal = await opened.identity.script_principal(who) if isinstance(who, str) else who
    submitted: Submitted
    if isinstance(command, ChatCommand):
        submitted = await runs.submit(principal, command)
    else:
        submitted = await runs.resume(principal, command)
    opened.carrier.expect(submitted.run_id)
    run = await patiently(opened.clock, lambda: runs.get(principal, submitted.run_id))
    environment.own(run)
    return Admitted(environment, principal, run, submitted.after)


async def _undo(task: asyncio.Task[Admitted]) -> None:
    with contextlib.suppress(GraphwrightError):
        await (await task).release()
