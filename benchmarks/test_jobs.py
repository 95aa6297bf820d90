"""Every job once, small: our result is checked and timed (``--benchmark-enable``), then every rival is checked."""

import pytest

from benchmarks import first_calls
from benchmarks.__main__ import PARTS, lines, measure
from benchmarks._job import Job, Rival

JOBS = [job for sizes in PARTS.values() for jobs in sizes.values() for job in jobs(small=True)]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_job(benchmark, job):
    assert job.check(benchmark(job.run, None))


@pytest.mark.parametrize(
    ("job", "rival"), [pytest.param(job, rival, id=f"{job.name}-{rival.name}") for job in JOBS for rival in job.rivals]
)
def test_rival(job, rival):
    assert 0 < rival.items <= job.items
    if not rival.is_installed:
        pytest.skip(f"{rival.needs} is not installed")
    if rival.prepare:
        rival.prepare()
    assert rival.check(rival.run())


@pytest.mark.parametrize("name", first_calls.CALLS)
def test_first_calls_are_calls(name, capsys):
    exec(first_calls.PROGRAM.format(call=first_calls.CALLS[name]), {})
    assert float(capsys.readouterr().out) >= 0


def test_a_first_call_compiles():
    seconds, functions = first_calls.measure("overlap")
    assert seconds > 0.2
    assert functions > 0  # in a checkout there is no machine code
    with pytest.raises(SystemExit, match=r"^no call named 'sum'; there are: bi_normalize 3x3"):
        first_calls.main(["sum"])


def test_the_table_names_a_rival_that_is_not_installed():
    rival = Rival("other", lambda: 6, 3, lambda _: "right", needs="no_module_has_this_name")
    job = Job("sum", "3 numbers", 3, "numbers", lambda _: 6, lambda _: "right", lambda: None, "read", [rival])
    row = measure(job, seconds=0.001)
    assert row["rivals"] == []
    assert " ".join(list(lines(row))[-1].split()) == "other left out: not installed (pip install .[rivals])"
