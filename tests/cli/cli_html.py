"""lzy-status --html: what is in the page, without a browser; and with one, if there is one, how it looks and works."""

import hashlib
import html.parser
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from browser import Browser, find_browser
from catalogued import DAY, Catalogued, netcdf_bytes
from harness import BIN

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ODD_NAMES = [b"d/</script><script>document.title='broken'</script>", b"d/<!--<script>", b"d/<img src=x onerror=alert(1)>", b"d/\"'`&amp;&lt;",
             b"d/\x01\x1b[31m\n\t\x7f", b"d/\xff\xfe\xc3(\xed\xa0\x80", "d/ü\u2028\u202etxt".encode(), b"d/\\u003c\\", b"d/@DATA@ ${data}", b"d/%r {{x}}"]


class Elements(html.parser.HTMLParser):
    """All elements of a page, as a browser finds them, and the text of scripts by id."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.script, self.links = [], [], None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "data", "srcset") and not value.startswith("#")]
        if tag == "script":
            self.script = [dict(attrs).get("id"), ""]

    def handle_endtag(self, tag):
        if tag == "script":
            self.scripts.append(tuple(self.script))
            self.script = None

    def handle_data(self, data):
        if self.script:
            self.script[1] += data


def data_of(text):
    """The document in the page, with its listings as objects."""
    [data] = [json.loads(script) for name, script in Elements(text).scripts if name == "data"]
    for listing in ("table", "history"):
        data[listing] = [dict(zip(data[listing]["columns"], row, strict=True)) for row in data[listing]["rows"]]
    return data


def as_utf8(raw):
    """As the page shows bytes that are no UTF-8."""
    return raw.decode("utf-8", "backslashreplace")


class PageTest(Catalogued):
    def run_tool(self, *words, **more):
        # Names need not be UTF-8, and neither need the output.
        return subprocess.run([os.path.join(BIN, words[0]), *words[1:]], cwd=self.scratch, capture_output=True, text=True, errors="surrogateescape",
                              env={k: v for k, v in os.environ.items() if not k.startswith("LZY_")}, timeout=100, check=False)

    def page(self, exit_code, *words):
        """The text of a page, and its document."""
        self.check(exit_code, "lzy-status", "--quiet", "--html", "status.html", *words)
        text = self.read("status.html").decode("utf-8")
        return text, data_of(text)

    def make_odd(self):
        for i, name in enumerate(ODD_NAMES):
            # Slashes of "</script>" make directories.
            self.make(os.fsdecode(name), 300000 + i, seed=i)
        self.check(0, "lzy-protect", "d")

    def cells(self, report):
        """Of a report of lzy-verify on shared files: {(device, part, block row): state}, by docs/format.md, section 6."""
        out = {}
        for dataset in report["datasets"]:
            devices, parity, block, unit = dataset["devices"], dataset["parity"], dataset["block_size"], dataset["unit"]
            slices = unit // block
            for damage in dataset["damage"]:
                state = "beyond" if damage["beyond_repair"] else damage["cause"]
                self.assertEqual((damage["part"], dataset["groups"]), ("data", 1))
                for at in range(damage["offset"] // block, -(-(damage["offset"] + damage["length"]) // block)):
                    device, index = at // slices % devices, at // slices // devices
                    self.assertEqual(device, damage["device"])
                    # The device's unit number `index` is in the row before which it has held so many units of data.
                    data_rows = [t for t in range(2 * devices * (index + 2)) if (device - t) % devices >= parity]
                    out[device, "data", data_rows[index] * slices + at % slices] = state
        return out


class Page(PageTest):
    """Without a browser."""

    def test_numbers_are_those_of_json(self):
        for i in range(5):
            self.make(f"d/f{i}", 300000 + i, seed=i)
        self.check(0, "lzy-protect", "d")
        self.check(0, "lzy-scrub", "d/f0", "d/f1")
        self.days_pass(12)
        self.flip("d/f1", 70000)
        self.flip("d/f2", 70000)
        self.flip("d/f2", 140000)
        self.check(2, "lzy-scrub", "d")
        _, data = self.page(2)
        known = json.loads(self.check(2, "lzy-status", "--json", "--events").stdout)
        for field in ("schema", "tool", "catalog", "datasets", "states", "bytes", "sidecar_bytes", "never_verified", "damage_found", "damage_open", "places", "last_scrub"):
            self.assertEqual(data[field], known[field], field)
        self.assertEqual(data["oldest"]["path"], known["oldest"]["path"])
        self.assertEqual([e.pop("text") != "" for e in data["history"]], [True] * len(known["events"]))
        self.assertEqual([e.pop("objects") for e in known["events"]], [[]] * len(known["events"]))  # in the text, if there are any
        self.assertEqual(data["history"], known["events"])
        self.assertEqual(len(data["table"]), 5)
        self.assertEqual({d["path"]: d["damage"] for d in data["table"] if d["damage"]}, {d["path"]: len(d["damage"]) for d in known["not_intact"]})
        self.assertEqual(sum(d["bytes"] for d in data["table"]), known["bytes"])
        for mine, other in zip(data["not_intact"], known["not_intact"], strict=True):
            for damage in mine["damage"]:
                self.assertEqual((damage.pop("cause_text"), damage.pop("objects_text")), ("differs from its hash", ""))
            for field in other:
                self.assertEqual(mine[field], other[field], field)

    def test_the_map_has_the_damage_and_no_more(self):
        self.make("f", 3_000_000)
        self.check(0, "lzy-protect", "--stripe", "128K", "--parity", "2", "--group", "5", "f")
        for offset in (0, 66000, 70000, 1_000_000, 1_300_000, 2_999_999):
            self.flip("f", offset)
        report = self.report(1, "lzy-verify", "f")
        map_ = self.page(1)[1]["not_intact"][0]["map"]
        self.assertEqual([len(group["devices"]) for group in map_["groups"]], [5])
        mapped = {(map_["groups"][cell["group"]]["devices"][cell["position"]]["device"], cell["part"], row): "hash"
                  for cell in map_["cells"] for row in range(cell["first"], cell["last"] + 1)}
        self.assertEqual(mapped, self.cells(report))
        self.assertEqual(map_["elsewhere"], [])

    def test_a_lost_member_is_a_row_of_cells(self):
        for rank in range(4):
            self.make(f"n{rank}/s", 400000, seed=rank)
        self.check(0, "lzy-protect", "n%r/s")
        os.remove(self.path("n2/s"))
        self.check(1, "lzy-verify", "n%r/s")
        map_ = self.page(1)[1]["not_intact"][0]["map"]
        [group] = map_["groups"]
        self.assertEqual([device["path"][-5:] for device in group["devices"]], ["/n0/s", "/n1/s", "/n2/s", "/n3/s"])
        [cell] = map_["cells"]
        self.assertEqual((cell["position"], cell["part"]), (2, "data"))
        # 400000 bytes are 7 blocks; row 2 of each 4 holds parity.
        self.assertEqual((cell["first"], cell["last"]), (0, 8))

    def test_without_sidecars_the_page_says_so(self):
        self.make("f", 300000)
        self.check(0, "lzy-protect", "f")
        self.flip("f", 100)
        self.check(1, "lzy-verify", "f")
        os.rename(self.path(".LZY.f"), self.path("away"))
        [entry] = self.page(1)[1]["not_intact"]
        self.assertNotIn("map", entry)
        self.assertEqual(entry["map_missing"], "there is no usable sidecar")
        self.assertEqual(len(entry["damage"]), 1)
        # Another encoding than that in which the damage was found.
        self.check(0, "lzy-protect", "--parity", "2", "--catalog", "other.sqlite", "f")
        self.assertIn("protected anew", self.page(1)[1]["not_intact"][0]["map_missing"])

    def test_names_cannot_break_out(self):
        self.make_odd()
        plain, _ = self.page(0)
        for name in ODD_NAMES:
            self.flip(os.fsdecode(name), 100)
        self.check(1, "lzy-scrub", "d")
        text, data = self.page(1)
        self.assertEqual(Elements(text).tags, Elements(plain).tags, "no name is an element")
        self.assertEqual(len(Elements(text).scripts), 3)
        [raw] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
        self.assertNotRegex(raw.strip(), "[<>&\x00-\x1f]")
        names = {os.path.realpath(self.scratch) + "/" + as_utf8(name) for name in ODD_NAMES}
        self.assertEqual({d["path"] for d in data["table"]}, names)
        self.assertEqual({d["path"] for d in data["not_intact"]}, names)
        self.assertTrue(all("map" in d for d in data["not_intact"]), [d.get("map_missing") for d in data["not_intact"]])
        # What it says to type next repairs what is meant, whatever its name.
        commands = [d["next"].split("repair with: ")[1].strip() for d in data["not_intact"]]
        for command in commands:
            self.assertRegex(command, r"\Alzy-verify --repair ")
            subprocess.run(["bash", "-c", f"PATH={BIN}:$PATH {command}"], check=True, capture_output=True, cwd=self.scratch)
        self.check(0, "lzy-status")

    def test_numbers_too_large_for_javascript_are_exact(self):
        self.make("f", 1000)
        self.check(0, "lzy-protect", "f")
        self.query("UPDATE datasets SET bytes = ?", 2**62 + 1)
        self.query("UPDATE datasets SET state = 'damaged', exit_code = 1")
        self.query("INSERT INTO events (time, dataset, tool, what, path, part, cause, offset, length) VALUES (1, 1, 'lzy-verify', 'damage', 'f', 'data', 'hash', ?, ?)",
                   2**53 + 1, 2**53 - 1)
        _, data = self.page(1)
        self.assertEqual(data["table"][0]["bytes"], str(2**62 + 1))
        [damage] = data["not_intact"][0]["damage"]
        self.assertEqual((damage["offset"], damage["length"]), (str(2**53 + 1), 2**53 - 1))
        self.assertEqual(data["not_intact"][0]["map"]["elsewhere"], [0])

    def test_the_file_is_replaced_as_a_whole(self):
        self.make("f", 1000)
        self.check(0, "lzy-protect", "f")
        self.write("status.html", b"old")
        os.link(self.path("status.html"), self.path("kept"))
        self.page(0)
        self.assertEqual(self.read("kept"), b"old", "it was not written over")
        self.assertEqual(sorted(os.listdir(self.scratch)), [".LZY.f", "f", "kept", "status.html"])
        self.assertEqual(os.stat(self.path("status.html")).st_mode & 0o777, 0o644)
        self.assertIn("absent/status.html", self.check(6, "lzy-status", "--html", "absent/status.html").stderr)
        os.mkdir(self.path("directory"))
        self.assertIn("directory", self.check(6, "lzy-status", "--html", "directory").stderr)
        self.assertEqual(os.listdir(self.path("directory")), [])

    def test_an_empty_catalogue_and_paths(self):
        for name in ("d/a", "e/a"):
            self.make(name, 1000)
        self.check(0, "lzy-protect", "d", "e")
        self.assertEqual([os.path.basename(os.path.dirname(d["path"])) for d in self.page(0, "d")[1]["table"]], ["d"])
        self.query("DELETE FROM datasets")
        self.assertEqual(self.page(0)[1]["table"], [])

    def test_it_needs_nothing_else(self):
        self.make("f", 1000)
        self.check(0, "lzy-protect", "f")
        text, _ = self.page(0)
        self.assertEqual(Elements(text).links, [])
        self.assertNotRegex(text, r"url\((?!#)(?!#p-)[^)$]*\)|@import|fetch\(|XMLHttpRequest|import\(")
        self.assertIn("default-src 'none'", text)
        self.assertLess(len(text), 200_000)

    def test_d3_is_what_npm_has_and_its_license_is_there(self):
        folder = os.path.join(ROOT, "third_party/d3")
        with open(os.path.join(folder, "SHA256SUMS"), encoding="ascii") as file:
            sums = dict(reversed(line.split()) for line in file)
        self.assertEqual(sorted(sums), sorted(name for name in os.listdir(folder) if name.endswith(".js")))
        self.make("f", 1000)
        self.check(0, "lzy-protect", "f")
        text, _ = self.page(0)
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
            versions = dict(re.findall(r"^\| (d3-[a-z-]+) \| ([0-9.]+) \| sha512-", file.read(), re.M))
        for name, wanted in sums.items():
            with open(os.path.join(folder, name), "rb") as file:
                content = file.read()
            self.assertEqual(hashlib.sha256(content).hexdigest(), wanted, name)
            module = name.removesuffix(".min.js")
            self.assertIn(f"{module}/ v{versions[module]} ", content.decode().splitlines()[0])
            self.assertIn(content.decode(), text, name)
        with open(os.path.join(folder, "LICENSE"), encoding="utf-8") as file:
            self.assertIn(file.read(), text)


def linear(colour):
    values = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055)**2.4 for v in values]


def luminance(colour):
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear(colour)))


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009; severity 1.
VISION = {"all colours": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
          "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
          "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
          "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]}


def seen(colour, vision):
    """In CIE Lab."""
    rgb = [max(0, min(1, sum(w * v for w, v in zip(row, linear(colour))))) for row in VISION[vision]]
    xyz = [sum(w * v for w, v in zip(row, rgb)) / white for row, white in (((0.4124, 0.3576, 0.1805), 0.9505), ((0.2126, 0.7152, 0.0722), 1), ((0.0193, 0.1192, 0.9505), 1.089))]
    f = [v**(1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


class Palette(unittest.TestCase):
    """The colours of page.css, for people who see fewer of them; and contrasts by WCAG 2.2."""

    def setUp(self):
        with open(os.path.join(ROOT, "tools/html/page.css"), encoding="utf-8") as file:
            text = file.read()
        light, dark, printed = re.findall(r":root \{(.*?)\}", text, re.S)
        read = lambda block: dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block))
        self.schemes = {"light": read(light), "dark": {**read(light), **read(dark)}, "print": {**read(light), **read(printed)}}

    def test_states_differ_for_everybody(self):
        for scheme, colours in self.schemes.items():
            states = [colours[name] for name in ("hash", "unreadable", "missing", "beyond", "lane")]
            for vision in VISION:
                for i, one in enumerate(states):
                    for other in states[:i]:
                        distance = sum((a - b)**2 for a, b in zip(seen(one, vision), seen(other, vision)))**0.5
                        self.assertGreater(distance, 15, f"{scheme}, {vision}: {one} {other}")

    def test_contrasts(self):
        for scheme, c in self.schemes.items():
            with self.subTest(scheme):
                for ground in ("paper", "panel"):
                    for text in ("ink", "quiet", "link"):
                        self.assertGreaterEqual(contrast(c[text], c[ground]), 4.5, (text, ground))
                # What is drawn needs 3: cells by their edges, patterns on their grounds, bars.
                for a, b in (("edge", "lane"), ("mark", "hash"), ("mark", "missing"), ("paper", "unreadable"), ("paper", "beyond"), ("bar", "paper"), ("open", "paper"), ("link", "lane")):
                    self.assertGreaterEqual(contrast(c[a], c[b]), 3, (a, b))


@unittest.skipUnless(find_browser(), "no Chromium is installed (Debian: chromium-headless-shell or chromium); LZY_TEST_BROWSER names another one")
class InBrowser(PageTest):
    def setUp(self):
        super().setUp()
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def open(self, exit_code):
        self.page(exit_code)
        seconds = self.browser.open(self.path("status.html"))
        self.assertEqual(self.browser.run("document.body.dataset.ready"), "yes", self.browser.complaints)
        return seconds

    def tearDown(self):
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual(set(self.browser.requests) - {"about:blank"}, {"file://" + self.path("status.html")})

    def paths(self):
        return self.browser.run("[...document.querySelectorAll('#datasets-table tbody tr:not(.space) td.path')].map((cell) => cell.title)")

    def rows(self):
        return self.browser.run("Number(document.querySelector('#datasets-table table').getAttribute('aria-rowcount')) - 1")

    def search(self, text):
        self.browser.run(f"{{ const box = document.getElementById('search'); box.value = {json.dumps(text)}; box.dispatchEvent(new Event('input')); }}")

    def drawn(self):
        """{(device, part, block row): state} of the map's cells."""
        cells = self.browser.run("[...document.querySelectorAll('.cell[data-device]')].map((cell) => ({...cell.dataset}))")
        out = {}
        for cell in cells:
            for row in range(int(cell["first"]), int(cell["last"]) + 1):
                self.assertNotIn((int(cell["device"]), cell["part"], row), out)
                out[int(cell["device"]), cell["part"], row] = cell["state"]
        return out

    def test_the_map_is_the_damage(self):
        self.make("f", 4_000_000)
        self.check(0, "lzy-protect", "--stripe", "128K", "--parity", "2", "--group", "6", "f")
        self.open(0)
        self.assertTrue(self.browser.run("document.getElementById('damaged').hidden"))
        for offset in (0, 66000, 70000, 1_000_000, 1_300_000, 3_999_999):
            self.flip("f", offset)
        report = self.report(1, "lzy-verify", "f")
        self.open(1)
        self.assertEqual(self.drawn(), self.cells(report))
        # By keyboard: one stop of the tab key, arrows from cell to cell; what is told is in words.
        self.assertEqual(self.browser.run("document.querySelectorAll('.cell[tabindex=\"0\"]').length"), 1)
        cells = "[...document.querySelectorAll('.cell[data-device]')]"  # without those of the legend
        self.browser.run(cells + "[0].focus()")
        self.browser.press("ArrowRight")
        self.assertEqual(self.browser.run(cells + ".indexOf(document.activeElement)"), 1)
        label = self.browser.run("document.activeElement.getAttribute('aria-label')")
        self.assertRegex(label, r"device \d, block row \d+ of \d+: data\ndiffers from its hash: /.*/f, offset \d+, length \d+")
        self.assertEqual(self.browser.run("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"), label)
        # Pattern and colour, and a name for everything that can have the focus.
        self.assertEqual(set(self.browser.run("[...document.querySelectorAll('.cell[data-device]')].map((cell) => cell.getAttribute('fill'))")), {"url(#p-hash)"})
        self.assertEqual(self.browser.run("[...document.querySelectorAll('svg [tabindex]')].filter((e) => !e.getAttribute('aria-label')).length"), 0)

    def test_names_of_objects_are_told(self):
        name = "<img src=x onerror=alert(1)>\x07\u202e</script>"
        self.write("f.nc", netcdf_bytes(name.encode(), 70000))
        self.age("f.nc")
        self.check(0, "lzy-protect", "f.nc")
        self.flip("f.nc", 5000)
        self.check(1, "lzy-verify", "f.nc")
        self.open(1)
        label = self.browser.run("document.querySelector('.cell[data-device]').getAttribute('aria-label')")
        shown = "/<img src=x onerror=alert(1)>\\x07\\u202e</script>"
        self.assertTrue(label.endswith(f"\nin / (metadata), {shown} (metadata), {shown}"), label)
        self.assertIn(label.split("\nin ")[1], self.browser.run("document.querySelector('.dataset tbody').textContent"))
        self.assertIn(label.split("\nin ")[1].split(" (metadata), ")[1], self.browser.run("document.querySelector('#history-table').textContent"))
        self.assertEqual(self.browser.run("document.querySelectorAll('img').length"), 0)
        # Of many, some. What a catalogue says is text, whatever it is.
        objects = [{"format": "hdf5", "name": f"/<b>{i}", "kind": "raw", "chunk": [2**64 - 1, i], "elements": None} for i in range(9)]
        self.query("UPDATE events SET objects = ?", json.dumps({"objects": objects, "left_off": 2**64 - 1}))
        self.open(1)
        text = self.browser.run("document.querySelector('.dataset tbody').textContent")
        self.assertIn("/<b>0 chunk [18446744073709551615, 0], /<b>1 chunk", text)
        self.assertIn("/<b>5 chunk [18446744073709551615, 5] and 18446744073709551615 more", text)
        self.assertEqual(self.browser.run("document.querySelectorAll('.dataset tbody b').length"), 0)
        self.query("UPDATE events SET objects = '{\"objects\":[[]]'")
        self.open(1)
        self.assertNotIn("Objects", self.browser.run("document.querySelector('.dataset thead').textContent"))

    def test_damage_that_cannot_be_repaired_is_another_pattern(self):
        self.make("f", 300000)
        self.check(0, "lzy-protect", "f")
        for offset in (70000, 140000):
            self.flip("f", offset)
        report = self.report(2, "lzy-verify", "f")
        self.open(2)
        self.assertEqual(set(self.drawn().values()), {"beyond"})
        self.assertEqual(self.drawn(), self.cells(report))

    def test_large_files_are_shown_whole_and_near(self):
        self.make("f", 64 << 20)
        self.check(0, "lzy-protect", "--block-size", "4K", "--stripe", "64K", "f")
        for offset in (5_000_000, 40_000_000, 40_004_096, 67_000_000):
            self.flip("f", offset)
        cells = self.cells(self.report(1, "lzy-verify", "f"))
        self.open(1)
        # From afar, a cell has exactly the rows that are damaged, too; then each is visited.
        self.assertEqual(self.drawn(), cells)
        buttons = {text: f"[...document.querySelectorAll('.map button')].find((b) => b.textContent.includes('{text}'))" for text in ("Zoom in", "Whole", "Next damage", "Previous")}
        self.browser.run("document.querySelector('.cell[data-device]').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        near = self.drawn()
        self.assertLess(len(near), len(cells))
        found = dict(near)
        for _ in range(6):
            self.browser.run(buttons["Next damage"] + ".click()")
            found.update(self.drawn())
        for _ in range(6):
            self.browser.run(buttons["Previous"] + ".click()")
            found.update(self.drawn())
        self.assertEqual(found, cells)
        self.assertGreater(self.browser.run("document.querySelectorAll('.parity-cell').length"), 10)
        self.browser.run(buttons["Whole"] + ".click()")
        self.assertEqual(self.drawn(), cells)

    def test_ten_thousand_datasets(self):
        self.make("a", 1000)
        self.check(0, "lzy-protect", "a")
        with sqlite3.connect(self.catalog) as database:
            database.executemany("INSERT INTO datasets SELECT NULL, ?, kind, uuid, root, ?, ?, devices, parity, groups, block_size, ?, sidecar_bytes, generation, first_seen, "
                                 "last_seen, last_commit, last_commit - ?, 0, 0, 0, 0 FROM datasets WHERE id = 1",
                                 ((f"/archive/run{i // 1000}/f{i:05}", *(("damaged", 1) if i % 1000 == 7 else ("intact", 0)), i, i % 300 * DAY) for i in range(10000)))
        database.close()
        seconds = self.open(1)
        self.assertLess(seconds, 2)
        self.assertEqual(self.rows(), 10001)
        self.assertLess(len(self.paths()), 100)
        self.search("run3 F030")
        self.assertEqual(self.rows(), 100)
        self.assertEqual(self.paths()[0], "/archive/run3/f03000")
        self.assertEqual(self.browser.run("document.getElementById('count').textContent"), "100 of 10001 datasets")
        self.search("no such")
        self.assertEqual((self.rows(), self.paths()), (0, []))
        self.search("")
        self.browser.run("{ const state = document.getElementById('state'); state.value = 'damaged'; state.dispatchEvent(new Event('change')); }")
        self.assertEqual(self.paths(), [f"/archive/run{i}/f0{i}007" for i in range(10)])
        self.browser.run("{ const state = document.getElementById('state'); state.value = ''; state.dispatchEvent(new Event('change')); }")
        # Sorting, and the far end by keyboard.
        for name, first in (("Size", "/archive/run9/f09999"), ("Size", "/archive/run0/f00000")):
            self.browser.run(f"[...document.querySelectorAll('#datasets-table th button')].find((b) => b.textContent.startsWith('{name}')).click()")
            self.assertEqual(self.paths()[0], first)
        self.assertEqual(self.browser.run("document.querySelector('#datasets-table th[aria-sort]').getAttribute('aria-sort')"), "ascending")
        self.browser.run("document.querySelector('#datasets-table tr[tabindex=\"0\"]').focus()")
        self.browser.press("End")
        self.assertIn("f09999", self.browser.run("document.activeElement.textContent"))
        self.browser.press("ArrowUp")
        self.assertIn("f09998", self.browser.run("document.activeElement.textContent"))
        self.browser.press("Home")
        self.browser.press("ArrowDown")
        self.assertIn("f00001", self.browser.run("document.activeElement.textContent"))
        # The totals are those of the tool.
        known = json.loads(self.check(1, "lzy-status", "--json").stdout)
        totals = self.browser.run("document.getElementById('totals').textContent")
        for text in (f"Datasets{known['datasets']}", f"damaged{known['states']['damaged']}", f"intact{known['states']['intact']}"):
            self.assertIn(text, totals)
        words = self.check(1, "lzy-status").stdout
        self.assertIn(re.search(r"datasets:  \d+, (.*)", words)[1], totals)
        self.assertIn(re.search(r"verified:  .*verified (.*) ago", words)[1], totals)

    def test_names_are_text(self):
        self.make_odd()
        for name in ODD_NAMES:
            self.flip(os.fsdecode(name), 100)
        self.check(1, "lzy-scrub", "d")
        self.open(1)
        self.assertEqual(self.browser.run("document.title"), "lzy: state of datasets")
        self.assertEqual(self.browser.run("document.querySelectorAll('img').length"), 0)
        self.assertEqual(len(self.paths()), len(ODD_NAMES))
        shown = "\n".join(self.paths())
        for text in ("</script><script>document.title='broken'</script>", "<img src=x", r"\x01\x1b[31m\n\t\x7f", r"\xff\xfe\xc3(\xed\xa0\x80", r"ü\u2028\u202etxt", "@DATA@"):
            self.assertIn(text, shown)
        self.assertNotRegex(shown, "[\x01-\x09\x0b-\x1f\u202e]")
        self.assertEqual(self.browser.run("document.querySelectorAll('.dataset').length"), len(ODD_NAMES))
        # Opened one after the other, all of them have their maps.
        self.browser.run("document.querySelectorAll('.dataset').forEach((entry) => { entry.open = true; entry.draw(); })")
        self.assertEqual(self.browser.run("document.querySelectorAll('.dataset .map').length"), len(ODD_NAMES))

    def test_growth_of_damage(self):
        for i in range(3):
            self.make(f"d/f{i}", 300000, seed=i)
        self.check(0, "lzy-protect", "d")
        for days, name in ((20, "d/f0"), (10, "d/f1"), (5, "d/f2")):
            self.flip(name, 100)
            self.check(1, "lzy-scrub", "d")
            if name == "d/f0":
                self.check(0, "lzy-scrub", "--repair", "d")
            self.days_pass(days - 5)
        self.open(1)
        sums = self.browser.run("[...document.querySelectorAll('#timeline .hit')].map((bar) => [bar.dataset.chart, Number(bar.dataset.sum)])")
        self.assertEqual([s for chart, s in sums if chart == "found"], [1, 1, 1])
        self.assertEqual(sum(s for chart, s in sums if chart == "datasets"), 3)
        runs = self.query("SELECT sum(length) FROM events WHERE what = 'run' AND tool = 'lzy-scrub'")[0][0]
        self.assertEqual(sum(s for chart, s in sums if chart == "bytes"), runs)
        self.assertEqual(self.browser.run("openDamage(events, data.damage_open, data.made).map((at) => at[1])")[0], 0)
        self.assertEqual(max(self.browser.run("openDamage(events, data.damage_open, data.made).map((at) => at[1])")), 2)

    def test_light_dark_and_print(self):
        for i in range(60):
            self.make(f"d/f{i}", 1000 if i else 300000, seed=i)
        self.make("d/z", 8_000_000)
        self.check(0, "lzy-protect", "d")
        for i in range(8):
            self.flip(f"d/f{i}", 100)
        for i in range(60):
            self.flip("d/z", i * 131072)
        self.check(2, "lzy-scrub", "d")
        self.open(2)
        ground = "getComputedStyle(document.body).backgroundColor"
        light = self.browser.run(ground)
        self.browser.media("dark")
        self.assertNotEqual(self.browser.run(ground), light)
        self.assertEqual(self.browser.run("document.querySelectorAll('.dataset[open]').length"), 3)
        # On paper everything is there, light, and nothing that only a screen can use.
        self.browser.run("window.addEventListener('afterprint', () => { window.printed = true; }); window.addEventListener('beforeprint', () => { window.onPaper = [paths().length, "
                         "document.querySelectorAll('.dataset[open] .map').length, "
                         "document.querySelectorAll('#dataset-8 tbody tr').length]; }); window.paths = () => [...document.querySelectorAll('#datasets-table tbody tr:not(.space)')]")
        pdf = self.browser.pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertEqual(self.browser.run("window.onPaper"), [61, 9, 60])
        self.assertTrue(self.browser.run("window.printed"))
        self.assertEqual(self.browser.run("document.querySelectorAll('.dataset[open]').length"), 3)
        self.browser.media("dark", "print")
        self.assertEqual(self.browser.run(ground), light)
        self.assertEqual(self.browser.run("getComputedStyle(document.querySelector('.bar label')).display"), "none")

    def test_a_catalogue_with_nonsense(self):
        for name in ("a", "b", "constructor"):
            self.make(name, 300000)
        self.check(0, "lzy-protect", "a", "b", "constructor")
        self.check(0, "lzy-scrub", "a")
        huge = 2**63 - 1
        for path, state, cause in (("a", "constructor", "toString"), ("b", "damaged", "__proto__"), ("constructor", "<b>", "missing")):
            [[number]] = self.query("SELECT id FROM datasets WHERE path LIKE ?", "%/" + path)
            self.query("UPDATE datasets SET state = ?, exit_code = 1, bytes = ?, block_size = 0, last_verified = ?, kind = 'set' WHERE id = ?", state, huge, huge if path == "a" else -huge, number)
            for offset, length in ((huge, huge), (0, huge), (0, 0)):
                self.query("INSERT INTO events (time, dataset, tool, what, path, part, cause, offset, length, device, place) VALUES (?, ?, 'x', 'damage', '', 'nothing', ?, ?, ?, ?, '')",
                           -huge if path == "b" else huge, number, cause, offset, length, 2**32 - 1)
        self.query("UPDATE events SET seconds = 1e-320, length = ? WHERE what = 'run'", huge)
        self.open(1)
        self.browser.run("document.querySelectorAll('.dataset').forEach((entry) => { entry.open = true; entry.draw(); })")
        self.assertEqual(self.browser.run("document.querySelectorAll('.dataset .map').length"), 3)
        self.assertEqual(self.rows(), 3)

    def test_an_empty_page(self):
        self.make("f", 1000)
        self.check(0, "lzy-protect", "f")
        self.query("DELETE FROM events")
        self.query("DELETE FROM datasets")
        self.open(0)
        self.assertEqual(self.browser.run("document.getElementById('verdict').textContent"), "The catalogue knows no dataset.")


if __name__ == "__main__":
    unittest.main()
