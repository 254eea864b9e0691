"""What a training prints, logs and warns belongs to its attempt; nothing else does."""

import logging
import sys

from study.attempt_log import MOST_CHARACTERS, AttemptLog


def test_prints_errors_and_records_are_taken_in_order(capsys):
    log = AttemptLog()
    with log.listening():
        sys.stdout.write("printed\n")
        sys.stderr.write("to the error stream\n")
        logging.getLogger("library").warning("logged")
    sys.stdout.write("afterwards\n")
    lines = log.taken().splitlines()
    assert lines == ["printed", "to the error stream", "WARNING library: logged"]
    assert capsys.readouterr().out == "printed\nafterwards\n"  # and where it would have gone


def test_what_is_taken_is_taken_once():
    log = AttemptLog()
    with log.listening():
        sys.stdout.write("first\n")
        assert log.taken() == "first\n"
        sys.stdout.write("second\n")
    assert log.taken() == "second\n"
    assert log.taken() == ""


def test_what_the_receiver_of_an_event_prints_is_not_the_training_s():
    log = AttemptLog()
    with log.listening(), log.deaf():
        sys.stdout.write("progress of the launch\n")
    assert log.taken() == ""


def test_of_very_much_the_end_is_kept():
    log = AttemptLog()
    with log.listening():
        sys.stdout.write("x" * (MOST_CHARACTERS + 9) + "end\n")
    text = log.taken()
    assert text.startswith("[13 characters left out]\n")
    assert text.endswith("end\n")
