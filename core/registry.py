"""What extensions register. Collects everything, faults too; nothing here raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import Fault
from core.tooling import AgentSpec, ToolSpec


@dataclass(slots=True)
class AgentDeclaration:
    """An agent as registered, unchecked."""

    name: str
    description: str
    prompt: str
    tools: Sequence[Callable[..., Any] | str]
    approval_tools: Sequence[Callable[..., Any] | str]
    options: dict[str, Any]
    where: str


@dataclass(slots=True)
class Registry:
    """The one argument of `setup(registry)`."""

    tools: list[tuple[Callable[..., Any], str]] = field(default_factory=list)
    """Functions with the extension that brought them."""
    agents: list[AgentDeclaration] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    skills: list[tuple[Path, str]] = field(default_factory=list)
    """Folders of skills with the extension that brought them."""
    extensions: list[str] = field(default_factory=list)
    """Extensions whose `setup` ran, in order."""
    disabled: list[str] = field(default_factory=list)
    """Extensions that say of themselves that they are switched off."""
    where: str = "?"
    """The extension whose `setup` is running."""

    def register_tool(self, function: Callable[..., Any]) -> None:
        """Offer a function marked by `define_tool` to agents."""
        self.tools.append((function, self.where))

    def register_agent(
        self,
        name: str,
        description: str = "",
        prompt: str = "",
        tools: Sequence[Callable[..., Any] | str] = (),
        approval_tools: Sequence[Callable[..., Any] | str] = (),
        **options: Any,
    ) -> None:
        """Offer an agent. `options` are further fields of `AgentSpec`."""
        self.agents.append(
            AgentDeclaration(name, description, prompt, tools, approval_tools, options, self.where)
        )

    def register_skills(self, dir: str | Path) -> None:  # noqa: A002 - the name authors know
        """Offer the skills in a folder: `<dir>/<name>/SKILL.md`."""
        self.skills.append((Path(dir), self.where))


@dataclass(frozen=True, slots=True)
class Assembly:
    """What passed every check; the product runs on this."""

    tools: Mapping[str, ToolSpec]
    agents: Mapping[str, AgentSpec]
    default_agent: str
    extensions: tuple[str, ...]
    disabled_extensions: tuple[str, ...] = ()
    approval_tools: frozenset[str] = frozenset()
    """Tools that need a decision whoever calls them (EXEC-23)."""
    skills: tuple[tuple[Path, str], ...] = ()
    """Folders of skills with the extension that brought them."""
