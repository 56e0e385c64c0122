"""The build backend: setuptools, and one file more in the wheel.

OpenNMT-py imports every module that lies in its folder ``onmt/transforms``. A one-line module there is
how its commands find the plug-in. Both kinds of wheel carry it, the editable one too, so
``pip install .``, ``pip install -e .`` and ``pip uninstall`` treat it like any file of the project.
"""

import base64
import csv
import hashlib
import io
import os
import zipfile

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  (the rest of the interface is setuptools' own)

HOOK_PATH = "onmt/transforms/exhird_plugin.py"
HOOK = b"from onmt_exhird.bridge import install\n\ninstall()\n"


def _add_hook(path):
    """Write the hook into the wheel, and its checksum into the wheel's list of files."""
    with zipfile.ZipFile(path) as wheel:
        files = {info: wheel.read(info) for info in wheel.infolist()}
    digest = base64.urlsafe_b64encode(hashlib.sha256(HOOK).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for info, content in files.items():
            if info.filename.endswith(".dist-info/RECORD"):
                wheel.writestr(HOOK_PATH, HOOK)
                row = io.StringIO()
                csv.writer(row, lineterminator="\n").writerow([HOOK_PATH, f"sha256={digest}", len(HOOK)])
                content = row.getvalue().encode() + content
            wheel.writestr(info, content)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    _add_hook(os.path.join(wheel_directory, name))
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    _add_hook(os.path.join(wheel_directory, name))
    return name
