"""Invented German-like and Chinese-like documents, for `make_corpus.py --language`.

What there is to learn is as in the English ones: a term is a keyphrase where the text introduces it, not where it only
mentions it; a name that occurs nowhere else has to be copied; the field of the first term is an absent keyphrase.
German has compounds, umlauts and endings, Chinese no blanks.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Language:
    """How documents of a language are made.

    fields     field: the beginnings of its terms, and their ends; each beginning belongs to one field
    endings    what may follow a term where it only inflects
    syllables  of names
    """

    fields: dict[str, tuple[str, str]]
    endings: tuple[str, ...]
    syllables: tuple[str, ...]
    titles: tuple[str, ...]
    openings: tuple[str, ...]
    further: tuple[str, ...]
    namings: tuple[str, ...]
    mentions: tuple[str, ...]
    closings: tuple[str, ...]
    blank: str


GERMAN = Language(
    fields={
        "Bildverstehen": ("Größen,Schärfe,Farb,Kanten,Tiefen", "schätzung,filterung,erkennung,messung"),
        "Sprachtechnik": ("Wörter,Silben,Ausdrucks,Übersetzungs,Klang", "zerlegung,lexikon,prüfung,modell"),
        "Rechnernetze": ("Funk,Verbindungs,Schlüssel,Überlast,Knoten", "vermittlung,steuerung,verteilung,protokoll"),
        "Regelungstechnik": ("Dämpfungs,Fühler,Antriebs,Stör,Zustands", "größe,schaltung,beobachter,regler"),
        "Datenhaltung": ("Bücher,Zwischen,Verzeichnis,Änderungs,Sicherungs", "speicher,tabelle,abfrage,sperre"),
    },
    endings=("", "en", "s"),
    syllables=("bö", "lau", "mü", "ster", "kra", "wen", "tho", "gru", "ßel", "pfi"),
    titles=("{key} statt {other} für kleine Betriebe", "Von der {other} zur {key}"),
    openings=("Wir stellen eine neue {key} vor.", "Dieser Aufsatz führt die {key} ein."),
    further=("Sie beruht auf der {key}.", "Dazu kommt eine {key}."),
    namings=("Das Ergebnis heißt {name}.", "Wir nennen es {name}."),
    mentions=("Frühere Arbeiten brauchten {other}, das Verfahren nicht [{n}].", "Anders als bei {other} genügt wenig."),
    closings=("Für {n} Fälle wäre es möglich.", "Es läuft {n} Stunden ohne Störung."),
    blank=" ",
)
CHINESE = Language(
    fields={
        "计算视觉": ("图像,轮廓,深度,光流,纹理", "分割,识别,滤波,重建"),
        "语言处理": ("词汇,句法,语音,篇章,翻译", "分析,标注,模型,合成"),
        "网络通信": ("无线,光纤,路由,信道,协议", "调度,编码,估计,均衡"),
        "自动控制": ("模糊,滑模,鲁棒,伺服,反馈", "控制,观测,补偿,辨识"),
        "数据管理": ("索引,事务,缓存,查询,分布", "优化,恢复,划分,压缩"),
    },
    endings=("",),
    syllables=("卡", "洛", "梅", "塔", "波", "里", "尼", "萨", "维", "多"),
    titles=("以{key}代替{other}", "从{other}到{key}"),
    openings=("本文提出一种新的{key}方法。", "我们介绍一种{key}技术。"),
    further=("该方法建立在{key}之上。", "此外还使用了{key}。"),
    namings=("结果称为{name}系统。", "我们把它命名为{name}系统。"),
    mentions=("以往的研究依赖{other}\uff0c本方法则不需要。", "与{other}不同\uff0c它只需少量样本。"),
    closings=("在{n}个样本上的实验证明了这一点。", "它可以连续运行{n}小时。"),
    blank="",
)
LANGUAGES = {"de": GERMAN, "zh": CHINESE}


def all_terms(language: Language) -> list[tuple[str, str]]:
    """Every term with its field."""
    return [
        (start + end, field)
        for field, (starts, ends) in language.fields.items()
        for start in starts.split(",")
        for end in ends.split(",")
    ]


def inflected(random: Random, language: Language, term: str) -> str:
    return term + random.choice(language.endings)


def make_document(random: Random, code: str) -> dict[str, object]:
    """One record without its id: ``title, abstract, keywords``."""
    language = LANGUAGES[code]
    terms = random.sample(all_terms(language), 4)
    count = random.randint(1, 2)
    keys, others = terms[:count], terms[2:]
    present = [term for term, _ in keys]
    middle = [random.choice(language.further).format(key=inflected(random, language, term)) for term, _ in keys[1:]]
    for (term, _), pattern in zip(others, random.sample(language.mentions, 2), strict=True):
        other = inflected(random, language, term)
        middle.append(pattern.format(other=other, n=random.randint(2, 99)))
    if random.random() < 0.4:
        name = "".join(random.choices(language.syllables, k=3)).capitalize()
        middle.append(random.choice(language.namings).format(name=name))
        present.append(name)
    random.shuffle(middle)
    closing = random.choice(language.closings).format(n=random.randint(2, 4000))
    opening = random.choice(language.openings).format(key=keys[0][0])
    random.shuffle(present)
    return {
        "title": random.choice(language.titles).format(key=keys[0][0], other=others[0][0]),
        "abstract": language.blank.join([opening, *middle, closing]),
        "keywords": [*present, keys[0][1]],
    }
