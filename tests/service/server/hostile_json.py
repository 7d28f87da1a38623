"""JSON that costs a parser much more time or memory than its size suggests."""

HOSTILE = {
    "members": b"{" + b",".join(b'"%d":1' % at for at in range(1_000_000)) + b"}",
    "brackets": b"[" * 15_000_000,
    "numbers": b'{"vector":[' + b"1," * 7_000_000 + b"1]}",
    "decimals": b'{"vector":[' + b"0.123456789012," * 1_000_000 + b"1]}",
    "strings": b'{"vector":[' + b'"1",' * 60_000 + b"1]}",
}
