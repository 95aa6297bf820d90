"""JAX arrays: with values, inside jit, vmap and grad; what is refused there, and what happens without 64-bit types."""

import re
import warnings
from dataclasses import fields, is_dataclass
from functools import partial

import numpy as np
import pytest
from callables import ENTRIES, call, tensors
from checks import assert_same_bits
from optional import torch
from processes import ROOT, python

import cmfast
from cmfast import metrics
from cmfast._core.adapters import adapter
from cmfast.kernels.ops import OPS

jax = pytest.importorskip("jax")
from jax import numpy as jnp  # noqa: E402

from cmfast._core.adapters import _jax, _jax_tracing  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True, scope="module")
def wide_types():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


NAMES = [name for name, entry in ENTRIES.items() if entry.arrays and "path" not in entry.others]
M = np.random.default_rng(0).random((5, 4, 4)) + 0.1
ROWS, COLS = M.sum(-1), M.sum(-2)
Y, P = (np.random.default_rng(k).integers(0, 4, (5, 30)) for k in (1, 2))
SHARES = {"n_classes": 4, "normalize": "bi"}
TIGHT = {"tol": 1e-13}
NAMED = ["accuracy", "f1_macro", "mcc", "kappa_quadratic", "recall"]

# Functions of a batch whose result has a shape that its arguments decide.
TRACED = {
    "bi_normalize": (cmfast.bi_normalize, M),
    "of logits": (partial(cmfast.bi_normalize, logits=True), np.log(M)),
    "ipf": (cmfast.ipf, M),
    "ipf with targets": (cmfast.ipf, M, COLS, ROWS),
    "ras": (lambda M: tuple(cmfast.ras(M)[1:]), M),
    "normalize": (partial(cmfast.normalize, method="row"), M),
    "normalize bi": (partial(cmfast.normalize, method="bi"), M),
    "importance_weights": (partial(cmfast.importance_weights, method="col"), M),
    "compute": (lambda M: metrics.compute(M, NAMED), M),
    "f1": (metrics.f1, M),
    "accuracy of counts": (metrics.accuracy, (10 * M).astype(np.int64)),
    "one_vs_rest": (metrics.one_vs_rest, (10 * M).astype(np.int64)),
    "overlap": (cmfast.overlap, M, M[::-1].copy()),
    "l1_distance": (cmfast.l1_distance, M, M[::-1].copy()),
    "kl_divergence": (cmfast.kl_divergence, M, M[::-1].copy()),
    "confusion_matrix": (partial(cmfast.confusion_matrix, n_classes=4), Y, P),
    "of labels": (partial(cmfast.confusion_matrix, labels=[2, 0]), Y, P),
    "of shares": (partial(cmfast.confusion_matrix, **SHARES), Y, P),
    "of weights": (lambda y, p, w: cmfast.confusion_matrix(y, p, n_classes=4, sample_weight=w), Y, P, 0.5 * P),
    "of groups": (lambda y, p, g: cmfast.confusion_matrix(y, p, n_classes=4, groups=g, n_groups=4), Y, P, Y),
    "from_labels": (lambda y, p: metrics.from_labels(y, p, NAMED[:2], n_classes=4), Y, P),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_function_takes_and_gives_them(name):
    """Where tensors give tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
        got, want = (list(leaves(call(ENTRIES[name], make))) for make in (jnp.asarray, np.asarray))
        kinds = [isinstance(x, torch.Tensor) for x in leaves(call(ENTRIES[name], tensors))]
    assert len(got) == len(want) == len(kinds)
    for one, other, in_kind in zip(got, want, kinds, strict=True):
        assert isinstance(one, jax.Array) == in_kind
        assert_same_bits(np.asarray(one), np.asarray(other))


def leaves(found):
    """Yield the arrays in a result of any kind."""
    if isinstance(found, np.ndarray | np.generic | jax.Array | torch.Tensor):
        yield found
    elif isinstance(found, dict | tuple | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from leaves(part)
    elif is_dataclass(found):
        for field in fields(found):
            yield from leaves(getattr(found, field.name))
    elif isinstance(found, cmfast.ConfusionCounts):
        yield found.matrix


def trace(array):
    """Return a tracer of an array, inside of the transformation that runs."""
    return jnp.where(FLAGS[-1], jnp.asarray(array), jnp.asarray(array))


FLAGS = []
# Their results are read by NumPy: these errors are JAX's own, or name the host.
SAY_OTHERWISE = {"display.PathDisplay.from_matrices", "Grid"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_every_function_gives_the_same_bits_in_jit_or_says_why_not(name):
    want = list(leaves(call(ENTRIES[name], np.asarray)))

    def run(flag):
        FLAGS.append(flag)
        return list(leaves(call(ENTRIES[name], trace)))

    try:
        found = jax.jit(run)(True)
    except TypeError as error:
        assert name in SAY_OTHERWISE or re.match(r"^[\w.]+: needs values, which jax.jit", str(error)), error  # noqa: PT017
        return
    finally:
        FLAGS.clear()
    assert len(found) == len(want)
    for one, other in zip(found, want, strict=True):
        assert_same_bits(np.asarray(one), np.asarray(other))


def test_memory_is_shared_and_results_are_not():
    array = jnp.asarray(M)
    memory = adapter(array).to_host(array)
    assert np.shares_memory(memory, np.from_dlpack(array))
    assert not memory.flags.writeable
    found = cmfast.normalize(array, "all")
    assert not np.shares_memory(np.from_dlpack(found), memory)
    assert_same_bits(np.asarray(array), M)


@pytest.mark.parametrize("name", TRACED)
def test_jit_and_vmap_give_the_bits_of_a_call_with_values(name):
    function, *arrays = TRACED[name]
    want = jax.tree_util.tree_leaves(function(*arrays))
    given = [jnp.asarray(x) for x in arrays]
    nested = [x.reshape(5, 1, *x.shape[1:]) for x in given]
    for transform, some in (
        (jax.jit, given),
        (jax.vmap, given),
        (lambda f: jax.jit(jax.vmap(f)), given),
        (lambda f: jax.vmap(jax.vmap(f)), nested),
        (lambda f: jax.vmap(jax.jit(f)), nested),
    ):
        found = jax.tree_util.tree_leaves(transform(function)(*some))
        assert len(found) == len(want)
        for one, other in zip(found, want, strict=True):
            assert isinstance(one, jax.Array)
            assert_same_bits(np.asarray(one).reshape(np.shape(other)), np.asarray(other))


def test_vmap_over_one_of_two_arrays():
    """One matrix for many targets, and many matrices for one; a batch inside of that which is mapped."""
    ones = np.ones(4)
    found = jax.vmap(lambda M: cmfast.ipf(M, jnp.asarray(ones), jnp.asarray(ones)).matrix)(jnp.asarray(M))
    assert_same_bits(np.asarray(found), cmfast.ipf(M, ones, ones).matrix)
    found = jax.vmap(lambda r, c: cmfast.ipf(jnp.asarray(M), r, c).matrix)(jnp.asarray(COLS[:2]), jnp.asarray(ROWS[:2]))
    for k in range(2):
        assert_same_bits(np.asarray(found[k]), cmfast.ipf(M, COLS[k], ROWS[k]).matrix)


def sinkhorn(M):
    """Bi-normalise by sweeps, in JAX alone: the oracle of values and of gradients."""
    for _ in range(300):
        M = M / M.sum(-1, keepdims=True)
        M = M / M.sum(-2, keepdims=True)
    return M


def scaled(M, rows, cols):
    """Scale to targets by sweeps, in JAX alone."""
    for _ in range(300):
        M = M * (rows / M.sum(-1))[..., None]
        M = M * (cols / M.sum(-2))[..., None, :]
    return M


WEIGHTS = np.random.default_rng(5).normal(size=(4, 4))


def test_gradients_are_those_of_sweeps():
    want = jax.grad(lambda M: (sinkhorn(M) * WEIGHTS).sum())(jnp.asarray(M))
    found = jax.grad(lambda M: (cmfast.bi_normalize(M, **TIGHT) * WEIGHTS).sum())(jnp.asarray(M))
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)


def test_gradients_of_targets_are_those_of_sweeps():
    """Rescaled, as the totals of both have to be equal, whatever is changed."""

    def loss(scale, M, rows, cols):
        rows, cols = rows / rows.sum(-1, keepdims=True), cols / cols.sum(-1, keepdims=True)
        return (scale(M, rows, cols) * WEIGHTS).sum()

    given = [jnp.asarray(x) for x in (M, COLS, ROWS)]
    want = jax.grad(partial(loss, scaled), (0, 1, 2))(*given)
    for transform in (lambda f: f, jax.jit):
        found = transform(jax.grad(partial(loss, lambda *a: cmfast.ipf(*a, **TIGHT).matrix), (0, 1, 2)))(*given)
        for one, other in zip(found, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["accuracy", "f1_macro", "mcc", "kappa_quadratic", "recall"])
def test_gradients_of_metrics_are_finite_differences(name):
    def loss(M):
        return (metrics.compute(M, name) ** 2).sum()

    found = jax.jit(jax.grad(loss))(jnp.asarray(M[0]))
    for k in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[k] = 1e-6
        assert found[k] == pytest.approx((loss(M[0] + step) - loss(M[0] - step)) / 2e-6, rel=1e-6, abs=1e-8)


# What has a gradient, by the ops of the table.
FUNCTIONS = {
    "ipf": cmfast.bi_normalize,
    "ras": lambda M: cmfast.ras(M)[1],
    "ipf_of_logits": lambda M: cmfast.bi_normalize(M, logits=True),
    "overlap": lambda M: cmfast.overlap(M, M[..., ::-1, :] if isinstance(M, jax.Array) else M.flip(-2)),
    "l1_distance": lambda M: cmfast.l1_distance(M, M[..., ::-1, :] if isinstance(M, jax.Array) else M.flip(-2)),
    "kl_divergence": lambda M: cmfast.kl_divergence(M, M[..., ::-1, :] if isinstance(M, jax.Array) else M.flip(-2)),
    "normalize": lambda M: cmfast.normalize(M, "row"),
    "importance_weights": lambda M: cmfast.importance_weights(M, "col"),
    "metrics_of_matrices": lambda M: metrics.compute(M, "mcc"),
}


def test_every_op_with_a_gradient_is_tried():
    assert set(FUNCTIONS) == {name for name, op in OPS.items() if op.gradient}
    assert set(FUNCTIONS) <= set(_jax_tracing.TRACEABLE) <= set(OPS)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_gradients_are_those_of_torch(op):
    def loss(M):
        return (FUNCTIONS[op](M) ** 2).sum()

    leaf = torch.tensor(M, requires_grad=True)
    loss(leaf).backward()
    want, array = leaf.grad.numpy(), jnp.asarray(M)
    for found in (
        jax.grad(loss)(array),
        jax.jit(jax.grad(loss))(array),
        jax.grad(jax.jit(loss))(array),
        jax.vmap(jax.grad(loss))(array),
        jax.jit(jax.vmap(jax.grad(loss)))(array),
        jax.value_and_grad(loss)(array)[1],
    ):
        np.testing.assert_allclose(found, want, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_jacobians(op):
    """By vmap of the backward pass over directions, the arrays of which have no such axis."""
    function, one = FUNCTIONS[op], jnp.asarray(M[0])
    found = jax.jacrev(function)(one)
    size = int(np.prod(found.shape[:-2]))
    rows = [jax.grad(lambda M, k=k: function(M).reshape(-1)[k])(one) for k in range(size)]
    np.testing.assert_allclose(found.reshape(size, 4, 4), jnp.stack(rows), rtol=1e-12, atol=1e-14)


def test_one_gradient_of_several_and_integers():
    array = jnp.asarray(M)
    loss = lambda A, B: cmfast.overlap(A, B).sum()  # noqa: E731
    both = jax.grad(loss, (0, 1))(array, array[0])
    assert both[1].shape == (4, 4)
    assert_same_bits(np.asarray(jax.grad(loss)(array, array[0])), np.asarray(both[0]))
    counts = (10 * array).astype(jnp.int64)
    assert jax.jit(jax.grad(loss))(array, counts).shape == array.shape
    narrow = jax.grad(lambda M: cmfast.bi_normalize(M)[..., 0].sum())(array.astype(jnp.float32))
    assert narrow.dtype == np.float32


def test_labels_of_logits_have_no_gradient_and_need_none():
    """As in a step of training that logs the counts of its batch."""
    logits, y = jnp.asarray(M[:, 0]), jnp.asarray(Y[0, :5])

    def loss(logits):
        counts = cmfast.confusion_matrix(y, logits.argmax(-1), n_classes=4)
        return (logits**2).sum(), counts

    want = cmfast.confusion_matrix(Y[0, :5], M[:, 0].argmax(-1), n_classes=4)
    for step in (jax.value_and_grad(loss, has_aux=True), jax.jit(jax.value_and_grad(loss, has_aux=True))):
        (_, counts), grad = step(logits)
        assert_same_bits(np.asarray(counts), want)
        np.testing.assert_allclose(grad, 2 * M[:, 0], rtol=1e-15)


@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
def test_what_has_no_factors_has_the_gradient_of_its_limit_traced_or_not():
    limit = jnp.asarray([[1.0, 2.0, 7.0], [3.0, 1.0, 0.0], [0.0, 0.0, 5.0]])
    failed = jnp.zeros((3, 3))
    loss = lambda M: (cmfast.bi_normalize(M)[..., :2, :2].cumsum(-2) ** 2).sum()  # noqa: E731
    block = jax.grad(lambda M: (cmfast.bi_normalize(M).cumsum(-2) ** 2).sum())(limit[:2, :2])
    for grad in (jax.grad(loss), jax.jit(jax.grad(loss))):
        found = grad(jnp.stack([limit, failed]))
        np.testing.assert_allclose(found[0, :2, :2], block, rtol=1e-6, atol=1e-9)
        assert np.isnan(found[1]).all()


BAD = M.copy()
BAD[2, 1] = 0.0


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f))], ids=["jit", "vmap", "both"])
def test_failures_warn_once_for_a_batch(transform):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = transform(cmfast.bi_normalize)(jnp.asarray(BAD))
        jax.effects_barrier()
    (warning,) = seen
    assert issubclass(warning.category, cmfast.FailureWarning)
    assert str(warning.message) == "bi_normalize: 1 of 5 matrices not scaled (first: 2): 1 ZERO_LINE"
    assert np.isnan(found[2]).all()
    assert not np.isnan(found[:2]).any()


@pytest.mark.filterwarnings("error::cmfast.FailureWarning")
def test_failures_that_raise_or_are_ignored():
    ignored = jax.jit(partial(cmfast.bi_normalize, on_failure="ignore"))(jnp.asarray(BAD))
    assert np.isnan(ignored[2]).all()
    raising = jax.jit(partial(cmfast.bi_normalize, on_failure="raise"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="FailureError: bi_normalize: 1 of 5 matrices not scaled"):
        jax.block_until_ready(raising(jnp.asarray(BAD)))
    with cmfast.config(on_failure="ignore"):
        traced = jax.jit(partial(cmfast.bi_normalize, tol=1e-8)).lower(jnp.asarray(BAD)).compile()
    assert np.isnan(traced(jnp.asarray(BAD))[2]).all()  # as configured where it was traced


def test_eager_gradients_say_what_failed():
    with pytest.warns(cmfast.FailureWarning, match=r"^bi_normalize: ZERO_LINE \(element 2 of 5\): row 1 is empty"):
        jax.grad(lambda M: cmfast.bi_normalize(M)[0].sum())(jnp.asarray(BAD))


def test_labels_outside_raise_when_they_are_counted():
    for function in (cmfast.confusion_matrix, lambda *y, n_classes: metrics.from_labels(*y, "f1", n_classes=n_classes)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"ValueError: .*(y_true must be|outside)"):
            jax.block_until_ready(jax.jit(partial(function, n_classes=2))(jnp.asarray(Y), jnp.asarray(P)))


REFUSED = {
    "confusion_matrix": lambda M: cmfast.confusion_matrix(M.astype(int)[0], M.astype(int)[0]),
    "support": cmfast.support,
    "importance_weights": lambda M: cmfast.importance_weights(M, "bi"),
    "uncertainty.interval": lambda M: cmfast.uncertainty.interval(M, "accuracy"),
    "metrics.most_confused": metrics.most_confused,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_values_says_so(name):
    for transform in (jax.jit, jax.vmap):
        with pytest.raises(TypeError, match=rf"^{name}: needs values, which jax.jit, vmap and grad do not show"):
            transform(REFUSED[name])(jnp.asarray(M))


def test_gradients_that_are_refused():
    array = jnp.asarray(M)
    with pytest.raises(TypeError, match=r"^metrics.from_sums: got an array whose gradient is requested, which it does"):
        jax.grad(lambda M: metrics.from_sums(M, M, M, "accuracy").sum())(array)
    with pytest.raises(TypeError, match=r"^metrics.from_sums: got an array whose gradient is requested, which it does"):
        jax.jit(jax.grad(lambda M: metrics.from_sums(M, M, M, "accuracy").sum()))(array)
    with pytest.raises(TypeError, match=r"^bi_normalize: smoothing='pseudo-bayes' has no gradient"):
        jax.grad(lambda M: cmfast.bi_normalize(M, smoothing="pseudo-bayes").sum())(array)
    inner = jax.grad(lambda M: (cmfast.bi_normalize(M) ** 2).sum())
    for grad in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        with pytest.raises(NotImplementedError, match=r"^bi_normalize: cmfast has gradients, but no gradients of grad"):
            grad(lambda M: inner(M).sum())(array)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(cmfast.bi_normalize, (array,), (array,))

    def stopped(M):
        return (M * cmfast.uncertainty.interval(jax.lax.stop_gradient(M), "mcc").low.sum()).sum()

    assert np.isfinite(jax.grad(stopped)(jnp.round(100 * array))).all()


def test_arrays_that_are_refused():
    with pytest.raises(TypeError, match="overlap: arrays must come from one library, got A from jax, B from numpy"):
        cmfast.overlap(jnp.asarray(M), M)
    with pytest.raises(TypeError, match=r"; make arrays of jax of the others, as by jax\.numpy\.asarray\(row_sums\)$"):
        cmfast.ipf(jnp.asarray(M), np.asarray(ROWS), np.asarray(COLS))
    for transform in (lambda f: f, jax.jit):
        with pytest.raises(TypeError, match=r"^normalize: M has dtype bfloat16, which NumPy does not have"):
            transform(partial(cmfast.normalize, method="row"))(jnp.asarray(M, jnp.bfloat16))
    with pytest.raises(TypeError, match=r"^metrics.compute: out must be .* that can be written to, got a read"):
        metrics.compute(jnp.asarray(M), "mcc", out=jnp.zeros(5))


def test_tracing_for_another_device_is_refused(monkeypatch):
    class Gpu:
        platform = "gpu"

        def __str__(self):
            return "gpu:0"

    monkeypatch.setattr(_jax, "find_default_device", Gpu)
    with pytest.raises(TypeError, match=r"^normalize: M is traced by JAX for gpu:0, .*jax.default_device\(jax.devices"):
        jax.jit(partial(cmfast.normalize, method="row"))(jnp.asarray(M))


NARROW = """
import jax, numpy as np, cmfast
from jax import numpy as jnp
assert not jax.config.jax_enable_x64
for function in (cmfast.bi_normalize, jax.jit(cmfast.bi_normalize), jax.grad(lambda M: cmfast.bi_normalize(M).sum())):
    try:
        function(jnp.ones((2, 2)))
    except TypeError as error:
        print(error)
with jax.enable_x64(True):
    print(cmfast.bi_normalize(jnp.ones((2, 2))).dtype)
print(type(cmfast.bi_normalize(np.asarray(jnp.ones((2, 2))))).__name__)
"""


def test_without_64_bit_types_nothing_is_rounded_in_silence():
    *refused, wide, host = python("-c", NARROW, cwd=ROOT).splitlines()
    assert len(refused) == 3
    assert len(set(refused)) == 1
    assert refused[0].startswith("bi_normalize: M must be an array of JAX with 64-bit types, as counts are int64")
    assert refused[0].endswith("jax.config.update('jax_enable_x64', True) first, or give numpy.asarray(M)")
    assert (wide, host) == ("float64", "ndarray")


def test_jax_is_imported_for_its_arrays_alone():
    code = "import sys, cmfast; cmfast.bi_normalize([[1.0, 2.0], [3.0, 4.0]]); print('jax' in sys.modules)"
    assert python("-c", code, cwd=ROOT) == "False\n"
