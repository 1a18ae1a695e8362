"""People read Chinese or English; no text is there in one of them only."""

import json
from pathlib import Path

from api.auth import pages
from scripts import check_catalogues

ROOT = Path(__file__).parents[2]


def write(folder: Path, name: str, texts: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(texts), encoding="utf-8")


def test_every_catalogue_and_page_of_the_product_is_in_both_languages():
    found = [line for name in ("static", "frontend") for line in _problems(ROOT / name)]
    assert found == []


def test_pages_of_the_server_are_in_both_languages():
    assert check_catalogues.speaks_both(pages.SIGN_IN)
    assert check_catalogues.speaks_both(pages.LINK_SPENT)


def test_missing_and_empty_texts_are_found(tmp_path):
    write(tmp_path / "chat", "zh-CN", {"send": "发送", "tools": {"ok": "好"}})
    write(tmp_path / "chat", "en", {"send": " ", "stop": "Stop"})
    assert check_catalogues.problems(tmp_path) == [
        "chat/zh-CN.json lacks stop",
        "chat/en.json lacks tools.ok",
        "chat/en.json has an empty send",
    ]


def test_catalogue_without_its_twin_is_found(tmp_path):
    write(tmp_path, "en", {"send": "Send"})
    assert check_catalogues.problems(tmp_path) == [f"{tmp_path.name}/zh-CN.json lacks send"]


def test_page_in_one_language_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<html lang="en">x</html>')
    (tmp_path / "b.html").write_text('<html lang="zh-CN"><p lang="en">x</p></html>')
    assert check_catalogues.problems(tmp_path) == ["a.html is not in both languages"]


def _problems(folder: Path) -> list[str]:
    return check_catalogues.problems(folder)
