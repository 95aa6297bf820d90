"""The command ``cmfast rake``."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import assert_exits_with_error

import cmfast
from cmfast import cli

RNG = np.random.default_rng(3)
SURVEY = pd.DataFrame(
    {
        "age": RNG.choice(["young", "old"], 200),
        "region": RNG.choice(["north", "south", "west"], 200),
        "rooms": RNG.integers(1, 4, 200),
        "w": RNG.uniform(1.0, 3.0, 200),
    }
)
TARGETS = """age,region,rooms,target
young,,,900
old,,,1100
,north,,800
,south,,700
,west,,500
,,1,600
,,2,700
,,3,700
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SURVEY.to_parquet("survey.parquet")
    SURVEY.to_csv("survey.csv", index=False)
    SURVEY.to_feather("survey.feather")
    (tmp_path / "targets.csv").write_text(TARGETS)
    return tmp_path


def ours(**options):
    """Return the weights that the function gives."""
    codes = np.stack([pd.factorize(SURVEY[name], sort=True)[0] for name in ("age", "region", "rooms")])
    margins = [(0, [1100.0, 900.0]), (1, [800.0, 700.0, 500.0]), (2, [600.0, 700.0, 700.0])]
    return cmfast.rake(codes, margins, weights=SURVEY["w"].to_numpy(), **options).weights


def run(capsys, *options):
    """Return the exit status and what was printed."""
    status = cli.main(["rake", *options, "--quiet"])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("name", ["survey.parquet", "survey.csv", "survey.feather"])
def test_weights_are_those_of_the_function(name, files, capsys):
    status, out, err = run(capsys, name, "--targets", "targets.csv", "--weights", "w", "-o", "weights.parquet")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "200 records, 8 targets, raking: CONVERGED"
    assert "  age = young: 900" in out.splitlines()
    found = pd.read_parquet(files / "weights.parquet")
    np.testing.assert_allclose(found["weight"], ours(), rtol=1e-8)


def test_bounds_and_json(files, capsys):
    options = ("--method", "truncated", "--bounds", "3", "6.5", "-o", "weights.csv", "--json")
    status, out, _ = run(capsys, "survey.csv", "--targets", "targets.csv", "--weights", "w", *options)
    facts = json.loads(out)
    assert (status, facts["status"], facts["records"]) == (0, "CONVERGED", 200)
    assert facts["ratios"][0] >= 3.0 - 1e-12
    assert facts["ratios"][1] <= 6.5 + 1e-12
    found = pd.read_csv(files / "weights.csv")["weight"]
    np.testing.assert_allclose(found, ours(method="truncated", bounds=(3.0, 6.5)), rtol=1e-8)
    assert {one["name"]: one["target"] for one in facts["targets"]}["region = west"] == 500.0


def test_combinations_and_targets_from_parquet(files, capsys):
    w = SURVEY["w"] * np.where(SURVEY["age"] == "old", 2.0, 1.0)
    both = w.groupby([SURVEY["age"], SURVEY["region"]]).sum().rename("total").reset_index()
    rooms = w.groupby(SURVEY["rooms"]).sum().rename("total").reset_index()
    pd.concat([both, rooms.astype({"rooms": str})]).to_parquet("targets.parquet", index=False)
    status, out, err = run(capsys, "survey.parquet", "--targets", "targets.parquet", "--weights", "w", "--json")
    assert (status, err) == (0, "")
    names = [one["name"] for one in json.loads(out)["targets"]]
    assert len(names) == 9
    assert "age = old, region = west" in names
    assert "rooms = 3" in names


def test_what_cannot_be_is_said_by_the_names_of_categories(files, capsys):
    (files / "far.csv").write_text(TARGETS.replace("young,,,900", "young,,,1900").replace("old,,,1100", "old,,,100"))
    options = ("--method", "logit", "--bounds", "3", "9", "-o", "weights.csv")
    assert run(capsys, "survey.csv", "--targets", "far.csv", *options)[0] == 2
    options = ("--method", "truncated", "--bounds", "3", "9", "-o", "weights.csv")
    status, out, err = run(capsys, "survey.csv", "--targets", "far.csv", "--weights", "w", *options)
    assert status == 1
    assert out == "200 records, 8 targets, truncated: INFEASIBLE\n"
    assert "these totals contradict each other: age = " in err
    assert not (files / "weights.csv").exists()
    (files / "more.csv").write_text(TARGETS + ",east,,0\n")
    assert run(capsys, "survey.csv", "--targets", "more.csv")[0] == 0
    (files / "more.csv").write_text(TARGETS.replace("west,,500", "west,,400") + ",east,,100\n")
    status, _, err = run(capsys, "survey.csv", "--targets", "more.csv")
    assert status == 1
    assert "ZERO_LINE: no record adds to region = east, which should be 100" in err


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ("age,region\nold,north\n", "one of numbers named target or total"),
        ("age,target\nold,5\nold,6\n", "line 3: age = old is there twice"),
        ("age,target\nold,-5\n", "line 2 holds '-5', which is no number of at least 0"),
        ("age,target\nold,many\n", "line 2 holds 'many', which is no number of at least 0"),
        ("age,target\n,5\n", "line 2 names no category"),
        ("age,target\n", "holds no targets"),
        ("age,target\nold,5\n", "holds records of age = young, of which no target says anything"),
        ("height,target\nlow,5\n", "has no column 'height'"),
    ],
)
def test_refuses_targets_that_say_nothing_of_the_records(targets, said, files, capsys):
    (files / "bad.csv").write_text(targets)
    assert_exits_with_error(run(capsys, "survey.csv", "--targets", "bad.csv"), said)
    if "height" not in targets:
        assert_exits_with_error(run(capsys, "survey.parquet", "--targets", "bad.csv"), said)


def test_refuses_wrong_use(files, capsys):
    one = ("survey.csv", "--targets", "targets.csv")
    assert_exits_with_error(run(capsys, *one, "--bounds", "1", "2"), "--bounds does not belong to --method raking")
    assert_exits_with_error(run(capsys, *one, "--method", "logit"), "--bounds is needed by --method logit")
    assert_exits_with_error(run(capsys, *one, "--weights", "age"), "line 2 holds")
    assert_exits_with_error(
        run(capsys, "survey.parquet", *one[1:], "--weights", "age"), "column 'age' must hold numbers"
    )
    assert_exits_with_error(run(capsys, *one, "-o", "weights.npy"), "--output must end in .csv, .parquet, .json")
    assert_exits_with_error(run(capsys, "survey.npy", *one[1:]), "unknown kind of file '.npy'")


AREAS = pd.DataFrame({"area": ["a", "b", "c"], "scale": [1.0, 0.5, 2.0]})


@pytest.mark.parametrize("name", ["bounded.csv", "bounded.parquet"])
def test_bounds_are_columns_of_the_records(name, files, capsys):
    least, most = np.where(SURVEY["age"] == "old", 3.5, 1.0), np.linspace(6.5, 7.5, len(SURVEY))
    table = SURVEY.assign(least=least, most=most)
    table.to_csv("bounded.csv", index=False)
    table.to_parquet("bounded.parquet")
    options = ("--targets", "targets.csv", "--weights", "w", "--method", "truncated", "-o", "weights.csv", "--force")
    known = {"least": least, "most": most, "3": 3.0, "9": 9.0}
    for given in (("least", "most"), ("3", "most"), ("least", "9")):
        bounds = known[given[0]], known[given[1]]
        status, _, err = run(capsys, name, *options, "--bounds", *given)
        assert (status, err) == (0, "")
        found = pd.read_csv("weights.csv")["weight"]
        np.testing.assert_allclose(found, ours(method="truncated", bounds=bounds), rtol=1e-8)
        ratio = found / SURVEY["w"]
        assert (ratio >= np.asarray(bounds[0]) * (1 - 1e-12)).all()
        assert (ratio <= np.asarray(bounds[1]) * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("method", "bounds", "said"),
    [
        ("truncated", ("least", "gone"), "has no column 'gone'"),
        ("truncated", ("most", "least"), "0 <= low <= high, but column 'most' and column 'least' say 7 and 1"),
        ("truncated", ("9", "most"), "--bounds of row 0 must be 0 <= low <= high, but 9.0 and column 'most' say 9"),
        ("truncated", ("age", "most"), "line 2 holds|column 'age' must hold numbers"),
        ("logit", ("least", "most"), "must be 0 <= low < 1 < high with --method logit, but column 'least' and"),
    ],
)
def test_bounds_that_are_no_bounds_are_refused(method, bounds, said, files, capsys):
    table = SURVEY.assign(least=1.0, most=7.0)
    table.to_csv("bounded.csv", index=False)
    table.to_parquet("bounded.parquet")
    for name in ("bounded.csv", "bounded.parquet"):
        options = (name, "--targets", "targets.csv", "--method", method, "--bounds", *bounds)
        status, out, err = run(capsys, *options)
        assert (status, out) == (2, "")
        assert any(one in err for one in said.split("|"))


def sums_of(w, by=None):
    """Return rows of targets that the weights have: a row per age, households in all, rooms in all and by region."""
    rows = [{"age": age, "target": w[SURVEY["age"] == age].sum()} for age in ("young", "old")]
    rows.append({"of": "rooms", "target": (w * SURVEY["rooms"]).sum()})
    rows += [
        {"of": "rooms", "region": region, "target": (w * SURVEY["rooms"])[SURVEY["region"] == region].sum()}
        for region in ("north", "south")
    ]
    rows.append({"of": "rooms", "region": "west"})
    return pd.DataFrame(rows).assign(**by or {})


@pytest.mark.parametrize("name", ["survey.parquet", "survey.csv"])
def test_sums_of_a_column(name, files, capsys):
    w = SURVEY["w"] * np.where(SURVEY["age"] == "old", 2.0, 1.0) * np.exp(0.1 * SURVEY["rooms"])
    sums_of(w).to_csv("sums.csv", index=False)
    status, out, err = run(capsys, name, "--targets", "sums.csv", "--weights", "w", "-o", "weights.csv")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "200 records, 5 targets, raking: CONVERGED"
    assert f"  rooms where region = south: {(w * SURVEY['rooms'])[SURVEY['region'] == 'south'].sum():,.6g}" in out
    np.testing.assert_allclose(pd.read_csv("weights.csv")["weight"], w, rtol=1e-7)


def test_importance_of_single_targets_and_of_all(files, capsys):
    w, q = SURVEY["w"] * 1.3, SURVEY["w"].to_numpy()
    targets = sums_of(w)
    targets["target"] *= [1.1, 1.0, 1.0, 1.05, 1.0, 1.0]
    targets.assign(importance=[1.0, np.nan, 5.0, 2.0, 2.0, np.nan]).to_parquet("soft.parquet")
    options = ("survey.csv", "--weights", "w", "--json", "--targets", "soft.parquet")
    rooms, south = SURVEY["rooms"].to_numpy(), (SURVEY["region"] == "south").to_numpy()
    young, north = (SURVEY["age"] == "young").to_numpy(), (SURVEY["region"] == "north").to_numpy()
    A = np.column_stack([young, ~young, rooms, rooms * north, rooms * south])
    for given, p in (((), [1.0, np.inf, 5.0, 2.0, 2.0]), (("--importance", "3"), [1.0, 3.0, 5.0, 2.0, 2.0])):
        status, out, _ = run(capsys, *options, *given)
        expected = cmfast.rake(A, targets["target"][:5].to_numpy(), weights=q, importance=p)
        assert status == 0
        achieved = {one["name"]: one["achieved"] for one in json.loads(out)["targets"]}
        named = ["age = young", "age = old", "rooms", "rooms where region = north", "rooms where region = south"]
        np.testing.assert_allclose([achieved[name] for name in named], expected.achieved, rtol=1e-7)
    status, out, _ = run(capsys, "survey.csv", "--targets", "targets.csv", "--importance", "1000", "--json")
    assert json.loads(out)["targets"][0]["achieved"] != 900.0


def test_areas_of_the_same_records(files, capsys):
    w = SURVEY["w"] * np.where(SURVEY["age"] == "old", 2.0, 1.0)
    parts = [sums_of(w * row.scale, {"area": row.area}) for row in AREAS.itertuples()]
    pd.concat(parts).to_csv("areas.csv", index=False)
    options = ("survey.parquet", "--targets", "areas.csv", "--by", "area", "--weights", "w")
    status, out, err = run(capsys, *options, "-o", "weights.parquet")
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if "records" in line] == [
        f"area = {area}: 200 records, 5 targets, raking: CONVERGED" for area in "abc"
    ]
    found = pd.read_parquet("weights.parquet")
    np.testing.assert_allclose(found.to_numpy(), np.outer(w, AREAS["scale"]), rtol=1e-7)
    assert list(found) == ["a", "b", "c"]
    assert set(json.loads(run(capsys, *options, "--json")[1])) == {"a", "b", "c"}
    counts = pd.concat([pd.read_csv("targets.csv", dtype=str).assign(area=area) for area in "ab"])
    counts.loc[(counts["area"] == "b").to_numpy() & (counts["age"] == "old").to_numpy(), "target"] = "1000"
    counts.to_csv("counts.csv", index=False)
    status, out, err = run(capsys, "survey.csv", "--targets", "counts.csv", "--by", "area", "-o", "some.csv")
    assert status == 1
    assert "area = b: 200 records, 8 targets, raking: TOTALS" in out
    found = pd.read_csv("some.csv")
    np.testing.assert_allclose(found["a"].sum(), 2000.0)
    assert found["b"].isna().all()


@pytest.mark.parametrize(
    ("targets", "options", "said"),
    [
        ("of,target\nheight,5\n", (), "has no column 'height'"),
        ("of,target\nage,5\n", (), "line 2 holds|column 'age' must hold numbers"),
        ("of,age,target\nrooms,old,5\n", (), "holds records of rooms where age = young, of which no target says"),
        (
            "age,target,area\nold,5,a\nyoung,3,a\nold,5,b\n",
            ("--by", "area"),
            "no row for age = young, area = b, but for",
        ),
        (
            "age,target,area\nold,5,a\nyoung,3,a\nold,6,a\n",
            ("--by", "area"),
            "line 4: age = old, area = a is there twice",
        ),
        ("age,target,area\nold,5,\n", ("--by", "area"), "line 2 has an empty cell in column 'area'"),
        (
            "age,target,w\nold,5,a\nyoung,3,a\n",
            ("--by", "w"),
            "has a column 'w', too; totals of its categories need no",
        ),
        ("age,target\nold,5\n", ("--by", "area"), "has no column 'area'"),
        ("age,importance,target\nold,-1,5\n", (), "line 2 holds '-1', which is no number of at least 0"),
        ("of,target\nrooms,x\n", (), "line 2 holds 'x', which is no number"),
    ],
)
def test_refuses_totals_that_do_not_fit(targets, options, said, files, capsys):
    (files / "bad.csv").write_text(targets)
    for name in ("survey.csv", "survey.parquet"):
        status, out, err = run(capsys, name, "--targets", "bad.csv", *options)
        assert (status, out) == (2, "")
        assert any(one in err for one in said.split("|"))


def test_refuses_records_without_a_number(files, capsys):
    (files / "sums.csv").write_text("of,target\nrooms,500\n")
    table = SURVEY.astype({"rooms": float})
    table.loc[7, "rooms"] = np.nan
    table.to_csv("hole.csv", index=False)
    table.to_parquet("hole.parquet")
    assert_exits_with_error(
        run(capsys, "hole.csv", "--targets", "sums.csv"), "line 9 has an empty cell in column 'rooms'"
    )
    assert_exits_with_error(
        run(capsys, "hole.parquet", "--targets", "sums.csv"), "row 7 has no number in column 'rooms'"
    )


def test_totals_that_disagree_are_named_by_their_columns(files, capsys):
    pd.DataFrame({"age": ["y", "o"] * 3, "region": ["n", "n", "s"] * 2}).to_csv("few.csv", index=False)
    (files / "apart.csv").write_text("age,region,target\ny,,30\no,,30\n,n,20\n,s,50\n")
    status, _, err = run(capsys, "few.csv", "--targets", "apart.csv")
    assert status == 1
    assert "targets of age and targets of region disagree on the total: 60 against 70" in err


def test_names_of_categories_are_no_options(files, capsys):
    (files / "odd.csv").write_text("age,target\nyoung,900\nold,1100\ntol=5,100\n")
    status, _, err = run(capsys, "survey.csv", "--targets", "odd.csv")
    assert status != 0
    assert "tol=5" in err
    assert "--tol" not in err
