"""What several test modules use."""

import numpy as np
import pytest


def ones(*shape):
    return np.ones(shape, "float32")


def refusal(kind, call):
    """Returns the exception of this class that the call raises."""
    with pytest.raises(kind) as found:
        call()
    return found.value
