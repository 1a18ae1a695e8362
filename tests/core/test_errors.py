"""Every error has a sentence, a status and, where it is part of the API, a code of its own."""

import inspect

import pytest

from core import errors
from core.errors import ConfigError, Fault, GraphwrightError, QueueFull, SessionBusy


def family() -> list[type[GraphwrightError]]:
    found = [GraphwrightError]
    for kind in found:
        found += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith("core.")]


@pytest.mark.req("CHAT-12")
@pytest.mark.parametrize("kind", family(), ids=lambda kind: kind.__name__)
def test_class_speaks_for_itself(kind):
    assert inspect.getdoc(kind)
    assert 400 <= kind.status < 600
    assert kind.code.replace("_", "").isalpha() and kind.code.islower()


@pytest.mark.req("CHAT-12")
def test_code_names_one_kind_of_error():
    """A subclass may share its parent's code; a fault of ours may end a request or a run."""
    kinds = [kind for kind in family() if kind.code != GraphwrightError.code]
    for one in kinds:
        for other in kinds:
            if one.code == other.code:
                assert issubclass(one, other) or issubclass(other, one), (one, other)


@pytest.mark.req("CHAT-12")
def test_body_is_the_one_shape_with_cure_details_and_time_to_wait():
    error = QueueFull("500 wait.", details={"waiting": 500}, retry_after=3)
    assert error.body() == {
        "error": {
            "code": "queue_full",
            "message": "500 wait.",
            "details": {"waiting": 500, "cure": QueueFull.cure},
            "retry_after": 3,
        }
    }


def test_default_message_is_the_sentence_of_the_class():
    assert str(SessionBusy()) == inspect.getdoc(SessionBusy)


def test_every_class_is_found_in_the_one_module_that_people_import():
    for kind in family():
        assert getattr(errors, kind.__name__) is kind
    assert {kind.__name__ for kind in family()} <= set(errors.__all__)


@pytest.mark.req("OPS-04")
def test_config_error_lists_every_fault_with_its_cure():
    error = ConfigError(
        [Fault("PORT", "is odd.", "Choose 1."), Fault("HOST", "is not.", "Set it.")]
    )
    assert str(error) == "PORT: is odd. Cure: Choose 1.\nHOST: is not. Cure: Set it."
    assert errors.ConfigError.code == "config_error"
