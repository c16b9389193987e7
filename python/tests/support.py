"""Helpers for several test modules."""

import numpy as np
import pytest


def ones(*shape):
    return np.ones(shape, "float32")


def raised_by(kind, call):
    """Runs a call that must raise an exception of the given class, and returns the exception."""
    with pytest.raises(kind) as caught:
        call()
    return caught.value
