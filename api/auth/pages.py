"""Two plain pages for people who are not signed in: no script, no style, nothing from elsewhere."""

from __future__ import annotations

from typing import Final

_PAGE: Final = """<!doctype html>
<html lang="zh-CN">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Graphwright</title>
</head>
<body>
<main>
<h1>Graphwright</h1>
{text}
<p>启动服务时，终端会打印一个只能使用一次的登录链接。运行 <code>graphwright link</code> 可得到新的链接。</p>
<p lang="en">The server prints a sign-in link, good for one use, in its terminal when it starts.
Run <code>graphwright link</code> for a new one.</p>
</main>
</body>
</html>
"""

SIGN_IN: Final = _PAGE.format(text='<p>请先登录。</p>\n<p lang="en">Sign in first.</p>')

LINK_SPENT: Final = _PAGE.format(
    text=(
        "<p>这个登录链接已经使用过，或者已经过期。</p>\n"
        '<p lang="en">This sign-in link was used already or is too old.</p>'
    )
)
