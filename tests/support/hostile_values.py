"""Values that an untrusted source may write: JSON written by hand, so it may be invalid."""

from __future__ import annotations

import json

_TEXTS = (
    "",
    " ",
    "../../../../etc/passwd",
    "/etc/passwd",
    "..\\..\\windows\\win.ini",
    "C:\\autoexec.bat",
    "'; DROP TABLE run; --",
    '" OR 1=1 /*',
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) ![](http://example.invalid/x.png)",
    '{"mark": "bar", "data": {"url": "file:///etc/passwd"}}',
    "datum['x'] || toString.constructor('return 1')()",
    '=HYPERLINK("http://example.invalid")',
    "{{7*7}}${7*7}%s%n{0}",
    "$(touch hacked)`touch hacked`",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "line\nof\r\nits own\tand more",
    "nul\0byte",
    "\u202eright to left\u2066",
    "\u2028\u2029\u0085\ufeff",
    "\N{COMBINING ACUTE ACCENT}" * 50,
    "\N{PILE OF POO}",
    "a" * 100_000,
    "2026-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "10000-01-01T00:00:00Z",
    "2026-01-01T00:00:00+14:00",
    "2026-01-01T00:00:00-00:00",
    "2026-01-01",
    "2026-W01-1T00:00:00Z",
    "20260101T000000Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "null",
    "1",
    "f" * 64,
    "F" * 64,
    "0" * 64 + "\n",
    "00000000-0000-0000-0000-000000000000",
    "measured",
    "published",
    "simulated",
    "emulated",
    "stm",
    "no-such-strategy",
    "unsupported",
)

STRINGS = (*map(json.dumps, _TEXTS), '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"')

FINITE = (
    "0", "-0", "-0.0", "0.0", "1", "1.0", "-1", "1.5", "0.1", "1e-400", "5e-324", "1e308", "-1e308", "1E5", "1e+5",
    "9007199254740993", str(2**31), str(2**32), str(2**63 - 1), str(2**63), str(-(2**63)), str(2**64), str(10**25),
    "0." + "1" * 5000,
)  # fmt: skip
NUMBERS = (*FINITE, "1e400", "-1e400", "1e999999999", "1" * 400, "1" + "0" * 5000, "9" * 5000)

# Invalid JSON, or JSON that breaks naive readers.
BROKEN = (
    "NaN", "Infinity", "-Infinity", "nan", "True", "None", "undefined", "'text'", "01", "+1", ".5", "1.", "0x10",
    "1_000", "[1,]", "{,}", '{"a":1,}', '"open', '"\t"', '"\\x41"', '"\\u12"', "// a comment\n1", "/**/1", "", "]", "}",
    "[" * 100_000,
    '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, "[" * 150 + "]" * 150,
)  # fmt: skip

CONTAINERS = ("[]", "{}", "[null]", "[[]]", "[{}]", '{"":null}', '{"a":1,"a":2}', "[1,1,1,1]", '["a","a"]')

# One value of each JSON type, and of each kind of number.
TYPES = ("null", "true", "false", "0", "-1", "1.5", '""', '"text"', "[]", "{}", "[0]", '{"a":0}')

ANY = (*STRINGS, *NUMBERS, *BROKEN, *CONTAINERS, *TYPES)
