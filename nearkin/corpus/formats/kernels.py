"""Kernels that decompress pages."""

import numpy as np

from nearkin.runtime.jit import kernel

I64 = np.int64


@kernel
def decompress_snappy(stored: np.ndarray, unfolded: np.ndarray) -> bool:
    """Decompresses a raw block of snappy.

    Args:
        stored: The block, uint8 (n,).
        unfolded: Receives the content, uint8 (m,).

    Returns:
        True if the block is valid and has exactly m bytes of content.
    """
    size = I64(stored.shape[0])
    room = I64(unfolded.shape[0])
    at = I64(0)
    # The length of the content is skipped, because the caller knows it.
    while at < size and stored[at] & 0x80:
        at += 1
    at += 1
    done = I64(0)
    while at < size:
        tag = I64(stored[at])
        at += 1
        kind = tag & 3
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                count = length - 59
                if at + count > size:
                    return False
                length = I64(0)
                for place in range(count):
                    length |= I64(stored[at + place]) << (8 * place)
                at += count
            length += 1
            if at + length > size or done + length > room:
                return False
            unfolded[done : done + length] = stored[at : at + length]
            at += length
            done += length
            continue
        count = kind if kind < 3 else 4
        if at + count > size:
            return False
        distance = I64(0)
        for place in range(count):
            distance |= I64(stored[at + place]) << (8 * place)
        at += count
        if kind == 1:
            distance |= (tag >> 5) << 8
            length = ((tag >> 2) & 7) + 4
        else:
            length = (tag >> 2) + 1
        if distance < 1 or distance > done or done + length > room:
            return False
        # Source and target may overlap, which repeats a few bytes.
        for _ in range(length):
            unfolded[done] = unfolded[done - distance]
            done += 1
    return bool(done == room)


@kernel
def decompress_lz4(stored: np.ndarray, unfolded: np.ndarray) -> bool:
    """Decompresses a raw block of LZ4.

    A sequence is a token, literals, and a copy of earlier content. The halves of the token hold the
    number of literals and the length of the copy minus 4; 15 means that further bytes are added,
    up to the first below 255. The last sequence has literals only (LZ4 Block Format Description,
    https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md).

    Args:
        stored: The block, uint8 (n,).
        unfolded: Receives the content, uint8 (m,).

    Returns:
        True if the block is valid and has exactly m bytes of content.
    """
    size = I64(stored.shape[0])
    room = I64(unfolded.shape[0])
    at = I64(0)
    done = I64(0)
    while at < size:
        token = I64(stored[at])
        at += 1
        length = token >> 4
        if length == 15:
            more = I64(255)
            while more == 255:
                if at >= size:
                    return False
                more = I64(stored[at])
                at += 1
                length += more
        if at + length > size or done + length > room:
            return False
        unfolded[done : done + length] = stored[at : at + length]
        at += length
        done += length
        if at == size:
            return bool(done == room)
        if at + 2 > size:
            return False
        distance = I64(stored[at]) | (I64(stored[at + 1]) << 8)
        at += 2
        length = (token & 15) + 4
        if length == 19:
            more = I64(255)
            while more == 255:
                if at >= size:
                    return False
                more = I64(stored[at])
                at += 1
                length += more
        if distance < 1 or distance > done or done + length > room:
            return False
        # Source and target may overlap, which repeats a few bytes.
        for _ in range(length):
            unfolded[done] = unfolded[done - distance]
            done += 1
    return False
