"""Extensions with one fault each, and what is to be said about it."""

from __future__ import annotations

TOOL = "from extensions import define_tool, sourced\n@define_tool({said})\ndef {name}(a: int):\n    {doc}\n"
SERVICE = "from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def make(s):\n    yield 1\n"

MIDDLEWARE = """
from langchain.agents.middleware import AgentMiddleware, AgentState, HumanInTheLoopMiddleware
from langchain_core.tools import tool
class Plain(AgentMiddleware): pass
class One(AgentMiddleware):
    class state_schema(AgentState):
        mark: str
class Two(AgentMiddleware):
    class state_schema(AgentState):
        mark: int
@tool
def now(): "Tell the time."
class Brings(AgentMiddleware):
    tools = [now]
def use(services): return services["egg"].open()
def setup(registry):
    add = registry.register_middleware
"""

BROKEN = {
    "mw_circle": (
        MIDDLEWARE + "    add('first', lambda s: Plain(), before=['last'])\n"
        "    add('last', lambda s: Plain(), before=['first'])\n",
        "first → last → first",
    ),
    "mw_double": (
        MIDDLEWARE + "    add('asks', lambda s: HumanInTheLoopMiddleware({'now': True}))\n",
        "doubles what is built in",
    ),
    "mw_search": (
        MIDDLEWARE + "    from langchain.agents.middleware import ProviderToolSearchMiddleware\n"
        "    add('looks', lambda s: ProviderToolSearchMiddleware())\n",
        "the provider itself looks up",
    ),
    "mw_summary": (
        MIDDLEWARE + "    from langchain.agents.middleware import SummarizationMiddleware\n"
        "    from langchain_core.language_models import FakeListChatModel\n"
        "    model = FakeListChatModel(responses=['x'])\n"
        "    add('sums', lambda s: SummarizationMiddleware(model))\n",
        "SummarizationMiddleware doubles what is built in",
    ),
    "mw_todo": (
        MIDDLEWARE + "    from langchain.agents.middleware import TodoListMiddleware\n"
        "    add('plans', lambda s: TodoListMiddleware())\n",
        "TodoListMiddleware doubles what is built in",
    ),
    "mw_fails": (MIDDLEWARE + "    add('fails', lambda s: 1 / 0)\n", "ZeroDivisionError"),
    "mw_none": (MIDDLEWARE + "    add('none', lambda s: None)\n", "gave NoneType"),
    "mw_order": (
        MIDDLEWARE + "    add('o', lambda s: Plain(), after=['asx'])\n",
        "after names 'asx'",
    ),
    "mw_service": (
        MIDDLEWARE + "    add('uses', use, requires=['egg'])\n",
        "'egg' does not run yet",
    ),
    "mw_states": (
        MIDDLEWARE + "    add('one', lambda s: One(), targets=['meek'])\n"
        "    add('two', lambda s: Two(), targets=['meek'])\n"
        "    registry.register_agent('meek')\n",
        "'mark' is of one kind with one and of another with two",
    ),
    "mw_target": (
        MIDDLEWARE + "    add('t', lambda s: Plain(), targets=['assistent'])\n",
        "Did you mean 'assistant'?",
    ),
    "mw_tool": (MIDDLEWARE + "    add('brings', lambda s: Brings())\n", "'now' is taken"),
    "Bad-Name": ("", "no allowed name"),
    "built_in": (
        TOOL.format(said="name='calculate'", name="mine", doc="'Count.'")
        + "def setup(registry):\n    registry.register_tool(mine)\n",
        "The tool 'calculate' is built in",
    ),
    "silent": (
        TOOL.format(said="", name="silent", doc="pass")
        + "def setup(registry):\n    registry.register_agent('quiet', tools=[silent])\n",
        "neither docstring nor summary",
    ),
    "unknown_tool": (
        "def setup(registry):\n    registry.register_agent('u', tools=['calculat'])\n",
        "Did you mean 'calculate'?",
    ),
    "circle": (
        SERVICE + "def setup(registry):\n"
        "    registry.register_service('hen', make, ['egg'])\n"
        "    registry.register_service('egg', make, ['hen'])\n",
        "egg → hen → egg",
    ),
    "requires": (
        TOOL.format(said="", name="needs", doc="'Need.'")
        + "def setup(registry):\n    registry.register_tool(needs, requires=['eg'])\n",
        "Did you mean 'egg'?",
    ),
    "not_bound": (
        "def setup(registry):\n"
        "    registry.register_agent('n', tools=['now'], approval_tools=['write_file'])\n",
        "'write_file', which this agent does not have",
    ),
    "nobody_there": (
        "def setup(registry):\n    registry.register_agent('boss', delegates=['asistant'])\n",
        "Did you mean 'assistant'?",
    ),
    "selfish": (
        "def setup(registry):\n    registry.register_agent('lone', delegates=['lone'])\n",
        "cannot delegate to itself",
    ),
    "odd_shape": (
        "def setup(registry):\n    registry.register_subgraph('s', 'S.', dict, input_schema=str)\n",
        "input_schema cannot be used",
    ),
    "import_error": ("import nothing_of_that_name\n", "Install the package"),
    "wrong_config": (
        "def validate_config():\n    raise ValueError('ACME_API_KEY=abcdef123456 is wrong')\n"
        "def setup(registry): pass\n",
        "finds its settings wrong",
    ),
    "open_route": (
        "from fastapi import APIRouter\nrouter = APIRouter()\n"
        "@router.get('/x')\nasync def x(): ...\n"
        "def setup(registry):\n    registry.register_router(router)\n",
        "states no permission",
    ),
}

BROKEN |= {
    "no_door": (
        "def setup(registry):\n    registry.register_modle_provider('x', print)\n",
        "Did you mean 'register_model_provider'?",
    ),
    "no_embedding": (
        "def setup(registry):\n    registry.register_embedding('x', print)\n",
        "Known ways to register: register_agent, register_component,",
    ),
    "card_open": (
        "def setup(registry):\n"
        "    registry.register_component('card_open.x', {'type': 'object', 'properties': {}}, {})\n",
        'write "additionalProperties": false',
    ),
    "provider_shape": (
        "def make(connection, more): ...\n"
        "def setup(registry):\n    registry.register_model_provider('shaped', make)\n",
        "It does not take exactly one argument.",
    ),
    "provider_fails": (
        "def make(connection):\n    raise RuntimeError('token=abcdef123456')\n"
        "def setup(registry):\n    registry.register_model_provider('failing', make)\n",
        "Its factory failed: RuntimeError: token=***",
    ),
    "provider_taken": (
        "def make(connection): ...\n"
        "def setup(registry):\n    registry.register_model_provider('openai', make)\n",
        "This name is built in.",
    ),
    "policy_shape": (
        "class View:\n    def build(self, messages): ...\n"
        "def setup(registry):\n    registry.register_policy('context_view', View)\n",
        "Its build() has another shape. Write def build, with three arguments.",
    ),
    "policy_fails": (
        "def make():\n    raise RuntimeError('token=abcdef123456')\n"
        "def setup(registry):\n    registry.register_policy('model_gateway', make)\n",
        "Its factory failed: RuntimeError: token=***",
    ),
    "policy_chosen": (
        "def setup(registry):\n"
        "    registry.register_agent('choosy', policies={'model_gateway': 'none'})\n",
        "'none', which is no model_gateway policy",
    ),
    "skills_where": (
        "def setup(registry):\n    registry.register_skills(7)\n",
        "register_skills names 'int', which is no folder",
    ),
}

HOOK = "def setup(registry):\n    registry.register_hook({said})\n"
BROKEN |= {
    "hook_shape": (
        "def both(event, more): ...\n" + HOOK.format(said="'tool_call.before', both"),
        "It does not take exactly one positional parameter. Write `def both(event):`",
    ),
    "hook_nothing": (
        "def nothing(): ...\n" + HOOK.format(said="'run.after', nothing"),
        "It does not take exactly one positional parameter. Write `def nothing(event):`",
    ),
    "hook_keyword": (
        "def look(*, event): ...\n" + HOOK.format(said="'run.after', look"),
        "It does not take exactly one positional parameter.",
    ),
    "hook_async": (
        "async def both(event, more): ...\n" + HOOK.format(said="'run.after', both"),
        "Write `def both(event):`, plain or async",
    ),
    "hook_called": (
        "async def look(event): ...\n" + HOOK.format(said="'run.after', look(None)"),
        "It is what calling a function gave",
    ),
    "hook_option": (
        "def look(event): ...\n" + HOOK.format(said="'run.after', look, retries=2"),
        "unexpected keyword argument 'retries' (line 3)",
    ),
    "hook_no_function": (HOOK.format(said="'run.before', 'check'"), "It is no function"),
    "hook_generator": (
        "def each(event):\n    yield\n" + HOOK.format(said="'run.before', each"),
        "It yields",
    ),
    "hook_point": (
        "def look(event): ...\n" + HOOK.format(said="'tool_cal.before', look"),
        "There is no such point. Did you mean 'tool_call.before'?",
    ),
    "hook_embedding": (
        "def look(event): ...\n" + HOOK.format(said="'embedding.after', look"),
        "Nothing is embedded yet",
    ),
    "hook_record": (
        "from extensions.hooks import ToolResult\n"
        "def look(event: ToolResult): ...\n" + HOOK.format(said="'tool_call.before', look"),
        "Let it take ToolCall, or register it at tool_call.after.",
    ),
    "hook_time": (
        "def look(event): ...\n" + HOOK.format(said="'run.after', look, timeout=0"),
        "timeout is '0'. Give seconds, more than 0 and at most 60.",
    ),
    "hook_policy": (
        "def look(event): ...\n" + HOOK.format(said="'run.after', look, on_error='retry'"),
        "Say 'fail' or 'ignore'.",
    ),
    "hook_agent": (
        "def look(event): ...\n" + HOOK.format(said="'run.after', look, agents=['asistant']"),
        "Did you mean 'assistant'?",
    ),
    "hook_no_agent": (
        "def look(event): ...\n" + HOOK.format(said="'run.after', look, agents=[]"),
        "would never be called",
    ),
    "hook_twice": (
        "def look(event): ...\n"
        + HOOK.format(said="'run.after', look")
        + "    registry.register_hook('run.after', look)\n",
        "registered here already",
    ),
    "hook_graph": (
        "from langgraph.graph import StateGraph, MessagesState\n"
        "def build():\n    graph = StateGraph(MessagesState)\n"
        "    graph.add_node('a', lambda state: {})\n    graph.set_entry_point('a')\n"
        "    return graph\n"
        "def look(event): ...\n"
        + HOOK.format(said="'tool_call.before', look, agents=['own']")
        + "    registry.register_subgraph('own', 'Own.', build)\n",
        "has a graph of its own",
    ),
}
