"""Draws the OpenAPI description as one plain page.

The usual pages load their scripts from a content network, which a strict policy forbids and a
machine without internet cannot do. This one needs no script at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final, cast

STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; text-transform: capitalize; }
details { border-top: 1px solid #8884; padding: .5rem 0; }
summary { cursor: pointer; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { overflow: auto; padding: .75rem; background: #8881; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
.note { opacity: .75; }
"""


def render(openapi: Mapping[str, Any]) -> str:
    """Return the page for an OpenAPI document."""
    info = openapi["info"]
    body = "\n".join(_areas(openapi))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f"<p>{escape(info.get('description', ''))}</p>"
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{body}<h2>Shapes</h2>{_shapes(openapi)}</body></html>"
    )


# Helpers ----------------------------------------------------------------------------------


def _areas(openapi: Mapping[str, Any]) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append(_operation(path, method, operation))
    for tag, operations in by_tag.items():
        yield f'<h2 id="{escape(tag)}">{escape(tag)}</h2>'
        yield from operations


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    permission = operation.get("x-permission")
    needs = f"Needs <code>{escape(permission)}</code>." if permission else "Needs no credential."
    parts = [
        f"<summary><code><span class=method>{method.upper()}</span> {escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</summary>",
        f"<p>{escape(operation.get('description', ''))} <span class=note>{needs}</span></p>",
        _parameters(operation.get("parameters", [])),
        _body(operation.get("requestBody")),
        _responses(operation.get("responses", {})),
    ]
    return f"<details>{''.join(parts)}</details>"


def _parameters(parameters: list[Mapping[str, Any]]) -> str:
    rows = [
        f"<tr><td><code>{escape(item['name'])}</code></td><td>{escape(item['in'])}"
        f"{', required' if item.get('required') else ''}</td>"
        f"<td>{escape(item.get('description', ''))}</td></tr>"
        for item in parameters
    ]
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _body(body: Mapping[str, Any] | None) -> str:
    if body is None:
        return ""
    kinds = [
        f"<code>{escape(kind)}</code> {_link(content.get('schema', {}))}"
        for kind, content in body["content"].items()
    ]
    return f"<p>Body: {', '.join(kinds)}</p>"


def _responses(responses: Mapping[str, Any]) -> str:
    rows: list[str] = []
    for status, response in responses.items():
        links = [_link(item.get("schema", {})) for item in response.get("content", {}).values()]
        rows.append(
            f"<tr><td>{escape(status)}</td><td>{escape(response.get('description', ''))}</td>"
            f"<td>{' '.join(links)}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def _link(schema: Mapping[str, Any]) -> str:
    names = sorted({ref.rpartition("/")[2] for ref in _refs(schema)})
    return ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names)


def _refs(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in cast("dict[str, Any]", schema).items():
            if key == "$ref":
                yield str(value)
            else:
                yield from _refs(value)
    elif isinstance(schema, list):
        for value in cast("list[Any]", schema):
            yield from _refs(value)


def _shapes(openapi: Mapping[str, Any]) -> str:
    shapes = openapi.get("components", {}).get("schemas", {})
    return "".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"<pre>{escape(json.dumps(shape, ensure_ascii=False, indent=2))}</pre></details>"
        for name, shape in sorted(shapes.items())
    )
