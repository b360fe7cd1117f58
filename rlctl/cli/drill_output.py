"""How a drill's run is told in a terminal."""

from rlctl.cli.output import Output
from rlctl.drills.report import text
from rlctl.drills.report.values import Document


def show_run(output: Output, run: Document) -> None:
    """The verdict first, what was claimed, what was seen."""
    for line in text.heading(run):
        output.line(line)
    output.line("")
    output.table(text.EXPECTED_HEADERS, text.expected_rows(run))
    output.line("")
    output.table(text.FIGURE_HEADERS, text.figure_rows(run))
    output.line("")
    for line in text.closing(run):
        output.line(line)
    output.line("")
