"""Questions in the words of the command line, for the release that rlctl ships."""

from rlctl.capacity.parse_request import RequestParser
from rlctl.capacity.predict import Prediction, predict
from rlctl.capacity.request import MemoryRequest
from rlctl.scripts.release import load_release

STATES = {script.name: script.state for script in load_release().scripts}
PARSER = RequestParser(states=STATES)


def ask(**given: object) -> MemoryRequest:
    return PARSER.parse(given)


def answer(**given: object) -> Prediction:
    return predict(ask(**given), STATES)


def codes(prediction: Prediction) -> set[str]:
    return {warn.code for warn in prediction.warnings}
