"""From numbers to pictures: palette, axes, marks, layouts, charts, captions and figures."""
