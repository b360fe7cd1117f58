"""Reports of drill runs: an HTML page, text for a terminal, JUnit XML.

Pure: `colours`, `html`, `junit`, `labels`, `latency`, `notes`, `overview`, `slope`, `spans`, `targets`, `text`,
`timeline`, `values`, `words`.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from rlctl.drills.report.values import Document
from rlctl.lab.run_folder import RunFolder
from rlctl.system.files import write_private


def write_report(folder: RunFolder, run: Document, series: Document) -> Path:
    """Write the page of a run into its folder; returns its path."""
    # Import the templates and plots only here, because their import takes longer than most commands.
    from rlctl.drills.report.html import page  # noqa: PLC0415

    write_private(folder.report, page(run, series))
    return folder.report


def write_overview(path: Path, runs: Sequence[Document]) -> Path:
    """Write the page of several runs, with links to the pages of the runs; returns its path."""
    from rlctl.drills.report.html import overview  # noqa: PLC0415  likewise

    links = {run["id"]: Path(os.path.relpath(run["report"], path.parent)).as_posix() for run in runs if run["report"]}
    write_private(path, overview(runs, links))
    return path
