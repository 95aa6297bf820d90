"""The conda recipe: it needs what pyproject.toml says, has the version of the package, and conda's tools take it."""

import re
import tomllib

import pytest
from optional import load
from processes import ROOT

import cmfast

RECIPE = ROOT / "recipe" / "recipe.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def recipe():
    return load("yaml").safe_load(RECIPE.read_text(encoding="utf-8"))


def split_requirement(text: str) -> tuple[str, str]:
    """Return the name and the condition of a requirement of pip or conda."""
    name, condition = re.fullmatch(r"([A-Za-z0-9_-]+)\s*(.*)", text).groups()
    return name, condition


def test_it_needs_what_the_wheel_needs(recipe):
    wanted = sorted(map(split_requirement, PROJECT["project"]["dependencies"]))
    python = ("python", PROJECT["project"]["requires-python"])
    assert sorted(map(split_requirement, recipe["requirements"]["run"])) == sorted([python, *wanted])
    assert set(map(split_requirement, recipe["requirements"]["host"])) == {
        python,
        ("pip", ""),
        *map(split_requirement, PROJECT["build-system"]["requires"]),
    }


def test_it_has_the_version_licence_and_command_of_the_package(recipe):
    assert recipe["context"]["version"] == cmfast.__version__
    assert recipe["about"]["license"] == PROJECT["project"]["license"]
    assert recipe["about"]["summary"] == PROJECT["project"]["description"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    scripts = [f"{name} = {target}" for name, target in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_rattler_build_renders_it():
    rattler_build = pytest.importorskip("rattler_build")  # of py-rattler-build; `.ci/run release` installs it
    text = RECIPE.read_text(encoding="utf-8")
    (rendered,) = rattler_build.Stage0Recipe.from_yaml(text).render(rattler_build.VariantConfig())
    found = rendered.recipe.to_dict()
    assert found["package"] == {"name": "cmfast", "version": cmfast.__version__}
    assert found["build"]["noarch"] == "python"
    assert "numba >=0.61" in found["requirements"]["run"]
    with pytest.raises(rattler_build.RecipeParseError):
        rattler_build.Stage0Recipe.from_yaml(text.replace("requirements:", "requirement:"))
