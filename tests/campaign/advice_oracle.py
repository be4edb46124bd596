"""Judges each command by the contents of all files before and after it, by hash.

The rules:
  lost       A true content that was in some file is in a file still, unless a command said that it removes or overrides.
  written    A command without --force does not change a file with a true content, nor remove it.
  touched    A command that only looks changes no file and no sidecar.
  false      A command that says restored or repaired, with exit code 0, leaves no file with a content that nobody wrote.
  blind      A command that says intact (0) was right: each protected file that it names has a true content.
  silent     A directory is not intact (0) if a sidecar in it remembers a content that no file has any more, unless another file
             has the name: whoever moves a file onto another one replaces that.
  forgotten  A sidecar that knows what no file holds, or that has parity of a member that is lost, is there still, whatever its name. A
             commit replaces those of the files that it names.
  committed  lzy-protect does not commit rot if the file's own sidecar is there to tell.
  worse      The state of no dataset gets worse by a command that does not say so, and no file loses its protection.
  again      Advice that was followed with success is not given again.
  circle     Advice that changed nothing is not given again as long as nothing changes.
  usage      A command that was advised is not refused as a wrong one.
  code       Exit codes are those of docs/reference/tools.md; nothing hangs, crashes, or has an internal error.
"""

import json
import os
import re
import time

from advice_steps import moved_by, moves_of, next_steps, options_of, paths_of, says_destroy, tool_of, typed
from advice_world import hash_of

# From good to bad, of one dataset.
GRAVITY = {"intact": 0, "restored": 0, "stale": 1, "at-risk": 1, "damaged": 1, "unprotected": 2, "unrepairable": 3}


class Broken(AssertionError):
    """A rule is broken."""

    def __init__(self, rule, text):
        super().__init__(f"{rule}: {text}")
        self.rule = rule


def writes(command):
    """Whether a command may change files or sidecars."""
    tool, options = tool_of(command), options_of(command)
    if moves_of(command):
        return True
    if "--dry-run" in options:
        return False
    return tool in ("lzy-protect", "lzy-restore") or bool({"--repair", "--prune"} & options)


def parents(path):
    while os.path.dirname(path):
        path = os.path.dirname(path)
        yield path


def bare_in(text):
    """The files of which a command says that it has left nothing to protect them."""
    return set(re.findall(r"(?m)^lzy-\w+: (.*): it is not protected any more: ", text))


def is_member(path, datasets):
    """Whether a file has the name of a member of one of these sets."""
    return any("%" in one and re.fullmatch(re.sub(r"%(0\d+)?r", r"\\d+", re.escape(one).replace("\\%", "%")), path) for one in datasets)


class Scene:
    """All that is there at one moment."""

    def __init__(self, world):
        self.print = world.print_of()
        self.files = world.files()
        self.stats = {path: os.stat(world.path(path)) for path in self.files}
        self.sidecars = world.known_sidecars()
        self.identities = {block[:2] for block in world.superblocks().values()}
        self.contents = set(self.files.values())
        self.outside = world.outside()


class Oracle:
    """Knows what existed when it was made, and runs commands from then on."""

    def __init__(self, world):
        self.world = world
        self.scene = Scene(world)
        self.kept = {content for content in self.scene.contents if content in world.true}
        self.states = self.judge_datasets()

    def label(self, content):
        return f"{content} ({self.world.true.get(content, 'nobody wrote it')})"

    def judge_datasets(self):
        """The state of each dataset, as lzy-verify tells it."""
        log, self.world.log = self.world.log, []
        done = self.world.run("lzy-verify --json . 2>/dev/null", env={"LZY_CATALOG": "off"})
        self.world.log = log
        try:
            return {dataset["path"]: dataset["state"] for dataset in json.loads(done.text)["datasets"]}
        except ValueError:
            return {}

    def in_scope(self, path, command):
        """Whether a command is about a file: it names the file, its set, or a directory above it."""
        for operand in paths_of(command):
            operand = os.path.relpath(os.path.join(self.world.home, operand), self.world.home)
            pattern = re.sub(r"%(0\d+)?r", r"\\d+", re.escape(operand).replace("\\%", "%").replace(r"\*", "[^/]*"))
            if operand in (".", path) or path.startswith(operand + "/") or re.fullmatch(pattern, path):
                return True
        return False

    # Commands.

    def run(self, command, advised=False):
        """Runs a command, which has been advised or typed by the user, and judges it."""
        before = self.scene
        done = self.world.run(typed(command))
        self.check_code(done, advised)
        after = self.scene = Scene(self.world)
        said = says_destroy(command)
        if said:
            self.kept &= after.contents
        self.check_contents(done, command, before, after, said)
        if tool_of(command) == "lzy-protect" and (done.code == 0 or bare_in(done.text)) and writes(command) and "--remove" not in options_of(command):
            self.check_commit(command, before, after)
        elif done.code == 0 and not said and tool_of(command).startswith("lzy-"):
            self.check_claims(done, command, before, after)
        self.kept |= {content for content in after.contents if content in self.world.true}
        if writes(command):
            if not said:
                self.check_memory(done, command, before, after)
            if after.print != before.print:
                self.check_states(done, command, said)
        return done

    def check_code(self, done, advised):
        if done.code not in (0, 1, 2, 3, 4, 5, 6, 9):
            raise Broken("code", f"{done.command} ends with {done.code}\n{done.text}")
        if advised and done.code == 3 and ": rename it" not in done.text:
            raise Broken("usage", f"{done.command} was advised, and is refused:\n{done.text}")

    def no_different_from_rot(self, path, before, command):
        """Whether lzy may take a true content for rot: no sidecar in reach knows it, and the file has the time of its commit."""
        content, mtime = before.files[path], before.stats[path].st_mtime_ns
        if content == hash_of(b""):
            return True  # as a file that was cut, and nothing can be lost
        own = before.sidecars.get(self.world.sidecar(path), (None, None))[1]
        for sidecar, (_, commit) in before.sidecars.items():
            near = os.path.dirname(sidecar) == os.path.dirname(path)
            if commit.content == content and (near or self.in_scope(self.world.file_of(sidecar), command)):
                return False
        return mtime in (own and own.stamp[1], self.world.stamps.get(path, (None, None))[1])

    def is_older_member(self, path, before):
        """A member with its older sidecar, which the rest of the set has left behind: a restore gives it another name."""
        own = before.sidecars.get(self.world.sidecar(path), (None, None))[1]
        return own and own.of_set and own.path == path and own.content == before.files[path] != self.world.committed.get(path)

    def check_contents(self, done, command, before, after, said):
        if after.outside != before.outside:
            raise Broken("written", f"the file that a link leads to is changed by: {done.command} [{done.code}]")
        for path, content in sorted(before.files.items()):
            if after.files.get(path) != content and not writes(command) and not said:
                raise Broken("touched", f"{path} is changed by: {done.command} [{done.code}]")
            if after.files.get(path) != content and self.no_different_from_rot(path, before, command):
                self.kept.discard(content)
        for content in sorted(self.kept - after.contents):
            where = [path for path, had in before.files.items() if had == content]
            raise Broken("lost", f"{self.label(content)} was in {where}, and is in no file after: {done.command} [{done.code}]")
        if said:
            return
        moved = moved_by(command)
        for path, content in sorted(before.files.items()):
            if any(os.path.relpath(os.path.join(self.world.home, one), self.world.home) in (path, *parents(path)) for one in moved):
                continue
            if after.files.get(path) == content or content not in self.world.true or self.no_different_from_rot(path, before, command):
                continue
            if self.is_older_member(path, before) and content in after.contents:
                continue
            now = self.label(after.files[path]) if path in after.files else "gone"
            raise Broken("written", f"{path} had {self.label(content)}, and is {now} after: {done.command} [{done.code}]")

    def check_commit(self, command, before, after):
        """What lzy-protect has committed is true from now on; it is an error if lzy could know better."""
        world = self.world
        scope = {path: content for path, content in after.files.items() if self.in_scope(path, command)}
        for path, content in sorted(scope.items()):
            if content in world.true:
                continue
            world.true[content] = f"{path} as committed by advice"
            if "--force" in options_of(command) or before.files.get(path) != content:
                continue
            about, (_, own) = before.stats[path], before.sidecars.get(world.sidecar(path), (None, None))
            if own and own.path == path and own.stamp == (about.st_size, about.st_mtime_ns):
                raise Broken("committed", f"{path} is rotten, its own sidecar knows it, and it is committed by: {command}")
        world.note_commit(scope)
        self.scene.sidecars = world.known_sidecars()

    def check_claims(self, done, command, before, after):
        """Exit code 0 says that all is well."""
        world = self.world
        judged = writes(command) or tool_of(command) in ("lzy-verify", "lzy-scrub")
        for path, content in sorted(after.files.items()):
            if content in world.true:
                continue
            if content == before.files.get(path.split(".replaced")[0]) and ".replaced" in path:
                continue  # what was there of a file that was made again
            if before.files.get(path) != content:
                raise Broken("false", f"{path} got {self.label(content)} by: {command} [0]\n{done.text}")
            # A new file, never committed, in the place of one that is elsewhere now, with that sidecar.
            own = after.sidecars.get(world.sidecar(path))
            elsewhere = own and own[1].content in after.contents and not re.search(rf"(?m)^{re.escape(path)}: ", done.text)
            if judged and path in world.committed and self.in_scope(path, command) and own and not elsewhere:
                raise Broken("blind", f"{path} has {self.label(content)}, and all is well for: {command} [0]\n{done.text}")
        if not judged or "." not in paths_of(command) or "--prune" in options_of(command):
            return
        for sidecar, (key, commit) in sorted(after.sidecars.items()):
            newer = any(other[:2] == key[:2] and other[2] > key[2] for other, _ in after.sidecars.values())
            # Somebody gave its name to another file; it may have been set aside for that one.
            replaced = world.file_of(re.sub(r"\.LZY-tmp\.\d+\.([^/]*)$", r".LZY.\1", sidecar)) in after.files
            if commit.content not in after.contents and not newer and not replaced:
                raise Broken("silent", f"{sidecar}, made for {commit.path}, remembers {self.label(commit.content)}, which is in no file, "
                                       f"and all is well for: {command} [0]\n{done.text}")

    def check_memory(self, done, command, before, after):
        world = self.world
        for sidecar, (key, commit) in sorted(before.sidecars.items()):
            # A sidecar of a set has parity of the other members, too.
            of_dataset = {other.content for name, other in world.commits.items() if name[0] == key[0] and name[2] == key[2]}
            if key[:2] in after.identities or of_dataset <= after.contents:
                continue
            if tool_of(command) == "lzy-protect" and (self.in_scope(world.file_of(sidecar), command) or self.in_scope(commit.path, command)):
                continue
            # That of a deleted file, if no other member of its set is left, only tells what the file was.
            alone = not commit.of_set or not of_dataset & after.contents
            # Parity of the member itself was in the sidecars of the others. These were committed again, without it.
            alone = alone or all(name == key[:2] for name in before.identities if name[0] == key[0])
            # No file may be what is left of it, damaged and under another name.
            alone = alone and not any((stat.st_size, stat.st_mtime_ns) == commit.stamp and after.files[path] not in world.true
                                      for path, stat in after.stats.items())
            why = "its file was replaced by one that has another sidecar" if commit.path in after.files else "its file is gone"
            if alone and f"{sidecar}: orphan: {why}; removing it" in done.text:
                continue
            raise Broken("forgotten", f"{sidecar}, made for {commit.path}, which was {self.label(commit.content)}, is in no place after: "
                                      f"{done.command} [{done.code}]")

    def check_states(self, done, command, said):
        states = self.judge_datasets()
        told = {os.path.relpath(os.path.join(self.world.home, path), self.world.home) for path in bare_in(done.text)}
        for path, was in sorted(self.states.items()):
            if path in told:
                continue
            gone = path not in states and path in self.scene.files and was != "unprotected" and not is_member(path, states)
            if not said and gone and not self.in_scope(path, command):
                raise Broken("worse", f"{path} was {was}, and is not protected any more after: {done.command} [{done.code}]")
        for path, state in sorted(states.items()):
            was = self.states.get(path)
            # A file that has the name of another one is stale when that one has its own file again.
            content = self.scene.files.get(path)
            moved = state == "stale" and content is not None and content != self.world.committed.get(path)
            # The same for a file of which the sidecar of another one tells what it is.
            moved = moved or (state == "unprotected" and was == "stale" and content != self.world.committed.get(path))
            # A file got its name back, and the one whose name it had is lost, unless that one gets its name back next.
            moved = moved or (state == "unrepairable" and content is None and path in moved_by(command) and
                              self.world.committed.get(path) in self.scene.files.values())
            # An older set was wanted back, and the newer one of its name is in a directory of its own.
            moved = moved or any(words[0] == "mkdir" for words in moves_of(command))
            if not said and was and GRAVITY[state] > GRAVITY[was] and not moved and path not in told:
                raise Broken("worse", f"{path} was {was}, and is {state} after: {done.command} [{done.code}]")
        self.states = states

    def has_young_files(self):
        """Files with times in whole seconds, as tar leaves them, that are younger than the tick of such a clock (2 s), or in the
        future. lzy does not record their new times yet, so it cannot say what else to type."""
        stats = self.scene.stats.values()
        return any(about.st_mtime_ns % 10**9 == 0 and time.time() - about.st_mtime < 3 for about in stats)

    def follow(self, command, rounds=4, choose=None):
        """Runs a command and what it advises, what that advises, and so on. Without `choose`, always the first step."""
        done, idle = self.run(command), set()
        for _ in range(rounds):
            steps = next_steps(done.text)
            if not steps:
                return done
            for step in steps:
                if step in idle:
                    raise Broken("circle", f"{step} changed nothing, and is advised again by: {done.command} [{done.code}]\n{done.text}")
            step, before = choose(steps) if choose else steps[0], self.scene.print
            result = self.run(step, advised=True)
            idle = idle | {step} if self.scene.print == before and writes(step) else idle if self.scene.print == before else set()
            further = next_steps(result.text)
            if step in further and result.code not in (5, 6):
                raise Broken("again", f"{step} [{result.code}] advises itself:\n{result.text}")
            asked = self.run(command)
            # A pattern that names no set is refused as often as it is typed, and what was advised instead changed nothing.
            no_set = not writes(step) and "%" in "".join(paths_of(command)) and f"{paths_of(command)[0]}: no sidecar" in asked.text
            if result.code == 0 and not further and step in next_steps(asked.text) and not self.has_young_files() and not no_set:
                raise Broken("again", f"{step} [0] was followed, and is advised again by: {command} [{asked.code}]\n{asked.text}")
            done = result if further else asked
        return done
