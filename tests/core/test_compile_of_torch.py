"""torch.compile steps over cmfast: its graph breaks where cmfast is called, and the numbers are the same."""

import pytest
from processes import python

pytestmark = pytest.mark.torch

pytest.importorskip("torch")

CODE = """
import torch
import cmfast
from cmfast import metrics

y, p = torch.arange(99) % 3, torch.arange(99) % 7 % 3
X = torch.stack([y, p], 1).double()


def step(y, p):
    return metrics.f1(cmfast.confusion_matrix(y * 1, p, n_classes=3)) * 2


def scaled(y, p):
    return cmfast.ipf(cmfast.confusion_matrix(y, p, n_classes=3) + 1.0).matrix.sum(0)


def projected(y, p):
    return cmfast.pca(X, 1).transform(X)[y] + p[:, None]


for function in (step, scaled, projected):
    {before}
    compiled = torch.compile(function, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(y, p), function(y, p)), function
assert torch._dynamo.utils.counters["graph_break"]
print("the same")
"""


@pytest.mark.parametrize("before", ["pass", "function(y, p)"], ids=["first", "after others"])
def test_the_graph_breaks_where_cmfast_is_called(before, tmp_path):
    assert python("-c", CODE.format(before=before), cwd=tmp_path).endswith("the same\n")
