// What Verilator's FST writer uses of lz4, so that a machine needs only a C++ compiler: compression of one block, greedy.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

// Compress `size` bytes; `capacity` is at least LZ4_compressBound(size). The number of bytes written.
// A block is a list of sequences: literals, then a match, which repeats bytes of what went before. The last sequence has literals only.
inline int LZ4_compress_default(const char* source, char* target, int size, int) {
  constexpr int SHORTEST = 4, LAST_LITERALS = 5, LAST_MATCH = 12, FARTHEST = 65535, HASH_BITS = 13;
  const auto word = [source](int at) { uint32_t bytes; memcpy(&bytes, source + at, 4); return bytes; };
  char* out = target;
  const auto length = [&out](int n) {  // what of a length goes beyond its four bits
    for (n -= 15; n >= 0; n -= 255) *out++ = char(n < 255 ? n : 255);
  };
  const auto sequence = [&](int from, int literals, int distance, int match) {
    const int more = match - SHORTEST;
    *out++ = char((literals < 15 ? literals : 15) << 4 | (distance ? (more < 15 ? more : 15) : 0));
    length(literals);
    memcpy(out, source + from, literals);
    out += literals;
    if (!distance) return;
    *out++ = char(distance & 255);
    *out++ = char(distance >> 8);
    length(more);
  };
  std::vector<int> seen(1 << HASH_BITS, -1);
  int begin = 0, at = 0;
  while (at <= size - LAST_MATCH) {
    int& entry = seen[word(at) * 2654435761u >> (32 - HASH_BITS)];
    const int before = entry;
    entry = at;
    if (before < 0 || at - before > FARTHEST || word(before) != word(at)) { at++; continue; }
    int match = SHORTEST;
    while (at + match < size - LAST_LITERALS && source[before + match] == source[at + match]) match++;
    sequence(begin, at - begin, at - before, match);
    begin = at += match;
  }
  sequence(begin, size - begin, 0, 0);
  return int(out - target);
}
