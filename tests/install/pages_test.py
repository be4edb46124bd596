"""The installed man pages: as groff shows them, and compared with --help."""

import re
import subprocess

from prefix import ROOT, TOOLS, VERSION, Prefix

OPTION_OF_HELP = re.compile(r"^  (-\S.*?)(?: {2,}|\n +)(\S.*)$", re.MULTILINE)


def one_space(text):
    return " ".join(text.split())


class ManPages(Prefix):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pages = {}
        cls.warned = {}
        for path in cls.files():
            found = re.search(r"/man/man(\d)/([^/]+)\.\1$", path)
            if not found:
                continue
            # One line a paragraph: where a line breaks says nothing. Then as on terminals.
            for width in (3000, 78, 120):
                done = subprocess.run(["groff", "-t", "-man", "-Tutf8", "-P-cbou", f"-rLL={width}n", "-ww", "-Kutf8", path],
                                      capture_output=True, text=True, check=True)
                page = f"{found[2]}({found[1]})"
                cls.pages.setdefault(page, done.stdout.replace("\u2010", "-").replace("\u2212", "-"))
                if done.stderr:
                    cls.warned[page, width] = done.stderr

    def text(self, page):
        return self.pages[page]

    def section(self, page, title):
        return re.search(rf"^{title}\n(.*?)(?=^\S|\Z)", self.text(page), re.M | re.S).group(1)

    def test_there_is_a_page_for_everything(self):
        self.assertEqual(set(self.pages), {f"{tool}(1)" for tool in TOOLS}
                         | {"lzy(1)", "lzy(7)", "lzy-options(7)", "lzy-format(5)"})

    def test_groff_has_nothing_to_say(self):
        self.assertEqual(self.warned, {})

    def test_no_markdown_is_left(self):
        for page, text in self.pages.items():
            self.assertEqual(re.findall(r"\*\*|\]\(|@TOOLS@", text), [], page)

    def test_each_page_has_its_name_and_the_version(self):
        for page, text in self.pages.items():
            self.assertIn(f"\n     {page[:-3]} - ", text.replace("\n       ", "\n     "), page)
            self.assertIn(f"lzy {VERSION}", text, page)

    def test_options_are_those_of_help(self):
        for tool in TOOLS:
            help_text = re.sub(r"\n {28}", " ", self.tool(0, tool, "--help").split("\nOptions:\n")[1])
            expected = []
            for names, text in OPTION_OF_HELP.findall(help_text):
                names = names.replace(",", ", ")
                expected.append((names, text[0].upper() + text[1:]))
            self.assertGreater(len(expected), 8)
            lines = [one_space(line) for line in self.section(f"{tool}(1)", "OPTIONS").splitlines() if line.strip()]
            shown = list(zip(lines[::2], lines[1::2]))
            self.assertEqual([names for names, _ in shown], [names for names, _ in expected], tool)
            for (names, text), (_, wanted) in zip(shown, expected):
                self.assertTrue(text.startswith(one_space(wanted) + "."), (tool, names, text))

    def test_changes_and_exit_codes_are_told(self):
        for tool in TOOLS:
            changes = re.search(r"^Changes (.*)\.$", self.tool(0, tool, "--help"), re.M).group(1)
            self.assertIn(f"It changes {one_space(changes)}.", one_space(self.section(f"{tool}(1)", "DESCRIPTION")))
            self.assertTrue(self.section(f"{tool}(1)", "EXIT STATUS").strip())
        for code in range(10):
            self.assertRegex(self.section("lzy-verify(1)", "EXIT STATUS"), rf"(?m)^ +{code}\s+\w")

    def test_the_page_of_the_format_has_all_its_sections(self):
        with open(f"{ROOT}/docs/format.md", encoding="utf-8") as file:
            titles = re.findall(r"^## (.*)$", file.read(), re.M)
        self.assertGreater(len(titles), 10)
        for title in titles:
            self.assertIn(f"\n{title.replace('`', '')}\n", self.text("lzy-format(5)"))

    def test_overview_and_front_name_every_tool(self):
        for tool in TOOLS:
            self.assertIn(f"{tool}(1)", self.section("lzy(7)", "TOOLS"))
            self.assertIn(f"lzy {tool.removeprefix('lzy-')} ", self.section("lzy(1)", "TOOLS"))
