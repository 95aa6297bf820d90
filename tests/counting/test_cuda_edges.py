"""The first label that is no class, on one side alone: every way to count on a device refuses it, as the CPU does."""

import device
import numpy as np
import pytest

import cmfast

pytestmark = device.marks


@pytest.mark.parametrize("side", [0, 1], ids=["true", "pred"])
@pytest.mark.parametrize("n_classes", [4, 40, 111])  # in bytes, in shared memory, by atomics
@pytest.mark.parametrize("dtype", ["u1", "i8"])
def test_the_first_label_outside_is_refused(n_classes, side, dtype):
    rng = np.random.default_rng(n_classes)
    pair = [rng.integers(0, n_classes, 5000).astype(dtype) for _ in range(2)]
    pair[side][4321] = n_classes
    with pytest.raises(ValueError, match="outside") as on_cpu:
        cmfast.confusion_matrix(*pair, n_classes=n_classes)
    with pytest.raises(ValueError, match="outside") as on_cuda:
        cmfast.confusion_matrix(*map(device.asarray, pair), n_classes=n_classes)
    assert str(on_cuda.value) == str(on_cpu.value)
    pair[side][4321] = n_classes - 1
    got = cmfast.confusion_matrix(*map(device.asarray, pair), n_classes=n_classes)
    np.testing.assert_array_equal(got.get(), cmfast.confusion_matrix(*pair, n_classes=n_classes))
