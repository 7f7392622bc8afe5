"""From numbers to pictures: palette, axes, marks, one module for each kind of chart, captions and figures."""
