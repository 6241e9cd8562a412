"""The runner of conversations fails when a conversation does not hold."""

import pathlib
import socket
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run  # noqa: E402


def answering(answers):
    """connect() to a peer that sends one answer for each recv, then closes when it is asked to (None) or at the end."""
    def connect():
        ours, theirs = socket.socketpair()
        ours.settimeout(5)

        def serve():
            with theirs:
                for answer in answers:
                    if not theirs.recv(65536) or answer is None:
                        return
                    theirs.sendall(answer)
                while theirs.recv(65536):
                    pass
        threading.Thread(target=serve, daemon=True).start()
        return run.Connection(ours, 0)
    return connect


class Conversations(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            return run.conversation_read(pathlib.Path(file.name))

    def play(self, text, *answers):
        run.conversation_play(self.read(text)[1], answering(answers), None)

    def test_what_is_expected_holds(self):
        self.play("> PING\n< +PONG\n", b"+PONG\r\n")
        self.play("> PING\n<~ .P\\w+\n", b"+PONG\r\n")
        self.play(">> x\\r\\n\n<!\n", None)

    def test_another_answer_fails(self):
        with self.assertRaisesRegex(run.Wrong, "line 2.*expected"):
            self.play("> PING\n< +PONG\n", b"+PANG\r\n")
        with self.assertRaisesRegex(run.Wrong, "does not match"):
            self.play("> PING\n<~ :\\d+\n", b"+PONG\r\n")

    def test_an_answer_that_goes_on_fails(self):
        with self.assertRaisesRegex(run.Wrong, "not expected"):
            self.play("> PING\n< +PONG\n", b"+PONG\r\n+PONG\r\n")

    def test_a_close_that_is_not_expected_fails(self):
        with self.assertRaises(run.Wrong):
            self.play("> PING\n< +PONG\n", None)

    def test_a_close_that_does_not_come_fails(self):
        ours, theirs = socket.socketpair()
        ours.settimeout(0.2)
        with theirs, self.assertRaisesRegex(run.Wrong, "nothing more"):
            run.conversation_play(self.read("> PING\n<!\n")[1], lambda: run.Connection(ours, 0), None)

    def test_lines_that_mean_nothing_are_refused(self):
        for text in ("PING\n< +PONG\n", "> \n< x\n", "+ counter\n< x\n", "<? x\n", ">> \\q\n< x\n", "> PING\n"):
            with self.assertRaises(run.Wrong, msg=text):
                self.read(text)

    def test_words_and_escapes(self):
        self.assertEqual(run.request('SET k "a b\\x00\\n"'), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na b\0\n\r\n")
        self.assertEqual(run.unescape("\\{ab*3}\\\\"), b"ababab\\")


if __name__ == "__main__":
    unittest.main()
