"""A configuration says only what differs from its base, for every stock command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.stock import run_stock
from onmt.bin import build_vocab, train, translate

from onmt_exhird.errors import ExhirdError


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def parse(path: Path, *arguments: str) -> object:
    needed = ["-data", "{}", "-src_vocab", "v", "-save_model", "m"]
    return train._get_parser().parse_args([*needed, "-config", str(path), *arguments])


def test_own_keys_win_over_those_of_the_base_and_the_command_line_over_both(tmp_path: Path) -> None:
    write(tmp_path, base="batch_size: 3\nheads: 5\nwarmup_steps: 7\n", child="base: base.yaml\nheads: 50\nseed: 9\n")
    opt = parse(tmp_path / "child.yaml", "-warmup_steps", "70")
    assert (opt.batch_size, opt.heads, opt.warmup_steps, opt.seed) == (3, 50, 70, 9)


def test_a_list_or_a_mapping_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write(
        tmp_path,
        base="dropout: [0.1, 0.2]\ndata:\n  one: {path_src: a}\n",
        child="base: base.yaml\ndropout: [0.3]\ndata:\n  two: {path_src: b}\n",
    )
    parser = train._get_parser()
    opt = parser.parse_args(["-src_vocab", "v", "-save_model", "m", "-config", str(tmp_path / "child.yaml")])
    assert opt.dropout == [0.3]
    assert opt.data == "{'two': {'path_src': 'b'}}"


def test_a_flag_of_the_base_can_be_taken_back(tmp_path: Path) -> None:
    write(tmp_path, base="copy_attn: true\nshare_embeddings: true\n", child="base: base.yaml\ncopy_attn: false\n")
    opt = parse(tmp_path / "child.yaml")
    assert (opt.copy_attn, opt.share_embeddings) == (False, True)


def test_a_base_has_a_base_and_each_is_found_from_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "away.yaml").write_text("batch_size: 3\nheads: 5\nseed: 1\n")
    write(tmp_path, middle="base: far/away.yaml\nheads: 6\nseed: 2\n")
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "child.yaml").write_text("base: ../middle.yaml\nseed: 3\n")
    monkeypatch.chdir(tmp_path)
    opt = parse(Path("near") / "child.yaml")
    assert (opt.batch_size, opt.heads, opt.seed) == (3, 6, 3)


def test_the_other_commands_inherit_too(tmp_path: Path) -> None:
    write(
        tmp_path, base="seed: 3\nlearning_rate: 0.5\n", child="base: base.yaml\nsave_data: d\nsrc_vocab: v\ndata: {}\n"
    )
    opt, _ = build_vocab._get_parser().parse_known_args(["-config", str(tmp_path / "child.yaml")])
    assert (opt.seed, opt.save_data) == (3, "d")
    write(tmp_path, search="exclusive_search: true\nbeam_size: 3\n", beam="base: search.yaml\nbeam_size: 7\n")
    arguments = ["-model", "m", "-src", "s", "-config", str(tmp_path / "beam.yaml")]
    opt = translate._get_parser().parse_args(arguments)
    assert (opt.exclusive_search, opt.beam_size) == (True, 7)


@pytest.mark.parametrize("culprit", ["base", "child"])
def test_a_misspelt_key_is_named_with_its_file(
    culprit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"base": "seed: 3\n", "child": "base: base.yaml\n"}
    texts[culprit] += "lerning_rate: 1\n"
    write(tmp_path, **texts)
    with pytest.raises(SystemExit):
        parse(tmp_path / "child.yaml")
    path = tmp_path / f"{culprit}.yaml"
    assert f"unknown option 'lerning_rate' in {path}; did you mean 'learning_rate'?" in capsys.readouterr().err


def test_a_missing_base_is_named(tmp_path: Path) -> None:
    write(tmp_path, child="base: bse.yaml\n")
    with pytest.raises(ExhirdError, match=r"child\.yaml has the base bse\.yaml, but .*bse\.yaml cannot be read"):
        parse(tmp_path / "child.yaml")


@pytest.mark.parametrize("last", ["a", "c"])
def test_a_circle_of_bases_is_shown(last: str, tmp_path: Path) -> None:
    write(tmp_path, a="base: b.yaml\n", b="base: c.yaml\n", c=f"base: {last}.yaml\n")
    with pytest.raises(ExhirdError, match=rf"go in a circle: .*a\.yaml -> .*b\.yaml -> .*c\.yaml -> .*{last}\.yaml"):
        parse(tmp_path / "a.yaml")


def test_two_files_may_have_one_base_between_them(tmp_path: Path) -> None:
    write(tmp_path, a="base: b.yaml\n", b="base: c.yaml\n", c="seed: 5\n")
    parser = train._get_parser()
    for name in ("a", "b", "a"):
        arguments = ["-data", "{}", "-src_vocab", "v", "-save_model", "m", "-config", str(tmp_path / f"{name}.yaml")]
        assert parser.parse_args(arguments).seed == 5


def test_several_bases_are_refused(tmp_path: Path) -> None:
    write(tmp_path, a="base: [b.yaml, c.yaml]\n")
    with pytest.raises(ExhirdError, match=r"a\.yaml: 'base' is a list"):
        parse(tmp_path / "a.yaml")


def test_the_stock_command_says_it_in_one_sentence(tmp_path: Path) -> None:
    write(tmp_path, child="base: none.yaml\n")
    done = run_stock("onmt_build_vocab", "-config", "child.yaml", cwd=tmp_path, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: child.yaml has the base none.yaml")
    assert os.listdir(tmp_path) == ["child.yaml"]
