"""Detectors that are columns of the features."""

import pytest

from tests.unit.selection.makers import fitted_column


@pytest.fixture
def column():
    return fitted_column
