"""The plug-in is found, can be switched off, refuses other versions, and is packaged whole."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from helpers.files import ROOT
from helpers.stock import run_stock

from onmt_exhird import __version__, bridge, cli
from onmt_exhird.bridge import UPSTREAM
from onmt_exhird.cli import doctor
from onmt_exhird.errors import ExhirdError

HOOK = "onmt/transforms/exhird_plugin.py"


@pytest.mark.parametrize("command", ["onmt_train", "onmt.bin.train"])
def test_training_knows_the_options_however_it_is_started(command: str, tmp_path: Path) -> None:
    assert "--exclusive_loss_window" in run_stock(command, "--help", cwd=tmp_path).stdout


def test_an_environment_variable_switches_it_off(tmp_path: Path) -> None:
    done = run_stock("onmt_translate", "--help", cwd=tmp_path, ONMT_EXHIRD="off")
    assert "--exclusive_search" not in done.stdout and "--beam_size" in done.stdout


def test_another_version_of_opennmt_is_named_with_the_remedy() -> None:
    with pytest.raises(ExhirdError, match=r"3\.4\.0 is installed: run 'pip install OpenNMT-py==3\.5\.1'"):
        bridge.check_version("3.4.0")


def test_the_version_check_precedes_everything_and_shows_no_stack(tmp_path: Path) -> None:
    code = "from onmt_exhird import bridge; bridge.SUPPORTED = '9.9'; import onmt"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: onmt_exhird works with OpenNMT-py 9.9, but 3.5.1 is installed")
    assert "Traceback" not in done.stderr


def test_warnings_of_a_current_torch_about_upstream_do_not_reach_the_user() -> None:
    code = "import onmt.bin.train, onmt.bin.translate, warnings; warnings.warn('of my own', FutureWarning)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("Warning") == 1 and "FutureWarning: of my own" in done.stderr
    stock = environment | {"ONMT_EXHIRD": "off"}
    done = subprocess.run([sys.executable, "-c", code], env=stock, capture_output=True, text=True, check=True)
    told = done.stderr.count("FutureWarning: `torch.cuda.amp")
    assert told if hasattr(torch, "amp") and hasattr(torch.amp, "custom_fwd") else not told


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_both_kinds_of_wheel_carry_the_hook(hook: str, tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.path.insert(0, 'tools'); import build_backend;"
        f"sys.argv = ['setup.py']; print(build_backend.{hook}({str(tmp_path)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        content = wheel.read(HOOK)
        record = next(name for name in wheel.namelist() if name.endswith("RECORD"))
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert rows[HOOK] == [f"sha256={digest}", str(len(content))]


def test_doctor_finds_nothing_wrong_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert cli.main(["doctor"]) == 0
    report = capsys.readouterr().out
    for command in doctor.COMMANDS:
        assert f"ok  {command}" in report
    assert "!!" not in report


def test_doctor_names_the_remedy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONMT_EXHIRD", "off")
    assert cli.main(["doctor"]) == 1
    assert "unset ONMT_EXHIRD" in capsys.readouterr().out


def test_doctor_leaves_the_torch_of_keyphrases_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenNMT-py's pins would replace it; and each library that keyphrases need is looked for."""
    missing = {UPSTREAM, "nltk"}
    monkeypatch.setattr(doctor, "installed_version", lambda package: None if package in missing else "1.0")
    assert cli.main(["doctor"]) == 1
    report = capsys.readouterr().out
    assert "nltk: pip install nltk\n" in report
    assert f"{UPSTREAM}: keyphrases do not need it" in report
    assert f"pip install {UPSTREAM}" not in report


def test_doctor_sees_torch_and_numpy_that_do_not_fit() -> None:
    assert "numpy<2" in doctor.check_torch({"torch": False}).remedy


def test_doctor_sees_a_command_that_does_not_find_the_plug_in() -> None:
    report = dict.fromkeys(doctor.COMMANDS, True) | {"onmt_server": False}
    wrong = [finding.name for finding in doctor.check_commands(report) if "does not find" in finding.state]
    assert wrong == ["onmt_server"]


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"exhird {__version__}\n"


def test_without_a_verb_the_verbs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main([])
    assert "generate,serve," in capsys.readouterr().err
