"""Documents: answers, report.html, tables, narrative and the index of the docs."""
