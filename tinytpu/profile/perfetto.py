"""The timeline as a trace for Perfetto (ui.perfetto.dev): a track of kernels, one for each unit, one for what groups waited for."""
from __future__ import annotations

from collections import Counter

from ..trace import SPAN_UNITS
from .timeline import LANES, Texts, Timeline

WAITS = "waits"
"""Name of the track of what groups waited for."""
LAUNCHES = "launches"
"""Name of the track of launches, and of kernels in them where a batch was launched at once."""


def trace(timeline: Timeline) -> bytes:
  """The serialized trace. A nanosecond in it is a cycle, whatever the machine's clock, so that nothing is rounded."""
  from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackDescriptor, TrackEvent
  from perfetto.trace_builder.proto_builder import TraceProtoBuilder
  builder = TraceProtoBuilder()
  sequence = 1
  tracks: dict[tuple[str, str], int] = {}
  names: dict[str, int] = {}

  def track(device: str, name: str) -> int:
    if (device, name) not in tracks:
      number = tracks[device, name] = len(tracks) + 1
      packet = builder.add_packet()
      packet.timestamp = 0
      packet.track_descriptor.uuid = number
      packet.track_descriptor.name = name
      if name:
        packet.track_descriptor.parent_uuid = track(device, "")
        packet.track_descriptor.sibling_order_rank = number
      else:
        packet.track_descriptor.name = device
        packet.track_descriptor.child_ordering = TrackDescriptor.EXPLICIT
    return tracks[device, name]

  def event(kind: int, time: int, where: int, name: str | None = None) -> None:
    packet = builder.add_packet()
    packet.timestamp = time
    packet.trusted_packet_sequence_id = sequence
    packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    packet.track_event.type = kind
    packet.track_event.track_uuid = where
    if name is not None:
      if name not in names:
        names[name] = len(names) + 1
        entry = packet.interned_data.event_names.add()
        entry.iid, entry.name = names[name], name
      packet.track_event.name_iid = names[name]

  first = builder.add_packet()
  first.trusted_packet_sequence_id = sequence
  first.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
  # Of two events at the same time the one that was written first comes first: ends before begins, inner ends before outer ones.
  open_until: dict[str, int] = {}
  for i, piece in enumerate(timeline.pieces):
    where = track(piece.device, LAUNCHES)
    event(TrackEvent.TYPE_SLICE_BEGIN, piece.start, where, piece.name)
    following = timeline.pieces[i + 1] if i + 1 < len(timeline.pieces) else None
    if not piece.inner:
      open_until[piece.device] = piece.stop
    batch = following is not None and following.inner
    if piece.inner or not batch:
      event(TrackEvent.TYPE_SLICE_END, piece.stop, where)
    if piece.inner and not batch:
      event(TrackEvent.TYPE_SLICE_END, open_until[piece.device], where)
  texts = Texts()
  for device, code, found in timeline.spans:
    for span in found:
      lane = int(span["lane"])
      unit = lane < len(SPAN_UNITS)
      where = track(device, LANES[lane] if unit else WAITS)
      event(TrackEvent.TYPE_SLICE_BEGIN, int(span["start"]), where, texts(code, int(span["pc"])) if unit else LANES[lane])
      event(TrackEvent.TYPE_SLICE_END, int(span["stop"]), where)
  return builder.serialize()


def busy(data: bytes) -> dict[str, int]:
  """Cycles of each track's slices, of all devices together, as read back from a serialized trace."""
  from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
  names: dict[int, str] = {}
  cycles: Counter[str] = Counter()
  for packet in Trace.FromString(data).packet:
    if packet.HasField("track_descriptor"):
      names[packet.track_descriptor.uuid] = packet.track_descriptor.name
    if packet.HasField("track_event"):
      sign = -1 if packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN else 1
      cycles[names[packet.track_event.track_uuid]] += sign * packet.timestamp
  return dict(cycles)
