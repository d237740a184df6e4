"""Is everything on the disk before it counts? Read from the trace of one undisturbed command.

    write f … fsync f … rename f g … fsync the folder of g

A rename shows what stands behind the old name: its bytes, and the names in it if it is a folder,
must have reached the disk; then the new name must. SQLite's journal must be there before its
database is changed, and the database before the journal goes. Paths under a name that begins with
".partial-", ".lock" or ".owner" count for nothing until they are renamed.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath as Path

CALLS = "openat,write,pwrite64,fsync,fdatasync,rename,unlink,mkdir,ftruncate,sync_file_range"
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
_HANDLE = re.compile(r"^\d+<([^>]*)>")
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
JOURNAL = "-journal"


@dataclass
class Disk:
    """What has not reached the disk yet: bytes of files, names in folders."""

    root: str
    files: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # new names, by their paths
    shown: list[str] = field(default_factory=list)  # names given by a rename
    journals: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """One line of strace's."""
        found = _LINE.match(line)
        if not found or int(found[3]) < 0:
            return
        act = getattr(self, f"_{found[1]}", None)
        if act is not None:
            act(found[2], line)

    def _openat(self, words: str, line: str) -> None:
        names = _NAME.findall(words)
        if names and "O_CREAT" in words and self._ours(names[0]):
            self._made(names[0])
            if names[0].endswith(JOURNAL):
                self.journals.add(names[0])

    def _mkdir(self, words: str, line: str) -> None:
        name = _NAME.findall(words)[0]
        if self._ours(name):
            self._made(name)

    def _write(self, words: str, line: str) -> None:
        path = self._handle(words)
        if path and self._ours(path):
            journal = path + JOURNAL
            if journal in self.journals and journal in self.files:
                self._say(f"{path} is changed before its journal is on the disk")
            if path.endswith(".db"):
                late = [f for f in self.files if "/artefacts/" in f]
                if late:
                    self._say(f"{path} is changed before {late[0]} is on the disk")
            self.files.add(path)

    _pwrite64 = _ftruncate = _write

    def _fsync(self, words: str, line: str) -> None:
        path = self._handle(words)
        self.files.discard(path)
        self.names = {name for name in self.names if str(Path(name).parent) != path}

    def _fdatasync(self, words: str, line: str) -> None:
        self.files.discard(self._handle(words))

    def _unlink(self, words: str, line: str) -> None:
        name = _NAME.findall(words)[0]
        if name in self.journals:
            self.journals.discard(name)
            if name.removesuffix(JOURNAL) in self.files:
                self._say(f"{name} goes before its database is on the disk")
        self.files.discard(name)
        self.names.discard(name)

    def _rename(self, words: str, line: str) -> None:
        old, new = _NAME.findall(words)[:2]
        if not self._ours(new):
            return
        if not _passing(new):
            below = [f for f in self.files if f == old or f.startswith(old + "/")]
            inside = [f for f in self.names if f.startswith(old + "/")]
            for late in below + inside:
                self._say(f"{new} is shown before {late} is on the disk")
            self.shown.append(new)
        for kept in (self.files, self.names, self.journals):
            moved = {p for p in kept if p == old or p.startswith(old + "/")}
            kept -= moved
            kept |= {new + p[len(old) :] for p in moved}
        self.names.discard(old)
        self.names.add(new)

    def end(self) -> list[str]:
        """What was shown must have its name on the disk, and those of the folders around it."""
        wanted = {name for new in self.shown for name in (new, *map(str, Path(new).parents))}
        for name in sorted(wanted & self.names):
            self._say(f"the name {name} is not on the disk at the end")
        for path in self.files:
            if not _passing(path):
                self._say(f"{path} is not on the disk at the end")
        return self.problems

    def _made(self, name: str) -> None:
        self.names.add(name)

    def _ours(self, name: str) -> bool:
        return name.startswith(self.root)

    def _handle(self, words: str) -> str:
        found = _HANDLE.match(words)
        return found[1].removesuffix("(deleted)") if found else ""

    def _say(self, problem: str) -> None:
        self.problems.append(problem.replace(self.root, ""))


def _passing(name: str) -> bool:
    """Under a name that counts for nothing."""
    last = Path(name).name
    return (
        last.startswith((".partial-", ".owner"))
        or last.endswith((".lock", JOURNAL))
        or any(part.startswith((".partial-", ".locks", ".downloads")) for part in Path(name).parts)
    )


def judged(trace: str, root: str) -> Disk:
    """The whole trace; `problems` must be empty, `shown` must not."""
    disk = Disk(root)
    for line in trace.splitlines():
        disk.take(line)
    disk.end()
    return disk
