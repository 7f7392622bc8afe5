"""Documents: answers, report.html, tables, narrative, and the numbers and the index of the docs."""
