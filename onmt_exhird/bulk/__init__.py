"""Any number of documents, in shards: each is answered by a worker process, written beside and renamed.

`shards` cuts and writes them, `answering` does the work of one, `workers` looks after the processes that do it,
`folder` knows what a folder was made of and what is still missing, `progress` says how far it is, `run` puts them
together.
"""
