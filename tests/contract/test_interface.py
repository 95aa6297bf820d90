"""The interface has all that the releases of this major version have: names, arguments, fields, options of commands."""

import copy
import json
from functools import cache

import interface
import pytest
from optional import Missing, load

import cmfast
from cmfast.cli.commands import COMMANDS

RELEASES = sorted(interface.FOLDER.glob("api-*.json"))
RELEASED = {path.stem.removeprefix("api-"): json.loads(path.read_text(encoding="utf-8")) for path in RELEASES}
PARTS = [*interface.MODULES, "command"]

find_today = cache(interface.find_module)


def find_part(part):
    """Return today's entries of a module or of the command; skip a module whose library is not here."""
    if part == "command":
        return interface.find_commands()
    library = interface.MODULES[part]
    if library and isinstance(found := load(library), Missing):
        found.skip()
    return find_today(part)


def test_the_first_release_is_kept():
    assert "1.0" in RELEASED
    assert all(set(parts) == set(PARTS) for parts in RELEASED.values())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "release", [name for name in RELEASED if name.split(".")[0] == cmfast.__version__.split(".")[0]]
)
def test_nothing_of_a_release_is_lost(release, part):
    """What is lost would break programs; docs/stability.md says how a name may go."""
    assert interface.find_losses(RELEASED[release][part], find_part(part), part) == []


def find_parameters(entries, name):
    return entries[name]["parameters"]


EXTRA = {"kind": "either", "default": "None"}
ORDER = "its positional parameters began with M, row_sums, col_sums, and begin with M, col_sums, row_sums"
# Faults, the module that has them, and the message: what a program written for the release meets.
FAULTS = {
    "a function is gone": ("cmfast", lambda e: e.pop("overlap"), ["cmfast.overlap: it is gone"]),
    "a function is a value": (
        "cmfast",
        lambda e: e.update(ipf={"kind": "value"}),
        ["cmfast.ipf: it was a function, and is a value"],
    ),
    "an option is renamed": (
        "cmfast",
        lambda e: find_parameters(e, "ipf").update(tolerance=find_parameters(e, "ipf").pop("tol")),
        ["cmfast.ipf: tol is gone from its parameters"],
    ),
    "another default": (
        "cmfast",
        lambda e: find_parameters(e, "ipf")["tol"].update(default="1e-08"),
        ["cmfast.ipf: tol had the default 1e-09, and has 1e-08"],
    ),
    "no default": (
        "cmfast",
        lambda e: find_parameters(e, "ipf")["tol"].pop("default"),
        ["cmfast.ipf: tol had the default 1e-09, and has none"],
    ),
    "another order": (
        "cmfast",
        lambda e: find_parameters(e, "ipf").update(row_sums=find_parameters(e, "ipf").pop("row_sums")),
        [f"cmfast.ipf: {ORDER}"],
    ),
    "by keyword only": (
        "cmfast",
        lambda e: find_parameters(e, "ipf")["col_sums"].update(kind="keyword"),
        ["cmfast.ipf: col_sums was either, and is keyword"],
    ),
    "a new argument without a default": (
        "cmfast",
        lambda e: find_parameters(e, "ipf").update(depth={"kind": "keyword"}),
        ["cmfast.ipf: depth is new, and calls without it were right"],
    ),
    "a name that an option takes": (
        "cmfast",
        lambda e: find_parameters(e, "ipf")["solver"]["choices"].remove("'newton'"),
        ["cmfast.ipf: solver has lost 'newton'"],
    ),
    "an option of normalize": (
        "cmfast",
        lambda e: find_parameters(e, "normalize")["options"]["choices"].remove("tol"),
        ["cmfast.normalize: options has lost tol"],
    ),
    "a code": (
        "cmfast",
        lambda e: e["Status"]["values"].update(TOTALS=9),
        ["cmfast.Status: TOTALS was 4, and is 9"],
    ),
    "another class of exception": (
        "cmfast",
        lambda e: e["FailureError"]["bases"].remove("ValueError"),
        ["cmfast.FailureError: ValueError is gone from its bases"],
    ),
    "a method": ("cmfast", lambda e: e.pop("Grid.scott"), ["cmfast.Grid.scott: it is gone"]),
    "a property": (
        "cmfast",
        lambda e: e["Grid"]["attributes"].remove("n_axes"),
        ["cmfast.Grid: n_axes is gone from its attributes"],
    ),
    "a field": (
        "cmfast.results",
        lambda e: e["ScalingResult"]["fields"].remove("n_iter"),
        ["cmfast.results.ScalingResult: n_iter is gone from its fields"],
    ),
    "a field before others": (
        "cmfast.results",
        lambda e: e["Roc"]["fields"].insert(0, "area"),
        ["cmfast.results.Roc: its fields began with thresholds, fpr, tpr, and begin with area, thresholds, fpr"],
    ),
    "a metric": (
        "cmfast.metrics",
        lambda e: e["MetricName"]["names"].remove("mcc"),
        ["cmfast.metrics.MetricName: mcc is gone from its names"],
    ),
    "a command": ("command", lambda e: e.pop("merge"), ["command.merge: it is gone"]),
    "an option of a command": (
        "command",
        lambda e: find_parameters(e, "rake").pop("--bounds"),
        ["command.rake: --bounds is gone from its parameters"],
    ),
    "a short option": (
        "command",
        lambda e: find_parameters(e, "rake")["--output"]["names"].remove("-o"),
        ["command.rake: --output has lost -o"],
    ),
    "a default of a command": (
        "command",
        lambda e: find_parameters(e, "compare")["--seed"].update(default="1"),
        ["command.compare: --seed had the default 0, and has 1"],
    ),
    "an option that must be given": (
        "command",
        lambda e: find_parameters(e, "rake")["--weights"].pop("default"),
        ["command.rake: --weights had the default None, and has none"],
    ),
    "more values": (
        "command",
        lambda e: find_parameters(e, "rake")["--bounds"].update(nargs="3"),
        ["command.rake: --bounds took 2 values, and takes 3"],
    ),
    "an argument before others": (
        "command",
        lambda e: e["merge"].update(parameters={"first": EXTRA, **find_parameters(e, "merge")}),
        ["command.merge: its positional parameters began with input, and begin with first"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_loss_is_named(name):
    part, plant, messages = FAULTS[name]
    kept = find_part(part)
    later = copy.deepcopy(kept)
    plant(later)
    assert interface.find_losses(kept, kept, part) == []
    assert interface.find_losses(kept, later, part) == messages


def test_additions_are_no_losses():
    kept = find_part("cmfast")
    later = copy.deepcopy(kept)
    later["rescale"] = {"kind": "function", "parameters": {"M": {"kind": "positional"}}}
    parameters = find_parameters(later, "ipf")
    parameters["depth"] = {"kind": "either", "default": "None"}  # after the other positional ones
    parameters["M"]["kind"] = "either"
    parameters["tol"]["kind"] = "either"
    parameters["solver"]["choices"].append("'bregman'")
    parameters["empty"].pop("choices")  # any value
    later["Projection"]["fields"].append("n_points")
    later["Grid"]["attributes"].append("area")
    later["Status"]["values"]["SINGULAR"] = 9
    assert interface.find_losses(kept, later, "cmfast") == []


def test_faults_in_the_sources_are_found(monkeypatch):
    """A function, a class and a command that differ: the interface is read from them."""

    def overlap(A, B, /, scale=1.0):
        return A, B, scale

    def ipf(M, col_sums=None, row_sums=None, *, tol=1e-6):
        return M, row_sums, col_sums, tol

    kept = find_part("cmfast")
    commands = interface.find_commands()
    monkeypatch.setattr(cmfast, "overlap", overlap)
    monkeypatch.setattr(cmfast, "ipf", ipf)
    monkeypatch.delattr(cmfast.Grid, "shifted")
    monkeypatch.setattr(cmfast, "__all__", [name for name in cmfast.__all__ if name != "rake"])
    monkeypatch.delitem(COMMANDS, "merge")
    losses = interface.find_losses(kept, interface.find_module("cmfast"), "cmfast")
    gone = [name for name in find_parameters(kept, "ipf") if name not in ("M", "row_sums", "col_sums", "tol")]
    options = [name for name in find_parameters(kept, "overlap") if name not in ("A", "B")]
    assert set(losses) == {
        "cmfast.Grid.shifted: it is gone",
        "cmfast.rake: it is gone",
        "cmfast.ipf: tol had the default 1e-09, and has 1e-06",
        f"cmfast.ipf: {ORDER}",
        *(f"cmfast.ipf: {name} is gone from its parameters" for name in gone),
        *(f"cmfast.overlap: {name} is gone from its parameters" for name in options),
    }
    assert interface.find_losses(commands, interface.find_commands(), "command") == ["command.merge: it is gone"]


def test_a_release_is_written_once(tmp_path, monkeypatch):
    """Twice the same bytes, and never over a file that exists."""
    monkeypatch.setattr(interface, "FOLDER", tmp_path)
    monkeypatch.setattr(interface, "MODULES", {"cmfast": ""})
    first = interface.write_release("1.1")
    again = interface.write_release("1.2")
    assert first.read_bytes() == again.read_bytes()
    assert json.loads(first.read_text(encoding="utf-8"))["cmfast"] == find_part("cmfast")
    with pytest.raises(FileExistsError):
        interface.write_release("1.1")
