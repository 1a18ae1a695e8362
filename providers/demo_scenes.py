"""What the demo model can show: one small scene for each ability, chosen by words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_CJK: Final = re.compile("[\u3400-\u9fff]")
_SUM: Final = re.compile(r"[\d(][\d\s.+*/()%^×÷-]*[+*/%^×÷-][\d\s.+*/()%^×÷-]*[\d)]")
_DIGEST: Final = 600
"""Characters that a background answer repeats."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a tool call of this turn ended."""

    name: str
    ok: bool
    text: str

    @classmethod
    def read(cls, name: str, content: str) -> Result:
        """Read a result as the agent's loop writes it; other text counts as it stands."""
        try:
            body = json.loads(content)
            status, data = body["status"], body["data"]
        except (ValueError, TypeError, KeyError):
            return cls(name, ok=True, text=content)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        return cls(name, ok=status == "completed", text=text)


@dataclass(frozen=True, slots=True)
class Asked:
    """The conversation since the user's last message."""

    text: str
    turn: int
    """Answers given since then: 0 for the first."""
    results: tuple[Result, ...]
    tools: frozenset[str]
    system: str = ""

    def say(self, english: str, chinese: str) -> str:
        """Pick the user's language."""
        return chinese if _CJK.search(self.text) else english

    def named_call(self) -> tuple[str, dict[str, Any]] | None:
        """Return the call that the user spells out: a tool's name, then its arguments as JSON."""
        found = re.search(r"\b([\w-]+)\s*(\{.*\})", self.text, re.DOTALL)
        if found is None or found[1] not in self.tools:
            return None
        try:
            args = json.loads(found[2])
        except ValueError:
            return None
        return (found[1], args) if isinstance(args, dict) else None

    def refused(self) -> Result | None:
        """Return the first call that did not go well."""
        return next((result for result in self.results if not result.ok), None)


@dataclass(frozen=True, slots=True)
class Reply:
    """One turn of the demo model."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


Scene = Callable[[Asked], Reply]


def answer(asked: Asked) -> Reply:
    """Return the next turn of the scene that the user's words choose."""
    if asked.named_call() is not None:
        return _named(asked)
    for words, tool, scene in _SCENES:
        if re.search(words, asked.text, re.IGNORECASE):
            if tool and tool not in asked.tools:
                return _missing(asked, tool)
            return scene(asked)
    return _help(asked)


def background(asked: Asked) -> Reply:
    """Answer a question of the server itself: a review, a summary, a title."""
    if '"verdict"' in asked.system:
        return Reply('{"verdict": "complete", "note": ""}')
    return Reply(" ".join(asked.text.split())[:_DIGEST] or "demo")


# Scenes -----------------------------------------------------------------------------------


def _approval(asked: Asked) -> Reply:
    how = asked.say(
        "start the server with HITL_TOOLS=calculate",
        "用 HITL_TOOLS=calculate 启动服务",
    )
    if asked.turn == 0:
        text = asked.say(
            "I will now call `calculate`. If it needs approval, a card asks you first: approve,"
            " edit, reject or answer in its place.",
            "我现在调用 `calculate`。如果它需要审批，会先出现一张卡片：批准、修改、拒绝或代为回答。",
        )
        return Reply(text, calls=(("calculate", {"expression": _expression(asked.text)}),))
    if refused := asked.refused():
        return Reply(
            asked.say(
                f"The call was not carried out, and the reason reached me: {refused.text}",
                f"该调用没有执行，我收到的原因是：{refused.text}",
            )
        )
    return Reply(
        asked.say(
            f"The call ran: {asked.results[-1].text}. If no card appeared, nothing asks for"
            f" approval yet: {how} and try again.",
            f"调用已执行：{asked.results[-1].text}。如果没有出现卡片，说明还没有工具需要审批：{how} 后再试。",
        )
    )


def _plan(asked: Asked) -> Reply:
    steps = (
        ("Collect the facts", "Draft the text", "Check and hand over")
        if not _CJK.search(asked.text)
        else ("收集资料", "起草内容", "检查并交付")
    )
    if asked.turn == 0:
        todos = [{"content": step, "status": "pending"} for step in steps]
        todos[0]["status"] = "in_progress"
        text = asked.say("First a list of what to do.", "先列出要做的事。")
        return Reply(text, calls=(("update_plan", {"todos": todos}),))
    if asked.turn == 1 and "request_plan_approval" in asked.tools:
        body = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
        plan = asked.say("## Plan of the demo\n\n", "## 演示计划\n\n") + body
        text = asked.say("Here is the plan for your approval.", "请审批这份计划。")
        return Reply(text, calls=(("request_plan_approval", {"plan": plan}),))
    last = asked.results[-1]
    if not last.ok:
        return Reply(
            asked.say(f"Understood, I stop here: {last.text}", f"明白，到此为止：{last.text}")
        )
    if last.name == "request_plan_approval":
        todos = [{"content": step, "status": "completed"} for step in steps]
        text = asked.say(
            f"You answered: {last.text}. I tick off the list.",
            f"您的答复：{last.text}。现在把清单勾掉。",
        )
        return Reply(text, calls=(("update_plan", {"todos": todos}),))
    return Reply(asked.say("The plan is done (in this demo).", "计划已完成（仅为演示）。"))


def _question(asked: Asked) -> Reply:
    if asked.turn == 0:
        questions = [
            {
                "question": asked.say("Which colour shall it be?", "选哪种颜色？"),
                "kind": "single",
                "options": asked.say("green,blue,red", "绿色,蓝色,红色").split(","),
            },
            {
                "question": asked.say("Anything else to know?", "还有什么要说明的吗？"),
                "kind": "text",
            },
        ]
        text = asked.say("I have two questions for you.", "我有两个问题想问您。")
        return Reply(text, calls=(("ask_user", {"questions": questions}),))
    said = asked.results[-1].text
    return Reply(asked.say(f"Thank you. You answered: {said}", f"谢谢。您的回答是：{said}"))


def _files(asked: Asked) -> Reply:
    path = "/workspace/demo.md"
    if refused := asked.refused():
        return Reply(asked.say(f"That did not work: {refused.text}", f"没有成功：{refused.text}"))
    if asked.turn == 0:
        content = asked.say(
            "# Demo\n\nWritten by the demo model.\n", "# 演示\n\n由演示模型写入。\n"
        )
        text = asked.say(f"I write {path}.", f"我写入 {path}。")
        return Reply(text, calls=(("write_file", {"path": path, "content": content}),))
    if asked.turn == 1 and "read_file" in asked.tools:
        text = asked.say("Now I read it back.", "现在读回来。")
        return Reply(text, calls=(("read_file", {"path": path}),))
    last = asked.results[-1].text
    return Reply(asked.say(f"{path} is there: {last}", f"{path} 已写好：{last}"))


def _parallel(asked: Asked) -> Reply:
    if asked.turn == 0:
        wanted = (
            ("calculate", {"expression": "6 * 7"}),
            ("now", {}),
            ("list_files", {}),
        )
        calls = tuple(call for call in wanted if call[0] in asked.tools)
        text = asked.say(f"{len(calls)} calls at once.", f"同时发起 {len(calls)} 个调用。")
        return Reply(text, calls=calls)
    lines = "\n".join(f"- {result.name}: {result.text}" for result in asked.results)
    return Reply(asked.say(f"All are back:\n{lines}", f"全部返回：\n{lines}"))


def _sources(asked: Asked) -> Reply:
    if asked.turn == 0:
        room = {"volume_m3": 240, "air_changes_per_hour": 6, "people": 20}
        text = asked.say(
            "I size a room's ventilation; the answer will carry its source.",
            "我来计算一个房间的通风量，回答会附上来源。",
        )
        return Reply(text, calls=(("airflow", room),))
    said = asked.results[-1].text
    return Reply(asked.say(f"By the rule cited below: {said}", f"依据下方引用的规则：{said}"))


def _think(asked: Asked) -> Reply:
    thinking = asked.say(
        "The user wants to see thinking. I have none, being a script. So I show what it looks"
        " like: a text apart from the answer.",
        "用户想看思考过程。我只是脚本，并不思考，所以展示它的样子：与回答分开的文字。",
    )
    text = asked.say(
        "Above you see how thinking is shown. A real model would have reasoned there.",
        "上面就是思考内容的显示方式；真正的模型会在那里推理。",
    )
    return Reply(text, thinking=thinking)


def _long(asked: Asked) -> Reply:
    line = asked.say(
        "This is line {} of a long answer: press Stop, or reload the page, and see what is kept.",
        "这是长回答的第 {} 行：可以点停止，或者刷新页面，看看保留了什么。",
    )
    return Reply("\n\n".join(line.format(number) for number in range(1, 41)))


def _named(asked: Asked) -> Reply:
    """Make the call that the user spelled out; whoever writes a tool can try it so."""
    call = asked.named_call()
    if asked.turn == 0 and call is not None:
        text = asked.say(f"I call `{call[0]}` as you say.", f"我按您说的调用 `{call[0]}`。")
        return Reply(text, calls=(call,))
    said = asked.results[-1].text if asked.results else ""
    if asked.refused():
        return Reply(asked.say(f"That did not work: {said}", f"没有成功：{said}"))
    return Reply(asked.say(f"The tool says: {said}", f"工具的结果：{said}"))


def _calculate(asked: Asked) -> Reply:
    if asked.turn == 0:
        text = asked.say("I let a tool work it out.", "我用工具来算。")
        return Reply(text, calls=(("calculate", {"expression": _expression(asked.text)}),))
    said = asked.results[-1].text
    if asked.refused():
        return Reply(asked.say(f"That could not be worked out: {said}", f"没能算出来：{said}"))
    return Reply(asked.say(f"The tool says: {said}", f"工具的结果：{said}"))


def _skill(asked: Asked) -> Reply:
    if refused := asked.refused():
        return Reply(asked.say(f"That did not work: {refused.text}", f"没有成功：{refused.text}"))
    if asked.turn == 0:
        text = asked.say(
            "The prompt only lists skills; I load the text of one.",
            "提示词里只有技能目录，我加载其中一个的正文。",
        )
        return Reply(text, calls=(("load_skill", {"name": "demo-skill"}),))
    if asked.turn == 1 and "read_file" in asked.tools:
        text = asked.say("It names a file; I read that too.", "正文提到一个文件，我再读它。")
        path = "/skills/demo-skill/references/three-levels.md"
        return Reply(text, calls=(("read_file", {"path": path}),))
    last = asked.results[-1].text
    return Reply(asked.say(f"All three levels are read: {last}", f"三个层级都读到了：{last}"))


def _time(asked: Asked) -> Reply:
    if asked.turn == 0:
        return Reply(asked.say("I look at the clock.", "我看一下时间。"), calls=(("now", {}),))
    said = asked.results[-1].text
    return Reply(asked.say(f"The clock says: {said}", f"现在是：{said}"))


def _help(asked: Asked) -> Reply:
    return Reply(
        asked.say(
            "I am the demo model of Graphwright: a script without a network, which only reacts to"
            " words. Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL for a real one. Try:\n\n"
            "- `calculate 17 * 23`: a tool call\n"
            "- `think`: reasoning beside the answer\n"
            "- `approval`: a call that waits for you\n"
            "- `plan`: a list of steps and a plan to approve\n"
            "- `ask me`: questions to you\n"
            "- `write a file`: a file written and read\n"
            "- `three tools`: calls at once\n"
            "- `skill`: a skill loaded, and a file of it read\n"
            "- `time`, `long`: the clock; a long answer to be stopped\n"
            "- `sources`: an answer with citations (agent `ventilation`)\n"
            "- `now {}`: any tool of the agent, with its arguments as JSON",
            "我是 Graphwright 的演示模型：离线脚本，只对关键词作出反应。配置 OPENAI_BASE_URL、"
            "OPENAI_API_KEY、OPENAI_MODEL 即可使用真正的模型。可以试试：\n\n"
            "- `计算 17 * 23`：调用工具\n"
            "- `思考`：与回答分开的推理\n"
            "- `审批`：等待您决定的调用\n"
            "- `计划`：步骤清单与计划审批\n"
            "- `提问`：向您提问\n"
            "- `写文件`：写入并读取文件\n"
            "- `三个工具`：同时调用\n"
            "- `技能`：加载技能并读取它的文件\n"
            "- `时间`、`长回答`：时钟；可以中途停止的长文本\n"
            "- `来源`：带引用的回答（智能体 `ventilation`）\n"
            "- `now {}`：智能体的任何工具，后面写 JSON 参数",
        )
    )


def _missing(asked: Asked, tool: str) -> Reply:
    return Reply(
        asked.say(
            f"For that I would call `{tool}`, but this agent does not have it. Choose another"
            " agent, or ask for something else.",
            f"这需要调用 `{tool}`，但当前智能体没有这个工具。请换一个智能体，或试试别的。",
        )
    )


def _expression(text: str) -> str:
    found = _SUM.search(text)
    written = found.group() if found else "(17 + 4) * 2"
    return written.replace("×", "*").replace("÷", "/").replace("^", "**").strip()


_SCENES: Final[tuple[tuple[str, str, Scene], ...]] = (
    (r"\bskills?\b|技能", "load_skill", _skill),
    (r"\bapprov|\bHITL\b|审批|批准", "calculate", _approval),
    (r"\bplan\b|\btodo|计划|规划", "update_plan", _plan),
    (r"\bask\b|\bquestions?\b|提问|问我|问题", "ask_user", _question),
    (r"\bwrite\b|\bfiles?\b|\bsave\b|写|文件|保存", "write_file", _files),
    (r"\bsources?\b|\bcit(e|ation)|\bairflow\b|来源|引用|通风", "airflow", _sources),
    (r"\bthree\b|\bparallel\b|\bat once\b|三个|并行|同时", "calculate", _parallel),
    (r"\bthink|\breason|思考|推理", "", _think),
    (r"\blong\b|长", "", _long),
    (r"\btime\b|\bclock\b|时间|几点", "now", _time),
    (r"\bcalculat|\bcompute\b|\bsums?\b|计算|算" + f"|{_SUM.pattern}", "calculate", _calculate),
)
"""Words, the tool without which the scene cannot play, and the scene; the first that fits plays."""
