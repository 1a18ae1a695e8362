"""Code of extensions that register LangGraph graphs with LangChain models of their own."""

from __future__ import annotations

from tests.support.scripted_server import ScriptedServer

_HEAD = '''
import asyncio
import httpx2 as httpx
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

# Nothing is left open when the test ends.
client = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0), trust_env=False)

def model(**more):
    return ChatOpenAI(
        base_url=BASE_URL, api_key="k", model="foreign", max_retries=0,
        http_async_client=client, **more,
    )

def agent(tools):
    """The usual loop of a model and its tools."""
    asked = model(stream_usage=True).bind_tools(tools) if tools else model(stream_usage=True)
    async def think(state):
        return {"messages": [await asked.ainvoke(state["messages"])]}
    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph

def line(*nodes):
    """A graph of plain nodes one after the other."""
    graph = StateGraph(MessagesState)
    for name, node in nodes:
        graph.add_node(name, node)
    for before, after in zip([START, *(name for name, _ in nodes)], [name for name, _ in nodes]):
        graph.add_edge(before, after)
    return graph
'''


def graph_code(scripted: ScriptedServer, code: str) -> str:
    """Return an extension: helpers `model()`, `agent(tools)`, `line(*nodes)`, then `code`."""
    return _HEAD.replace("BASE_URL", repr(scripted.base_url)) + code
