"""The results page: finished runs as the paper's tables, ours beside the paper's, in Markdown, LaTeX and HTML."""
