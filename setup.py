"""The project's metadata. The build backend (tools/build_backend.py) adds the hook into OpenNMT-py."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent


def description() -> str:
    """The README, as it can be read without the files that it links to: those links and its picture become words."""
    text = re.sub(r"^!\[.*\n\n?", "", (HERE / "README.md").read_text(), flags=re.M)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)


setup(
    name="onmt-exhird",
    version=re.search(r'__version__ = "(.+)"', (HERE / "onmt_exhird/__init__.py").read_text()).group(1),
    description="Keyphrase generation by exclusive hierarchical decoding, a plug-in for OpenNMT-py",
    long_description=description(),
    long_description_content_type="text/markdown",
    license="MIT",
    license_files=["LICENSE"],
    author="The onmt-exhird maintainers",
    project_urls={
        "Paper": "https://aclanthology.org/2020.acl-main.103/",
        "OpenNMT-py": "https://github.com/OpenNMT/OpenNMT-py",
    },
    keywords="keyphrase generation, keyphrase extraction, keywords, OpenNMT-py, ExHiRD",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Environment :: Web Environment",
        "Intended Audience :: Information Technology",
        "Intended Audience :: Science/Research",
        "Natural Language :: English",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Indexing",
    ],
    python_requires=">=3.11,<3.12",  # what OpenNMT-py 3.5.1 and its pins were tested with here
    packages=find_packages(include=["onmt_exhird", "onmt_exhird.*"]),
    package_data={
        "onmt_exhird": ["py.typed", "serve/openapi.json", "serve/static/*"],
        "onmt_exhird.models.science": ["*.json", "*.safetensors", "*.txt", "*.md"],
    },
    entry_points={
        "console_scripts": ["exhird = onmt_exhird.cli:main"],
        # Models by name; another package may add its own: a name, and the package that has the folder's files.
        "onmt_exhird.models": ["science = onmt_exhird.models.science"],
    },
    install_requires=[
        "OpenNMT-py==3.5.1",  # what is extended: encoders, training loop, search, server; its last release
        "torch>=2.1",  # the models; OpenNMT-py's own pin decides the upper end
        "numpy<2",  # torch 2.2, which OpenNMT-py asks for, is compiled against numpy 1
        "nltk>=3.8",  # the Porter stemmer that the field's scores are defined with
        "snowballstemmer>=2.2",  # and those of other languages
        "sentencepiece>=0.2",  # subwords; so does pyonmttok, which OpenNMT-py asks for
        "safetensors>=0.4",  # checkpoints that cannot hold code; OpenNMT-py uses it without asking for it
        "tqdm>=4.60",  # progress bars
        "flask>=2.2",  # the service; these two are OpenNMT-py's own
        "waitress>=2.1",
    ],
    extras_require={
        "parquet": ["pyarrow>=15"],  # Parquet files in and out
        "ray": ["ray[data]>=2.60"],  # generate --engine ray, map_batches; brings pyarrow
        # generate --engine spark, mapInPandas, whose frames are pandas' and travel as pyarrow's; no pandas 3 yet
        "spark": ["pyspark>=4.0", "pandas>=2.2,<3", "pyarrow>=15"],
    },
)
