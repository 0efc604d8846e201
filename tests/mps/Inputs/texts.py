"""Prints the first Metal text in a package, which it begins with its include and ends before a zero byte.
Usage: texts.py PACKAGE"""

import sys

data = open(sys.argv[1], "rb").read()
begin = data.index(b"#include <metal_stdlib>")
end = data.index(b"\n}\n\0", begin) + 3 if b"\n}\n\0" in data[begin:] else len(data)
text = data[begin:end]
again = text.find(b"#include <metal_stdlib>", 1)  # the source follows the code
sys.stdout.write(
    text[: again if again > 0 else None].rstrip(b"\0").decode(errors="ignore").rsplit("}\n", 1)[0]
    + "}\n"
)
