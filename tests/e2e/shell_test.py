"""calibctl in a shell: completion scripts, manual pages, the help command, and misspelt words.

    shell_test.py CALIBD CALIBCTL
"""
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402

CALIBCTL = pathlib.Path(sys.argv.pop(2)).resolve()
CALIBD = pathlib.Path(sys.argv.pop(1)).resolve()

# Prints what a shell offers for a command line whose last word is completed.
BASH = """
source <(calibctl completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_calibctl
printf '%s\\n' "${COMPREPLY[@]}"
"""
# zsh has no line without a terminal, so the function that bashcompinit calls is called as in bash. zsh
# itself then leaves out what does not begin as the last word does.
ZSH = """
source <(calibctl completion zsh)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
last=$@[-1]
emulate -L ksh
_calibctl
emulate -L zsh
print -l -- "${(M)COMPREPLY[@]:#$last*}"
"""
FISH = "calibctl completion fish | source; complete -C (string join ' ' -- $argv)"


class ShellTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.environment = dict(os.environ, PATH=f"{CALIBCTL.parent}:{os.environ['PATH']}",
                               CALIBD_SERVER="127.0.0.1:1")

    def run_it(self, *command, code=0, **more):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=60, check=False, env=dict(self.environment, **more))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def offered(self, shell, *words, **more):
        scripts = {"bash": ("bash", "-c", BASH, "bash"), "zsh": ("zsh", "-fc", ZSH, "zsh"),
                   "fish": ("fish", "--no-config", "-c", FISH)}
        lines = self.run_it(*scripts[shell], "calibctl", *words, **more).splitlines()
        # fish adds a description after a tab.
        return [line.partition("\t")[0].strip() for line in lines if line.strip()]

    def test_shells_complete_commands_options_values_and_models(self):
        with CalibdServer(CALIBD) as server:
            self.run_it(CALIBCTL, "model", "create", "resnet18", "--classes", "10",
                        CALIBD_SERVER=server.grpc)
            for shell in ("bash", "zsh", "fish"):
                if not shutil.which(shell):
                    continue
                with self.subTest(shell):
                    self.assertEqual(self.offered(shell, "sh"), ["show"])
                    self.assertEqual(self.offered(shell, "model", "cre"), ["create"])
                    self.assertIn("--fail-on", self.offered(shell, "show", "--fail"))
                    self.assertIn("--server", self.offered(shell, "show", "--ser"))
                    self.assertEqual(self.offered(shell, "--output", "j"), ["json"])
                    self.assertEqual(self.offered(shell, "list", "--output", "ta"), ["table"])
                    for words in (("show",), ("model", "delete"), ("compare", "other"),
                                  ("evaluate", "--model")):
                        self.assertEqual(
                            self.offered(shell, *words, "res", CALIBD_SERVER=server.grpc),
                            ["resnet18"], words)

    def test_a_server_that_is_away_completes_no_model(self):
        self.assertEqual(self.offered("bash", "show", "no-such-file"), [])

    def test_each_command_has_a_manual_page_without_warnings(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_it(CALIBCTL, "man-pages", folder)
            pages = {page.name for page in pathlib.Path(folder).iterdir()}
            self.assertLessEqual({"calibctl.1", "calibctl-show.1", "calibctl-model-create.1"}, pages)
            for page in pathlib.Path(folder).iterdir():
                warnings = self.run_it("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", page,
                                       MANPAGER="true", LC_ALL="C.UTF-8")
                self.assertNotIn("warning", warnings, page)
            text = self.run_it("man", "-l", pathlib.Path(folder) / "calibctl-show.1", MANPAGER="cat",
                               LC_ALL="C.UTF-8", MANWIDTH="100")
            self.assertIn("calibctl-show - Show the verdict on a model", text)
            self.assertIn("--fail-on", text)

    def test_help_names_a_command(self):
        self.assertEqual(self.run_it(CALIBCTL, "help", "show"), self.run_it(CALIBCTL, "show", "--help"))
        self.assertEqual(self.run_it(CALIBCTL, "help", "model", "create"),
                         self.run_it(CALIBCTL, "model", "create", "--help"))
        self.assertEqual(self.run_it(CALIBCTL, "help"), self.run_it(CALIBCTL, "--help"))
        self.assertIn('did you mean "show"?', self.run_it(CALIBCTL, "help", "shwo", code=2))

    def test_help_lists_related_options_by_name(self):
        lists = re.findall(r"(?:Needs|Excludes):((?: --\S+)+)", self.run_it(CALIBCTL, "help", "model", "create"))
        self.assertTrue(any(len(names.split()) > 1 for names in lists), lists)
        for names in lists:
            self.assertEqual(names.split(), sorted(names.split()))

    def test_misspelt_words_are_named_with_what_was_meant(self):
        self.assertIn('unknown command "shwo"; did you mean "show"?',
                      self.run_it(CALIBCTL, "shwo", code=2))
        self.assertIn("unknown option --fial-on; did you mean --fail-on?",
                      self.run_it(CALIBCTL, "show", "m", "--fial-on", "x", code=2))
        self.assertIn("unknown option --sever; did you mean --server?",
                      self.run_it(CALIBCTL, "show", "m", "--sever=h:1", code=2))
        self.assertIn("unknown option --nothing-like-it\n",
                      self.run_it(CALIBCTL, "show", "m", "--nothing-like-it", code=2))

    def on_a_terminal(self, *command, **more):
        """The output of calibctl on a pseudo terminal."""
        ours, theirs = pty.openpty()
        environment = {name: value for name, value in self.environment.items()
                       if name not in ("NO_COLOR", "CLICOLOR_FORCE")}
        process = subprocess.Popen([str(CALIBCTL), *command], stdin=subprocess.DEVNULL, stdout=theirs,
                                   env={**environment, "TERM": "xterm", "COLUMNS": "100", **more})
        os.close(theirs)
        shown = b""
        with open(ours, "rb", buffering=0) as terminal:
            try:
                while data := terminal.read(4096):
                    shown += data
            except OSError:
                pass  # The other side is closed.
        self.assertEqual(process.wait(60), 0)
        return shown.decode().replace("\r\n", "\n")

    def test_statuses_have_colours_on_a_terminal_only(self):
        with CalibdServer(CALIBD) as server:
            at = {"CALIBD_SERVER": server.grpc}
            self.run_it(CALIBCTL, "model", "create", "m", "--classes", "2", **at)
            for command in (("list",), ("show", "m"), ("alarms", "m")):
                with self.subTest(command):
                    plain = self.run_it(CALIBCTL, *command, COLUMNS="100", **at)
                    self.assertNotIn("\x1b", plain)
                    colored = self.on_a_terminal(*command, **at)
                    self.assertEqual("\x1b[" in colored, command[0] != "alarms")
                    # A colour takes no column, and says nothing that the words do not.
                    uncolored = self.on_a_terminal(*command, NO_COLOR="1", **at)
                    self.assertNotIn("\x1b", uncolored)
                    self.assertEqual(re.sub(r"\x1b\[\d+m", "", colored), uncolored)
                    self.assertNotIn("\x1b", self.on_a_terminal(*command, TERM="dumb", **at))
            self.assertIn("\x1b[33mINSUFFICIENT_DATA\x1b[0m", self.on_a_terminal("show", "m", **at))
            self.assertIn("\x1b[33mINSUFFICIENT_DATA\x1b[0m",
                          self.run_it(CALIBCTL, "show", "m", CLICOLOR_FORCE="1", **at))
            self.assertNotIn("\x1b", self.run_it(CALIBCTL, "show", "m", "--output", "json",
                                                 CLICOLOR_FORCE="1", **at))

    def test_a_wrong_address_says_which_port_is_meant(self):
        told = self.run_it(CALIBCTL, "--server", "http://127.0.0.1:8461", "list", code=2)
        self.assertIn("expected HOST:PORT of gRPC, such as 127.0.0.1:8460", told)
        with CalibdServer(CALIBD) as server:
            told = self.run_it(CALIBCTL, "--server", server.http.removeprefix("http://"), "--timeout", 5,
                               "list", code=1)
            self.assertIn("answers HTTP, not gRPC", told)


if __name__ == "__main__":
    unittest.main()
