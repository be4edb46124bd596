"""Judges each command by the contents of all files before and after it, by hash.

The rules:
  lost       A true content that was in some file is in a file still, unless a command said that it removes or overrides.
  written    A command without --force does not change a file with a true content, nor remove it.
  false      A command that says restored or repaired, with exit code 0, leaves no file with a content that nobody wrote.
  blind      A command that says intact (0) was right: each protected file that it names has a true content.
  silent     A directory is not intact (0) if a sidecar in it remembers a content that no file has any more.
  forgotten  What sidecars alone could give back they can give back still.
  committed  lzy-protect does not commit rot if the file's own sidecar is there to tell.
  worse      The state of no dataset gets worse by a command that was advised.
  again      Advice that was followed with success is not given again.
  usage      A command that was advised is not refused as a wrong one.
  code       Exit codes are those of docs/reference/tools.md; nothing hangs, crashes, or has an internal error.
"""

import json
import os
import re
import shutil

from advice_steps import next_steps, options_of, paths_of, says_destroy, tool_of, typed
from advice_world import is_sidecar

# From good to bad, of one dataset.
GRAVITY = {"intact": 0, "restored": 0, "stale": 1, "at-risk": 1, "damaged": 1, "unprotected": 2, "unrepairable": 3}
WRITERS = ("lzy-protect", "lzy-verify", "lzy-restore", "lzy-scrub")


class Broken(AssertionError):
    """A rule is broken."""

    def __init__(self, rule, text):
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class Oracle:
    """Knows what existed when it was made, and runs commands from then on."""

    def __init__(self, world):
        self.world = world
        self.kept = {content for content in world.files().values() if content in world.true}
        self.remembered = dict(world.known_sidecars())
        self.restorable = self.of_sidecars_alone()
        self.states = self.judge_datasets()

    # What is known before and after a command.

    def label(self, content):
        return f"{content} ({self.world.true.get(content, 'nobody wrote it')})"

    def of_sidecars_alone(self):
        """The true contents that the sidecars can give back if all files are lost. Without files, names and inodes confuse nobody."""
        world = self.world
        with_sidecars = [path for path, _ in world.walk() if is_sidecar(path)]
        if not with_sidecars:
            return set()
        home, apart, log = world.home, os.path.join(world.scratch, "apart"), world.log
        for path in with_sidecars:
            os.makedirs(os.path.dirname(os.path.join(apart, path)), exist_ok=True)
            shutil.copy2(os.path.join(home, path), os.path.join(apart, path))
        world.home, world.log = apart, []
        try:
            world.run("lzy-restore . </dev/null", env={"LZY_CATALOG": "off"})
            return {content for content in world.files().values() if content in world.true}
        finally:
            world.home, world.log = home, log
            shutil.rmtree(apart)

    def judge_datasets(self):
        """The state of each dataset, as lzy-verify tells it."""
        log, self.world.log = self.world.log, []
        done = self.world.run("lzy-verify --json . 2>/dev/null", env={"LZY_CATALOG": "off"})
        self.world.log = log
        try:
            return {dataset["path"]: dataset["state"] for dataset in json.loads(done.text)["datasets"]}
        except ValueError:
            return {}

    def in_scope(self, path, operands):
        """Whether a command with these operands is about a file."""
        for operand in operands:
            operand = os.path.normpath(operand)
            pattern = re.sub(r"%(0\d+)?r", r"\\d+", re.escape(operand).replace(r"\*", "[^/]*").replace("\\%", "%"))
            if operand in (".", path) or path.startswith(operand + "/") or re.fullmatch(pattern, path):
                return True
        return False

    # Commands.

    def run(self, command, advised=False):
        """Runs a command, which has been advised or typed by the user, and judges it."""
        world = self.world
        before, own = world.files(), world.known_sidecars()
        stats = {path: os.stat(world.path(path)) for path in before}
        done = world.run(typed(command))
        after = world.files()
        self.check_code(done, advised)
        said = says_destroy(command)
        if said:
            self.kept &= set(after.values())
        self.check_contents(done, before, after, own, stats, said)
        self.check_commit(done, command, before, after, own, stats)
        self.check_claims(done, command, before, after)
        self.kept |= {content for content in after.values() if content in world.true}
        if tool_of(command) in WRITERS:
            self.check_memory(done, command, after, said)
            self.check_states(done, said, advised)
        return done

    def check_code(self, done, advised):
        if done.code not in (0, 1, 2, 3, 4, 5, 6, 9):
            raise Broken("code", f"{done.command} ends with {done.code}")
        if advised and done.code == 3:
            raise Broken("usage", f"{done.command} was advised, and is refused:\n{done.text}")

    def check_contents(self, done, before, after, own, stats, said):
        world = self.world
        for content in sorted(self.kept - set(after.values())):
            where = [path for path, had in before.items() if had == content]
            raise Broken("lost", f"{self.label(content)} was in {where}, and is in no file after: {done.command} [{done.code}]")
        if said:
            return
        for path, content in sorted(before.items()):
            if after.get(path) == content or content not in world.true:
                continue
            # A content that no sidecar knows, with the size and time of the commit, is no different from rot.
            provable = any(of == content for _, of in own.values())
            same_stamp = world.stamps.get(path) == (stats[path].st_size, stats[path].st_mtime_ns)
            if not provable and same_stamp:
                continue
            now = self.label(after[path]) if path in after else "gone"
            raise Broken("written", f"{path} had {self.label(content)}, and is {now} after: {done.command} [{done.code}]")

    def check_commit(self, done, command, before, after, own, stats):
        """What lzy-protect has committed, if it says so, is true from now on; it is an error if lzy could know better."""
        world = self.world
        if tool_of(command) != "lzy-protect" or done.code != 0 or "--remove" in options_of(command):
            return
        scope = {path: content for path, content in after.items() if self.in_scope(path, paths_of(command))}
        for path, content in scope.items():
            made_for, of = own.get(world.sidecar(path), (None, None))
            stamp = (stats[path].st_size, stats[path].st_mtime_ns) if path in stats else None
            if content in world.true or "--force" in options_of(command):
                continue
            if made_for == path and of == world.committed.get(path) and world.stamps[path] == stamp and before.get(path) == content:
                raise Broken("committed", f"{path} is rotten, its own sidecar knows it, and it is committed by: {command}")
            world.true[content] = f"{path} as committed by advice"
        world.note_commit(scope)
        self.remembered = {sidecar: known for sidecar, known in self.remembered.items() if not self.in_scope(known[0], paths_of(command))}

    def check_claims(self, done, command, before, after):
        world, tool = self.world, tool_of(command)
        if done.code != 0 or tool not in WRITERS or "--remove" in options_of(command):
            return
        for path, content in sorted(after.items()):
            if content not in world.true and before.get(path) != content:
                raise Broken("false", f"{path} got {self.label(content)} by: {command} [0]\n{done.text}")
        if tool == "lzy-protect" or "--dry-run" in options_of(command):
            return
        operands = paths_of(command)
        for path, content in sorted(after.items()):
            if content not in world.true and path in world.committed and self.in_scope(path, operands):
                if os.path.isfile(world.path(world.sidecar(path))):
                    raise Broken("blind", f"{path} has {self.label(content)}, and all is well for: {command} [0]\n{done.text}")
        if "." not in operands:
            return
        for sidecar, (path, content) in sorted(self.remembered.items()):
            if content not in after.values() and os.path.isfile(world.path(sidecar)):
                raise Broken("silent", f"{sidecar}, made for {path}, remembers {self.label(content)}, which is in no file, and all is "
                                       f"well for: {command} [0]\n{done.text}")

    def check_memory(self, done, command, after, said):
        """Sidecars give back what they could, and files count too. A commit replaces what its own names remember."""
        restorable = self.of_sidecars_alone()
        gone = self.restorable - restorable - set(after.values())
        if said:
            gone = set()
        elif tool_of(command) == "lzy-protect":
            gone -= {content for path, content in self.world_names() if self.in_scope(path, paths_of(command))}
        for content in sorted(gone):
            raise Broken("forgotten", f"a sidecar could give back {self.label(content)}, and none can after: {command} [{done.code}]")
        self.restorable = restorable

    def world_names(self):
        """All pairs of a name and a content that the name had at a commit."""
        return list(self.world.sidecars.values())

    def check_states(self, done, said, advised):
        states = self.judge_datasets()
        if advised and not said:
            for path, state in sorted(states.items()):
                was = self.states.get(path)
                if was and GRAVITY[state] > GRAVITY[was]:
                    raise Broken("worse", f"{path} was {was}, and is {state} after: {done.command} [{done.code}]")
        self.states = states

    def follow(self, command, rounds=4, choose=None):
        """Runs a command and what it advises, what that advises, and so on. Without `choose`, always the first step."""
        done = self.run(command)
        for _ in range(rounds):
            steps = next_steps(done.text)
            if not steps:
                return done
            step = choose(steps) if choose else steps[0]
            result = self.run(step, advised=True)
            repeats = step in next_steps(result.text)
            if repeats and result.code not in (5, 6):
                raise Broken("again", f"{step} [{result.code}] advises itself:\n{result.text}")
            asked = self.run(command)
            if result.code == 0 and step in next_steps(asked.text):
                raise Broken("again", f"{step} [0] was followed, and is advised again by: {command} [{asked.code}]\n{asked.text}")
            done = asked if next_steps(asked.text) else result
        return done
