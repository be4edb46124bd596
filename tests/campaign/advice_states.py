"""Random directories of protected files, and what happens to them: backups, renames, losses, rot, edits."""

import os
import random
import shlex
import shutil

from advice_world import SECOND, World, is_sidecar

LONG_AGO = 1_600_000_000 * SECOND
SIZES = (300, 3000, 3000, 5000, 65536, 65537, 70000, 200000)
SET_NAMES = ("s.%r", "n.%r", "ck.0.%r", "ck.1.%r", "p.%02r", "node%r/state", "t%r.dat")


def q(*paths):
    return " ".join(shlex.quote(path) for path in paths)


def member(pattern, rank):
    return pattern.replace("%02r", f"{rank:02}").replace("%r", str(rank))


class State:
    """One random state. `skip_files` and `skip_events` make a smaller one of it."""

    def __init__(self, bin_directory, seed, skip_files=(), skip_events=()):
        self.world = World(bin_directory, seed)
        self.random = self.world.random
        self.shared, self.sets = [], {}  # paths; pattern: members
        self.kept = {}                   # older versions of sidecars and files, as the user may have copied them away
        self.events = []                 # names of those that happened
        self.lay_out(set(skip_files))
        self.protect()
        for index in range(self.random.choice((1, 1, 2, 2, 3))):
            # Each event has its own random choices, so that it stays the same if others are left out.
            chosen = random.Random(f"{seed} {index}")
            if index not in skip_events:
                self.happen(chosen)

    # The beginning.

    def lay_out(self, skip):
        world, rng = self.world, self.random
        directories = rng.choice(([""], [""], ["a/"], ["a/", "b/"], ["x y/"]))
        sizes = rng.sample(SIZES, rng.choice((1, 1, 2, 3)))
        times = rng.choice(("equal", "equal", "each", "now"))
        names = [rng.choice(directories) + name for name in rng.sample(["f", "g", "h", "i.dat", "j", "k", "l 1", "m"], rng.randint(3, 8))]
        files = [(name, None) for name in names]
        for pattern in rng.sample(SET_NAMES, rng.choice((0, 1, 1, 2, 2))):
            pattern = rng.choice(directories) + pattern
            members = [member(pattern, rank) for rank in range(rng.randint(2, 6))]
            files += [(name, pattern) for name in members]
        self.layout = [name for name, _ in files]
        for index, (name, pattern) in enumerate(files):
            size, seconds = rng.choice(sizes), rng.randint(1, 100000)
            content = rng.randbytes(size)
            if pattern is None and name in skip or pattern in skip:
                continue
            world.write(name, content, {"equal": LONG_AGO, "each": LONG_AGO + seconds * SECOND}.get(times))
            if pattern is None:
                self.shared.append(name)
            else:
                self.sets.setdefault(pattern, []).append(name)
        self.unprotected = self.shared.pop() if len(self.shared) > 3 and rng.random() < 0.2 else None
        if rng.random() < 0.4:
            world.log.append("# so that files get inodes that were used before")
            world.must("tar cf ../t.tar . && find . -mindepth 1 -delete && tar xf ../t.tar && rm ../t.tar")
        self.skippable = list(self.shared) + list(self.sets)

    def protect(self):
        rng = self.random
        for pattern in self.sets:
            self.protect_set(pattern, rng.choice(("", "", "", " --parity 2", " --block-size 4K")))
        if self.shared:
            self.protect_files(self.shared, rng.choice(("", "", "", " --block-size 4K")))
        if rng.random() < 0.3:
            self.second_version(rng)

    def protect_set(self, pattern, options=""):
        if options == " --parity 2" and len(self.sets[pattern]) < 4:
            options = ""
        self.world.protect(q(pattern) + options, self.sets[pattern])

    def protect_files(self, paths, options=""):
        self.world.protect(q(*paths) + options, paths)

    def second_version(self, rng):
        """Everything is edited and committed again. The user has the older version."""
        world = self.world
        for path, full in list(world.walk()):
            with open(full, "rb") as file:
                about = os.stat(full)
                self.kept[path] = (file.read(), about.st_mtime_ns)
        world.log.append("# the user keeps a copy of all files and sidecars")
        for path in [path for path in self.kept if not is_sidecar(path)]:
            size = len(self.kept[path][0])
            world.write(path, rng.randbytes(size if rng.random() < 0.7 else size + 100), self.kept[path][1] + 10 * SECOND)
        for pattern in self.sets:
            self.protect_set(pattern)
        if self.shared:
            self.protect_files(self.shared)

    # What may be hit.

    def data(self):
        return sorted(self.world.files())

    def beside(self):
        return sorted(path for path, _ in self.world.walk() if is_sidecar(path))

    def pairs(self, rng):
        """Two files, mostly of one kind."""
        files = self.data()
        one = rng.choice(files)
        like = [path for path in files if path != one and os.stat(self.world.path(path)).st_size == os.stat(self.world.path(one)).st_size]
        others = like if like and rng.random() < 0.8 else [path for path in files if path != one]
        return (one, rng.choice(others)) if others else (one, one)

    # Events.

    def happen(self, rng):
        events = [name for name in dir(self) if name.startswith("event_")]
        for _ in range(20):
            name = rng.choice(events)
            if not self.data() and name != "event_scrub_first":
                return
            self.world.log.append(f"# {name[6:].replace('_', ' ')}")
            if getattr(self, name)(rng) is not False:
                self.events.append(name[6:])
                return
            self.world.log.pop()

    def sh(self, command):
        self.world.must(command)

    def event_tar(self, _rng):
        self.sh("tar cf ../t.tar . && find . -mindepth 1 -delete && tar xf ../t.tar && rm ../t.tar")

    def event_tar_of_the_data(self, _rng):
        """The sidecars stay where they are."""
        self.sh("tar cf ../t.tar --exclude='.LZY*' . && find . -type f ! -name '.LZY*' -delete && tar xf ../t.tar && rm ../t.tar")

    def event_cp_r(self, _rng):
        self.sh("cp -r . ../kept && find . -mindepth 1 -delete && cp -r ../kept/. . && rm -rf ../kept")

    def event_cp_a(self, _rng):
        self.sh("cp -a . ../kept && find . -mindepth 1 -delete && cp -a ../kept/. . && rm -rf ../kept")

    def event_rsync(self, _rng):
        if shutil.which("rsync") is None:
            return False
        self.sh("rsync -a ./ ../kept/ && find . -mindepth 1 -delete && rsync -a ../kept/ ./ && rm -rf ../kept")
        return None

    def event_single_files_by_cp_a(self, rng):
        """In another order, so that inodes go to other files."""
        files = self.data() + (self.beside() if rng.random() < 0.5 else [])
        rng.shuffle(files)
        files = files[:rng.randint(1, len(files))]
        copies = " && ".join(f"cp -a {q('../kept/' + path)} {q(path)}" for path in files)
        self.sh(f"cp -a . ../kept && rm {q(*['./' + path for path in files])} && {copies} && rm -rf ../kept")

    def event_copy_over_another(self, rng):
        one, other = self.pairs(rng)
        if one == other:
            return False
        self.sh(f"cp {rng.choice(('-a ', '-a ', ''))}{q(one, other)}")
        return None

    def event_move_to_another_file_system_and_back(self, rng):
        elsewhere = self.world.other_file_system()
        if elsewhere is None:
            return False
        whole = rng.random() < 0.5
        for path in self.data() + self.beside() if whole else [rng.choice(self.data())]:
            self.sh(f"mv {q(path)} {elsewhere}/moved && mv {elsewhere}/moved {q(path)}")
        return None

    def swap(self, one, other):
        self.sh(f"mv {q(one)} between && mv {q(other, one)} && mv between {q(other)}")

    def event_swap_names(self, rng):
        one, other = self.pairs(rng)
        if one == other:
            return False
        self.swap(one, other)
        if rng.random() < 0.3:
            sidecars = [self.world.sidecar(path) for path in (one, other)]
            if all(os.path.exists(self.world.path(path)) for path in sidecars):
                self.swap(*sidecars)
        return None

    def event_swap_two_sets(self, _rng):
        if len(self.sets) < 2:
            return False
        one, other = list(self.sets)[:2]
        for left, right in zip(self.sets[one], self.sets[other]):
            if not all(os.path.isfile(self.world.path(path)) for path in (left, right)):
                return False
        for left, right in zip(self.sets[one], self.sets[other]):
            self.swap(left, right)
        return None

    def event_rename(self, rng):
        path = rng.choice(self.data())
        new = path + ".old"
        self.sh(f"mv {q(path, new)}")
        sidecar = self.world.sidecar(path)
        if rng.random() < 0.4 and os.path.exists(self.world.path(sidecar)):
            self.sh(f"mv {q(sidecar, self.world.sidecar(new))}")

    def event_rotate(self, rng):
        files = self.data()
        if len(files) < 3:
            return False
        a, b, c = rng.sample(files, 3)
        self.sh(f"mv {q(b, c)} && mv {q(a, b)}")
        if rng.random() < 0.5:
            self.world.write_random(a, rng.choice(SIZES))
        return None

    def event_exchange_sidecars(self, rng):
        sidecars = self.beside()
        if len(sidecars) < 2:
            return False
        self.swap(*rng.sample(sidecars, 2))
        return None

    def event_older_sidecars(self, rng):
        return self.put_back(rng, [path for path in self.kept if is_sidecar(path)])

    def event_older_files(self, rng):
        return self.put_back(rng, [path for path in self.kept if not is_sidecar(path)])

    def event_older_all(self, rng):
        chosen = [path for path in self.kept if not is_sidecar(path)]
        if not chosen:
            return False
        path = rng.choice(chosen)
        return self.put_back(rng, [name for name in (path, self.world.sidecar(path)) if name in self.kept], everything=True)

    def put_back(self, rng, paths, everything=False):
        world = self.world
        paths = [path for path in paths if os.path.isdir(os.path.dirname(world.path(path)))]
        if not paths:
            return False
        for path in sorted(paths if everything else rng.sample(sorted(paths), rng.randint(1, len(paths)))):
            if os.path.lexists(world.path(path)) and not os.path.isfile(world.path(path)):
                continue
            content, mtime = self.kept[path]
            with open(world.path(path), "wb") as file:
                file.write(content)
            os.utime(world.path(path), ns=(mtime, mtime))
            world.log.append(f"cp -a ../kept/{path} {path}  # the older version")
        return None

    def event_hard_link(self, rng):
        path = rng.choice(self.data())
        if rng.random() < 0.5:
            if os.path.lexists(self.world.path(path + ".link")):
                return False
            self.sh(f"ln {q(path, path + '.link')}")
            return None
        one, other = self.pairs(rng)
        if one == other:
            return False
        self.sh(f"ln -f {q(one, other)}")
        return None

    def event_symbolic_link(self, rng):
        path = rng.choice(self.data())
        name = os.path.basename(path)
        if rng.random() < 0.7:
            self.sh(f"mv {q(path, path + '.real')} && ln -s {q(name + '.real', path)}")
        else:
            self.sh(f"mv {q(path)} ../real-{q(name)} && ln -s {q(os.path.join(self.world.scratch, 'real-' + name), path)}")

    def event_other_owner(self, rng):
        if os.geteuid() != 0:
            return False
        paths = self.data() + self.beside()
        self.sh(f"chown {rng.choice(('nobody', 'daemon:daemon'))} {q(*['./' + path for path in rng.sample(paths, rng.randint(1, len(paths)))])}")
        return None

    def event_mode(self, rng):
        self.sh(f"chmod {rng.choice(('600', '444', '400'))} {q(rng.choice(self.data()))}")

    def event_delete_file(self, rng):
        self.sh(f"rm {q(rng.choice(self.data()))}")

    def event_delete_member(self, rng):
        members = [path for paths in self.sets.values() for path in paths if os.path.isfile(self.world.path(path))]
        if not members:
            return False
        self.sh(f"rm {q(rng.choice(members))}")
        return None

    def event_delete_with_sidecar(self, rng):
        path = rng.choice(self.data())
        self.sh(f"rm -rf {q(path, self.world.sidecar(path))}")

    def event_delete_sidecar(self, rng):
        sidecars = self.beside()
        if not sidecars:
            return False
        self.sh(f"rm {q(*rng.sample(sidecars, min(len(sidecars), rng.choice((1, 1, 2)))))}")
        return None

    def event_cut_sidecar(self, rng):
        sidecars = self.beside()
        if not sidecars:
            return False
        self.sh(f"truncate -s {rng.choice((0, 100, 4096, 6000))} {q(rng.choice(sidecars))}")
        return None

    def event_rot_in_sidecar(self, rng):
        sidecars = self.beside()
        if not sidecars:
            return False
        path = rng.choice(sidecars)
        self.rot(path, rng)
        return None

    def event_rot(self, rng):
        self.rot(rng.choice(self.data()), rng)

    def rot(self, path, rng):
        size = os.stat(self.world.path(path)).st_size
        if size:
            self.world.flip(path, rng.randrange(size), rng.choice((1, 1, 100)))

    def event_rot_truncates(self, rng):
        world, path = self.world, rng.choice(self.data())
        about = os.stat(world.path(path))
        os.truncate(world.path(path), rng.choice((0, about.st_size // 2)))
        os.utime(world.path(path), ns=(about.st_atime_ns, about.st_mtime_ns))
        world.log.append(f"rot: {path} is cut to {os.stat(world.path(path)).st_size} bytes, its times do not change")

    def event_edit(self, rng):
        world, path = self.world, rng.choice(self.data())
        old = world.read(path)
        at = rng.randrange(len(old)) if old else 0
        world.write(path, old[:at] + rng.randbytes(rng.choice((1, 100, 5000))) + old[at + 100:])

    def event_replace_by_rename(self, rng):
        world, path = self.world, rng.choice(self.data())
        world.write(path + ".new", rng.randbytes(len(world.read(path))))
        self.sh(f"mv {q(path + '.new', path)}")

    def event_append(self, rng):
        world, path = self.world, rng.choice(self.data())
        world.write(path, world.read(path) + rng.randbytes(rng.choice((1, 1000, 70000))))

    def event_cut(self, rng):
        world, path = self.world, rng.choice(self.data())
        world.write(path, world.read(path)[:rng.choice((0, 100, 4096))])

    def event_touch(self, rng):
        paths = self.data()
        self.sh(f"touch {q(*rng.sample(paths, rng.randint(1, len(paths))))}")

    def event_new_member(self, rng):
        if not self.sets:
            return False
        pattern = rng.choice(list(self.sets))
        new = member(pattern, len(self.sets[pattern]))
        if os.path.lexists(self.world.path(new)):
            return False
        self.world.write_random(new, rng.choice(SIZES))
        return None

    def event_exchange_members(self, rng):
        if not self.sets:
            return False
        members = [path for path in rng.choice(list(self.sets.values())) if os.path.isfile(self.world.path(path))]
        if len(members) < 2:
            return False
        self.swap(*rng.sample(members, 2))
        return None

    def event_something_else_in_its_place(self, rng):
        path = rng.choice(self.data() + self.beside())
        kind = rng.choice(("mkdir {}", "mkfifo {}", "ln -s /nowhere {}", f"echo outside > ../outside && ln -s {q(self.world.scratch)}/outside {{}}"))
        keep = rng.random() < 0.5
        self.sh((f"mv {q(path, path + '.aside')}" if keep else f"rm {q(path)}") + " && " + kind.format(q(path)))

    def event_edit_and_commit(self, rng):
        """With other damage present, the commit may be refused; that is fine."""
        world, path = self.world, rng.choice(self.data())
        if path not in self.shared or not os.path.isfile(world.path(world.sidecar(path))):
            return False
        world.write(path, rng.randbytes(len(world.read(path)) + 10))
        if world.run(f"lzy-protect -q {q(path)}").code == 0:
            world.note_commit({path: world.files()[path]})
        return None
