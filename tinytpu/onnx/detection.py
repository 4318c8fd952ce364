"""NonMaxSuppression, which tinygrad's front end does not have."""
from __future__ import annotations

from tinygrad import Tensor, dtypes


def NonMaxSuppression(boxes: Tensor, scores: Tensor, max_output_boxes_per_class: Tensor | None = None, iou_threshold: Tensor | None = None,
                      score_threshold: Tensor | None = None, *, center_point_box: int = 0) -> Tensor:
  """ONNX's NonMaxSuppression: of boxes that overlap by more than the threshold, the one with the best score.

  All classes of all pictures take their best box at once, as often as there are boxes left; how many that is, is read after each.

  Args:
    boxes: (batch, n, 4): two corners, y before x, or with center_point_box middle x, y, width, height. scores: (batch, classes, n).

  Returns:
    int64 (selected, 3): batch, class and box, in this order the best score first.
  """
  batch, classes, n = map(int, scores.shape)
  limit = min(n, 0 if max_output_boxes_per_class is None else int(max_output_boxes_per_class.reshape(()).item()))
  least = None if iou_threshold is None else iou_threshold.reshape(()).float()
  (top, bottom), (left, right) = _sides(boxes, bool(center_point_box))
  area = (bottom - top) * (right - left)
  number = Tensor.arange(n).reshape(1, 1, n)
  left_over = scores.ones_like(dtype=dtypes.bool) if score_threshold is None else scores > score_threshold.reshape(())
  chosen, found = [], []
  for _ in range(limit):
    left_over = left_over.contiguous().realize()
    some = left_over.any(axis=2)
    if not some.any().item():
      break
    best = left_over & (scores == left_over.where(scores, -float("inf")).max(2, keepdim=True))  # perhaps several, and perhaps of -inf
    chosen.append(best.cast(dtypes.int32).argmax(2).contiguous().realize())
    found.append(some.realize())

    def of_best(side: Tensor, picked: Tensor = chosen[-1]) -> Tensor:
      return side.gather(1, picked).reshape(batch, classes, 1)

    def across(side: Tensor) -> Tensor:
      return side.reshape(batch, 1, n)
    height = across(bottom).minimum(of_best(bottom)) - across(top).maximum(of_best(top))
    width = across(right).minimum(of_best(right)) - across(left).maximum(of_best(left))
    shared = ((height > 0) & (width > 0)).where(height * width, 0.0)
    union = across(area) + of_best(area) - shared
    overlaps = (shared > 0) & (shared / union > (0.0 if least is None else least))
    left_over = left_over & ~overlaps & (number != chosen[-1].reshape(batch, classes, 1))
  if not chosen:
    return Tensor.zeros(0, 3, dtype=dtypes.int64)
  rounds = len(chosen)
  shape = (batch, classes, rounds)
  columns = (Tensor.arange(batch).reshape(-1, 1, 1), Tensor.arange(classes).reshape(1, -1, 1), Tensor.stack(*chosen, dim=2))
  rows = Tensor.stack(*(column.cast(dtypes.int64).expand(shape) for column in columns), dim=3).reshape(-1, 3).contiguous()
  kept = Tensor.stack(*found, dim=2).flatten().numpy().nonzero()[0].tolist()
  return rows[Tensor(kept, dtype=dtypes.int32)]


def _sides(boxes: Tensor, centred: bool) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
  """Top and bottom, left and right, (batch, n) each, whatever corners are given."""
  a, b, c, d = (boxes[..., i].float() for i in range(4))
  if centred:
    return (b - d / 2, b + d / 2), (a - c / 2, a + c / 2)
  return (a.minimum(c), a.maximum(c)), (b.minimum(d), b.maximum(d))
