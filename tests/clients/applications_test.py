"""Simulation programs of Debian that write checkpoints without MPI-IO (option posix), with and without the layer: the same results and
exit codes, and the checkpoint is protected while the program runs. Then it is damaged and repaired bit for bit, and the program
restarts from it with the same results as from an undamaged one. docs/applications.md has what came of it.

  applications_test.py [CLASS...]   Exits with 77 if all tests were skipped. `scripts/deps --clients` installs the programs.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest

from layered import PATIENCE, Layer

RANKS = 2
# The programs would use a thread for each core, and busy ranks would keep the cores from each other.
ENVIRONMENT = ["OMP_NUM_THREADS=1", "OMPI_MCA_mpi_yield_when_idle=1"]


def why_not(program):
    """Why `program` cannot be tested here, or nothing."""
    path = shutil.which(program)
    if path is None:
        return f"{program} is not installed (scripts/deps --clients)"
    libraries = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    mpi = re.search(r"libmpi\.so\S* => (\S+)", libraries)
    if not mpi or os.path.realpath(mpi[1]) != os.path.realpath(os.environ["HOOKS_TEST_MPI"]):
        return f"{program} is for {mpi[1] if mpi else 'another MPI'}, which is not the MPI of this build"
    return None


class Application(Layer):
    """A program in directories of its own: one for each run."""
    PROGRAM = ""
    OPTIONS = {"posix": "on", "block_size": "4K"}

    def setUp(self):
        reason = why_not(self.PROGRAM)
        if reason:
            self.skipTest(reason)
        super().setUp()
        self.root = self.dir
        self.enter("bare")

    def enter(self, name):
        self.dir = os.path.join(self.root, name)
        os.makedirs(self.dir, exist_ok=True)

    def copy_to(self, name):
        """A directory with all that is in this one."""
        shutil.copytree(self.dir, os.path.join(self.root, name))

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run_application(self, command, ranks=RANKS, codes=(0,), **options):
        """Runs it; its output. The layer says nothing. `codes`: the exit codes that are right."""
        done = self.run_program(["env", *ENVIRONMENT, *command], ranks=ranks, **options)
        self.assertIn(done.returncode, codes, done.stdout[-2000:] + done.stderr)
        self.assertNotIn("lzy", done.stderr)
        return done.stdout

    def is_protected(self, names):
        return all(self.verify(name) == 0 for name in names)

    def assert_protected_meanwhile(self, names, command, stop, **options):
        """`names` are found protected while the program runs, and after `stop` has ended it. Its output."""
        result = []
        running = threading.Thread(target=lambda: result.append(self.run_application(command, **options)))
        running.start()
        end = time.monotonic() + PATIENCE
        protected = False
        while not protected and running.is_alive() and time.monotonic() < end:
            protected = self.is_protected(names) and running.is_alive()
            time.sleep(0.1)
        stop()
        running.join()
        self.assertTrue(protected, f"{names} were not found protected while the program ran")
        self.assertTrue(result, "the program failed")
        self.assert_protected(names)
        return result[0]

    def assert_protected(self, names):
        for name in names:
            done = self.run_tool("lzy-verify", name)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_repaired(self, name):
        """One byte in the middle of a single file is flipped, and comes back."""
        before = self.content(name)
        self.damage(name, len(before) // 2)
        self.assertNotEqual(self.verify(name), 0)
        done = self.run_tool("lzy-verify", "--quiet", "--repair", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.content(name), before)

    def assert_restored(self, pattern, lost):
        """A member of a set is removed, and comes back."""
        before = self.content(lost)
        os.remove(self.path(lost))
        done = self.run_tool("lzy-restore", "--quiet", pattern)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.content(lost), before)

    def assert_same_files(self, names, one, other):
        for name in names:
            contents = []
            for directory in (one, other):
                with open(os.path.join(self.root, directory, name), "rb") as file:
                    contents.append(file.read())
            self.assertEqual(contents[0], contents[1], f"{name} in {one} and {other}")

    def hold(self):
        """A shell script for programs that can run one: it waits for release()."""
        self.write("hold.sh", "touch STEP\nuntil [ -e GO ]; do sleep 0.1; done\n")

    def release(self):
        self.write("GO", "")


class Gromacs(Application):
    """state_stepN.cpt is written and renamed to state.cpt, of which a copy is kept as state_prev.cpt."""
    PROGRAM = "gmx_mpi"
    SIDE = 6  # atoms
    PROTECTED = ("state.cpt", "state_prev.cpt")

    def prepare(self):
        places = [(x, y, z) for x in range(self.SIDE) for y in range(self.SIDE) for z in range(self.SIDE)]
        atoms = [f"{i:5d}AR      AR{i:5d}" + "".join(f"{0.4 * one + 0.1:8.3f}" for one in place) for i, place in enumerate(places, 1)]
        self.write("conf.gro", "\n".join(["argon", str(len(atoms)), *atoms, f"{0.4 * self.SIDE:10.5f}" * 3]) + "\n")
        self.write("topol.top", "[ defaults ]\n1 1 no 1.0 1.0\n[ atomtypes ]\nAR AR 39.948 0.0 A 0.00622127 9.69576e-06\n"
                   "[ moleculetype ]\nAR 1\n[ atoms ]\n1 AR 1 AR AR 1 0.0 39.948\n[ system ]\nargon\n"
                   f"[ molecules ]\nAR {len(atoms)}\n")
        self.write("grompp.mdp", "integrator = md\ndt = 0.002\nnsteps = 60\nnstlist = 10\nrvdw = 0.9\nrcoulomb = 0.9\nrlist = 1.0\n"
                   "verlet-buffer-tolerance = -1\ngen-vel = yes\ngen-temp = 90\ngen-seed = 7\n")
        self.run_application(["gmx_mpi", "grompp", "-nobackup", "-quiet"], ranks=1, layer=False)

    RUN = ["gmx_mpi", "mdrun", "-quiet", "-nobackup", "-reprod", "-ntomp", "1", "-nb", "cpu", "-cpt"]
    OFTEN = [*RUN, "0"]  # a checkpoint at every search for neighbours
    LONG = [*RUN, "0.02", "-nsteps", "-1", "-maxh", "0.004"]  # minutes between checkpoints; hours

    def test_it(self):
        self.prepare()
        self.copy_to("layered")
        self.copy_to("long")
        self.run_application(self.OFTEN, layer=False)
        self.enter("layered")
        options = {**self.OPTIONS, "include": "*.cpt"}
        self.run_application(self.OFTEN, **options)
        self.assert_same_files(("confout.gro",), "bare", "layered")
        self.assert_protected(self.PROTECTED)
        self.assertEqual(sorted(name for name in self.files() if name.startswith(".LZY.")), [f".LZY.{name}" for name in self.PROTECTED])
        self.copy_to("undisturbed")
        for name in self.PROTECTED:
            self.assert_repaired(name)
        again = [*self.OFTEN, "-cpi", "state.cpt", "-nsteps", "100"]
        self.run_application(again, **options)
        self.assert_protected(self.PROTECTED)
        self.enter("undisturbed")
        self.run_application(again, layer=False)
        self.assert_same_files(("confout.gro",), "layered", "undisturbed")
        self.enter("long")
        self.assert_protected_meanwhile(("state.cpt",), self.LONG, lambda: None, **options)


class Lammps(Application):
    """fwrite: one file by rank 0, or one for each rank beside one with what they have in common."""
    PROGRAM = "lmp"
    START = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287
"""
    RUN = """pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 10
thermo_style custom step temp epair etotal press
"""

    @staticmethod
    def thermo(output):
        """The lines of numbers."""
        return [line.split() for line in output.splitlines() if re.fullmatch(r" *\d+( +-?[\d.e+-]+){4} *", line)]

    def life(self, restarts, read, protected, damage, **options):
        options = {**self.OPTIONS, **options}
        self.write("in.first", self.START + self.RUN + f"{restarts}\nrun 40\nshell sh hold.sh\nrun 10\n")
        self.write("in.again", f"read_restart {read}\n{self.RUN}{restarts}\nrun 20\n")
        self.hold()
        self.copy_to("layered")
        first, again = ([self.PROGRAM, "-log", "none", "-in", f"in.{name}"] for name in ("first", "again"))
        self.release()
        bare = self.run_application(first, layer=False)
        self.enter("layered")
        layered = self.assert_protected_meanwhile(protected, first, self.release, **options)
        self.assertTrue(self.thermo(bare))
        self.assertEqual(self.thermo(bare), self.thermo(layered))
        self.assert_same_files([name for name in self.files() if not name.startswith(".LZY.")], "bare", "layered")
        self.assert_protected(protected)
        self.copy_to("undisturbed")
        damage()
        layered = self.run_application(again, **options)
        self.assert_protected(protected)
        self.enter("undisturbed")
        bare = self.run_application(again, layer=False)
        self.assertTrue(self.thermo(bare))
        self.assertEqual(self.thermo(bare), self.thermo(layered))

    def test_one_file(self):
        self.life("restart 20 step.*.restart", "step.40.restart", ("step.20.restart", "step.40.restart"),
                  lambda: self.assert_repaired("step.40.restart"), include="*.restart")

    def test_two_files_in_turn(self):
        self.life("restart 20 a.restart b.restart", "b.restart", ("a.restart", "b.restart"),
                  lambda: self.assert_repaired("b.restart"), include="*.restart")

    def damage_members(self):
        self.assert_restored("part.40.%r", "part.40.1")
        self.assert_repaired("part.40.base")

    def test_a_file_for_each_rank(self):
        self.life("restart 20 part.*.%", "part.40.%", ("part.20.%r", "part.40.%r", "part.20.base", "part.40.base"), self.damage_members,
                  set="part.*.%r", include="part.*")


class QuantumEspresso(Application):
    """Fortran: rank 0 writes a directory with charge density and wave functions, and each rank its wave functions."""
    PROGRAM = "pw.x"
    PROTECTED = ("out/h2.save/charge-density.dat", "out/h2.save/wfc1.dat", "out/h2.save/data-file-schema.xml", "out/h2.md")

    def prepare(self, steps):
        self.write("ld1.in", "&input\n title='H', zed=1.0, rel=0, config='1s1', iswitch=3, dft='PZ' /\n"
                   "&inputp\n lloc=0, pseudotype=1, file_pseudopw='H.UPF', tm=.true. /\n1\n1S 1 0 1.00 0.00 0.8 0.8 0.0\n")
        self.run_application(["ld1.x", "-in", "ld1.in"], ranks=1, layer=False)
        self.input("first", "from_scratch", steps)

    def input(self, name, mode, steps):
        self.write(f"{name}.in", f"&control\n calculation='md', restart_mode='{mode}', prefix='h2', outdir='out', pseudo_dir='.', dt=5.0,"
                   f" nstep={steps}, disk_io='medium' /\n&system\n ibrav=1, celldm(1)=6.0, nat=2, ntyp=1, ecutwfc=8.0, nosym=.true. /\n"
                   "&electrons\n conv_thr=1e-8 /\n&ions\n /\nATOMIC_SPECIES\nH 1.008 H.UPF\n"
                   "ATOMIC_POSITIONS bohr\nH 0.0 0.0 0.0\nH 0.0 0.0 1.5\nK_POINTS gamma\n")

    @staticmethod
    def energies(output):
        return [line.split("=")[1] for line in output.splitlines() if line.startswith("!")]

    def run_input(self, name, **options):
        return self.run_application(["pw.x", "-in", f"{name}.in"], **options)

    def test_it(self):
        options = {**self.OPTIONS, "include": "charge-density.dat:wfc*.dat:data-file-schema.xml:h2.md"}
        self.prepare(2)
        self.copy_to("layered")
        self.copy_to("long")
        bare = self.run_input("first", layer=False)
        self.enter("layered")
        layered = self.run_input("first", **options)
        self.assertEqual(len(self.energies(bare)), 2)
        self.assertEqual(self.energies(bare), self.energies(layered))
        self.assert_same_files(("out/h2.save/charge-density.dat", "out/h2.save/wfc1.dat", "out/h2.md"), "bare", "layered")
        self.assert_protected(self.PROTECTED)
        self.input("again", "restart", 4)
        self.copy_to("undisturbed")
        for name in self.PROTECTED:
            self.assert_repaired(name)
        layered = self.run_input("again", **options)
        self.assert_protected(self.PROTECTED)
        self.enter("undisturbed")
        self.assertTrue(self.energies(layered))
        self.assertEqual(self.energies(self.run_input("again", layer=False)), self.energies(layered))
        self.enter("long")
        self.input("first", "from_scratch", 1000)
        # The program ends with these codes if it is asked to stop, with and without the layer.
        self.assert_protected_meanwhile(self.PROTECTED[:1], ["pw.x", "-in", "first.in"], lambda: self.write("out/h2.EXIT", ""),
                                        codes=(2, 255), **options)


class Cp2k(Application):
    """Fortran: rank 0 renames the last restart files to the ones before."""
    PROGRAM = "cp2k.psmp"
    PROTECTED = ("h2-1.restart", "h2-1.restart.bak-1", "h2-RESTART.wfn", "h2-RESTART.wfn.bak-1", "h2-RESTART.wfn.bak-2")
    INPUT = """&GLOBAL
  PROJECT h2
  RUN_TYPE MD
  PRINT_LEVEL LOW
&END GLOBAL
{restart}
&MOTION
  &MD
    ENSEMBLE NVE
    STEPS {steps}
    TIMESTEP 0.5
    TEMPERATURE 100
  &END MD
  &PRINT
    &RESTART
      BACKUP_COPIES 1
      &EACH
        MD 1
      &END EACH
    &END RESTART
  &END PRINT
&END MOTION
&FORCE_EVAL
  METHOD Quickstep
  &DFT
    BASIS_SET_FILE_NAME GTH_BASIS_SETS
    POTENTIAL_FILE_NAME GTH_POTENTIALS
    &MGRID
      CUTOFF 60
    &END MGRID
    &SCF
      EPS_SCF 1e-6
      SCF_GUESS {guess}
    &END SCF
    &XC
      &XC_FUNCTIONAL PADE
      &END XC_FUNCTIONAL
    &END XC
  &END DFT
  &SUBSYS
    &CELL
      ABC 4.0 4.0 4.0
    &END CELL
    &COORD
      H 0 0 0
      H 0 0 0.76
    &END COORD
    &KIND H
      BASIS_SET SZV-GTH
      POTENTIAL GTH-PADE-q1
    &END KIND
  &END SUBSYS
&END FORCE_EVAL
"""

    def input(self, name, steps, restart="", guess="ATOMIC"):
        self.write(f"{name}.inp", self.INPUT.format(steps=steps, restart=restart, guess=guess))

    @staticmethod
    def command(name):
        return ["env", "CP2K_DATA_DIR=/usr/share/cp2k", "cp2k.psmp", "-i", f"{name}.inp"]

    @staticmethod
    def energies(output):
        return re.findall(r"Total FORCE_EVAL .* (\S+)$", output, re.MULTILINE)

    def test_it(self):
        options = {**self.OPTIONS, "include": "*.restart*:*RESTART*"}
        self.input("first", 2)
        self.input("again", 1, "&EXT_RESTART\n  RESTART_FILE_NAME h2-1.restart\n&END EXT_RESTART", "RESTART")
        self.copy_to("layered")
        self.copy_to("long")
        bare = self.run_application(self.command("first"), layer=False)
        self.enter("layered")
        layered = self.run_application(self.command("first"), **options)
        self.assertEqual(len(self.energies(bare)), 3)
        self.assertEqual(self.energies(bare), self.energies(layered))
        self.assert_same_files(("h2-RESTART.wfn", "h2-RESTART.wfn.bak-1"), "bare", "layered")
        self.assert_protected(self.PROTECTED)
        self.copy_to("undisturbed")
        for name in self.PROTECTED:
            self.assert_repaired(name)
        layered = self.run_application(self.command("again"), **options)
        self.assert_protected(self.PROTECTED)
        self.enter("undisturbed")
        self.assertTrue(self.energies(layered))
        self.assertEqual(self.energies(self.run_application(self.command("again"), layer=False)), self.energies(layered))
        self.enter("long")
        self.input("first", 100000)
        self.assert_protected_meanwhile(("h2-1.restart.bak-1",), self.command("first"), lambda: self.write("EXIT", ""), **options)


class Nwchem(Application):
    """Fortran: rank 0 writes the vectors of the molecule, and C the data base of the run, which stays open."""
    PROGRAM = "nwchem.openmpi"
    PROTECTED = ("perm/h2.movecs", "perm/h2.db")

    @staticmethod
    def energies(output):
        return re.findall(r"Total SCF energy = *(\S+)", output)

    def test_it(self):
        options = {**self.OPTIONS, "include": "*.movecs:*.db"}
        head = "permanent_dir ./perm\nscratch_dir ./scratch\nmemory total 200 mb\n"
        self.write("first.nw", f"start h2\n{head}geometry units angstrom\n H 0 0 0\n H 0 0 0.8\nend\nbasis\n H library sto-3g\nend\n"
                   'task scf energy\ntask shell "sh hold.sh"\n')
        self.write("again.nw", f"restart h2\n{head}task scf gradient\n")
        for name in ("perm", "scratch"):
            os.mkdir(self.path(name))
        self.hold()
        self.copy_to("layered")
        self.release()
        bare = self.run_application([self.PROGRAM, "first.nw"], layer=False)
        self.enter("layered")
        layered = self.assert_protected_meanwhile(self.PROTECTED[:1], [self.PROGRAM, "first.nw"], self.release, **options)
        self.assertTrue(self.energies(bare))
        self.assertEqual(self.energies(bare), self.energies(layered))
        self.assert_protected(self.PROTECTED)
        self.copy_to("undisturbed")
        for name in self.PROTECTED:
            self.assert_repaired(name)
        layered = self.run_application([self.PROGRAM, "again.nw"], **options)
        self.assert_protected(self.PROTECTED)
        self.enter("undisturbed")
        self.assertTrue(self.energies(layered))
        self.assertEqual(self.energies(self.run_application([self.PROGRAM, "again.nw"], layer=False)), self.energies(layered))


if __name__ == "__main__":
    program = unittest.main(exit=False)
    skipped = len(program.result.skipped) == program.result.testsRun
    sys.exit(77 if skipped else not program.result.wasSuccessful())
