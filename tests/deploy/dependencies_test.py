#!/usr/bin/env python3
"""Shows where deploy/dependencies puts what it downloads. `id` is a stand-in, so that the test need not be root."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/dependencies"
ROOT, USER = 0, 1000
FOR_ALL = "/var/cache/latentd/dependencies"


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.own = f"{self.home}/.cache/latentd/dependencies"

    def folder(self, user, **environment):
        stand_in = self.home / "bin/id"
        stand_in.parent.mkdir(exist_ok=True)
        stand_in.write_text(f"#!/bin/sh\necho {user}\n")
        stand_in.chmod(0o755)
        everything = {"PATH": f"{stand_in.parent}:/usr/bin:/bin", **(environment or {"HOME": str(self.home)})}
        return subprocess.run([SCRIPT, "--print-folder"], capture_output=True, text=True, check=True, env=everything).stdout.strip()

    def test_a_users_is_in_its_cache(self):
        self.assertEqual(self.folder(USER), self.own)

    def test_roots_is_where_other_users_can_read_it(self):
        self.assertEqual(self.folder(ROOT), FOR_ALL)

    def test_what_root_has_already_stays_in_use(self):
        pathlib.Path(self.own).mkdir(parents=True)
        self.assertEqual(self.folder(ROOT), FOR_ALL)
        pathlib.Path(self.own, "libtorch").mkdir()
        self.assertEqual(self.folder(ROOT), self.own)

    def test_a_folder_that_is_named_is_taken(self):
        """Without a home, too."""
        for user in (ROOT, USER):
            self.assertEqual(self.folder(user, LATENTD_DEPENDENCIES="/mine"), "/mine")
            self.assertEqual(self.folder(user, XDG_CACHE_HOME="/else"), "/else/latentd/dependencies")


if __name__ == "__main__":
    unittest.main()
