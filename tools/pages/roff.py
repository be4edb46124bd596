"""usage: roff.py PAGE

Changes a man page that lowdown has made, so that neither groff nor mandoc warns about it on a terminal of any width.
"""

import re
import sys


def table(match):
    """Columns are narrow: text is not stretched to fill them, and a path may be broken behind a slash."""
    text = re.sub(r"(?<=/)(?=[^/\s\\])", r"\\:", match[0])
    # With four lines between them, five columns or more do not fit into 80 characters otherwise.
    text = re.sub(r"^l( l){4,}\.$", lambda row: row[0].replace("l", "lw(11n)"), text, flags=re.M)
    return ".na\n" + text.replace(" expand ", " ") + ".ad\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    # A heading begins a paragraph anyway.
    text = re.sub(r"^(\.S[HS]\n.*\n)\.[LP]P\n", r"\1", text, flags=re.M)
    # Only groff knows this name of the font for commands.
    text = text.replace(r"\fC", r"\f(CR")
    text = re.sub(r"^\.TS\n.*?^\.TE\n", table, text, flags=re.M | re.S)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(text)


main()
