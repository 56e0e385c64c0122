"""The numbers of the paper's tables (Chen et al., ACL 2020), as they stand there.

``0.311_1`` is the mean 0.311 with the standard deviation 0.001: what follows ``_`` counts in units of the last digit.
All are under the convention ``exhird``. The paper disagrees with itself once: ExHiRD-h's absent phrases on KP20k have
F1@M 0.032 and #AK 0.81 in Tables 3, 5 and 8, but 0.033 and 0.86 at window 1 in Table 7.
"""

from __future__ import annotations

from dataclasses import dataclass

from onmt_exhird.errors import ExhirdError

DATASETS = ("inspec", "krapivin", "semeval", "kp20k")

TEST_DOCUMENTS = {"inspec": 500, "krapivin": 400, "semeval": 100, "kp20k": 20_000}  # Table 1
TRAINING_DOCUMENTS = 509_818  # of KP20k, for all data sets
SEEDS = 3  # runs behind each mean
SEARCH_WINDOWS = {"inspec": 4, "krapivin": 1, "semeval": 1, "kp20k": 1}
"""The window K_ES that ExHiRD-h searches with on each data set."""

# Table 2: present phrases, F1@M and F1@5 for each data set.
_PRESENT = """
Transformer | 0.254_5 0.210_7 | 0.328_14 0.252_4 | 0.310_5  0.257_4  | 0.360_3 0.282_10
catSeq      | 0.276_5 0.233_4 | 0.344_14 0.269_5 | 0.313_8  0.262_11 | 0.368_1 0.295_2
catSeqD     | 0.280_3 0.236_1 | 0.344_9  0.268_8 | 0.311_6  0.263_6  | 0.368_2 0.296_2
catSeqCorr  | 0.253_3 0.208_6 | 0.343_9  0.258_9 | 0.318_18 0.260_14 | 0.367_3 0.281_4
ExHiRD-s    | 0.278_5 0.235_3 | 0.338_3  0.278_0 | 0.322_5  0.276_5  | 0.372_1 0.307_0
ExHiRD-h    | 0.291_3 0.253_4 | 0.347_4  0.286_4 | 0.335_17 0.284_15 | 0.374_0 0.311_1
"""

# Table 3: absent phrases, likewise.
_ABSENT = """
Transformer | 0.013_1 0.006_1 | 0.030_5 0.014_3 | 0.020_1 0.013_1 | 0.024_2 0.011_1
catSeq      | 0.008_3 0.004_1 | 0.033_4 0.015_2 | 0.017_2 0.012_1 | 0.023_1 0.010_0
catSeqD     | 0.010_4 0.004_1 | 0.033_7 0.015_3 | 0.016_1 0.011_1 | 0.023_1 0.010_1
catSeqCorr  | 0.007_2 0.004_1 | 0.022_6 0.011_3 | 0.021_5 0.014_3 | 0.023_1 0.010_1
ExHiRD-s    | 0.021_7 0.009_2 | 0.033_5 0.016_2 | 0.024_5 0.016_4 | 0.029_1 0.014_0
ExHiRD-h    | 0.022_3 0.011_1 | 0.043_6 0.022_3 | 0.025_6 0.017_4 | 0.032_0 0.016_0
"""

# Table 4: DupRatio.
_DUP_RATIO = """
Transformer | 0.286_25 | 0.297_46 | 0.220_38 | 0.223_41
catSeq      | 0.302_11 | 0.277_8  | 0.200_2  | 0.217_4
catSeqD     | 0.304_14 | 0.283_9  | 0.199_1  | 0.215_8
catSeqCorr  | 0.352_38 | 0.354_4  | 0.249_23 | 0.282_14
ExHiRD-s    | 0.210_14 | 0.182_12 | 0.119_8  | 0.137_6
ExHiRD-h    | 0.030_6  | 0.140_6  | 0.091_10 | 0.110_1
"""

# Table 5: #PK and #AK; the oracle's are those of the gold phrases.
_NUMBERS = """
Oracle      | 7.64    2.10   | 3.27    2.57   | 6.28    8.12   | 3.32    1.93
Transformer | 3.17_10 0.70_4 | 3.57_29 0.63_4 | 3.24_20 0.67_3 | 3.44_17 0.58_4
catSeq      | 3.33_2  0.58_4 | 3.70_10 0.63_5 | 3.45_5  0.64_3 | 3.70_4  0.51_2
catSeqD     | 3.33_4  0.58_2 | 3.66_10 0.61_1 | 3.47_5  0.63_7 | 3.74_3  0.50_2
catSeqCorr  | 3.07_7  0.53_2 | 3.39_14 0.56_1 | 3.15_3  0.62_1 | 3.36_4  0.50_1
ExHiRD-s    | 3.56_5  0.81_2 | 4.33_7  0.86_3 | 3.69_14 0.79_6 | 3.94_2  0.69_1
ExHiRD-h    | 4.00_4  1.50_6 | 4.41_9  1.02_7 | 3.65_13 0.99_4 | 3.97_3  0.81_1
"""

# Tables 6 to 8 have one data set each: F1@M, F1@5, #PK; F1@M, F1@5, #AK; DupRatio.
_ABLATION = """
ExHiRD-h | 0.335 0.284 3.65 | 0.025 0.017 0.99 | 0.091
w/o HRD  | 0.320 0.274 3.58 | 0.018 0.013 0.97 | 0.093
w/o ES   | 0.330 0.278 3.51 | 0.022 0.014 0.70 | 0.191
"""

_WINDOWS = """
Oracle         | - - 3.32         | - - 1.93         | -
ExHiRD-h, K 0   | 0.376 0.303 3.76 | 0.028 0.013 0.61 | 0.195
ExHiRD-h, K 1   | 0.374 0.311 3.97 | 0.033 0.016 0.86 | 0.110
ExHiRD-h, K 2   | 0.371 0.314 4.11 | 0.034 0.017 1.00 | 0.069
ExHiRD-h, K 3   | 0.368 0.316 4.21 | 0.034 0.017 1.08 | 0.038
ExHiRD-h, K 4   | 0.366 0.316 4.27 | 0.033 0.017 1.16 | 0.017
ExHiRD-h, K 5   | 0.366 0.316 4.30 | 0.033 0.017 1.19 | 0.010
ExHiRD-h, K all | 0.365 0.316 4.32 | 0.032 0.017 1.25 | 0.002
"""

_WITH_EXCLUSIVE_SEARCH = """
Oracle            | - - 3.32         | - - 1.93         | -
Transformer       | 0.360 0.282 3.44 | 0.024 0.011 0.58 | 0.223
catSeq            | 0.368 0.295 3.70 | 0.023 0.010 0.51 | 0.217
catSeqD           | 0.368 0.296 3.74 | 0.023 0.010 0.50 | 0.215
catSeqCorr        | 0.367 0.281 3.36 | 0.023 0.010 0.50 | 0.282
Transformer w/ ES | 0.359 0.294 3.75 | 0.027 0.013 0.79 | 0.114
catSeq w/ ES      | 0.366 0.305 3.95 | 0.025 0.012 0.68 | 0.138
catSeqD w/ ES     | 0.366 0.306 3.99 | 0.026 0.012 0.65 | 0.137
catSeqCorr w/ ES  | 0.366 0.298 3.74 | 0.027 0.013 0.72 | 0.159
ExHiRD-h          | 0.374 0.311 3.97 | 0.032 0.016 0.81 | 0.110
"""

_BY_DATASET = (
    (_PRESENT, ("present/F1@M", "present/F1@5")),
    (_ABSENT, ("absent/F1@M", "absent/F1@5")),
    (_DUP_RATIO, ("dup_ratio",)),
    (_NUMBERS, ("num_present", "num_absent")),
)
MAIN_TABLES = "Tables 2 to 5"
ABLATION_TABLE = "Table 6, ablation"
WINDOW_TABLE = "Table 7, window of the exclusive search"
BASELINE_TABLE = "Table 8, baselines with exclusive search"
_STUDIES = (
    (ABLATION_TABLE, "semeval", _ABLATION),
    (WINDOW_TABLE, "kp20k", _WINDOWS),
    (BASELINE_TABLE, "kp20k", _WITH_EXCLUSIVE_SEARCH),
)
STUDY_KEYS = (
    *("present/F1@M", "present/F1@5", "num_present", "absent/F1@M", "absent/F1@5", "num_absent"),
    "dup_ratio",
)
"""The scores of Tables 6 to 8."""
ORACLE = "Oracle"
ORACLE_KEYS = {"num_present": "gold_present", "num_absent": "gold_absent"}
"""The oracle's numbers are not a system's, but those of the gold phrases."""


@dataclass(frozen=True)
class PaperNumber:
    """A number of the paper; `deviation` is its standard deviation, where the paper gives one.

    >>> PaperNumber.read("0.311_1")
    PaperNumber(value=0.311, deviation=0.001, digits=3)
    """

    value: float
    deviation: float | None
    digits: int

    @classmethod
    def read(cls, text: str) -> PaperNumber:
        number, _, units = text.partition("_")
        digits = len(number.partition(".")[2])
        return cls(float(number), round(int(units) / 10**digits, digits) if units else None, digits)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper for one data set: a row for each model, a number for each score given there."""

    title: str
    rows: dict[str, dict[str, PaperNumber]]


def _parse(text: str) -> dict[str, list[list[str]]]:
    """A row's name and the cells of each of its groups."""
    rows = ([part.strip() for part in line.split("|")] for line in text.strip().splitlines())
    return {name: [group.split() for group in groups] for name, *groups in rows}


def check_dataset(dataset: str) -> None:
    """Raise an `ExhirdError` unless the paper has this data set."""
    if dataset not in DATASETS:
        raise ExhirdError(f"the paper has no data set '{dataset}'; it has {', '.join(DATASETS)}")


def paper_tables(dataset: str) -> list[PaperTable]:
    """All that the paper says about a data set.

    >>> paper_tables("kp20k")[0].rows["ExHiRD-h"]["present/F1@5"].value
    0.311
    """
    check_dataset(dataset)
    column = DATASETS.index(dataset)
    main: dict[str, dict[str, PaperNumber]] = {}
    for text, keys in _BY_DATASET:
        for model, groups in _parse(text).items():
            numbers = zip(keys, map(PaperNumber.read, groups[column]), strict=True)
            main.setdefault(model, {}).update(numbers)
    tables = [PaperTable(MAIN_TABLES, main)]
    for title, of_dataset, text in _STUDIES:
        if of_dataset == dataset:
            rows = {model: _study_row(groups) for model, groups in _parse(text).items()}
            tables.append(PaperTable(title, rows))
    return tables


def paper_rows(title: str, dataset: str) -> dict[str, dict[str, PaperNumber]]:
    """The rows of the paper's table of that title; none where the paper has no such table for the data set.

    >>> paper_rows(ABLATION_TABLE, "semeval")["w/o ES"]["dup_ratio"].value, paper_rows(ABLATION_TABLE, "kp20k")
    (0.191, {})
    """
    tables = paper_tables(dataset) if dataset in DATASETS else []
    return next((table.rows for table in tables if table.title == title), {})


def _study_row(groups: list[list[str]]) -> dict[str, PaperNumber]:
    cells = [cell for group in groups for cell in group]
    return {key: PaperNumber.read(cell) for key, cell in zip(STUDY_KEYS, cells, strict=True) if cell != "-"}
