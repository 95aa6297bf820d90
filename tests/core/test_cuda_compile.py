"""Every instance of every CUDA kernel, compiled for the GPUs that are promised, with what it takes of them."""

import re
from inspect import signature
from types import SimpleNamespace

import cuda_host
import numpy as np
import nvrtc
import pytest
from processes import ROOT

from cmfast.kernels.cuda._core import module
from cmfast.kernels.ops import OPS

pytestmark = pytest.mark.cuda_host

KERNELS = module.list_kernels()
OVERLAP = next(kernel for kernel in KERNELS if kernel.name == "cmfast_overlap_pairs")
needs_the_compiler = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))


@needs_the_compiler
@pytest.mark.parametrize(
    ("architecture", "most"),
    [
        pytest.param("sm_80", 1, id="sm_80-first"),
        *(pytest.param(each, None, id=each, marks=pytest.mark.slow) for each in nvrtc.ARCHITECTURES),
    ],
)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_nothing_is_spilled(kernel, architecture, most):
    """Some instances in a short run; in CI all of them, on both."""
    usage = nvrtc.usage(kernel.topic, architecture, most)
    for instance in kernel.instances[:most]:
        found = usage[kernel.expression(instance)]
        assert (found.stack, found.spill_stores, found.spill_loads) == (0, 0, 0), (instance, found)
        assert found.shared == 0, (instance, found)
        assert found.registers <= kernel.ceiling(instance), (instance, found)


@needs_the_compiler
def test_the_table_of_a_topic_names_its_kernels(capsys):
    names = [k.expression(instance) for k in KERNELS if k.topic == "conformal/thresholds" for instance in k.instances]
    assert nvrtc.main("conformal/thresholds") == 0
    _, line, *rows = capsys.readouterr().out.splitlines()
    assert line == "|---|---|---|---|---|"
    assert [row.split("`")[1] for row in rows] == names
    assert all(re.search(r"`( \| \d+, 0, 0, 0){4} \|$", row) for row in rows)


@needs_the_compiler
def test_what_spills_is_seen():
    source = "__global__ void k(const double* x, double* y, int n) { double a[9]; for (int i = 0; i < 9; ++i)"
    source += " a[i] = x[i * n]; y[0] = a[n % 9]; }"
    (found,) = nvrtc.Program(source).compile(["k"], "sm_80").values()
    assert found.stack == 72


@needs_the_compiler
@pytest.mark.parametrize("body", ["no_such_thing();", "int unused = 0;"])
def test_errors_and_warnings_are_seen(body):
    with pytest.raises(RuntimeError, match=r"no_such_thing|unused"):
        nvrtc.Program(f"__global__ void k() {{ {body} }}").compile(["k"], "sm_80")


@needs_the_compiler
def test_draws_are_made_without_fused_multiplications():
    """Their bits are those of the CPU."""
    draws = next(kernel for kernel in KERNELS if kernel.name == "cmfast_resample_cells")
    counts = [
        nvrtc.Program(module.assemble_source(draws.topic)).assembly([draws.name], options).count("fma.rn.f64")
        for options in (module.options(draws.topic), module.OPTIONS)
    ]
    assert counts[0] == 0 < counts[1]


def crews():
    """Return the instances whose blocks may share a matrix, and exchange numbers through memory; slow ones marked."""
    for kernel in KERNELS:
        for instance in kernel.instances if "group_size" in {p.name for p in kernel.signature[1]} else ():
            if "true" in instance[1:2]:
                slow = [pytest.mark.slow] if kernel.ceiling(instance) > nvrtc.HALF else []
                yield pytest.param(kernel, instance, id=kernel.expression(instance), marks=slow)


def test_kernels_of_crews_are_known():
    assert {each.id for each in crews()} == {
        "cmfast_ipf_team<256, true, false>",
        "cmfast_ipf_team<256, true, true>",
        "cmfast_scaling_gradient_team<256, true>",
    }


@needs_the_compiler
@pytest.mark.parametrize(("kernel", "instance"), [*crews()])
def test_blocks_that_share_a_matrix_see_what_others_wrote(kernel, instance):
    """The host runs other words in the place of these."""
    expression = kernel.expression(instance)
    code, names = module.make_translation_unit(kernel.topic, expression)
    assert not nvrtc.find_unordered(nvrtc.Program(code).assembly(names, module.options(kernel.topic)))


@needs_the_compiler
@pytest.mark.parametrize("topic", ["geometry/counts", "metrics/gradient", "uncertainty/resample"])
def test_an_instance_is_compiled_by_itself(topic):
    """What is no template comes of one unit, and of no other."""
    kernels = [kernel for kernel in KERNELS if kernel.topic == topic]
    plain = [kernel.name for kernel in kernels if kernel.instances == ((),)]
    template = next(kernel for kernel in kernels if kernel.name not in plain)
    expression = template.expression(template.instances[0])
    for name, together in ((plain[0], plain), (expression, [expression])):
        code, names = module.make_translation_unit(topic, name)
        assert set(names) == set(together)
        assert nvrtc.Program(code).assembly(names, module.options(topic)).count(".entry ") == len(names)


@pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))
def test_a_first_call_waits_for_few_kernels():
    calls = nvrtc.first_calls()
    found = [name for _, name in nvrtc.launched(calls["bi_normalize, 10x10"])]
    assert [name for name in found if "team" not in name] == ["cmfast_ipf_group<10>"]
    for size, large in (("40x40", "false"), ("100x100", "true")):
        found = nvrtc.launched(calls[f"bi_normalize, {size}"])
        assert found[0] == ("scaling/team", f"cmfast_ipf_team<256, {large}, true>")
    found = nvrtc.launched(calls["cell_counts, gcm of a row"])
    assert len({module.make_translation_unit(*each) for each in found}) < len(found)


def test_names_say_whose_a_kernel_is():
    ops = [op for op, entry in OPS.items() if "cuda" in entry.targets]
    for kernel in KERNELS:
        assert any(kernel.name.startswith(f"cmfast_{op}_") for op in ops), kernel.name
        assert kernel.instances
        templates, parameters = kernel.signature
        assert all(len(instance) == len(templates) for instance in kernel.instances)
        known = {*module.TYPES, *templates}
        assert {parameter.type for parameter in parameters} <= known, kernel.name
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)


def test_every_kernel_of_the_sources_is_in_the_table():
    text = "".join(path.read_text() for path in (ROOT / "kernels" / "cuda").rglob("*.cu"))
    assert text.count("__global__ ") == len(KERNELS)


def test_shared_memory_is_asked_for_in_one_way():
    """The host forgets, and poisons, only what a launch asks for."""
    for path in (ROOT / "kernels" / "cuda").rglob("*.cu"):
        assert "__shared__" not in path.read_text(), path.name


def test_no_lambda_is_generic():
    """NVRTC 13.0 and 13.1 take one in a kernel for a function of the host."""
    for path in (ROOT / "kernels" / "cuda").rglob("*.cu*"):
        assert re.search(r"\]\([^)]*\bauto\b", path.read_text()) is None, path.name


def test_wrong_arguments_are_refused():
    parameter = OVERLAP.signature[1][0]
    good = np.zeros((4, 4))
    assert module._convert_argument("k", parameter, good.dtype, good) is good
    for bad in (good.astype(np.float32), good[:, ::2]):
        with pytest.raises(TypeError, match=r"^k: P must be contiguous float64, got float"):
            module._convert_argument("k", parameter, good.dtype, bad)
    with pytest.raises(LookupError, match="not compiled for"):
        OVERLAP.launch(("half", "8"), 1)


MATRICES = SimpleNamespace(
    dtype=np.dtype(np.float64), flags=SimpleNamespace(c_contiguous=True), device=SimpleNamespace(id=0)
)
STATUS = SimpleNamespace(dtype=np.dtype(np.int8), flags=MATRICES.flags, device=MATRICES.device)
GOOD = {
    "P": MATRICES,
    "p_step": 1,
    "Q": MATRICES,
    "q_step": 2,
    "cells": 3,
    "n": 4,
    "out": MATRICES,
    "out_status": STATUS,
}


def launched(monkeypatch, **arguments):
    """Return what a launch passes to the kernel."""
    passed = []
    monkeypatch.setattr(module, "library", lambda array: None)
    monkeypatch.setattr(
        module, "_load_function", lambda *key: lambda grid, block, values, **options: passed.append(values)
    )
    OVERLAP.launch(("double", "8"), 1, **arguments)
    return passed[0]


def test_arguments_go_where_their_names_are(monkeypatch):
    want = launched(monkeypatch, **GOOD)
    assert want[1::2][:2] == (1, 2)
    assert launched(monkeypatch, **dict(reversed(GOOD.items()))) == want
    swapped = launched(monkeypatch, **GOOD | {"p_step": GOOD["q_step"], "q_step": GOOD["p_step"]})
    assert swapped[1::2][:2] == (2, 1)


@pytest.mark.parametrize(
    ("without", "added", "message"),
    [
        (["q_step"], {}, "missing q_step"),
        (["Q", "n"], {}, "missing Q, n"),
        ([], {"step": 1}, "unknown step"),
        (["p_step"], {"step_p": 1}, "missing p_step; unknown step_p"),
    ],
)
def test_names_that_the_source_does_not_have_are_refused(monkeypatch, without, added, message):
    given = {name: value for name, value in GOOD.items() if name not in without} | added
    with pytest.raises(TypeError, match=f"^cmfast_overlap_pairs: {message}$"):
        launched(monkeypatch, **given)


def test_a_name_given_twice_is_refused(monkeypatch):
    with pytest.raises(TypeError, match="multiple values for keyword argument 'p_step'"):
        launched(monkeypatch, **GOOD, p_step=1)


def test_no_parameter_has_a_name_that_a_launch_takes_itself():
    taken = {name for name, one in signature(module.Kernel.launch).parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert taken == {"shared", "threads"}
    for kernel in KERNELS:
        parameters = [parameter.name for parameter in kernel.signature[1]]
        assert len(set(parameters)) == len(parameters), kernel.name
        assert not taken & set(parameters), kernel.name
