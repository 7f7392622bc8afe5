"""The boxes of the texts of a rendered chart: which overlap, and which leave the picture. Measured in Chromium."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

SLACK = 1.0  # px by which boxes may overlap: they have room above and below the letters
# The corners of each text that is visible, with its rotation, in px of the page; and those of the picture.
MEASURE = """() => {
  const corners = (box, at) => [[0, 0], [1, 0], [1, 1], [0, 1]].map(([right, down]) => {
    const corner = new DOMPoint(box.x + right * box.width, box.y + down * box.height).matrixTransform(at)
    return [corner.x, corner.y]
  })
  const visible = text => {
    for (let part = text; part && part.tagName !== 'svg'; part = part.parentElement)
      if (getComputedStyle(part).opacity === '0') return false
    return text.textContent.trim() !== ''
  }
  const svg = document.querySelector('svg')
  const area = svg.getBoundingClientRect()
  return {
    picture: [area.left, area.top, area.right, area.bottom],
    texts: [...svg.querySelectorAll('text')].filter(visible).map(text =>
      [text.textContent, corners(text.getBBox(), text.getScreenCTM())])
  }
}"""


class Box(NamedTuple):
    """A text and the corners of its box, which may be rotated."""

    text: str
    corners: NDArray[np.float64]


def misplaced(page: Page, svg: str) -> list[str]:
    """A sentence for each pair of texts that overlap, and for each text that leaves the picture."""
    page.set_content(f"<body style='margin: 0'>{svg}</body>")
    measured = page.evaluate(MEASURE)
    left, top, right, bottom = measured["picture"]
    boxes = [Box(text, np.array(corners)) for text, corners in measured["texts"]]
    assert boxes, "the chart has no text"
    low, high = np.array([left, top]) - SLACK, np.array([right, bottom]) + SLACK
    outside = [box.text for box in boxes if ((box.corners < low) | (box.corners > high)).any()]
    crossing = [f"{a.text!r} overlaps {b.text!r}" for a, b in combinations(boxes, 2) if overlap(a, b)]
    return [f"{text!r} leaves the picture" for text in outside] + crossing


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes overlap by more than `SLACK`: two rectangles do not if a side of one separates them."""
    for corners in (a.corners, b.corners):
        for side in (corners[1] - corners[0], corners[3] - corners[0]):
            direction = side / np.hypot(*side)
            of_a, of_b = a.corners @ direction, b.corners @ direction
            if min(of_a.max(), of_b.max()) - max(of_a.min(), of_b.min()) <= SLACK:
                return False
    return True
