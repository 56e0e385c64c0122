"""``exhird doctor``: the state of the installation, and the remedy where something is wrong."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from onmt_exhird import __version__
from onmt_exhird.bridge import HOOK, SUPPORTED, SWITCH, UPSTREAM, switched_off

COMMANDS = {
    "onmt_build_vocab": "onmt.bin.build_vocab",
    "onmt_train": "onmt.bin.train",
    "onmt_translate": "onmt.bin.translate",
    "onmt_server": "onmt.bin.server",
}

REINSTALL_UPSTREAM = f"pip install --no-deps --force-reinstall {UPSTREAM}=={SUPPORTED}"
NEEDED = ("torch", "numpy", "safetensors", "nltk", "tqdm", "flask", "waitress", UPSTREAM)
# Not `pip install`, which would bring OpenNMT-py's own pins, another torch among them.
SET_UP = "keyphrases do not need it; to train, and for the onmt_ commands, in the project's folder: make setup"
REINSTALL = "in the project's folder: pip install --no-deps --force-reinstall ."

# A fresh interpreter, since a command starts as one.
_PROBE = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
report = {}
for command, module in json.loads(sys.argv[1]).items():
    importlib.import_module(module)
    report[command] = "exhird" in sys.modules["onmt.decoders"].str2dec
import torch
try:
    report["torch"] = torch.ones(1).numpy().tolist() == [1.0]
except RuntimeError:
    report["torch"] = False
print(json.dumps(report))
"""


class Finding(NamedTuple):
    """One line of the report; a remedy means that something is wrong."""

    name: str
    state: str
    remedy: str = ""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="say whether the installation works",
        description="Prints versions, whether each stock command finds the plug-in, and whether torch and numpy fit.",
        epilog="example: exhird doctor   (exit code 1 and the remedy if something is wrong)",
    )
    parser.set_defaults(run=run)


def installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_versions() -> list[Finding]:
    findings = [Finding("python", sys.version.split()[0]), Finding("onmt_exhird", __version__)]
    for package in NEEDED:
        version = installed_version(package)
        if version is None:
            remedy = SET_UP if package == UPSTREAM else f"pip install {package}"
            findings.append(Finding(package, "not installed", remedy))
        elif package == UPSTREAM and version != SUPPORTED:
            remedy = f"pip install {UPSTREAM}=={SUPPORTED}"
            findings.append(Finding(package, f"{version}, but the plug-in fits {SUPPORTED}", remedy))
        else:
            findings.append(Finding(package, version))
    return findings


def run_probe() -> dict[str, Any] | str:
    """What a fresh interpreter finds, or the last line of its complaint."""
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(COMMANDS)], capture_output=True, text=True, check=False
    )
    if probe.returncode:
        return (probe.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(probe.stdout.splitlines()[-1])


def check_commands(report: dict[str, Any]) -> list[Finding]:
    scripts = sysconfig.get_path("scripts")
    findings = []
    for command in COMMANDS:
        here = Path(scripts, command)
        first = shutil.which(command)
        if not here.exists():
            findings.append(Finding(command, f"missing from {scripts}", REINSTALL_UPSTREAM))
        elif not report[command]:
            findings.append(Finding(command, "does not find the plug-in", REINSTALL))
        elif first is not None and not os.path.samefile(first, here):
            remedy = f"put {scripts} first on PATH, or call {here}"
            findings.append(Finding(command, f"finds the plug-in, but PATH leads to {first}", remedy))
        else:
            findings.append(Finding(command, "finds the plug-in"))
    return findings


def check_torch(report: dict[str, Any]) -> Finding:
    if report["torch"]:
        return Finding("torch and numpy", "fit each other")
    return Finding("torch and numpy", "do not fit each other", "pip install 'numpy<2', or torch 2.3 or newer")


def examine() -> list[Finding]:
    """Everything there is to say, the causes before what follows from them."""
    findings = check_versions()
    if any(finding.remedy for finding in findings):
        return findings
    if switched_off():
        state = f"switched off by {SWITCH}={os.environ[SWITCH]}"
        return [*findings, Finding("plug-in", state, f"unset {SWITCH}")]
    if not _hook_path().exists():
        return [*findings, Finding("plug-in", f"no {HOOK}", REINSTALL)]
    report = run_probe()
    if isinstance(report, str):
        return [*findings, Finding("import", report, REINSTALL_UPSTREAM)]
    return [*findings, *check_commands(report), check_torch(report)]


def _hook_path() -> Path:
    """Where OpenNMT-py would look; found without importing it."""
    spec = importlib.util.find_spec("onmt")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.joinpath(*HOOK.split(".")[1:]).with_suffix(".py")


def run(args: argparse.Namespace) -> int:
    findings = examine()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{'!!' if finding.remedy else 'ok'}  {finding.name:<{width}}  {finding.state}")
    wrong = [finding for finding in findings if finding.remedy]
    for finding in wrong:
        print(f"\n{finding.name}: {finding.remedy}")
    return 1 if wrong else 0
