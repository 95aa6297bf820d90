"""The command ``cmfast balance``."""

import json
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from cases.balancing import both_sides, contacts
from commands import assert_exits_with_error, leftovers
from processes import python

import cmfast
from cmfast import cli
from cmfast._files import contact_maps

h5py = pytest.importorskip("h5py")

# A map in hic, without and with its resolution; what is said of the former is printed.
OF_HIC = """
import contextlib, io
import h5py, hictkpy
import pandas as pd
from cmfast.cli import main

with h5py.File("map.cool") as file:
    pixels = pd.DataFrame({name: file["pixels"][name][:] for name in ("bin1_id", "bin2_id", "count")})
    lengths = dict(zip(map(bytes.decode, file["chroms/name"][:]), file["chroms/length"][:].tolist()))
writer = hictkpy.hic.FileWriter("map.hic", lengths, 1000)
writer.add_pixels(pixels)
writer.finalize()
with contextlib.redirect_stderr(io.StringIO()) as said:
    assert main(["balance", "map.hic", "--quiet"]) == 2
print(said.getvalue())
assert main(["balance", "map.hic", "--resolution", "1000", "-o", "w.parquet", "--quiet"]) == 0
"""

AS_HIC = """
import contextlib, io
from cmfast.cli import main

with contextlib.redirect_stderr(io.StringIO()) as said:
    assert main(["balance", "map.hic", "--resolution", "1000", "--quiet"]) == 2
print(said.getvalue())
"""

OFFSETS = [0, 50, 120, 150]
N = OFFSETS[-1]
PIXELS = contacts(N, 21, 0.9, 2000.0)
USUAL = {"ignore_diags": 2, "min_nnz": 10, "mad_max": 5}


def write_cool(group, mode="symmetric-upper"):
    """Write a map as cooler does, into a group of a file."""
    i, j, counts = PIXELS
    group.attrs.update({"format": "HDF5::Cooler", "format-version": 3, "bin-type": "fixed", "bin-size": 1000})
    group.attrs.update({"storage-mode": mode, "nbins": N, "nnz": len(i), "nchroms": 3})
    sizes = np.diff(OFFSETS)
    group["chroms/name"] = np.array([b"chr1", b"chr2", b"chrX"])
    group["chroms/length"] = (sizes * 1000).astype(np.int32)
    start = np.concatenate([1000 * np.arange(size) for size in sizes]).astype(np.int32)
    group["bins/chrom"] = np.repeat(np.arange(3, dtype=np.int32), sizes)
    group["bins/start"], group["bins/end"] = start, start + 1000
    group["pixels/bin1_id"], group["pixels/bin2_id"], group["pixels/count"] = i, j, counts.astype(np.int32)
    group["indexes/chrom_offset"] = np.array(OFFSETS, np.int64)
    group["indexes/bin1_offset"] = np.searchsorted(i, np.arange(N + 1)).astype(np.int64)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("map.cool", "w") as file:
        write_cool(file)
    with h5py.File("map.mcool", "w") as file:
        write_cool(file.create_group("resolutions/1000"))
    return tmp_path


def ours(**options):
    """Return what the function gives."""
    return cmfast.balance((*PIXELS, N), symmetric="upper", **{**USUAL, "mad_blocks": OFFSETS, **options})


def run(capsys, *options):
    """Return the exit status and what was printed."""
    status = cli.main(["balance", *options, "--quiet"])
    out, err = capsys.readouterr()
    return status, out, err


def weights(path, group="/", name="weight"):
    with h5py.File(path, "r") as file:
        column = file[group]["bins"][name]
        return column[:], dict(column.attrs)


def test_weights_go_into_the_same_file(files, capsys):
    (files / "map.cool").chmod(0o640)
    status, out, err = run(capsys, "map.cool", "-o", "map.cool")
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith("150 bins, ")
    assert "CONVERGED, sums to" in out.splitlines()[1]
    found, about = weights("map.cool")
    np.testing.assert_array_equal(found, ours().weights)
    assert np.isnan(found).sum() == (ours().reason > 0).sum()
    assert about["converged"]
    assert not about["divisive_weights"]
    assert (about["ignore_diags"], about["min_nnz"], about["mad_max"], about["tol"]) == (2, 10, 5, 1e-9)
    assert set(about) >= {"scale", "var", "min_count", "cis_only"}
    assert (files / "map.cool").stat().st_mode & 0o777 == 0o640
    assert not leftovers()
    assert_exits_with_error(run(capsys, "map.cool", "-o", "map.cool"), "has bins/weight already, give --force")
    assert run(capsys, "map.cool", "-o", "map.cool", "--force")[0] == 0
    assert run(capsys, "map.cool", "-o", "map.cool", "--name", "other")[0] == 0


def test_a_group_of_a_file_and_another_file(files, capsys):
    before = (files / "map.mcool").read_bytes()
    status, _, err = run(capsys, "map.mcool::resolutions/1000", "-o", "out.mcool", "--tol", "1e-6")
    assert (status, err) == (0, "")
    assert (files / "map.mcool").read_bytes() == before
    np.testing.assert_allclose(weights("out.mcool", "resolutions/1000")[0], ours().weights, rtol=1e-5)
    assert_exits_with_error(run(capsys, "map.mcool"), "give one of them: map.mcool::resolutions/1000")
    assert_exits_with_error(run(capsys, "map.mcool::resolutions/5"), "has no map in 'resolutions/5'")
    assert_exits_with_error(
        run(capsys, "map.mcool::resolutions/1000", "-o", "out.mcool"), "exists already, give --force"
    )


def test_chromosomes_by_themselves(files, capsys):
    status, out, _ = run(capsys, "map.cool", "-o", "map.cool", "--cis-only")
    assert status == 0
    assert [line.split(":")[0] for line in out.splitlines()[1:]] == ["chr1", "chr2", "chrX"]
    found, about = weights("map.cool")
    np.testing.assert_array_equal(found, ours(blocks=OFFSETS).weights)
    assert about["scale"].shape == about["converged"].shape == (3,)


def test_options_and_json(files, capsys):
    few = ("--min-nnz", "100", "--min-count", "500", "--mad-max", "1", "--ignore-diags", "0")
    status, out, _ = run(capsys, "map.cool", *few, "--json", "-o", "w.csv")
    facts = json.loads(out)
    wanted = ours(min_nnz=100, min_count=500, mad_max=1, ignore_diags=0)
    assert (status, facts["bins"], facts["pixels"]) == (0, N, len(PIXELS[0]))
    assert facts["left_out"]["mad_max"] == (wanted.reason == 3).sum() > 0
    assert facts["parts"][0]["status"] == "CONVERGED"
    table = pd.read_csv(files / "w.csv")
    np.testing.assert_allclose(table["weight"], wanted.weights, rtol=1e-15)
    assert set(table["reason"]) <= {"kept", "min_nnz", "min_count", "mad_max", "keep", "empty"}


@pytest.mark.parametrize("kind", ["upper.npz", "both.npz", "csv", "parquet", "feather"])
def test_other_files(kind, files, capsys):
    i, j, a = PIXELS
    table = pd.DataFrame({"bin1_id": i, "bin2_id": j, "extra": 0, "count": a})
    if kind.endswith("npz"):
        rows, columns, values = PIXELS if kind == "upper.npz" else both_sides(*PIXELS)
        name = kind
        scipy.sparse.save_npz(name, scipy.sparse.coo_array((values, (rows, columns)), shape=(N, N)).tocsr())
    else:
        name = f"pixels.{kind}"
        write = {"csv": lambda: table.to_csv(name, index=False), "parquet": lambda: table.to_parquet(name)}
        write.get(kind, lambda: table.to_feather(name))()
    status, _, err = run(capsys, name, "-o", "w.parquet")
    assert (status, err) == (0, "")
    found = pd.read_parquet(files / "w.parquet")["weight"]
    np.testing.assert_array_equal(found, ours(mad_blocks=None).weights)


def test_what_has_no_weights_is_said(files, capsys):
    scipy.sparse.save_npz("path.npz", scipy.sparse.coo_array(([1, 1], ([0, 1], [1, 2])), shape=(3, 3)))
    none = ("--min-nnz", "0", "--ignore-diags", "0", "--mad-max", "0")
    status, out, err = run(capsys, "path.npz", *none, "-o", "w.csv")
    assert status == 1
    assert "INFEASIBLE, " in out
    assert "bins 0, 2 must sum to 2" in err
    assert err.rstrip().endswith("by --min-nnz")  # the command has no keep=
    assert not (files / "w.csv").exists()
    status, out, _ = run(capsys, "path.npz")
    assert status == 1
    assert "ZERO_LINE" in out


def test_wrong_use_and_files_that_are_none(files, capsys):
    assert_exits_with_error(run(capsys, "map.cool", "-o", "w.npy"), "--output must end in .cool, .mcool, .csv")
    assert_exits_with_error(run(capsys, "gone.cool"), "no such file")
    assert_exits_with_error(run(capsys, "map.cool::a", "-o", "map.cool"), "has no map in 'a'")
    assert_exits_with_error(run(capsys, "map.cool", "--resolution", "1000"), "--resolution is for hic")
    (files / "text.cool").write_text("text")
    assert_exits_with_error(run(capsys, "text.cool"), "not readable")
    (files / "text.npz").write_text("text")
    assert_exits_with_error(run(capsys, "text.npz"), "is no matrix of scipy.sparse.save_npz")
    assert_exits_with_error(run(capsys, "text.npz::a"), "has no group 'a'")
    assert_exits_with_error(run(capsys, "map.hic"), "no such file")
    (files / "map.txt2").write_text("")
    assert_exits_with_error(run(capsys, "map.txt2"), "unknown kind of file '.txt2'")
    (files / "bad.csv").write_text("a,b,c\n1,2,3\n")
    assert_exits_with_error(run(capsys, "bad.csv"), "needs columns bin1_id or bin1")
    (files / "bad.csv").write_text("i,j,count\n1,2,x\n")
    assert_exits_with_error(run(capsys, "bad.csv"), "holds a cell that is not a number")
    (files / "good.csv").write_text("i,j,count\n0,1,2\n")
    assert_exits_with_error(run(capsys, "good.csv", "--cis-only"), "does not say where chromosomes begin")
    assert_exits_with_error(run(capsys, "good.csv", "-o", "w.cool"), "needs a map in a cool or mcool file")
    with h5py.File("square.cool", "w") as file:
        write_cool(file, "square")
    assert_exits_with_error(run(capsys, "square.cool"), "holds a map that is not symmetric")


@pytest.mark.parametrize("linked", ["/", "bins", "bins/start", "pixels", "pixels/count", "chroms/name", "indexes"])
def test_links_to_other_files_are_neither_read_nor_written(linked, files, capsys):
    before = (files / "map.cool").read_bytes()
    with h5py.File("evil.cool", "w") as file:
        group = file.create_group("resolutions/1000")
        if linked == "/":
            del file["resolutions/1000"]
            file["resolutions/1000"] = h5py.ExternalLink("map.cool", "/")
        else:
            write_cool(group)
            del group[linked]
            group[linked] = h5py.ExternalLink("map.cool", linked)
    for options in ([], ["-o", "out.cool"], ["-o", "evil.cool", "--force"]):
        said = run(capsys, "evil.cool::resolutions/1000", *options)
        assert_exits_with_error(said, "in another file, which is neither read nor written")
    assert (files / "map.cool").read_bytes() == before
    assert not (files / "out.cool").exists()


@pytest.mark.parametrize("kind", ["raw", "virtual"])
def test_pixels_stored_in_other_files_are_not_read(kind, files, capsys):
    (files / "secret").write_bytes(bytes(range(200)))
    with h5py.File("evil.cool", "w") as file:
        write_cool(file)
        number = len(file["pixels/count"])
        del file["pixels/count"]
        if kind == "raw":
            file.create_dataset("pixels/count", (number,), np.int8, external=[("secret", 0, number)])
        else:
            layout = h5py.VirtualLayout((number,), np.int32)
            layout[:] = h5py.VirtualSource("map.cool", "pixels/count", (number,))
            file.create_virtual_dataset("pixels/count", layout)
    assert_exits_with_error(run(capsys, "evil.cool"), "has /pixels/count in another file")


@pytest.mark.parametrize("linked", ["resolutions", "resolutions/1000", "resolutions/1000/bins"])
@pytest.mark.parametrize("soft", [False, True])
def test_links_that_resolve_only_beside_the_output_are_not_followed(linked, soft, files, capsys, monkeypatch):
    modes, before_this = [], h5py.File.__init__

    def watch(file, name, mode="r", **options):
        modes.append(mode)
        before_this(file, name, mode, **options)

    there = files / "out"
    there.mkdir()
    with h5py.File(there / "only.cool", "w") as file:
        write_cool(file.create_group("resolutions/1000"))
        write_cool(file)
    before = (there / "only.cool").read_bytes()
    with h5py.File("evil.mcool", "w") as file:
        write_cool(file)
        link = h5py.ExternalLink("only.cool", linked)
        if linked != "resolutions":
            write_cool(file.create_group("resolutions/1000"))
            del file[linked]
        file["x" if soft else linked] = link
        if soft:
            file[linked] = h5py.SoftLink("/x")
    for source in ("evil.mcool", "evil.mcool::resolutions/1000"):
        modes.clear()
        monkeypatch.setattr(h5py.File, "__init__", watch)
        said = run(capsys, source, "-o", "out/new.mcool")
        if source == "evil.mcool" and linked != "resolutions":
            assert said[0] == 0  # what is linked is not of this map
            (there / "new.mcool").unlink()
        else:
            assert_exits_with_error(said, "in another file, which is neither read nor written")
            assert set(modes) == {"r"}
        assert sorted(path.name for path in there.iterdir()) == ["only.cool"]
    assert (there / "only.cool").read_bytes() == before


def test_links_within_the_file_lead_to_its_parts(files, capsys):
    with h5py.File("linked.cool", "w") as file:
        write_cool(file.create_group("kept/here"))
        file["kept/there"] = h5py.SoftLink("here")
        file["first"] = h5py.SoftLink("/kept/there")
        file["round"], file["about"] = h5py.SoftLink("about"), h5py.SoftLink("round")
        file["nowhere"] = h5py.SoftLink("/nothing")
    assert run(capsys, "linked.cool::first", "-o", "linked.cool")[0] == 0
    np.testing.assert_array_equal(weights("linked.cool", "kept/here")[0], ours().weights)
    assert_exits_with_error(run(capsys, "linked.cool::round"), "behind more than 16 links")
    assert_exits_with_error(run(capsys, "linked.cool::nowhere"), "has no map in 'nowhere'")
    assert_exits_with_error(run(capsys, "linked.cool::first/bins/start/x"), "has no map in")


def test_many_links_that_lead_to_many_more_take_no_time(files, capsys):
    with h5py.File("deep.cool", "w") as file:
        write_cool(file)
        for k in range(15):
            file[f"g{k}"] = h5py.SoftLink(f"/g{k + 1}/" * 20)
    assert_exits_with_error(run(capsys, "deep.cool::g0"), "has no map in 'g0'")


@pytest.mark.parametrize("name", ["chrom", "start", "end", "", ".", "..", "a/b", "/bins/x", "../pixels/count", "a\n"])
def test_names_that_are_none_of_weights_are_refused(name, files, capsys):
    before = (files / "map.cool").read_bytes()
    for options in ([], ["--force"]):
        said = run(capsys, "map.cool", "-o", "map.cool", f"--name={name}", *options)
        assert_exits_with_error(said, "--name ")
    with pytest.raises(ValueError, match="name="):
        contact_maps.write_weights(files / "map.cool", "/", files / "x.cool", name, np.ones(N), {}, force=True)
    assert (files / "map.cool").read_bytes() == before


@pytest.mark.parametrize("link", [h5py.SoftLink("/pixels/count"), h5py.ExternalLink("map.cool", "/bins/start"), None])
def test_weights_that_are_a_link_are_not_replaced(link, files, capsys):
    with h5py.File("linked.cool", "w") as file:
        write_cool(file)
        if link is None:
            file.create_group("bins/weight")
        else:
            file["bins/weight"] = link
    for options in ([], ["--force"]):
        said = run(capsys, "linked.cool", "-o", "linked.cool", *options)
        assert_exits_with_error(said, "has bins/weight, which is a link or no column; give another --name")
    assert_exits_with_error(run(capsys, "linked.cool", "-o", "new.cool", "--force"), "which is a link or no column")
    assert run(capsys, "linked.cool", "-o", "linked.cool", "--name", "other")[0] == 0


@pytest.mark.parametrize("before", [b"", b"HIC\0".ljust(512, b"\0"), bytes(1024)])
def test_a_cooler_that_is_named_hic_is_not_read(before, files, capsys):
    pytest.importorskip("h5py")
    if find_spec("hictkpy") is None:
        pytest.skip("hictkpy is not installed")
    (files / "map.hic").write_bytes(before + (files / "map.cool").read_bytes())
    said = python("-c", AS_HIC, cwd=files, CMFAST_QUIET="1")
    assert "is an HDF5 file; a map of cooler must be named .cool or .mcool" in said
    (files / "map.hic").write_bytes(b"HID" + bytes(2000))
    assert "is no hic file" in python("-c", AS_HIC, cwd=files, CMFAST_QUIET="1")


def test_more_pixels_than_memory_holds_are_said(files, capsys):
    with h5py.File("large.cool", "w") as file:
        write_cool(file)
        del file["pixels/bin1_id"], file["pixels/count"]
        for name in ("bin1_id", "count"):
            file.create_dataset(f"pixels/{name}", (2**60,), np.int32, chunks=(1 << 20,))
    assert_exits_with_error(
        run(capsys, "large.cool"), "has 1,152,921,504,606,846,976 pixels, more than fit into memory"
    )


def test_hic_files_are_read(files, capsys):
    if find_spec("hictkpy") is None:  # which is not to be imported here: it warns whenever a process forks
        pytest.skip("hictkpy is not installed")
    assert_exits_with_error(run(capsys, "map.hic", "--resolution", "1000"), "no such file")
    said = python("-c", OF_HIC, cwd=files, CMFAST_QUIET="1")
    assert "give --resolution" in said
    np.testing.assert_allclose(pd.read_parquet(files / "w.parquet")["weight"], ours().weights, rtol=1e-12)


@pytest.mark.parametrize("offsets", [[], [0, N], [0, 50, 120, 149], [0, 50, 120, 151], [1, 50, 120, N], [0, 99, 50, N]])
def test_offsets_that_do_not_divide_the_bins_are_refused(offsets, files, capsys):
    with h5py.File("odd.cool", "w") as file:
        write_cool(file)
        del file["indexes/chrom_offset"]
        file["indexes/chrom_offset"] = np.array(offsets, np.int64)
    for options in ([], ["--cis-only"]):
        said = run(capsys, "odd.cool", *options)
        assert_exits_with_error(said, "has 3 chromosomes, whose offsets do not divide its 150 bins")


@pytest.mark.parametrize("cis", [False, True])
def test_weights_are_those_of_cooler(cis, files, capsys):
    cooler = pytest.importorskip("cooler")
    run(capsys, "map.cool", "-o", "map.cool", *(["--cis-only"] if cis else []))
    theirs, about = cooler.balance_cooler(cooler.Cooler("map.cool"), cis_only=cis, tol=1e-10, rescale_marginals=True)
    found = cooler.Cooler("map.cool").bins()["weight"][:].to_numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(theirs))
    np.testing.assert_allclose(found, theirs, rtol=1e-4)
    assert np.all(about["converged"])
