"""Reading documents in the formats that people have: lines, records, tables, references, a file each.

A reader gives an `Item` for each of them, one at a time; what is wrong with one is told in its `Item`, and the others
are read. Files of references can be written again with keywords filled in: see `Entry`.
"""

from onmt_exhird.documents.formats import kind_of, read
from onmt_exhird.documents.items import Entry, Item, Names
from onmt_exhird.documents.lines import FileLines, PipeLines

__all__ = ["Entry", "FileLines", "Item", "Names", "PipeLines", "kind_of", "read"]
