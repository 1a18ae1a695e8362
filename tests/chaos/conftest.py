"""The data folder of the acceptance tests."""

from tests.acceptance.conftest import data_dir

__all__ = ["data_dir"]
